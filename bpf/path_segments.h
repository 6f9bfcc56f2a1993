/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Segments of packets of TCP and UDP that the kernel divides: when they enter a queue that takes no larger ones (tbf, cake, netem), or when they
 * leave it for a device that divides nothing; those of UDP also where this host receives them, before they enter a socket. A segment is another
 * sk_buff, and nothing is seen of it before its device's driver is called, it is in a receive queue, or it is dropped. So what is known of the
 * packet's last point is kept for each segment until then, by ports and sequence number.
 *
 * Segments of UDP (UDP_SEGMENT) have no number. A queue keeps those of a socket in their order, so they are numbered as they enter: the next
 * one to leave is the first one that waits. What does not fit is dropped as it enters, in the opposite order: that is the last one. The length
 * of each must fit, so that both are right again soon if one was not seen.
 */
#pragma once

struct segment {
	u64 queued_ns; /* the time of that point; 0: the slot is empty */
	u32 ports, seq; /* of UDP a number */
	u32 netns;
	s32 ifindex;
	u32 length, point;
	u32 bytes; /* of UDP, with its header */
	u32 nth;   /* how many points on the way its packet had passed before */
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

/* Numbers of the segments of UDP that wait: the first, and the one after the last; and the one that was looked for last. */
struct datagram_segments {
	u32 ports, head, tail, found;
};
#define DATAGRAMS_MASK 255u
struct map datagrams SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct datagram_segments), DATAGRAMS_MASK + 1, 0};
#define UDP_HEADER 8

INLINE struct datagram_segments *datagrams_slot(u32 ports)
{
	u32 index = (ports * 0x9e3779b1u >> 8) & DATAGRAMS_MASK;

	return map_lookup(&datagrams, &index);
}

INLINE int segments_wait(void)
{
	u32 first = 0;
	u64 *number = map_lookup(&segment_count, &first);

	return number && *number;
}

INLINE void forget_segment(struct segment *segment)
{
	u32 first = 0;
	u64 *number = map_lookup(&segment_count, &first);

	segment->queued_ns = 0;
	if (number)
		__sync_fetch_and_add(number, (u64)-1);
}

INLINE int is_there(const struct segment *segment, u32 ports, u32 seq)
{
	return segment && segment->queued_ns && segment->ports == ports && segment->seq == seq;
}

/* What does not fit is looked for in so many. */
#define SEGMENTS_SKIPPED 16

/* Finds the next segment of UDP with this length, or the last one: a shorter one after that can have found room in a queue that drops. NULL: none
 * waits. Those before the next one were not seen to leave. */
static __attribute__((noinline)) int find_datagram(u32 ports, u32 bytes, u32 is_last)
{
	struct datagram_segments *waiting = datagrams_slot(ports);
	u32 number;

	if (!waiting || waiting->ports != ports)
		return 0;
	number = is_last ? waiting->tail - 1 : waiting->head;
	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < SEGMENTS_SKIPPED; i++)
	{
		struct segment *segment = segment_slot(ports, number * SEGMENT_GRAIN);

		/* None is left. */
		if (number - waiting->head >= waiting->tail - waiting->head)
			return 0;
		if (is_there(segment, ports, number) && segment->bytes == bytes) {
			waiting->found = number;
			return 1;
		}
		number += is_last ? -1u : 1;
		if (!is_last) {
			if (is_there(segment, ports, waiting->head))
				forget_segment(segment);
			waiting->head = number;
		}
	}
	return 0;
}

/* What a packet must be to be followed from where it is first seen. */
enum { ANY_PACKET = 0, SEGMENT_THAT_LEAVES = 1, SEGMENT_THAT_IS_DROPPED = 2, PACKET_OF_SOCKET = 3 };

/* The segment with this transport header; NULL if none is waited for. Of UDP that which was found. */
INLINE struct segment *segment_of(u64 transport, u32 protocol)
{
	u32 ports = LOAD(u32, transport), number = __builtin_bswap32(LOAD(u32, transport + 4)), at = number;
	struct segment *segment;

	if (protocol == PROTOCOL_UDP) {
		struct datagram_segments *waiting = datagrams_slot(ports);

		if (!waiting)
			return NULL;
		number = waiting->found;
		at = number * SEGMENT_GRAIN;
	}
	segment = segment_slot(ports, at);
	return is_there(segment, ports, number) ? segment : NULL;
}

