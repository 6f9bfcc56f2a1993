//! Output of `compile`: `inet_diag` bytecode for the kernel, and the kernel features that it may rely on.
//! `query` and the `ss` drop-in put it into the request of a `sock_diag` dump.

/// The conditions that the kernel supports in a program.
///
/// One dump shows it: `EPERM` means that `net_admin` must be off; `EINVAL`, that the kernel lacks one of
/// the conditions, so that [`KernelFeatures::OLDEST`] is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelFeatures {
    /// We have CAP_NET_ADMIN, and Linux is 4.8 or later: `fwmark`.
    pub net_admin: bool,
    /// Linux 4.8: `dev`.
    pub device_condition: bool,
    /// Linux 5.9: `cgroup`.
    pub cgroup_condition: bool,
}

impl KernelFeatures {
    /// All conditions.
    pub const FULL: Self = Self {
        net_admin: true,
        device_condition: true,
        cgroup_condition: true,
    };
    /// All conditions that need no right, on a recent kernel.
    pub const UNPRIVILEGED: Self = Self {
        net_admin: false,
        ..Self::FULL
    };
    /// The conditions of every kernel with `inet_diag`.
    pub const OLDEST: Self = Self {
        net_admin: false,
        device_condition: false,
        cgroup_condition: false,
    };
}

/// The part of a filter that the kernel evaluates, for dumps of TCP, UDP, UDP-Lite, RAW and MPTCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// For [`sockeye_wire::inet_diag::Query::bytecode`]. Empty if the kernel cannot evaluate any part, or the program
    /// is too long.
    pub bytecode: Vec<u8>,
    /// Whether a dump with this program and [`Filter::states`](crate::Filter::states) has exactly the matching sockets, so that
    /// [`Filter::matches`](crate::Filter::matches) need not run.
    pub exact: bool,
}
