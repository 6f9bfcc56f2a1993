//! Which counters of `/proc/net/snmp`, `netstat`, `snmp6` and `sctp/snmp` have a sentence, and which.
//!
//! The sentences are those of net-tools 2.10, for scripts that look for them; `#` is where the number goes. So is
//! the order of the rows: see [`Table::find`].

/// A counter, its sentence, and when it is said.
pub(super) type Entry = (&'static str, &'static str, Say);

/// When a sentence is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Say {
    /// Never
    Silent,
    /// Always
    Always,
    /// If the number is not 0
    Counted,
    /// Likewise, below a heading for ICMP messages that were received
    Received,
    /// Likewise, below one for those sent
    Sent,
}

use Say::{Always, Counted, Received, Sent, Silent};

/// The protocols by which a table is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Raw,
    Tcp,
    Udp,
    Sctp,
}

/// The counters of one title.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: &'static str,
    entries: &'static [Entry],
    pub(super) of: Of,
}

impl Table {
    /// The entry of this counter.
    ///
    /// It is sought by halves, as the original's `bsearch(3)` does, and not all rows are in order: those that are
    /// missed so (`Forwarding`, `TCPLoss`, ...) have no sentence but their name there either.
    pub(super) fn find(&self, name: &[u8]) -> Option<&'static Entry> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = (low + high) / 2;
            let entry = &self.entries[middle];
            match name.cmp(entry.0.as_bytes()) {
                std::cmp::Ordering::Less => high = middle,
                std::cmp::Ordering::Greater => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(entry),
            }
        }
        None
    }
}

const fn table(title: &'static str, entries: &'static [Entry], of: Of) -> Table {
    Table { title, entries, of }
}

/// Of `snmp`, `netstat` and `sctp/snmp`.
pub(super) const TABLES: &[Table] = &[
    table("Ip", IP, Of::Raw),
    table("Icmp", ICMP, Of::Raw),
    table("Tcp", TCP, Of::Tcp),
    table("Udp", UDP, Of::Udp),
    table("Sctp", SCTP, Of::Sctp),
    table("TcpExt", TCP_EXT, Of::Tcp),
];

/// Of `snmp6`.
pub(super) const TABLES6: &[Table] = &[
    table("Ip6", IP6, Of::Raw),
    table("Icmp6", ICMP6, Of::Raw),
    table("Udp6", UDP6, Of::Udp),
    table("Tcp6", TCP, Of::Tcp),
];

const IP: &[Entry] = &[
    ("DefaultTTL", "", Silent),
    ("Forwarding", "", Silent),
    ("ForwDatagrams", "# forwarded", Always),
    ("FragCreates", "# fragments created", Counted),
    ("FragFails", "# outgoing packets failed fragmentation", Counted),
    ("FragOKs", "# outgoing packets fragmented ok", Counted),
    ("InAddrErrors", "# with invalid addresses", Counted),
    ("InDelivers", "# incoming packets delivered", Always),
    ("InDiscards", "# incoming packets discarded", Always),
    ("InHdrErrors", "# with invalid headers", Counted),
    ("InReceives", "# total packets received", Always),
    ("InUnknownProtos", "# with unknown protocol", Counted),
    ("OutDiscards", "# outgoing packets dropped", Counted),
    ("OutNoRoutes", "# dropped because of missing route", Counted),
    ("OutRequests", "# requests sent out", Always),
    ("ReasmFails", "# packet reassemblies failed", Counted),
    ("ReasmOKs", "# packets reassembled ok", Counted),
    ("ReasmReqds", "# reassemblies required", Counted),
    ("ReasmTimeout", "# fragments dropped after timeout", Counted),
];

