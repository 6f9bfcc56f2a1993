/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * A walk over TCP's hash tables: every socket of every network namespace, without a lock and without a
 * reference.
 *
 * It is run by BPF_PROG_TEST_RUN, without being attached, in slices: each run reads some buckets and ends. A run is
 * one RCU critical section, and the slabs of sockets are SLAB_TYPESAFE_BY_RCU: within a run a socket may die and
 * become another one, but its memory stays a socket's. So each socket's identity is read first and again last,
 * and a chain ends in a marker with its bucket's number: if either is wrong, something was moved
 * meanwhile, and the chain is walked again. What is still wrong then is at worst a wrong number,
 * which is counted; reading cannot fault.
 */
#ifdef BY_PROBE_READ
#define TABLES_OF(which) \
	(HAS(net, ipv4.tcp_death_row.hashinfo) ? GET(u64, which, net, ipv4.tcp_death_row.hashinfo) : 0)
#else
#define TABLES_OF(which) GET(u64, which, net, ipv4.tcp_death_row.hashinfo)
#endif
#include "walk.h"
#ifdef WITH_TCP_INFO
#include "tcp_info.h"
#endif

/* Whether a chain's end marker is the bucket's. */
INLINE int is_end(const struct slot *s, u64 node)
{
	u32 marker = (u32)(node >> 1);
	/* LISTENING_NULLS_BASE distinguishes the tables: a listener may become a connection, and lead to its chain's end. */
	return marker == s->bucket + (s->request.table == LISTENING ? 1u << 29 : 0);
}

#ifdef WITH_TCP_INFO
#define MORE_BYTES_MAX TCP_INFO_BYTES_MAX

/* Writes the short record of a connection to which nothing has happened for a time, and returns its size; 0 if it is none.
 *
 * tcp_mstamp_refresh() of net/ipv4/tcp_output.c is called before anything else is done: for each segment received
 * (tcp_rcv_established(), tcp_rcv_state_process()), each attempt to send (tcp_write_xmit()), and each timer of retransmission,
 * probe and keepalive (net/ipv4/tcp_timer.c). So what these change of a socket has not changed since. Data can be read
 * without a segment, and while something is queued times are counted: both queues must be empty. */
INLINE u32 take_quiet(struct quiet *r, const struct identity *it, u64 sk, struct slot *s)
{
	const struct request *q = &s->request;
	u64 cookie = COPIED(u64, s->copy, sk, sock_common, skc_cookie);
	u64 net = COPIED(u64, s->copy, sk, sock_common, skc_net);

	if (!HAS(tcp_sock, tcp_mstamp) || it->state != TCP_ESTABLISHED || !cookie || !(it->ports >> 16))
		return 0;
	if (GET(u64, sk, tcp_sock, tcp_mstamp) >= q->quiet_since_us ||
	    GET(u32, sk, tcp_sock, rcv_nxt) != GET(u32, sk, tcp_sock, copied_seq) ||
	    GET(u32, sk, tcp_sock, write_seq) != GET(u32, sk, tcp_sock, snd_una))
		return 0;
	r->netns = NETNS_OF(s, net);
	r->family = COPIED(u16, s->copy, sk, sock_common, skc_family);
	/* The long way finds that it is not wanted. */
	if ((q->netns && q->netns != r->netns) || !(r->family == AF_INET6_ ? q->families & 2 : q->families & 1) ||
	    !(q->states & (1u << TCP_ESTABLISHED)))
		return 0;
	r->bytes = sizeof(struct quiet);
	r->kind = QUIET_SOCKET;
	r->state = TCP_ESTABLISHED;
	r->sections = 0;
	r->sock = sk;
	r->cookie = cookie;
	r->bucket = s->bucket;
	return sizeof(struct quiet);
}

/* Adds TCP's sections to the record that ends at an offset; returns their size. A separate function for the same reason
 * as `read_socket`. */
