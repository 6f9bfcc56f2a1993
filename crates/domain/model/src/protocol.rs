//! Protocol and address family of a socket, converted from the kernel's numbers.
//! Sources, filters and renderers use them; the names are those of `ss`.

use core::fmt;

/// The protocol of a socket: the kernel's family and type together, like the Netid column of `ss`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it all
pub enum Protocol {
    Tcp,
    Mptcp,
    Udp,
    UdpLite,
    /// RAW IP; the local "port" is the IP protocol number
    Raw,
    UnixStream,
    UnixDgram,
    UnixSeqpacket,
    /// PACKET sockets of type RAW
    PacketRaw,
    /// PACKET sockets of type DGRAM
    PacketDgram,
    Netlink,
    /// A UNIX or PACKET socket of an unknown type
    Unknown(u8),
}

impl Protocol {
    /// The name in the Netid column of `ss`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
            Self::Udp => "udp",
            Self::UdpLite => "udplite",
            Self::Raw => "raw",
            Self::UnixStream => "u_str",
            Self::UnixDgram => "u_dgr",
            Self::UnixSeqpacket => "u_seq",
            Self::PacketRaw => "p_raw",
            Self::PacketDgram => "p_dgr",
            Self::Netlink => "nl",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Whether its endpoints are IP addresses and ports.
    #[must_use]
    pub const fn is_inet(self) -> bool {
        matches!(
            self,
            Self::Tcp | Self::Mptcp | Self::Udp | Self::UdpLite | Self::Raw
        )
    }

    /// Whether its endpoints are UNIX socket names.
    #[must_use]
    pub const fn is_unix(self) -> bool {
        matches!(self, Self::UnixStream | Self::UnixDgram | Self::UnixSeqpacket)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Address family of a socket. An `Inet6` socket may have an IPv4 peer, with v4-mapped addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Family {
    Unix,
    Inet,
    Inet6,
    Netlink,
    Packet,
    /// An unknown number
    Unknown(u8),
}

impl Family {
    /// Converts from `AF_*`.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Unix,
            2 => Self::Inet,
            10 => Self::Inet6,
            16 => Self::Netlink,
            17 => Self::Packet,
            unknown => Self::Unknown(unknown),
        }
    }

    /// Returns the `AF_*` number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Unix => 1,
            Self::Inet => 2,
            Self::Inet6 => 10,
            Self::Netlink => 16,
            Self::Packet => 17,
            Self::Unknown(number) => number,
        }
    }

    /// The name for `ss -f`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Inet => "inet",
            Self::Inet6 => "inet6",
            Self::Netlink => "netlink",
            Self::Packet => "packet",
            Self::Unknown(_) => "unknown",
        }
    }
}
