/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * From a kernel's socket to a record.
 */
#pragma once
#include "tables.h"

enum { AF_INET_ = 2, AF_INET6_ = 10 };
enum { TCP_ESTABLISHED = 1, TCP_TIME_WAIT = 6, TCP_CLOSE = 7, TCP_LISTEN = 10, TCP_NEW_SYN_RECV = 12, TCP_SYN_RECV = 3, TCP_BOUND_INACTIVE = 13 };

/* The id of the first cgroup. */
#define ROOT_CGROUP 1

enum { SOCK_DGRAM_ = 2, IPPROTO_UDP_ = 17 };

/* The identity of a socket: read first, and again last. */
struct identity {
	u64 addresses;
	u32 ports, hash;
	u8 state;
};

/* `copy`: of the socket's struct sock_common, made just before. */
INLINE void identify(struct identity *it, u64 sk, u8 *copy)
{
	it->addresses = COPIED(u64, copy, sk, sock_common, skc_addrpair);
	it->ports = COPIED(u32, copy, sk, sock_common, skc_portpair);
	it->hash = COPIED(u32, copy, sk, sock_common, skc_hash);
	it->state = COPIED(u8, copy, sk, sock_common, skc_state);
}

/* Whether the socket is still the same. */
INLINE int is_still(const struct identity *it, u64 sk, u8 *again)
{
	return COPIED(u64, again, sk, sock_common, skc_addrpair) == it->addresses &&
	       COPIED(u32, again, sk, sock_common, skc_portpair) == it->ports &&
	       COPIED(u32, again, sk, sock_common, skc_hash) == it->hash &&
	       COPIED(u8, again, sk, sock_common, skc_state) == it->state;
}

#ifdef BY_PROBE_READ
/* Reads what is wanted of a network namespace, unless it is the one before: within a run none becomes another one. */
INLINE void know_net(struct slot *s, u64 net)
{
	if (net != s->net) {
		s->net_inode = GET(u32, net, net, ns.inum);
		s->net_hash_mix = GET(u32, net, net, hash_mix);
		s->net = net;
	}
}
#define NETNS_OF(s, net)                        \
	({                                      \
		know_net(s, net);               \
		(s)->net_inode;                 \
	})
#else
#define NETNS_OF(s, net) GET(u32, net, net, ns.inum)
#endif

/* 0 for a timer that is due. */
INLINE s32 jiffies_until(u64 expires, u64 now)
{
	s64 left = (s64)(expires - now);
	return left < 0 ? 0 : (s32)left;
}

/* As inet_sk_diag_fill() of net/ipv4/inet_diag.c: what the kernel calls the socket's timer. */
INLINE void take_timer(struct record *r, u64 sk, u64 now)
{
	u8 pending = GET(u8, sk, inet_connection_sock, icsk_pending);
	u64 expires;
	u64 keepalive, keepalive_expires;
	/* Timers have moved between structs, in some kernels one but not yet the other. */
	if (HAS(inet_connection_sock, icsk_timeout))
		expires = GET(u64, sk, inet_connection_sock, icsk_timeout);
	else if (HAS(sock, tcp_retransmit_timer))
		expires = GET(u64, sk, sock, tcp_retransmit_timer.expires);
	else
		expires = GET(u64, sk, inet_connection_sock, icsk_retransmit_timer.expires);
	if (HAS(inet_connection_sock, icsk_keepalive_timer)) {
		keepalive = GET(u64, sk, inet_connection_sock, icsk_keepalive_timer.entry.pprev);
		keepalive_expires = GET(u64, sk, inet_connection_sock, icsk_keepalive_timer.expires);
	} else {
		keepalive = GET(u64, sk, sock, sk_timer.entry.pprev);
		keepalive_expires = GET(u64, sk, sock, sk_timer.expires);
	}
	/* enum of include/net/inet_connection_sock.h: RETRANS 1, PROBE0 3, LOSS_PROBE 5, REO_TIMEOUT 6 */
	if (pending == 1 || pending == 5 || pending == 6) {
		r->timer = 1;
		r->retransmits = GET(u8, sk, inet_connection_sock, icsk_retransmits);
	} else if (pending == 3) {
		r->timer = 4;
		r->retransmits = GET(u8, sk, inet_connection_sock, icsk_probes_out);
	} else if (keepalive) {
		r->timer = 2;
		r->retransmits = GET(u8, sk, inet_connection_sock, icsk_probes_out);
		expires = keepalive_expires;
	} else {
		r->timer = 0;
		r->retransmits = 0;
		expires = now;
	}
	r->expires_jiffies = jiffies_until(expires, now);
}

