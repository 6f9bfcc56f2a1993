//! Workloads of sockets: by the cgroup in which the socket was created, or by its owners.
//!
//! The kernel reports the cgroup of a socket together with it, so that owners need not be searched, and also of sockets
//! whose process is gone. It says nothing on hosts that use cgroups v1, and of sockets of the kernel or of systemd, which
//! opens sockets for services: there the cgroups of the owners count.

use crate::context::QueryContext;
use crate::report::ListingReport;
use sockeye_model::{Losses, Owner, Pid, Socket, WorkloadId, WorkloadKind, WorkloadSource, Workloads};
use sockeye_source::names::{NoWorkload, WorkloadNames};
use sockeye_source::owners::{OwnerLookup, Owners, ScanError};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What is read of processes during one sample of a listing.
#[derive(Debug, Default)]
pub(crate) struct SampledProcesses {
    owners: OnceLock<Result<(Owners, OwnerLookup), ScanError>>,
    known: Mutex<HashMap<(WorkloadKind, Pid), Option<WorkloadId>>>,
    counts: Mutex<Counts>,
}

/// What was lost, since it was last added to a report.
#[derive(Debug, Default)]
struct Counts {
    losses: Losses,
    unreadable: std::collections::BTreeSet<Pid>,
}

impl SampledProcesses {
    /// Moves what was lost to the report.
    pub(crate) fn add_to(&self, report: &mut ListingReport) {
        let counts = &mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        report.losses += std::mem::take(&mut counts.losses);
        let Some(found) = self.owners.get() else {
            return;
        };
        match found {
            Ok((owners, lookup)) => {
                report.processes_hidden |= owners.hides_processes();
                report.owners.get_or_insert_with(|| lookup.clone());
            }
            Err(error) => report.workloads_error = Some(error.to_string()),
        }
    }
}

/// The workloads of the sockets of a pass.
#[derive(Debug)]
pub(crate) struct SocketWorkloads<'a> {
    pub(crate) context: &'a QueryContext,
    /// Whether entries have their owners; if not, they are searched when they are first needed.
    pub(crate) has_owners: bool,
    pub(crate) processes: &'a SampledProcesses,
    /// The kinds that something asked for; others are not looked up.
    pub(crate) kinds: &'a [WorkloadKind],
}

impl SocketWorkloads<'_> {
    fn names(&self) -> &WorkloadNames {
        self.context.names().workloads()
    }

    /// Returns the owners from a search during the pass.
    fn search(&self, socket: &Socket) -> &[Owner] {
        let Some(inode) = socket.inode.filter(|_| !self.has_owners) else {
            return &[];
        };
        let found = self.processes.owners.get_or_init(|| {
            let found = Owners::find(&self.context.engine, self.context.choice);
            if let Ok((owners, _)) = &found {
                let mut counts = self
                    .processes
                    .counts
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                counts.losses += owners.losses();
            }
            found
        });
        found.as_ref().map_or(&[], |(owners, _)| owners.of(inode))
    }

    /// Returns the workload of one owner: read once for each process.
    fn of_owner(&self, kind: WorkloadKind, socket: &Socket, owner: &Owner) -> Option<WorkloadId> {
        let key = (kind, owner.process.pid);
        let known = || {
            self.processes
                .known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(known) = known().get(&key) {
            return *known;
        }
        let names = self.names();
        let found = match kind {
            WorkloadKind::Exe => names.executable(socket, owner),
            _ => names.of_owner(socket, owner).map(|of| names.id(of, kind)),
        };
        match found {
            Ok(id) => {
                known().insert(key, id);
                id
            }
            // Another of its sockets may still be there.
            Err(NoWorkload::Ended) => None,
            Err(NoWorkload::Unreadable) => {
                let mut counts = self
                    .processes
                    .counts
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if counts.unreadable.insert(owner.process.pid) {
                    counts.losses.unreadable_processes += 1;
                }
                known().insert(key, None);
                None
            }
        }
    }
}

impl Workloads for SocketWorkloads<'_> {
    fn visit(
        &self,
        kind: WorkloadKind,
        socket: &Socket,
        owners: Option<&[Owner]>,
        visit: &mut dyn FnMut(WorkloadId),
    ) -> Option<WorkloadSource> {
        if !self.kinds.contains(&kind) {
            return None;
        }
        let names = self.names();
        let own = socket
            .cgroup
            .filter(|_| kind != WorkloadKind::Exe)
            .and_then(|id| self.context.names().cgroup_workloads(id));
        if let Some(own) = own
            && !own.is_vague()
            && names.uses_only_cgroup2()
        {
            visit(names.id(own, kind)?);
            return Some(WorkloadSource::Socket);
        }
        let owners = owners.unwrap_or_else(|| self.search(socket));
        let mut seen: Option<WorkloadId> = None;
        let mut others: Vec<WorkloadId> = Vec::new();
        // A process may own the same socket by several descriptors, which are adjacent.
        for of_one in owners.chunk_by(|a, b| a.process.pid == b.process.pid) {
            let Some(id) = of_one.iter().find_map(|owner| self.of_owner(kind, socket, owner)) else {
                continue;
            };
            if seen == Some(id) || others.contains(&id) {
                continue;
            }
            if seen.is_some() {
                others.push(id);
            }
            seen = seen.or(Some(id));
            visit(id);
        }
        if seen.is_some() {
            return Some(WorkloadSource::Owner);
        }
        // Without an owner. The root is where every socket is that has no other cgroup.
        let own = own.filter(|own| !own.is_vague())?;
        visit(names.id(own, kind)?);
        Some(WorkloadSource::Socket)
    }

    fn names(&self, id: WorkloadId, visit: &mut dyn FnMut(&str)) {
        self.names().visit_names(id, visit);
    }
}
