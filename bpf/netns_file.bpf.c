/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Finds references to network namespaces with the kernel's iterator over descriptors (Linux 5.8): one record for each
 * descriptor of a namespace, and for each of a socket in another network namespace than its process's.
 *
 * Whether a namespace is a network namespace is checked by the reader: files of all types of namespaces look alike.
 */
#include "task_file.h"

enum { OF_NAMESPACE = 1, OF_SOCKET = 2 };

struct record {
	u32 pid; /* in our pid namespace */
	u32 descriptor, netns, kind;
	u32 inode; /* of the socket */
	u32 pad;
	char comm[16]; /* the process's, not the thread's */
};

#define NSFS_MAGIC 0x6e736673

SEC("iter/task_file")
int list_netns_files(struct context *context)
{
	u64 task = context->task, file = context->file, leader, signal, pid, proxy, net, node, sk;
	struct record record = {};
	u32 group = 0;

	if (!task || !file)
		return 0;
	node = IN(file, file, f_inode);
	if (!node)
		return 0;
	if ((IN(node, inode, i_mode) & S_IFMT) == S_IFSOCK) {
		/* As in task_file.bpf.c: not a descriptor opened with O_PATH. */
		u64 socket = IN(file, file, private_data);

		if (socket + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket) != node)
			return 0;
		sk = GET(u64, socket, socket, sk);
		net = sk ? GET(u64, sk, sock_common, skc_net) : 0;
		record.netns = net ? GET(u32, net, net, ns.inum) : 0;
		proxy = IN(task, task_struct, nsproxy);
		net = proxy ? IN(proxy, nsproxy, net_ns) : 0;
		if (!record.netns || (net && IN(net, net, ns.inum) == record.netns))
			return 0;
		record.kind = OF_SOCKET;
		record.inode = (u32)IN(node, inode, i_ino);
	} else if (IN(IN(node, inode, i_sb), super_block, s_magic) == NSFS_MAGIC) {
		record.netns = (u32)IN(node, inode, i_ino);
		record.kind = OF_NAMESPACE;
	} else {
		return 0;
	}
	record.descriptor = context->fd;
	leader = IN(task, task_struct, group_leader);
	signal = IN(task, task_struct, signal);
	if (task != leader && shares_table_with_previous(task, signal))
		return 0;
	probe_read_kernel(record.comm, sizeof(record.comm), (void *)(leader + AT(task_struct, comm)));
	pid = *(u64 *)pid_at(signal, PIDTYPE_TGID);
	if (!pid)
		return 0; /* it ends */
	if (IN(pid, pid, level))
		numbers_by_level(&record.pid, &group, signal);
	else
		record.pid = IN(task, task_struct, tgid);
	if (record.pid)
		seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}

char license_[] SEC("license") = "GPL";
