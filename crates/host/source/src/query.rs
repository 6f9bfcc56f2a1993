//! The input of a listing: which sockets, how much about each, from where.

use crate::outcome::Error;
use crate::process_netns::own_namespace;
use crate::quiet::QuietWalk;
use sockeye_model::{Detail, Family, NetnsInode, Pid, Protocol, ProtocolSet, Socket, StateSet};
pub use sockeye_wire::walk::End;
use std::fmt::Debug;
use std::os::fd::BorrowedFd;

/// A request for sockets.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// Protocols to list.
    pub protocols: ProtocolSet,
    /// Address families of IP sockets to list; other sockets ignore it.
    pub families: Families,
    /// States to list.
    pub states: StateSet,
    /// What to report beyond the addresses.
    pub detail: Detail,
    /// Bytecode with which the kernel filters IP sockets; empty: no kernel filter. The kernel may refuse it and sources
    /// other than netlink do not run it: the result may contain sockets that it rejects.
    pub program: &'a [u8],
    /// Bounds on both endpoints, with which a walk filters IP sockets. The result may contain others.
    pub ends: Ends,
    /// The source to use.
    pub choice: Choice,
    /// The network namespaces to list.
    pub scope: NetnsScope<'a>,
    /// What a walk may leave out; `None`: nothing.
    pub quiet: Option<&'a QuietWalk>,
    /// What a walk announces sockets to before they are taken; `None`: nothing.
    pub announce: Option<&'a dyn Announce>,
}

/// Takes the inodes of sockets before they are taken, on any thread, so that what is looked up by them can be fetched from memory at once.
pub trait Announce: Debug + Sync {
    /// Is called with the inodes of the next sockets.
    fn announce(&self, inodes: &[u32]);
}

impl Query<'_> {
    /// Whether the query selects the socket: some sources return more than was asked for.
    #[inline]
    pub(crate) fn matches(&self, socket: &Socket) -> bool {
        self.states.contains(socket.state)
            // A type without a name can only belong to a family of the query.
            && (self.protocols.contains(socket.protocol) || matches!(socket.protocol, Protocol::Unknown(_)))
            && match socket.family {
                Family::Inet => self.families.v4,
                Family::Inet6 => self.families.v6,
                _ => true,
            }
    }

    /// Runs `act` in the network namespace of the query.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match self.scope {
            NetnsScope::Own | NetnsScope::All => Ok(act()),
            // No right to enter a namespace is needed to act in our own.
            NetnsScope::One(netns) if own_namespace() == Some(netns.inode) => Ok(act()),
            NetnsScope::One(netns) => sockeye_sys::netns::within(netns.fd, act)
                .map_err(|errno| Error::Namespace(netns.inode, errno)),
        }
    }
}

/// Bounds on the two endpoints of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Bounds on the local endpoint
    pub local: End,
    /// Bounds on the peer
    pub peer: End,
}

impl Ends {
    /// No bounds.
    pub const ANYWHERE: Self = Self {
        local: End::ANYWHERE,
        peer: End::ANYWHERE,
    };

    /// Returns the local and the peer port if only one is allowed; 0 if several are.
    pub(crate) fn only_ports(&self) -> (u16, u16) {
        let only = |end: End| {
            if end.port_min == end.port_max {
                end.port_min
            } else {
                0
            }
        };
        (only(self.local), only(self.peer))
    }
}

/// Address families of IP sockets. A v4-mapped connection belongs to an IPv6 socket.
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

/// The network namespaces of a query.
#[derive(Debug, Clone, Copy)]
pub enum NetnsScope<'a> {
    /// The namespace of the calling thread; sockets are listed without a namespace.
    Own,
    /// One other namespace.
    One(OpenNetns<'a>),
    /// All namespaces at once; only the BPF sources support it.
    All,
}

impl NetnsScope<'_> {
    /// The namespace that each listed socket gets; `None` unless the query names one.
    pub(crate) fn inode(&self) -> Option<NetnsInode> {
        match self {
            Self::One(netns) => Some(netns.inode),
            Self::Own | Self::All => None,
        }
    }
}

/// An open network namespace.
#[derive(Debug, Clone, Copy)]
pub struct OpenNetns<'a> {
    /// Its descriptor, opened from `/proc/PID/ns/net` or `/run/netns/NAME`.
    pub fd: BorrowedFd<'a>,
    /// Its inode, which each listed socket gets.
    pub inode: NetnsInode,
    /// A process in it, whose `/proc/PID/net` can be read without the right to enter the namespace; `None` if unknown.
    pub process: Option<Pid>,
}

/// The source to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best that works.
    #[default]
    Auto,
    /// BPF programs only.
    Bpf,
    /// Netlink only.
    Diag,
    /// `sock_diag` v2 only.
    DiagV2,
    /// `/proc/net` only.
    Procfs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_false_is_none() {
        assert_eq!(Detail::TIMER.when(false), Detail::NONE);
        assert_eq!(Detail::TIMER.when(true), Detail::TIMER);
    }

    #[test]
    fn contains_needs_all_flags_and_intersects_one() {
        let (both, one) = (Detail::INODE | Detail::USER, Detail::USER);
        assert!(both.contains(one) && !one.contains(both));
        assert!(one.intersects(both) && !one.intersects(Detail::INODE));
        assert!(one.contains(Detail::NONE) && !one.intersects(Detail::NONE));
    }

    #[test]
    fn attributes_are_not_in_heads() {
        let heads = Detail::QUEUES | Detail::TIMER | Detail::INODE | Detail::USER | Detail::COOKIE;
        assert!(heads.is_in_heads());
        for attribute in [
            Detail::OPTIONS,
            Detail::TCP_INFO,
            Detail::MEMORY,
            Detail::CONGESTION,
        ] {
            assert!(!(heads | attribute).is_in_heads());
        }
    }
}
