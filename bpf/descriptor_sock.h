/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * From a descriptor of the current process to its socket, where a system call returns.
 */
#pragma once
#include "kernel.h"

struct file {
	u64 f_inode, private_data;
} KERNEL;
struct inode___live {
	u16 i_mode;
} KERNEL;
#define S_IFMT 0170000
#define S_IFSOCK 0140000

/* The socket with this descriptor of the current process; 0 if it is none. */
INLINE u64 sock_of_descriptor(u32 descriptor)
{
	u64 table = GET(u64, GET(u64, current_task(), task_struct, files), files_struct, fdt);
	if (descriptor >= GET(u32, table, fdtable, max_fds))
		return 0;
	u64 file = LOAD(u64, GET(u64, table, fdtable, fd) + 8 * (u64)descriptor);
	if (!file || (GET(u16, GET(u64, file, file, f_inode), inode___live, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	return GET(u64, GET(u64, file, file, private_data), socket, sk);
}
