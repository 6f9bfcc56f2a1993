/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Finds socket owners with the kernel's iterator over descriptors (Linux 5.8): one record for each descriptor of
 * a socket, of each process that is visible in our pid namespace.
 *
 * It requires less of the kernel than the walk over processes, and costs more: the kernel takes and releases a
 * reference to every file of every process, sockets or not.
 */
#include "task_file.h"

/* A descriptor of a socket. */
struct record {
	u64 cgroup;
	u32 pid, pgid; /* in our pid namespace; 0: not visible there */
	u32 tgid;      /* in the initial pid namespace */
	u32 descriptor, inode;
	u32 uid, netns;
	u32 pad;
	char comm[16]; /* the process's, not the thread's */
};

SEC("iter/task_file")
int list_files(struct context *context)
{
	u64 task = context->task, file = context->file, leader, signal, pid, group, proxy, net, node;
	struct record record = {};

	if (!task || !file)
		return 0;
	/* 1. A socket is next to its inode, and its file points to it. A descriptor opened with O_PATH does not refer to the
	 * socket, only to its name: its file points nowhere. */
	node = IN(file, file, f_inode);
	if (!node || (IN(node, inode, i_mode) & S_IFMT) != S_IFSOCK ||
	    IN(file, file, private_data) + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket) != node)
		return 0;
	record.inode = (u32)IN(node, inode, i_ino);
	record.descriptor = context->fd;
	leader = IN(task, task_struct, group_leader);
	signal = IN(task, task_struct, signal);
	if (task != leader && shares_table_with_previous(task, signal))
		return 0;
	/* 2. Its owner. */
	record.tgid = IN(task, task_struct, tgid);
	record.uid = IN(IN(task, task_struct, cred), cred, uid);
	proxy = IN(task, task_struct, nsproxy);
	net = proxy ? IN(proxy, nsproxy, net_ns) : 0;
	record.netns = net ? IN(net, net, ns.inum) : 0;
	group = IN(IN(task, task_struct, cgroups), css_set, dfl_cgrp);
	node = IN(group, cgroup, kn);
	record.cgroup = IN(node, kernfs_node, id);
	probe_read_kernel(record.comm, sizeof(record.comm), (void *)(leader + AT(task_struct, comm)));
	/* 3. Its ids in our pid namespace: in the initial one, if it has no others. */
	pid = *(u64 *)pid_at(signal, PIDTYPE_TGID);
	if (!pid)
		return 0; /* it ends */
	if (IN(pid, pid, level)) {
		numbers_by_level(&record.pid, &record.pgid, signal);
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
