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

/// Counters of tcp_info that only grow; `None` if unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_acked: Option<u64>,
    pub(crate) bytes_received: Option<u64>,
    pub(crate) retrans_segs: Option<u64>,
}

impl Counters {
    pub(crate) fn of(info: Option<&TcpInfo>) -> Self {
        info.map_or_else(Self::default, |info| Self {
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            retrans_segs: info.total_retrans_segs.map(u64::from),
        })
    }

    /// Increase since `before`; what was unknown then counts from 0.
    pub(crate) fn since(self, before: Self) -> Self {
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        Self {
            bytes_acked: since(self.bytes_acked, before.bytes_acked),
            bytes_received: since(self.bytes_received, before.bytes_received),
            retrans_segs: since(self.retrans_segs, before.retrans_segs),
        }
    }
}

/// Adds what is known.
impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0) + more);
            }
        };
        add(&mut self.bytes_acked, other.bytes_acked);
        add(&mut self.bytes_received, other.bytes_received);
        add(&mut self.retrans_segs, other.retrans_segs);
    }
}
