//! Snapshot of the tcp_info counters of connections: the next fold of `flows --watch` computes rates from it.
//! A connection is identified by its cookie: connections from `/proc` have none, so they have no rates.

use crate::Listeners;
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashSet};
use sockeye_model::{Cookie, FlowKey, NetnsInode, Port, Socket, TcpInfo};

/// Counters of all connections at one moment; the next fold computes rates from them.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub(crate) connections: HashMap<ConnectionId, CompactCounters>,
    /// Connections and the indices of their flows; a connection of several processes occurs in several.
    pub(crate) members: Vec<(ConnectionId, u32)>,
    /// Flow keys by the indices in `members`.
    pub(crate) keys: Vec<FlowKey>,
    /// Its servers; `None` if nothing asks for those that have ended since.
    pub(crate) servers: Option<Box<Servers>>,
}

/// The servers of a sample, by which the next one knows those that have ended.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    pub(crate) listeners: Listeners,
    /// Local ports that have no listener any more, and still have connections.
    pub(crate) ended: HashSet<LocalPort>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_acked: Option<u64>,
    pub(crate) bytes_received: Option<u64>,
    pub(crate) retrans_segs: Option<u64>,
}

/// Change of one connection since the last sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionDelta {
    pub(crate) id: ConnectionId,
    pub(crate) counted: Counters,
    pub(crate) opened: bool,
}

/// A local port that connections share, in its namespace.
pub(crate) type LocalPort = (Option<NetnsInode>, Port);

impl Sample {
    /// Returns an empty sample with space for as many connections as the one before has: what grows is in memory twice.
    pub(crate) fn with_space_of(before: Option<&Self>) -> Self {
        let (connections, members) =
            before.map_or((0, 0), |before| (before.connections.len(), before.members.len()));
        Self {
            connections: HashMap::with_capacity_and_hasher(connections, RandomState::default()),
            members: Vec::with_capacity(members),
            keys: Vec::new(),
            servers: None,
        }
    }
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

/// Counters in half of the memory: a host has many connections, and each is in two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompactCounters([u64; 3]);

impl CompactCounters {
    /// In place of a counter that is unknown; no connection has moved so much.
    const UNKNOWN: u64 = u64::MAX;
}

impl From<Counters> for CompactCounters {
    fn from(counters: Counters) -> Self {
        let all = [
            counters.bytes_acked,
            counters.bytes_received,
            counters.retrans_segs,
        ];
        Self(all.map(|counter| counter.unwrap_or(Self::UNKNOWN)))
    }
}

impl From<CompactCounters> for Counters {
    fn from(CompactCounters(all): CompactCounters) -> Self {
        let known = |counter: u64| Some(counter).filter(|counter| *counter != CompactCounters::UNKNOWN);
        let [bytes_acked, bytes_received, retrans_segs] = all.map(known);
        Self {
            bytes_acked,
            bytes_received,
            retrans_segs,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_counters_keep_what_is_unknown() {
        for counters in [
            Counters::default(),
            Counters {
                bytes_acked: Some(0),
                bytes_received: None,
                retrans_segs: Some(u64::MAX - 1),
            },
        ] {
            assert_eq!(Counters::from(CompactCounters::from(counters)), counters);
        }
    }
}
