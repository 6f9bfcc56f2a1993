/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Segments that are sent again.
 */
#pragma once

/* include/net/tcp.h: TCP_SKB_CB() */
struct tcp_skb_cb {
	u16 tcp_gso_segs;
} KERNEL;

SEC("tp_btf/tcp_retransmit_skb")
int segment_is_retransmitted(u64 *args)
{
	u64 sk = args[0], skb = args[1];
	u8 state = GET(u8, sk, sock_common, skc_state);

	if (!(wanted & 1u << RETRANSMITTED) || (is_filtered && !matches(sk)))
		return 0;
	struct event *record = record_of_socket(RETRANSMITTED, sizeof(*record), sk);
	if (!record)
		return 0;
	record->old_state = record->state = state;
	/* The timer that runs: that of a tail loss probe is known by it. */
	record->reason = GET(u8, sk, inet_connection_sock, icsk_pending);
	fill(record, sk);
	fill_known(record, known_of((void *)args[0]));
	/* One skb can have many segments, which a device or the kernel divides later. */
	record->ends.segments = LOAD(u16, skb + AT(sk_buff, cb) + AT(tcp_skb_cb, tcp_gso_segs));
	submit(record, sizeof(*record));
	return 0;
}
