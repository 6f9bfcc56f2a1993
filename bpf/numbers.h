/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Process ids as Sockeye sees them: in a container, those of its pid namespace. To be included after the
 * declarations of the kernel's structs.
 */

struct pid_namespace {
	struct ns_common ns;
} KERNEL;

/* A process's id in the pid namespace with this inode (0: the initial one); 0 if it has none there. */
static __attribute__((noinline)) u32 number_of(u64 task, u32 namespace)
{
	u64 signal = GET(u64, task, task_struct, signal);
	u64 pid = GET(u64, signal + PIDTYPE_TGID * 8, signal_struct, pids);
	u64 numbers = pid + AT(pid, numbers), bytes = __builtin_preserve_type_info(*(struct upid *)0, 1);
	u32 level = GET(u32, pid, pid, level);

	if (!namespace)
		return GET(u32, numbers, upid, nr);
	/* MAX_PID_NS_LEVEL of include/linux/pid_namespace.h is 32. */
	for (u32 i = 0; i < 33 && i <= level; i++, numbers += bytes)
		if (GET(u32, GET(u64, numbers, upid, ns) + AT(pid_namespace, ns), ns_common, inum) == namespace)
			return GET(u32, numbers, upid, nr);
	return 0;
}
