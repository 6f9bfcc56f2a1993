//! What to report of each socket.

use core::ops::BitOr;

/// A set of flags: what to report of each socket beyond its addresses. Each flag costs time; the default is none.
///
/// `sock_diag` always reports what the first five flags name; a walk over the kernel's tables has to fetch it.
///
/// ```
/// use sockeye_model::Detail;
///
/// let verbose = true;
/// let detail = Detail::QUEUES | Detail::TIMER.when(verbose) | Detail::MEMORY.when(!verbose);
/// assert!(detail.contains(Detail::QUEUES | Detail::TIMER) && !detail.contains(Detail::MEMORY));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detail(u32);

impl Detail {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Receive and send queue, or accept queue
    pub const QUEUES: Self = Self(1);
    /// The running timer
    pub const TIMER: Self = Self(1 << 1);
    /// The inode, by which owners are found
    pub const INODE: Self = Self(1 << 2);
    /// The user, and the inode
    pub const USER: Self = Self(1 << 3);
    /// Mark, cgroup, shutdown, options
    pub const OPTIONS: Self = Self(1 << 4);
    /// Whether the kernel chose the port; only bytecode in the kernel can test it
    pub const AUTOBOUND: Self = Self(1 << 5);
    /// The cookie, also where the kernel has to create one
    pub const COOKIE: Self = Self(1 << 6);
    /// `tcp_info`, and the congestion control's own data
    pub const TCP_INFO: Self = Self(1 << 7);
    /// Memory in use and its limits
    pub const MEMORY: Self = Self(1 << 8);
    /// Name and state of the congestion control
    pub const CONGESTION: Self = Self(1 << 9);
    /// Type of service, traffic class, net_cls class
    pub const SERVICE_CLASS: Self = Self(1 << 10);
    /// Attributes that only the netlink message carries: inode and device of a UNIX
    /// socket's file and the queue of its listener, rings and filters of PACKET sockets, groups of NETLINK sockets
    pub const DIAG_DETAILS: Self = Self(1 << 11);
    /// A socket that the kernel reports twice is handed out twice: NETLINK sockets that are members of a group
    pub const REPEATS: Self = Self(1 << 12);
    /// Owner processes; they are found by a pass of their own, before the sockets
    pub const OWNERS: Self = Self(1 << 13);

    /// Containers, cgroups, units or executables, by cgroups of sockets or by owners
    pub const WORKLOADS: Self = Self(1 << 14);

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether at least one flag of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags if `condition` holds, else none.
    #[must_use]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// Whether the fixed part of `inet_diag` messages has all of it for an IP socket.
    #[must_use]
    pub const fn is_in_heads(self) -> bool {
        const ATTRIBUTES: Detail = Detail::OPTIONS
            .union(Detail::TCP_INFO)
            .union(Detail::MEMORY)
            .union(Detail::CONGESTION)
            .union(Detail::SERVICE_CLASS);
        !self.intersects(ATTRIBUTES)
    }
}

impl BitOr for Detail {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}
