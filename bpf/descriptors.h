/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * A walk over all processes, then over their descriptor tables: the owners of sockets, and WITH_SOCKETS also
 * the sockets.
 *
 * `list_tasks` walks over the list of processes and writes the identity of each; `read_files` reads ranges of the
 * tables of the given ones. Both run like the walk over TCP's tables (tcp.bpf.c), in slices, under RCU, with
 * no lock and no reference taken. A descriptor table is not protected by RCU, so what was read is valid only
 * if the process still has the same table afterwards: a process gives its table up before the table is freed.
 */
#pragma once
#define LOOP_SLOT files_slot
#define LOOP_CONTEXT files_context
#include "tables.h"
#include "loops.h"

#define POINTERS 512
#define ITEMS 128

/* A range of a descriptor table. */
struct item {
	u64 task, start_time;
	u32 tgid, first, end, pad;
};

struct files_request {
	u32 descriptor; /* one of ours that is a socket, to learn its file operations */
	u32 items;
	u64 socket_operations; /* from the reply to the first run of list_tasks */
	/* list_tasks: where to continue, 0: at the beginning */
	u64 task, start_time;
	u32 tgid, tasks_max;
#ifdef WITH_SOCKETS
	u32 kinds;  /* 1 << enum socket_kind */
	u32 detail; /* enum detail */
	u32 netns;  /* inode of the only namespace; 0: all */
	u32 pad;
#endif
};

struct files_reply {
	u32 outcome; /* enum outcome */
	u32 used, records;
	u32 failed;  /* items whose process or table went away meanwhile */
	u64 socket_operations;
	/* list_tasks: the last one that was written */
	u64 task, start_time;
	u32 tgid, items; /* read_files: items that were processed */
#ifdef WITH_SOCKETS
	u64 jiffies, ktime_ns;
#endif
};

/* As enum outcome, except for these. */
enum { NO_SUCH_DESCRIPTOR = 3, LOST = 4 };

/* The identity of a process; `kind` 1, and 2 for a thread with its own table. */
struct task_record {
	u16 bytes;
	u8 kind, pad;
	u32 tgid;
	u64 task, start_time;
	u32 pid, pgid; /* in our pid namespace; 0: not visible there */
	u32 uid, netns;
	u64 cgroup;
	u32 descriptors_end, pad2;
	char comm[16];
};

/* A descriptor of a socket. */
struct file_record {
	u32 item, descriptor;
	u32 inode;
	u32 more; /* bytes of the socket's own record, which follows */
};

struct files_slot {
	struct files_request request;
	u8 pad0[256 - sizeof(struct files_request)];
	struct files_reply reply;
	u8 pad1[256 - sizeof(struct files_reply)];
	u64 task, first_task, leader, head, list_head, pid_namespace;
	u64 files, array;
	u32 pid_level, left, stop, descriptor, end, item, start, bad;
	u64 packet, packets_end; /* position in a socket's queue */
	u32 packets, packets_bytes;
	u64 warmed; /* without meaning: reading it is the purpose */
	u64 last_table; /* descriptor table of the thread that was written last */
	u32 steps, pad3;
	u8 copy[COPY_AGAIN_BYTES], again[COPY_AGAIN_BYTES]; /* as in struct slot */
	u8 pad2[4096 - 512 - 144 - 2 * COPY_AGAIN_BYTES];
	u64 pointers[POINTERS];
	struct item items[ITEMS];
	u8 records[RECORD_BYTES];
};

struct file {
	u64 f_op, f_inode, private_data;
} KERNEL;

struct map slots SEC("maps") = {
	.type = MAP_TYPE_ARRAY,
	.key_bytes = sizeof(u32),
	.value_bytes = sizeof(struct files_slot),
	.entries = SLOTS,
	.flags = MAP_MMAPABLE,
};

struct files_context {
	struct files_slot *slot;
	u32 number;
};

#define STEPS_MAX (1 << 20)
#define PF_KTHREAD 0x00200000

/* list_del_rcu() keeps `next` for concurrent readers, and poisons `prev` (include/linux/poison.h). */
#define POISON 0xdead

/* The id of a process or a group in our pid namespace; 0 if it has none there. */
INLINE u32 number_of(const struct files_slot *s, u64 signal, u32 type)
{
	u64 pid = GET(u64, signal + type * 8, signal_struct, pids);
	u64 numbers = pid + AT(pid, numbers) + (u64)(s->pid_level & 31) * __builtin_preserve_type_info(*(struct upid *)0, 1);

	if (GET(u32, pid, pid, level) < s->pid_level || GET(u64, numbers, upid, ns) != s->pid_namespace)
		return 0;
	return GET(u32, numbers, upid, nr);
}

