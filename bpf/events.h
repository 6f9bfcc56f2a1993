/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What happens to TCP connections: each open, close, reset and retransmission is a record in the ring.
 *
 * What is known of a connection from its beginning on (who asked for it, when, what was received) is kept by the address of the socket
 * (events_known.h). Each connection has the owner of the listener that accepts it (events_inherit.h). While a process holds a socket
 * (sk_lock.owned), the current task is that process: that names who closes, also where another process than the one that called listen() serves
 * the connection.
 */
#pragma once
#include "socket.h"
#include "ring_sleep.h"
#include "numbers.h"

/* include/uapi/linux/bpf.h: numbers of helpers */
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static void *(*const storage_of)(void *map, void *sk, void *value, u64 flags) = (void *)107;
#define MAP_TYPE_HASH 1
#define MAP_TYPE_SOCKET_STORAGE 24
#define MAP_NO_PREALLOC 1
#define MAP_CLONE (1 << 9)
#define STORAGE_CREATE 1

/* A part of programs that the verifier reads once, not at each of its calls. Before Linux 5.12 such a part takes no pointers. Where it takes a
 * number, that cannot be one of the kernel's pointers among the arguments of a program: ADDRESS makes a number of them. */
#ifdef BY_PROBE_READ
#define PART static __attribute__((noinline))
#define ADDRESS(pointer) ((u64)(pointer))
#else
#define PART __attribute__((noinline))
PART u64 number_in(const u64 *pointer)
{
	return pointer ? *pointer : 0;
}
#define ADDRESS(pointer)                    \
	({                                  \
		u64 held_ = (u64)(pointer); \
		number_in(&held_);          \
	})
#endif

/* --- more of the kernel's structs --- */

struct sock___live {
	struct {
		s32 owned;
	} sk_lock;
	s32 sk_err;
} KERNEL;
struct sock_common___live {
	u64 skc_flags;
} KERNEL;
enum { TCP_SYN_SENT = 2, TCP_FIN_WAIT1 = 4, TCP_FIN_WAIT2 = 5, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9, TCP_CLOSING = 11 };
/* enum sock_flags */
enum { SOCK_DEAD = 0, SOCK_DONE = 1 };
struct inet_sock___live {
	u16 inet_sport, inet_dport;
} KERNEL;
struct inet_connection_sock___live {
	u64 icsk_ulp_data;
	struct {
		struct atomic qlen;
	} icsk_accept_queue;
} KERNEL;
/* enum tcp_ca_state */
enum { CA_RECOVERY = 3, CA_LOSS = 4 };
struct tcp_sock___live {
	u8 is_mptcp;
	u32 undo_marker;
} KERNEL;
struct sk_buff___reset {
	u64 dev;
} KERNEL;
struct net_device___live {
	struct {
		u64 net;
	} nd_net;
} KERNEL;
/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000
/* net/mptcp/protocol.h */
struct mptcp_sock {
	u32 token;
	u64 bytes_sent, bytes_received, bytes_retrans, bytes_acked; /* Linux 6.5 */
} KERNEL;
struct mptcp_subflow_context {
	u32 token;
	u64 conn;
} KERNEL;

/* --- constants that Sockeye sets before loading: crates/host/tracepoints/src/connections/ --- */

const volatile u32 pid_namespace = 0; /* inode of ours; 0: the initial one */
/* Which connections: ports, prefixes, families (1: IPv4, 2: IPv6), the only namespace or 0. */
const volatile u16 local_port_min = 0, local_port_max = 0xffff, peer_port_min = 0, peer_port_max = 0xffff;
const volatile u64 local_prefix[2] = {}, local_mask[2] = {}, peer_prefix[2] = {}, peer_mask[2] = {};
const volatile u32 families = 3, only_netns = 0;
const volatile u32 is_filtered = 0; /* whether any of these excludes anything */
/* Kinds of records that are wanted, as bits. */
const volatile u32 wanted = 0xffffffff;
/* Whether connections of MPTCP are watched as well as those of TCP. */
const volatile u32 watches_mptcp = 0;
/* Number of arguments of tcp_retransmit_skb. Since Linux 6.17 it also reports segments that could not be sent, and why. */
const volatile u32 retransmit_arguments = 2;
/* Number of the argument of tcp_send_reset that is the reason; 0: there is none. */
const volatile u32 reset_reason_at = 0;

