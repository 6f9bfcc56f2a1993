use crate::{Inode, InterfaceIndex, Port, ShortText};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One end of a socket, in the terms of its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// No such end: the peer of a socket that has none.
    None,
    /// An IP address and a port.
    Inet {
        /// As the socket holds it: an IPv6 socket talking IPv4 shows a v4-mapped address.
        ip: IpAddr,
        /// 0 where none is bound yet
        port: Port,
    },
    /// A UNIX socket.
    Unix {
        /// What it is bound to, if to anything.
        name: Option<UnixName>,
        /// Which socket it is.
        inode: Option<Inode>,
    },
    /// What a PACKET socket listens to.
    Packet {
        /// EtherType in host order; 3 is every protocol (`ETH_P_ALL`)
        ethertype: u16,
        /// `None`: every interface
        interface: Option<InterfaceIndex>,
    },
    /// A NETLINK socket.
    Netlink {
        /// `NETLINK_ROUTE` is 0
        protocol: u8,
        /// Its port id, often but not always a pid; 0 is the kernel
        port: u32,
        /// Of a peer: the multicast group it stands for, if any
        group: Option<u32>,
    },
}

/// What a UNIX socket is bound to: a path, or after a NUL byte an abstract name.
pub type UnixName = ShortText<108>;

impl Endpoint {
    /// An address and port.
    #[must_use]
    pub const fn inet(ip: IpAddr, port: Port) -> Self {
        Self::Inet { ip, port }
    }

    /// From the 16 bytes the kernel uses for both families.
    #[must_use]
    pub fn from_wire(is_v6: bool, bytes: [u8; 16], port: u16) -> Self {
        let ip = if is_v6 {
            IpAddr::V6(Ipv6Addr::from(bytes))
        } else {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        };
        Self::Inet { ip, port: Port(port) }
    }

    /// The IP address, where there is one.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Inet { ip, .. } => Some(*ip),
            _ => None,
        }
    }

    /// The port, where there is one.
    #[must_use]
    pub const fn port(&self) -> Option<Port> {
        match self {
            Self::Inet { port, .. } => Some(*port),
            _ => None,
        }
    }
}
