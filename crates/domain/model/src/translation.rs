//! What NAT made of a TCP connection.

use std::net::IpAddr;

/// A TCP connection whose addresses or ports NAT changes, by the host that does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Translation {
    /// Zone of conntrack: equal ends of different zones are different connections.
    pub zone: u16,
    /// The ends as the client has them.
    pub original: ConnectionEnds,
    /// The ends as the server has them.
    pub translated: ConnectionEnds,
}

/// Addresses and ports of both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionEnds {
    /// The end that connected.
    pub client: (IpAddr, u16),
    /// The end that listens.
    pub server: (IpAddr, u16),
}
