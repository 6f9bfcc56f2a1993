/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What happens to UDP sockets: the first datagram that a process sends or receives by one, errors, and the close.
 *
 * Sends and receives are seen at tracepoints (Linux 6.3). To whom a socket that is not connected sends, and from whom it receives, is
 * seen by programs of the root cgroup, and so is the close. Kernels before 6.3 show only datagrams with an address.
 */
#pragma once

struct udp_known {
	u64 started;
	u64 full_shown; /* when a full receive buffer was reported last */
	struct actor owner;
	u64 peer[2];
	u64 sent_bytes, received_bytes, sent, received, failed;
	u16 peer_port, pad;
	u32 inode;
	u32 full, full_reported; /* datagrams that found it full, and those of them that were reported */
	u32 unsent, unsent_reported; /* those that had no neighbor or route */
	u64 unsent_shown;
	u8 is_shown; /* its first use was */
	u8 direction;
	u8 is_icmp_pending; /* an error was reported that the next call returns */
	u8 pad2[5];
};

struct datagrams {
	u64 sent_bytes, received_bytes, sent, received, failed;
	u32 count; /* of datagrams that the error concerns */
	u32 cause;
};
enum { CAUSE_NONE, CAUSE_ICMP, CAUSE_SEND, CAUSE_RECEIVE, CAUSE_FULL, CAUSE_MEMORY, CAUSE_CHECKSUM, CAUSE_NO_NEIGHBOR, CAUSE_NO_ROUTE };

struct udp_event {
	struct event event;
	struct datagrams datagrams;
};

#ifdef BY_PROBE_READ
struct map udp_sockets SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct udp_known), 16384, 0};
#else
struct map udp_sockets SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct udp_known), 1 << 18, MAP_NO_PREALLOC};
#endif

/* Whether sends are seen at their tracepoint. */
const volatile u32 has_send_length = 0;
/* Numbers of arguments of tracepoints, and the reason of a wrong checksum; 0: there is none. */
const volatile u32 kfree_arguments = 0, checksum_reason = 0, full_arguments = 2;
/* How often a full receive buffer is reported, and what is not sent. */
#define REPORT_INTERVAL_NS 100000000ull
enum { E_AGAIN = 11, E_INTR = 4, E_NOMEM = 12 };

INLINE int is_udp(u64 sk)
{
	u16 family = GET(u16, sk, sock_common, skc_family);
	/* A raw socket can have the same protocol. */
	return (family == 2 || family == AF_INET6_) && protocol_of(sk) == PROTOCOL_UDP && GET(u16, sk, sock, sk_type) == 2;
}

/* What is known of a socket; NULL if there is nothing, and if it is of an earlier socket at this address. */
INLINE struct udp_known *udp_known_of(u64 sk, u32 inode)
{
	struct udp_known *known = map_lookup(&udp_sockets, &sk);
	return known && known->inode == inode ? known : NULL;
}

INLINE struct udp_known *udp_remember(u64 sk)
{
	u32 inode = inode_of(sk);
	struct udp_known *known = udp_known_of(sk, inode);
	if (known)
		return known;
	struct udp_known made = {.started = ktime_ns(), .inode = inode};
	if (map_update(&udp_sockets, &sk, &made, 0)) {
		count_untracked(UNTRACKED_SOCKETS);
		return NULL;
	}
	return map_lookup(&udp_sockets, &sk);
}

INLINE void take_known_peer(struct ends *e, const struct udp_known *known)
{
	if (known && known->peer_port && !e->peer_port) {
		e->peer[0] = known->peer[0];
		e->peer[1] = known->peer[1];
		e->peer_port = known->peer_port;
	}
}

