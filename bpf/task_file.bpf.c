/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Who holds which socket, by the kernel's own iterator over descriptors (Linux 5.8): one record for each descriptor of
 * a socket, of each process that our pid namespace knows.
 *
 * It asks for less of the kernel than the walk over processes does, and costs more: the kernel takes and gives back a
 * reference to every file of every process, sockets or not.
 *
 * What the verifier knows to be a struct of the kernel is read as such, without a helper; the rest by probe-reads.
 */
#define BY_PROBE_READ
#define inode inode_elsewhere
#include "kernel.h"
#undef inode

/* A descriptor of a socket. */
struct record {
	u64 cgroup;
	u32 pid, pgid; /* in our pid namespace; 0: not seen from it */
	u32 tgid;      /* as the first pid namespace numbers it */
	u32 descriptor, inode;
	u32 uid, netns;
	u32 pad;
	char comm[16]; /* the process's, not the thread's */
};

struct inode {
	u16 i_mode;
	u64 i_ino;
} KERNEL;
struct file {
	u64 f_inode, private_data;
} KERNEL;
/* include/linux/bpf.h */
struct bpf_iter_meta {
	void *seq;
} KERNEL;

/* kernel/bpf/task_iter.c: struct bpf_iter__task_file */
struct context {
	struct bpf_iter_meta *meta;
	u64 task;
	u32 fd;
	u64 file;
};

/* A field of something the verifier knows the type of. */
#define IN(address, structure, field) (((struct structure *)(address))->field)

#define S_IFMT 0xf000
#define S_IFSOCK 0xc000

/* The place of a signal_struct's number for its process or its group. */
INLINE u64 pid_at(u64 signal, u32 type)
{
	return signal + AT(signal_struct, pids) + type * 8;
}

/* The place of a number for one level of pid namespaces. */
INLINE u64 number_at(u64 pid, u32 level)
{
	return pid + AT(pid, numbers) + (u64)(level & 31) * __builtin_preserve_type_info(*(struct upid *)0, 1);
}

/* Numbers of a process of another pid namespace than the first: in ours, whatever its level. */
INLINE void numbers_by_level(struct record *record, u64 signal)
{
	u64 own = LOAD(u64, pid_at(GET(u64, current_task(), task_struct, signal), PIDTYPE_TGID));
	u64 pid = LOAD(u64, pid_at(signal, PIDTYPE_TGID)), group = LOAD(u64, pid_at(signal, PIDTYPE_PGID));
	u32 level = GET(u32, own, pid, level);
	u64 namespace = GET(u64, number_at(own, level), upid, ns);

	if (GET(u32, pid, pid, level) >= level && GET(u64, number_at(pid, level), upid, ns) == namespace)
		record->pid = GET(u32, number_at(pid, level), upid, nr);
	if (GET(u32, group, pid, level) >= level && GET(u64, number_at(group, level), upid, ns) == namespace)
		record->pgid = GET(u32, number_at(group, level), upid, nr);
}

/* Whether the thread before this one in the process's list has the same descriptors. The kernel itself passes over
 * threads that have their leader's (Linux 5.11), but where the leader has ended, it would go through them for each. */
INLINE int is_told_by_another(u64 task, u64 signal)
{
	u64 before = LOAD(u64, task + AT(task_struct, thread_node) + 8);

	return before != signal + AT(signal_struct, thread_head) &&
	       GET(u64, before - AT(task_struct, thread_node), task_struct, files) == IN(task, task_struct, files);
}

SEC("iter/task_file")
int list_files(struct context *context)
{
	u64 task = context->task, file = context->file, leader, signal, pid, group, proxy, net, node;
	struct record record = {};

	if (!task || !file)
		return 0;
	/* 1. A socket lies beside its inode, and its file points to it. A descriptor opened with O_PATH is none of the
	 * socket's, only of its name: its file points nowhere. */
	node = IN(file, file, f_inode);
	if (!node || (IN(node, inode, i_mode) & S_IFMT) != S_IFSOCK ||
	    IN(file, file, private_data) + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket) != node)
		return 0;
	record.inode = (u32)IN(node, inode, i_ino);
	record.descriptor = context->fd;
	leader = IN(task, task_struct, group_leader);
	signal = IN(task, task_struct, signal);
	if (task != leader && is_told_by_another(task, signal))
		return 0;
	/* 2. Whose. */
	record.tgid = IN(task, task_struct, tgid);
	record.uid = IN(IN(task, task_struct, cred), cred, uid);
	proxy = IN(task, task_struct, nsproxy);
	net = proxy ? IN(proxy, nsproxy, net_ns) : 0;
	record.netns = net ? IN(net, net, ns.inum) : 0;
	group = IN(IN(task, task_struct, cgroups), css_set, dfl_cgrp);
	node = IN(group, cgroup, kn);
	record.cgroup = IN(node, kernfs_node, id);
	probe_read_kernel(record.comm, sizeof(record.comm), (void *)(leader + AT(task_struct, comm)));
	/* 3. Its numbers in our pid namespace: in the first one, if it has no others. */
	pid = *(u64 *)pid_at(signal, PIDTYPE_TGID);
	if (!pid)
		return 0; /* it ends */
	if (IN(pid, pid, level)) {
		numbers_by_level(&record, signal);
	} else {
		record.pid = record.tgid;
		pid = *(u64 *)pid_at(signal, PIDTYPE_PGID);
		if (pid)
			record.pgid = IN(pid + AT(pid, numbers), upid, nr);
	}
	seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}

char license_[] SEC("license") = "GPL";