/* --- records: crates/wire/src/connections.rs --- */

enum {
	OPENED = 1,
	FAILED = 2,
	CLOSED = 3,
	STATE = 4,
	LISTENS = 5,
	UNLISTENS = 6,
	RESET_SENT = 7,
	RESET_RECEIVED = 8,
	RETRANSMITTED = 9,
	UDP_USED = 10,
	UDP_CLOSED = 11,
	UDP_FAILED = 12,
	ACCEPT_OVERFLOWS = 13,
	SYN_OVERFLOWS = 14,
	WINDOW_IS_ZERO = 15,
	WINDOW_IS_OPEN = 16,
	CONNECT_FAILED = 17,
	UNDONE = 18,
	UNSENT = 19,
};

/* The failure was reported; its error is in open_errors; the connection has ended, and can be forgotten. */
enum { FAILURE_REPORTED = 1, FAILURE_HAS_ERROR = 2, HAS_ENDED = 4 };

enum { BY_NOTHING, BY_CONNECT, BY_LISTENER, BY_ACCEPTING, BY_SENDING, BY_RECEIVING };

struct actor {
	u32 pid, how;
	char comm[16];
};

enum { OURS = 1, PEERS = 2 };

/* What is stored with a socket. */
struct known {
	u64 started; /* connect() was called, or the connection was made for a listener */
	u64 opened;  /* established */
	struct actor owner, closer;
	u8 direction; /* 1: we connected, 2: the peer did */
	u8 first_fin; /* 1: ours, 2: the peer's */
	u8 resets;    /* 1: sent, 2: received */
	u8 failing;   /* its connect() fails: FAILURE_ */
	u32 inode;    /* before the process let go of it */
};

/* What is kept of a socket: events_known.h. */
struct known_socket {
	struct known known;
	u32 retransmitted; /* the socket's own count, as of the last retransmission that was seen */
	u32 unseen;	   /* what it has counted more than was seen */
};

struct ends {
	u64 local[2], peer[2];
	u16 local_port, peer_port;
	u32 netns;
	u16 family;
	u16 segments; /* of a retransmission: here is space for it */
	u32 unseen;   /* of a close: segments that were sent again without an event */
};

struct event {
	u32 kind;
	u8 old_state, state;
	u8 is_tracked;    /* `known` is there */
	u8 has_peers_fin; /* SOCK_DONE */
	u64 time, sock, cookie;
	struct ends ends;
	u32 interface, mark;
	u64 cgroup;
	u32 uid, inode;
	struct known known;
	s32 error;  /* sk_err */
	s32 reason; /* of a reset, enum sk_rst_reason; of a retransmission, the timer or SMALLER_MTU; of an overflow, what becomes of it; of a packet that was not sent, CAUSE_; -1: unknown */
	u8 is_orphan; /* SOCK_DEAD */
	u8 ca_state;
	u16 protocol; /* IPPROTO_TCP, IPPROTO_UDP, IPPROTO_MPTCP */
	u32 token;    /* of the MPTCP connection that it is, or is a subflow of; 0: none */
};

struct totals {
	u64 bytes_acked, bytes_received, bytes_sent, bytes_retrans;
	u32 segs_in, segs_out, data_segs_in, data_segs_out, total_retrans, srtt_us, min_rtt_us, dsack_dups;
	u32 in_flight; /* sequence numbers that were sent and not acknowledged */
	u32 is_all_sent; /* with the FIN, if there is one */
};

struct closed {
	struct event event;
	struct totals totals;
};

/* --- what is stored --- */

/* What found no space in the maps: sockets, of which neither owner nor age is known; errors of opens that fail. */
enum { UNTRACKED_SOCKETS, UNTRACKED_ERRORS, UNTRACKED };
struct map untracked SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), sizeof(u64), UNTRACKED, 0};

INLINE void count_untracked(u32 what)
{
	u64 *count = map_lookup(&untracked, &what);
	if (count)
		__sync_fetch_and_add(count, 1);
}

/* What is counted without a record of each, by the inode of the network namespace: the kernel's own counters are compared with it. */
struct aside {
	u64 resets;    /* RSTs of no connection: of no socket, or of a request */
	u64 not_queued; /* datagrams that found no space: few of them have records */
};
struct map counted_aside SEC("maps") = {MAP_TYPE_HASH, sizeof(u32), sizeof(struct aside), 4096, 0};
enum { ASIDE_RESET, ASIDE_NOT_QUEUED };