/* Writes one task. A separate function for the verifier, like everything that is not inline here. */
__attribute__((noinline)) int write_task(u32 number, u64 task, u32 kind)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct task_record *r;
	u64 signal, cred, group, node, files, table, proxy, net, comm;
	u32 used;

	if (!s)
		return 1;
	used = s->reply.used;
	if (used > RECORD_BYTES - sizeof(*r))
		return 1;
	r = (void *)s->records + used;
	signal = GET(u64, task, task_struct, signal);
	r->bytes = sizeof(*r);
	r->kind = kind;
	r->tgid = GET(u32, task, task_struct, tgid);
	r->task = task;
	r->start_time = GET(u64, task, task_struct, start_time);
	r->pid = number_of(s, signal, PIDTYPE_TGID);
	r->pgid = number_of(s, signal, PIDTYPE_PGID);
	cred = GET(u64, task, task_struct, cred);
	r->uid = GET(u32, cred, cred, uid);
	/* An exiting process has no namespaces any more; what is read from address 0 is 0. */
	proxy = GET(u64, task, task_struct, nsproxy);
	net = proxy ? GET(u64, proxy, nsproxy, net_ns) : 0;
	r->netns = net ? GET(u32, net, net, ns.inum) : 0;
	group = GET(u64, task, task_struct, cgroups);
	group = GET(u64, group, css_set, dfl_cgrp);
	node = GET(u64, group, cgroup, kn);
	r->cgroup = GET(u64, node, kernfs_node, id);
	files = GET(u64, task, task_struct, files);
	table = files ? GET(u64, files, files_struct, fdt) : 0;
	r->descriptors_end = table ? GET(u32, table, fdtable, max_fds) : 0;
	comm = task + AT(task_struct, comm);
	((u64 *)r->comm)[0] = LOAD(u64, comm);
	((u64 *)r->comm)[1] = LOAD(u64, comm + 8);
	s->reply.used = used + sizeof(*r);
	s->reply.records++;
	return 0;
}

/* As in walk.h: a run also ends if our information about this kernel is wrong. */
INLINE int out_of_task_steps(struct files_slot *s)
{
	if (!s->steps)
		return 1;
	s->steps--;
	return 0;
}

/* A thread that has its own descriptor table instead of its process's (unshare(2), CLONE_FILES), or whose first thread has
 * ended and left it the table. Of consecutive threads with the same table, the first one is written. */
STEP one_thread(u64 turn, struct files_context *context)
{
	struct files_slot *s = context->slot;
	u64 thread, files;

	if (s->head == s->list_head || out_of_task_steps(s))
		return 1;
	thread = s->head - AT(task_struct, thread_node);
	files = GET(u64, thread, task_struct, files);
	if (files && files != s->files && files != s->last_table && thread != s->leader) {
		if (write_task(context->number, thread, 2)) {
			s->stop = 1;
			return 1;
		}
		s->last_table = files;
	}
	s->head = LOAD(u64, s->head);
	return 0;
}

LONG_LOOP(one_thread, 256, 256, 16)

__attribute__((noinline)) int write_threads(u32 number, u64 leader, u64 signal)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct files_context context = { .slot = s, .number = number };

	if (!s)
		return 1;
	s->leader = leader;
	s->files = GET(u64, leader, task_struct, files);
	s->last_table = 0;
	s->list_head = signal + AT(signal_struct, thread_head);
	s->head = LOAD(u64, s->list_head);
	REPEAT_LONG(1 << 20, one_thread, &context);
	return s->stop;
}

STEP one_process(u64 turn, struct files_context *context)
{
	struct files_slot *s = context->slot;
	u64 task = s->task, signal, start_time;
	u32 used = s->reply.used, records = s->reply.records;

	if (task == s->first_task) /* the list's head is that of the first task of all */
		return 1;
	if (out_of_task_steps(s)) {
		s->reply.outcome = TANGLED;
		return 1;
	}
	if (!s->left) {
		s->reply.outcome = FULL;
		return 1;
	}
	start_time = GET(u64, task, task_struct, start_time);
	if (!(GET(u32, task, task_struct, flags) & PF_KTHREAD) && (s->request.task || start_time > s->request.start_time)) {
		signal = GET(u64, task, task_struct, signal);
		if (write_task(context->number, task, 1) ||
		    (GET(u32, signal, signal_struct, nr_threads) > 1 && write_threads(context->number, task, signal))) {
			/* It is read completely in the next run. */
			s->reply.used = used;
			s->reply.records = records;
			s->reply.outcome = FULL;
			return 1;
		}
		s->left--;
	}
	s->reply.task = task;
	s->reply.start_time = start_time;
	s->reply.tgid = GET(u32, task, task_struct, tgid);
	s->task = LOAD(u64, task + AT(task_struct, tasks)) - AT(task_struct, tasks);
	return 0;
}

