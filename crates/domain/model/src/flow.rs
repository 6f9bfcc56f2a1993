//! Flow record and its key: `domain/flow` fills it, `flows` and the `lstf` drop-in print it.
//! `domain/flow` breaks ties by the derived order of `FlowKey`: the order of its fields matters.

use crate::{NetnsInode, Port, Process, State, Uid, Workload, WorkloadKind};
use std::net::IpAddr;

/// A group of connections: by default between the same hosts, in the same direction, to the same service.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The common properties.
    pub key: FlowKey,
    /// Number of connections.
    pub connections: u32,
    /// Number of connections per state, indexed by the state's number; see [`Flow::in_state`].
    pub states: [u32; 14],
    /// Owner processes, each once, sorted by pid; empty if there are none or they were not looked up.
    pub owners: Vec<Process>,
    /// Statistics of TCP over all connections; `None` if not requested.
    pub totals: Option<Totals>,
    /// Changes since the previous sample; `None` without one, or if connections have no cookies.
    pub rates: Option<Rates>,
}

/// The common properties of the connections of a flow. `None` means that they may differ (`many`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Network namespace; `None` if only one is listed.
    pub netns: Option<NetnsInode>,
    /// Direction of the connections.
    pub direction: Direction,
    /// Local address; v4-mapped addresses as IPv4.
    pub local: Option<IpAddr>,
    /// Peer's address, or the first of its prefix; v4-mapped addresses as IPv4.
    pub peer: Option<IpAddr>,
    /// Length of the peer's prefix, if flows are grouped by prefix.
    pub peer_prefix: Option<u8>,
    /// Port of the service: the local one when passive, the peer's when active.
    pub port: Option<Port>,
    /// Process, if flows are grouped by process.
    pub process: Option<Process>,
    /// User, if flows are grouped by user.
    pub uid: Option<Uid>,
    /// Container, cgroup, unit or executable, if flows are grouped by it.
    pub workload: Option<Workload>,
}

/// The direction in which a connection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Outgoing: the local host connected to the peer.
    Active,
    /// Incoming: the peer connected to a listener at the local address and port.
    Passive,
}

/// The property by which connections are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Both addresses and the port of the service.
    Host,
    /// The port of the service.
    Port,
    /// The owner process; a connection with several owners counts for each.
    Process,
    /// The user.
    Uid,
    /// The network namespace.
    Netns,
    /// The container, cgroup, unit or executable; a connection with several counts for each.
    Workload(WorkloadKind),
    /// As `Host`, with the peer's address reduced to a prefix.
    Prefix {
        /// Prefix length for IPv4, at most 32
        v4: u8,
        /// Prefix length for IPv6, at most 128
        v6: u8,
    },
}

/// Sums and medians of tcp_info over the connections that have it; `None` if no connection has the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of connections with tcp_info.
    pub measured: u32,
    /// Sum of `tcpi_bytes_acked`: bytes acknowledged by the peers.
    pub bytes_acked: Option<u64>,
    /// Sum of `tcpi_bytes_received`.
    pub bytes_received: Option<u64>,
    /// Median of `tcpi_rtt`.
    pub rtt_us_median: Option<u32>,
    /// Sum of `tcpi_total_retrans`.
    pub total_retrans_segs: Option<u64>,
    /// Sum of `tcpi_delivery_rate`.
    pub delivery_rate_bytes_per_s_sum: Option<u64>,
    /// Median of `tcpi_delivery_rate`.
    pub delivery_rate_bytes_per_s_median: Option<u64>,
}

/// Changes per second between two samples; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Data acknowledged by the peers.
    pub sent_bytes_per_s: Option<f64>,
    /// Data received.
    pub received_bytes_per_s: Option<f64>,
    /// Segments retransmitted.
    pub retrans_segs_per_s: Option<f64>,
    /// Connections in the second sample only; `None` if some that no sample has were opened meanwhile.
    pub opened_per_s: Option<f64>,
    /// Connections in the first sample only, or in TIME_WAIT in the second; `None` as for `opened_per_s`.
    pub closed_per_s: Option<f64>,
}

/// Changes per second of one socket between two samples; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SocketRates {
    /// Data acknowledged by the peer.
    pub sent_bytes_per_s: Option<f64>,
    /// Data received.
    pub received_bytes_per_s: Option<f64>,
    /// Segments retransmitted.
    pub retrans_segs_per_s: Option<f64>,
}

/// Connections of network namespaces between two samples, by the namespaces' own counters. A connection between two
/// sockets of the same namespace counts for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionTotals {
    /// Connections that were begun from here (`TcpActiveOpens`)
    pub active_opens: u64,
    /// Connections that came in (`TcpPassiveOpens`)
    pub passive_opens: u64,
    /// Attempts that failed (`TcpAttemptFails`)
    pub attempt_fails: u64,
    /// Connections that were reset (`TcpEstabResets`)
    pub resets: u64,
    /// Opened connections that neither sample has, and no event: they were too short to be seen
    pub unseen: u64,
    /// Ends of connections that neither sample has, but an event; `None` if there are no events
    pub short: Option<u64>,
    /// Events that were lost: what they would have said is missing; `None` if there are no events
    pub lost_events: Option<u64>,
    /// Time that they cover
    pub interval_ms: u64,
}

impl FlowKey {
    /// Returns the port of the service, if connections of this direction are meant: active ones have it at the peer,
    /// passive ones here.
    pub fn port_of(&self, direction: Direction) -> Option<Port> {
        self.port.filter(|_| self.direction == direction)
    }
}

impl Flow {
    /// Creates a flow without connections.
    #[must_use]
    pub const fn new(key: FlowKey) -> Self {
        Self {
            key,
            connections: 0,
            states: [0; 14],
            owners: Vec::new(),
            totals: None,
            rates: None,
        }
    }

    /// Returns the number of connections in `state`.
    #[must_use]
    pub fn in_state(&self, state: State) -> u32 {
        self.states.get(usize::from(state.number())).copied().unwrap_or(0)
    }
}
