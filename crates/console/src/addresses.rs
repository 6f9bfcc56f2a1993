//! Where commands listen unless an option says something else.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// The page of `serve`.
pub const SERVE: SocketAddr = local(7117);

/// The metrics of `export prometheus`.
pub const PROMETHEUS: SocketAddr = local(9977);

const fn local(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}