LONG_LOOP(one_process, 128, 128, 4)

STEP one_parent(u64 turn, struct files_context *context)
{
	struct files_slot *s = context->slot;
	u64 parent = GET(u64, s->first_task, task_struct, real_parent);

	if (parent == s->first_task)
		return 1;
	s->first_task = parent;
	return 0;
}

LONG_LOOP(one_parent, 64, 32, 32)

SEC("raw_tp")
int list_tasks(u64 *arguments)
{
	u32 number = (u32)arguments[0];
	struct files_slot *s = map_lookup(&slots, &number);
	struct files_context context = { .slot = s, .number = number };
	u64 own, signal, pid, files, table, file;

	if (!s)
		return 1;
	s->reply.outcome = DONE;
	s->reply.used = s->reply.records = 0;
	s->stop = 0;
	s->steps = STEPS_MAX;
	s->left = s->request.tasks_max;
	own = current_task();
	/* 1. The file operations of a socket's file. */
	files = GET(u64, own, task_struct, files);
	table = GET(u64, files, files_struct, fdt);
	if (s->request.descriptor >= GET(u32, table, fdtable, max_fds)) {
		s->reply.outcome = NO_SUCH_DESCRIPTOR;
		return 1;
	}
	file = LOAD(u64, GET(u64, table, fdtable, fd) + (u64)s->request.descriptor * 8);
	s->reply.socket_operations = GET(u64, file, file, f_op);
	/* 2. Our pid namespace: the innermost one in which our process has an id. */
	signal = GET(u64, own, task_struct, signal);
	pid = GET(u64, signal + PIDTYPE_TGID * 8, signal_struct, pids);
	s->pid_level = GET(u32, pid, pid, level);
	s->pid_namespace = GET(u64, pid + AT(pid, numbers) + (u64)(s->pid_level & 31) * __builtin_preserve_type_info(*(struct upid *)0, 1),
			       upid, ns);
	/* 3. The first task, in which the list begins and ends: the ancestor of all. */
	s->first_task = own;
	REPEAT_LONG(1 << 16, one_parent, &context);
	/* 4. Walk over the list. */
	s->task = s->request.task;
	if (!s->task)
		s->task = s->first_task;
	else if (GET(u64, s->task, task_struct, start_time) != s->request.start_time ||
		 GET(u32, s->task, task_struct, tgid) != s->request.tgid ||
		 LOAD(u64, s->task + AT(task_struct, tasks) + 8) >> 48 == POISON) {
		s->reply.outcome = LOST;
		return 1;
	}
	s->task = LOAD(u64, s->task + AT(task_struct, tasks)) - AT(task_struct, tasks);
	/* After many threads of the kernel it is continued like after many processes. */
	if (!IS_COMPLETE(REPEAT_LONG(1 << 22, one_process, &context)))
		s->reply.outcome = FULL;
	return 0;
}

#ifdef WITH_SOCKETS
#include "fd_sockets.h"
#endif

/* Reads what one descriptor refers to. */
__attribute__((noinline)) int read_file(u32 number, u32 descriptor, u64 file)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct file_record *r;
	u64 inode;
	u32 used;

	if (!s)
		return 1;
	if (GET(u64, file, file, f_op) != s->request.socket_operations)
		return 0;
	inode = GET(u64, file, file, f_inode);
	inode = GET(u64, inode, inode, i_ino);
	/* No call between the comparison and the use: the verifier before Linux 6.2 forgets what it knows of a saved register. */
	used = s->reply.used;
	if (used > RECORD_BYTES - sizeof(*r))
		return 1;
	r = (void *)s->records + used;
	r->item = s->item;
	r->descriptor = descriptor;
	r->inode = (u32)inode;
	r->more = 0;
#ifdef WITH_SOCKETS
	{
		int more = write_socket(number, s, file, r->inode);
		if (more == NOT_WANTED)
			return 0;
		if (more == FULL_BUFFER)
			return 1;
		if (more == MOVED) {
			/* It exists, and changed meanwhile: the item has to be read again. */
			s->bad = 1;
			more = 0;
		}
		r->more = more;
	}
#endif
	/* Closed and reused meanwhile: what was read may be a mixture of both. It is treated as if it had been closed
	 * earlier. */
	if (LOAD(u64, s->array + (u64)descriptor * 8) != file)
		return 0;
	s->reply.used = used + sizeof(*r) + r->more;
	s->reply.records++;
	return 0;
}

