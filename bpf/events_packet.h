/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Headers of packets, and records of sockets with ends that are not in the socket.
 */
#pragma once

struct sk_buff {
	u64 sk, head;
	u16 network_header, transport_header;
	u8 cb[48];
} KERNEL;

enum { FLAG_FIN = 1, FLAG_SYN = 2, FLAG_RST = 4, FLAG_ACK = 16 };

INLINE u64 transport_of(u64 skb)
{
	return GET(u64, skb, sk_buff, head) + GET(u16, skb, sk_buff, transport_header);
}

INLINE u8 tcp_flags(u64 skb)
{
	return LOAD(u8, transport_of(skb) + 13);
}

INLINE u16 tcp_window(u64 skb)
{
	return LOAD(u16, transport_of(skb) + 14);
}

/* The ends of a packet of TCP or UDP that arrived: we are its destination. */
INLINE void take_ends_of_arrived(struct ends *e, u64 skb)
{
	u64 ip = GET(u64, skb, sk_buff, head) + GET(u16, skb, sk_buff, network_header), transport = transport_of(skb);

	if (LOAD(u8, ip) >> 4 == 4) {
		e->local[0] = e->peer[0] = 0;
		e->peer[1] = 0xffff0000ull | (u64)LOAD(u32, ip + 12) << 32;
		e->local[1] = 0xffff0000ull | (u64)LOAD(u32, ip + 16) << 32;
	} else {
		e->peer[0] = LOAD(u64, ip + 8);
		e->peer[1] = LOAD(u64, ip + 16);
		e->local[0] = LOAD(u64, ip + 24);
		e->local[1] = LOAD(u64, ip + 32);
	}
	e->peer_port = swapped(LOAD(u16, transport));
	e->local_port = swapped(LOAD(u16, transport + 2));
}

/* The ends of a datagram that this host sends. */
INLINE void take_ends_of_leaving(struct ends *e, u64 skb)
{
	u64 address[2];

	take_ends_of_arrived(e, skb);
	address[0] = e->local[0];
	address[1] = e->local[1];
	e->local[0] = e->peer[0];
	e->local[1] = e->peer[1];
	e->peer[0] = address[0];
	e->peer[1] = address[1];
	u16 port = e->local_port;
	e->local_port = e->peer_port;
	e->peer_port = port;
}

INLINE void no_known(struct known *known)
{
	u64 *words = (u64 *)known;
	for (u32 i = 0; i < sizeof(*known) / sizeof(u64); i++)
		words[i] = 0;
}
