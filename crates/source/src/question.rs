//! What is asked of a source, and what it says beside the sockets.

use sockeye_model::{Losses, NetnsInode, Protocol, StateSet};
use std::fmt;
use std::os::fd::BorrowedFd;

/// Which sockets are wanted, and how much about them.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// Of which protocols.
    pub protocols: ProtocolSet,
    /// IP sockets of which families.
    pub families: Families,
    /// In which states.
    pub states: StateSet,
    /// What beyond the addresses.
    pub detail: Detail,
    /// Bytecode by which the kernel passes over IP sockets nobody wants; empty for none. The kernel may
    /// refuse it and other sources do not run it: what comes may be more than it lets through.
    pub program: &'a [u8],
    /// Which source.
    pub choice: Choice,
    /// Where; `None`: where we are.
    pub netns: Option<Place<'a>>,
}

impl Question<'_> {
    /// Runs `act` where the question is asked.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match self.netns {
            None => Ok(act()),
            Some(place) => sockeye_sys::netns::within(place.fd, act)
                .map_err(|errno| Error::Namespace(place.inode, errno)),
        }
    }
}

/// A set of protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolSet(u16);

impl ProtocolSet {
    /// None of them.
    pub const EMPTY: Self = Self(0);
    /// TCP.
    pub const TCP: Self = Self(1);
    /// MPTCP, where it is built.
    pub const MPTCP: Self = Self(1 << 1);
    /// UDP.
    pub const UDP: Self = Self(1 << 2);
    /// UDP-Lite.
    pub const UDPLITE: Self = Self(1 << 3);
    /// RAW.
    pub const RAW: Self = Self(1 << 4);
    /// UNIX stream sockets.
    pub const UNIX_STREAM: Self = Self(1 << 5);
    /// UNIX datagram sockets.
    pub const UNIX_DGRAM: Self = Self(1 << 6);
    /// UNIX seqpacket sockets.
    pub const UNIX_SEQPACKET: Self = Self(1 << 7);
    /// UNIX sockets of every type.
    pub const UNIX: Self = Self(1 << 5 | 1 << 6 | 1 << 7);
    /// PACKET sockets.
    pub const PACKET: Self = Self(1 << 8);
    /// NETLINK sockets.
    pub const NETLINK: Self = Self(1 << 9);
    /// All of them.
    pub const ALL: Self = Self((1 << 10) - 1);

    /// Both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of `other` is in it.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it is one protocol, so that a listing need not name it in each row.
    #[must_use]
    pub const fn is_single(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Those of its protocols, by one socket type each, that `keep` says yes to.
    #[must_use]
    pub fn retain(self, keep: impl Fn(Protocol) -> bool) -> Self {
        let kinds = [
            (Self::TCP, Protocol::Tcp),
            (Self::MPTCP, Protocol::Mptcp),
            (Self::UDP, Protocol::Udp),
            (Self::UDPLITE, Protocol::UdpLite),
            (Self::RAW, Protocol::Raw),
            (Self::UNIX_STREAM, Protocol::UnixStream),
            (Self::UNIX_DGRAM, Protocol::UnixDgram),
            (Self::UNIX_SEQPACKET, Protocol::UnixSeqpacket),
            (Self::PACKET, Protocol::PacketRaw),
            (Self::NETLINK, Protocol::Netlink),
        ];
        let kept = kinds
            .into_iter()
            .filter(|(set, kind)| self.intersects(*set) && keep(*kind));
        kept.fold(Self::EMPTY, |all, (set, _)| all.or(set))
    }

    /// Whether sockets of `protocol` are in it. Types without a name belong to all of their family.
    #[must_use]
    pub const fn contains(self, protocol: Protocol) -> bool {
        self.intersects(match protocol {
            Protocol::Tcp => Self::TCP,
            Protocol::Mptcp => Self::MPTCP,
            Protocol::Udp => Self::UDP,
            Protocol::UdpLite => Self::UDPLITE,
            Protocol::Raw => Self::RAW,
            Protocol::UnixStream => Self::UNIX_STREAM,
            Protocol::UnixDgram => Self::UNIX_DGRAM,
            Protocol::UnixSeqpacket => Self::UNIX_SEQPACKET,
            Protocol::PacketRaw | Protocol::PacketDgram => Self::PACKET,
            Protocol::Netlink => Self::NETLINK,
            Protocol::Unknown(_) => return true,
        })
    }
}

/// Families of IP sockets. A v4-mapped connection is one of an IPv6 socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Families {
    /// `AF_INET`
    pub v4: bool,
    /// `AF_INET6`
    pub v6: bool,
}

impl Families {
    /// Both.
    pub const BOTH: Self = Self { v4: true, v6: true };
}

/// What is wanted beyond the addresses; each costs the kernel time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detail {
    /// tcp_info, and what comes with it
    pub tcp_info: bool,
    /// Memory in use and its limits
    pub memory: bool,
    /// Name and state of the congestion control
    pub congestion: bool,
    /// Type of service, traffic class, net_cls class
    pub service_class: bool,
}

impl Detail {
    /// What either wants.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            tcp_info: self.tcp_info | other.tcp_info,
            memory: self.memory | other.memory,
            congestion: self.congestion | other.congestion,
            service_class: self.service_class | other.service_class,
        }
    }
}

/// A network namespace other than ours.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// A descriptor of it, as opened from `/proc/PID/ns/net` or `/run/netns/NAME`.
    pub fd: BorrowedFd<'a>,
    /// Its inode, which goes into each socket.
    pub inode: NetnsInode,
}

/// Which source to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best that works.
    #[default]
    Auto,
    /// Netlink, and nothing else.
    Diag,
    /// `sock_diag` v2, and nothing else.
    DiagV2,
    /// `/proc/net`, and nothing else.
    Procfs,
}

/// One rung of the ladder of sources, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// `TCPDIAG_GETSOCK`: IPv4 and IPv6 in one walk of the kernel.
    OnePass,
    /// `SOCK_DIAG_BY_FAMILY`.
    DiagV2,
    /// `/proc/net`.
    Procfs,
}

impl Rung {
    /// Name, as `doctor`, `-v` and JSON show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnePass => "one-pass",
            Self::DiagV2 => "diag-v2",
            Self::Procfs => "procfs",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where the sockets of one protocol came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// What was asked for: `tcp`, `udp`, `unix`...
    pub what: &'static str,
    /// The rung that answered; `None` if none did.
    pub rung: Option<Rung>,
    /// The better rungs that did not answer, each with the reason.
    pub fallen: Vec<(Rung, String)>,
}

/// What a source says when it has told all its sockets.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// What could not be seen.
    pub losses: Losses,
    /// Where each protocol's sockets came from.
    pub used: Vec<Used>,
    /// Whether the reader of the sockets had enough before the end.
    pub stopped: bool,
}

/// No source could answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The namespace could not be entered.
    Namespace(NetnsInode, rustix::io::Errno),
    /// Every rung was tried in vain.
    NoSource(Used),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(inode, errno) => {
                write!(f, "cannot enter network namespace {inode}: {errno}")?;
                if *errno == rustix::io::Errno::PERM {
                    write!(f, "; entering a namespace needs CAP_SYS_ADMIN: run as root")?;
                }
                if *errno == rustix::io::Errno::AGAIN {
                    write!(
                        f,
                        "; entering a namespace needs a thread: raise the limit (ulimit -u)"
                    )?;
                }
                Ok(())
            }
            Self::NoSource(used) => {
                write!(f, "no source could list {} sockets", used.what)?;
                for (rung, reason) in &used.fallen {
                    write!(f, "; {rung}: {reason}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Error {}
