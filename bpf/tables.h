/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The interface between program and Sockeye. Mirrored by crates/wire/src/walk/; change both.
 */
#pragma once
#include "kernel.h"

#define SLOTS 4
#define HEADS 512
#define RECORD_BYTES (512 * 1024)

/* More than a struct tcp_sock has, and than a struct sock_common. */
#define COPY_BYTES 3072
#define COPY_AGAIN_BYTES 256

enum table { ESTABLISHED = 0, LISTENING = 1, BOUND = 2, UDP = 3 };

/* Bits of request.detail: what to read in addition to addresses, state and namespace. */
enum detail {
	WANT_QUEUES = 1,
	WANT_INODE = 2,
	WANT_OPTIONS = 4, /* mark, cgroup, shutdown, options, type of service */
	WANT_MEMORY = 8,
	WANT_TCP_INFO = 16, /* these two only of tcp_info.bpf.o */
	WANT_CONGESTION = 32,
	WANT_TIMER = 64,
	WANT_USER = 128,
};

/* Half-open ranges are [low, high]; addresses are IPv6, with IPv4 mapped into it. */
struct request {
	u32 table;
	u32 first, end; /* buckets, end excluded; end is limited to the table's size */
	u32 detail;
	u32 states;   /* bits 1 << state, with sock_diag's numbers */
	u32 families; /* 1: IPv4, 2: IPv6 */
	u32 netns;    /* inode of the only namespace; 0: all */
	u32 skip;     /* sockets of the first bucket to skip, because it alone did not fit */
	u16 local_port_min, local_port_max, peer_port_min, peer_port_max;
	u64 local_prefix[2], local_mask[2], peer_prefix[2], peer_mask[2];
	/* Only of tcp_info.bpf.o: connections to which nothing has happened since then get a short record, `struct quiet`; 0: none.
	 * Microseconds of CLOCK_MONOTONIC. */
	u64 quiet_since_us;
};

struct reply {
	u32 outcome;   /* enum outcome */
	u32 next;      /* bucket to continue with */
	u32 buckets;   /* of the whole table */
	u32 used;      /* bytes of records */
	u32 records;
	u32 again;     /* chains walked again, because a socket moved meanwhile */
	u32 given_up;  /* chains that changed at every attempt */
	u32 overlong;  /* chains cut: too many sockets */
	u32 skip;      /* for the next request, if the first bucket alone did not fit: the position of a socket reported before */
	u32 pad;
	u64 jiffies, ktime_ns;
	u64 hashinfo;  /* identity of the tables (UDP: struct udp_table); not to be shown */
};

enum outcome {
	DONE = 1,
	FULL = 2,      /* the records' buffer is full; continue with `next` */
	NO_TABLE = 3,
	UNREADABLE = 4,
	TANGLED = 5,   /* more steps than any valid table needs */
};

enum kind { FULL_SOCKET = 1, TIME_WAIT_SOCKET = 2, REQUEST_SOCKET = 3, QUIET_SOCKET = 4 };

struct record {
	u16 bytes; /* of this record with its sections */
	u8 kind;
	u8 state;
	u16 family;
	u16 sections; /* enum detail: which follow or are filled */
	u64 sock;     /* its address: identity within one walk, never shown */
	u64 cookie;
	u32 netns;
	u32 bucket;
	u64 local[2], peer[2];
	u16 local_port, peer_port_be;
	u32 interface;
	/* WANT_QUEUES */
	u32 receive_queue, send_queue;
	/* WANT_TIMER */
	u8 timer, retransmits;
	u16 retransmit_pad;
	s32 expires_jiffies;
	/* WANT_INODE, WANT_USER */
	u32 inode, uid;
	/* WANT_OPTIONS */
	u32 mark, priority;
	u64 cgroup;
	u64 inet_flags;
	u8 shutdown, v6only, tos, tclass;
	u8 needs_diag; /* 1: upper layer protocol, 2: congestion control with additional state */
	/* of sockets of fd_sockets.h and udp.bpf.c: SOCK_*, IPPROTO_* or NETLINK_* */
	u8 type;
	u16 protocol;
};

