//! The words of the language, for documents and completion.

use crate::field::Field;
use crate::host;
use crate::states;
use crate::units::Quantity;
use sockeye_model::ProtocolSet;

/// A word of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The word as it is typed.
    pub name: &'static str,
    /// What it compares.
    pub about: &'static str,
    /// Its value and the units of it; empty where `about` says it.
    pub value: &'static str,
    /// The JSON key and CSV field with the same quantity, which is accepted too; `None` if there is none.
    pub key: Option<&'static str>,
    /// Further names.
    pub aliases: &'static [&'static str],
}

/// Returns the words that begin a condition: those of `ss`, then ours.
pub fn conditions() -> impl Iterator<Item = Word> {
    let of_ss = OF_SS.iter().map(|&(name, aliases, about)| Word {
        name,
        about,
        value: "",
        key: None,
        aliases,
    });
    let fields = Field::ALL.iter().map(|&(name, aliases, field)| Word {
        name,
        about: meaning(field),
        key: Some(field.key()),
        aliases,
        value: match field.kind() {
            Quantity::Time => "a time: us, ms, s, m (minutes), h, d",
            Quantity::Bytes => "bytes: no unit, k, M, G (1000) or Ki, Mi, Gi (1024)",
            Quantity::Rate => "a rate: kbit, Mbit, Gbit or kB/s, MB/s",
            Quantity::Count => "a count",
            Quantity::Id if matches!(field, Field::Uid | Field::Netns) => "a number or a name",
            Quantity::Id => "a number",
        },
    });
    of_ss.chain(fields)
}

/// Returns what a field is.
const fn meaning(field: Field) -> &'static str {
    match field {
        Field::Pid => "the pid of an owner process",
        Field::Pgid => "the process group of an owner process",
        Field::Uid => "the user who owns the socket",
        Field::Netns => "the network namespace, by its inode number or name",
        Field::Inode => "the inode number of the socket",
        Field::Cookie => "the number that the kernel gives each socket once",
        Field::Mark => "the firewall mark of the socket (SO_MARK), as a whole",
        Field::RecvQ => {
            "what was received and not yet read; of a listener the connections that wait for accept(2)"
        }
        Field::SendQ => "what was sent and not yet acknowledged, or not yet sent; of a listener its backlog",
        Field::Backlog => "the connections that may wait for accept(2); listeners only",
        Field::Drops => "packets that the socket dropped",
        Field::Idle => "the time since data were last sent or received",
        Field::LastDataSent => "the time since data were last sent",
        Field::LastDataRecv => "the time since data were last received",
        Field::LastAckRecv => "the time since an acknowledgement was last received",
        Field::Rtt => "the smoothed round-trip time",
        Field::RttVar => "the variation of the round-trip time",
        Field::MinRtt => "the shortest round-trip time",
        Field::RcvRtt => "the round-trip time as the receiver estimates it",
        Field::Rto => "the retransmission timeout",
        Field::Ato => "the delay of delayed acknowledgements",
        Field::Retrans => "segments that were retransmitted, since the connection began",
        Field::Lost => "segments that are taken for lost now",
        Field::Unacked => "segments that are not acknowledged now",
        Field::Sacked => "segments that are acknowledged selectively now (SACK)",
        Field::Cwnd => "the congestion window in segments",
        Field::SsThresh => "the slow-start threshold in segments",
        Field::Reordering => "the distance in segments up to which data may arrive out of order",
        Field::Mss => "the longest segment that is sent",
        Field::Pmtu => "the path MTU",
        Field::BytesSent => "payload that was sent, with retransmissions",
        Field::BytesAcked => "payload that was sent and acknowledged",
        Field::BytesReceived => "payload that was received",
        Field::BytesRetrans => "payload that was retransmitted",
        Field::NotSent => "payload that waits in the send queue and was not yet sent",
        Field::SndWnd => "the window that the peer offers",
        Field::RcvWnd => "the window that is offered to the peer",
        Field::DeliveryRate => "the latest rate at which data were delivered",
        Field::PacingRate => "the rate at which data are sent at most",
        Field::RcvBuf => "the size of the receive buffer",
        Field::SndBuf => "the size of the send buffer",
        Field::Rmem => "memory in use for received data",
        Field::Wmem => "memory in use for data to send",
        Field::Retransmits => "timer-driven retransmissions of the first segment since the last progress",
        Field::Probes => "window or keepalive probes that were not answered",
        Field::Backoff => "doublings of the retransmission timeout",
        Field::SndWscale => "the peer's window scale",
        Field::RcvWscale => "our window scale",
        Field::FastopenClientFail => "why TCP Fast Open failed, as a number; 0: it did not",
        Field::RcvMss => "the longest segment that was received lately",
        Field::RetransSegs => "segments in flight that are retransmissions",
        Field::Fackets => "segments that were acknowledged in front of the last SACK (0 since Linux 4.15)",
        Field::LastAckSent => "the time since an acknowledgement was last sent (the kernel has no value)",
        Field::RcvSsthresh => "the slow-start threshold of the receive window",
        Field::Advmss => "the longest segment that we offer to receive",
        Field::RcvSpace => "the target of the tuning of the receive buffer",
        Field::MaxPacingRate => "the limit of the pacing rate (SO_MAX_PACING_RATE)",
        Field::SegsOut => "segments that were sent",
        Field::SegsIn => "segments that were received",
        Field::DataSegsOut => "segments with data that were sent",
        Field::DataSegsIn => "segments with data that were received",
        Field::BusyTime => "the time with data in flight or waiting to be sent",
        Field::RwndLimited => "the part of busy_time in which the peer's window was full",
        Field::SndbufLimited => "the part of busy_time in which our send buffer was full",
        Field::Delivered => "segments that were delivered, with retransmissions",
        Field::DeliveredCeSegs => "segments that were delivered with a mark of congestion (ECN)",
        Field::DsackDups => "retransmissions that the peer did not need (DSACK)",
        Field::ReordSeen => "how often data arrived out of order at the peer",
        Field::RcvOoopack => "segments that were received out of order",
        Field::Rehash => "changes of the transmit hash after trouble on the path",
        Field::TotalRto => "retransmission timeouts",
        Field::TotalRtoRecoveries => "recoveries from retransmission timeouts",
        Field::TotalRtoTime => "the time in recoveries from retransmission timeouts",
        Field::ReceivedCeSegs => "segments that were received with a mark of congestion (AccECN)",
        Field::DeliveredE1Bytes => "payload that was delivered with ECT(1)",
        Field::DeliveredE0Bytes => "payload that was delivered with ECT(0)",
        Field::DeliveredCeBytes => "payload that was delivered with CE",
        Field::ReceivedE1Bytes => "payload that was received with ECT(1)",
        Field::ReceivedE0Bytes => "payload that was received with ECT(0)",
        Field::ReceivedCeBytes => "payload that was received with CE",
        Field::AccecnFailMode => "why AccECN is off, as bits",
        Field::AccecnOptSeen => "AccECN options that were seen: 0 none, 1 empty, 2 counters",
        Field::FwdAlloc => "memory that is reserved in advance",
        Field::WmemQueued => "memory of what waits to be sent or acknowledged",
        Field::Optmem => "memory of options and filters",
        Field::BacklogBytes => "memory of what arrived while the socket was locked",
        Field::TimerExpires => "the time until the timer fires",
        Field::TimerRetransmits => "retransmissions or probes of the timer",
        Field::AcceptQueue => "the connections that wait for accept(2); listeners only",
        Field::References => "references to the socket in the kernel (/proc/net only)",
        Field::ClassId => "the net_cls class or the priority",
        Field::Tos => "the type of service (IPv4)",
        Field::Tclass => "the traffic class (IPv6)",
    }
}

