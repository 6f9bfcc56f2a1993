/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Follows packets on their way through this host: at each point a stamp is written into the packet's journey, which is found by the
 * address of its struct sk_buff. A journey that ends (a program reads the packet, it has left the host, or it is dropped) goes to the ring.
 *
 * Which packets are followed is decided where they are first seen, by addresses and ports in their headers. An address has one slot in an
 * array, where its journey is or another one's: that is found without a call, which is most of what a hash costs. A packet whose slot is
 * taken is not followed, and counted. Packets without data are not followed: TCP frees its acknowledgements without a trace.
 *
 * An sk_buff can be merged into another one and be freed without a trace, and its address is then that of another packet. So the first
 * four bytes of its transport header after the ports (TCP's sequence number, UDP's length) are compared at each point. A journey
 * that is found to be of another packet ends as lost, with the stamps it has.
 *
 * Two processors can have the same packet in their hands: the one that has put it into a receive queue, the one whose program reads it, and,
 * since Linux 6.18, the one that frees what UDP has read (skb_attempt_defer_free). So a journey that may end elsewhere is claimed before a
 * stamp is written, and only one of them ends it.
 *
 * Of the sockets of such packets a little is kept: when their program has read or written, and, since UDP frees what was read without a
 * trace, which packet is the next to be read.
 */
#pragma once
#include "kernel.h"
#include "ring.h"
#include "numbers.h"

/* include/uapi/linux/bpf.h: numbers of helpers */
static u32 (*const random32)(void) = (void *)7;

/* --- more of the kernel's structs --- */

struct sk_buff {
	u64 sk, dev;
	u32 len;
	s32 skb_iif;
	u16 protocol, network_header, inner_network_header, queue_mapping;
	u32 end; /* an offset from head */
	u8 encapsulation : 1;
	u64 head, data;
} KERNEL;
struct skb_shared_info {
	u16 gso_size;
} KERNEL;
struct possible_net {
	u64 net;
};
struct net_device {
	s32 ifindex;
	u32 flags;
	struct possible_net nd_net;
	char name[16];
	u64 _tx, rtnl_link_ops;
	struct hlist_node index_hlist;
} KERNEL;
struct net___path {
	u64 dev_index_head;
} KERNEL;
struct rtnl_link_ops {
	u64 kind;
} KERNEL;
struct netdev_queue {
	u64 qdisc;
} KERNEL;
struct Qdisc {
	u64 enqueue;
	u32 flags;
	struct {
		u32 qlen;
	} q;
} KERNEL;

struct flowi4 {
	u32 saddr, daddr;
} KERNEL;
struct flowi6 {
	struct in6 saddr, daddr;
} KERNEL;

struct task_struct___path {
	struct {
		u64 run_delay; /* with CONFIG_SCHED_INFO */
	} sched_info;
} KERNEL;
struct sk_buff___path {
	u64 tstamp;
} KERNEL;
struct tcp_sock___path {
	u8 is_cwnd_limited : 1;
} KERNEL;
struct sock___pacing {
	u32 sk_pacing_status : 2; /* so that its size does not matter: 32 bits, 8 in later kernels */
} KERNEL;
struct sock___lock {
	struct {
		s32 owned;
	} sk_lock;
} KERNEL;
struct sk_buff_head___path {
	u64 next, prev;
	u32 qlen;
} KERNEL;
struct sock___path {
	struct sk_buff_head___path sk_receive_queue;
} KERNEL;
struct udp_sock___path {
	struct sk_buff_head___path reader_queue;
} KERNEL;

/* --- constants that Sockeye sets before loading: crates/host/tracepoints/src/path/ --- */

/* Ports and prefixes of one end and the other. A packet matches if it does from its source to its destination, or the other way. */
const volatile u16 local_port_min = 0, local_port_max = 0xffff, peer_port_min = 0, peer_port_max = 0xffff;
const volatile u64 local_prefix[2] = {}, local_mask[2] = {}, peer_prefix[2] = {}, peer_mask[2] = {};
/* Numbers of slots, powers of two, less 1. */
const volatile u32 journeys_mask = 4095;
#define SOCKETS_MASK 1023u
/* One of how many packets is followed. */
const volatile u32 sample_every = 1;
/* Number of arguments of kfree_skb: without the third (Linux 5.17) there is no reason. */
const volatile u32 free_arguments = 2;
/* SKB_DROP_REASON_PACKET_SOCK_ERROR (Linux 6.5); 0 if there is no such reason. */
const volatile u32 packet_socket_reason = 0;
/* SKB_DROP_REASON_NOT_SPECIFIED (Linux 5.17); 0 if there are no reasons. */
const volatile u32 no_reason = 0;
const volatile u32 pid_namespace = 0; /* inode of ours; 0: the initial one */
/* Whether writes to TCP sockets are seen: tcp_sendmsg_locked (Linux 6.13). */
const volatile u32 sees_writes = 0;

/* --- records: crates/wire/src/path.rs --- */

/* Journeys with space for all stamps, and for fewer. */
enum { JOURNEY = 1, MIDDLE_JOURNEY = 2, SHORT_JOURNEY = 3 };
enum {
	QUEUED = 1,
	TRANSMITTED = 2,
	BACKLOGGED = 3,
	RECEIVED = 4,
	DELIVERED = 5,
	READ = 6,
	SENT = 7,
	DROPPED = 8,
	CONSUMED = 9,
	LOST = 10,
	READ_BEFORE = 11, /* the program had read the packet that this one answers */
	WRITTEN = 12,
	MERGED = 13,  /* into another one in the receive queue */
	DIVIDED = 14, /* into segments, which are followed from there on; with sampling those of UDP are not */
	ROUTED = 15,  /* the stack looks up its route */
	ARRIVED = 16, /* TCP has it, and no program holds the socket */
	HANDED = 17,  /* TCP has given it to the network layer */
	UNSEEN = 18,  /* it was received, and no program ran there */
	DISORDERED = 19, /* as ARRIVED, also while a program holds the socket: bytes before it are missing */
};

#define NO_QUEUE 0xfffffffeu /* the device has none */
#define UNKNOWN 0xffffffffu

struct stamp {
	u64 ns;
	u32 netns;
	s32 ifindex;
	u32 point;
	u32 length; /* of the queue that it enters, in packets */
	char device[16];
};

/* Flags of a journey: more stamps did not fit; the packet was read and is freed, but the call that reads has not returned; it is the first
 * fragment of a packet; what is in the send buffer waited for the window of the peer; it is a segment of a packet that was divided; the
 * congestion window was full; TCP paces what it sends; it does so at the highest rate that the program allows (SO_MAX_PACING_RATE). */
enum {
	TRUNCATED = 1,
	FREED = 2,
	FIRST_FRAGMENT = 4,
	WINDOW_FULL = 8,
	SEGMENT = 16,
	CONGESTION_WINDOW_FULL = 32,
	PACED = 64,
	RATE_LIMITED = 128,
};

/* A program has read from a socket of TCP, up to a byte that is not the last one of a packet whose journey ends there: what was merged into
 * another packet is read with it, and of a large packet many readings can take a part. */
