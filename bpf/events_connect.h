/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * connect() calls that fail before anything is sent: no route, no address, forbidden. Nothing of that is an event of the socket, so
 * each return from a system call is looked at.
 */
#pragma once
#include "descriptor_sock.h"

/* include/uapi/linux/bpf.h: number of a helper (Linux 5.5) */
static long (*const probe_read_user)(void *to, u32 bytes, const void *from) = (void *)112;

/* Offsets in struct pt_regs: number of the call, first and second argument. The number of connect(), and the bit of threads in 32-bit
 * calls, as in calls.h. */
const volatile u32 call_at = 120, first_at = 112, second_at = 104, connect_call = 42;
const volatile u64 compat_bit = 2;

INLINE int is_compat(u64 task)
{
	if (HAS(task_struct, thread_info.status))
		return (GET(u32, task, task_struct, thread_info.status) & (u32)compat_bit) != 0;
	return (GET(u64, task, task_struct, thread_info.flags) & compat_bit) != 0;
}

SEC("tp_btf/sys_exit")
int call_returns(u64 *args)
{
	u64 registers = args[0];
	s64 result = (s64)args[1];
	u8 address[24] = {};
	struct ends ends;

	/* Not before -511 are errors that the call returns; EINTR, EAGAIN, EBADF, EFAULT, ENOTSOCK, EISCONN, EALREADY, EINPROGRESS are
	 * none of the network. */
	if (result >= 0 || result < -511 || LOAD(u32, registers + call_at) != connect_call)
		return 0;
	s32 error = (s32)-result;
	if (error == 4 || error == 9 || error == 11 || error == 14 || error == 88 || error == 106 || error == 114 || error == 115)
		return 0;
	if (is_compat((u64)current_task()))
		return 0;
	u64 sk = sock_of_descriptor(LOAD(u32, registers + first_at));
	if (!sk)
		return 0;
	u16 family = GET(u16, sk, sock_common, skc_family);
	if (family != 2 && family != AF_INET6_)
		return 0;
	u32 protocol = protocol_of(sk);
	if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP && protocol != PROTOCOL_MPTCP)
		return 0;
	/* A connection that was asked for, refused and reported. */
	struct known *known = known_of(sk);
	if (known && known->failing & FAILURE_REPORTED) {
		known->failing &= (u8)~FAILURE_REPORTED;
		return 0;
	}
	probe_read_user(address, sizeof(address), (void *)LOAD(u64, registers + second_at));
	take_ends(&ends, sk);
	ends.peer_port = swapped(*(u16 *)(address + 2));
	if (*(u16 *)address == AF_INET6_) {
		ends.peer[0] = *(u64 *)(address + 8);
		ends.peer[1] = *(u64 *)(address + 16);
		ends.family = AF_INET6_;
	} else {
		ends.peer[0] = 0;
		ends.peer[1] = 0xffff0000ull | (u64) * (u32 *)(address + 4) << 32;
	}
	if (is_filtered && !ends_match(&ends))
		return 0;
	struct event *record = record_of_socket(CONNECT_FAILED, sizeof(*record), sk);
	if (!record)
		return 0;
	record->old_state = record->state = GET(u8, sk, sock_common, skc_state);
	record->reason = -1;
	fill(record, sk, 0);
	record->ends = ends;
	record->error = error;
	no_known(&record->known);
	record->is_tracked = 0;
	record->known.direction = OURS;
	name_current(&record->known.owner, BY_CONNECT);
	submit_waking(record, sizeof(*record));
	return 0;
}
