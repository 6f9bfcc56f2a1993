/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * How long connections wait in the accept queues of listeners: from when they are established until a call has returned their descriptor.
 *
 * No tracepoint shows accept(), so each return from a system call is looked at, which costs all programs of the host something: Sockeye attaches
 * call_accepts only if a listener is selected. What io_uring accepts is seen at its completions, unless it is not to have a descriptor.
 */
#pragma once
#include "descriptor_sock.h"

static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
#define MAP_TYPE_HASH_ 1

enum { TCP_ESTABLISHED_ = 1, TCP_SYN_RECV_ = 3, TCP_CLOSE_ = 7 };
enum { PROTOCOL_MPTCP_ = 262, AF_INET_ = 2 };
#define SOCK_DEAD_BIT 1ull /* enum sock_flags: no process has it any more */
#define OPERATION_ACCEPT 13 /* IORING_OP_ACCEPT */

struct sock_common___path {
	u64 skc_flags;
} KERNEL;
struct mptcp_sock {
	u64 first;
} KERNEL;
struct io_kiocb {
	u8 opcode;
} KERNEL;
struct io_uring_cqe {
	s32 res;
} KERNEL;

/* --- constants that Sockeye sets before loading --- */

/* The offset of a call's number in struct pt_regs, and the numbers of accept and accept4, also of 32-bit programs. A descriptor that another
 * call returns by chance is not that of a waiting connection. */
const volatile u32 call_at = 120, accept_calls[4] = {};
/* Number of arguments of io_uring_complete; 0: there is none. */
const volatile u32 completion_arguments = 0;

/* --- records and maps: crates/wire/src/path.rs --- */

enum { ACCEPTED = 4 };
struct accepted {
	u32 kind, netns;
	u64 local[2], peer[2];
	u16 local_port, peer_port;
	u32 reader; /* whose call has returned it; of one that was closed: 0 */
	u64 established_ns, end_ns;
	char comm[16];
	u32 is_closed, pad; /* while it waited */
};

struct waiting {
	u64 ns;
	u32 ports, pad;
};
struct map accept_waits SEC("maps") = {MAP_TYPE_HASH_, sizeof(u64), sizeof(struct waiting), 16384, 0};

INLINE void take_ends_of(struct accepted *record, u64 sk, u32 ports)
{
	record->netns = GET(u32, GET(u64, sk, sock_common, skc_net), net, ns.inum);
	record->local_port = (u16)(ports >> 16);
	record->peer_port = swapped((u16)ports);
	take_addresses(sk, record->local, record->peer);
}

/* A connection waits no longer: it is accepted, or closed. */
static __attribute__((noinline)) int end_wait(u64 sk, u32 is_closed)
{
	struct waiting *waiting = map_lookup(&accept_waits, &sk);
	struct accepted *record;
	u64 since, task = current_task();
	u32 ports;

	if (!waiting)
		return 0;
	since = waiting->ns;
	/* What is closed may have no port any more. */
	ports = waiting->ports;
	/* Of two processors that see it, one goes on. Another socket may have the address of one that ended unseen. */
	if (map_delete(&accept_waits, &sk) || (!is_closed && ports != ports_of(sk)))
		return 0;
	record = record_of(ACCEPTED, sizeof(*record));
	if (!record)
		return 0;
	take_ends_of(record, sk, ports);
	record->established_ns = since;
	record->end_ns = ktime_ns();
	record->is_closed = is_closed;
	record->pad = record->reader = 0;
	((u64 *)record->comm)[0] = ((u64 *)record->comm)[1] = 0;
	if (!is_closed) {
		u64 comm = GET(u64, task, task_struct, group_leader) + AT(task_struct, comm);

		record->reader = number_of(task, pid_namespace);
		((u64 *)record->comm)[0] = LOAD(u64, comm);
		((u64 *)record->comm)[1] = LOAD(u64, comm + 8);
	}
	submit(record, sizeof(*record));
	return 0;
}

/* A connection is established: it is in the accept queue. Or it is closed. */
SEC("tp_btf/inet_sock_set_state")
int connection_waits(u64 *args)
{
	u64 sk = address_of(args[0]);
	struct waiting waiting = {};
	struct accepted ends;

	if ((s32)args[2] == TCP_CLOSE_) {
		if (!map_lookup(&accept_waits, &sk))
			return 0;
		/* One that a process had was accepted where no program ran. */
		if (GET(u64, sk, sock, sk_socket) || GET(u64, sk, sock_common___path, skc_flags) & SOCK_DEAD_BIT)
			map_delete(&accept_waits, &sk);
		else
			end_wait(sk, 1);
		return 0;
	}
	if ((s32)args[2] != TCP_ESTABLISHED_ || (s32)args[1] != TCP_SYN_RECV_ || GET_ANY(sk, sock, sk_protocol) != PROTOCOL_TCP)
		return 0;
	/* With TCP Fast Open it may be accepted by now. */
	if (GET(u64, sk, sock, sk_socket))
		return 0;
	take_ends_of(&ends, sk, ports_of(sk));
	if (!ends_match(ends.local, ends.local_port, ends.peer, ends.peer_port))
		return 0;
	waiting.ns = ktime_ns();
	waiting.ports = ports_of(sk);
	if (map_update(&accept_waits, &sk, &waiting, 0))
		count(NO_SPACE_TO_WAIT);
	return 0;
}

/* A call may have returned a connection with this descriptor. */
static __attribute__((noinline)) int descriptor_is_new(u32 descriptor)
{
	u64 sk = sock_of_descriptor(descriptor);

	if (!sk)
		return 0;
	if (HAS(mptcp_sock, first) && GET_ANY(sk, sock, sk_protocol) == PROTOCOL_MPTCP_)
		sk = GET(u64, sk, mptcp_sock, first);
	return end_wait(sk, 0);
}

SEC("tp_btf/sys_exit")
int call_accepts(u64 *args)
{
	u32 call;

	if ((s64)args[1] < 0)
		return 0;
	call = LOAD(u32, args[0] + call_at);
	if (call != accept_calls[0] && call != accept_calls[1] && call != accept_calls[2] && call != accept_calls[3])
		return 0;
	return descriptor_is_new((u32)args[1]);
}

SEC("tp_btf/io_uring_complete")
int ring_accepts(u64 *args)
{
	u64 request = 0;
	s32 result = -1;

	/* Linux 6.14; 5.19; and before. */
	if (completion_arguments == 3)
		result = LOAD(s32, args[2] + AT(io_uring_cqe, res));
	else if (completion_arguments >= 5)
		result = (s32)args[3];
	else if (completion_arguments == 4)
		result = (s32)args[2];
	if (result < 0)
		return 0;
	/* One request that accepts many connections has none here. */
	if (completion_arguments != 4 && HAS(io_kiocb, opcode)) {
		request = args[1];
		if (request && LOAD(u8, request + AT(io_kiocb, opcode)) != OPERATION_ACCEPT)
			return 0;
	}
	return descriptor_is_new((u32)result);
}