/* Writes a record. `packet`: the ends of the datagram that it is about, or NULL. */
INLINE void write_udp(u32 kind, u64 sk, const struct udp_known *known, s32 error, u32 cause, u32 count, const struct ends *packet)
{
	struct ends ends = {};

	if (!(wanted & 1u << kind))
		return;
	if (packet) {
		ends = *packet;
	} else {
		take_ends(&ends, sk);
		take_known_peer(&ends, known);
	}
	if (is_filtered && !ends_match(&ends))
		return;
	struct udp_event *record = record_of_socket(kind, sizeof(*record), sk);
	if (!record)
		return;
	record->event.old_state = record->event.state = GET(u8, sk, sock_common, skc_state);
	record->event.reason = -1;
	fill(&record->event, sk, 0);
	record->event.ends = ends;
	record->event.error = error;
	record->event.has_peers_fin = 0;
	no_known(&record->event.known);
	record->event.is_tracked = known != NULL;
	if (known) {
		record->event.known.started = record->event.known.opened = known->started;
		record->event.known.owner = known->owner;
		record->event.known.direction = known->direction;
		if (!record->event.inode)
			record->event.inode = known->inode;
		record->datagrams.sent_bytes = known->sent_bytes;
		record->datagrams.received_bytes = known->received_bytes;
		record->datagrams.sent = known->sent;
		record->datagrams.received = known->received;
		record->datagrams.failed = known->failed;
	} else {
		record->datagrams.sent_bytes = record->datagrams.received_bytes = 0;
		record->datagrams.sent = record->datagrams.received = record->datagrams.failed = 0;
	}
	record->datagrams.count = count;
	record->datagrams.cause = cause;
	if (kind == UDP_CLOSED)
		name_current(&record->event.known.closer, BY_NOTHING);
	submit_waking(record, sizeof(*record));
}

/* A process has used a socket. */
INLINE void is_used(u64 sk, struct udp_known *known, u32 how)
{
	if (!known->owner.how)
		name_current(&known->owner, how);
	if (known->is_shown)
		return;
	known->is_shown = 1;
	known->direction = how == BY_SENDING ? OURS : PEERS;
	write_udp(UDP_USED, sk, known, 0, CAUSE_NONE, 0, NULL);
}

/* A call that sends or receives has ended. */
INLINE void datagram_is_moved(u64 sk, s32 result, u32 how)
{
	if (!is_udp(sk) || result == -E_AGAIN || result == -E_INTR || result <= -512)
		return;
	struct udp_known *known = udp_remember(sk);
	if (!known)
		return;
	if (result < 0) {
		__sync_fetch_and_add(&known->failed, 1);
		if (!known->owner.how)
			name_current(&known->owner, how);
		if (known->is_icmp_pending)
			known->is_icmp_pending = 0;
		else
			write_udp(UDP_FAILED, sk, known, -result, how == BY_SENDING ? CAUSE_SEND : CAUSE_RECEIVE, 1, NULL);
		return;
	}
	if (how == BY_SENDING) {
		__sync_fetch_and_add(&known->sent, 1);
		__sync_fetch_and_add(&known->sent_bytes, (u64)(u32)result);
	} else {
		__sync_fetch_and_add(&known->received, 1);
		__sync_fetch_and_add(&known->received_bytes, (u64)(u32)result);
	}
	is_used(sk, known, how);
}

SEC("tp_btf/sock_send_length")
int datagram_is_sent(u64 *args)
{
	datagram_is_moved(ADDRESS(args[0]), (s32)args[1], BY_SENDING);
	return 0;
}

/* include/linux/socket.h */
#define MSG_PEEK 2
#define MSG_ERRQUEUE 0x2000

SEC("tp_btf/sock_recv_length")
int datagram_is_received(u64 *args)
{
	if (!((u32)args[2] & (MSG_PEEK | MSG_ERRQUEUE)))
		datagram_is_moved(ADDRESS(args[0]), (s32)args[1], BY_RECEIVING);
	return 0;
}

/* An ICMP message, or another error that the next call will return (Linux 5.15). */
SEC("tp_btf/inet_sk_error_report")
int error_is_reported(u64 *args)
{
	u64 sk = ADDRESS(args[0]);

	if (!is_udp(sk))
		return 0;
	struct udp_known *known = udp_remember(sk);
	if (known)
		known->is_icmp_pending = 1;
	write_udp(UDP_FAILED, sk, known, GET(s32, sk, sock___live, sk_err), CAUSE_ICMP, 1, NULL);
	return 0;
}