#if !defined(WITH_SOCKETS) && !defined(BY_PROBE_READ)
/* Most of the time is spent waiting for memory: the inodes of eight descriptors are prefetched at once. */
INLINE void warm(volatile struct files_slot *s, const u64 *files)
{
	u64 at[8];

#pragma unroll
	for (u32 place = 0; place < 8; place++) {
		u64 file = WHOLE(files[place]);
		u64 is_socket = OF(file, file, f_op) == s->request.socket_operations;
		at[place] = OF(file, file, f_inode) & -is_socket;
	}
#pragma unroll
	for (u32 place = 0; place < 8; place++)
		s->warmed = GET(u64, at[place], inode, i_ino);
}
#endif

STEP eight_pointers(u64 turn, struct files_context *context)
{
	struct files_slot *s = context->slot;
	u32 first = (u32)(turn & (POINTERS / 8 - 1)) * 8;
	u64 *pointers = &s->pointers[first];

	if (s->descriptor + first >= s->end)
		return 1;
	if (!(pointers[0] | pointers[1] | pointers[2] | pointers[3] | pointers[4] | pointers[5] | pointers[6] | pointers[7]))
		return 0;
#ifndef BY_PROBE_READ
	warm(s, pointers);
#endif
	for (u32 place = 0; place < 8; place++) {
		u32 descriptor = s->descriptor + first + place;
		if (descriptor >= s->end)
			return 1;
		if (pointers[place] && read_file(context->number, descriptor, pointers[place])) {
			s->stop = 1;
			return 1;
		}
	}
	return 0;
}

LOOP(eight_pointers, 8, POINTERS / 8 / 8)

STEP one_chunk(u64 turn, struct files_context *context)
{
	struct files_slot *s = context->slot;
	u32 descriptor = s->descriptor, end = s->end, count;

	if (descriptor >= end)
		return 1;
	count = end - descriptor;
	if (count > POINTERS)
		count = POINTERS;
	if (probe_read_kernel(s->pointers, MASKED(count * 8, 2 * sizeof(s->pointers) - 1), (void *)(s->array + (u64)descriptor * 8))) {
		s->bad = 1;
		return 1;
	}
	REPEAT(POINTERS / 8, eight_pointers, context);
	if (s->stop)
		return 1;
	s->descriptor += POINTERS;
	return 0;
}

LOOP(one_chunk, 64, 4)

__attribute__((noinline)) int read_item(u32 number, u32 place)
{
	struct files_slot *s = map_lookup(&slots, &number);
	struct files_context context = { .slot = s, .number = number };
	struct item *item;
	u64 task, files, table;
	u32 end;

	if (!s)
		return 1;
	item = &s->items[place & (ITEMS - 1)];
	task = item->task;
	s->item = place;
	s->start = s->reply.used;
	s->bad = 0;
	files = GET(u64, task, task_struct, files);
	table = files ? GET(u64, files, files_struct, fdt) : 0;
	if (!table) {
		s->bad = 1;
	} else {
		u32 records = s->reply.records;
		end = GET(u32, table, fdtable, max_fds);
		s->array = GET(u64, table, fdtable, fd);
		s->descriptor = item->first;
		s->end = end < item->end ? end : item->end;
		if (!IS_COMPLETE(REPEAT(1 << 16, one_chunk, &context)))
			s->bad = 1;
		if (s->stop) {
			s->reply.used = s->start;
			s->reply.records = records;
			return 1;
		}
		if (s->bad || GET(u64, task, task_struct, files) != files || GET(u64, files, files_struct, fdt) != table ||
		    GET(u64, task, task_struct, start_time) != item->start_time ||
		    GET(u32, task, task_struct, tgid) != item->tgid) {
			s->bad = 1;
			s->reply.used = s->start;
			s->reply.records = records;
		}
	}
	item->pad = s->bad ? 2 : 1;
	s->reply.failed += s->bad;
	return 0;
}

STEP one_item(u64 turn, struct files_context *context)
{
	struct files_slot *s = context->slot;

	if (turn >= s->request.items)
		return 1;
	if (read_item(context->number, (u32)turn)) {
		s->reply.outcome = FULL;
		return 1;
	}
	s->reply.items = (u32)turn + 1;
	return 0;
}

LOOP(one_item, 8, ITEMS / 8)

SEC("raw_tp")
int read_files(u64 *arguments)
{
	u32 number = (u32)arguments[0];
	struct files_slot *s = map_lookup(&slots, &number);
	struct files_context context = { .slot = s, .number = number };

	if (!s)
		return 1;
	s->reply.outcome = DONE;
	s->reply.used = s->reply.records = s->reply.failed = s->reply.items = 0;
#ifdef WITH_SOCKETS
	s->reply.jiffies = jiffies();
	s->reply.ktime_ns = ktime_ns();
#endif
	s->stop = 0;
	REPEAT(ITEMS, one_item, &context);
	return 0;
}
