//! Details that a filter requires, computed from its conditions. `query` and the `ss` drop-in turn them into
//! `Detail` flags before the dump.

/// The details that a filter needs. A detail that was not requested is absent, and a condition on it does not
/// match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// `INET_DIAG_INFO`: `rtt`, `idle`, ...
    pub tcp_info: bool,
    /// `INET_DIAG_SKMEMINFO`: `drops`, `rcvbuf`, ...
    pub memory: bool,
    /// `INET_DIAG_CONG`
    pub congestion: bool,
    /// [`sockeye_model::Entry::owners`]: `owner`, `pid`, `pgid`
    pub owners: bool,
    /// `INET_DIAG_TOS`, `INET_DIAG_TCLASS`, `INET_DIAG_CLASS_ID`: `tos`, `tclass`, `class_id`
    pub service_class: bool,
    /// `SO_MARK`, which the kernel reports only with CAP_NET_ADMIN. Without it `fwmark` compares with 0, as in `ss`.
    pub mark: bool,
    /// `INET_DIAG_CGROUP_ID` (Linux 5.9)
    pub cgroup: bool,
    /// [`sockeye_model::Entry::workloads`]: `container`, `unit`, `exe`
    pub workloads: bool,
    /// [`sockeye_model::Socket::netns`]
    pub netns: bool,
    /// `autobound` of IP sockets: only the kernel knows whether it chose a port, and only
    /// [`crate::Filter::program`] tests it. [`crate::Filter::matches`] uses the range of ephemeral ports.
    pub kernel_only: bool,
}

impl Needs {
    /// Returns what either needs.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            tcp_info: self.tcp_info || other.tcp_info,
            memory: self.memory || other.memory,
            congestion: self.congestion || other.congestion,
            owners: self.owners || other.owners,
            service_class: self.service_class || other.service_class,
            mark: self.mark || other.mark,
            cgroup: self.cgroup || other.cgroup,
            workloads: self.workloads || other.workloads,
            netns: self.netns || other.netns,
            kernel_only: self.kernel_only || other.kernel_only,
        }
    }
}
