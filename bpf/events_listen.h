/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Connection requests that a listener does not take, because its accept queue or its SYN queue is full.
 *
 * The kernel drops them without an event. So a program of the root cgroup, which runs for each packet that arrives at a socket, compares
 * the queues of listeners as tcp_conn_request() of net/ipv4/tcp_input.c and tcp_v4_syn_recv_sock() will do right afterwards.
 */
#pragma once

/* What becomes of the request: in `reason`. */
enum { SYN_DROPPED = 1, ACK_DROPPED = 2, RESET_BACK = 3, COOKIE_SENT = 4 };

struct netns_ipv4___live {
	u8 sysctl_tcp_syncookies, sysctl_tcp_abort_on_overflow;
	u32 sysctl_max_syn_backlog;
} KERNEL;
/* Whether a listener takes as many requests as its backlog and one more: inet_csk_reqsk_queue_is_full() of
 * include/net/inet_connection_sock.h, since Linux 6.13 and in newer releases of older series. */
const volatile u32 takes_one_more = 1;

struct net___live {
	struct netns_ipv4___live ipv4;
} KERNEL;

INLINE void write_overflow(u32 kind, u64 sk, u64 skb, s32 reason)
{
	struct ends ends;

	if (!(wanted & 1u << kind))
		return;
	take_ends(&ends, sk);
	take_ends_of_arrived(&ends, skb);
	if (is_filtered && !ends_match(&ends))
		return;
	struct event *record = record_of_ports(kind, sizeof(*record), (u32)ends.local_port + ends.peer_port);
	if (!record)
		return;
	record->old_state = record->state = TCP_LISTEN;
	record->reason = reason;
	fill(record, sk);
	record->ends = ends;
	fill_known(record, known_of((void *)sk));
	record->is_tracked = 0;
	record->known.direction = PEERS;
	submit_waking(record, sizeof(*record));
}

INLINE void request_arrives(u64 sk, u64 skb)
{
	u64 net = GET(u64, sk, sock_common, skc_net);
	u32 most = GET(u32, sk, sock, sk_max_ack_backlog), flags = tcp_flags(skb);
	u32 is_full = GET(u32, sk, sock, sk_ack_backlog) > most;

	if (flags & FLAG_RST)
		return;
	if (!(flags & FLAG_SYN)) {
		if (is_full && flags & FLAG_ACK)
			write_overflow(ACCEPT_OVERFLOWS, sk, skb,
				       GET_ANY(net, net___live, ipv4.sysctl_tcp_abort_on_overflow) & 0xff ? RESET_BACK : ACK_DROPPED);
		return;
	}
	u32 cookies = GET_ANY(net, net___live, ipv4.sysctl_tcp_syncookies) & 0xff;
	u32 waiting = GET(s32, sk, inet_connection_sock___live, icsk_accept_queue.qlen.counter);
	u32 is_syn_full = takes_one_more ? waiting > most : waiting >= most;

	if (is_syn_full && !cookies) {
		write_overflow(SYN_OVERFLOWS, sk, skb, SYN_DROPPED);
		return;
	}
	if (is_full) {
		write_overflow(ACCEPT_OVERFLOWS, sk, skb, SYN_DROPPED);
		return;
	}
	/* With 2 each request gets a cookie, and the kernel counts it as if the queue were full. */
	if (is_syn_full || cookies == 2) {
		write_overflow(SYN_OVERFLOWS, sk, skb, COOKIE_SENT);
	} else if (!cookies) {
		u32 all = (u32)GET_ANY(net, net___live, ipv4.sysctl_max_syn_backlog);
		if ((s32)(all - waiting) < (s32)(all >> 2))
			write_overflow(SYN_OVERFLOWS, sk, skb, SYN_DROPPED);
	}
}

SEC("cgroup_skb/ingress")
int packet_arrives(void *context)
{
	u64 skb = (u64)context, sk = GET(u64, skb, sk_buff, sk);

	if (sk && GET(u8, sk, sock_common, skc_state) == TCP_LISTEN && protocol_of(sk) == PROTOCOL_TCP)
		request_arrives(sk, skb);
	return 1;
}