const IP6: &[Entry] = &[
    ("Ip6FragCreates", "# fragments created", Counted),
    ("Ip6FragFails", "# outgoing packets failed fragmentation", Counted),
    ("Ip6FragOKs", "# outgoing packets fragmented ok", Counted),
    ("Ip6InAddrErrors", "# with invalid addresses", Counted),
    ("Ip6InDelivers", "# incoming packets delivered", Always),
    ("Ip6InDiscards", "# incoming packets discarded", Always),
    ("Ip6InHdrErrors", "# with invalid headers", Counted),
    ("Ip6InMcastPkts", "# incoming multicast packets", Counted),
    ("Ip6InNoRoutes", "# incoming packets with no route", Counted),
    ("Ip6InReceives", "# total packets received", Always),
    ("Ip6InTooBigErrors", "# with packets too big", Counted),
    ("Ip6InTruncatedPkts", "# with truncated packets", Counted),
    ("Ip6InUnknownProtos", "# with unknown protocol", Counted),
    ("Ip6OutDiscards", "# outgoing packets dropped", Counted),
    ("Ip6OutForwDatagrams", "# forwarded", Always),
    ("Ip6OutMcastPkts", "# outgoing multicast packets", Counted),
    ("Ip6OutNoRoutes", "# dropped because of missing route", Counted),
    ("Ip6OutRequests", "# requests sent out", Always),
    ("Ip6ReasmFails", "# packet reassemblies failed", Counted),
    ("Ip6ReasmOKs", "# packets reassembled ok", Counted),
    ("Ip6ReasmReqds", "# reassemblies required", Counted),
    ("Ip6ReasmTimeout", "# fragments dropped after timeout", Counted),
];

const ICMP: &[Entry] = &[
    ("InAddrMaskReps", "address mask replies: #", Received),
    ("InAddrMasks", "address mask request: #", Received),
    ("InDestUnreachs", "destination unreachable: #", Received),
    ("InEchoReps", "echo replies: #", Received),
    ("InEchos", "echo requests: #", Received),
    ("InErrors", "# input ICMP message failed", Always),
    ("InMsgs", "# ICMP messages received", Always),
    ("InParmProbs", "wrong parameters: #", Received),
    ("InRedirects", "redirects: #", Received),
    ("InSrcQuenchs", "source quenches: #", Received),
    ("InTimeExcds", "timeout in transit: #", Received),
    ("InTimestampReps", "timestamp reply: #", Received),
    ("InTimestamps", "timestamp request: #", Received),
    ("OutAddrMaskReps", "address mask replies: #", Sent),
    ("OutAddrMasks", "address mask requests: #", Sent),
    ("OutDestUnreachs", "destination unreachable: #", Sent),
    ("OutEchoReps", "echo replies: #", Sent),
    ("OutEchos", "echo requests: #", Sent),
    ("OutErrors", "# ICMP messages failed", Always),
    ("OutMsgs", "# ICMP messages sent", Always),
    ("OutParmProbs", "wrong parameters: #", Sent),
    ("OutRedirects", "redirect: #", Sent),
    ("OutSrcQuenchs", "source quench: #", Sent),
    ("OutTimeExcds", "time exceeded: #", Sent),
    ("OutTimestampReps", "timestamp replies: #", Sent),
    ("OutTimestamps", "timestamp requests: #", Sent),
];

