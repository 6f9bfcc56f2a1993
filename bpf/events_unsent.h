/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Packets that a socket sends and that do not leave: the next hop does not answer (ARP, neighbor discovery), or there is no route any
 * more. The process learns that much later, or never.
 *
 * Kernels since 5.17 give a reason where they drop such a packet; those since 6.17 also report a retransmission without a route.
 */
#pragma once

/* Numbers of `enum skb_drop_reason` that Sockeye sets; 0: this kernel has none. */
const volatile u32 no_neighbor_reasons[4] = {};
const volatile u32 no_route_reason = 0, no_reason = 0;

/* Where packets are dropped without a reason (code addresses), and whether that is where IPv6 gives up to find a neighbor. */
struct map places SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(u32), 64, 0};
struct sk_buff___unsent {
	u16 protocol;
} KERNEL;
#define ETH_P_IPV6_BE 0xdd86

/* include/uapi/linux/bpf.h: number of a helper (Linux 5.13; kernels with reasons are newer) */
static long (*const text_of)(char *text, u32 bytes, const char *format, const u64 *values, u32 values_bytes) = (void *)165;
static const char function_name[] = "%ps";

/* ndisc_error_report() of net/ipv6/ndisc.c gives no reason. The compiler ends it with a jump, so that its caller is the place. */
PART u32 is_neighbor_given_up(u64 place)
{
	u32 *known = map_lookup(&places, &place);
	if (known)
		return *known;
	char name[32] = {};
	text_of(name, sizeof(name), function_name, &place, sizeof(place));
	u64 *words = (u64 *)name;
	/* "neigh_invalidate", "ndisc_error_report" */
	u32 is = (words[0] == 0x6e695f686769656eull && words[1] == 0x65746164696c6176ull) ||
		 (words[0] == 0x72655f637369646eull && words[1] == 0x6f7065725f726f72ull);
	map_update(&places, &place, &is, 0);
	return is;
}

INLINE int is_reason(u32 reason, u32 one)
{
	return one && reason == one;
}

/* Writes what happens to a segment of TCP. */
INLINE void write_unsent(u64 sk, u32 cause, s32 error)
{
	u8 state = GET(u8, sk, sock_common, skc_state);

	if (!(wanted & 1u << UNSENT) || (is_filtered && !matches(sk)))
		return;
	struct event *record = record_of_socket(UNSENT, sizeof(*record), sk);
	if (!record)
		return;
	record->old_state = record->state = state;
	record->reason = (s32)cause;
	fill(record, sk, 0);
	record->error = error;
	fill_known(record, known_of(sk));
	submit_waking(record, sizeof(*record));
}

/* Writes what happens to a datagram: of many, ten times a second. */
INLINE void write_unsent_datagram(u64 sk, u64 skb, u32 cause)
{
	struct udp_known *known = udp_known_of(sk, inode_of(sk));
	u64 now = ktime_ns();
	u32 count = 1;

	if (known) {
		__sync_fetch_and_add(&known->unsent, 1);
		if (now - known->unsent_shown < REPORT_INTERVAL_NS)
			return;
		u32 unsent = known->unsent;
		known->unsent_shown = now;
		count = unsent - known->unsent_reported;
		known->unsent_reported = unsent;
	}
	struct ends ends = {};
	take_ends(&ends, sk);
	take_ends_of_leaving(&ends, skb);
	write_udp(UDP_FAILED, sk, known, 0, cause, count, &ends);
}

SEC("tp_btf/kfree_skb")
int packet_is_not_sent(u64 *args)
{
	u32 reason, cause;

	if (kfree_arguments < 3)
		return 0;
	reason = (u32)args[2];
	if (is_reason(reason, no_route_reason))
		cause = CAUSE_NO_ROUTE;
	else if (is_reason(reason, no_neighbor_reasons[0]) || is_reason(reason, no_neighbor_reasons[1]) ||
		 is_reason(reason, no_neighbor_reasons[2]) || is_reason(reason, no_neighbor_reasons[3]))
		cause = CAUSE_NO_NEIGHBOR;
	else if (is_reason(reason, no_reason) && GET(u16, args[0], sk_buff___unsent, protocol) == ETH_P_IPV6_BE)
		cause = CAUSE_NONE;
	else
		return 0;
	u64 skb = args[0], sk = GET(u64, skb, sk_buff, sk);
	if (!sk || !is_full(sk))
		return 0;
	if (cause == CAUSE_NONE) {
		if (!is_neighbor_given_up(args[1]))
			return 0;
		cause = CAUSE_NO_NEIGHBOR;
	}
	/* Without a route the headers of the packet are not there yet. */
	if (is_udp(sk)) {
		if (cause == CAUSE_NO_NEIGHBOR)
			write_unsent_datagram(sk, skb, cause);
	} else if (protocol_of(sk) == PROTOCOL_TCP) {
		write_unsent(sk, cause, 0);
	}
	return 0;
}
