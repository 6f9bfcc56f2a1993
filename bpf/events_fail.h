/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Why an open failed where its socket does not say it when it fails: the error is of the connect() that is still to return, of a
 * subflow of MPTCP, or of an ICMP message that the process has taken by SO_ERROR.
 */
#pragma once

struct sk_buff___fail {
	u64 sk, head;
	u16 network_header;
} KERNEL;
struct sock___fail {
	s32 sk_err_soft;
} KERNEL;

/* Errors that are known of connections before they fail, by their socket. Each is deleted when its connection fails or is established:
 * `failing` of what is known of it says that there is one. */
struct map open_errors SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(s32), 4096, 0};

PART int keep_open_error(u64 sk, s32 error)
{
	struct known *known = known_of(sk);

	if (!known)
		return 0;
	if (map_update(&open_errors, &sk, &error, 0))
		count_untracked(UNTRACKED_ERRORS);
	else
		known->failing |= FAILURE_HAS_ERROR;
	return 0;
}

/* The connection that was begun last on each processor. Its SYN can be rejected before connect() has let go of it. */
struct map opening_socket SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), sizeof(u64), 1, 0};

INLINE void note_opening(u64 sk)
{
	u32 first = 0;
	u64 *opening = map_lookup(&opening_socket, &first);
	if (opening)
		*opening = sk;
}

/* include/uapi/asm-generic/errno.h */
enum {
	E_NONET = 64,
	E_NOPROTOOPT = 92,
	E_OPNOTSUPP = 95,
	E_ADDRNOTAVAIL = 99,
	E_NETUNREACH = 101,
	E_CONNREFUSED = 111,
	E_HOSTDOWN = 112,
	E_HOSTUNREACH = 113,
};

/* The error of a connection that fails; `error`: that of its socket. */
PART s32 error_of_open(u64 sk, s32 error)
{
	if (error)
		return error;
	error = GET(s32, sk, sock___fail, sk_err_soft);
	if (error)
		return error;
	s32 *known = map_lookup(&open_errors, &sk);
	if (known)
		return *known;
	/* tcp_v4_connect() and tcp_v6_connect() give up before anything is sent: no port is free for this peer. A process
	 * that closes a socket shuts it down first. */
	if (protocol_of(sk) == PROTOCOL_TCP && GET(u8, sk, sock_common, skc_state) == TCP_SYN_SENT &&
	    !GET(u8, sk, sock, sk_shutdown) && !GET(u32, sk, tcp_sock, segs_out))
		return E_ADDRNOTAVAIL;
	return 0;
}

/* A connection of MPTCP fails because its subflow does, a moment later and without its error. */
PART int subflow_fails(u64 connection, u64 sk, u32 resets)
{
	struct known *known = known_of(connection);
	s32 error = error_of_open(sk, GET(s32, sk, sock___live, sk_err));

	if (!known || known->opened)
		return 0;
	known->resets |= (u8)resets;
	if (error)
		keep_open_error(connection, error);
	return 0;
}

INLINE void subflow_has_failed(u64 sk, const struct known *known)
{
	u64 connection = connection_of_subflow(sk);
	if (connection)
		subflow_fails(connection, sk, known ? known->resets : 0);
}

/* net/ipv4/icmp.c: icmp_err_convert[] */
INLINE s32 error_of_icmp(u32 code)
{
	switch (code) {
	case 0:
	case 6:
	case 9:
	case 11:
		return E_NETUNREACH;
	case 2:
		return E_NOPROTOOPT;
	case 3:
		return E_CONNREFUSED;
	case 5:
		return E_OPNOTSUPP;
	case 7:
		return E_HOSTDOWN;
	case 8:
		return E_NONET;
	default:
		return E_HOSTUNREACH;
	}
}

enum { ICMP_DEST_UNREACH = 3, ICMP_TIME_EXCEEDED = 11 };

/* Whether a packet of IPv4 comes from the address and the port of a connection. */
INLINE int is_from(u64 skb, u64 sk)
{
	u64 at = GET(u64, skb, sk_buff___fail, head) + GET(u16, skb, sk_buff___fail, network_header);
	u8 first = LOAD(u8, at);
	u32 source = LOAD(u32, at + 12);

	return first >> 4 == 4 && LOAD(u8, at + 9) == PROTOCOL_TCP && GET(u16, sk, sock_common, skc_family) == 2 &&
	       source == (u32)(GET(u64, sk, sock_common, skc_addrpair) >> 32) &&
	       LOAD(u16, at + (first & 15) * 4) == GET(u16, sk, inet_sock___live, inet_sport);
}

/* The SYN is rejected: by a rule of this host, or by a router or a bridge that is another network namespace of it, as of every container. There
 * the packet does not name its socket, but it is still connect() that sends it. The answer arrives while connect() has the socket, and is left for
 * SO_ERROR, which forgets it. */
SEC("tp_btf/icmp_send")
int packet_is_rejected(u64 *args)
{
	u64 skb = args[0], sk = GET(u64, skb, sk_buff___fail, sk);
	u32 type = (u32)args[1], code = (u32)args[2], first = 0;

	if (type == ICMP_DEST_UNREACH ? code == 4 : type != ICMP_TIME_EXCEEDED)
		return 0;
	if (!sk) {
		u64 *opening = map_lookup(&opening_socket, &first);
		if (!opening || !*opening || !known_of(*opening) || !is_from(skb, *opening))
			return 0;
		sk = *opening;
	}
	if (GET(u8, sk, sock_common, skc_state) == TCP_SYN_SENT)
		keep_open_error(sk, type == ICMP_DEST_UNREACH ? error_of_icmp(code) : E_HOSTUNREACH);
	return 0;
}