enum { READING = 5 };
struct reading {
	u32 kind, end; /* sequence number of the next byte */
	u64 socket, ns;
	u32 reader, call;
	char comm[16];
};

#define STAMPS 32
#define MIDDLE 16
#define SHORT 8
struct journey {
	u32 kind;
	u8 count, protocol, end, flags;
	u64 skb; /* whose it is, with CLAIMED; 0: the slot is empty */
	u64 source[2], destination[2];
	u16 source_port, destination_port;
	u32 bytes;
	u32 mark_at, mark; /* bytes of the packet, and where they are after its head */
	s32 reason;
	u32 reader;
	char comm[16];
	u32 unsent, unacked; /* bytes in the send buffer of TCP when it was sent */
	u64 waited_ns;       /* the reader was ready, but had no processor, since it read before; ~0: unknown */
	u64 socket;	     /* of TCP that has it, for comparisons only; 0: none that is known */
	u32 payload, call;   /* bytes of TCP's payload; number of the call that has read it */
	u32 round_trip_us;   /* that TCP had measured when it was sent; 0: unknown */
	u32 nth;	     /* of a segment: how many points on the way its packet had passed before */
	struct stamp stamps[STAMPS];
};

/* --- maps --- */

struct map journeys SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct journey), 4096, 0};
/* What is kept of a socket. */
struct sock_state {
	u64 sk;      /* whose it is */
	u64 head;    /* the packet that is read next, of UDP; 0: none is there */
	u64 read_ns; /* when the program has read, if it has not written since */
	u64 mark_ns; /* when the byte with the number mark_seq was written, if it has not been sent */
	u32 mark_seq, has_mark;
	u64 reader;    /* the thread that has read */
	u64 run_delay; /* of that thread, then */
	u32 ports;   /* of the socket: another one can have its address later */
	u32 call;    /* how many calls have read from TCP (Linux 6.3) */
	u64 copied; /* the packet of TCP that was copied last; 0: none since the program has read */
	u32 read_seq, pad; /* the next byte of TCP that the program reads */
};
struct map sockets SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct sock_state), SOCKETS_MASK + 1, 0};
/* The packet that this processor's network stack has in its hands; and the same if a look-up of its route is of interest: on loopback little
 * happens before, and the stamp costs something. */
struct map packet_here SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), 2 * sizeof(u64), 1, 0};
/* Whether this processor has divided a packet since one was about to enter a queue: what it transmits next are the segments. */
struct map is_divided SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), sizeof(u64), 1, 0};
/* Numbers of packets that match; and of connections that are not followed. */
enum { BEGUN = 0, LEFT_OUT = 1, WITHOUT_DATA = 2, NO_SPACE = 3, NO_SPACE_TO_WAIT = 4, COUNTS = 5 };
struct map path_counts SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), sizeof(u64), COUNTS, 0};

INLINE void count(u32 what)
{
	u64 *number = map_lookup(&path_counts, &what);

	if (number)
		__sync_fetch_and_add(number, 1);
}

/* The address of this map's value, as a number. */
struct map numbers SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(u64), 1, 0};

/* The address that an argument of a program is. To the verifier it is a pointer, with which nothing can be calculated but its distance from
 * another one. */
INLINE u64 address_of(u64 argument)
{
	u32 first = 0;
	volatile u64 *other = map_lookup(&numbers, &first);

	if (!other)
		return 0;
	if (!*other)
		*other = (u64)other;
	asm volatile("%0 -= %1" : "+r"(argument) : "r"(other));
	return argument + *other;
}

/* A number of 32 bits from an address of an object of 64 bytes or more. */
INLINE u32 mixed(u64 address)
{
	return (u32)(address >> 6) * 0x9e3779b1u >> 8;
}

/* The slot of an address, of this packet or of another one. */
INLINE struct journey *slot_of(u64 skb)
{
	u32 index = mixed(skb) & journeys_mask;

	return map_lookup(&journeys, &index);
}

/* A program works on the journey, and no other one may. An address is a multiple of eight. */
#define CLAIMED 1ull

/* The journey of a packet; NULL if it is not followed, or if a program is about to end it. */
INLINE struct journey *journey_of(u64 skb)
{
	struct journey *slot = slot_of(skb);

	return slot && slot->skb == skb ? slot : NULL;
}

/* The same, also if another program works on it. */
INLINE struct journey *journey_to_end(u64 skb)
{
	struct journey *slot = slot_of(skb);

	return slot && (slot->skb | CLAIMED) == (skb | CLAIMED) ? slot : NULL;
}

/* Changes a slot's owner if it is `from`; returns who it was. Linux 5.10 has no compare-and-swap: two programs may both succeed there, within
 * a few nanoseconds. */
INLINE u64 exchange_if(u64 *slot, u64 from, u64 to)
{
#ifdef BY_PROBE_READ
	u64 was = *(volatile u64 *)slot;

	if (was == from)
		*(volatile u64 *)slot = to;
	return was;
#else
	return __sync_val_compare_and_swap(slot, from, to);
#endif
}

/* Gives a slot that is claimed to another owner, after all that was written there. */
INLINE void release(u64 *slot, u64 to)
{
#ifdef BY_PROBE_READ
	*(volatile u64 *)slot = to;
#else
	__sync_lock_test_and_set(slot, to);
#endif
}

/* The same, where a barrier has come before, or comes before another processor has the packet: an exchange costs more than all else here. */
INLINE void release_in_order(u64 *slot, u64 to)
{
	asm volatile("" ::: "memory");
	*(volatile u64 *)slot = to;
}

/* Claims the journey of a packet; 0 if it has none, or if it ends elsewhere. A program that puts the packet into a receive queue on another
 * processor has it for less than a microsecond. */
static __attribute__((noinline)) int claim(u64 skb)
{
	struct journey *slot = slot_of(skb);

	if (!slot)
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 tries = 0; tries < 100; tries++)
	{
		u64 owner = exchange_if(&slot->skb, skb, skb | CLAIMED);

		if (owner == skb)
			return 1;
		if (owner != (skb | CLAIMED))
			return 0;
	}
	return 0;
}

/* --- packets --- */

enum { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17 };

INLINE u16 swapped(u16 value)
{
	return (u16)(value >> 8 | value << 8);
}

struct headers {
	u64 source[2], destination[2];
	u16 source_port, destination_port;
	u32 protocol, has_data, payload, is_fragment;
	u64 transport;
};

INLINE int ports_match(u16 local_port, u16 peer_port)
{
	return local_port >= local_port_min && local_port <= local_port_max && peer_port >= peer_port_min &&
	       peer_port <= peer_port_max;
}

INLINE int read_ports(struct headers *h)
{
	if (h->protocol != PROTOCOL_TCP && h->protocol != PROTOCOL_UDP)
		return 0;
	h->source_port = swapped(LOAD(u16, h->transport));
	h->destination_port = swapped(LOAD(u16, h->transport + 2));
	return ports_match(h->source_port, h->destination_port) || ports_match(h->destination_port, h->source_port);
}

/* Extension headers of IPv6 before that of the transport. */
#define EXTENSIONS_MAX 3
enum { HOP_BY_HOP_OPTIONS = 0, ROUTING = 43, FRAGMENT = 44, DESTINATION_OPTIONS = 60, NO_NEXT_HEADER = 59 };

