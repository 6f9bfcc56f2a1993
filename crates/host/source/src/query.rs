//! What is asked of a source.

use crate::names;
use crate::outcome::Error;
use sockeye_model::{NetnsInode, Pid, ProtocolSet, StateSet};
pub use sockeye_wire::walk::End;
use std::os::fd::BorrowedFd;

/// Which sockets are wanted, and how much about them.
#[derive(Debug, Clone)]
pub struct Query<'a> {
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
    /// Where the ends of those wanted are, at the least: by this a walk passes over sockets. What comes may be more.
    pub ends: Ends,
    /// Which source.
    pub choice: Choice,
    /// Where.
    pub scope: NetnsScope<'a>,
}

impl Query<'_> {
    /// Runs `act` where the query is asked.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match self.scope {
            NetnsScope::Own | NetnsScope::All => Ok(act()),
            // Where we are already we may always act, also without the right to enter a namespace.
            NetnsScope::One(netns) if names::own_namespace() == Some(netns.inode) => Ok(act()),
            NetnsScope::One(netns) => sockeye_sys::netns::within(netns.fd, act)
                .map_err(|errno| Error::Namespace(netns.inode, errno)),
        }
    }
}

/// Where the two ends of a socket have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Ours
    pub local: End,
    /// The other
    pub peer: End,
}

impl Ends {
    /// Anywhere.
    pub const ANYWHERE: Self = Self {
        local: End::ANYWHERE,
        peer: End::ANYWHERE,
    };
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

/// What is wanted beyond the addresses; each costs time.
///
/// The first seven are what `sock_diag` tells anyway, but a walk over the kernel's tables would have to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detail {
    /// What waits in a socket
    pub queues: bool,
    /// Its timer
    pub timer: bool,
    /// Its inode, by which its owners are found
    pub inode: bool,
    /// Its inode and its user
    pub user: bool,
    /// Mark, cgroup, shutdown, options
    pub options: bool,
    /// Whether its port was chosen by the kernel: only [`Query::program`] can tell
    pub autobound: bool,
    /// Its cookie, also if the kernel has to make one
    pub cookie: bool,
    /// tcp_info, and what comes with it
    pub tcp_info: bool,
    /// Memory in use and its limits
    pub memory: bool,
    /// Name and state of the congestion control
    pub congestion: bool,
    /// Type of service, traffic class, net_cls class
    pub service_class: bool,
    /// What is told only context with a socket ([`crate::DumpContext::message`]): the file of a UNIX socket and who waits for
    /// its listener, rings and filters of PACKET sockets, groups of NETLINK sockets
    pub particulars: bool,
    /// What the kernel tells twice is handed out twice: of NETLINK sockets those that are members of a group
    pub repeats: bool,
}

impl Detail {
    /// Everything but the cookie, `autobound` and the particulars, which few ask for.
    pub const ALL: Self = Self {
        queues: true,
        timer: true,
        inode: true,
        user: true,
        options: true,
        cookie: false,
        autobound: false,
        tcp_info: true,
        memory: true,
        congestion: true,
        service_class: true,
        particulars: false,
        repeats: false,
    };

    /// Whether all that is wanted of an IP socket stands in the fixed part of `inet_diag`'s messages.
    pub(crate) const fn is_in_heads(self) -> bool {
        !(self.options || self.tcp_info || self.memory || self.congestion || self.service_class)
    }

    /// What either wants.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            queues: self.queues | other.queues,
            timer: self.timer | other.timer,
            inode: self.inode | other.inode,
            user: self.user | other.user,
            options: self.options | other.options,
            cookie: self.cookie | other.cookie,
            autobound: self.autobound | other.autobound,
            tcp_info: self.tcp_info | other.tcp_info,
            memory: self.memory | other.memory,
            congestion: self.congestion | other.congestion,
            service_class: self.service_class | other.service_class,
            particulars: self.particulars | other.particulars,
            repeats: self.repeats | other.repeats,
        }
    }
}

/// Which network namespaces are looked into.
#[derive(Debug, Clone, Copy)]
pub enum NetnsScope<'a> {
    /// The one that we are in; sockets do not say where they are.
    Own,
    /// This one.
    One(OpenNetns<'a>),
    /// All of them at once, which only BPF can.
    All,
}

impl NetnsScope<'_> {
    /// What each socket says of where it is, if that is one place.
    pub(crate) fn inode(&self) -> Option<NetnsInode> {
        match self {
            Self::One(netns) => Some(netns.inode),
            Self::Own | Self::All => None,
        }
    }
}

/// A network namespace other than ours.
#[derive(Debug, Clone, Copy)]
pub struct OpenNetns<'a> {
    /// A descriptor of it, as opened from `/proc/PID/ns/net` or `/run/netns/NAME`.
    pub fd: BorrowedFd<'a>,
    /// Its inode, which goes into each socket.
    pub inode: NetnsInode,
    /// A process in it: by way of its `/proc/PID/net` the namespace can be read also without the right to enter it.
    pub process: Option<Pid>,
}

/// Which source to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best that works.
    #[default]
    Auto,
    /// A walk over the kernel's tables by BPF, and nothing else.
    Bpf,
    /// Netlink, and nothing else.
    Diag,
    /// `sock_diag` v2, and nothing else.
    DiagV2,
    /// `/proc/net`, and nothing else.
    Procfs,
}
