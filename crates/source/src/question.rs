//! What is asked of a source.

use crate::answer::Error;
use sockeye_model::{NetnsInode, ProtocolSet, StateSet};
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