const ICMP6: &[Entry] = &[
    ("Icmp6InDestUnreachs", "destination unreachable: #", Received),
    ("Icmp6InEchoReplies", "echo replies: #", Received),
    ("Icmp6InEchos", "echo requests: #", Received),
    ("Icmp6InErrors", "# input ICMP message failed", Always),
    ("Icmp6InGroupMembQueries", "group member queries: #", Received),
    (
        "Icmp6InGroupMembReductions",
        "group member reductions: #",
        Received,
    ),
    ("Icmp6InGroupMembResponses", "group member responses: #", Received),
    ("Icmp6InMsgs", "# ICMP messages received", Always),
    (
        "Icmp6InNeighborAdvertisements",
        "neighbour advertisement: #",
        Received,
    ),
    ("Icmp6InNeighborSolicits", "neighbour solicits: #", Received),
    ("Icmp6InParmProblems", "parameter problem: #", Received),
    ("Icmp6InPktTooBigs", "packets too big: #", Received),
    ("Icmp6InRedirects", "redirects: #", Received),
    ("Icmp6InRouterAdvertisements", "router advertisement: #", Received),
    ("Icmp6InRouterSolicits", "router solicits: #", Received),
    ("Icmp6InTimeExcds", "received ICMPv6 time exceeded: #", Received),
    ("Icmp6OutDestUnreachs", "destination unreachable: #", Sent),
    ("Icmp6OutEchoReplies", "echo replies: #", Sent),
    ("Icmp6OutEchos", "echo requests: #", Sent),
    ("Icmp6OutGroupMembQueries", "group member queries: #", Sent),
    ("Icmp6OutGroupMembReductions", "group member reductions: #", Sent),
    ("Icmp6OutGroupMembResponses", "group member responses: #", Sent),
    ("Icmp6OutMsgs", "# ICMP messages sent", Always),
    (
        "Icmp6OutNeighborAdvertisements",
        "neighbor advertisements: #",
        Sent,
    ),
    ("Icmp6OutNeighborSolicits", "neighbor solicits: #", Sent),
    ("Icmp6OutParmProblems", "parameter problem: #", Sent),
    ("Icmp6OutPktTooBigs", "packets too big: #", Sent),
    ("Icmp6OutRedirects", "redirects: #", Sent),
    ("Icmp6OutRouterAdvertisements ", "router advertisement: #", Sent),
    ("Icmp6OutRouterSolicits", "router solicits: #", Sent),
    ("Icmp6OutTimeExcds", "sent ICMPv6 time exceeded: #", Sent),
];

const TCP: &[Entry] = &[
    ("ActiveOpens", "# active connection openings", Always),
    ("AttemptFails", "# failed connection attempts", Always),
    ("CurrEstab", "# connections established", Always),
    ("EstabResets", "# connection resets received", Always),
    ("InErrs", "# bad segments received", Always),
    ("InSegs", "# segments received", Always),
    ("MaxConn", "", Silent),
    ("OutRsts", "# resets sent", Always),
    ("OutSegs", "# segments sent out", Always),
    ("PassiveOpens", "# passive connection openings", Always),
    ("RetransSegs", "# segments retransmitted", Always),
    ("RtoAlgorithm", "", Silent),
    ("RtoMax", "", Silent),
    ("RtoMin", "", Silent),
];

const UDP: &[Entry] = &[
    ("InDatagrams", "# packets received", Always),
    ("InErrors", "# packet receive errors", Always),
    ("NoPorts", "# packets to unknown port received", Always),
    ("OutDatagrams", "# packets sent", Always),
    ("RcvbufErrors", "# receive buffer errors", Always),
    ("SndbufErrors", "# send buffer errors", Always),
];

const UDP6: &[Entry] = &[
    ("Udp6InDatagrams", "# packets received", Always),
    ("Udp6InErrors", "# packet receive errors", Always),
    ("Udp6NoPorts", "# packets to unknown port received", Always),
    ("Udp6OutDatagrams", "# packets sent", Always),
];

