/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Segments that are sent again.
 */
#pragma once

/* include/net/tcp.h: TCP_SKB_CB() */
struct tcp_skb_cb {
	u16 tcp_gso_segs;
} KERNEL;

/* In place of a timer. */
#define SMALLER_MTU 256

SEC("tp_btf/tcp_retransmit_skb")
int segment_is_retransmitted(u64 *args)
{
	u64 sk = ADDRESS(args[0]), skb = args[1];
	u8 state = GET(u8, sk, sock_common, skc_state);
	/* One skb can have many segments, which a device or the kernel divides later. */
	u16 segments = LOAD(u16, skb + AT(sk_buff, cb) + AT(tcp_skb_cb, tcp_gso_segs));

	/* Of one that could not be sent the kernel counts the segments or not: they are no loss of ours. */
	retransmission_is_seen(sk, retransmit_arguments > 2 && (s32)args[2] ? ~0u : segments);
	if (retransmit_arguments > 2 && (s32)args[2]) {
		if ((s32)args[2] == -E_HOSTUNREACH)
			write_unsent(sk, CAUSE_NO_ROUTE, E_HOSTUNREACH);
		return 0;
	}
	if (!(wanted & 1u << RETRANSMITTED) || (is_filtered && !matches(sk)))
		return 0;
	struct event *record = record_of_socket(RETRANSMITTED, sizeof(*record), sk);
	if (!record)
		return 0;
	record->old_state = record->state = state;
	/* The timer that runs: that of a tail loss probe is known by it. */
	record->reason = GET(u8, sk, inet_connection_sock, icsk_pending);
	fill(record, sk, 0);
	/* tcp_simple_retransmit() of net/ipv4/tcp_input.c takes what is longer than the new path MTU for lost, without a timer. Where a timer expired,
	 * tcp_enter_loss() has set the mark by which it may be undone. */
	if (record->ca_state == CA_LOSS && !GET(u32, sk, tcp_sock___live, undo_marker))
		record->reason = SMALLER_MTU;
	fill_known(record, known_of(sk));
	record->ends.segments = segments;
	submit_waking(record, sizeof(*record));
	return 0;
}

/* A SYN-ACK. The connection has no socket yet: the request has its ends, and the listener its owner. */
SEC("tp_btf/tcp_retransmit_synack")
int synack_is_retransmitted(u64 *args)
{
	u64 sk = ADDRESS(args[0]), request = ADDRESS(args[1]);
	struct ends ends = {};

	if (!(wanted & 1u << RETRANSMITTED))
		return 0;
	take_ends(&ends, request);
	/* A request has its port where sockets have theirs before they are closed. */
	ends.local_port = (u16)(GET(u32, request, sock_common, skc_portpair) >> 16);
	if (is_filtered && !ends_match(&ends))
		return 0;
	struct event *record = record_of_ports(RETRANSMITTED, sizeof(*record), (u32)ends.local_port + ends.peer_port);
	if (!record)
		return 0;
	record->old_state = record->state = TCP_SYN_RECV;
	record->reason = -1;
	fill(record, sk, 0);
	record->sock = request;
	record->cookie = 0;
	record->ends = ends;
	record->ends.segments = 1;
	fill_known(record, known_of(sk));
	record->is_tracked = 0;
	record->known.direction = PEERS;
	submit_waking(record, sizeof(*record));
	return 0;
}
