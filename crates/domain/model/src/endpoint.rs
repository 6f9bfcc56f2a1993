//! Local and peer endpoint of a socket in any family: filters compare it, tables and JSON print it.

use crate::{Inode, InterfaceIndex, Port, ShortText};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An endpoint of a socket, in the terms of its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// No endpoint: the socket has no peer.
    None,
    /// An IP address and a port.
    Inet {
        /// Address as the socket stores it: an IPv6 socket with an IPv4 peer has a v4-mapped address.
        ip: IpAddr,
        /// Port; 0 if none is bound
        port: Port,
    },
    /// A UNIX socket.
    Unix {
        /// Its name; `None` if it has none or it is unknown.
        name: Option<UnixName>,
        /// Its inode; `None` if unknown.
        inode: Option<Inode>,
    },
    /// A PACKET socket.
    Packet {
        /// EtherType in host order; 3 is every protocol (`ETH_P_ALL`)
        ethertype: u16,
        /// Interface; `None` means all
        interface: Option<InterfaceIndex>,
    },
    /// A NETLINK socket.
    Netlink {
        /// `NETLINK_ROUTE` is 0
        protocol: u8,
        /// Its port id, often but not always a pid; 0 is the kernel
        port: u32,
        /// Multicast group of a peer; `None` if it is a unicast port
        group: Option<u32>,
    },
}

/// The name of a UNIX socket: a path, or a NUL byte and an abstract name.
pub type UnixName = ShortText<108>;

impl Endpoint {
    /// Creates an IP endpoint.
    #[must_use]
    #[inline]
    pub const fn inet(ip: IpAddr, port: Port) -> Self {
        Self::Inet { ip, port }
    }

    /// Converts the 16 bytes that the kernel uses for both families.
    #[must_use]
    pub fn from_wire(is_v6: bool, bytes: [u8; 16], port: u16) -> Self {
        let ip = if is_v6 {
            IpAddr::V6(Ipv6Addr::from(bytes))
        } else {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        };
        Self::Inet { ip, port: Port(port) }
    }

    /// Returns the IP address; `None` for other families.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Inet { ip, .. } => Some(*ip),
            _ => None,
        }
    }

    /// Returns the port; `None` for other families.
    #[must_use]
    pub const fn port(&self) -> Option<Port> {
        match self {
            Self::Inet { port, .. } => Some(*port),
            _ => None,
        }
    }
}