__attribute__((noinline)) int read_tcp_info(u32 number, u64 sk, u32 starts, u32 ends)
{
	NUMBER start = CHECKED(starts), end = CHECKED(ends);
	struct slot *s = map_lookup(&slots, &number);
	struct record *r;
	u32 bytes = 0, detail;

	if (!s || start > RECORD_BYTES - sizeof(struct record) || end > RECORD_BYTES - TCP_INFO_BYTES_MAX)
		return 0;
	r = (void *)s->records + start;
	detail = s->request.detail;
	if (detail & WANT_TCP_INFO) {
		take_tcp_info((void *)s->records + end, sk, r->state, TCP_COPY(s, sk));
		bytes = sizeof(struct tcp_raw);
	}
	if (GET(u64, sk, inet_connection_sock, icsk_ulp_ops) ||
	    (HAS(tcp_sock, md5sig_info) && GET(u64, sk, tcp_sock, md5sig_info)))
		r->needs_diag = NEEDS_ULP;
	if (detail & WANT_CONGESTION) {
		r->needs_diag |= take_congestion((void *)s->records + end + bytes, sk, r->state);
		bytes += sizeof(struct congestion);
	}
	return bytes;
}
#else
#define MORE_BYTES_MAX 0
#endif

/* Reads one socket into the records. It is a separate function, not static and not inline, so that the verifier checks it
 * once, and not again for each iteration of each loop that calls it: that alone reduces loading from 22 ms to 4. */
__attribute__((noinline)) int read_socket(u32 number, u64 sk)
{
	struct slot *s = map_lookup(&slots, &number);
	struct identity it;
	u32 used, bytes;

	if (!s)
		return FULL_BUFFER;
	used = s->reply.used;
	if (used > RECORD_BYTES - RECORD_BYTES_MAX - MORE_BYTES_MAX)
		return FULL_BUFFER;
	COPY(s->copy, sock_common, sk);
	identify(&it, sk, s->copy);
	/* A listener's hash is not its bucket's number. */
	if (s->request.table == ESTABLISHED && (it.hash & s->mask) != s->bucket)
		return MOVED;
	{
		struct record *r = (void *)s->records + used;
#ifdef WITH_TCP_INFO
		bytes = 0;
		if (s->request.quiet_since_us && s->request.table == ESTABLISHED)
			bytes = take_quiet((void *)r, &it, sk, s);
		if (bytes)
			goto taken;
#endif
		bytes = take_tcp(r, &it, sk, s);
		r->bucket = s->bucket;
#ifdef WITH_TCP_INFO
		/* sock_diag reports nothing of the kind for a bound socket, and there is nothing. */
		if (s->request.table == BOUND)
			r->sections &= ~(WANT_TCP_INFO | WANT_CONGESTION);
		else if (bytes && r->kind == FULL_SOCKET && s->request.detail & (WANT_TCP_INFO | WANT_CONGESTION))
			r->bytes = bytes += read_tcp_info(number, sk, used, used + bytes);
taken:;
#endif
	}
	COPY(s->again, sock_common, sk);
	if (!is_still(&it, sk, s->again))
		return MOVED;
	if (bytes) {
		if (!(s->reply.records & (MARK_EVERY - 1))) {
			s->earlier_mark = s->mark;
			s->mark = s->passed;
		}
		s->reply.used = used + bytes;
		s->reply.records++;
	}
	return READ;
}

#ifndef BY_PROBE_READ
/* The address that points at a node (`pprev`). */
INLINE u64 pointed_at_from(u64 node)
{
	return LOAD(u64, node + 8);
}

/* A bucket of bound sockets is a chain of ports and addresses, each with a chain of its sockets; both end in 0,
 * and freed memory may become a part of any other chain at once. But each node has the address that points at it:
 * if that is not where we came from, before and after its next is read, it is not in this chain any more. */
STEP one_bound(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u64 sk, next;
	int outcome;

	if (out_of_steps(s))
		return 1;
	if (!s->owner) {
		u64 node = s->node, bucket = node - AT(inet_bind2_bucket, node);
		if (!node)
			return 1;
		if (pointed_at_from(node) != s->from)
			goto again;
		s->owner_from = bucket + AT(inet_bind2_bucket, owners);
		s->owner = GET(u64, bucket, inet_bind2_bucket, owners);
		s->port = GET(u16, bucket, inet_bind2_bucket, port);
		s->node = LOAD(u64, node);
		if (pointed_at_from(node) != s->from)
			goto again;
		s->from = node;
		return 0;
	}
	if (turn >= CHAIN_MAX - 1) {
		s->reply.overlong++;
		return 1;
	}
	if (pointed_at_from(s->owner) != s->owner_from)
		goto again;
	sk = s->owner - AT(sock_common, skc_bind_node);
	if (GET(u32, sk, sock_common, skc_portpair) >> 16 != s->port)
		goto again;
	/* Sockets with more than a port are in another table. */
	if (s->passed >= s->skip && GET(u8, sk, sock_common, skc_state) == TCP_CLOSE) {
		outcome = read_socket(context->number, sk);
		if (outcome == MOVED)
			goto again;
		if (outcome == FULL_BUFFER) {
			s->stop = 1;
			return 1;
		}
	}
	next = LOAD(u64, s->owner);
	if (pointed_at_from(s->owner) != s->owner_from)
		goto again;
	s->passed++;
	s->owner_from = s->owner;
	s->owner = next;
	return 0;

again:
	if (!walk_again(s))
		return 1;
	s->owner = 0;
	s->from = s->listeners + (u64)s->bucket * s->nulls;
	s->node = LOAD(u64, s->from);
	return 0;
}

