/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * From a file to a record of its socket, of all protocols but TCP.
 *
 * Only the descriptor keeps such a socket in place: the reader has to check the descriptor again
 * afterwards. While it refers to the same file, its socket is neither freed nor replaced; but its addresses may
 * change meanwhile, so its identity is read first and again last.
 *
 * What sock_diag reports of a socket is described at each family; a socket that sock_diag does not report (a UDP socket
 * without a port, a NETLINK socket without one, an MPTCP socket that never connected) is not reported here either.
 */
#pragma once
#include "socket.h"

/* Bits of files_request.kinds. */
enum socket_kind {
	KIND_UDP = 0,
	KIND_UDPLITE = 1,
	KIND_RAW = 2,
	KIND_MPTCP = 3,
	KIND_UNIX = 4,
	KIND_PACKET = 5,
	KIND_NETLINK = 6,
	KIND_NONE = 31,
};

/* A bit of record.sections, in addition to enum detail: the family's part follows. */
enum { HAS_ENDS = 256 };

/* After the record, and its memory if requested. `name` is as long as necessary, padded to eight bytes. */
struct unix_part {
	u32 peer; /* its inode */
	u8 has_peer, pad;
	u16 name_bytes;
	u8 name[112];
};

/* Likewise. */
struct netlink_part {
	u32 port, peer_port, peer_group, pad;
};

/* What crates/wire/src/fd_sockets.rs and walk/record.rs rely on. */
#define OFFSET(structure, field) __builtin_offsetof(struct structure, field)
_Static_assert(sizeof(struct file_record) == 16 && OFFSET(file_record, more) == 12, "file_record");
_Static_assert(sizeof(struct record) == 128 && OFFSET(record, type) == 125 && OFFSET(record, protocol) == 126, "record");
_Static_assert(sizeof(struct memory) == 40, "memory");
_Static_assert(OFFSET(unix_part, has_peer) == 4 && OFFSET(unix_part, name_bytes) == 6 && OFFSET(unix_part, name) == 8,
	       "unix_part");
_Static_assert(OFFSET(netlink_part, peer_port) == 4 && OFFSET(netlink_part, peer_group) == 8, "netlink_part");
_Static_assert(OFFSET(files_request, kinds) == 40 && OFFSET(files_request, detail) == 44 &&
		       OFFSET(files_request, netns) == 48,
	       "files_request");
_Static_assert(OFFSET(files_reply, jiffies) == 48 && OFFSET(files_reply, ktime_ns) == 56, "files_reply");
_Static_assert(OFFSET(files_slot, reply) == 256 && OFFSET(files_slot, items) == 8192 &&
		       OFFSET(files_slot, records) == 12288,
	       "files_slot");

/* 127 bytes are more than a name has: see MASKED. */
#define SOCKET_BYTES_MAX (sizeof(struct record) + sizeof(struct memory) + OFFSET(unix_part, name) + 128)

/* Result of reading a socket; otherwise the bytes of its record. */
enum { NOT_WANTED = 0, MOVED = -1, FULL_BUFFER = -2 };

#define PACKETS_MAX 4096

enum { AF_UNIX_ = 1, AF_NETLINK_ = 16, AF_PACKET_ = 17 };
enum { SOCK_STREAM_ = 1, SOCK_RAW_ = 3, SOCK_SEQPACKET_ = 5 };
enum { IPPROTO_UDPLITE_ = 136, IPPROTO_MPTCP_ = 262 };

struct mptcp_sock {
	u64 first;
	s32 rmem_fwd_alloc; /* until Linux 6.13 */
} KERNEL;
struct unix_address {
	s32 len;
	u8 name[1]; /* struct sockaddr_un: two bytes of family, then the name */
} KERNEL;
struct unix_sock {
	u64 addr, peer;
	s32 inq_len; /* Linux 6.18 */
} KERNEL;
struct unix_skb_parms {
	u32 consumed;
} KERNEL;
struct sk_buff {
	u64 next;
	u32 len;
	u8 cb[48];
} KERNEL;
struct packet_sock {
	s32 ifindex;
	u16 num; /* big-endian */
} KERNEL;
struct netlink_sock {
	u32 portid, dst_portid, dst_group;
	u8 bound;
} KERNEL;

INLINE u32 inode_of(u64 sk)
{
	u64 socket, inode;
	if (HAS(sock, sk_ino))
		return (u32)GET(u64, sk, sock, sk_ino);
	socket = GET(u64, sk, sock, sk_socket);
	inode = socket + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket);
	return socket ? (u32)GET(u64, inode, inode, i_ino) : 0;
}

/* Where a record is written; the verifier needs the bounds check in each function. */
INLINE struct record *record_of(struct files_slot *s)
{
	NUMBER used = CHECKED(s->reply.used + sizeof(struct file_record));
	if (used > RECORD_BYTES - SOCKET_BYTES_MAX)
		return NULL;
	return (void *)s->records + used;
}

