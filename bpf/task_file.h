/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the programs of the kernel's iterator over descriptors have in common (Linux 5.8).
 *
 * Structs that the verifier knows are read directly, without a helper; the rest by probe-reads.
 */
#pragma once
#define BY_PROBE_READ
#define inode inode_elsewhere
#include "kernel.h"
#undef inode

struct super_block {
	u64 s_magic;
} KERNEL;
struct inode {
	u16 i_mode;
	u64 i_ino;
	struct super_block *i_sb;
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

/* A field of a struct whose type the verifier knows. */
#define IN(address, structure, field) (((struct structure *)(address))->field)

#define S_IFMT 0xf000
#define S_IFSOCK 0xc000

/* The address of a signal_struct's pid for its process or its group. */
INLINE u64 pid_at(u64 signal, u32 type)
{
	return signal + AT(signal_struct, pids) + type * 8;
}

/* The address of an id for one level of pid namespaces. */
INLINE u64 number_at(u64 pid, u32 level)
{
	return pid + AT(pid, numbers) + (u64)(level & 31) * __builtin_preserve_type_info(*(struct upid *)0, 1);
}

/* Ids of a process of another pid namespace than the initial one: in ours, at any level. */
INLINE void numbers_by_level(u32 *pid_number, u32 *group_number, u64 signal)
{
	u64 own = LOAD(u64, pid_at(GET(u64, current_task(), task_struct, signal), PIDTYPE_TGID));
	u64 pid = LOAD(u64, pid_at(signal, PIDTYPE_TGID)), group = LOAD(u64, pid_at(signal, PIDTYPE_PGID));
	u32 level = GET(u32, own, pid, level);
	u64 namespace = GET(u64, number_at(own, level), upid, ns);

	if (GET(u32, pid, pid, level) >= level && GET(u64, number_at(pid, level), upid, ns) == namespace)
		*pid_number = GET(u32, number_at(pid, level), upid, nr);
	if (GET(u32, group, pid, level) >= level && GET(u64, number_at(group, level), upid, ns) == namespace)
		*group_number = GET(u32, number_at(group, level), upid, nr);
}

/* Whether the previous thread in the process's list has the same descriptors. The kernel itself skips
 * threads that have their leader's (Linux 5.11), but if the leader has ended, it would go through them for each. */
INLINE int shares_table_with_previous(u64 task, u64 signal)
{
	u64 before = LOAD(u64, task + AT(task_struct, thread_node) + 8);

	return before != signal + AT(signal_struct, thread_head) &&
	       GET(u64, before - AT(task_struct, thread_node), task_struct, files) == IN(task, task_struct, files);
}
