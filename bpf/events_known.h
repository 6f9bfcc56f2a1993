/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What is known of connections and listeners from their beginning on, by the address of the socket.
 *
 * Each is in one of two slots of an array, which its address chooses, or, if both are taken, in a hash. A hash has a lock and an allocation for each
 * connection, and costs three times as much. The kernel holds a socket's lock while it changes the socket's state, so that only the
 * taking of a slot, which others may want as well, has to be atomic.
 */
#pragma once

#ifdef BY_PROBE_READ
/* Older kernels allocate its elements in advance: without that they may not be made here. */
struct map known_sockets SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct known_socket), 65536, 0};

INLINE struct known_socket *known_socket_of(u64 sk)
{
	return map_lookup(&known_sockets, &sk);
}

INLINE int remember(u64 sk, const struct known_socket *made)
{
	if (map_update(&known_sockets, &sk, made, 0))
		count_untracked(UNTRACKED_SOCKETS);
	return 0;
}

INLINE int forget(u64 sk)
{
	map_delete(&known_sockets, &sk);
	return 0;
}
#else
struct map known_sockets SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct known_socket), 1 << 20, MAP_NO_PREALLOC};

struct socket_slot {
	u64 sock;     /* 0: it is free */
	u64 overflows; /* Of the first of two: how many sockets that choose it are in the hash. */
	struct known_socket of;
};
#define SLOTS_LOG2 13
struct map socket_slots SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct socket_slot), 1 << SLOTS_LOG2, 0};

/* Sockets are aligned to 64 bytes. `nth`: 0 or 1. */
INLINE struct socket_slot *slot_of(u64 sk, u32 nth)
{
	u32 index = ((u32)(sk >> 6) * 0x9e3779b1u >> (32 - SLOTS_LOG2)) ^ nth;
	return map_lookup(&socket_slots, &index);
}

INLINE struct known_socket *known_socket_of(u64 sk)
{
	struct socket_slot *first = slot_of(sk, 0), *second = slot_of(sk, 1);

	if (!first || !second)
		return NULL;
	if (first->sock == sk)
		return &first->of;
	if (second->sock == sk)
		return &second->of;
	return first->overflows ? map_lookup(&known_sockets, &sk) : NULL;
}

INLINE int take_slot(struct socket_slot *slot, u64 sk, const struct known_socket *made)
{
	if (__sync_val_compare_and_swap(&slot->sock, 0, sk))
		return 0;
	slot->of = *made;
	return 1;
}

PART int remember(u64 sk, const struct known_socket *made)
{
	if (!made)
		return 0;
	struct known_socket *before = known_socket_of(sk);
	struct socket_slot *first = slot_of(sk, 0), *second = slot_of(sk, 1);

	if (before) {
		*before = *made;
		return 0;
	}
	if (!first || !second || take_slot(first, sk, made) || take_slot(second, sk, made))
		return 0;
	/* First the count: an interruption may look for it. */
	__sync_fetch_and_add(&first->overflows, 1);
	if (map_update(&known_sockets, &sk, made, 0)) {
		__sync_fetch_and_add(&first->overflows, -1);
		count_untracked(UNTRACKED_SOCKETS);
	}
	return 0;
}

PART int forget(u64 sk)
{
	struct socket_slot *first = slot_of(sk, 0), *second = slot_of(sk, 1);

	if (!first || !second)
		return 0;
	if (first->sock == sk)
		first->sock = 0;
	else if (second->sock == sk)
		second->sock = 0;
	else if (first->overflows && !map_delete(&known_sockets, &sk))
		__sync_fetch_and_add(&first->overflows, -1);
	return 0;
}
#endif

INLINE struct known *known_of(u64 sk)
{
	return (struct known *)known_socket_of(sk);
}

/* --- connections that have ended --- */

/* Whether connections are forgotten when they end, and not when their socket is destroyed: two runs of a program less for each. */
const volatile u32 forgets_at_close = 0;

struct tcp_sock___known {
	s32 linger2;
} KERNEL;

/* Those that a RST may still follow, on each processor: what is known of them is that of the RST. */
#define ENDED_MAX 64
struct ended {
	u64 next, socks[ENDED_MAX];
};
struct map ended_sockets SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), sizeof(struct ended), 1, 0};

/* Forgets a connection when so many others have ended after it. Its address may be that of another one then, which has not ended. */
PART int forget_later(u64 sk)
{
	u32 first = 0;
	struct ended *ended = map_lookup(&ended_sockets, &first);
	struct known *known = known_of(sk);

	if (!ended || !known)
		return 0;
	known->failing |= HAS_ENDED;
	/* An interruption may take the same place, and its connection is forgotten too soon. */
	u64 place = ended->next & (ENDED_MAX - 1), before = ended->socks[place];
	ended->next = place + 1;
	ended->socks[place] = sk;
	struct known *known_before = before ? known_of(before) : NULL;
	if (known_before && known_before->failing & HAS_ENDED)
		forget(before);
	return 0;
}

/* A connection of TCP ends, or a listener. The kernel sends a RST after this state is set where a process closes with unread data, disconnects, or does
 * not wait for the peer's FIN (TCP_LINGER2 below 0): __tcp_close() and tcp_disconnect() of net/ipv4/tcp.c. */
INLINE void forget_ended(u64 sk, u8 old)
{
	u32 is_orphan = GET(u64, sk, sock_common___live, skc_flags) >> SOCK_DEAD & 1;

	if (old == TCP_LISTEN || (is_orphan && !(old == TCP_FIN_WAIT2 && GET(s32, sk, tcp_sock___known, linger2) < 0)))
		forget(sk);
	else
		forget_later(sk);
}
