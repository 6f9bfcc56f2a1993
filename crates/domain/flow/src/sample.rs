//! Snapshot of the tcp_info counters of connections: the next fold of `flows --watch` computes rates from it.
//! A connection is identified by its cookie: connections from `/proc` have none, so they have no rates.

use foldhash::HashMap;
use sockeye_model::{Cookie, FlowKey, NetnsInode, Socket, TcpInfo};

/// Counters of all connections at one moment; the next fold computes rates from them.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub(crate) connections: HashMap<ConnectionId, Counters>,
    /// Connections and the indices of their flows; a connection of several processes occurs in several.
    pub(crate) members: Vec<(ConnectionId, u32)>,
    /// Flow keys by the indices in `members`.
    pub(crate) keys: Vec<FlowKey>,
}

/// Identifies a connection. Old kernels number cookies per namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(Option<NetnsInode>, Cookie);

impl ConnectionId {
    /// The identity of a socket; `None` if the source has no cookies (procfs).
    pub(crate) fn of(socket: &Socket) -> Option<Self> {
        socket.cookie.map(|cookie| Self(socket.netns, cookie))
    }
}

/// Counters of tcp_info that only grow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) retrans_segs: u64,
}

impl Counters {
    pub(crate) fn of(info: Option<&TcpInfo>) -> Self {
        info.map_or_else(Self::default, |info| Self {
            bytes_acked: info.bytes_acked.unwrap_or(0),
            bytes_received: info.bytes_received.unwrap_or(0),
            retrans_segs: info.total_retrans_segs.map_or(0, u64::from),
        })
    }

    /// Increase since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            bytes_acked: self.bytes_acked.saturating_sub(before.bytes_acked),
            bytes_received: self.bytes_received.saturating_sub(before.bytes_received),
            retrans_segs: self.retrans_segs.saturating_sub(before.retrans_segs),
        }
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.bytes_acked += other.bytes_acked;
        self.bytes_received += other.bytes_received;
        self.retrans_segs += other.retrans_segs;
    }
}
