/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Segments of packets of TCP that the kernel divides: when they enter a queue that takes no larger ones (tbf, cake, netem), or when they leave
 * it for a device that divides nothing. A segment is another sk_buff, and nothing is seen of it before its device's driver is called or the
 * queue drops it. So what is known of the packet's entry into the queue is kept for each segment until then, by ports and sequence number.
 */
#pragma once

struct segment {
	u64 queued_ns; /* 0: the slot is empty */
	u32 ports, seq;
	u32 netns;
	s32 ifindex;
	u32 length, pad;
	char device[16];
};

/* Segments of a connection have slots in their order: so many bytes have one. */
#define SEGMENT_GRAIN 512
#define SEGMENTS_MASK 8191u
/* Of one packet. */
#define SEGMENTS_MAX 256
struct map segments SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct segment), SEGMENTS_MASK + 1, 0};
/* Number of slots in use: without any no header is read. */
struct map segment_count SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(u64), 1, 0};

INLINE struct segment *segment_slot(u32 ports, u32 seq)
{
	u32 index = ((ports * 0x9e3779b1u >> 8) + seq / SEGMENT_GRAIN) & SEGMENTS_MASK;
	struct segment *segment = map_lookup(&segments, &index);

	return segment;
}

INLINE int segments_wait(void)
{
	u32 first = 0;
	u64 *number = map_lookup(&segment_count, &first);

	return number && *number;
}

/* Whether a packet with this transport header is a segment that is waited for. */
INLINE int is_segment(u64 transport)
{
	u32 ports = LOAD(u32, transport), seq = __builtin_bswap32(LOAD(u32, transport + 4));
	struct segment *segment = segment_slot(ports, seq);

	return segment && segment->queued_ns && segment->ports == ports && segment->seq == seq;
}

INLINE void forget_segment(struct segment *segment)
{
	u32 first = 0;
	u64 *number = map_lookup(&segment_count, &first);

	segment->queued_ns = 0;
	if (number)
		__sync_fetch_and_add(number, (u64)-1);
}

/* Keeps for each segment of a packet when the packet entered the queue; 0 if its segments are not known. */
static __attribute__((noinline)) int remember_segments(u64 skb)
{
	struct journey *journey = slot_of(skb);
	u64 head = GET(u64, skb, sk_buff, head), *number;
	u32 first = 0, size = GET(u16, head + GET(u32, skb, sk_buff, end), skb_shared_info, gso_size), ports, seq, at = 0;
	const struct stamp *queued;

	number = map_lookup(&segment_count, &first);
	if (!journey || !number || journey->protocol != PROTOCOL_TCP || !size || !journey->payload || !journey->count)
		return 0;
	ports = LOAD(u32, head + journey->mark_at - 4);
	seq = __builtin_bswap32(journey->mark);
	queued = &journey->stamps[(journey->count - 1) & (STAMPS - 1)];
	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < SEGMENTS_MAX; i++)
	{
		struct segment *segment;

		if (at >= journey->payload)
			break;
		segment = segment_slot(ports, seq + at);
		if (!segment)
			break;
		if (!segment->queued_ns)
			__sync_fetch_and_add(number, 1);
		segment->queued_ns = queued->ns;
		segment->ports = ports;
		segment->seq = seq + at;
		segment->netns = queued->netns;
		segment->ifindex = queued->ifindex;
		segment->length = queued->length;
		copy(segment->device, queued->device, sizeof(segment->device));
		at += size;
	}
	return 1;
}
