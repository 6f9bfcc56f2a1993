//! How the host would send to a peer now: `host/source/src/vitals/` looks it up for connections that cannot send,
//! and `verdict` finds the cause in it.

use crate::{InterfaceIndex, NetnsInode, Uid};
use std::net::IpAddr;

/// A question for the way from one of our addresses to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathQuery {
    /// Network namespace; `None`: ours
    pub netns: Option<NetnsInode>,
    /// Our address
    pub from: IpAddr,
    /// Address of the peer
    pub to: IpAddr,
    /// Firewall mark of the socket; 0 for none or unknown
    pub mark: u32,
    /// User of the socket; `None` if unknown
    pub uid: Option<Uid>,
    /// Interface that the socket is bound to
    pub interface: Option<InterfaceIndex>,
    /// Our port and that of the peer, where a routing rule may choose by it; else 0
    pub ports: [u16; 2],
}

/// The answer to a [`PathQuery`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendPath {
    /// The question
    pub query: PathQuery,
    /// The route
    pub route: Route,
    /// The next hop; `None` without a neighbour entry for it
    pub next_hop: Option<NextHop>,
    /// The port of a bridge that leads to the next hop
    pub bridge_port: BridgePort,
}

/// Which port of a bridge leads to a next hop, as the forwarding table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BridgePort {
    /// The link address of the next hop or the forwarding table is unknown.
    #[default]
    Unknown,
    /// This one
    Port(InterfaceIndex),
    /// No port has seen it of late, and ports have seen others: its entry was removed when its port lost the carrier, or has
    /// expired (after 300 s, `ageing_time`).
    NotLearned,
}

/// What the neighbour entry of a next hop says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// Its hardware address is known.
    Known,
    /// Its hardware address was set by hand or by a program.
    Permanent,
    /// It does not answer ARP or neighbour discovery, or not yet.
    Unanswered,
}

/// What a look-up of a route returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It could not be looked up.
    Unknown,
    /// The kernel refused: `ENETUNREACH`, `EHOSTUNREACH`, `EACCES`, `EINVAL`, ...
    Refused(i32),
    /// A route was found.
    Via {
        /// The device
        device: InterfaceIndex,
        /// The router; `None` if the peer is on the link
        gateway: Option<IpAddr>,
    },
}
