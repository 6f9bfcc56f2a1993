//! The rules and their meanings.

use core::fmt;
use sockeye_dictionary::Severity;

macro_rules! rules {
    ($($variant:ident $name:literal $scope:ident $severity:ident $meaning:literal;)*) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $meaning] $variant,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name: `no-keepalive`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Meaning of a finding of this rule, in one sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }

            /// Default severity.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$variant => Severity::$severity,)*
                }
            }

            /// What it examines.
            #[must_use]
            pub const fn scope(self) -> Scope {
                match self {
                    $(Self::$variant => Scope::$scope,)*
                }
            }
        }
    };
}

/// What a rule examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Single sockets: a filter selects them.
    Sockets,
    /// A network namespace as a whole.
    Namespace,
    /// The host as a whole.
    Host,
}

impl Rule {
    /// Whether a recorded sample has all that the rule judges by. It has states, queues, bytes, round trip times, the congestion window,
    /// times without sending and receiving, drops, and what limits a transfer. It has no timers, no numbers of segments except those that
    /// were retransmitted, no time of the last acknowledgement, no sizes of buffers and windows, no settings, counters and devices, and
    /// nothing to compare with. Of [`Self::SocketDrops`] it has datagrams: TCP's also need the counters of the namespace.
    #[must_use]
    pub const fn is_judged_by_record(self) -> bool {
        matches!(
            self,
            Self::Unread
                | Self::AcceptQueue
                | Self::SynQueue
                | Self::SocketDrops
                | Self::ReceiverLimited
                | Self::SendBufferLimited
        )
    }