PART int count_aside(u64 net, u32 what)
{
	u32 netns = net ? GET(u32, net, net, ns.inum) : 0;
	struct aside *counts = map_lookup(&counted_aside, &netns);

	if (!counts) {
		struct aside none = {};
		map_update(&counted_aside, &netns, &none, 1 /* BPF_NOEXIST: another processor may have made it */);
		counts = map_lookup(&counted_aside, &netns);
		if (!counts)
			return 0;
	}
	__sync_fetch_and_add(what == ASIDE_RESET ? &counts->resets : &counts->not_queued, 1);
	return 0;
}

#include "events_known.h"

/* --- parts of records --- */

/* The current process. */
PART int name_current(struct actor *actor, u32 how)
{
	if (!actor)
		return 0;
	u64 task = current_task(), leader = GET(u64, task, task_struct, group_leader);
	u32 tgid = pid_namespace ? number_of(task, pid_namespace) : current_pid_tgid() >> 32;
	u64 comm = leader + AT(task_struct, comm);

	actor->pid = tgid;
	actor->how = how;
	((u64 *)actor->comm)[0] = LOAD(u64, comm);
	((u64 *)actor->comm)[1] = LOAD(u64, comm + 8);
	return 0;
}

/* Who closes. A connection that ends by itself does so in a thread of the kernel: no process closes it. */
INLINE void name_closer(struct actor *closer)
{
	if (!(GET(u32, current_task(), task_struct, flags) & PF_KTHREAD))
		name_current(closer, BY_NOTHING);
}

INLINE int is_held(u64 sk)
{
	return GET(s32, sk, sock___live, sk_lock.owned) != 0;
}

INLINE void take_ends(struct ends *e, u64 sk)
{
	u64 net = GET(u64, sk, sock_common, skc_net), pair = GET(u64, sk, sock_common, skc_addrpair);

	e->family = GET(u16, sk, sock_common, skc_family);
	e->netns = GET(u32, net, net, ns.inum);
	if (e->family == AF_INET6_) {
		u64 ours = sk + AT(sock_common, skc_v6_rcv_saddr), theirs = sk + AT(sock_common, skc_v6_daddr);
		e->local[0] = LOAD(u64, ours);
		e->local[1] = LOAD(u64, ours + 8);
		e->peer[0] = LOAD(u64, theirs);
		e->peer[1] = LOAD(u64, theirs + 8);
	} else {
		e->local[0] = e->peer[0] = 0;
		e->local[1] = 0xffff0000ull | (pair >> 32 << 32);
		e->peer[1] = 0xffff0000ull | (pair << 32);
	}
	/* When it closes, the port that it was bound to is gone: skc_num is 0. */
	e->local_port = swapped(GET(u16, sk, inet_sock___live, inet_sport));
	e->peer_port = swapped((u16)GET(u32, sk, sock_common, skc_portpair));
}

/* Whether a connection with these ends is one that Sockeye asked for, as far as that can be said here. */
INLINE int ends_match(const struct ends *e)
{
	return (e->family == AF_INET6_ ? families & 2 : families & 1) && (!only_netns || only_netns == e->netns) &&
	       e->local_port >= local_port_min && e->local_port <= local_port_max && e->peer_port >= peer_port_min &&
	       e->peer_port <= peer_port_max &&
	       !(((e->local[0] & local_mask[0]) ^ local_prefix[0]) | ((e->local[1] & local_mask[1]) ^ local_prefix[1]) |
		 ((e->peer[0] & peer_mask[0]) ^ peer_prefix[0]) | ((e->peer[1] & peer_mask[1]) ^ peer_prefix[1]));
}

PART int matches(u64 sk)
{
	struct ends e;
	take_ends(&e, sk);
	return ends_match(&e);
}

PART u32 inode_of(u64 sk)
{
	if (HAS(sock, sk_ino))
		return (u32)GET(u64, sk, sock, sk_ino);
	u64 socket = GET(u64, sk, sock, sk_socket);
	u64 inode = socket + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket);
	return socket ? (u32)GET(u64, inode, inode, i_ino) : 0;
}

enum { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17, PROTOCOL_MPTCP = 262 };