/* Goes to the next header, if this one is an extension. */
INLINE void skip_extension(struct headers *h)
{
	u64 at = h->transport;

	if (h->protocol == FRAGMENT) {
		/* The offset, big-endian. */
		u16 offset = LOAD(u16, at + 2);

		h->is_fragment = offset & 0x0100; /* more follow */
		h->protocol = offset & 0xf8ff ? NO_NEXT_HEADER : LOAD(u8, at);
		h->transport = at + 8;
	} else if (h->protocol == HOP_BY_HOP_OPTIONS || h->protocol == ROUTING || h->protocol == DESTINATION_OPTIONS) {
		h->protocol = LOAD(u8, at);
		h->transport = at + 8 + LOAD(u8, at + 1) * 8;
	}
}

/* Reads the headers from that of the network layer on; 0 if they are not of TCP or UDP, not the first of several fragments, or of other ports
 * than those that are asked for. */
INLINE int read_headers(struct headers *h, u64 ip, u16 ethertype)
{
	u32 bytes;

	h->is_fragment = 0;
	if (ethertype == 0x0800) {
		u32 header = (LOAD(u8, ip) & 15) * 4, offset = LOAD(u16, ip + 6);

		if (offset & 0xff1f) /* the offset of a fragment, big-endian */
			return 0;
		h->is_fragment = offset & 0x0020; /* more follow */
		h->protocol = LOAD(u8, ip + 9);
		h->transport = ip + header;
		if (!read_ports(h))
			return 0;
		bytes = swapped(LOAD(u16, ip + 2)) - header;
		h->source[0] = h->destination[0] = 0;
		h->source[1] = 0xffff0000ull | (u64)LOAD(u32, ip + 12) << 32;
		h->destination[1] = 0xffff0000ull | (u64)LOAD(u32, ip + 16) << 32;
	} else if (ethertype == 0x86dd) {
		h->protocol = LOAD(u8, ip + 6);
		h->transport = ip + 40;
		_Pragma("unroll") for (u32 i = 0; i < EXTENSIONS_MAX; i++) skip_extension(h);
		if (!read_ports(h))
			return 0;
		bytes = swapped(LOAD(u16, ip + 4)) - (u32)(h->transport - ip - 40);
		h->source[0] = LOAD(u64, ip + 8);
		h->source[1] = LOAD(u64, ip + 16);
		h->destination[0] = LOAD(u64, ip + 24);
		h->destination[1] = LOAD(u64, ip + 32);
	} else {
		return 0;
	}
	/* The length of a packet of more than 64 KiB is 0 there, or that of its last part. */
	if (h->protocol == PROTOCOL_TCP)
		bytes -= (u32)(LOAD(u8, h->transport + 12) >> 4) * 4;
	h->has_data = h->protocol == PROTOCOL_UDP || bytes;
	h->payload = bytes;
	return 1;
}

INLINE int ends_match(const u64 *local, u16 local_port, const u64 *peer, u16 peer_port)
{
	return ports_match(local_port, peer_port) &&
	       !(((local[0] & local_mask[0]) ^ local_prefix[0]) | ((local[1] & local_mask[1]) ^ local_prefix[1]) |
		 ((peer[0] & peer_mask[0]) ^ peer_prefix[0]) | ((peer[1] & peer_mask[1]) ^ peer_prefix[1]));
}


/* A journey that has not ended after this time makes room for another one. */
#define STALE_NS 10000000000ull

/* Of a number of bytes that is a constant: no call. */
INLINE void copy(void *to, const void *from, u32 bytes)
{
	_Pragma("unroll") for (u32 at = 0; at < bytes / sizeof(u64); at++)
		((u64 *)to)[at] = ((const u64 *)from)[at];
}

/* Writes a journey with its first stamps into the ring. */
INLINE void hand_over(const struct journey *journey, u32 kind, u32 stamps)
{
	/* A call costs more than a few words, and less than many. */
	u32 bytes = sizeof(struct journey) - (STAMPS - stamps) * sizeof(struct stamp);
	struct journey *record = record_of(kind, bytes);

	if (!record)
		return;
	if (stamps == SHORT)
		copy(record, journey, bytes);
	else
		probe_read_kernel(record, bytes, journey);
	record->kind = kind;
	submit(record, bytes);
}

/* Hands a claimed journey over and forgets it. */
static __attribute__((noinline)) int finish_claimed(u64 skb, u32 end, s32 reason)
{
	struct journey *journey = slot_of(skb);

	if (!journey)
		return 0;
	/* What was freed as read was not lost. */
	journey->end = (u8)(end == LOST && journey->flags & FREED ? CONSUMED : end);
	journey->reason = reason;
	if (journey->count <= SHORT)
		hand_over(journey, SHORT_JOURNEY, SHORT);
	else if (journey->count <= MIDDLE)
		hand_over(journey, MIDDLE_JOURNEY, MIDDLE);
	else
		hand_over(journey, JOURNEY, STAMPS);
	/* The ring has exchanged a number. */
	release_in_order(&journey->skb, 0);
	return 0;
}

/* Ends the journey of a packet, if it does not end elsewhere. */
static __attribute__((noinline)) int finish(u64 skb, u32 end, s32 reason)
{
	return claim(skb) ? finish_claimed(skb, end, reason) : 0;
}

/* What of a transport header stays the same on the way: TCP's sequence number, UDP's length. UDP's checksum, next to it, is changed by NAT, and
 * filled in late for a device that does not calculate it. */
INLINE u32 mark_of(u64 at, u32 protocol)
{
	return protocol == PROTOCOL_UDP ? LOAD(u16, at) : LOAD(u32, at);
}

INLINE int is_same(const struct journey *journey, u64 skb)
{
	return mark_of(GET(u64, skb, sk_buff, head) + journey->mark_at, journey->protocol) == journey->mark;
}

#include "path_segments.h"

/* Makes room in a slot: what has not ended for a long time, or has another packet at its address, was lost sight of; what was freed is read. */
INLINE void make_room(struct journey *journey)
{
	u64 owner = journey->skb;

	if (owner && (ktime_ns() - journey->stamps[0].ns > STALE_NS ||
		      (!(owner & CLAIMED) && (journey->flags & FREED || !is_same(journey, owner)))))
		finish(owner & ~CLAIMED, LOST, -1);
}

#define FAMILY_INET 2

/* The addresses of a socket, those of IPv4 mapped to IPv6. */
INLINE void take_addresses(u64 sk, u64 *local, u64 *peer)
{
	if (GET(u16, sk, sock_common, skc_family) == FAMILY_INET) {
		u64 pair = GET(u64, sk, sock_common, skc_addrpair);

		local[0] = peer[0] = 0;
		local[1] = 0xffff0000ull | pair >> 32 << 32;
		peer[1] = 0xffff0000ull | pair << 32;
	} else {
		u64 from = sk + AT(sock_common, skc_v6_rcv_saddr), to = sk + AT(sock_common, skc_v6_daddr);

		local[0] = LOAD(u64, from);
		local[1] = LOAD(u64, from + 8);
		peer[0] = LOAD(u64, to);
		peer[1] = LOAD(u64, to + 8);
	}
}