INLINE void take_queues(struct record *r, u64 sk, u8 state)
{
	if (state == TCP_LISTEN) {
		r->receive_queue = GET(u32, sk, sock, sk_ack_backlog);
		r->send_queue = GET(u32, sk, sock, sk_max_ack_backlog);
	} else {
		u32 received = GET(u32, sk, tcp_sock, rcv_nxt), read = GET(u32, sk, tcp_sock, copied_seq);
		/* A FIN that was read counts as one byte too many. */
		r->receive_queue = (s32)(received - read) < 0 ? 0 : received - read;
		r->send_queue = GET(u32, sk, tcp_sock, write_seq) - GET(u32, sk, tcp_sock, snd_una);
	}
}

/* Each field is in another cache line, which is the cost of a field: nothing is read that is not requested. */
INLINE void take_inode(struct record *r, u64 sk)
{
	if (HAS(sock, sk_ino)) {
		r->inode = (u32)GET(u64, sk, sock, sk_ino);
	} else {
		/* The inode is after the socket: SOCK_INODE() of include/net/sock.h. */
		u64 socket = GET(u64, sk, sock, sk_socket);
		u64 inode = socket + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket);
		r->inode = socket ? (u32)GET(u64, inode, inode, i_ino) : 0;
	}
}

INLINE void take_user(struct record *r, u64 sk)
{
	if (HAS(sock, sk_ino)) {
		r->uid = GET(u32, sk, sock, sk_uid);
	} else {
		/* Until sk_uid() of Linux 6.17 a socket's user was its inode's. */
		u64 socket = GET(u64, sk, sock, sk_socket);
		u64 inode = socket + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket);
		r->uid = socket ? GET(u32, inode, inode, i_uid) : 0;
	}
}

#ifdef BY_PROBE_READ
/* The options of a kernel before 6.6, as bits in the order of struct inet_diag_sockopt. All are in neighbouring bytes. */
#define OPTION(word, field, bit)                                                                    \
	((((word) >> (FIELD(inet_sock, field, 0) - FIELD(inet_sock, recverr, 0)) * 8)               \
		  << FIELD(inet_sock, field, 4) >> FIELD(inet_sock, field, 5))                      \
	 << bit)
INLINE u64 options_of(u64 sk)
{
	u64 word = LOAD(u64, sk + FIELD(inet_sock, recverr, 0));

	return OPTION(word, recverr, 0) | OPTION(word, is_icsk, 1) | OPTION(word, freebind, 2) | OPTION(word, hdrincl, 3) |
	       OPTION(word, mc_loop, 4) | OPTION(word, transparent, 5) | OPTION(word, mc_all, 6) |
	       OPTION(word, nodefrag, 7) | OPTION(word, bind_address_no_port, 8) | OPTION(word, recverr_rfc4884, 9) |
	       OPTION(word, defer_connect, 10);
}
#endif