INLINE u32 protocol_of(u64 sk)
{
	return GET(u16, sk, sock, sk_protocol);
}

/* The token of the MPTCP connection that a socket is, or is a subflow of. */
PART u32 token_of(u64 sk, u32 protocol)
{
	if (!HAS(mptcp_sock, token))
		return 0;
	if (protocol == PROTOCOL_MPTCP)
		return GET(u32, sk, mptcp_sock, token);
	if (protocol != PROTOCOL_TCP || !HAS(tcp_sock___live, is_mptcp) || !GET(u8, sk, tcp_sock___live, is_mptcp))
		return 0;
	u64 subflow = GET(u64, sk, inet_connection_sock___live, icsk_ulp_data);
	return subflow ? GET(u32, subflow, mptcp_subflow_context, token) : 0;
}

/* The connection of MPTCP that a socket is a subflow of; 0 if it is none. */
INLINE u64 connection_of_subflow(u64 sk)
{
	if (!HAS(mptcp_sock, token) || !HAS(tcp_sock___live, is_mptcp) || protocol_of(sk) != PROTOCOL_TCP ||
	    !GET(u8, sk, tcp_sock___live, is_mptcp))
		return 0;
	u64 subflow = GET(u64, sk, inet_connection_sock___live, icsk_ulp_data);
	return subflow ? GET(u64, subflow, mptcp_subflow_context, conn) : 0;
}

#include "events_inherit.h"
#include "events_mptcp.h"

/* Everything of an event but its kind, states, reason and what is known. `time`: 0 is now. To read the clock costs as much as a run of a
 * program that returns at once. */
PART int fill(struct event *e, u64 sk, u64 time)
{
	if (!e)
		return 0;
	u64 flags = GET(u64, sk, sock_common___live, skc_flags);

	take_ends(&e->ends, sk);
	e->time = time ? time : ktime_ns();
	e->sock = sk;
	e->cookie = GET(u64, sk, sock_common, skc_cookie);
	e->interface = GET(u32, sk, sock_common, skc_bound_dev_if);
	e->mark = GET(u32, sk, sock, sk_mark);
	e->uid = GET(u32, sk, sock, sk_uid);
	e->inode = inode_of(sk);
	e->cgroup = 0;
	if (HAS(sock, sk_cgrp_data.cgroup)) {
		u64 cgroup = GET(u64, sk, sock, sk_cgrp_data.cgroup);
		e->cgroup = GET(u64, GET(u64, cgroup, cgroup, kn), kernfs_node, id);
	}
	e->error = GET(s32, sk, sock___live, sk_err);
	e->has_peers_fin = flags >> SOCK_DONE & 1;
	e->is_orphan = flags >> SOCK_DEAD & 1;
	e->protocol = protocol_of(sk);
	e->token = token_of(sk, e->protocol);
	e->ca_state = e->protocol == PROTOCOL_TCP ? (u8)BITS(sk, inet_connection_sock, icsk_ca_state) : 0;
	return 0;
}

INLINE void fill_known(struct event *e, const struct known *known)
{
	e->is_tracked = known && known->started;
	if (known) {
		e->known = *known;
		if (e->token && e->protocol == PROTOCOL_TCP)
			take_from_connection(&e->known, e->token);
		if (!e->inode)
			e->inode = known->inode;
	} else {
		u64 *words = (u64 *)&e->known;
		for (u32 i = 0; i < sizeof(struct known) / sizeof(u64); i++)
			words[i] = 0;
	}
}

INLINE void fill_totals(struct totals *t, u64 sk)
{
	t->bytes_acked = GET(u64, sk, tcp_sock, bytes_acked);
	t->bytes_received = GET(u64, sk, tcp_sock, bytes_received);
	t->bytes_sent = GET(u64, sk, tcp_sock, bytes_sent);
	t->bytes_retrans = GET(u64, sk, tcp_sock, bytes_retrans);
	t->segs_in = GET(u32, sk, tcp_sock, segs_in);
	t->segs_out = GET(u32, sk, tcp_sock, segs_out);
	t->data_segs_in = GET(u32, sk, tcp_sock, data_segs_in);
	t->data_segs_out = GET(u32, sk, tcp_sock, data_segs_out);
	t->total_retrans = GET(u32, sk, tcp_sock, total_retrans);
	t->srtt_us = GET(u32, sk, tcp_sock, srtt_us) >> 3;
	t->min_rtt_us = GET(u32, sk + AT(tcp_sock, rtt_min), minmax_sample, v);
	t->dsack_dups = HAS(tcp_sock, dsack_dups) ? GET(u32, sk, tcp_sock, dsack_dups) : 0;
	u32 next = GET(u32, sk, tcp_sock, snd_nxt);
	t->in_flight = next - GET(u32, sk, tcp_sock, snd_una);
	t->is_all_sent = next == GET(u32, sk, tcp_sock, write_seq);
}