/* The same as `read_headers` of a packet of TCP that has none of the network layer yet: as its socket has the addresses. */
INLINE int read_socket(struct headers *h, u64 skb, u64 sk)
{
	h->is_fragment = 0;
	h->protocol = PROTOCOL_TCP;
	h->transport = GET(u64, skb, sk_buff, data);
	if (!read_ports(h))
		return 0;
	take_addresses(sk, h->source, h->destination);
	h->payload = GET(u32, skb, sk_buff, len) - (u32)(LOAD(u8, h->transport + 12) >> 4) * 4;
	h->has_data = h->payload;
	return 1;
}

/* Begins the journey of a packet, if it is to be followed. `ip`: the address of its network header, or of its socket. `which`: what the packet
 * must be. */
static __attribute__((noinline)) int begin(u64 skb, u64 ip, u32 which)
{
	u32 is_part = which == SEGMENT_THAT_LEAVES || which == SEGMENT_THAT_IS_DROPPED;
	struct headers h;
	struct journey *journey;
	u32 bytes = GET(u32, skb, sk_buff, len);
	u16 ethertype = swapped(GET(u16, skb, sk_buff, protocol));

	/* That of a packet in a tunnel is the tunnel's. */
	if (is_part)
		ethertype = LOAD(u8, ip) >> 4 == 6 ? 0x86dd : 0x0800;
	if (which == PACKET_OF_SOCKET ? !read_socket(&h, skb, ip) : !read_headers(&h, ip, ethertype))
		return 0;
	if (is_part) {
		if (!is_segment(h.transport, h.protocol, which))
			return 0;
	} else {
		if (!ends_match(h.source, h.source_port, h.destination, h.destination_port) &&
		    !ends_match(h.destination, h.destination_port, h.source, h.source_port))
			return 0;
		if (!h.has_data) {
			count(WITHOUT_DATA);
			return 0;
		}
		if (sample_every > 1 && random32() % sample_every) {
			count(LEFT_OUT);
			return 0;
		}
	}
	count(BEGUN);
	journey = slot_of(skb);
	if (journey)
		make_room(journey);
	if (!journey || exchange_if(&journey->skb, 0, skb | CLAIMED)) {
		count(NO_SPACE);
		return 0;
	}
	journey->count = journey->end = 0;
	journey->flags = h.is_fragment ? FIRST_FRAGMENT : 0;
	journey->reader = journey->call = 0;
	journey->socket = 0;
	((u64 *)journey->comm)[0] = ((u64 *)journey->comm)[1] = 0;
	journey->unsent = journey->unacked = UNKNOWN;
	journey->round_trip_us = journey->nth = 0;
	journey->waited_ns = ~0ull;
	journey->protocol = (u8)h.protocol;
	journey->source[0] = h.source[0];
	journey->source[1] = h.source[1];
	journey->destination[0] = h.destination[0];
	journey->destination[1] = h.destination[1];
	journey->source_port = h.source_port;
	journey->destination_port = h.destination_port;
	journey->bytes = bytes;
	/* The length in the header of a packet of more than 64 KiB is not that. */
	journey->payload = h.payload;
	if (h.protocol == PROTOCOL_TCP && bytes > 0xffff)
		journey->payload = bytes - (u32)(h.transport - GET(u64, skb, sk_buff, data)) -
				   (u32)(LOAD(u8, h.transport + 12) >> 4) * 4;
	journey->mark_at = (u32)(h.transport + 4 - GET(u64, skb, sk_buff, head));
	journey->mark = mark_of(h.transport + 4, h.protocol);
	journey->reason = -1;
	/* The queues between processors have locks. */
	release_in_order(&journey->skb, skb);
	return 1;
}

INLINE u32 last_point(const struct journey *journey)
{
	return journey->count ? journey->stamps[(journey->count - 1) & (STAMPS - 1)].point : 0;
}

/* Whether the last stamp is of this device. */
INLINE int was_at(const struct journey *journey, u64 device)
{
	const struct stamp *s = &journey->stamps[(journey->count - 1) & (STAMPS - 1)];
	u64 net = GET(u64, device, net_device, nd_net.net);

	return s->ifindex == GET(s32, device, net_device, ifindex) && s->netns == GET(u32, net, net, ns.inum);
}

/* The length of the queue of a device that the packet is about to enter. */
INLINE u32 qdisc_length(u64 skb, u64 device)
{
	u32 bytes = __builtin_preserve_type_info(*(struct netdev_queue *)0, 1);
	u64 queues = GET(u64, device, net_device, _tx);
	u64 qdisc = queues ? GET(u64, queues + bytes * GET(u16, skb, sk_buff, queue_mapping), netdev_queue, qdisc) : 0;

	if (!qdisc)
		return UNKNOWN;
	if (!GET(u64, qdisc, Qdisc, enqueue))
		return NO_QUEUE;
	/* TCQ_F_CPUSTATS: its length is spread over the processors. */
	if (GET(u32, qdisc, Qdisc, flags) & 0x20)
		return UNKNOWN;
	return GET(u32, qdisc, Qdisc, q.qlen);
}

INLINE void stamp_at(struct journey *journey, u32 point, u64 device, u32 length, u64 ns)
{
	u32 number = journey->count;
	struct stamp *s = &journey->stamps[number & (STAMPS - 1)];

	if (number >= STAMPS) {
		journey->flags |= TRUNCATED;
		return;
	}
	s->ns = ns;
	s->point = point;
	s->length = length;
	s->ifindex = s->netns = 0;
	((u64 *)s->device)[0] = ((u64 *)s->device)[1] = 0;
	if (device) {
		u64 name = device + AT(net_device, name), net = GET(u64, device, net_device, nd_net.net);

		s->ifindex = GET(s32, device, net_device, ifindex);
		s->netns = GET(u32, net, net, ns.inum);
		((u64 *)s->device)[0] = LOAD(u64, name);
		((u64 *)s->device)[1] = LOAD(u64, name + 8);
	}
	journey->count = (u8)(number + 1);
}

INLINE void stamp(struct journey *journey, u32 point, u64 device, u32 length)
{
	stamp_at(journey, point, device, length, ktime_ns());
}

/* The device with this index in a network namespace; 0 if it is not found in a few steps. */
INLINE u64 device_with(u64 net, u32 ifindex)
{
	u64 heads = GET(u64, net, net___path, dev_index_head), node;

	if (!heads)
		return 0;
	node = LOAD(u64, heads + 8 * (ifindex & 255)); /* NETDEV_HASHENTRIES */
	_Pragma("unroll") for (u32 i = 0; i < 4; i++)
	{
		u64 device = node - AT(net_device, index_hlist);

		if (!node)
			return 0;
		if (GET(u32, device, net_device, ifindex) == ifindex)
			return device;
		node = LOAD(u64, node);
	}
	return 0;
}

/* The stack has handed a packet to a device upon the one that has received it (macvlan, ipvlan, vlan, VRF), without a tracepoint: adds that, with
 * the time of the last stamp. `sk`: the socket that has the packet, whose device is cleared then; or 0. */