/* Whether a packet with this transport header is a segment that is waited for. `which`: one of the latter two. */
INLINE int is_segment(u64 transport, u32 protocol, u32 which)
{
	if (protocol == PROTOCOL_UDP)
		return find_datagram(LOAD(u32, transport), swapped(LOAD(u16, transport + 4)), which == SEGMENT_THAT_IS_DROPPED);
	return segment_of(transport, protocol) != NULL;
}

/* A segment has left. */
INLINE void end_segment(struct segment *segment, u32 protocol)
{
	struct datagram_segments *waiting = protocol == PROTOCOL_UDP ? datagrams_slot(segment->ports) : NULL;

	if (waiting && waiting->head == segment->seq)
		waiting->head++;
	else if (waiting && waiting->tail - 1 == segment->seq)
		waiting->tail--;
	forget_segment(segment);
}

/* Numbers the segments of a packet of UDP; 0: of the first one. A queue that is empty has none that was not seen to leave. */
INLINE u32 number_datagrams(u32 ports, u32 count, u32 is_empty)
{
	struct datagram_segments *waiting = datagrams_slot(ports);
	u32 first;

	if (!waiting)
		return 0;
	if (waiting->ports != ports || is_empty)
		waiting->head = waiting->tail;
	waiting->ports = ports;
	first = waiting->tail;
	waiting->tail = first + count;
	return first;
}

/* How many points a packet had passed before its last one, without what its sender did before. */
INLINE u32 points_before(const struct journey *journey)
{
	u32 number = journey->count - 1;

	_Pragma("unroll") for (u32 i = 0; i < 3; i++)
	{
		u32 point = journey->stamps[i].point;

		number -= (point == READ_BEFORE) | (point == WRITTEN) | (point == HANDED);
	}
	return number;
}

INLINE u32 segment_size(u64 skb)
{
	return GET(u16, GET(u64, skb, sk_buff, head) + GET(u32, skb, sk_buff, end), skb_shared_info, gso_size);
}

/* Keeps for each segment of a packet where and when the packet was last; 0 if its segments are not known. */
static __attribute__((noinline)) int remember_segments(u64 skb)
{
	struct journey *journey = slot_of(skb);
	u64 head = GET(u64, skb, sk_buff, head), *number;
	u32 first = 0, size = segment_size(skb), ports, seq, slot, next, next_slot;
	u32 at = 0, bytes, is_udp, count, nth;
	const struct stamp *queued;
	struct segment *segment;

	number = map_lookup(&segment_count, &first);
	if (!journey || !number || !size || !journey->payload || !journey->count)
		return 0;
	is_udp = journey->protocol == PROTOCOL_UDP;
	/* Of UDP that is not followed nothing shows that it is not a segment. */
	if (is_udp && sample_every > 1)
		return 0;
	ports = LOAD(u32, head + journey->mark_at - 4);
	queued = &journey->stamps[(journey->count - 1) & (STAMPS - 1)];
	bytes = journey->payload;
	seq = slot = __builtin_bswap32(journey->mark);
	next = next_slot = size;
	nth = points_before(journey);
	if (is_udp) {
		bytes -= UDP_HEADER;
		count = (bytes + size - 1) / size;
		seq = number_datagrams(ports, count, queued->point != QUEUED || !queued->length);
		slot = seq * SEGMENT_GRAIN;
		next = 1;
		next_slot = SEGMENT_GRAIN;
	}
	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < SEGMENTS_MAX; i++)
	{
		if (at >= bytes)
			break;
		segment = segment_slot(ports, slot);
		if (!segment)
			return 1;
		if (!segment->queued_ns)
			__sync_fetch_and_add(number, 1);
		segment->queued_ns = queued->ns;
		segment->ports = ports;
		segment->seq = seq;
		segment->netns = queued->netns;
		segment->ifindex = queued->ifindex;
		segment->length = queued->length;
		segment->point = queued->point;
		segment->nth = nth;
		segment->bytes = size + UDP_HEADER;
		copy(segment->device, queued->device, sizeof(segment->device));
		at += size;
		seq += next;
		slot += next_slot;
	}
	/* The last one has the rest. */
	segment = segment_slot(ports, slot - next_slot);
	if (segment && segment->ports == ports && at > bytes)
		segment->bytes -= at - bytes;
	return 1;
}
