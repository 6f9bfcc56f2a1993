/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The programs' view of the kernel: a few helpers, and the fields of its structs that they read.
 *
 * No field's offset is known here. `AT` emits a CO-RE relocation, which names struct and field; Sockeye looks
 * them up in the running kernel's BTF and writes the offset into the instruction. A field that this kernel does
 * not have, or has with another size than declared here, does not exist (`HAS` is 0, and the verifier removes
 * the branch); if a program needs it in any case, the program is not loaded at all.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NULL ((void *)0)

/* include/uapi/linux/bpf.h: numbers of helpers */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const current_task)(void) = (void *)35;
static long (*const probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static u64 (*const jiffies)(void) = (void *)118;
static u64 (*const ktime_ns)(void) = (void *)5;
static long (*const seq_write)(void *seq, const void *data, u32 bytes) = (void *)127;
static long (*const loop)(u32 times, void *step, void *context, u64 flags) = (void *)181;

struct map {
	u32 type, key_bytes, value_bytes, entries, flags;
};
#define MAP_TYPE_ARRAY 2
#define MAP_MMAPABLE (1 << 10)

/* The kfunc `void *bpf_rdonly_cast(const void *obj, u32 btf_id)` (Linux 6.2): the same address, readable as a
 * struct of that type; an address that does not exist reads as 0. It costs nothing: the verifier replaces the
 * call by a move. The number is not a helper's: Sockeye replaces it by the kfunc's BTF id. */
#define RDONLY_CAST 0x7f00c457
static void *(*const rdonly_cast)(u64 address, u32 type) = (void *)RDONLY_CAST;

#define KERNEL __attribute__((preserve_access_index))

/* Eight bytes with a number: every address is cast to it, so that what is read is a number to the
 * verifier, even if the kernel has a pointer there. */
struct timespec64 {
	s64 tv_sec;
} KERNEL;

#ifdef BY_PROBE_READ /* for kernels without the kfunc */
#define LOAD(type, address)                                              \
	({                                                               \
		type value_ = 0;                                         \
		probe_read_kernel(&value_, sizeof(value_), (void *)(address)); \
		value_;                                                  \
	})
#else
#define LOAD(type, address) (*(volatile type *)rdonly_cast((u64)(address), __builtin_btf_type_id(*(struct timespec64 *)0, 1)))
#endif

/* enum bpf_field_info_kind of libbpf's bpf_core_read.h, as clang knows it */
#define FIELD(structure, field, what) __builtin_preserve_field_info(((struct structure *)0)->field, what)
#define AT(structure, field) FIELD(structure, field, 0)
#define SIZE(structure, field) FIELD(structure, field, 1)
#define HAS(structure, field) FIELD(structure, field, 2)

/* A number that is compared and used in the same register, all 64 bits of it; and a number that is at most `mask`, a power
 * of two less 1. The verifier before Linux 6.2 loses what was learned of a copy. */
#ifdef BY_PROBE_READ
#define NUMBER u64
#define CHECKED(number)                                \
	({                                             \
		u64 checked_ = (number);               \
		asm volatile("" : "+r"(checked_));     \
		checked_;                              \
	})
#define MASKED(number, mask) (CHECKED(number) & (mask))
#else
#define NUMBER u32
#define CHECKED(number) (number)
#define MASKED(number, mask) (number)
#endif

/* A part of a struct that was copied with one probe-read, instead of one for each field. On kernels with the cast nothing is
 * copied: fields are read in place. */
#define BYTES(structure) __builtin_preserve_type_info(*(struct structure *)0, 1)
#ifdef BY_PROBE_READ
#define COPY(to, structure, from) \
	probe_read_kernel(to, BYTES(structure) < sizeof(to) ? BYTES(structure) : sizeof(to), (void *)(from))
#define COPIED(type, copy, base, structure, field) (*(volatile type *)((copy) + AT(structure, field)))
#else
#define COPY(to, structure, from)
#define COPIED(type, copy, base, structure, field) GET(type, base, structure, field)
#endif

/* The value of a field of the size declared here. */
#define GET(type, base, structure, field) LOAD(type, (base) + AT(structure, field))

/* The value of a bit field, or of a field with different sizes in different kernels. */
#define GET_ANY(base, structure, field)                                       \
	({                                                                    \
		u64 at_ = (base) + FIELD(structure, field, 0), any_;          \
		u32 size_ = FIELD(structure, field, 1);                       \
		if (size_ == 1)                                               \
			any_ = LOAD(u8, at_);                                 \
		else if (size_ == 2)                                          \
			any_ = LOAD(u16, at_);                                \
		else if (size_ == 4)                                          \
			any_ = LOAD(u32, at_);                                \
		else                                                          \
			any_ = LOAD(u64, at_);                                \
		any_ << FIELD(structure, field, 4) >> FIELD(structure, field, 5); \
	})

/* Reading many fields of one struct is cheaper for the verifier this way: the address is cast once, to a struct of 4096 bytes
 * of numbers only (ICMP's counters: any kernel with IPv4 has it), and each field is then one load, with its
 * offset in the instruction. */
struct icmpmsg_mib {
	u64 first;
} KERNEL;
#ifndef BY_PROBE_READ
#define WHOLE(address) ((u64)rdonly_cast((u64)(address), __builtin_btf_type_id(*(struct icmpmsg_mib *)0, 1)))
#define OF(whole, structure, field) (((struct structure *)(whole))->field)
#else
#define WHOLE(address) (address)
#define OF(whole, structure, field) GET(__typeof__(((struct structure *)0)->field), whole, structure, field)
#endif

/* Element of an array of 32-bit numbers. */
#ifndef BY_PROBE_READ
#define ARRAY(whole, index) (((u32 *)(whole))[index])
#else
#define ARRAY(whole, index) LOAD(u32, (whole) + 4 * (index))
#endif

/* The value of a bit field, or of a field with different sizes: as GET_ANY, but always eight bytes are read,
 * because the lowest bits come first on the supported kernels. */
#define BITS(base, structure, field) \
	(LOAD(u64, (base) + FIELD(structure, field, 0)) << FIELD(structure, field, 4) >> FIELD(structure, field, 5))

/* --- lists --- */

struct hlist_nulls_node {
	u64 next, pprev;
};
struct hlist_node {
	u64 next, pprev;
};
struct list_head {
	u64 next, prev;
};
struct timer_list {
	struct hlist_node entry;
	u64 expires;
} KERNEL;
struct atomic {
	s32 counter;
};

/* --- sockets: include/net/sock.h, inet_sock.h, inet_connection_sock.h, inet_timewait_sock.h, request_sock.h --- */

struct in6 {
	u8 bytes[16];
};
struct sock_common {
	u64 skc_addrpair; /* peer's address, then ours */
	u32 skc_hash;
	u32 skc_portpair; /* peer's port (big-endian), then ours */
	u16 skc_family;
	u8 skc_state;
	u8 skc_ipv6only : 1;
	s32 skc_bound_dev_if;
	struct hlist_node skc_bind_node;
	u64 skc_net, skc_prot;
	struct in6 skc_v6_daddr, skc_v6_rcv_saddr;
	u64 skc_cookie;
	struct hlist_nulls_node skc_nulls_node;
	struct hlist_node skc_node;
} KERNEL;
struct sk_buff_head {
	u64 next;
	u32 qlen;
} KERNEL;
struct sock_cgroup_data {
	u64 val; /* until Linux 5.14; then: */
	u64 cgroup;
	u32 classid;
} KERNEL;
struct backlog {
	struct atomic rmem_alloc;
	s32 len;
} KERNEL;
struct sock {
	struct sock_common __sk_common;
	struct atomic sk_drops;
	u64 sk_drop_counters; /* Linux 6.18 */
	struct sk_buff_head sk_receive_queue;
	struct {
		struct atomic rmem_alloc;
		s32 len;
	} sk_backlog;
	u8 sk_userlocks;
	s32 sk_rcvbuf;
	u64 sk_socket;
	s32 sk_forward_alloc;
	struct atomic sk_omem_alloc;
	s32 sk_wmem_queued;
	u32 sk_wmem_alloc;
	struct timer_list sk_timer;
	struct timer_list tcp_retransmit_timer; /* since 6.19 */
	u64 sk_pacing_rate, sk_max_pacing_rate;
	u8 sk_pacing_status;
	u32 sk_priority, sk_mark;
	u32 sk_uid;
	u16 sk_protocol, sk_type;
	s32 sk_sndbuf;
	u8 sk_shutdown;
	u32 sk_ack_backlog, sk_max_ack_backlog;
	u64 sk_ino; /* Linux 6.18 */
	u64 sk_dst_cache;
	struct sock_cgroup_data sk_cgrp_data;
	struct hlist_node sk_bind2_node; /* Linux 6.1 to 6.7 */
} KERNEL;
struct inet_sock {
	struct sock sk;
	u64 pinet6;
	u64 inet_flags; /* Linux 6.6; before: */
	u8 recverr : 1, is_icsk : 1, freebind : 1, hdrincl : 1, mc_loop : 1, transparent : 1, mc_all : 1, nodefrag : 1;
	u8 bind_address_no_port : 1, recverr_rfc4884 : 1, defer_connect : 1;
	u8 tos;
} KERNEL;
struct ipv6_pinfo {
	u8 tclass;
} KERNEL;
struct ca_priv {
	u64 words[13];
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u64 icsk_timeout; /* until Linux 6.18 */
	struct timer_list icsk_retransmit_timer; /* until 6.19 */
	struct timer_list icsk_keepalive_timer; /* since 6.19; sk_timer before */
	u64 icsk_ca_ops, icsk_ulp_ops;
	u8 icsk_retransmits, icsk_pending, icsk_probes_out, icsk_backoff;
	u8 icsk_ca_state : 5;
	u32 icsk_rto, icsk_rto_min, icsk_delack_max, icsk_pmtu_cookie;
	struct {
		u32 ato : 8; /* 32 bits until Linux 6.10 */
		u32 lrcvtime;
		u16 rcv_mss;
	} icsk_ack;
	struct ca_priv icsk_ca_priv;
} KERNEL;
struct udp_sock {
	s32 forward_deficit;
} KERNEL;
struct numa_drop_counters {
	struct atomic drops0, drops1;
} KERNEL;
struct minmax {
	u64 first;
};
struct minmax_sample {
	u32 v;
} KERNEL;
struct three {
	u32 at[3];
};
struct tcp_options_received {
	u16 tstamp_ok : 1, wscale_ok : 1, sack_ok : 3, snd_wscale : 4, rcv_wscale : 4;
} KERNEL;
struct tcp_sock {
	u64 md5sig_info; /* with CONFIG_TCP_MD5SIG */
	u32 rcv_nxt, copied_seq, write_seq, snd_una;
	u64 tcp_mstamp; /* microseconds of CLOCK_MONOTONIC */
	/* what tcp_get_info() of net/ipv4/tcp.c reads */
	u32 snd_nxt, reordering, snd_cwnd, mss_cache, packets_out, sacked_out, lost_out, retrans_out;
	u32 lsndtime, rcv_tstamp, rcv_ssthresh, srtt_us, mdev_us, snd_ssthresh, total_retrans;
	u32 segs_in, segs_out, data_segs_in, data_segs_out, rate_delivered, rate_interval_us;
	u32 delivered, delivered_ce, dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd;
	u16 advmss, timeout_rehash;
	u32 plb_rehash; /* Linux 6.2 */
	u16 total_rto, total_rto_recoveries;
	u32 total_rto_time, rto_stamp; /* Linux 6.7 */
	u64 bytes_acked, bytes_received, bytes_sent, bytes_retrans;
	u32 chrono_start;
	struct three chrono_stat;
	u8 chrono_type : 2; /* 8 bits since Linux 6.18 */
	u8 ecn_flags;
	u8 rate_app_limited : 1, syn_data_acked : 1, fastopen_client_fail : 2;
	u8 tcp_usec_ts : 1;         /* Linux 6.7 */
	u8 syn_fastopen_child : 1;  /* Linux 6.14 */
	u8 accecn_fail_mode : 4, saw_accecn_opt : 2;
	u32 received_ce; /* Linux 6.18 */
	struct three received_ecn_bytes, delivered_ecn_bytes;
	struct minmax rtt_min;
	struct tcp_options_received rx_opt;
	struct {
		u32 rtt_us;
	} rcv_rtt_est;
	struct {
		s32 space;
	} rcvq_space;
} KERNEL;
/* net/ipv4/tcp_bbr.c: the content of icsk_ca_priv */
struct bbr {
	u32 min_rtt_us;
	struct minmax bw;
	u32 lt_use_bw : 1, pacing_gain : 10, cwnd_gain : 10;
	u32 lt_bw;
} KERNEL;
struct dst_entry {
	u64 _metrics;
} KERNEL;
struct inet_timewait_sock {
	u32 tw_mark;
	u8 tw_substate;
	struct timer_list tw_timer;
} KERNEL;
struct request_sock {
	u8 num_retrans;
	struct timer_list rsk_timer;
} KERNEL;
struct inet_request_sock {
	u32 ir_mark;
} KERNEL;
struct tcp_congestion_ops {
	u64 get_info;
	char name[16];
} KERNEL;

/* --- tables of sockets: include/net/inet_hashtables.h --- */

struct inet_hashinfo {
	u8 listening_hash[1]; /* until Linux 5.18 */
	u64 ehash;
	u32 ehash_mask;
	u64 bhash2;
	u32 bhash_size;
	u64 lhash2;
	u32 lhash2_mask;
} KERNEL;
struct hlist_nulls_head {
	u64 first;
};
struct hlist_head {
	u64 first;
};
struct inet_ehash_bucket {
	struct hlist_nulls_head chain;
} KERNEL;
struct inet_listen_hashbucket {
	struct hlist_nulls_head nulls_head; /* Linux 6.1 */
} KERNEL;
struct inet_bind_hashbucket {
	struct hlist_head chain;
} KERNEL;
struct inet_bind2_bucket {
	u16 port;
	struct hlist_node node;
	struct hlist_head owners;
} KERNEL;

/* include/net/udp.h */
struct spinlock {
	u32 value; /* more with PREEMPT_RT or debugging */
};
struct udp_hslot {
	struct hlist_head head;
	s32 count;
	struct spinlock lock;
} KERNEL;
struct udp_table {
	u64 hash;
	u32 mask;
} KERNEL;

/* include/net/sock.h */
struct proto {
	struct {
		u64 hashinfo, udp_table;
	} h;
} KERNEL;

/* --- owners --- */

struct ns_common {
	u32 inum;
} KERNEL;
struct inet_timewait_death_row {
	u64 hashinfo;
} KERNEL;
struct netns_ipv4 {
	struct inet_timewait_death_row tcp_death_row;
	u64 udp_table; /* Linux 6.2 */
} KERNEL;
struct net {
	struct ns_common ns;
	struct list_head list;
	u32 hash_mix;
	struct netns_ipv4 ipv4;
} KERNEL;
struct files_struct {
	u64 fdt;
} KERNEL;
struct fdtable {
	u32 max_fds;
	u64 fd;
} KERNEL;
struct nsproxy {
	u64 net_ns;
} KERNEL;
struct thread_info {
	u64 flags;
	u32 status; /* x86 */
} KERNEL;
struct task_struct {
	struct thread_info thread_info;
	u32 flags;
	u32 __state; /* Linux 5.14; before: */
	s64 state;
	s32 pid, tgid;
	s32 on_cpu;
	u64 real_parent, group_leader;
	struct list_head tasks, thread_node;
	u64 start_time;
	u64 cred, files, nsproxy, signal, cgroups;
	char comm[16];
} KERNEL;
struct upid {
	s32 nr;
	u64 ns;
} KERNEL;
struct pid {
	u32 level;
	struct upid numbers[1];
} KERNEL;
/* include/linux/pid_types.h: indexes into `pids` */
enum { PIDTYPE_TGID = 1, PIDTYPE_PGID = 2 };
struct signal_struct {
	struct atomic live; /* threads that have not begun to exit */
	s32 nr_threads;
	struct list_head thread_head;
	u64 pids[4];
} KERNEL;
struct cred {
	u32 uid;
} KERNEL;
struct css_set {
	u64 dfl_cgrp;
} KERNEL;
struct socket {
	u64 sk;
} KERNEL;
struct inode {
	u64 i_ino;
	u32 i_uid;
} KERNEL;
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
} KERNEL;
struct cgroup {
	u64 kn;
} KERNEL;
struct kernfs_node {
	u64 id;
} KERNEL;