static __attribute__((noinline)) int follow_up_slow(u64 skb, u64 sk)
{
	struct journey *journey = slot_of(skb);
	u32 ifindex = GET(u32, skb, sk_buff, skb_iif), number;
	u64 device;

	if (!journey)
		return 0;
	device = sk ? device_with(GET(u64, sk, sock_common, skc_net), ifindex) : GET(u64, skb, sk_buff, dev);
	number = journey->count;
	if (!device || !number || number > STAMPS || GET(u32, device, net_device, ifindex) != ifindex)
		return 0;
	if (!was_at(journey, device))
		stamp_at(journey, RECEIVED, device, UNKNOWN, journey->stamps[(number - 1) & (STAMPS - 1)].ns);
	return 0;
}

INLINE void follow_up(struct journey *journey, u64 skb, u64 sk)
{
	const struct stamp *s = &journey->stamps[(journey->count - 1) & (STAMPS - 1)];
	u64 net;

	if (s->point != RECEIVED && s->point != ROUTED)
		return;
	net = sk ? GET(u64, sk, sock_common, skc_net) : GET(u64, GET(u64, skb, sk_buff, dev), net_device, nd_net.net);
	if (s->ifindex != GET(s32, skb, sk_buff, skb_iif) || s->netns != GET(u32, net, net, ns.inum))
		follow_up_slow(skb, sk);
}

/* Ends the journey of a packet, if it does not end elsewhere, with a stamp of its own. */
INLINE int finish_at(struct journey *journey, u64 skb, u32 point, u32 length, u32 end, s32 reason)
{
	if (!claim(skb))
		return 0;
	stamp(journey, point, 0, length);
	return finish_claimed(skb, end, reason);
}

/* Begins the journey of a segment where its packet was divided. */
static __attribute__((noinline)) int begin_segment(u64 skb, u32 which)
{
	struct journey *journey;
	struct segment *segment;
	u64 head = GET(u64, skb, sk_buff, head);
	u32 network = GET(u16, skb, sk_buff, network_header);
	struct stamp *s;

	if (GET_ANY(skb, sk_buff, encapsulation))
		network = GET(u16, skb, sk_buff, inner_network_header);
	if (!begin(skb, head + network, which))
		return 0;
	journey = journey_of(skb);
	if (!journey)
		return 0;
	segment = segment_of(head + journey->mark_at - 4, journey->protocol);
	if (!segment)
		return 0;
	journey->flags |= SEGMENT;
	journey->nth = segment->nth;
	s = &journey->stamps[0];
	s->ns = segment->queued_ns;
	s->netns = segment->netns;
	s->ifindex = segment->ifindex;
	s->point = segment->point;
	s->length = segment->length;
	copy(s->device, segment->device, sizeof(s->device));
	journey->count = 1;
	end_segment(segment, journey->protocol);
	return 1;
}

/* --- sockets --- */

INLINE u32 ports_of(u64 sk)
{
	return GET(u32, sk, sock_common, skc_portpair);
}

INLINE int is_udp(u64 sk)
{
	return GET_ANY(sk, sock, sk_protocol) == PROTOCOL_UDP;
}

INLINE struct sock_state *state_slot(u64 sk)
{
	u32 index = mixed(sk) & SOCKETS_MASK;

	return map_lookup(&sockets, &index);
}

/* What is kept of a socket; NULL if nothing is. */
INLINE struct sock_state *state_of(u64 sk)
{
	struct sock_state *state = state_slot(sk);

	return state && state->sk == sk && state->ports == ports_of(sk) ? state : NULL;
}

/* The same; the slot becomes that of this socket if it was not. */
INLINE struct sock_state *state_or_new(u64 sk)
{
	struct sock_state *state = state_slot(sk);

	if (state && (state->sk != sk || state->ports != ports_of(sk))) {
		state->head = state->read_ns = state->reader = 0;
		state->has_mark = state->call = 0;
		state->copied = 0;
		state->read_seq = GET_ANY(sk, sock, sk_protocol) == PROTOCOL_TCP ? GET(u32, sk, tcp_sock, copied_seq) : 0;
		state->ports = ports_of(sk);
		state->sk = sk;
	}
	return state;
}

/* The first packet in a list; 0 if it is empty. */
INLINE u64 first_of(u64 list)
{
	u64 next = GET(u64, list, sk_buff_head___path, next);

	return next == list ? 0 : next;
}

/* The packet that a socket of UDP reads next. */
INLINE u64 head_of(u64 sk)
{
	u64 head = first_of(sk + AT(udp_sock___path, reader_queue));

	return head ? head : first_of(sk + AT(sock___path, sk_receive_queue));
}

#define RWND_LIMITED 2 /* enum tcp_chrono: TCP_CHRONO_RWND_LIMITED */
#define HANDED_NS_MAX 1000000000ull

/* Adds when TCP has given the packet to the network layer: it writes the time into the packet, of the same clock as here (Linux 4.20). With pacing
 * that is when it is to leave, which can be later. */
INLINE void add_handing(struct journey *journey, u64 skb, u64 written_ns)
{
	u64 ns = HAS(sk_buff___path, tstamp) ? GET(u64, skb, sk_buff___path, tstamp) : 0, now = ktime_ns();

	if (ns >= written_ns && ns <= now && now - ns < HANDED_NS_MAX)
		stamp_at(journey, HANDED, 0, UNKNOWN, ns);
}

#define PACING_NEEDED 1 /* enum sk_pacing: SK_PACING_NEEDED: by a timer of TCP, not by a qdisc */

/* Adds what TCP waits for before it sends more. Until it has sent all that it can it keeps what it has waited for. */
INLINE void add_limits(struct journey *journey, u64 sk)
{
	u32 next = GET(u32, sk, tcp_sock, snd_nxt);
	u64 max;

	journey->unsent = GET(u32, sk, tcp_sock, write_seq) - next;
	journey->unacked = next - GET(u32, sk, tcp_sock, snd_una);
	journey->round_trip_us = GET(u32, sk, tcp_sock, srtt_us) >> 3;
	if (GET_ANY(sk, tcp_sock, chrono_type) == RWND_LIMITED)
		journey->flags |= WINDOW_FULL;
	if (GET_ANY(sk, tcp_sock___path, is_cwnd_limited))
		journey->flags |= CONGESTION_WINDOW_FULL;
	if (GET_ANY(sk, sock___pacing, sk_pacing_status) == PACING_NEEDED) {
		journey->flags |= PACED;
		max = GET(u64, sk, sock, sk_max_pacing_rate);
		if (max != ~0ull && GET(u64, sk, sock, sk_pacing_rate) >= max)
			journey->flags |= RATE_LIMITED;
	}
}

/* Adds what its sender did before: read, and wrote this. */
INLINE void precede(struct journey *journey, u64 skb, u64 sk)
{
	struct sock_state *state = state_or_new(sk);
	u32 seq = __builtin_bswap32(journey->mark);
	u64 read_ns, written_ns = 0;

	if (!state)
		return;
	if (journey->protocol == PROTOCOL_TCP)
		add_limits(journey, sk);
	read_ns = sample_every > 1 ? 0 : state->read_ns;
	if (journey->protocol == PROTOCOL_UDP || !sees_writes) {
		if (read_ns)
			stamp_at(journey, READ_BEFORE, 0, UNKNOWN, read_ns);
	} else if (state->has_mark && state->mark_seq - seq < journey->bytes) {
		if (read_ns && read_ns < state->mark_ns)
			stamp_at(journey, READ_BEFORE, 0, UNKNOWN, read_ns);
		stamp_at(journey, WRITTEN, 0, UNKNOWN, state->mark_ns);
		written_ns = state->mark_ns;
		state->has_mark = 0;
	}
	state->read_ns = 0;
	if (journey->protocol == PROTOCOL_TCP)
		add_handing(journey, skb, written_ns);
}