#endif

STEP one_socket(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u64 node = s->node;
	int outcome;

	if (out_of_steps(s))
		return 1;
	if (node & 1) {
		if (is_end(s, node))
			return 1;
		goto again;
	}
	if (turn >= CHAIN_MAX - 1) {
		s->reply.overlong++;
		return 1;
	}
	if (s->passed >= s->skip) {
		outcome = read_socket(context->number, node - AT(sock_common, skc_nulls_node));
		if (outcome == MOVED)
			goto again;
		if (outcome == FULL_BUFFER) {
			s->stop = 1;
			return 1;
		}
	}
	s->passed++;
	s->node = LOAD(u64, node);
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
#ifndef BY_PROBE_READ
	s->owner = 0;
	s->from = s->listeners + (u64)bucket * s->nulls;
	if (s->request.table == BOUND)
		REPEAT(CHAIN_MAX, one_bound, &context);
	else
#endif
		REPEAT_LONG(CHAIN_MAX, one_socket, &context);
	return s->stop;
}

#ifndef BY_PROBE_READ
#define WARM_HEADS 16
#define WARM_QUIET (1u << 31)

/* Reads what will be read of the first socket of a chain, and returns something without meaning. A separate function, without a
 * branch around its calls: the verifier's time is part of each start. */
__attribute__((noinline)) int warm_socket(u64 node, u32 detail)
{
	u64 sk;
	u32 sum;

	if (node & 1 || !node)
		return 0;
	sk = WHOLE(node - AT(sock_common, skc_nulls_node));
	sum = (u32)OF(sk, sock_common, skc_addrpair) + (u32)OF(sk, sock_common, skc_cookie);
#ifdef WITH_TCP_INFO
	/* Of most sockets only these are read. */
	if (detail & WARM_QUIET)
		return sum + (u32)OF(sk, tcp_sock, tcp_mstamp) + OF(sk, tcp_sock, rcv_nxt) + OF(sk, tcp_sock, copied_seq) +
		       OF(sk, tcp_sock, write_seq);
#endif
	if (detail & WANT_QUEUES)
		sum += OF(sk, tcp_sock, rcv_nxt) + OF(sk, tcp_sock, copied_seq) + OF(sk, tcp_sock, write_seq) +
		       OF(sk, tcp_sock, snd_una);
	if (detail & WANT_INODE)
		sum += HAS(sock, sk_ino) ? (u32)OF(sk, sock, sk_ino) : (u32)OF(sk, sock, sk_socket);
#ifdef WITH_TCP_INFO
	if (detail & WANT_TCP_INFO)
		sum += OF(sk, tcp_sock, advmss) + OF(sk, tcp_sock, segs_in) + OF(sk, tcp_sock, srtt_us) +
		       OF(sk, tcp_sock, total_retrans) + (u32)OF(sk, tcp_sock, bytes_acked) +
		       OF(sk, inet_connection_sock, icsk_rto) + (u32)OF(sk, sock, sk_pacing_rate);
#endif
	return sum;
}

/* Most of the time of a walk is spent waiting for memory: each socket is elsewhere, and what is read of it is in half a
 * dozen cache lines. So the sockets of the next heads are prefetched at once, before the first of them is read. Those
 * behind the first socket of a chain are not: few chains have more than one. */
__attribute__((noinline)) int warm_heads(u32 number, u32 first)
{
	struct slot *s = map_lookup(&slots, &number);
	u32 detail, sum = 0;
	u64 *heads;

	if (!s)
		return 1;
	first &= HEADS - WARM_HEADS;
	heads = &s->heads[first];
	detail = s->request.detail;
#ifdef WITH_TCP_INFO
	if (s->request.quiet_since_us)
		detail = WARM_QUIET;
#endif
#pragma unroll
	for (u32 word = 0; word < WARM_HEADS; word++)
		sum += warm_socket(heads[word], detail);
	s->warmed = sum;
	s->warmed_to = first + WARM_HEADS;
	return 0;
}
#endif

