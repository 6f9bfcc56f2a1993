/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * A walk over UDP's hash table: every socket of every network namespace that has a port, also sockets without an
 * owner process.
 *
 * It runs like tcp.bpf.c. The difference is what it relies on: the memory of a UDP socket stays until a run is over
 * (SOCK_RCU_FREE), so that none becomes another one meanwhile. But one that is disconnected may be bound again and
 * lead into another chain, and a chain ends in 0, which does not identify the chain. So after a socket's successor is
 * read the socket must still have a port of our bucket: it had it all the time then, or returned to the head of the
 * same chain, which is at worst read twice. New sockets are added at the head.
 */
#ifdef BY_PROBE_READ
#define TABLES_OF(which) (HAS(net, ipv4.udp_table) ? GET(u64, which, net, ipv4.udp_table) : 0)
#else
#define TABLES_OF(which) GET(u64, which, net, ipv4.udp_table)
#endif
#include "walk.h"

/* As udp_hashfn() of include/linux/udp.h and net_hash_mix(). */
INLINE u32 bucket_of(struct slot *s, u64 net, u32 port)
{
#ifdef BY_PROBE_READ
	know_net(s, net);
	return (port + s->net_hash_mix) & s->mask;
#else
	return (port + GET(u32, net, net, hash_mix)) & s->mask;
#endif
}

/* Reads everything requested of one socket, with its sections; 0 if it does not match. As inet_sk_diag_fill() of
 * net/ipv4/inet_diag.c, and udp_diag_get_info() of net/ipv4/udp_diag.c. */
INLINE u32 take_udp(struct record *r, const struct identity *it, u64 sk, struct slot *s)
{
	const struct request *q = &s->request;
	u64 net = COPIED(u64, s->copy, sk, sock_common, skc_net);
	u32 detail = q->detail & (WANT_QUEUES | WANT_TIMER | WANT_INODE | WANT_USER | WANT_OPTIONS | WANT_MEMORY);
	u32 bytes = sizeof(struct record);

	r->netns = NETNS_OF(s, net);
	if (q->netns && q->netns != r->netns)
		return 0;
	r->family = COPIED(u16, s->copy, sk, sock_common, skc_family);
	if (!(r->family == AF_INET6_ ? q->families & 2 : q->families & 1))
		return 0;
	if (it->state > 31 || !(q->states & (1u << it->state)))
		return 0;
	r->kind = FULL_SOCKET;
	r->state = it->state;
	r->type = SOCK_DGRAM_;
	r->protocol = IPPROTO_UDP_;
	r->local_port = it->ports >> 16;
	r->peer_port_be = (u16)it->ports;
	take_addresses(r, sk, s->copy, it->addresses);
	if (!is_wanted(r, q))
		return 0;
	r->sections = detail;
	r->sock = sk;
	r->cookie = COPIED(u64, s->copy, sk, sock_common, skc_cookie);
	r->interface = COPIED(u32, s->copy, sk, sock_common, skc_bound_dev_if);
	r->needs_diag = 0;
	r->timer = r->retransmits = 0;
	r->expires_jiffies = 0;
	if (detail & WANT_QUEUES) {
		r->receive_queue = GET(u32, sk, sock, sk_backlog.rmem_alloc);
		if (HAS(udp_sock, forward_deficit))
			r->receive_queue -= GET(u32, sk, udp_sock, forward_deficit);
		r->send_queue = GET(u32, sk, sock, sk_wmem_alloc) - 1;
	}
	if (detail & WANT_INODE)
		take_inode(r, sk);
	if (detail & WANT_USER)
		take_user(r, sk);
	if (detail & WANT_OPTIONS)
		take_options(r, sk);
	if (detail & WANT_MEMORY) {
		struct memory *m = (void *)r + bytes;
		take_memory(m, sk);
		take_drops(m, sk);
		bytes += sizeof(*m);
	}
	r->bytes = bytes;
	return bytes;
}

/* Whether the addresses are still those of the record: IPv6 addresses are no part of a socket's identity. */
INLINE int has_moved(const struct record *r, u64 sk, u8 *again)
{
	u64 ours = ADDRESS_IN(again, sk, skc_v6_rcv_saddr), theirs = ADDRESS_IN(again, sk, skc_v6_daddr);
	return r->family == AF_INET6_ && (r->local[0] != WORD_IN(ours) || r->local[1] != WORD_IN(ours + 8) ||
					  r->peer[0] != WORD_IN(theirs) || r->peer[1] != WORD_IN(theirs + 8));
}

