/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Counts what each process sends and receives over sockets of UDP, at the tracepoints of their calls (Linux 6.3). The kernel counts no bytes of
 * these sockets itself.
 *
 * A process has one entry in each network namespace that its sockets are in, in a table of bounded size: a new one takes the place of the
 * one that was not used for longest. Entries that were added are counted: those of them that are not there any more have made room.
 */
#pragma once
#define net net_elsewhere
#include "kernel.h"
#undef net
#include "ring.h"
#include "numbers.h"

/* include/uapi/linux/bpf.h: numbers of helpers */
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
#define MAP_TYPE_LRU_HASH 9
#define NOEXIST 1

struct net {
	struct ns_common ns;
} KERNEL;

/* --- constants that Sockeye sets before loading --- */

const volatile u32 pid_namespace = 0; /* inode of ours; 0: the initial one */

/* --- maps: crates/wire/src/udp_bytes.rs --- */

struct key {
	u32 pid; /* 0: in another pid namespace */
	u32 netns;
};
struct value {
	u64 sent, received;
	char comm[16];
};
struct map udp_bytes SEC("maps") = {MAP_TYPE_LRU_HASH, sizeof(struct key), sizeof(struct value), 8192, 0};

/* Numbers of entries that were added; and of calls whose entry found no room. */
enum { ADDED = 0, REFUSED = 1, COUNTS = 2 };
struct map udp_counts SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), sizeof(u64), COUNTS, 0};

INLINE void count(u32 what)
{
	u64 *number = map_lookup(&udp_counts, &what);

	if (number)
		__sync_fetch_and_add(number, 1);
}

enum { PROTOCOL_UDP = 17, SOCK_DGRAM_ = 2, MSG_PEEK_ = 2 };

/* The entry of the current process for a socket; NULL if the socket is not of UDP. */
INLINE struct value *value_of(u64 sk)
{
	u64 task, comm;
	struct key key = {};
	struct value *value, blank = {};

	if (GET_ANY(sk, sock, sk_protocol) != PROTOCOL_UDP || GET(u16, sk, sock, sk_type) != SOCK_DGRAM_)
		return NULL;
	task = current_task();
	key.pid = number_of(task, pid_namespace);
	key.netns = GET(u32, GET(u64, sk, sock_common, skc_net), net, ns.inum);
	comm = GET(u64, task, task_struct, group_leader) + AT(task_struct, comm);
	/* The pid may be that of another process by now, or the process has another name. */
	value = map_lookup(&udp_bytes, &key);
	if (value) {
		((u64 *)value->comm)[0] = LOAD(u64, comm);
		((u64 *)value->comm)[1] = LOAD(u64, comm + 8);
		return value;
	}
	((u64 *)blank.comm)[0] = LOAD(u64, comm);
	((u64 *)blank.comm)[1] = LOAD(u64, comm + 8);
	/* Another thread of the process can have added it. */
	if (!map_update(&udp_bytes, &key, &blank, NOEXIST))
		count(ADDED);
	value = map_lookup(&udp_bytes, &key);
	if (!value)
		count(REFUSED);
	return value;
}

SEC("tp_btf/sock_send_length")
int socket_sends(u64 *args)
{
	struct value *value = (s32)args[1] > 0 ? value_of(args[0]) : NULL;

	if (value)
		__sync_fetch_and_add(&value->sent, (u64)(u32)args[1]);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int socket_receives(u64 *args)
{
	struct value *value = (s32)args[1] > 0 && !(args[2] & MSG_PEEK_) ? value_of(args[0]) : NULL;

	if (value)
		__sync_fetch_and_add(&value->received, (u64)(u32)args[1]);
	return 0;
}

char license_[] SEC("license") = "GPL";