/* What a connection of MPTCP has itself; the rest is with its subflows. */
INLINE void fill_mptcp_totals(struct totals *t, u64 sk)
{
	u64 *words = (u64 *)t;
	for (u32 i = 0; i < sizeof(*t) / sizeof(u64); i++)
		words[i] = 0;
	if (HAS(mptcp_sock, bytes_sent)) {
		t->bytes_acked = GET(u64, sk, mptcp_sock, bytes_acked);
		t->bytes_received = GET(u64, sk, mptcp_sock, bytes_received);
		t->bytes_sent = GET(u64, sk, mptcp_sock, bytes_sent);
		t->bytes_retrans = GET(u64, sk, mptcp_sock, bytes_retrans);
	}
	t->min_rtt_us = 0xffffffff;
}

/* Where Sockeye takes more of a processor than it may, only one of `event_every` connections, chosen by its two ports, has records: all events
 * of both ends are there, or none. */
struct map event_every SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(u64), 1, 0};

/* `ports`: the sum of both. */
INLINE void *record_of_ports(u32 kind, u64 bytes, u32 ports)
{
	u32 first = 0;
	u64 *every = map_lookup(&event_every, &first);
	/* Who listens is needed for the owners of others. */
	if (every && *every > 1 && kind != LISTENS && kind != UNLISTENS && (ports * 0x9e3779b1u >> 8) % (u32)*every) {
		leave_out(kind);
		return NULL;
	}
	return record_of(kind, bytes);
}

INLINE void *record_of_socket(u32 kind, u64 bytes, u64 sk)
{
	return record_of_ports(kind, bytes,
			       swapped(GET(u16, sk, inet_sock___live, inet_sport)) + swapped((u16)GET(u32, sk, sock_common, skc_portpair)));
}

#include "events_fail.h"

/* Two states, for write_event(). */
#define STATES(old, state) ((u32)(old) << 8 | (state))

/* Writes a record without totals. */
PART int write_event(u32 kind, u64 sk, const struct known *known, u32 states, s32 reason)
{
	if (!(wanted & 1u << kind) || (is_filtered && !matches(sk)))
		return 0;
	struct event *record = record_of_socket(kind, sizeof(*record), sk);
	if (!record)
		return 0;
	record->old_state = (u8)(states >> 8);
	record->state = (u8)states;
	record->reason = reason;
	fill(record, sk, kind == OPENED && known ? known->opened : 0);
	fill_known(record, known);
	if (kind == FAILED)
		record->error = error_of_open(sk, record->error);
	submit_waking(record, sizeof(*record));
	return 0;
}

/* A segment was sent again, or was not: what the socket counts beyond it, no program has seen. A kernel may leave programs out,
 * without a count of that. */
INLINE void retransmission_is_seen(u64 sk, u32 segments)
{
	struct known_socket *stored = known_socket_of(sk);
	if (!stored || !stored->known.started)
		return;
	u32 counted = GET(u32, sk, tcp_sock, total_retrans), more = counted - stored->retransmitted;
	if (more > segments)
		stored->unseen += more - segments;
	stored->retransmitted = counted;
}

/* How many segments of a connection that ends were sent again without an event; `known`: what is kept of it. */
INLINE u32 unseen_of(u64 sk, const struct known *known, u32 protocol)
{
	const struct known_socket *stored = (const struct known_socket *)known;
	/* Before Linux 6.17 what could not be sent has no event either. */
	if (retransmit_arguments < 3 || !(wanted & 1u << RETRANSMITTED) || protocol != PROTOCOL_TCP || !known || !known->started)
		return 0;
	return stored->unseen + GET(u32, sk, tcp_sock, total_retrans) - stored->retransmitted;
}

