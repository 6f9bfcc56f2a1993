/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the walks over tables share: their slots, how a run begins, and which tables a network namespace uses.
 *
 * The including file must define which tables a namespace uses: TABLES_OF(net).
 */
#pragma once
#define LOOP_SLOT slot
#define LOOP_CONTEXT context
#include "socket.h"
#include "loops.h"

/* As struct bpf_map_def: an array, to be mapped. */
struct map slots SEC("maps") = {
	.type = MAP_TYPE_ARRAY,
	.key_bytes = sizeof(u32),
	.value_bytes = sizeof(struct slot),
	.entries = SLOTS,
	.flags = MAP_MMAPABLE,
};

struct context {
	struct slot *slot;
	u32 number;
};

/* Result of reading a socket. */
enum { READ, MOVED, FULL_BUFFER };

/* Chains longer than this are cut: it bounds a run for any content of the tables. */
#define CHAIN_MAX 65536
#define TRIES_MAX 16

/* A run that takes more steps than this walks over something that is not a table, because our information about this
 * kernel is wrong: it must end before it takes noticeable time. A normal run takes some thousand steps. */
#define STEPS_MAX (1 << 18)
#define BUCKETS_MAX (1 << 24)

/* A chain that does not fit is continued a few hundred sockets before its end, at one that was reported: sockets may
 * leave it meanwhile, and the ones after them move up. */
#define MARK_EVERY 256

INLINE int out_of_steps(struct slot *s)
{
	if (s->steps) {
		s->steps--;
		return 0;
	}
	s->stop = 1;
	return 1;
}

/* Tables have a power of two of buckets. */
INLINE int is_table(const struct slot *s)
{
	return s->table && s->mask < BUCKETS_MAX && !(s->mask & (s->mask + 1));
}

INLINE void begin(struct slot *s, u64 hashinfo)
{
	s->reply.outcome = DONE;
	s->reply.used = s->reply.records = s->reply.again = s->reply.given_up = s->reply.overlong = 0;
	s->reply.next = s->request.first;
	s->reply.skip = 0;
	s->reply.jiffies = jiffies();
	s->reply.ktime_ns = ktime_ns();
	s->reply.hashinfo = hashinfo;
	s->stop = 0;
	s->steps = STEPS_MAX;
#ifdef BY_PROBE_READ
	s->net = 0;
#endif
}

INLINE void begin_chain(struct slot *s, u32 bucket, u64 node)
{
	s->bucket = bucket;
	s->node = node;
	s->start = s->reply.used;
	s->started_records = s->reply.records;
	s->tries = s->passed = 0;
	s->skip = bucket == s->request.first ? s->request.skip : 0;
	s->mark = s->earlier_mark = s->skip;
}

/* Discards what was read of a chain, because it is walked again; 0 if that happened too often. */
INLINE int walk_again(struct slot *s)
{
	s->reply.again++;
	if (++s->tries > TRIES_MAX) {
		/* What was read this time is correct, but incomplete. */
		s->reply.given_up++;
		return 0;
	}
	s->reply.used = s->start;
	s->reply.records = s->started_records;
	s->passed = 0;
	s->mark = s->earlier_mark = s->skip;
	return 1;
}

/* The network namespace of the process that runs the program. */
INLINE u64 own_net(void)
{
	u64 proxy = GET(u64, current_task(), task_struct, nsproxy);
	return GET(u64, proxy, nsproxy, net_ns);
}

#ifdef BY_PROBE_READ
struct file {
	u64 private_data;
} KERNEL;

/* The protocol of a socket of ours, given by its descriptor. Until Linux 6.0 (TCP) and 6.1 (UDP) all namespaces share the
 * tables that it names; later kernels name none there. */
INLINE u64 protocol_of(u32 descriptor)
{
	u64 files = GET(u64, current_task(), task_struct, files);
	u64 table = GET(u64, files, files_struct, fdt);
	u64 file, socket, sk;

	if (descriptor >= GET(u32, table, fdtable, max_fds))
		return 0;
	file = LOAD(u64, GET(u64, table, fdtable, fd) + (u64)descriptor * 8);
	socket = GET(u64, file, file, private_data);
	sk = GET(u64, socket, socket, sk);
	return GET(u64, sk, sock_common, skc_prot);
}
#endif

/* The record of a network namespace. */
struct net_record {
	u32 inode, pad;
	u64 hashinfo;
};

STEP one_parent(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u64 parent = GET(u64, s->node, task_struct, real_parent);

	if (parent == s->node)
		return 1;
	s->node = parent;
	return 0;
}

LONG_LOOP(one_parent, 64, 32, 32)

STEP one_net(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u32 used = s->reply.used;
	u64 net;

	if (s->node == s->table)
		return 1;
	net = s->node - AT(net, list);
	s->node = LOAD(u64, s->node);
	if (s->passed++ < s->request.skip)
		return 0;
	if (used > RECORD_BYTES - sizeof(struct net_record)) {
		s->reply.outcome = FULL;
		s->reply.skip = s->passed - 1;
		return 1;
	}
	struct net_record *r = (void *)s->records + used;
	r->inode = GET(u32, net, net, ns.inum);
	r->pad = 0;
	r->hashinfo = TABLES_OF(net);
	s->reply.used = used + sizeof(*r);
	return 0;
}

LONG_LOOP(one_net, 128, 64, 32)

/* Lists every network namespace with the tables that it uses. The list begins with the initial namespace, in which
 * the first task is; the entry before that one is the list's head, which is not a namespace. */
SEC("raw_tp")
int list_nets(u64 *arguments)
{
	u32 number = (u32)arguments[0];
	struct slot *s = map_lookup(&slots, &number);
	struct context context = { .slot = s, .number = number };
	u64 net;

	if (!s)
		return 1;
	s->reply.outcome = DONE;
	s->reply.used = s->reply.records = s->reply.again = s->reply.given_up = s->reply.overlong = 0;
	s->passed = 0;
	s->node = current_task();
	REPEAT_LONG(1 << 16, one_parent, &context);
	net = GET(u64, GET(u64, s->node, task_struct, nsproxy), nsproxy, net_ns);
	s->table = GET(u64, net, net, list.prev);
	s->node = net + AT(net, list);
	REPEAT_LONG(1 << 22, one_net, &context);
	return 0;
}