/* The current process has read the packet. */
static __attribute__((noinline)) int is_read(u64 skb, u64 sk)
{
	struct journey *journey = slot_of(skb);
	struct sock_state *state;
	u64 now = ktime_ns(), task = current_task(), comm;

	if (!journey || !claim(skb))
		return 0;
	comm = GET(u64, task, task_struct, group_leader) + AT(task_struct, comm);
	if (sk)
		follow_up(journey, skb, sk);
	journey->reader = number_of(task, pid_namespace);
	((u64 *)journey->comm)[0] = LOAD(u64, comm);
	((u64 *)journey->comm)[1] = LOAD(u64, comm + 8);
	stamp_at(journey, READ, 0, UNKNOWN, now);
	state = sk ? state_of(sk) : NULL;
	if (state) {
		state->read_ns = now;
		journey->call = state->call;
		if (HAS(task_struct___path, sched_info.run_delay)) {
			u64 delay = GET(u64, task, task_struct___path, sched_info.run_delay);

			/* Another thread may have the address of one that has ended. */
			if (state->reader == task && delay >= state->run_delay)
				journey->waited_ns = delay - state->run_delay;
			state->reader = task;
			state->run_delay = delay;
		}
	}
	return finish_claimed(skb, READ, -1);
}

/* --- programs --- */

INLINE u64 network_header_of(u64 skb)
{
	return GET(u64, skb, sk_buff, head) + GET(u16, skb, sk_buff, network_header);
}

#define IFF_LOOPBACK_ 8

#include "path_drop.h"

/* A packet that was at a driver is about to enter the queue of another device. Unless that is one below the first, it was received in between:
 * the index of that device is in it. */
static __attribute__((noinline)) int add_unseen(u64 skb)
{
	struct journey *journey = slot_of(skb);
	s32 received = GET(s32, skb, sk_buff, skb_iif), last = 0;

	if (!journey)
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < STAMPS; i++)
	{
		if (i >= journey->count)
			break;
		if (journey->stamps[i].point == RECEIVED)
			last = journey->stamps[i].ifindex;
	}
	if (last != received)
		stamp(journey, UNSEEN, 0, UNKNOWN);
	return 0;
}

/* A packet is about to enter the queue of a device. */
SEC("tp_btf/net_dev_queue")
int packet_is_queued(u64 *args)
{
	u64 skb = address_of(args[0]), device = GET(u64, skb, sk_buff, dev), *divided;
	struct journey *journey = journey_of(skb);
	u32 first = 0;

	divided = map_lookup(&is_divided, &first);
	if (divided)
		*divided = 0;
	if (journey) {
		/* What a socket sends is new, unless a device upon another one passes it on. */
		if (!is_same(journey, skb) ||
		    (GET(u64, skb, sk_buff, sk) && (last_point(journey) != TRANSMITTED || was_at(journey, device)))) {
			finish(skb, LOST, -1);
			journey = NULL;
		}
	}
	if (!journey) {
		if (GET(s32, skb, sk_buff, skb_iif))
			return 0;
		if (!begin(skb, network_header_of(skb), ANY_PACKET))
			return 0;
		journey = journey_of(skb);
		if (journey && GET(u64, skb, sk_buff, sk))
			precede(journey, skb, GET(u64, skb, sk_buff, sk));
	}
	if (journey) {
		if (last_point(journey) == TRANSMITTED && GET(u32, skb, sk_buff, skb_iif))
			add_unseen(skb);
		stamp(journey, QUEUED, device, qdisc_length(skb, device));
	}
	return 0;
}

/* The driver of a device is called. */
SEC("tp_btf/net_dev_start_xmit")
int packet_is_transmitted(u64 *args)
{
	u64 skb = address_of(args[0]), *divided;
	struct journey *journey = journey_of(skb);
	u32 first = 0;

	/* Of a packet that was at this address before. */
	if (journey && (last_point(journey) != QUEUED || !is_same(journey, skb))) {
		finish(skb, LOST, -1);
		journey = NULL;
	}
	if (!journey && segments_wait() && begin_segment(skb, SEGMENT_THAT_LEAVES))
		journey = journey_of(skb);
	if (!journey) {
		divided = map_lookup(&is_divided, &first);
		if (!divided || !*divided || !begin(skb, network_header_of(skb), ANY_PACKET))
			return 0;
		journey = journey_of(skb);
	}
	if (journey)
		stamp(journey, TRANSMITTED, address_of(args[1]), UNKNOWN);
	return 0;
}

/* A packet enters the backlog of a processor. */
SEC("tp_btf/netif_rx")
int packet_is_backlogged(u64 *args)
{
	u64 skb = address_of(args[0]);
	struct journey *journey = journey_of(skb);

	/* Of a packet that was at this address before. */
	if (journey && !is_same(journey, skb))
		return finish(skb, LOST, -1);
	if (journey)
		stamp(journey, BACKLOGGED, GET(u64, skb, sk_buff, dev), UNKNOWN);
	return 0;
}

/* Whether all that arrives on a device was sent by a device of this host. */
INLINE int is_from_here(u64 device)
{
	u64 operations = GET(u64, device, net_device, rtnl_link_ops);
	u32 kind = operations ? LOAD(u32, GET(u64, operations, rtnl_link_ops, kind)) : 0;

	return GET(u32, device, net_device, flags) & IFF_LOOPBACK_ || kind == 0x68746576 /* veth */ ||
	       kind == 0x6b74656e /* netkit */;
}

/* The network stack receives a packet from a device. */
SEC("tp_btf/netif_receive_skb")
int packet_is_received(u64 *args)
{
	u64 skb = address_of(args[0]), device = GET(u64, skb, sk_buff, dev), *here;
	struct journey *journey = journey_of(skb);
	u32 first = 0;

	if (journey && !is_same(journey, skb)) {
		finish(skb, LOST, -1);
		journey = NULL;
	}
	if (!journey && !GET(s32, skb, sk_buff, skb_iif) && !is_from_here(device) && begin(skb, GET(u64, skb, sk_buff, data), ANY_PACKET))
		journey = journey_of(skb);
	here = map_lookup(&packet_here, &first);
	if (here) {
		here[0] = journey ? skb : 0;
		here[1] = journey && !(GET(u32, device, net_device, flags) & IFF_LOOPBACK_) ? skb : 0;
	}
	if (journey)
		stamp(journey, RECEIVED, device, UNKNOWN);
	return 0;
}

/* Whether a packet that the stack has received, and has not delivered, is in its hands. */
INLINE int is_in_stack(u32 last)
{
	return last == RECEIVED || last == ROUTED || last == ARRIVED || last == DISORDERED;
}