/* A datagram finds no space. Many may do so: they are reported ten times a second. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int datagram_is_not_queued(u64 *args)
{
	s32 result = (s32)args[0];
	u64 sk = ADDRESS(args[1]), now = ktime_ns();

	if (!is_udp(sk))
		return 0;
	count_aside(GET(u64, sk, sock_common, skc_net), ASIDE_NOT_QUEUED);
	struct udp_known *known = udp_remember(sk);
	if (!known)
		return 0;
	__sync_fetch_and_add(&known->full, 1);
	if (now - known->full_shown < REPORT_INTERVAL_NS)
		return 0;
	known->full_shown = now;
	u32 full = known->full, count = full - known->full_reported;
	known->full_reported = full;
	struct ends ends = {};
	take_ends(&ends, sk);
	if (full_arguments > 2)
		take_ends_of_arrived(&ends, args[2]);
	else
		take_known_peer(&ends, known);
	write_udp(UDP_FAILED, sk, known, -result, result == -E_NOMEM ? CAUSE_FULL : CAUSE_MEMORY, count, &ends);
	return 0;
}

/* Of a datagram with a wrong checksum the kernel names the socket since Linux 6.11. */
SEC("tp_btf/kfree_skb")
int datagram_is_dropped(u64 *args)
{
	if (kfree_arguments < 4 || !checksum_reason || (u32)args[2] != checksum_reason)
		return 0;
	u64 sk = ADDRESS(args[3]);
	if (!sk || !is_udp(sk))
		return 0;
	struct ends ends = {};
	take_ends(&ends, sk);
	take_ends_of_arrived(&ends, args[0]);
	write_udp(UDP_FAILED, sk, udp_known_of(sk, inode_of(sk)), 0, CAUSE_CHECKSUM, 1, &ends);
	return 0;
}

/* --- programs of the root cgroup; all return 1: what happens is allowed --- */

/* include/linux/filter.h */
struct bpf_sock_addr_kern {
	u64 sk, uaddr;
} KERNEL;

/* The address in a sockaddr_in or sockaddr_in6 of the kernel. */
INLINE void take_peer(struct udp_known *known, u64 address)
{
	u16 family = LOAD(u16, address);

	known->peer_port = swapped(LOAD(u16, address + 2));
	if (family == AF_INET6_) {
		known->peer[0] = LOAD(u64, address + 8);
		known->peer[1] = LOAD(u64, address + 16);
	} else {
		known->peer[0] = 0;
		known->peer[1] = 0xffff0000ull | (u64)LOAD(u32, address + 4) << 32;
	}
}

INLINE void address_is_used(u64 context, u32 how)
{
	u64 sk = GET(u64, context, bpf_sock_addr_kern, sk);

	if (!is_udp(sk))
		return;
	struct udp_known *known = udp_remember(sk);
	if (!known || known->is_shown)
		return;
	take_peer(known, GET(u64, context, bpf_sock_addr_kern, uaddr));
	if (!known->owner.how)
		name_current(&known->owner, how);
	if (!has_send_length)
		is_used(sk, known, how);
}

SEC("cgroup/sendmsg4")
int sends_to_v4(void *context)
{
	address_is_used((u64)context, BY_SENDING);
	return 1;
}

SEC("cgroup/sendmsg6")
int sends_to_v6(void *context)
{
	address_is_used((u64)context, BY_SENDING);
	return 1;
}

SEC("cgroup/recvmsg4")
int receives_from_v4(void *context)
{
	address_is_used((u64)context, BY_RECEIVING);
	return 1;
}

SEC("cgroup/recvmsg6")
int receives_from_v6(void *context)
{
	address_is_used((u64)context, BY_RECEIVING);
	return 1;
}

SEC("cgroup/sock_release")
int socket_is_released(void *context)
{
	u64 sk = ADDRESS(context);

	if (!is_udp(sk))
		return 1;
	struct udp_known *known = udp_known_of(sk, inode_of(sk));
	/* One that was neither used nor bound means nothing. */
	if (known || GET(u16, sk, inet_sock___live, inet_sport))
		write_udp(UDP_CLOSED, sk, known, GET(s32, sk, sock___live, sk_err), CAUSE_NONE,
			  known ? known->full - known->full_reported + known->unsent - known->unsent_reported : 0, NULL);
	map_delete(&udp_sockets, &sk);
	return 1;
}