/* Whether sock_diag finds it in a table. */
INLINE int is_hashed(u64 sk)
{
	return GET(u64, sk, sock_common, skc_node.pprev) != 0;
}

/* Fields of every family: the bytes received and waiting to be sent, as most families count them; the user; the
 * memory. */
__attribute__((noinline)) int write_common(u32 number, u64 sk)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct record *r;
	u32 detail;

	if (!s)
		return 0;
	r = record_of(s);
	if (!r)
		return 0;
	detail = s->request.detail;
	if (detail & WANT_QUEUES) {
		r->receive_queue = GET(u32, sk, sock, sk_backlog.rmem_alloc);
		r->send_queue = GET(u32, sk, sock, sk_wmem_alloc) - 1;
	}
	if (detail & WANT_USER)
		take_user(r, sk);
	if (detail & WANT_MEMORY) {
		struct memory *m = (void *)r + sizeof(*r);
		take_memory(m, sk);
		take_drops(m, sk);
	}
	return 0;
}

/* UDP, UDP-Lite, RAW, MPTCP: as inet_sk_diag_fill() of net/ipv4/inet_diag.c and the idiag_get_info() of each. What
 * connection and congestion control of MPTCP report (mptcp_info) is not read. */
__attribute__((noinline)) int write_inet(u32 number, u64 sk, u32 kind)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct identity it;
	struct record *r;
	u32 detail, bytes = sizeof(*r);

	if (!s)
		return FULL_BUFFER;
	r = record_of(s);
	if (!r)
		return FULL_BUFFER;
	detail = s->request.detail & (WANT_QUEUES | WANT_TIMER | WANT_INODE | WANT_USER | WANT_OPTIONS | WANT_MEMORY);
	COPY(s->copy, sock_common, sk);
	identify(&it, sk, s->copy);
	if (kind != KIND_RAW && it.state != TCP_LISTEN && !is_hashed(sk))
		return NOT_WANTED;
	r->state = it.state;
	r->local_port = it.ports >> 16;
	r->peer_port_be = (u16)it.ports;
	take_addresses(r, sk, s->copy, it.addresses);
	r->interface = GET(u32, sk, sock_common, skc_bound_dev_if);
	if (detail & WANT_QUEUES) {
		if (kind == KIND_UDP || kind == KIND_UDPLITE) {
			if (HAS(udp_sock, forward_deficit))
				r->receive_queue -= GET(u32, sk, udp_sock, forward_deficit);
		} else if (kind == KIND_MPTCP && it.state == TCP_LISTEN) {
			u64 first = 0;
			if (HAS(mptcp_sock, first))
				first = GET(u64, sk, mptcp_sock, first);
			if (first)
				take_queues(r, first, TCP_LISTEN);
			else
				detail &= ~WANT_QUEUES;
		}
	}
	r->timer = r->retransmits = 0;
	r->expires_jiffies = 0;
	if (kind == KIND_MPTCP && detail & WANT_TIMER)
		take_timer(r, sk, s->reply.jiffies);
	if (detail & WANT_OPTIONS)
		take_options(r, sk);
	if (detail & WANT_MEMORY) {
		struct memory *m = (void *)r + sizeof(*r);
		if (kind == KIND_MPTCP && HAS(mptcp_sock, rmem_fwd_alloc))
			m->fwd_alloc += GET(u32, sk, mptcp_sock, rmem_fwd_alloc);
		bytes += sizeof(*m);
	}
	r->sections = detail | HAS_ENDS;
	COPY(s->again, sock_common, sk);
	return is_still(&it, sk, s->again) ? (int)bytes : MOVED;
}

STEP one_packet(u64 turn, struct files_context *context)
{
	struct files_slot *s = context->slot;
	u64 packet = s->packet, parameters = packet + AT(sk_buff, cb);

	if (packet == s->packets_end)
		return 1;
	s->packets++;
	s->packets_bytes += GET(u32, packet, sk_buff, len) - GET(u32, parameters, unix_skb_parms, consumed);
	s->packet = GET(u64, packet, sk_buff, next);
	return 0;
}

LOOP(one_packet, PACKETS_MAX / 64, 64)

/* As sk_diag_show_rqlen() of net/unix/diag.c and unix_inq_len() of net/unix/af_unix.c; 0 if unknown: we have no lock on
 * the queue, and it changed meanwhile. */