INLINE void take_options(struct record *r, u64 sk)
{
	r->mark = GET(u32, sk, sock, sk_mark);
	r->shutdown = GET(u8, sk, sock, sk_shutdown);
	r->v6only = (u8)GET_ANY(sk, sock_common, skc_ipv6only);
	r->tos = GET(u8, sk, inet_sock, tos);
	r->tclass = 0;
	if (r->family == AF_INET6_ && HAS(inet_sock, pinet6)) {
		u64 v6 = GET(u64, sk, inet_sock, pinet6);
		if (HAS(ipv6_pinfo, tclass))
			r->tclass = GET(u8, v6, ipv6_pinfo, tclass);
	}
	r->priority = 0;
	if (HAS(sock, sk_cgrp_data.classid))
		r->priority = GET(u32, sk, sock, sk_cgrp_data.classid);
	if (!r->priority)
		r->priority = GET(u32, sk, sock, sk_priority);
	r->cgroup = 0;
#ifdef BY_PROBE_READ
	/* Until Linux 5.14 it was either a cgroup or, with one of the lowest bits set, a class id: sock_cgroup_ptr() and
	 * sock_cgroup_classid() of include/linux/cgroup-defs.h. */
	if (HAS(sock, sk_cgrp_data.val)) {
		u64 value = GET(u64, sk, sock, sk_cgrp_data.val);
		if (!(value & 1))
			r->priority = GET(u32, sk, sock, sk_priority);
		r->cgroup = ROOT_CGROUP;
		if (value && !(value & 3))
			r->cgroup = GET(u64, GET(u64, value, cgroup, kn), kernfs_node, id);
	}
#endif
	if (HAS(sock, sk_cgrp_data.cgroup)) {
		u64 cgroup = GET(u64, sk, sock, sk_cgrp_data.cgroup);
		u64 node = GET(u64, cgroup, cgroup, kn);
		r->cgroup = GET(u64, node, kernfs_node, id);
	}
	r->inet_flags = 0;
	if (HAS(inet_sock, inet_flags))
		r->inet_flags = GET(u64, sk, inet_sock, inet_flags);
#ifdef BY_PROBE_READ
	else if (HAS(inet_sock, recverr) && HAS(inet_sock, defer_connect) && HAS(inet_sock, recverr_rfc4884))
		r->inet_flags = options_of(sk);
#endif
}

/* As sk_get_meminfo() of net/core/sock.c. */
INLINE void take_memory(struct memory *m, u64 sk)
{
	m->rmem_alloc = GET(u32, sk, sock, sk_backlog.rmem_alloc);
	m->rcvbuf = GET(u32, sk, sock, sk_rcvbuf);
	m->wmem_alloc = GET(u32, sk, sock, sk_wmem_alloc) - 1;
	m->sndbuf = GET(u32, sk, sock, sk_sndbuf);
	m->fwd_alloc = GET(u32, sk, sock, sk_forward_alloc);
	m->wmem_queued = GET(u32, sk, sock, sk_wmem_queued);
	m->optmem = GET(u32, sk, sock, sk_omem_alloc);
	m->backlog = GET(u32, sk, sock, sk_backlog.len);
	m->drops = GET(u32, sk, sock, sk_drops);
	m->pad = 0;
}

/* As sk_drops_read() of include/net/sock.h: some protocols count on each node. */
INLINE void take_drops(struct memory *m, u64 sk)
{
	if (HAS(sock, sk_drop_counters)) {
		u64 counters = GET(u64, sk, sock, sk_drop_counters);
		if (counters)
			m->drops = GET(u32, counters, numa_drop_counters, drops0) +
				   GET(u32, counters, numa_drop_counters, drops1);
	}
}

/* Where an address is, and each of its halves. */
#ifdef BY_PROBE_READ
#define ADDRESS_IN(copy, sk, field) ((u64)(copy) + AT(sock_common, field))
#define WORD_IN(address) (*(volatile u64 *)(address))
#else
#define ADDRESS_IN(copy, sk, field) ((sk) + AT(sock_common, field))
#define WORD_IN(address) LOAD(u64, address)
#endif

/* Addresses, IPv4 mapped into IPv6. */
INLINE void take_addresses(struct record *r, u64 sk, u8 *copy, u64 pair)
{
	if (r->family == AF_INET6_) {
		u64 ours = ADDRESS_IN(copy, sk, skc_v6_rcv_saddr), theirs = ADDRESS_IN(copy, sk, skc_v6_daddr);
		r->local[0] = WORD_IN(ours);
		r->local[1] = WORD_IN(ours + 8);
		r->peer[0] = WORD_IN(theirs);
		r->peer[1] = WORD_IN(theirs + 8);
	} else {
		r->local[0] = r->peer[0] = 0;
		r->local[1] = 0xffff0000ull | (pair >> 32 << 32);
		r->peer[1] = 0xffff0000ull | (pair << 32);
	}
}

INLINE u16 swapped(u16 value)
{
	return (u16)(value >> 8 | value << 8);
}

