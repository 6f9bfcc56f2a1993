//! What is asked of sockets, and their ends.

use sockeye_model::{Endpoint, Protocol, ProtocolSet, Socket, StateSet};
use sockeye_query::listing::{QueryOptions, Scope};
use sockeye_source::{Detail, Families};
use std::net::SocketAddr;

/// Returns the local end and the peer of a connection.
pub(super) fn ends(socket: &Socket) -> Option<(SocketAddr, SocketAddr)> {
    let end = |endpoint: &Endpoint| {
        let (ip, port) = endpoint.ip().zip(endpoint.port())?;
        Some(SocketAddr::new(ip.to_canonical(), port.0))
    };
    Some((end(&socket.local)?, end(&socket.peer)?))
}

/// Returns what is asked of sockets.
pub(super) const fn options() -> QueryOptions {
    QueryOptions {
        protocols: ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]),
        families: Families::BOTH,
        states: StateSet::ALL,
        detail: Detail::QUEUES
            .union(Detail::TIMER)
            .union(Detail::INODE)
            .union(Detail::USER)
            .union(Detail::TCP_INFO)
            .union(Detail::MEMORY),
        scope: Scope::Matching,
    }
}