__attribute__((noinline)) int write_unix_queues(u32 number, u64 sk, u32 type)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct files_context context = { .slot = s, .number = number };
	struct record *r;
	u32 packets;
	u64 first;

	if (!s)
		return 0;
	r = record_of(s);
	if (!r)
		return 0;
	packets = GET(u32, sk, sock, sk_receive_queue.qlen);
	if (GET(u8, sk, sock_common, skc_state) == TCP_LISTEN) {
		r->receive_queue = packets;
		r->send_queue = GET(u32, sk, sock, sk_max_ack_backlog);
		return 1;
	}
	if (type == SOCK_STREAM_ && HAS(unix_sock, inq_len)) {
		r->receive_queue = GET(u32, sk, unix_sock, inq_len);
		return 1;
	}
	r->receive_queue = 0;
	first = GET(u64, sk, sock, sk_receive_queue.next);
	if (first == sk + AT(sock, sk_receive_queue))
		return 1;
	if (!HAS(unix_skb_parms, consumed) || !HAS(sk_buff, len))
		return 0;
	if (type == SOCK_DGRAM_) {
		/* of these only the first counts */
		r->receive_queue = GET(u32, first, sk_buff, len);
		return GET(u64, sk, sock, sk_receive_queue.next) == first;
	}
	s->packets_end = sk + AT(sock, sk_receive_queue);
	s->packets = s->packets_bytes = 0;
	s->packet = first;
	REPEAT(PACKETS_MAX, one_packet, &context);
	r->receive_queue = s->packets_bytes;
	return s->packet == s->packets_end && s->packets == packets &&
	       GET(u64, sk, sock, sk_receive_queue.next) == first &&
	       GET(u32, sk, sock, sk_receive_queue.qlen) == packets;
}

/* As sk_diag_fill() of net/unix/diag.c. `queues`: WANT_QUEUES if they were written before, else 0. */
__attribute__((noinline)) int write_unix(u32 number, u64 sk, u32 queues)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct identity it;
	struct record *r;
	u32 detail, bytes = sizeof(*r);
	u64 name = 0, peer = 0;

	if (!s)
		return FULL_BUFFER;
	r = record_of(s);
	if (!r)
		return FULL_BUFFER;
	detail = queues | (s->request.detail & (WANT_INODE | WANT_USER | WANT_OPTIONS | WANT_MEMORY));
	COPY(s->copy, sock_common, sk);
	identify(&it, sk, s->copy);
	r->state = it.state;
	r->interface = 0;
	if (detail & WANT_OPTIONS)
		r->shutdown = GET(u8, sk, sock, sk_shutdown);
	if (detail & WANT_MEMORY)
		bytes += sizeof(struct memory);
	if (HAS(unix_sock, addr) && HAS(unix_sock, peer) && HAS(unix_address, len)) {
		struct unix_part *part = (void *)r + bytes;
		u32 name_bytes = 0;

		detail |= HAS_ENDS;
		name = GET(u64, sk, unix_sock, addr);
		peer = GET(u64, sk, unix_sock, peer);
		part->has_peer = peer != 0;
		part->pad = 0;
		part->peer = peer ? inode_of(peer) : 0;
		if (name) {
			name_bytes = GET(u32, name, unix_address, len) - 2;
			if (name_bytes > sizeof(part->name))
				return MOVED;
			if (probe_read_kernel(part->name, MASKED(name_bytes, 127), (void *)(name + AT(unix_address, name) + 2)))
				return MOVED;
		}
		part->name_bytes = name_bytes;
		bytes += OFFSET(unix_part, name) + ((name_bytes + 7) & ~7u);
		if (GET(u64, sk, unix_sock, addr) != name || GET(u64, sk, unix_sock, peer) != peer)
			return MOVED;
	}
	r->sections = detail;
	COPY(s->again, sock_common, sk);
	return is_still(&it, sk, s->again) ? (int)bytes : MOVED;
}

/* PACKET: as sk_diag_fill() of net/packet/diag.c. NETLINK: as that of net/netlink/diag.c, which reports no user. The
 * queues of both are the allocated memory. */