const TCP_EXT: &[Entry] = &[
    (
        "DelayedACKLocked",
        "# delayed acks further delayed because of locked socket",
        Counted,
    ),
    ("DelayedACKLost", "Quick ack mode was activated # times", Counted),
    ("DelayedACKs", "# delayed acks sent", Counted),
    (
        "EmbryonicRsts",
        "# resets received for embryonic SYN_RECV sockets",
        Counted,
    ),
    ("ListenDrops", "# SYNs to LISTEN sockets dropped", Counted),
    (
        "ListenOverflows",
        "# times the listen queue of a socket overflowed",
        Counted,
    ),
    (
        "LockDroppedIcmps",
        "# ICMP packets dropped because socket was locked",
        Counted,
    ),
    (
        "OfoPruned",
        "# packets dropped from out-of-order queue because of socket buffer overrun",
        Counted,
    ),
    (
        "OutOfWindowIcmps",
        "# ICMP packets dropped because they were out-of-window",
        Counted,
    ),
    (
        "PAWSActive",
        "# active connections rejected because of time stamp",
        Counted,
    ),
    (
        "PAWSEstab",
        "# packets rejected in established connections because of timestamp",
        Counted,
    ),
    (
        "PAWSPassive",
        "# passive connections rejected because of time stamp",
        Counted,
    ),
    (
        "PruneCalled",
        "# packets pruned from receive queue because of socket buffer overrun",
        Counted,
    ),
    ("RcvPruned", "# packets pruned from receive queue", Counted),
    (
        "SockMallocOOM",
        "Ran # times out of system memory during packet sending",
        Counted,
    ),
    ("SyncookiesFailed", "# invalid SYN cookies received", Counted),
    ("SyncookiesRecv", "# SYN cookies received", Counted),
    ("SyncookiesSent", "# SYN cookies sent", Counted),
    (
        "TCPAbortFailed",
        "# times unable to send RST due to no memory",
        Counted,
    ),
    (
        "TCPAbortOnClose",
        "# connections reset due to early user close",
        Counted,
    ),
    (
        "TCPAbortOnData",
        "# connections reset due to unexpected data",
        Counted,
    ),
    (
        "TCPAbortOnLinger",
        "# connections aborted after user close in linger timeout",
        Counted,
    ),
    (
        "TCPAbortOnMemory",
        "# connections aborted due to memory pressure",
        Counted,
    ),
    (
        "TCPAbortOnSyn",
        "# connections reset due to unexpected SYN",
        Counted,
    ),
    (
        "TCPAbortOnTimeout",
        "# connections aborted due to timeout",
        Counted,
    ),
    (
        "TCPDirectCopyFromBacklog",
        "# bytes directly in process context from backlog",
        Counted,
    ),
    (
        "TCPDirectCopyFromPrequeue",
        "# bytes directly received in process context from prequeue",
        Counted,
    ),
    (
        "TCPDSACKOfoRecv",
        "# DSACKs for out of order packets received",
        Counted,
    ),
    (
        "TCPDSACKOfoSent",
        "# DSACKs sent for out of order packets",
        Counted,
    ),
    ("TCPDSACKOldSent", "# DSACKs sent for old packets", Counted),
    ("TCPDSACKRecv", "# DSACKs received", Counted),
    (
        "TCPDSackUndo",
        "# congestion window recovered without slow start using DSACK",
        Counted,
    ),
    (
        "TCPDSACKUndo",
        "# congestion windows recovered without slow start by DSACK",
        Counted,
    ),
    (
        "TCPFACKReorder",
        "Detected reordering # times using FACK",
        Counted,
    ),
    ("TCPFastRetrans", "# fast retransmits", Counted),
    ("TCPForwardRetrans", "# forward retransmits", Counted),
    (
        "TCPFullUndo",
        "# congestion windows fully recovered without slow start",
        Counted,
    ),
    ("TCPHPAcks", "# predicted acknowledgments", Counted),
    ("TCPHPHits", "# packet headers predicted", Always),
    (
        "TCPHPHitsToUser",
        "# packet headers predicted and directly queued to user",
        Counted,
    ),
    ("TCPLossFailures", "# timeouts in loss state", Counted),
    ("TCPLoss", "# TCP data loss events", Counted),
    (
        "TCPLossUndo",
        "# congestion windows recovered without slow start after partial ack",
        Counted,
    ),
    ("TCPLostRetransmits", "# retransmits lost", Counted),
    ("TCPMemoryPressures", "TCP ran low on memory # times", Counted),
    (
        "TCPPartialUndo",
        "# congestion windows partially recovered using Hoe heuristic",
        Counted,
    ),
    (
        "TCPPrequeued",
        "# packets directly queued to recvmsg prequeue",
        Counted,
    ),
    ("TCPPrequeueDropped", "# packets dropped from prequeue", Counted),
    (
        "TCPPureAcks",
        "# acknowledgments not containing data payload received",
        Counted,
    ),
    (
        "TCPRcvCollapsed",
        "# packets collapsed in receive queue due to low socket buffer",
        Counted,
    ),
    (
        "TCPRenoFailures",
        "# timeouts after reno fast retransmit",
        Counted,
    ),
    ("TCPRenoRecoveryFailed", "# reno fast retransmits failed", Counted),
    (
        "TCPRenoRecoveryFail",
        "# classic Reno fast retransmits failed",
        Counted,
    ),
    (
        "TCPRenoRecovery",
        "# times recovered from packet loss due to fast retransmit",
        Counted,
    ),
    (
        "TCPRenoReorder",
        "Detected reordering # times using reno fast retransmit",
        Counted,
    ),
    ("TCPSackFailures", "# timeouts after SACK recovery", Counted),
    ("TCPSackRecoveryFail", "# SACK retransmits failed", Counted),
    (
        "TCPSackRecovery",
        "# times recovered from packet loss by selective acknowledgements",
        Counted,
    ),
    ("TCPSACKReneging", "# bad SACK blocks received", Counted),
    (
        "TCPSACKReorder",
        "Detected reordering # times using SACK",
        Counted,
    ),
    (
        "TCPSchedulerFailed",
        "# times receiver scheduled too late for direct processing",
        Counted,
    ),
    ("TCPSlowStartRetrans", "# retransmits in slow start", Counted),
    ("TCPTimeouts", "# other TCP timeouts", Counted),
    (
        "TCPTSReorder",
        "Detected reordering # times using time stamp",
        Counted,
    ),
    (
        "TWKilled",
        "# TCP sockets finished time wait in slow timer",
        Counted,
    ),
    ("TW", "# TCP sockets finished time wait in fast timer", Counted),
    (
        "TWRecycled",
        "# time wait sockets recycled by time stamp",
        Counted,
    ),
];

