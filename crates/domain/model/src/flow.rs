use crate::{NetnsInode, Port, Process, State, Uid};
use std::net::IpAddr;

/// Connections that belong together: between the same hosts, in the same direction, for the same service.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// What they have in common.
    pub key: FlowKey,
    /// How many there are.
    pub connections: u32,
    /// How many are in each state, by the state's number; see [`Flow::in_state`].
    pub states: [u32; 14],
    /// Who holds them, each process once, in the order of their pids. Empty when nobody was asked or
    /// nobody holds them.
    pub owners: Vec<Process>,
    /// What TCP counted over all of them, if it was asked.
    pub totals: Option<Totals>,
    /// What changed between two samples, if there were two and connections could be told apart.
    pub rates: Option<Rates>,
}

/// What the connections of a flow have in common. `None`: they may differ there (`many`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The namespace, where more than one is being looked at.
    pub netns: Option<NetnsInode>,
    /// Who connected to whom.
    pub direction: Direction,
    /// Our address; v4-mapped ones as IPv4.
    pub local: Option<IpAddr>,
    /// The peer's address, or the first of its prefix; v4-mapped ones as IPv4.
    pub peer: Option<IpAddr>,
    /// Length of the peer's prefix where flows are grouped by prefix.
    pub peer_prefix: Option<u8>,
    /// Port of the service: ours when passive, the peer's when active.
    pub port: Option<Port>,
    /// The process, where flows are grouped by process.
    pub process: Option<Process>,
    /// The user, where flows are grouped by user.
    pub uid: Option<Uid>,
}

/// Who connected to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// We connected to the peer.
    Active,
    /// The peer connected to us: we listen on the local port, at that address.
    Passive,
}

/// By what connections are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Both addresses and the service's port.
    Host,
    /// The service's port.
    Port,
    /// The process that holds them; a connection of several processes counts with each.
    Process,
    /// The user who made them.
    Uid,
    /// The network namespace.
    Netns,
    /// As `Host`, the peer's address cut to a prefix.
    Prefix {
        /// Bits of an IPv4 address, at most 32
        v4: u8,
        /// Bits of an IPv6 address, at most 128
        v6: u8,
    },
}

/// Sums and medians of tcp_info over the connections that have it; `None` where no source told any value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Connections counted here.
    pub measured: u32,
    /// Sum of `tcpi_bytes_acked`: data the peers have got.
    pub bytes_acked: Option<u64>,
    /// Sum of `tcpi_bytes_received`.
    pub bytes_received: Option<u64>,
    /// Median of `tcpi_rtt`.
    pub rtt_us_median: Option<u32>,
    /// Sum of `tcpi_total_retrans`.
    pub retrans_segs: Option<u64>,
    /// Sum of `tcpi_delivery_rate`.
    pub delivery_rate_bytes_per_s_sum: Option<u64>,
    /// Median of `tcpi_delivery_rate`.
    pub delivery_rate_bytes_per_s_median: Option<u64>,
}

/// Changes between two samples, per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Data acknowledged by the peers.
    pub sent_bytes_per_s: f64,
    /// Data received.
    pub received_bytes_per_s: f64,
    /// Segments retransmitted.
    pub retrans_segs_per_s: f64,
    /// Connections there now and not before.
    pub opened_per_s: f64,
    /// Connections there before and not now, or in TIME_WAIT now.
    pub closed_per_s: f64,
}

impl Flow {
    /// A flow of no connections yet.
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

    /// How many connections are in `state`.
    #[must_use]
    pub fn in_state(&self, state: State) -> u32 {
        self.states.get(usize::from(state.number())).copied().unwrap_or(0)
    }
}
