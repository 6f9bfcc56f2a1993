/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Connection requests that a listener does not take, because its accept queue or its SYN queue is full.
 *
 * The kernel drops them without an event. So a program of the root cgroup, which runs for each packet that arrives at a socket, compares
 * the queues of listeners as tcp_conn_request() of net/ipv4/tcp_input.c and tcp_v4_syn_recv_sock() will do right afterwards.
 */
#pragma once

/* include/uapi/linux/bpf.h: numbers of helpers (Linux 5.2 and 4.20) */
static void *(*const skc_lookup_tcp)(void *context, const void *tuple, u32 bytes, u64 netns, u64 flags) = (void *)99;
static long (*const sk_release)(void *sk) = (void *)86;
#define NETNS_OF_PACKET (-1ull)
/* struct bpf_sock: what the verifier lets a program see of a socket that it has looked up. */
struct found_socket {
	u32 before[18];
	u32 state;
};
#define STATE_NEW_SYN_RECV 12

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
struct sock_common___listen {
	u8 skc_reuseport : 1;
} KERNEL;
struct tcp_options_received___listen {
	s32 ts_recent_stamp;
} KERNEL;
struct tcp_sock___listen {
	struct tcp_options_received___listen rx_opt;
} KERNEL;

/* Whether a listener may have sent a cookie that an ACK can answer: tcp_synq_overflow() of include/net/tcp.h notes the time. Listeners that share a
 * port note it elsewhere. */
INLINE int may_have_sent_cookies(u64 sk)
{
	return (u32)BITS(sk, sock_common___listen, skc_reuseport) || GET(s32, sk, tcp_sock___listen, rx_opt.ts_recent_stamp);
}

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
	fill(record, sk, 0);
	record->ends = ends;
	fill_known(record, known_of(sk));
	record->is_tracked = 0;
	record->known.direction = PEERS;
	submit_waking(record, sizeof(*record));
}

/* Whether the request that a segment belongs to is in the queue already: what belongs to one comes to its listener, too. A SYN that the client
 * repeats needs no space, and is answered. */
INLINE int is_queued(void *context, u64 skb)
{
	u64 ip = GET(u64, skb, sk_buff, head) + GET(u16, skb, sk_buff, network_header), transport = transport_of(skb);
	/* struct bpf_sock_tuple: addresses and ports as in the packet */
	u32 tuple[9] = {};
	struct found_socket *found;

	if (LOAD(u8, ip) >> 4 == 4) {
		tuple[0] = LOAD(u32, ip + 12);
		tuple[1] = LOAD(u32, ip + 16);
		tuple[2] = LOAD(u32, transport);
		found = skc_lookup_tcp(context, tuple, 12, NETNS_OF_PACKET, 0);
	} else {
		for (u32 i = 0; i < 8; i++)
			tuple[i] = LOAD(u32, ip + 8 + 4 * i);
		tuple[8] = LOAD(u32, transport);
		found = skc_lookup_tcp(context, tuple, 36, NETNS_OF_PACKET, 0);
	}
	if (!found)
		return 0;
	u32 state = found->state;
	sk_release(found);
	return state == STATE_NEW_SYN_RECV;
}

INLINE void request_arrives(void *context, u64 sk, u64 skb)
{
	u64 net = GET(u64, sk, sock_common, skc_net);
	u32 most = GET(u32, sk, sock, sk_max_ack_backlog), flags = tcp_flags(skb);
	u32 is_full = GET(u32, sk, sock, sk_ack_backlog) > most;

	if (flags & FLAG_RST)
		return;
	u32 cookies = GET_ANY(net, net___live, ipv4.sysctl_tcp_syncookies) & 0xff;
	if (!(flags & FLAG_SYN)) {
		/* Without a request it can only be the answer to a cookie. */
		if (is_full && flags & FLAG_ACK && ((cookies && may_have_sent_cookies(sk)) || is_queued(context, skb)))
			write_overflow(ACCEPT_OVERFLOWS, sk, skb,
				       GET_ANY(net, net___live, ipv4.sysctl_tcp_abort_on_overflow) & 0xff ? RESET_BACK : ACK_DROPPED);
		return;
	}
	u32 waiting = GET(s32, sk, inet_connection_sock___live, icsk_accept_queue.qlen.counter);
	u32 is_syn_full = takes_one_more ? waiting > most : waiting >= most;

	if (waiting && (is_syn_full || is_full || cookies != 1) && is_queued(context, skb))
		return;
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
		request_arrives(context, sk, skb);
	return 1;
}
