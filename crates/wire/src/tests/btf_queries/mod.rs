//! Queries like those the BPF engine asks; some of them no kernel can answer.

use sockeye_wire::btf::{Query, TypeKind};

/// All of them.
pub(crate) fn all() -> Vec<Query<'static>> {
    let mut queries = Vec::new();
    for &(structure, paths) in FIELDS {
        for path in paths.split_ascii_whitespace() {
            queries.push(Query::Field { structure, path });
        }
    }
    for structure in SIZES.split_ascii_whitespace() {
        queries.push(Query::Size { structure });
    }
    for &(kind, names) in TYPES {
        for name in names.split_ascii_whitespace() {
            queries.push(Query::Type { kind, name });
        }
    }
    for &(enumeration, names) in ENUMERATORS {
        for name in names.split_ascii_whitespace() {
            queries.push(Query::Enumerator { enumeration, name });
        }
    }
    for typedef in PARAMETERS.split_ascii_whitespace() {
        queries.push(Query::Parameters { typedef });
    }
    queries
}

/// A function, functions that are pointed at, and something else.
const PARAMETERS: &str =
    "btf_trace_inet_sock_set_state btf_trace_tcp_send_reset btf_trace_no_such_event filldir_t u32";

const FIELDS: &[(&str, &str)] = &[
    (
        "sock_common",
        "skc_daddr skc_rcv_saddr skc_dport skc_num skc_family skc_state skc_bound_dev_if skc_nulls_node skc_net
         skc_v6_daddr skc_v6_rcv_saddr skc_cookie skc_hash skc_refcnt skc_reuse skc_ipv6only skc_flags",
    ),
    (
        "sock",
        "__sk_common.skc_family sk_receive_queue sk_receive_queue.qlen sk_rmem_alloc sk_wmem_alloc sk_uid sk_socket sk_mark
         sk_timer.expires sk_shutdown sk_type sk_protocol sk_sndbuf sk_rcvbuf sk_forward_alloc sk_wmem_queued
         sk_backlog.len sk_drops sk_ack_backlog sk_max_ack_backlog sk_priority sk_pacing_rate sk_max_pacing_rate
         sk_err_soft sk_omem_alloc sk_backlog.rmem_alloc sk_pacing_status",
    ),
    (
        "inet_connection_sock",
        "icsk_inet.sk.__sk_common.skc_family icsk_ca_state icsk_retransmits icsk_backoff icsk_probes_out icsk_rto
         icsk_timeout icsk_pending icsk_ca_ops icsk_pmtu_cookie icsk_ack.pending icsk_ack.ato icsk_ack.timeout
         icsk_accept_queue.qlen icsk_ca_initialized icsk_ext_hdr_len icsk_ca_priv icsk_mtup.probe_size
         icsk_bind_hash icsk_ulp_ops",
    ),
    (
        "tcp_sock",
        "rcv_nxt copied_seq write_seq snd_una snd_nxt srtt_us mdev_us rttvar_us snd_cwnd snd_ssthresh rcv_ssthresh
         rcv_space.space mss_cache packets_out lost_out sacked_out retrans_out total_retrans reordering advmss
         bytes_acked bytes_received bytes_sent bytes_retrans segs_in segs_out data_segs_in data_segs_out
         delivered delivered_ce ecn_flags nonagle rx_opt.wscale_ok rx_opt.snd_wscale rx_opt.rcv_wscale
         rx_opt.sack_ok rx_opt.tstamp_ok rx_opt.rcv_tsval rcv_wnd snd_wnd lsndtime rcv_tstamp rate_delivered
         rate_interval_us rate_app_limited rtt_min chrono_stat chrono_type max_window repair is_mptcp
         inet_conn.icsk_inet.sk.__sk_common.skc_dport",
    ),
    ("inet_sock", "tos min_ttl inet_sport inet_saddr inet_dport inet_flags inet_id pinet6"),
    ("net", "ipv4.tcp_death_row.hashinfo ns.inum net_cookie ipv4.udp_table dev_base_head"),
    (
        "inet_hashinfo",
        "ehash ehash_mask ehash_locks lhash2 lhash2_mask bhash2 bhash_size bhash",
    ),
    ("inet_ehash_bucket", "chain"),
    ("inet_listen_hashbucket", "nulls_head lock"),
    ("inet_bind_hashbucket", "chain"),
    ("inet_bind2_bucket", "owners port node"),
    ("hlist_nulls_node", "next pprev"),
    ("inet_timewait_sock", "tw_timer.expires tw_substate tw_rcv_wscale tw_tos __tw_common.skc_num"),
    ("tcp_timewait_sock", "tw_rcv_nxt tw_snd_nxt"),
    ("request_sock", "num_retrans num_timeout rsk_listener rsk_timer.expires timeout mss"),
    ("inet_request_sock", "req.__req_common.skc_family ir_mark snd_wscale wscale_ok"),
    (
        "task_struct",
        "nsproxy files tgid pid comm tasks real_parent group_leader signal cgroups cred thread_node",
    ),
    ("nsproxy", "net_ns"),
    ("files_struct", "fdt fd_array"),
    ("fdtable", "fd max_fds open_fds"),
    ("file", "f_op private_data f_inode f_path.dentry"),
    ("socket_alloc", "vfs_inode socket.sk"),
    ("socket", "sk file type state"),
    ("inode", "i_ino i_mode i_uid"),
    ("udp_table", "hash mask hash2"),
    ("udp_hslot", "head nulls_head count"),
    ("css_set", "dfl_cgrp"),
    ("cgroup", "kn"),
    ("kernfs_node", "id name"),
    ("sk_buff", "next len pkt_type ip_summed cloned sk cb"),
    ("no_such_struct", "field"),
    ("ubuf_info", "refcnt.refs.counter"),
];

const SIZES: &str = "sock sock_common tcp_sock inet_sock inet_connection_sock tcp_request_sock inet_timewait_sock
    tcp_timewait_sock udp_sock inet_ehash_bucket inet_listen_hashbucket inet_bind_hashbucket timespec64 file no_such_struct";

const TYPES: &[(TypeKind, &str)] = &[
    (
        TypeKind::Struct,
        "sock sock_common tcp_sock task_struct file timespec64 inet_timewait_sock tcp_request_sock udp_sock unix_sock net",
    ),
    (TypeKind::Union, "tcp_cc_info bpf_attr"),
    (
        TypeKind::Func,
        "bpf_rdonly_cast bpf_cast_to_kern_ctx bpf_iter_task_file bpf_iter_tcp bpf_rcu_read_lock bpf_rcu_read_unlock no_such_function",
    ),
    (TypeKind::Typedef, "sockptr_t u32 kuid_t"),
    (TypeKind::Enum, "tcp_ca_state bpf_map_type"),
];

const ENUMERATORS: &[(Option<&str>, &str)] = &[
    (Some("tcp_ca_state"), "TCP_CA_Open TCP_CA_CWR TCP_CA_Loss"),
    (Some("bpf_map_type"), "BPF_MAP_TYPE_RINGBUF BPF_MAP_TYPE_ARENA"),
    (
        None,
        "TCP_ESTABLISHED TCP_NEW_SYN_RECV SOCK_RCVTSTAMP BPF_F_CURRENT_CPU NO_SUCH_ENUMERATOR",
    ),
];
