//! What the kernel is asked for, and what could not be watched.

use super::args::EventsArgs;
use super::at_least::RECORDS;
use super::owners::KnownOwners;
use sockeye_console::notes::say;
use sockeye_model::{ConnectionEvent, ConnectionEventKind, Protocol, counted};
use sockeye_sys::bpf::LoadError;
use sockeye_tracepoints::{Protocols, Untracked};
use sockeye_wire::connections::kind;

/// Returns the protocols that are watched: TCP, unless others are chosen.
pub(crate) const fn protocols(args: &EventsArgs) -> Protocols {
    Protocols {
        tcp: args.tcp || !(args.udp || args.mptcp),
        udp: args.udp,
        mptcp: args.mptcp,
    }
}

/// Whether events of another protocol than TCP can happen.
pub(crate) const fn has_protocols(args: &EventsArgs) -> bool {
    args.udp || args.mptcp
}

/// Returns the kinds of records that the kernel is asked for.
pub(crate) fn kinds(args: &EventsArgs) -> Vec<u32> {
    // Owners are known by listeners, and how a connection ended by the RST that is sent.
    let mut kinds = vec![kind::LISTENS, kind::UNLISTENS, kind::RESET_SENT];
    for (event, of_event) in [
        (ConnectionEventKind::Open, &[kind::OPENED, kind::UDP_USED][..]),
        (ConnectionEventKind::Fail, &[kind::FAILED]),
        (ConnectionEventKind::Close, &[kind::CLOSED, kind::UDP_CLOSED]),
        (ConnectionEventKind::State, &[kind::STATE]),
        (ConnectionEventKind::ResetReceived, &[kind::RESET_RECEIVED]),
        (ConnectionEventKind::Retransmit, &[kind::RETRANSMITTED]),
        (ConnectionEventKind::Undo, &[kind::UNDONE]),
        (ConnectionEventKind::ConnectError, &[kind::CONNECT_FAILED]),
        (ConnectionEventKind::AcceptOverflow, &[kind::ACCEPT_OVERFLOWS]),
        (ConnectionEventKind::SynOverflow, &[kind::SYN_OVERFLOWS]),
        (ConnectionEventKind::ZeroWindow, &[kind::WINDOW_IS_ZERO]),
        (ConnectionEventKind::WindowOpen, &[kind::WINDOW_IS_OPEN]),
        (ConnectionEventKind::Error, &[kind::UDP_FAILED, kind::UNSENT]),
    ] {
        if args.shows(event) {
            kinds.extend_from_slice(of_event);
        }
    }
    let Protocols { tcp, udp, .. } = protocols(args);
    kinds.retain(|kind| match *kind {
        kind::UDP_USED | kind::UDP_CLOSED | kind::UDP_FAILED => udp,
        kind::UNSENT => tcp,
        _ => true,
    });
    kinds
}

/// Returns the kinds of records whose events are shown, with their names.
pub(crate) fn records_shown(args: &EventsArgs) -> Vec<(u32, &'static str)> {
    let asked_for = kinds(args);
    let all = RECORDS
        .iter()
        .filter(|(kind, _, event)| asked_for.contains(kind) && args.shows(*event));
    all.map(|(kind, name, _)| (*kind, *name)).collect()
}

/// Whether an event is of a kind and a protocol that are shown.
pub(crate) fn is_shown(args: &EventsArgs, event: &ConnectionEvent, owners: &KnownOwners) -> bool {
    let protocols = protocols(args);
    let is_chosen = match event.socket.protocol {
        Protocol::Udp => protocols.udp,
        Protocol::Mptcp => protocols.mptcp,
        _ => protocols.tcp,
    };
    // The kernel does not know that a UDP socket was used before the watch.
    let is_first_use = event.socket.protocol == Protocol::Udp && event.kind == ConnectionEventKind::Open;
    is_chosen && args.shows(event.kind) && !(is_first_use && owners.had(event.socket.inode))
}

/// Returns what was watched by the source of this name, for the summary.
pub(crate) fn sources(args: &EventsArgs, name: &'static str) -> Vec<(&'static str, &'static str)> {
    let Protocols { tcp, udp, mptcp } = protocols(args);
    [("tcp", tcp), ("udp", udp), ("mptcp", mptcp)]
        .into_iter()
        .filter_map(|(protocol, is_watched)| is_watched.then_some((protocol, name)))
        .collect()
}

/// Notes on stderr what this kernel does not show. What nearly every watch would like to have is noted with `--verbose` only.
pub(crate) fn report_missing(args: &EventsArgs, missing: &[(&'static str, LoadError)]) {
    let verbose = args.common.verbose;
    for (event, error) in missing {
        // TCP uses it as well, to name the owner of few connections earlier.
        let is_for_tcp = *event == "sock_send_length" && !args.udp;
        let effect = EFFECTS.iter().find(|(name, _)| name == event && !is_for_tcp);
        match effect {
            Some((_, effect)) => say(&format!("sockeye: {effect}: {event} is not watched: {error}\n")),
            None if verbose => say(&format!("sockeye: {event} is not watched: {error}\n")),
            None => {}
        }
    }
}

/// Notes on stderr what found no space.
pub(crate) fn report_untracked(untracked: Untracked) {
    let counted = |count, what| counted(usize::try_from(count).unwrap_or(usize::MAX), what);
    if untracked.sockets > 0 {
        let sockets = counted(untracked.sockets, "socket");
        say(&format!(
            "sockeye: too many sockets at a time: of {sockets} neither age nor owner is known\n"
        ));
    }
    if untracked.errnos > 0 {
        let opens = counted(untracked.errnos, "open");
        say(&format!(
            "sockeye: too many opens that fail at a time: the errno of {opens} is not known\n"
        ));
    }
}

/// What is not seen where this kernel lacks an event, or does not allow the program.
const EFFECTS: [(&str, &str); 15] = [
    ("cgroup_skb/ingress", "overflows of queues are not seen"),
    ("cgroup/sock_release", "closes of UDP sockets are not seen"),
    (
        "cgroup/sendmsg4",
        "the peers of UDP sockets that are not connected are not seen",
    ),
    (
        "cgroup/sendmsg6",
        "the IPv6 peers of UDP sockets that are not connected are not seen",
    ),
    (
        "cgroup/recvmsg4",
        "the peers that UDP sockets receive from are not seen",
    ),
    (
        "cgroup/recvmsg6",
        "the IPv6 peers that UDP sockets receive from are not seen",
    ),
    (
        "sock_send_length",
        "connected UDP sockets, and how much was sent, are not seen",
    ),
    ("sock_recv_length", "how much UDP sockets receive is not seen"),
    ("inet_sk_error_report", "ICMP errors of UDP sockets are not seen"),
    (
        "udp_fail_queue_rcv_skb",
        "full receive buffers of UDP sockets are not seen",
    ),
    ("tcp_probe", "zero windows of peers are not seen"),
    ("net_dev_queue", "our zero windows are not seen"),
    ("tcp_cong_state_set", "retransmissions without need are not seen"),
    ("sys_exit", "failing connect calls are not seen"),
    ("tcp_retransmit_synack", "retransmitted SYN-ACKs are not seen"),
];