/* Whether the stack has received a packet, and no program has read it. */
INLINE int is_unread(u32 last)
{
	return is_in_stack(last) || last == DELIVERED;
}

/* The packet whose route this processor's network stack looks up has passed netfilter's prerouting hook. A filter of reverse paths looks up
 * the way back: those addresses are not the packet's. */
INLINE int is_routed(u32 version, u64 source, u64 destination)
{
	u32 first = 0;
	u64 *here = map_lookup(&packet_here, &first), skb, ip;
	struct journey *journey;

	if (!here || !here[1])
		return 0;
	skb = here[1];
	journey = journey_of(skb);
	if (!journey || last_point(journey) != RECEIVED || !is_same(journey, skb))
		return 0;
	ip = network_header_of(skb);
	if (LOAD(u8, ip) >> 4 != version)
		return 0;
	if (version == 4 ? LOAD(u32, ip + 12) != LOAD(u32, source) || LOAD(u32, ip + 16) != LOAD(u32, destination) :
			   LOAD(u64, ip + 8) != LOAD(u64, source) || LOAD(u64, ip + 16) != LOAD(u64, source + 8) ||
				   LOAD(u64, ip + 24) != LOAD(u64, destination) ||
				   LOAD(u64, ip + 32) != LOAD(u64, destination + 8))
		return 0;
	follow_up(journey, skb, 0);
	stamp(journey, ROUTED, GET(u64, skb, sk_buff, dev), UNKNOWN);
	return 0;
}

SEC("tp_btf/fib_table_lookup")
int packet_is_routed(u64 *args)
{
	u64 flow = address_of(args[1]);

	return is_routed(4, flow + AT(flowi4, saddr), flow + AT(flowi4, daddr));
}

SEC("tp_btf/fib6_table_lookup")
int packet_is_routed6(u64 *args)
{
	u64 flow = address_of(args[3]);

	return is_routed(6, flow + AT(flowi6, saddr), flow + AT(flowi6, daddr));
}

/* TCP gets a packet that has passed netfilter's input hook. If a program holds the socket, that is later than it has arrived there, and not of
 * interest. */
SEC("tp_btf/tcp_probe")
int packet_arrives(u64 *args)
{
	u64 sk = address_of(args[0]), skb = address_of(args[1]);
	struct journey *journey = journey_of(skb);
	const struct stamp *before;
	struct stamp *s;
	u32 number, is_disordered;

	if (!journey || (last_point(journey) != RECEIVED && last_point(journey) != ROUTED) || !is_same(journey, skb))
		return 0;
	/* It may be merged into another packet, and be freed without a trace. */
	journey->socket = sk;
	is_disordered = (s32)(__builtin_bswap32(journey->mark) - GET(u32, sk, tcp_sock, rcv_nxt)) > 0;
	if (!is_disordered && GET(s32, sk, sock___lock, sk_lock.owned))
		return 0;
	follow_up(journey, skb, sk);
	number = journey->count;
	stamp(journey, is_disordered ? DISORDERED : ARRIVED, 0, UNKNOWN);
	/* TCP has cleared the device of the packet. */
	if (!number || number >= STAMPS)
		return 0;
	before = &journey->stamps[(number - 1) & (STAMPS - 1)];
	s = &journey->stamps[number & (STAMPS - 1)];
	s->ifindex = before->ifindex;
	s->netns = before->netns;
	copy(s->device, before->device, sizeof(s->device));
	return 0;
}

/* Whether the packet is one of TCP whose bytes the socket has: of its connection, and none is missing before it. */
INLINE int has_bytes_of(u64 sk, const struct journey *journey)
{
	return journey->protocol == PROTOCOL_TCP && journey->destination_port == ports_of(sk) >> 16 &&
	       journey->source_port == swapped((u16)ports_of(sk)) &&
	       (s32)(GET(u32, sk, tcp_sock, rcv_nxt) - __builtin_bswap32(journey->mark)) > 0;
}

/* A packet is in the receive queue of a socket: the last one there. It need not be the one that this processor received last: a driver hands
 * several up before the first is delivered, and TCP has a backlog while a program holds the socket. */
SEC("tp_btf/sk_data_ready")
int packet_is_delivered(u64 *args)
{
	u64 sk = address_of(args[0]), last = GET(u64, sk, sock___path, sk_receive_queue.prev), *here;
	u32 first = 0, length = GET(u32, sk, sock___path, sk_receive_queue.qlen);
	struct journey *journey = journey_of(last);
	struct sock_state *state;

	here = map_lookup(&packet_here, &first);
	if (!journey && length && segments_wait() && is_udp(sk) && begin_segment(last, SEGMENT_THAT_LEAVES))
		journey = journey_of(last);
	if (journey && is_in_stack(last_point(journey)) && is_same(journey, last)) {
		/* A program that does not sleep may read what UDP has received before this one has run. TCP has a lock. */
		if (journey->protocol == PROTOCOL_TCP) {
			follow_up(journey, last, sk);
			journey->socket = sk;
			stamp(journey, DELIVERED, 0, length);
		} else if (claim(last)) {
			follow_up(journey, last, sk);
			stamp(journey, DELIVERED, 0, length);
			release(&journey->skb, last);
		}
		state_or_new(sk);
	} else if (here && *here && *here != last) {
		u64 skb = *here;

		/* TCP has merged it into the one before. */
		journey = journey_of(skb);
		if (journey && is_in_stack(last_point(journey)) && has_bytes_of(sk, journey)) {
			*here = 0;
			journey->socket = sk;
			state_or_new(sk);
			return finish_at(journey, skb, DELIVERED, length, MERGED, -1);
		}
	}
	state = state_of(sk);
	if (state && !state->head && is_udp(sk))
		state->head = head_of(sk);
	return 0;
}

/* A program reads from a socket of TCP that is followed, up to the byte with this number. */
static __attribute__((noinline)) int stream_is_read(u64 sk, u32 end)
{
	struct sock_state *state = state_of(sk);
	struct reading *record;
	u64 task = current_task(), comm;

	if (!state || sample_every > 1)
		return 0;
	state->read_ns = ktime_ns();
	record = record_of(READING, sizeof(*record));
	if (!record)
		return 0;
	comm = GET(u64, task, task_struct, group_leader) + AT(task_struct, comm);
	record->end = end;
	record->socket = sk;
	record->ns = state->read_ns;
	record->reader = number_of(task, pid_namespace);
	record->call = state->call;
	((u64 *)record->comm)[0] = LOAD(u64, comm);
	((u64 *)record->comm)[1] = LOAD(u64, comm + 8);
	submit(record, sizeof(*record));
	return 0;
}

INLINE int is_tcp(u64 sk)
{
	return GET_ANY(sk, sock, sk_protocol) == PROTOCOL_TCP;
}