/* Reads one socket into the records. A separate function for the same reason as tcp.bpf.c's. */
__attribute__((noinline)) int read_socket(u32 number, u64 sk)
{
	struct slot *s = map_lookup(&slots, &number);
	struct identity it;
	struct record *r;
	u32 used, bytes;

	if (!s)
		return FULL_BUFFER;
	used = s->reply.used;
	if (used > RECORD_BYTES - RECORD_BYTES_MAX)
		return FULL_BUFFER;
	COPY(s->copy, sock_common, sk);
	identify(&it, sk, s->copy);
	/* It has left its chain, or leads into another one. */
	if (!(it.ports >> 16) || bucket_of(s, COPIED(u64, s->copy, sk, sock_common, skc_net), it.ports >> 16) != s->bucket)
		return MOVED;
	r = (void *)s->records + used;
	bytes = take_udp(r, &it, sk, s);
	COPY(s->again, sock_common, sk);
	if (!is_still(&it, sk, s->again) || (bytes && has_moved(r, sk, s->again)))
		return MOVED;
	if (bytes) {
		r->bucket = s->bucket;
		if (!(s->reply.records & (MARK_EVERY - 1))) {
			s->earlier_mark = s->mark;
			s->mark = s->passed;
		}
		s->reply.used = used + bytes;
		s->reply.records++;
	}
	return READ;
}

STEP one_socket(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u64 node = s->node, sk, next;
	u32 port;

	if (out_of_steps(s))
		return 1;
	if (!node)
		return 1;
	if (turn >= CHAIN_MAX - 1) {
		s->reply.overlong++;
		return 1;
	}
	sk = node - AT(sock_common, skc_node);
	if (s->passed >= s->skip) {
		int outcome = read_socket(context->number, sk);
		if (outcome == MOVED)
			goto again;
		if (outcome == FULL_BUFFER) {
			s->stop = 1;
			return 1;
		}
	}
	next = LOAD(u64, node);
	port = GET(u32, sk, sock_common, skc_portpair) >> 16;
	if (!port || bucket_of(s, GET(u64, sk, sock_common, skc_net), port) != s->bucket)
		goto again;
	s->passed++;
	s->node = next;
	return 0;

again:
	if (!walk_again(s))
		return 1;
	s->node = LOAD(u64, s->listeners + (u64)s->bucket * s->nulls);
	return 0;
}

LONG_LOOP(one_socket, 128, 128, CHAIN_MAX / 128 / 128)

/* Reads a chain, repeatedly until it does not change meanwhile. A separate function for the same reason as `read_socket`. */
__attribute__((noinline)) int read_chain(u32 number, u32 bucket, u64 node)
{
	struct slot *s = map_lookup(&slots, &number);
	struct context context = { .slot = s, .number = number };

	if (!s)
		return 1;
	begin_chain(s, bucket, node);
	REPEAT_LONG(CHAIN_MAX, one_socket, &context);
	return s->stop;
}

/* Four buckets: each begins with its chain. */
STEP eight_heads(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u32 first = (u32)(turn & (HEADS / 8 - 1)) * 8;
	u64 *heads = &s->heads[first];

	if (!(heads[0] | heads[2] | heads[4] | heads[6]))
		return 0;
	for (u32 word = 0; word < 8; word += 2) {
		u32 bucket = s->chunk + ((first + word) >> 1);
		if (!heads[word])
			continue;
		if (bucket > s->mask || bucket >= s->request.end)
			return 1;
		if (read_chain(context->number, bucket, heads[word]))
			return 1;
	}
	return 0;
}

#include "chunks.h"

SEC("raw_tp")
int walk_udp(u64 *arguments)
{
	u32 number = (u32)arguments[0];
	struct slot *s = map_lookup(&slots, &number);
	struct context context = { .slot = s, .number = number };
	u64 table;

	if (!s)
		return 1;
	table = arguments[1];
	if (!table)
		table = TABLES_OF(own_net());
#ifdef BY_PROBE_READ
	if (!table)
		table = GET(u64, protocol_of((u32)arguments[2]), proto, h.udp_table);
#endif
	begin(s, table);
	s->table = s->listeners = GET(u64, table, udp_table, hash);
	s->mask = GET(u32, table, udp_table, mask);
	s->nulls = 16;
	/* With larger locks (PREEMPT_RT, debugging) buckets have not the layout that `eight_heads` expects. */
	if (AT(udp_hslot, head) || AT(udp_hslot, lock) != 12 || SIZE(udp_hslot, lock) != 4)
		s->table = 0;
	s->reply.buckets = s->mask + 1;
	if (!is_table(s) || s->request.table != UDP) {
		s->reply.outcome = NO_TABLE;
		return 1;
	}
	walk_chunks(s, &context);
	return 0;
}

char license_[] SEC("license") = "GPL";