__attribute__((noinline)) int write_packet_or_netlink(u32 number, u64 sk, u32 kind)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct record *r;
	u32 detail, bytes = sizeof(*r);

	if (!s)
		return FULL_BUFFER;
	r = record_of(s);
	if (!r)
		return FULL_BUFFER;
	detail = s->request.detail & (WANT_QUEUES | WANT_INODE | WANT_USER | WANT_MEMORY);
	r->state = GET(u8, sk, sock_common, skc_state);
	r->interface = 0;
	if (detail & WANT_MEMORY)
		bytes += sizeof(struct memory);
	if (kind == KIND_PACKET) {
		if (HAS(packet_sock, num) && HAS(packet_sock, ifindex)) {
			detail |= HAS_ENDS;
			r->local_port = swapped(GET(u16, sk, packet_sock, num));
			r->interface = GET(u32, sk, packet_sock, ifindex);
			if (GET(u16, sk, packet_sock, num) != swapped(r->local_port))
				return MOVED;
		}
	} else if (HAS(netlink_sock, portid) && HAS(netlink_sock, dst_portid) && HAS(netlink_sock, dst_group) &&
		   HAS(netlink_sock, bound)) {
		struct netlink_part *part = (void *)r + bytes;
		if (!GET(u8, sk, netlink_sock, bound))
			return NOT_WANTED;
		detail |= HAS_ENDS;
		part->port = GET(u32, sk, netlink_sock, portid);
		part->peer_port = GET(u32, sk, netlink_sock, dst_portid);
		part->peer_group = GET(u32, sk, netlink_sock, dst_group);
		part->pad = 0;
		bytes += sizeof(*part);
		if (GET(u32, sk, netlink_sock, dst_portid) != part->peer_port ||
		    GET(u8, sk, sock_common, skc_state) != r->state)
			return MOVED;
	}
	r->sections = detail;
	return (int)bytes;
}

INLINE u32 kind_of(u16 family, u16 type, u16 protocol)
{
	switch (family) {
	case AF_INET_:
	case AF_INET6_:
		if (type == SOCK_RAW_)
			return KIND_RAW;
		if (protocol == IPPROTO_UDP_)
			return KIND_UDP;
		if (protocol == IPPROTO_UDPLITE_)
			return KIND_UDPLITE;
		return protocol == IPPROTO_MPTCP_ ? KIND_MPTCP : KIND_NONE;
	case AF_UNIX_:
		return KIND_UNIX;
	case AF_PACKET_:
		return KIND_PACKET;
	case AF_NETLINK_:
		return KIND_NETLINK;
	default:
		return KIND_NONE;
	}
}

/* Reads the socket of a file into a record after that of the descriptor. Inline, because functions may not be nested
 * deeper than eight. */
INLINE int write_socket(u32 number, struct files_slot *s, u64 file, u32 inode)
{
	struct record *r = record_of(s);
	u64 socket, sk, net;
	u32 kind, queues = 0;
	u16 family, type, protocol;
	int bytes;

	if (!r)
		return FULL_BUFFER;
	socket = GET(u64, file, file, private_data);
	sk = socket ? GET(u64, socket, socket, sk) : 0;
	if (!sk)
		return NOT_WANTED; /* it is being closed */
	family = GET(u16, sk, sock_common, skc_family);
	type = GET(u16, sk, sock, sk_type);
	protocol = GET(u16, sk, sock, sk_protocol);
	kind = kind_of(family, type, protocol);
	if (!(s->request.kinds >> (kind & 31) & 1))
		return NOT_WANTED;
	net = GET(u64, sk, sock_common, skc_net);
	r->netns = GET(u32, net, net, ns.inum);
	if (s->request.netns && s->request.netns != r->netns)
		return NOT_WANTED;
	r->kind = FULL_SOCKET;
	r->family = family;
	r->type = (u8)type;
	r->protocol = protocol;
	r->sock = sk;
	r->cookie = GET(u64, sk, sock_common, skc_cookie);
	r->bucket = 0;
	r->inode = inode;
	r->needs_diag = 0;
	write_common(number, sk);
	if (kind == KIND_UNIX) {
		if (s->request.detail & WANT_QUEUES && write_unix_queues(number, sk, type))
			queues = WANT_QUEUES;
		bytes = write_unix(number, sk, queues);
	} else if (kind == KIND_PACKET || kind == KIND_NETLINK) {
		bytes = write_packet_or_netlink(number, sk, kind);
	} else {
		bytes = write_inet(number, sk, kind);
	}
	if (bytes <= 0)
		return bytes;
	r->bytes = (u16)bytes;
	if (GET(u64, file, file, private_data) != socket || GET(u64, socket, socket, sk) != sk)
		return MOVED;
	return bytes;
}

/* Most of the time is spent waiting for memory. What eight descriptors refer to is prefetched at once, a step for all
 * of them and then the next: when they are read, it is in the cache. */
#ifndef BY_PROBE_READ
INLINE void warm(volatile struct files_slot *s, const u64 *files)
{
	u64 at[8];

#pragma unroll
	for (u32 place = 0; place < 8; place++) {
		u64 file = WHOLE(files[place]);
		u64 is_socket = OF(file, file, f_op) == s->request.socket_operations;
		at[place] = OF(file, file, private_data) & -is_socket;
	}
#pragma unroll
	for (u32 place = 0; place < 8; place++)
		at[place] = GET(u64, at[place], socket, sk);
#pragma unroll
	for (u32 place = 0; place < 8; place++) {
		u64 sk = WHOLE(at[place]);
		s->warmed = OF(sk, sock_common, skc_family) + OF(sk, sock, sk_type);
	}
}
#endif
