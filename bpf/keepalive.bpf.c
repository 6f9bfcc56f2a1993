/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Enables keepalive on every new TCP connection of a cgroup: a sock_ops program, which the kernel calls at
 * certain events of a connection whose socket was created in that cgroup or below (Linux 5.9, which has these options
 * in bpf_setsockopt and bpf_skc_to_tcp_sock alike).
 *
 * The events are the earliest ones: connect(), before the SYN is sent, and the end of the handshake of an incoming
 * connection, before accept() can return it. What the application sets on the connection afterwards therefore
 * replaces what is set here. What it had set before (on the socket that connects, or on the listener, from which
 * connections inherit it) is kept as well: a time that is 0 in the kernel's structs was never set. Of
 * several such programs, for a cgroup and for those above it, the innermost runs first, and so its settings
 * apply.
 *
 * The times are set before SO_KEEPALIVE, which starts the timer with them.
 */
#define inet_connection_sock inet_connection_sock_elsewhere
#define tcp_sock tcp_sock_elsewhere
#include "kernel.h"
#undef inet_connection_sock
#undef tcp_sock

struct inet_connection_sock {
	u32 icsk_user_timeout;
} KERNEL;
struct tcp_sock {
	u32 keepalive_time, keepalive_intvl; /* in jiffies */
	u8 keepalive_probes;
} KERNEL;

/* include/uapi/linux/bpf.h: struct bpf_sock_ops, as far as it is needed */
struct moment {
	u32 op;
	u32 others[45];
	void *sk;
};
_Static_assert(__builtin_offsetof(struct moment, sk) == 184, "struct bpf_sock_ops");
enum { TCP_CONNECT = 3, ACTIVE_ESTABLISHED = 4, PASSIVE_ESTABLISHED = 5 };

static long (*const set_option)(struct moment *moment, int level, int option, void *value, int bytes) = (void *)49;
static struct tcp_sock *(*const as_tcp_sock)(void *sk) = (void *)137;

#define SOL_SOCKET 1
#define SO_KEEPALIVE 9
#define SOL_TCP 6
#define TCP_KEEPIDLE 4
#define TCP_KEEPINTVL 5
#define TCP_KEEPCNT 6
#define TCP_USER_TIMEOUT 18

/* Counts of connections. */
struct counts {
	u64 given;   /* connections with all of the settings */
	u64 own;     /* connections with other settings, made by the application */
	u64 refused; /* options that the kernel refused to set */
};
struct map keep_counts SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct counts), 1, 0};

/* The settings. Sockeye writes them before the program is attached. */
struct settings {
	u32 time_s, interval_s, probes;
	u32 sets_user_timeout, user_timeout_ms;
	u32 pad;
	struct counts earlier; /* counts of the replaced programs; used only by Sockeye */
};
struct map keep_settings SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct settings), 1, 0};

INLINE void set(struct moment *moment, struct counts *counts, int level, int option, int value)
{
	if (set_option(moment, level, option, &value, sizeof(value)))
		__sync_fetch_and_add(&counts->refused, 1);
}

INLINE void keep(struct moment *moment, struct tcp_sock *sk, struct settings *settings, struct counts *counts)
{
	if (!sk->keepalive_time)
		set(moment, counts, SOL_TCP, TCP_KEEPIDLE, settings->time_s);
	if (!sk->keepalive_intvl)
		set(moment, counts, SOL_TCP, TCP_KEEPINTVL, settings->interval_s);
	if (!sk->keepalive_probes)
		set(moment, counts, SOL_TCP, TCP_KEEPCNT, settings->probes);
	set(moment, counts, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* Not at connect(), which would then give up earlier as well. */
INLINE void limit(struct moment *moment, struct tcp_sock *sk, struct settings *settings, struct counts *counts)
{
	if (settings->sets_user_timeout && !((struct inet_connection_sock *)sk)->icsk_user_timeout)
		set(moment, counts, SOL_TCP, TCP_USER_TIMEOUT, settings->user_timeout_ms);
}

/* A connect() that failed is not a connection: they are counted when they are established. The kernel's times are in
 * jiffies of an unknown rate; but two times in the same ratio, both of them multiples of a second, are
 * treated as equal. */
INLINE void count(struct tcp_sock *sk, struct settings *settings, struct counts *counts)
{
	u64 time = sk->keepalive_time, interval = sk->keepalive_intvl;

	if (time && time * settings->interval_s == interval * settings->time_s &&
	    sk->keepalive_probes == settings->probes)
		__sync_fetch_and_add(&counts->given, 1);
	else
		__sync_fetch_and_add(&counts->own, 1);
}

SEC("sockops")
int sockeye_keep(struct moment *moment)
{
	u32 first = 0, op = moment->op;
	struct settings *settings;
	struct counts *counts;
	struct tcp_sock *sk;
	void *known;

	if (op != TCP_CONNECT && op != ACTIVE_ESTABLISHED && op != PASSIVE_ESTABLISHED)
		return 1;
	settings = map_lookup(&keep_settings, &first);
	counts = map_lookup(&keep_counts, &first);
	known = moment->sk;
	if (!settings || !counts || !known)
		return 1;
	sk = as_tcp_sock(known);
	if (!sk)
		return 1;
	/* Not at ACTIVE_ESTABLISHED: an application that connects without waiting may have set its own meanwhile. */
	if (op != ACTIVE_ESTABLISHED)
		keep(moment, sk, settings, counts);
	if (op != TCP_CONNECT) {
		limit(moment, sk, settings, counts);
		count(sk, settings, counts);
	}
	return 1;
}

char license_[] SEC("license") = "GPL";
