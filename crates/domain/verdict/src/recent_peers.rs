//! Table of peers that sent something recently. `Snapshot` fills it from `tcp_info`; `Connection` uses it to
//! decide whether the peer of a stalled connection is alive. `PEERS_MAX` bounds the memory.

use foldhash::fast::FixedState;
use sockeye_model::{NetnsInode, Socket, State};
use std::collections::HashMap;
use std::net::IpAddr;

/// Milliseconds since something was received from each peer, on any of its connections.
#[derive(Debug, Default)]
pub(crate) struct RecentPeers(HashMap<(Option<NetnsInode>, IpAddr), u32, FixedState>);

impl RecentPeers {
    pub(crate) fn record(&mut self, socket: &Socket) {
        let Some(info) = &socket.tcp_info else { return };
        let silent_ms = [info.last_ack_recv_ms, info.last_data_recv_ms]
            .into_iter()
            .flatten()
            .min();
        if let (Some(ip), Some(silent_ms)) = (socket.peer.ip(), silent_ms)
            && socket.state != State::SynSent
            && silent_ms < SILENCE_MAX_MS
            && self.0.len() < PEERS_MAX
        {
            let least = self.0.entry((socket.netns, ip)).or_insert(silent_ms);
            *least = silent_ms.min(*least);
        }
    }

    /// Whether something was received from the peer of this socket less than `since_ms` ago.
    pub(crate) fn within(&self, socket: &Socket, since_ms: u64) -> bool {
        let silent_ms = socket.peer.ip().and_then(|ip| self.0.get(&(socket.netns, ip)));
        silent_ms.is_some_and(|ms| u64::from(*ms) < since_ms)
    }
}

/// A peer that was silent for so long is no proof that the path is open.
const SILENCE_MAX_MS: u32 = 300_000;
/// Peers that are kept.
pub(crate) const PEERS_MAX: usize = 1 << 17;
