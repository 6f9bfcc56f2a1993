/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The owner of a listener is that of the connections that it accepts, until a process uses them.
 *
 * Most listeners are the only one at their port and address: they are in a hash by port and namespace, and each new connection is looked up there.
 * What others leave to their connections is stored with their sockets, and the kernel copies that to each connection. Such a copy costs the
 * connection two allocations: half as much as all programs together, so that it is only for listeners that share a port (SO_REUSEPORT), that
 * have the same port at another address or device, or that the kernel finds a port for.
 *
 * When inet_csk_clone_lock() of net/ipv4/inet_connection_sock.c reports a new connection it is a copy of its listener; kernels may have filled
 * its address and its device in already.
 */
#pragma once

struct sock_common___inherit {
	u8 skc_reuseport : 1;
} KERNEL;

struct listener {
	u64 sock;
	u64 address[2]; /* IPv4 mapped into IPv6 */
	u32 family, device;
	struct actor owner;
};
/* Kernels before 5.11 do not let programs at tracepoints store with sockets, and those of the other object are older. They also allocate all
 * elements of a hash in advance. */
#ifdef BY_PROBE_READ
struct map listeners SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct listener), 1024, 0};
#else
struct map listeners SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct listener), 4096, MAP_NO_PREALLOC};
struct map stored_owners SEC("maps") = {MAP_TYPE_SOCKET_STORAGE, sizeof(u32), sizeof(struct actor), 0, MAP_NO_PREALLOC | MAP_CLONE};
#endif

/* Where a listener, or a connection that it has made just now, is in `listeners`; 0: nowhere. The upper 16 bits of each address of the kernel are the
 * same. */
INLINE u64 key_of_listener(u64 sk)
{
	u16 port = swapped(GET(u16, sk, inet_sock___live, inet_sport));

	if (!port || (u32)BITS(sk, sock_common___inherit, skc_reuseport) || protocol_of(sk) != PROTOCOL_TCP)
		return 0;
	return GET(u64, sk, sock_common, skc_net) << 16 | port;
}

INLINE void take_address(u64 address[2], u64 sk, u32 family)
{
	if (family == AF_INET6_) {
		u64 ours = sk + AT(sock_common, skc_v6_rcv_saddr);
		address[0] = LOAD(u64, ours);
		address[1] = LOAD(u64, ours + 8);
	} else {
		address[0] = 0;
		address[1] = 0xffff0000ull | GET(u64, sk, sock_common, skc_addrpair) >> 32 << 32;
	}
}

/* The current process listens. */
INLINE void leave_to_children(void *sock, u64 sk, const struct actor *owner)
{
#ifndef BY_PROBE_READ
	/* It has listened before. */
	struct actor *stored = storage_of(&stored_owners, sock, NULL, 0);
	if (stored) {
		*stored = *owner;
		return;
	}
#endif
	/* The kernel looks for a port after this. */
	u64 key = GET(u32, sk, sock_common, skc_portpair) >> 16 ? key_of_listener(sk) : 0;
	if (key) {
		struct listener made = {.sock = sk, .owner = *owner};
		made.family = GET(u16, sk, sock_common, skc_family);
		made.device = GET(u32, sk, sock_common, skc_bound_dev_if);
		take_address(made.address, sk, made.family);
		if (!map_update(&listeners, &key, &made, 1 /* BPF_NOEXIST */))
			return;
	}
#ifndef BY_PROBE_READ
	stored = storage_of(&stored_owners, sock, NULL, STORAGE_CREATE);
	if (stored)
		*stored = *owner;
#endif
}

INLINE void take_from_listener(struct actor *owner, void *sock, u64 sk)
{
#ifndef BY_PROBE_READ
	struct actor *stored = storage_of(&stored_owners, sock, NULL, 0);
	if (stored) {
		*owner = *stored;
		return;
	}
#endif
	u64 key = key_of_listener(sk), address[2];
	struct listener *found = key ? map_lookup(&listeners, &key) : NULL;
	u32 family = GET(u16, sk, sock_common, skc_family);
	if (!found || found->family != family || (found->device && found->device != GET(u32, sk, sock_common, skc_bound_dev_if)))
		return;
	take_address(address, sk, family);
	u64 any = family == AF_INET6_ ? 0 : 0xffff0000ull;
	/* One that is older than the watch may have the same port at another address. */
	if ((found->address[0] || found->address[1] != any) &&
	    (found->address[0] != address[0] || found->address[1] != address[1]))
		return;
	*owner = found->owner;
}

INLINE void forget_listener(u64 sk)
{
	u64 key = key_of_listener(sk);
	struct listener *found = key ? map_lookup(&listeners, &key) : NULL;

	if (found && found->sock == sk)
		map_delete(&listeners, &key);
}