const SCTP: &[Entry] = &[
    ("SctpAborteds", "# Number of Aborteds ", Always),
    ("SctpActiveEstabs", "# Active Associations", Always),
    (
        "SctpChecksumErrors",
        "# Number of Packets with invalid Checksum",
        Always,
    ),
    ("SctpCurrEstab", "# Current Associations", Always),
    ("SctpFragUsrMsgs", "# Number of messages fragmented", Always),
    ("SctpInCtrlChunks", "# Number of control chunks received", Always),
    ("SctpInOrderChunks", "# Number of ordered chunks received", Always),
    ("SctpInSCTPPacks", "# Number of SCTP packets received", Always),
    (
        "SctpInUnorderChunks",
        "# Number of Unordered chunks received",
        Always,
    ),
    ("SctpOutCtrlChunks", "# Number of control chunks sent", Always),
    ("SctpOutOfBlues", "# Number of Out of Blue packets", Always),
    ("SctpOutOrderChunks", "# Number of ordered chunks sent", Always),
    ("SctpOutSCTPPacks", "# Number of SCTP packets sent", Always),
    (
        "SctpOutUnorderChunks",
        "# Number of Unordered chunks sent",
        Always,
    ),
    ("SctpPassiveEstabs", "# Passive Associations", Always),
    ("SctpReasmUsrMsgs", "# Number of messages reassembled ", Always),
    ("SctpShutdowns", "# Number of Graceful Terminations", Always),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_counters_are_out_of_reach_as_they_are_there() {
        let reached = |table: &Table, name: &str| table.find(name.as_bytes()).is_some();
        assert!(reached(&TABLES[0], "InReceives"));
        assert!(!reached(&TABLES[0], "Forwarding"));
        assert!(!reached(&TABLES[0], "Nothing"));
        assert!(reached(&TABLES[5], "ListenDrops"));
    }
}
