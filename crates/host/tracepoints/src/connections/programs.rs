//! Which programs are needed for what is watched, and what they have to know of this kernel.

use super::ConnectionOptions;
use crate::Tracepoint;
use sockeye_source::{BpfEngine, Unavailable};
use sockeye_sys::kernel_release;
use sockeye_wire::connections::kind;

/// What differs between kernels.
pub(super) struct Kernel {
    /// Number of the argument of `tcp_send_reset` that is the reason (Linux 6.11); 0: there is none.
    pub(super) reset_reason_at: u32,
    /// Whether there is `sock_send_length` (Linux 6.3).
    pub(super) has_send_length: bool,
    /// Numbers of arguments.
    pub(super) kfree_arguments: u32,
    pub(super) full_arguments: u32,
    pub(super) retransmit_arguments: u32,
    /// `SKB_DROP_REASON_UDP_CSUM`; 0 if there is no such reason.
    pub(super) checksum_reason: u32,
    /// Reasons of packets whose next hop did not answer, in native byte order.
    pub(super) no_neighbor_reasons: [u8; 16],
    /// The reason of packets without a route.
    pub(super) no_route_reason: u32,
    /// That of packets that are dropped without one.
    pub(super) no_reason: u32,
    /// Whether a listener takes as many requests as its backlog and one more.
    pub(super) takes_one_more: bool,
}

impl Kernel {
    /// Reads it from the kernel's types.
    pub(super) fn read(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let events = [
            "tcp_send_reset",
            "sock_send_length",
            "kfree_skb",
            "udp_fail_queue_rcv_skb",
            "tcp_retransmit_skb",
        ];
        let reasons = [
            "SKB_DROP_REASON_UDP_CSUM",
            "SKB_DROP_REASON_IP_OUTNOROUTES",
            "SKB_DROP_REASON_NEIGH_FAILED",
            "SKB_DROP_REASON_NEIGH_CREATEFAIL",
            "SKB_DROP_REASON_NEIGH_QUEUEFULL",
            "SKB_DROP_REASON_NEIGH_DEAD",
            "SKB_DROP_REASON_NOT_SPECIFIED",
        ];
        let numbers = engine.numbers(&events, &reasons)?;
        let mut no_neighbor_reasons = [0; 16];
        for (place, bytes) in no_neighbor_reasons.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&numbers.value(2 + place).to_ne_bytes());
        }
        Ok(Self {
            reset_reason_at: if numbers.arguments(0) >= 3 { 2 } else { 0 },
            has_send_length: numbers.arguments(1) > 0,
            kfree_arguments: numbers.arguments(2),
            full_arguments: numbers.arguments(3),
            retransmit_arguments: numbers.arguments(4),
            checksum_reason: numbers.value(0),
            no_neighbor_reasons,
            no_route_reason: numbers.value(1),
            no_reason: numbers.value(6),
            takes_one_more: kernel_release::stable().is_none_or(takes_one_more),
        })
    }
}

/// Whether the listeners of a release take one request more than their backlog: `inet_csk_reqsk_queue_is_full()` since commit 3479c7549fb1, "tcp/dccp:
/// allow a connection when sk_max_ack_backlog is zero". It is in Linux 6.13-rc7, and the announcements of these releases of older series list it
/// (January and February 2025). A distribution that has taken the change alone is not known.
fn takes_one_more(release: (u32, u32, u32)) -> bool {
    let (major, minor, patch) = release;
    let patches = [(5, 10, 234), (5, 15, 177), (6, 1, 125), (6, 6, 72), (6, 12, 10)];
    let found = patches.iter().find(|(a, b, _)| (*a, *b) == (major, minor));
    found.map_or((major, minor) >= (6, 13), |(_, _, since)| patch >= *since)
}