/* A packet is copied to a process that reads: from its socket, or from a device that is read by a program. */
SEC("tp_btf/skb_copy_datagram_iovec")
int packet_is_read(u64 *args)
{
	u64 skb = address_of(args[0]), sk;
	struct journey *journey = journey_to_end(skb);

	sk = GET(u64, skb, sk_buff, sk);
	if (sk && is_tcp(sk)) {
		struct sock_state *state = state_of(sk);

		/* It may only look at it (MSG_PEEK): stream_is_taken knows. */
		if (state) {
			state->copied = skb;
			return 0;
		}
	}
	if (!journey)
		return 0;
	if (!is_same(journey, skb))
		return finish(skb, LOST, -1);
	if (last_point(journey) != TRANSMITTED)
		return is_read(skb, GET(u64, skb, sk_buff, sk));
	/* A program reads the device, unless it reads a socket, and the kernel has not run the programs on the way there: TCP clears
	 * the device. */
	return GET(u64, skb, sk_buff, dev) ? is_read(skb, 0) : finish(skb, CONSUMED, -1);
}

/* A program has taken bytes of TCP: by reading, also what it throws away (MSG_TRUNC), by splice() or from mapped memory. With MSG_PEEK it has
 * not: the number of the next byte is as before. A packet is read when its last byte is. */
SEC("tp_btf/tcp_rcv_space_adjust")
int stream_is_taken(u64 *args)
{
	u64 sk = address_of(args[0]), skb;
	struct sock_state *state = state_of(sk);
	struct journey *journey;
	u32 end;

	if (!state)
		return 0;
	end = GET(u32, sk, tcp_sock, copied_seq);
	skb = state->copied;
	state->copied = 0;
	if (end == state->read_seq)
		return 0;
	state->read_seq = end;
	journey = skb ? journey_to_end(skb) : NULL;
	if (journey && is_same(journey, skb) && journey->payload) {
		s32 after = (s32)(end - __builtin_bswap32(journey->mark) - journey->payload);

		if (after >= 0)
			is_read(skb, sk);
		if (!after)
			return 0;
	}
	return stream_is_read(sk, end);
}

#define MSG_PEEK_ 2

/* A call has read from a socket. */
SEC("tp_btf/sock_recv_length")
int socket_is_read(u64 *args)
{
	u64 sk = address_of(args[0]), before, now;
	struct sock_state *state = state_of(sk);

	if (!state || (s32)args[1] < 0 || args[2] & MSG_PEEK_)
		return 0;
	if (!is_udp(sk)) {
		state->call++;
		return 0;
	}
	before = state->head;
	now = state->head = head_of(sk);
	state->read_ns = ktime_ns();
	/* Of several threads that read, another one has. */
	if (before && before != now) {
		struct journey *journey = journey_to_end(before);
		u32 last = journey ? last_point(journey) : 0;

		/* A packet that is sent may have the address of one that was freed. */
		if (journey && journey->protocol == PROTOCOL_UDP && journey->destination_port == ports_of(sk) >> 16 &&
		    is_unread(last))
			is_read(before, sk);
	}
	return 0;
}

/* A program writes to a socket of TCP. */
SEC("tp_btf/tcp_sendmsg_locked")
int socket_is_written(u64 *args)
{
	u64 sk = address_of(args[0]);
	struct sock_state *state = state_of(sk);

	if (!state || (state->has_mark && (s32)(GET(u32, sk, tcp_sock, snd_nxt) - state->mark_seq) <= 0))
		return 0;
	state->mark_seq = GET(u32, sk, tcp_sock, write_seq);
	state->mark_ns = ktime_ns();
	state->has_mark = 1;
	return 0;
}

/* A packet has done its work: after its device has sent it, that is when it has left. */
SEC("tp_btf/consume_skb")
int packet_is_consumed(u64 *args)
{
	u64 skb = address_of(args[0]);
	struct journey *journey = journey_to_end(skb);
	u32 last, first = 0;
	u64 *divided;

	if (!journey)
		return 0;
	if (!is_same(journey, skb))
		return finish(skb, LOST, -1);
	last = last_point(journey);
	/* It is divided: by a queue or after it; or before a socket that takes no large packets of UDP (UDP_GRO). */
	if (last == QUEUED || (journey->protocol == PROTOCOL_UDP && is_in_stack(last) && segment_size(skb))) {
		if (remember_segments(skb) || last != QUEUED)
			return finish(skb, DIVIDED, -1);
		divided = map_lookup(&is_divided, &first);
		if (divided)
			*divided = 1;
		return finish_at(journey, skb, DIVIDED, UNKNOWN, DIVIDED, -1);
	}
	if (journey->protocol == PROTOCOL_UDP && is_unread(last)) {
		/* What was read of UDP is freed by its reader. Since Linux 6.18 the processor that made the packet frees it, later, or
		 * before the reader's call has returned: who has read it, and when, is seen there (socket_is_read). */
		if (!HAS(sock, sk_drop_counters))
			return is_read(skb, 0);
		if (claim(skb)) {
			journey->flags |= FREED;
			release(&journey->skb, skb);
		}
		return 0;
	}
	if (last != TRANSMITTED)
		return finish(skb, CONSUMED, -1);
	return finish_at(journey, skb, SENT, UNKNOWN, SENT, -1);
}

SEC("tp_btf/kfree_skb")
int packet_is_dropped(u64 *args)
{
	u64 skb = address_of(args[0]), sk, device;
	u32 reason = free_arguments > 2 ? (u32)args[2] : 0, place;
	struct journey *journey;

	/* A packet socket, as of a capture, could not keep its copy. That of Linux 7.2 is seen here as the packet itself. */
	if (free_arguments > 2 && packet_socket_reason && (u32)args[2] == packet_socket_reason)
		return 0;
	journey = journey_to_end(skb);
	/* Of a packet that was at this address before. */
	if (journey && (!is_same(journey, skb) || is_before_device(skb))) {
		finish(skb, LOST, -1);
		journey = NULL;
	}
	if (!journey && segments_wait() && begin_segment(skb, SEGMENT_THAT_IS_DROPPED))
		journey = journey_to_end(skb);
	if (!journey && (is_before_device(skb) || is_at_egress(skb, reason)) && begin_unsent(skb)) {
		journey = journey_to_end(skb);
		if (!journey || !claim(skb))
			return 0;
		sk = GET(u64, skb, sk_buff, sk);
		device = GET(u64, skb, sk_buff, dev);
		stamp(journey, DROPPED, device, place_of_unsent(skb));
		if (!device)
			journey->stamps[(journey->count - 1) & (STAMPS - 1)].netns =
			    GET(u32, GET(u64, sk, sock_common, skc_net), net, ns.inum);
		return finish_claimed(skb, DROPPED, free_arguments > 2 ? (s32)args[2] : -1);
	}
	if (!journey)
		return 0;
	/* Since Linux 6.13 tbf frees so a packet that it has divided, when none of the segments did fit: they are dropped next, with a reason. */
	if (free_arguments > 2 && no_reason && (u32)args[2] == no_reason && last_point(journey) == QUEUED && remember_segments(skb))
		return finish(skb, DIVIDED, -1);
	follow_up(journey, skb, 0);
	place = place_of_received(skb);
	if (!claim(skb))
		return 0;
	stamp(journey, DROPPED, place == AT_FORWARDED_EGRESS ? GET(u64, skb, sk_buff, dev) : 0, place);
	return finish_claimed(skb, DROPPED, free_arguments > 2 ? (s32)args[2] : -1);
}

#include "path_accept.h"

char license_[] SEC("license") = "GPL";