/* Whether ports and addresses match the request. */
INLINE int is_wanted(const struct record *r, const struct request *q)
{
	u16 peer = swapped(r->peer_port_be);
	return r->local_port >= q->local_port_min && r->local_port <= q->local_port_max && peer >= q->peer_port_min &&
	       peer <= q->peer_port_max &&
	       !(((r->local[0] & q->local_mask[0]) ^ q->local_prefix[0]) |
		 ((r->local[1] & q->local_mask[1]) ^ q->local_prefix[1]) |
		 ((r->peer[0] & q->peer_mask[0]) ^ q->peer_prefix[0]) |
		 ((r->peer[1] & q->peer_mask[1]) ^ q->peer_prefix[1]));
}

/* Reads everything requested of one TCP socket, with its sections; 0 if it does not match. */
INLINE u32 take_tcp(struct record *r, const struct identity *it, u64 sk, struct slot *s)
{
	const struct request *q = &s->request;
	u64 net = COPIED(u64, s->copy, sk, sock_common, skc_net), now = s->reply.jiffies;
	u32 detail = q->detail;
	u32 bytes = sizeof(struct record);

	r->netns = NETNS_OF(s, net);
	if (q->netns && q->netns != r->netns)
		return 0;
	r->family = COPIED(u16, s->copy, sk, sock_common, skc_family);
	if (!(r->family == AF_INET6_ ? q->families & 2 : q->families & 1))
		return 0;
	if (it->state == TCP_TIME_WAIT) {
		r->kind = TIME_WAIT_SOCKET;
		r->state = GET(u8, sk, inet_timewait_sock, tw_substate);
	} else if (it->state == TCP_NEW_SYN_RECV) {
		r->kind = REQUEST_SOCKET;
		r->state = TCP_SYN_RECV;
	} else {
		/* It has left its table while we read it. */
		if (it->state == TCP_CLOSE && q->table != BOUND)
			return 0;
		r->kind = FULL_SOCKET;
		r->state = q->table == BOUND ? TCP_BOUND_INACTIVE : it->state;
	}
	if (r->state > 31 || !(q->states & (1u << r->state)))
		return 0;
	r->local_port = it->ports >> 16;
	/* It has left its table, and its state changes last: tcp_set_state() of net/ipv4/tcp.c releases the port first. */
	if (!r->local_port)
		return 0;
	r->peer_port_be = (u16)it->ports;
	take_addresses(r, sk, s->copy, it->addresses);
	if (!is_wanted(r, q))
		return 0;
	r->sections = detail;
	r->sock = sk;
	r->cookie = COPIED(u64, s->copy, sk, sock_common, skc_cookie);
	r->interface = COPIED(u32, s->copy, sk, sock_common, skc_bound_dev_if);
	r->needs_diag = 0;
	if (r->kind == TIME_WAIT_SOCKET) {
		r->sections = 0;
		r->receive_queue = r->send_queue = r->inode = r->uid = 0;
		r->timer = 3;
		r->retransmits = 0;
		r->expires_jiffies = jiffies_until(GET(u64, sk, inet_timewait_sock, tw_timer.expires), now);
		r->mark = HAS(inet_timewait_sock, tw_mark) ? GET(u32, sk, inet_timewait_sock, tw_mark) : 0;
	} else if (r->kind == REQUEST_SOCKET) {
		r->sections = 0;
		r->receive_queue = r->send_queue = r->inode = r->uid = 0;
		r->timer = 1;
		r->retransmits = (u8)GET_ANY(sk, request_sock, num_retrans);
		r->expires_jiffies = jiffies_until(GET(u64, sk, request_sock, rsk_timer.expires), now);
		r->mark = GET(u32, sk, inet_request_sock, ir_mark);
	} else {
		if (detail & WANT_QUEUES)
			take_queues(r, sk, r->state);
		if (detail & WANT_TIMER)
			take_timer(r, sk, now);
		if (detail & WANT_INODE)
			take_inode(r, sk);
		if (detail & WANT_USER)
			take_user(r, sk);
		if (detail & WANT_OPTIONS)
			take_options(r, sk);
		if (detail & WANT_MEMORY) {
			take_memory((void *)r + bytes, sk);
			bytes += sizeof(struct memory);
		}
	}
	r->bytes = bytes;
	return bytes;
}

#define RECORD_BYTES_MAX (sizeof(struct record) + sizeof(struct memory))
