//! What people run: the container, cgroup, unit or executable that a socket belongs to. `query` finds them; filters,
//! folds and renderers read them through [`Workloads`], so that they stay pure.

use crate::{Owner, Socket};
use core::fmt;

/// A property by which what runs is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// The container
    Container,
    /// The path of the cgroup
    Cgroup,
    /// The systemd unit
    Unit,
    /// The path of the executable
    Exe,
}

impl WorkloadKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Container, Self::Cgroup, Self::Unit, Self::Exe];

    /// The name, as in columns, filters and `--group-by`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Cgroup => "cgroup",
            Self::Unit => "unit",
            Self::Exe => "exe",
        }
    }
}

/// Number of the name of a workload, unique among all kinds; [`crate::Names::workload`] has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId(pub u32);

/// A workload: its kind, and the number of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    /// The kind.
    pub kind: WorkloadKind,
    /// The number of the name.
    pub id: WorkloadId,
}

/// The way in which a workload is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkloadSource {
    /// The cgroup in which the socket was created
    Socket,
    /// The owner process
    Owner,
}

impl WorkloadSource {
    /// The name, as in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Owner => "owner",
        }
    }
}

/// The workloads of sockets.
pub trait Workloads: fmt::Debug + Sync {
    /// Calls `visit` with each workload of a socket once, and returns how they are known; `None` if they are not. A socket
    /// has several if its owners differ. One that is known to run in none is reported as the workload [`NO_WORKLOAD`].
    fn visit(
        &self,
        kind: WorkloadKind,
        socket: &Socket,
        owners: Option<&[Owner]>,
        visit: &mut dyn FnMut(WorkloadId),
    ) -> Option<WorkloadSource>;

    /// Calls `visit` with each text that names a workload: its name, and of a container without a name its id.
    fn names(&self, id: WorkloadId, visit: &mut dyn FnMut(&str));
}

/// Name of the workload of a socket that is known to belong to no container or no unit.
pub const NO_WORKLOAD: &str = "(none)";