INLINE void write_closed(u64 sk, const struct known *known, u8 old)
{
	if (!(wanted & 1u << CLOSED) || (is_filtered && !matches(sk)))
		return;
	struct closed *record = record_of_socket(CLOSED, sizeof(*record), sk);
	if (!record)
		return;
	record->event.old_state = old;
	record->event.state = TCP_CLOSE;
	record->event.reason = -1;
	fill(&record->event, sk, 0);
	fill_known(&record->event, known);
	if (record->event.protocol == PROTOCOL_MPTCP)
		fill_mptcp_totals(&record->totals, sk);
	else
		fill_totals(&record->totals, sk);
	record->event.ends.unseen = unseen_of(sk, known, record->event.protocol);
	submit_waking(record, sizeof(*record));
}

/* --- programs --- */

INLINE int is_watched(u64 sk)
{
	u32 protocol = protocol_of(sk);
	return protocol == PROTOCOL_TCP || (watches_mptcp && protocol == PROTOCOL_MPTCP);
}

INLINE int begins(void *sock, u64 sk, u8 old, u8 state)
{
	struct known_socket made = {.known.started = ktime_ns()};
	struct actor *owner = &made.known.owner;
	u32 kind = state == TCP_LISTEN ? LISTENS : STATE;

	if (old == TCP_LISTEN) {
		made.known.direction = PEERS;
		take_from_listener(owner, sock, sk);
	} else {
		if (state == TCP_SYN_SENT) {
			made.known.direction = OURS;
			note_opening(sk);
			name_connecting(owner, sk);
		} else {
			name_current(owner, BY_LISTENER);
			leave_to_children(sock, sk, owner);
		}
	}
	remember(sk, &made);
	if (wanted & 1u << kind)
		write_event(kind, sk, &made.known, STATES(old, state), -1);
	return 0;
}

/* The connection that a new subflow belongs to, if it is its first. */
INLINE void first_subflow_is_open(u64 sk)
{
	u64 connection = token_of(sk, PROTOCOL_TCP) ? connection_of_subflow(sk) : 0;
	struct known *known = connection ? known_of(connection) : NULL;
	if (!known || known->opened || known->direction != PEERS)
		return;
	known->opened = ktime_ns();
	if (!(wanted & 1u << OPENED) || (is_filtered && !matches(sk)))
		return;
	struct event *record = record_of_socket(OPENED, sizeof(*record), connection);
	if (!record)
		return;
	record->old_state = TCP_LISTEN;
	record->state = TCP_ESTABLISHED;
	record->reason = -1;
	fill(record, connection, known->opened);
	take_ends(&record->ends, sk);
	fill_known(record, known);
	submit_waking(record, sizeof(*record));
}

/* A connection is established. TCP has read the clock for the segment that does it, a moment before: tcp_rcv_state_process() of
 * net/ipv4/tcp_input.c. It keeps microseconds, and this is the last nanosecond of that one: nothing else that this processor did before is later. */
INLINE u64 time_of_open(u64 sk, u64 started)
{
	if (protocol_of(sk) != PROTOCOL_TCP)
		return ktime_ns();
	u64 opened = GET(u64, sk, tcp_sock, tcp_mstamp) * 1000 + 999;
	/* A connection that is repaired is established without a segment (TCP_REPAIR). */
	return opened < started ? started : opened;
}

