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
