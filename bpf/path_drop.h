/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Where a packet is dropped: the kernel has one tracepoint for all places, and none at netfilter's hooks. What the packet has says how far it was: a
 * device, a MAC header, what the network layer writes into its control block, a route. So packets are counted, too, that are dropped before
 * the queue of a device, where nothing else is seen of them.
 */
#pragma once

struct sk_buff___drop {
	u64 _skb_refdst;
	u16 mac_header;
	u8 pkt_type : 3;
	u8 cb[48];
} KERNEL;
struct dst_entry___drop {
	u16 flags;
} KERNEL;
struct rtable___drop {
	u32 rt_flags;
} KERNEL;
struct rt6_info___drop {
	u32 rt6i_flags;
} KERNEL;
struct net_device___drop {
	u64 priv_flags : 32; /* since Linux 6.12; before, a number of 32 bits */
	u16 hard_header_len;
} KERNEL;

/* SKB_DROP_REASON_NETFILTER_DROP, SKB_DROP_REASON_TC_EGRESS; 0 if there are no such reasons. */
const volatile u32 filter_reason = 0, tc_egress_reason = 0;

/* In the length of the stamp of a drop. crates/wire/src/path.rs */
enum {
	AT_OUTPUT = 1,	     /* sent here, and no device is known */
	AT_POSTROUTING_SENT = 2, /* sent here, to a device */
	AT_EGRESS = 3,	     /* sent here, at that device, before its queue */
	AT_INGRESS = 4,	     /* the device has received it, and the network layer has not seen it */
	AT_PREROUTING = 5,   /* the network layer has it, and no route */
	AT_LOCAL = 6,	     /* it is for this host */
	AT_FORWARD = 7,	     /* it is for another host, and at the device that has received it */
	AT_POSTROUTING = 8,  /* it is for another host, and at the next device */
	AT_BRIDGE_IN = 9,    /* in a bridge, at the port that has received it */
	AT_BRIDGE_FORWARD = 10, /* at the port that is to send it */
	AT_BRIDGE_UP = 11,   /* on its way from the port to the bridge itself */
	AT_LOCAL_LOOPBACK = 12, /* as AT_LOCAL, where packets have a route from the beginning */
	AT_FORWARDED_EGRESS = 13, /* as AT_POSTROUTING, and it has the header of the next device: before its queue */
	AT_POSTROUTING_OR_EGRESS = 14, /* the next device has no header */
};

#define PRIV_EBRIDGE (1 << 1)
#define PRIV_BRIDGE_PORT (1 << 9)
/* RTCF_LOCAL, RTCF_MULTICAST, RTCF_BROADCAST; RTF_LOCAL, RTF_ANYCAST */
#define IPV4_TO_US 0xb0000000u
#define IPV6_TO_US 0x80100000u
#define NO_MAC_HEADER 0xffff
#define FAMILY_INET6 10

/* Whether a packet is of a socket of this host and has not come to a device: its queue or the hook before that. */
INLINE int is_before_device(u64 skb)
{
	return GET(u64, skb, sk_buff, sk) && !GET(s32, skb, sk_buff, skb_iif) &&
	       !GET_ANY(skb, sk_buff___drop, pkt_type) && GET(u16, skb, sk_buff___drop, mac_header) == NO_MAC_HEADER;
}

/* Whether it is dropped by a hook of the device that it is sent to. */
INLINE int is_at_egress(u64 skb, u32 reason)
{
	return GET(u64, skb, sk_buff, sk) && !GET(s32, skb, sk_buff, skb_iif) && sample_every == 1 && reason &&
	       !GET_ANY(skb, sk_buff___drop, pkt_type) && GET(u64, skb, sk_buff, dev) &&
	       (reason == filter_reason || reason == tc_egress_reason);
}

/* Begins the journey of a packet that is dropped before the queue of a device. */
static __attribute__((noinline)) int begin_unsent(u64 skb)
{
	u64 sk = GET(u64, skb, sk_buff, sk);
	struct journey *journey;
	u16 family = GET(u16, sk, sock_common, skc_family);

	if (family != FAMILY_INET && family != FAMILY_INET6)
		return 0;
	/* TCP looks up the route before there is a header of the network layer. */
	if (GET(u16, skb, sk_buff, protocol)) {
		if (!begin(skb, network_header_of(skb), ANY_PACKET))
			return 0;
	} else if (GET_ANY(sk, sock, sk_protocol) != PROTOCOL_TCP || !begin(skb, sk, PACKET_OF_SOCKET)) {
		return 0;
	}
	journey = journey_of(skb);
	if (!journey)
		return 0;
	precede(journey, skb, sk);
	return 1;
}

INLINE u32 place_of_unsent(u64 skb)
{
	if (!GET(u64, skb, sk_buff, dev))
		return AT_OUTPUT;
	return GET(u16, skb, sk_buff___drop, mac_header) == NO_MAC_HEADER ? AT_POSTROUTING_SENT : AT_EGRESS;
}

/* Where a packet is dropped that a device has received; UNKNOWN elsewhere. */
static __attribute__((noinline)) u32 place_of_received(u64 skb)
{
	struct journey *journey = slot_of(skb);
	const struct stamp *s;
	u64 route = GET(u64, skb, sk_buff___drop, _skb_refdst) & ~7ull, device = GET(u64, skb, sk_buff, dev);
	u32 flags, is_here, priv, ip4;

	if (!journey || !journey->count || !device)
		return UNKNOWN;
	s = &journey->stamps[(journey->count - 1) & (STAMPS - 1)];
	if (s->point != RECEIVED && s->point != ROUTED)
		return UNKNOWN;
	is_here = was_at(journey, device);
	priv = (u32)GET_ANY(device, net_device___drop, priv_flags);
	if (priv & PRIV_BRIDGE_PORT)
		return is_here ? AT_BRIDGE_IN : AT_BRIDGE_FORWARD;
	if (priv & PRIV_EBRIDGE && !is_here)
		return AT_BRIDGE_UP;
	/* What a tunnel notes there (DST_METADATA) is no route. */
	if (!route || GET(u16, route, dst_entry___drop, flags) & 0x80) {
		/* IPCB(skb)->iif, IP6CB(skb)->iif */
		u32 iif = LOAD(u32, skb + AT(sk_buff___drop, cb));

		return s->point == ROUTED || iif == GET(u32, skb, sk_buff, skb_iif) ? AT_PREROUTING : AT_INGRESS;
	}
	ip4 = GET(u16, skb, sk_buff, protocol) == 0x0008;
	flags = ip4 ? GET(u32, route, rtable___drop, rt_flags) & IPV4_TO_US :
		      GET(u32, route, rt6_info___drop, rt6i_flags) & IPV6_TO_US;
	if (flags)
		return GET(u32, device, net_device, flags) & IFF_LOOPBACK_ ? AT_LOCAL_LOOPBACK : AT_LOCAL;
	if (is_here)
		return AT_FORWARD;
	if (GET(u64, skb, sk_buff, data) < network_header_of(skb))
		return AT_FORWARDED_EGRESS;
	return GET(u16, device, net_device___drop, hard_header_len) ? AT_POSTROUTING : AT_POSTROUTING_OR_EGRESS;
}