    /// The rule with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

rules! {
    NoKeepalive "no-keepalive" Sockets Warning
        "Nothing was sent for long and no keepalive is set: if the peer is gone, the program does not notice.";
    KeepaliveLate "keepalive-late" Sockets Notice
        "Keepalive is set, but its first probe comes later than middleboxes forget an idle connection: after 350 s (AWS NAT gateways and network load balancers) or 4 minutes (Azure load balancers).";
    KeepaliveUnanswered "keepalive-unanswered" Sockets Warning
        "Keepalive probes are not answered: the peer or the path to it is gone, and the connection will be ended soon.";
    PeerSilent "peer-silent" Sockets Critical
        "What was sent is sent again and again and not acknowledged: the peer or the path to it is gone, and the connection is half open.";
    CannotSend "cannot-send" Sockets Critical
        "This host cannot send: data of connections does not leave it, for a lost route, address or carrier, a next hop that does not answer, or a firewall rule of its own.";
    FirewallDrops "firewall-drops" Sockets Critical
        "A firewall rule of this host drops packets of connections: what they send, or what comes in for them.";
    ReversePath "reverse-path" Sockets Critical
        "Nothing is acknowledged, and meanwhile reverse path filtering (rp_filter) discarded packets that came in over another device than the one to the peer: probably its answers.";
    ConnectUnanswered "connect-unanswered" Sockets Warning
        "The attempt to connect is not answered: the host is down, a firewall drops it, or its accept queue is full.";
    ZeroWindow "zero-window" Sockets Warning
        "The peer has closed its window: the program there does not read, and ours cannot send.";
    SendStuck "send-stuck" Sockets Warning
        "Data waits to be acknowledged, and nothing was heard of the peer for long.";
    MtuBlackHole "mtu-black-hole" Sockets Critical
        "The peer is alive, but full-sized segments do not reach it: on the path a smaller MTU drops them, and the ICMP message that should report it is lost or filtered.";
    CloseWait "close-wait" Sockets Warning
        "The peer has closed, but the program keeps its end open, and nothing happens: it leaks connections, and will run out of descriptors.";
    FinWait2 "fin-wait2" Sockets Warning
        "The program has shut down its end, but the peer does not close, and nothing happens: it leaks connections.";
    Unread "unread" Sockets Warning
        "Data has come in, and the program that owns the socket does not read it.";
    AcceptQueue "accept-queue" Sockets Warning
        "Connections wait to be accepted: as many as may wait, or always the same ones. The program is too slow or stuck, and clients will be turned away.";
    BacklogCapped "backlog-capped" Sockets Notice
        "The listener's queue is under pressure and exactly as long as net.core.somaxconn allows: the program probably requested more.";
    ListenerDrops "listener-drops" Sockets Warning
        "The listener turned connections away, for its queue was full.";
    SynQueue "syn-queue" Sockets Warning
        "Half-open connections fill the listener's queue: a SYN flood, or clients to which the answers do not get through.";
    SocketDrops "socket-drops" Sockets Warning
        "Packets that had reached the socket were dropped: its buffer was full, or the segments were wrong.";
    DnsUnanswered "dns-unanswered" Sockets Warning
        "The name server does not answer: programs wait for it, queries were sent, and no datagram at all came in.";
    UdpUnread "udp-unread" Sockets Warning
        "The socket's receive buffer is full: its owner does not read fast enough, and datagrams will be dropped.";
    Retransmissions "retransmissions" Sockets Warning
        "A large part of what is sent is sent again: segments get lost on the path.";
    SpuriousRetransmissions "spurious-retransmissions" Sockets Notice
        "Most retransmissions were not needed, the peer says: segments are delayed or reordered rather than lost, or acknowledgements are.";
    Reordering "reordering" Sockets Notice
        "Segments arrive in another order than they were sent: several paths or queues carry one connection.";
    RttInflation "rtt-inflation" Sockets Notice
        "Round trips take many times as long as the path needs: a queue on the way is full (bufferbloat), or the peer is slow to answer.";
    CwndFloor "cwnd-floor" Sockets Notice
        "The congestion window is down at its floor though data waits: every round trip carries but a few segments.";
    PacingFloor "pacing-floor" Sockets Notice
        "The pacing rate is very low though data waits.";
    ReceiverLimited "receiver-limited" Sockets Notice
        "The peer's receive window holds the transfer back: its buffer is too small for the path, or its program reads slowly.";
    SendBufferLimited "send-buffer-limited" Sockets Notice
        "The send buffer holds the transfer back: it is too small for the path.";
    ReceiveBuffer "receive-buffer" Sockets Notice
        "Our own receive buffer holds the peer's transfer back: its window is too small for the path, though the program reads at once.";
    NagleDelayedAck "nagle-delayed-ack" Sockets Notice
        "Small writes wait for the acknowledgement of the ones before them (Nagle's algorithm), which the peer delays: each pause takes 40 ms or more.";
    ConnectionGrowth "connection-growth" Sockets Notice
        "The program opens more and more connections to one service: between two looks it closed none and used none of the earlier ones. It leaks them, or a pool is still growing.";
    ApplicationLimited "application-limited" Sockets Info
        "The program has nothing to send most of the time: neither the path nor the peer limits this transfer.";
    EphemeralPorts "ephemeral-ports" Sockets Warning
        "The local ports for connections to this service are nearly used up: further ones will fail with EADDRNOTAVAIL.";
    UdpPorts "udp-ports" Sockets Warning
        "The local ports for UDP are nearly used up: sockets without a port of their own will fail with EADDRINUSE or EAGAIN.";
    TimeWait "time-wait" Namespace Warning
        "Very many connections are in TIME_WAIT: connections are short, and this host is the one that closes them.";
    TimeWaitMax "time-wait-max" Namespace Warning
        "There are nearly as many TIME_WAIT sockets as there may be: further ones are dropped, and late segments will hit new connections.";
    Conntrack "conntrack" Namespace Critical
        "The table of tracked connections is nearly full: packets of new connections will be dropped.";
    DeviceDrops "device-drops" Namespace Warning
        "The device drops packets.";
    DeviceErrors "device-errors" Namespace Warning
        "The device reports errors: cable, transceiver, driver or a mismatch of duplex.";
    QueueLength "queue-length" Namespace Warning
        "The device's queue holds fewer packets than a transfer has on its way: every burst overflows it, and TCP slows down to a few segments a round trip.";
    QdiscDrops "qdisc-drops" Namespace Warning
        "The queueing discipline drops packets on the way out.";
    QdiscBacklog "qdisc-backlog" Namespace Notice
        "Packets pile up in front of the device.";
    NoCarrier "no-carrier" Namespace Notice
        "The device is switched on but has no carrier: no cable, its other end is down, or no program reads the tunnel.";
    LoopbackDown "loopback-down" Namespace Notice
        "The loopback device is down: programs of this network namespace cannot reach each other, neither at 127.0.0.1 nor at its other addresses.";
    DuplicateAddress "duplicate-address" Namespace Warning
        "Another host has an IPv6 address of this device (duplicate address detection failed): the address is not used.";
    HalfDuplex "half-duplex" Namespace Warning
        "The device runs in half duplex: collisions, and a fraction of its rate.";
    BondPortDown "bond-port-down" Namespace Critical
        "A port of a bond is down: redundancy is gone.";
    BondUnmonitored "bond-unmonitored" Namespace Warning
        "The bond watches neither carrier (miimon) nor neighbours (arp_interval): it will go on using a dead port.";
    SpeedUnknown "speed-unknown" Namespace Notice
        "The speed of the port is not known: the bond takes it for 100 Mbit/s, full duplex, and may choose wrongly.";
    Counters "counters" Namespace Warning
        "A counter that should stand still has moved.";
    Softnet "softnet" Host Warning
        "A processor dropped packets before any program saw them: its backlog was full.";
    SoftnetSqueezed "softnet-squeezed" Host Notice
        "A processor often had to stop handling packets with some left: they wait, and arrive in bursts.";
    Neighbours "neighbours" Host Critical
        "The table of neighbours is nearly full: hosts that are not in it cannot be reached (\"neighbour: table overflow\").";
    TcpMemory "tcp-memory" Host Critical
        "TCP as a whole is near its limit of memory: buffers shrink, then segments are dropped.";
    UdpMemory "udp-memory" Host Critical
        "UDP as a whole is near its limit of memory: datagrams are dropped.";
    Orphans "orphans" Host Warning
        "There are nearly as many TCP sockets without a process as there may be: further ones are reset instead of closed.";
    OpenFiles "open-files" Host Critical
        "The process has nearly as many files open as it may: accept() and connect() will fail with EMFILE.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for rule in Rule::ALL {
            assert_eq!(Rule::from_name(rule.name()), Some(*rule));
            assert!(rule.meaning().ends_with('.'), "{rule}");
        }
        assert_eq!(Severity::from_name("warning"), Some(Severity::Warning));
        assert_eq!(Rule::from_name("no such"), None);
    }
}