/* The state of a connection that has begun before changes. The verifier reads this once, not for each of the maps in which `stored` may be. */
PART int known_changes(u64 sk, struct known_socket *stored, u32 states)
{
	u8 old = (u8)(states >> 8), state = (u8)states;
	u32 kind = STATE;
	struct known *known = (struct known *)stored;

	if (known) {
		if (state == TCP_ESTABLISHED) {
			if (known->started)
				known->opened = time_of_open(sk, known->started);
			/* The request's count: its SYN-ACKs. */
			if (old == TCP_SYN_RECV)
				stored->retransmitted = GET(u32, sk, tcp_sock, total_retrans);
		} else if (!known->first_fin) {
			if (state == TCP_FIN_WAIT1)
				known->first_fin = OURS;
			else if (state == TCP_CLOSE_WAIT || old == TCP_CLOSE_WAIT)
				known->first_fin = PEERS;
		}
		if ((state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK || state == TCP_CLOSE) && !known->closer.pid && is_held(sk))
			name_closer(&known->closer);
		if (state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK)
			known->inode = inode_of(sk);
	}
	if (state == TCP_ESTABLISHED && (old == TCP_SYN_SENT || old == TCP_SYN_RECV))
		kind = OPENED;
	else if (state == TCP_CLOSE)
		kind = old == TCP_SYN_SENT || old == TCP_SYN_RECV ? FAILED : old == TCP_LISTEN ? UNLISTENS : CLOSED;
	/* Without a peer it is a connection of MPTCP whose first subflow could not even begin: connect() returns why. */
	u32 is_begun = kind != FAILED || protocol_of(sk) != PROTOCOL_MPTCP || GET(u32, sk, sock_common, skc_portpair) & 0xffff;
	if (kind == FAILED && is_begun) {
		if (known)
			known->failing |= FAILURE_REPORTED;
		if (watches_mptcp)
			subflow_has_failed(sk, known);
	}
	if (kind == CLOSED)
		write_closed(sk, known, old);
	else if (is_begun && wanted & 1u << kind)
		write_event(kind, sk, known, STATES(old, state), -1);
	if (kind == UNLISTENS)
		forget_listener(sk);
	if (watches_mptcp && kind == OPENED && old == TCP_SYN_RECV)
		first_subflow_is_open(sk);
	if (known && known->failing & FAILURE_HAS_ERROR && state != TCP_SYN_SENT) {
		u64 key = sk;
		map_delete(&open_errors, &key);
		known->failing &= (u8)~FAILURE_HAS_ERROR;
	}
	/* No tracepoint shows that a socket of MPTCP is destroyed. One whose connect() fails is needed when that returns. */
	if (watches_mptcp && state == TCP_CLOSE && protocol_of(sk) == PROTOCOL_MPTCP &&
	    !(known && known->failing & FAILURE_REPORTED && wanted & 1u << CONNECT_FAILED))
		forget(sk);
	if (forgets_at_close && known && state == TCP_CLOSE && protocol_of(sk) == PROTOCOL_TCP)
		forget_ended(sk, old);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int connection_changes(u64 *args)
{
	void *sock = (void *)args[0];
	u64 sk = ADDRESS(sock);
	u32 old = args[1], state = args[2];
	struct known_socket *stored;

	if ((state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK || state == TCP_CLOSE) && protocol_of(sk) == PROTOCOL_MPTCP && is_held(sk))
		connection_is_used(sk, BY_NOTHING);
	if (!is_watched(sk) || old == state)
		return 0;
	/* A connection of MPTCP that the peer asked for is established at once; that is reported with its first subflow, which has ends. */
	if (state == TCP_SYN_SENT || (state == TCP_LISTEN && old == TCP_CLOSE) ||
	    ((state == TCP_SYN_RECV || state == TCP_ESTABLISHED) && old == TCP_LISTEN))
		return begins(sock, sk, old, state);
	/* Of these nothing is noted that is not known from the next change as well. */
	if ((state == TCP_FIN_WAIT2 || state == TCP_CLOSE_WAIT) && !(wanted & 1u << STATE))
		return 0;
	stored = known_socket_of(sk);
	/* Older than the watch: who closes it is known all the same. */
	if (!stored && (state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK || state == TCP_CLOSE_WAIT || old == TCP_CLOSE_WAIT)) {
		struct known_socket none = {};
		remember(sk, &none);
		stored = known_socket_of(sk);
	}
	return known_changes(sk, stored, STATES(old, state));
}

/* A RST of a connection in TIME_WAIT: data came after our close. What is left of the socket has its ends and its cookie. */
INLINE void write_reset_in_time_wait(u64 sk, s32 reason)
{
	struct ends ends = {};

	if (!(wanted & 1u << RESET_SENT))
		return;
	take_ends(&ends, sk);
	ends.local_port = (u16)(GET(u32, sk, sock_common, skc_portpair) >> 16);
	if (is_filtered && !ends_match(&ends))
		return;
	struct event *record = record_of_ports(RESET_SENT, sizeof(*record), (u32)ends.local_port + ends.peer_port);
	if (!record)
		return;
	record->old_state = record->state = TCP_TIME_WAIT;
	record->reason = reason;
	record->time = ktime_ns();
	record->sock = sk;
	record->cookie = GET(u64, sk, sock_common, skc_cookie);
	record->ends = ends;
	record->interface = GET(u32, sk, sock_common, skc_bound_dev_if);
	record->mark = HAS(inet_timewait_sock, tw_mark) ? GET(u32, sk, inet_timewait_sock, tw_mark) : 0;
	record->cgroup = 0;
	record->uid = record->inode = 0;
	record->error = 0;
	record->has_peers_fin = record->is_orphan = record->ca_state = 0;
	record->protocol = PROTOCOL_TCP;
	record->token = 0;
	fill_known(record, NULL);
	submit_waking(record, sizeof(*record));
}

INLINE int is_full(u64 sk)
{
	u8 state = GET(u8, sk, sock_common, skc_state);
	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV && state;
}

SEC("tp_btf/tcp_send_reset")
int reset_is_sent(u64 *args)
{
	void *sock = (void *)args[0];
	u64 sk = ADDRESS(sock);

	/* For no socket: what answers a packet to a port that nothing listens on (Linux 6.11). */
	if (!sock) {
		u64 device = args[1] ? GET(u64, args[1], sk_buff___reset, dev) : 0;
		if (device && wanted & 1u << RESET_SENT)
			count_aside(GET(u64, device, net_device___live, nd_net.net), ASIDE_RESET);
		return 0;
	}
	u8 state = GET(u8, sk, sock_common, skc_state);
	if (state == TCP_TIME_WAIT)
		write_reset_in_time_wait(sk, reset_reason_at ? (s32)args[2] : -1);
	else if (!is_full(sk) && wanted & 1u << RESET_SENT)
		count_aside(GET(u64, sk, sock_common, skc_net), ASIDE_RESET);
	if (!is_full(sk))
		return 0;
	struct known *known = known_of(sk);
	if (known)
		known->resets |= OURS;
	write_event(RESET_SENT, sk, known, STATES(state, state), reset_reason_at ? (s32)args[2] : -1);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int reset_is_received(u64 *args)
{
	u64 sk = ADDRESS(args[0]);
	struct known *known = known_of(sk);
	u8 state = GET(u8, sk, sock_common, skc_state);

	if (known)
		known->resets |= PEERS;
	write_event(RESET_RECEIVED, sk, known, STATES(state, state), -1);
	return 0;
}

/* The first data that a process reads of a connection that it did not ask for: it has accepted it, or was given it. */
SEC("tp_btf/tcp_rcv_space_adjust")
int data_is_read(u64 *args)
{
	u64 sk = ADDRESS(args[0]);
	struct known *known = known_of(sk);

	if (!known || known->direction != PEERS || known->owner.how == BY_ACCEPTING || !is_held(sk))
		return 0;
	name_current(&known->owner, BY_ACCEPTING);
	return 0;
}

/* The current process uses a connection that it did not ask for: it has accepted it, or was given it. */
INLINE void name_user(u64 sk)
{
	struct known *known = known_of(sk);

	if (known && known->direction == PEERS && known->owner.how != BY_ACCEPTING)
		name_current(&known->owner, BY_ACCEPTING);
}

/* The first data that it writes: a server of SSH or SMTP speaks first (Linux 6.3). The process still is in the call. */
SEC("tp_btf/sock_send_length")
int data_is_written(u64 *args)
{
	u64 sk = ADDRESS(args[0]);
	u32 protocol = protocol_of(sk);

	if (protocol == PROTOCOL_MPTCP)
		connection_is_used(sk, BY_ACCEPTING);
	else if (protocol != PROTOCOL_TCP)
		return 0;
	name_user(sk);
	return 0;
}

/* The same of a connection of MPTCP that is read (Linux 6.3): its subflows are read in a thread of the kernel. */
SEC("tp_btf/sock_recv_length")
int connection_is_read(u64 *args)
{
	u64 sk = ADDRESS(args[0]);

	if (protocol_of(sk) != PROTOCOL_MPTCP)
		return 0;
	connection_is_used(sk, BY_ACCEPTING);
	name_user(sk);
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int socket_is_destroyed(u64 *args)
{
	forget(ADDRESS(args[0]));
	return 0;
}

#include "events_packet.h"
#include "events_udp.h"
#include "events_listen.h"
#include "events_window.h"
#include "events_connect.h"
#include "events_unsent.h"
#include "events_retransmit.h"
#include "events_undo.h"

char license_[] SEC("license") = "GPL";
