//! A socket with its owners and workloads that filters, folds, rules and renderers take. It borrows them.

use crate::{Owner, Socket, WorkloadId, WorkloadKind, WorkloadSource, Workloads};

/// A socket with its owners: the input of filters and renderers.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The socket.
    pub socket: &'a Socket,
    /// Its owners, sorted by pid and descriptor; empty if it has none that we can see, `None` if they were not looked up.
    pub owners: Option<&'a [Owner]>,
    /// What finds its container, cgroup, unit and executable; `None` if nothing asked for them.
    pub workloads: Option<&'a dyn Workloads>,
}

impl<'a> Entry<'a> {
    /// Creates an entry without owners.
    #[must_use]
    pub const fn new(socket: &'a Socket) -> Self {
        Self {
            socket,
            owners: None,
            workloads: None,
        }
    }

    /// Creates an entry with its owners.
    #[must_use]
    pub const fn with_owners(socket: &'a Socket, owners: Option<&'a [Owner]>) -> Self {
        Self {
            owners,
            ..Self::new(socket)
        }
    }

    /// Calls `visit` with each of its workloads: [`Workloads::visit`].
    pub fn visit_workloads(
        &self,
        kind: WorkloadKind,
        visit: &mut dyn FnMut(WorkloadId),
    ) -> Option<WorkloadSource> {
        self.workloads?.visit(kind, self.socket, self.owners, visit)
    }
}
