//! What filters test of the processes of events: group, executable, container and unit. They are read when an event is read: a process may end
//! before its event is shown.

use crate::context::QueryContext;
use sockeye_filter::Filter;
use sockeye_model::{CgroupId, Names as _};
use sockeye_model::{Owner, Pgid, Pid, Process, Socket, WorkloadId, WorkloadKind, WorkloadSource, Workloads};
use sockeye_source::names::process_group;
use std::collections::HashMap;

/// The processes of the last events.
#[derive(Debug)]
pub struct EventProcesses {
    has_groups: bool,
    kinds: Vec<WorkloadKind>,
    known: HashMap<Pid, Known>,
}

#[derive(Debug)]
struct Known {
    process: Process,
    read_ns: u64,
    group: Option<Pgid>,
    workloads: Vec<(WorkloadKind, WorkloadId)>,
}

impl EventProcesses {
    /// Prepares what a filter tests; `None` if that is nothing of this.
    #[must_use]
    pub fn of_filter(filter: &Filter) -> Option<Self> {
        let has = |word: &str| filter.has_word(&|other| other == word);
        let all = [WorkloadKind::Container, WorkloadKind::Unit, WorkloadKind::Exe];
        let kinds: Vec<_> = all.into_iter().filter(|kind| has(kind.name())).collect();
        let has_groups = has("pgid");
        (has_groups || !kinds.is_empty()).then(|| Self {
            has_groups,
            kinds,
            known: HashMap::new(),
        })
    }

    /// Reads what is known of a process, unless it was read in the last second.
    pub fn note(&mut self, context: &QueryContext, process: &Process, time_ns: u64) {
        let is_known = self.known.get(&process.pid).is_some_and(|known| {
            known.process.comm == process.comm && time_ns.saturating_sub(known.read_ns) < INTERVAL_NS
        });
        if is_known {
            return;
        }
        if self.known.len() >= PROCESSES_MAX {
            self.known.clear();
        }
        let names = context.names().workloads();
        let read = |kind: WorkloadKind| {
            let found = match kind {
                WorkloadKind::Exe => names.executable_of_process(process.pid).ok()?,
                _ => names.id(names.of_process(process.pid).ok()?, kind),
            };
            found.map(|id| (kind, id))
        };
        let mut workloads: Vec<_> = self.kinds.iter().filter_map(|kind| read(*kind)).collect();
        // It also says whether this is still the process: after the rest was read.
        let group = process_group(process);
        if group.is_none() {
            workloads.clear();
        }
        let known = Known {
            process: *process,
            read_ns: time_ns,
            group: group.filter(|_| self.has_groups),
            workloads,
        };
        self.known.insert(process.pid, known);
    }

    fn of(&self, process: &Process) -> Option<&Known> {
        let known = self.known.get(&process.pid)?;
        (known.process.comm == process.comm).then_some(known)
    }

    /// Returns a process with its group, if that is known.
    #[must_use]
    pub fn with_group(&self, process: Process) -> Process {
        Process {
            pgid: process.pgid.or_else(|| self.of(&process)?.group),
            ..process
        }
    }

    /// Returns the workloads of sockets of events. `cgroups` has the paths of cgroups that may be younger than `context`.
    #[must_use]
    pub fn workloads<'a>(
        &'a self,
        context: &'a QueryContext,
        cgroups: &'a QueryContext,
    ) -> EventWorkloads<'a> {
        EventWorkloads {
            processes: self,
            context,
            cgroups,
        }
    }
}

/// The workloads of sockets of events.
#[derive(Debug)]
pub struct EventWorkloads<'a> {
    processes: &'a EventProcesses,
    context: &'a QueryContext,
    cgroups: &'a QueryContext,
}

impl EventWorkloads<'_> {
    fn of_cgroup(&self, id: CgroupId) -> Option<&sockeye_source::names::CgroupWorkloads> {
        let names = self.context.names();
        names
            .cgroup_workloads(id)
            .or_else(|| names.cgroup_workloads_at(id, self.cgroups.cgroup(id)?))
    }
}

impl Workloads for EventWorkloads<'_> {
    fn visit(
        &self,
        kind: WorkloadKind,
        socket: &Socket,
        owners: Option<&[Owner]>,
        visit: &mut dyn FnMut(WorkloadId),
    ) -> Option<WorkloadSource> {
        let names = self.context.names().workloads();
        let own = socket
            .cgroup
            .filter(|_| kind != WorkloadKind::Exe)
            .and_then(|id| self.of_cgroup(id));
        let has_only_cgroup2 = names.uses_only_cgroup2();
        if let Some(own) = own.filter(|own| !own.is_vague() && has_only_cgroup2) {
            visit(names.id(own, kind)?);
            return Some(WorkloadSource::Socket);
        }
        let mut seen: Vec<WorkloadId> = Vec::new();
        for owner in owners.unwrap_or_default() {
            let known = self.processes.of(&owner.process);
            let of_kind = known.and_then(|known| known.workloads.iter().find(|(of, _)| *of == kind));
            if let Some((_, id)) = of_kind.filter(|(_, id)| !seen.contains(id)) {
                seen.push(*id);
                visit(*id);
            }
        }
        if !seen.is_empty() {
            return Some(WorkloadSource::Owner);
        }
        // A process that has ended. Where all cgroups are v2, one that made its socket in the root was there itself.
        let own = own.filter(|own| !own.is_vague() || (own.is_root() && has_only_cgroup2))?;
        visit(names.id(own, kind)?);
        Some(WorkloadSource::Socket)
    }

    fn names(&self, id: WorkloadId, visit: &mut dyn FnMut(&str)) {
        self.context.names().workloads().visit_names(id, visit);
    }
}

/// After so long a process is read again: the number may be that of another one.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The most processes that are kept.
const PROCESSES_MAX: usize = 4096;

/// Words of filters for what each event of a connection has.
pub const EVENT_WORDS: &[&str] = &[
    "state",
    "src",
    "dst",
    "sport",
    "dport",
    "dev",
    "fwmark",
    "cgroup",
    "autobound",
    "owner",
    "container",
    "unit",
    "exe",
    "proto",
    "family",
    "peers",
    "pid",
    "pgid",
    "uid",
    "netns",
    "inode",
    "cookie",
    "mark",
];
/// Words for counters, which its close has. Other events match no condition on them.
pub const CLOSE_WORDS: &[&str] = &[
    "rtt",
    "min_rtt",
    "retrans",
    "bytes_sent",
    "bytes_acked",
    "bytes_received",
    "bytes_retrans",
    "segs_out",
    "segs_in",
    "data_segs_out",
    "data_segs_in",
    "dsack_dups",
];