/// Returns the names of states and of groups of states.
pub fn states() -> impl Iterator<Item = &'static str> {
    states::NAMES.iter().map(|&(name, _)| name)
}

/// Returns the condition that was probably meant by a value alone: `established`, `10.0.0.1:80`, `udp`.
#[must_use]
pub fn condition_for(value: &str) -> Option<String> {
    if host::looks_like_address(value) || value == "localhost" {
        Some(format!("dst {value}"))
    } else if states::named(value).is_some() {
        Some(format!("state {}", value.to_ascii_lowercase()))
    } else if ProtocolSet::from_name(value).is_some() {
        Some(format!("proto = {value}"))
    } else {
        None
    }
}

/// Returns the words that join conditions.
#[must_use]
pub const fn operators() -> &'static [&'static str] {
    &["and", "or", "not"]
}

const OF_SS: &[(&str, &[&str], &str)] = &[
    ("state", &[], "a state or a group of states"),
    ("exclude", &["excl"], "a state or a group of states"),
    ("src", &["local"], "our address: [FAMILY:]ADDRESS[/PREFIX][:PORT]"),
    (
        "dst",
        &["peer"],
        "the peer's address: [FAMILY:]ADDRESS[/PREFIX][:PORT]",
    ),
    (
        "sport",
        &["local_port"],
        "our port: a number, a service, or a range 8000-8999",
    ),
    (
        "dport",
        &["peer_port"],
        "the peer's port: a number, a service, or a range 8000-8999",
    ),
    (
        "dev",
        &["interface"],
        "the interface that the socket is bound to, by name or index",
    ),
    ("fwmark", &[], "a firewall mark: MARK[/MASK]"),
    ("cgroup", &[], "the path of a cgroup (v2)"),
    ("autobound", &[], "no value: the kernel chose the port"),
    (
        "owner",
        &["owners"],
        "the name of an owner process; ~ and !~ take a pattern",
    ),
    (
        "congestion",
        &["cong"],
        "the name of a congestion control; ~ and !~ take a pattern",
    ),
    (
        "ulp",
        &[],
        "the name of a protocol layered upon TCP: tls, mptcp; ~ and !~ take a pattern",
    ),
    (
        "container",
        &[],
        "the name or id of a container, or none; ~ and !~ take a pattern",
    ),
    (
        "unit",
        &[],
        "a systemd unit: nginx.service, or none; ~ and !~ take a pattern",
    ),
    (
        "exe",
        &[],
        "the path of an owner's executable; ~ and !~ take a pattern",
    ),
    ("timer", &[], "on, keepalive, timewait, persist or off"),
    (
        "proto",
        &["protocol", "netid"],
        "a protocol: tcp, udp, raw, unix, packet, ...",
    ),
    ("family", &[], "an address family: inet, inet6, unix, ..."),
    ("peers", &[], "public, private, loopback, all or none"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoResolve, parse};

    #[test]
    fn every_condition_is_known_to_the_parser() {
        for word in conditions() {
            let is_known = [
                "= 1",
                "= 1s",
                "= 1k",
                "= 1Mbit",
                "established",
                "127.0.0.1",
                ":80",
                "= off",
                "= tcp",
                "= inet",
                "= all",
                "= a",
                "",
            ]
            .iter()
            .any(|value| parse(&format!("{} {value}", word.name), &NoResolve).is_ok());
            let needs_host = ["dev", "cgroup"].contains(&word.name);
            assert!(is_known || needs_host, "{}", word.name);
        }
        for state in states() {
            assert!(parse(&format!("state {state}"), &NoResolve).is_ok(), "{state}");
        }
    }
}