/* The record of a quiet connection: the beginning of `struct record`. */
struct quiet {
	u16 bytes;
	u8 kind; /* QUIET_SOCKET */
	u8 state;
	u16 family, sections;
	u64 sock;
	u64 cookie;
	u32 netns;
	u32 bucket;
};

struct memory {
	u32 rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem, backlog, drops, pad;
};

/* The fields from which tcp_get_info() of net/ipv4/tcp.c calculates struct tcp_info, unchanged: clocks in jiffies, times
 * not yet shifted. Fields of a group that is missing are not filled. */
struct tcp_raw {
	u32 groups; /* enum groups: what this kernel has */
	u8 state, ca_state, retransmits, probes_out;
	u8 backoff, tstamp_ok, sack_ok, wscale_ok;
	u8 snd_wscale, rcv_wscale, ecn_flags, syn_data_acked;
	u8 usec_ts, fastopen_child, rate_app_limited, fastopen_client_fail;
	u8 chrono_type, accecn_fail_mode, accecn_opt_seen, rto_min_locked;
	u32 rto, ato, delack_max, rto_min;
	u32 route_rto_min_ms; /* the route's, if rto_min_locked */
	u32 mss_cache;
	u16 rcv_mss, advmss;
	u32 packets_out, sacked_out, lost_out, retrans_out;
	u32 ack_backlog, max_ack_backlog;
	u32 lsndtime, lrcvtime, rcv_tstamp;
	u32 pmtu_cookie, rcv_ssthresh, srtt_us, mdev_us, snd_ssthresh, snd_cwnd, reordering;
	u32 rcv_rtt_us, rcv_space, total_retrans;
	u32 write_seq, snd_nxt;
	u32 segs_out, segs_in, data_segs_in, data_segs_out, min_rtt_us;
	u32 rate_delivered, rate_interval_us;
	u32 chrono_start, chrono_stat[3];
	u32 delivered, delivered_ce, dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd;
	u32 plb_rehash, timeout_rehash;
	u16 total_rto, total_rto_recoveries;
	u32 total_rto_time, rto_stamp;
	u32 received_ce, delivered_ecn_bytes[3], received_ecn_bytes[3];
	u64 pacing_rate, max_pacing_rate;
	u64 bytes_acked, bytes_received, bytes_sent, bytes_retrans;
};

/* Groups of fields that were added to struct tcp_info together. */
enum groups {
	HAS_REHASH = 1,     /* Linux 6.2, with rcv_wnd */
	HAS_RTO_TOTALS = 2, /* Linux 6.7, when tcpi_ato got a limit as well */
	HAS_ACCECN = 4,     /* Linux 6.18 */
};

/* Congestion control, and BBR's state. */
struct congestion {
	u8 algorithm[16];
	u32 is_bbr; /* whether the rest is filled */
	u32 bandwidth, mss_cache, min_rtt_us, pacing_gain, cwnd_gain;
};

/* record.needs_diag */
enum needs_diag {
	NEEDS_ULP = 1,        /* the socket has an upper-layer protocol, or keys of MD5 signatures */
	NEEDS_CONGESTION = 2, /* its algorithm has information that we cannot read */
};

/* One worker's slot. The first page is for request and reply, the second for the program. */
struct slot {
	struct request request;
	u8 pad0[256 - sizeof(struct request)];
	struct reply reply;
	u8 pad1[256 - sizeof(struct reply)];
	/* The walk's private state. It is kept here, because the verifier treats values read from a map as unknown, and
	 * need not follow each iteration of a loop. */
	u64 table, owner, node, listeners, from, owner_from;
	u32 mask, bucket, start, started_records, chunk, tries, stop, nulls, skip, passed, mark, earlier_mark, port, steps;
	/* Copies of a socket, of which `again` is made last; and the namespace that was read last. Only without the cast. */
	u64 net;
	u32 net_inode, net_hash_mix;
	u64 warmed; /* without meaning: reading it is the purpose */
	u32 warmed_to, pad3; /* the first of the heads whose sockets were not read ahead */
	u8 copy[COPY_BYTES], again[COPY_AGAIN_BYTES];
	u8 pad2[4096 - 512 - 104 - 32 - COPY_BYTES - COPY_AGAIN_BYTES];
	u64 heads[HEADS];
	u8 records[RECORD_BYTES];
};