/// Returns the programs that these options need. First those that the others need the results of.
pub(super) fn wanted(options: &ConnectionOptions) -> Vec<Tracepoint> {
    let is_wanted = |kind: u32| options.kinds.contains(&kind);
    let protocols = options.protocols;
    let mut all = Vec::new();
    let overflows = tracepoint("packet_arrives", "cgroup_skb/ingress", false);
    let wants_overflows = is_wanted(kind::ACCEPT_OVERFLOWS) || is_wanted(kind::SYN_OVERFLOWS);
    if wants_overflows && !protocols.tcp && !protocols.mptcp && !protocols.udp {
        return vec![Tracepoint {
            required: true,
            ..overflows
        }];
    }
    if protocols.tcp || protocols.mptcp {
        if !forgets_at_close(options) {
            all.push(tracepoint("socket_is_destroyed", "tcp_destroy_sock", true));
        }
        if options.readers {
            all.push(tracepoint("data_is_read", "tcp_rcv_space_adjust", false));
            all.push(tracepoint("data_is_written", "sock_send_length", false));
        }
        if options.readers && protocols.mptcp {
            all.push(tracepoint("connection_is_read", "sock_recv_length", false));
        }
        all.push(tracepoint("reset_is_received", "tcp_receive_reset", true));
        all.push(tracepoint("reset_is_sent", "tcp_send_reset", true));
        if is_wanted(kind::FAILED) {
            all.push(tracepoint("packet_is_rejected", "icmp_send", false));
        }
        if is_wanted(kind::RETRANSMITTED) || is_wanted(kind::UNSENT) {
            all.push(tracepoint(
                "segment_is_retransmitted",
                "tcp_retransmit_skb",
                false,
            ));
        }
        if is_wanted(kind::RETRANSMITTED) {
            all.push(tracepoint(
                "synack_is_retransmitted",
                "tcp_retransmit_synack",
                false,
            ));
        }
        if is_wanted(kind::UNDONE) {
            all.push(tracepoint(
                "congestion_state_changes",
                "tcp_cong_state_set",
                false,
            ));
        }
        if is_wanted(kind::WINDOW_IS_ZERO) || is_wanted(kind::WINDOW_IS_OPEN) {
            all.push(tracepoint("window_is_destroyed", "tcp_destroy_sock", false));
            all.push(tracepoint("segment_leaves", "net_dev_queue", false));
            all.push(tracepoint(SEGMENT_ARRIVES, "tcp_probe", false));
        }
        if wants_overflows {
            all.push(overflows);
        }
        all.push(tracepoint("connection_changes", "inet_sock_set_state", true));
    }
    if protocols.udp {
        for (program, hook) in [
            ("socket_is_released", "cgroup/sock_release"),
            ("sends_to_v4", "cgroup/sendmsg4"),
            ("sends_to_v6", "cgroup/sendmsg6"),
            ("receives_from_v4", "cgroup/recvmsg4"),
            ("receives_from_v6", "cgroup/recvmsg6"),
        ] {
            all.push(tracepoint(program, hook, false));
        }
        if is_wanted(kind::UDP_FAILED) {
            all.push(tracepoint("error_is_reported", "inet_sk_error_report", false));
            all.push(tracepoint(
                "datagram_is_not_queued",
                "udp_fail_queue_rcv_skb",
                false,
            ));
            all.push(tracepoint("datagram_is_dropped", "kfree_skb", false));
        }
        all.push(tracepoint("datagram_is_sent", "sock_send_length", false));
        all.push(tracepoint("datagram_is_received", "sock_recv_length", false));
    }
    if is_wanted(kind::UNSENT) || is_wanted(kind::UDP_FAILED) {
        all.push(tracepoint("packet_is_not_sent", "kfree_skb", false));
    }
    if is_wanted(kind::CONNECT_FAILED) {
        all.push(tracepoint("call_returns", "sys_exit", false));
    }
    all
}

/// Whether connections can be forgotten when they end. Those that fail are needed when `connect(2)` returns, those with a zero window until their
/// sockets are destroyed.
pub(super) fn forgets_at_close(options: &ConnectionOptions) -> bool {
    let later = [kind::CONNECT_FAILED, kind::WINDOW_IS_ZERO, kind::WINDOW_IS_OPEN];
    !options.kinds.iter().any(|kind| later.contains(kind))
}

const fn tracepoint(program: &'static str, event: &'static str, required: bool) -> Tracepoint {
    Tracepoint {
        program,
        event,
        required,
    }
}

pub(super) const SEGMENT_ARRIVES: &str = "segment_arrives";

/// Offsets in `struct pt_regs`: number of the call, its first and its second argument (`arch/x86/include/asm/ptrace.h`).
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: [u32; 3] = [120, 112, 104];
/// `TS_COMPAT`
#[cfg(target_arch = "x86_64")]
pub(super) const COMPAT_BIT: u64 = 2;
#[cfg(target_arch = "x86_64")]
pub(super) const CONNECT_CALL: u32 = 42;
/// `arch/arm64/include/asm/ptrace.h`: `syscallno`, `orig_x0`, `regs[1]`
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REGISTERS: [u32; 3] = [280, 272, 8];
/// `TIF_32BIT`
#[cfg(not(target_arch = "x86_64"))]
pub(super) const COMPAT_BIT: u64 = 1 << 22;
#[cfg(not(target_arch = "x86_64"))]
pub(super) const CONNECT_CALL: u32 = 203;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_more_since_each_series_has_it() {
        for (release, expected) in [
            ((5, 4, 300), false),
            ((5, 10, 233), false),
            ((5, 10, 234), true),
            ((6, 8, 12), false),
            ((6, 12, 9), false),
            ((6, 12, 57), true),
            ((6, 13, 0), true),
            ((7, 2, 1), true),
        ] {
            assert_eq!(takes_one_more(release), expected, "{release:?}");
        }
    }
}
