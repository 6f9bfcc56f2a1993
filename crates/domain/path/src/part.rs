//! Queues of which only is known what waits there.

use sockeye_model::Protocol;
use std::net::SocketAddr;

/// How much is in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fill {
    /// At the last look.
    pub now: u64,
    /// At most.
    pub max: u64,
}

impl Fill {
    pub(crate) fn add(&mut self, now: u64) {
        self.now = now;
        self.max = self.max.max(now);
    }
}

/// Which queue a row is about, where a device does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A class of the device's qdisc, by its number: major in the upper half, minor in the lower.
    Class(u32),
    /// The accept queue of a listener, with its limit.
    Listener {
        /// Its address and port.
        local: SocketAddr,
        /// Inode of its network namespace; `None` if only one is listed.
        netns: Option<u32>,
        /// Most connections that fit; `None` if unknown.
        limit: Option<u32>,
    },
    /// A queue of a connection or an unconnected socket whose data stand still.
    Connection {
        /// Its protocol.
        protocol: Protocol,
        /// Its local end.
        local: SocketAddr,
        /// Its peer; `None` of an unconnected one.
        peer: Option<SocketAddr>,
        /// Inode of its network namespace; `None` if only one is listed.
        netns: Option<u32>,
    },
}