/* Eight words of the heads, most of which are empty chains' markers. */
STEP eight_heads(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u32 first = (u32)(turn & (HEADS / 8 - 1)) * 8;
	u64 *heads = &s->heads[first];
	/* A bucket of 16 bytes begins with a lock. */
	u32 wide = s->nulls == 16;
	u64 lock = wide;

	if ((heads[0] | lock) & heads[1] & (heads[2] | lock) & heads[3] & (heads[4] | lock) & heads[5] &
	    (heads[6] | lock) & heads[7] & 1)
		return 0;
#ifndef BY_PROBE_READ
	if (s->request.table == ESTABLISHED && first >= s->warmed_to)
		warm_heads(context->number, first);
#endif
	for (u32 word = 0; word < 8; word++) {
		u64 node = heads[word];
		if (node & 1 || !node || (wide && !(word & 1)))
			continue;
		u32 bucket = s->chunk + ((first + word) >> wide);
		if (bucket > s->mask || bucket >= s->request.end)
			return 1;
		if (read_chain(context->number, bucket, node))
			return 1;
	}
	return 0;
}

#include "chunks.h"

SEC("raw_tp")
int walk_tcp(u64 *arguments)
{
	u32 number = (u32)arguments[0];
	struct slot *s = map_lookup(&slots, &number);
	struct context context = { .slot = s, .number = number };
	u64 hashinfo;

	if (!s)
		return 1;
	hashinfo = arguments[1];
	if (!hashinfo)
		hashinfo = TABLES_OF(own_net());
#ifdef BY_PROBE_READ
	if (!hashinfo)
		hashinfo = GET(u64, protocol_of((u32)arguments[2]), proto, h.hashinfo);
#endif
	begin(s, hashinfo);
#ifdef BY_PROBE_READ
	/* Until Linux 5.18 all listeners are in a table of few buckets; lhash2, of other nodes, has them again. */
	if (HAS(inet_hashinfo, listening_hash) && s->request.table == LISTENING) {
		s->table = hashinfo + AT(inet_hashinfo, listening_hash);
		s->nulls = SIZE(inet_listen_hashbucket, nulls_head) * 2;
		s->mask = SIZE(inet_hashinfo, listening_hash) / 16 - 1;
		s->listeners = s->table + AT(inet_listen_hashbucket, nulls_head);
		if (!hashinfo || AT(inet_listen_hashbucket, nulls_head) != 8)
			s->table = 0;
	} else
#endif
	if (s->request.table == LISTENING) {
		s->table = GET(u64, hashinfo, inet_hashinfo, lhash2);
		s->mask = GET(u32, hashinfo, inet_hashinfo, lhash2_mask);
		s->nulls = SIZE(inet_listen_hashbucket, nulls_head) * 2;
		s->listeners = s->table + AT(inet_listen_hashbucket, nulls_head);
		/* With larger locks (PREEMPT_RT, debugging) buckets have not the layout that `eight_heads` expects. */
		if (AT(inet_listen_hashbucket, nulls_head) != 8)
			s->table = 0;
	} else if (s->request.table == BOUND) {
#ifdef BY_PROBE_READ
		s->reply.outcome = NO_TABLE;
		return 1;
#else
		/* Until Linux 6.8 another node led from port to port. */
		if (HAS(sock, sk_bind2_node)) {
			s->reply.outcome = NO_TABLE;
			return 1;
		}
		s->table = GET(u64, hashinfo, inet_hashinfo, bhash2);
		s->mask = GET(u32, hashinfo, inet_hashinfo, bhash_size) - 1;
		s->nulls = SIZE(inet_bind_hashbucket, chain) * 2;
		s->listeners = s->table + AT(inet_bind_hashbucket, chain);
		if (AT(inet_bind_hashbucket, chain) != 8)
			s->table = 0;
#endif
	} else {
		s->table = GET(u64, hashinfo, inet_hashinfo, ehash);
		s->mask = GET(u32, hashinfo, inet_hashinfo, ehash_mask);
		s->nulls = 8;
		s->listeners = s->table;
	}
	s->reply.buckets = s->mask + 1;
	if (!is_table(s)) {
		s->reply.outcome = NO_TABLE;
		return 1;
	}
	walk_chunks(s, &context);
	return 0;
}

char license_[] SEC("license") = "GPL";
