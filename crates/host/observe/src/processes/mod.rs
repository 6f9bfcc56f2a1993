//! The observed processes: their names, starts and ends, and executable mappings.
//!
//! Sources are perf's events, in the order of their times, and `/proc` for processes that existed before.

mod event;
mod layout;
pub(crate) mod proc_files;
mod state;

pub(crate) use event::ProcessEvent;

use crate::{FileNumber, Incarnation, Mapping, Scope};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use proc_files::CgroupMembership;
use rustix::io::Errno;
use state::{ProcessState, Program};
use std::io;
use std::sync::Arc;

/// Called for each mapping of a process, to open its file while the process exists: [`crate::Symbols::add_mapping`].
pub(crate) type OnMapping<'a> = dyn FnMut(u32, &Mapping) -> FileNumber + 'a;

/// The observed processes.
#[derive(Debug)]
pub(crate) struct Processes {
    scope: Scope,
    own_pid: u32,
    known: HashMap<u32, ProcessState>,
    /// Cache of processes that are not in scope.
    out_of_scope: HashSet<u32>,
    /// Whether events of processes outside the scope arrive too.
    unfiltered_events: bool,
    membership: Option<CgroupMembership>,
    /// By process: execs that were announced but not applied yet.
    pending_execs: HashMap<u32, u32>,
    /// Number of loss events: after each one, layouts may be outdated.
    loss_count: u32,
    /// Number of lost events.
    lost: u64,
    /// Number of processes and mappings that could not be read or did not fit.
    unread: u64,
}

impl Processes {
    /// Returns the processes that `scope` names; others are added later.
    pub(crate) fn new(scope: &Scope) -> Self {
        let mut processes = Self {
            scope: scope.clone(),
            own_pid: std::process::id(),
            known: HashMap::new(),
            out_of_scope: HashSet::new(),
            unfiltered_events: true,
            membership: None,
            pending_execs: HashMap::new(),
            loss_count: 0,
            lost: 0,
            unread: 0,
        };
        match scope {
            Scope::Processes(pids) => {
                for &pid in pids {
                    processes.ensure_known(pid);
                }
            }
            Scope::Cgroup { folder, .. } => processes.membership = Some(CgroupMembership::new(folder)),
            Scope::System => {}
        }
        processes
    }

    /// Reads the existing processes: their names and, except for the whole system, their mappings. Call it when events are
    /// already recorded, so that no process is missed in between.
    pub(crate) fn scan_existing(&mut self, on_mapping: &mut OnMapping<'_>) {
        match &self.scope {
            Scope::Processes(pids) => {
                for pid in pids.clone() {
                    self.read(pid, on_mapping);
                }
            }
            Scope::Cgroup { folder, .. } => {
                for pid in proc_files::cgroup_pids(folder) {
                    if pid != self.own_pid {
                        self.ensure_known(pid);
                        self.read(pid, on_mapping);
                    }
                }
            }
            // There may be thousands: mappings are read on the first sample.
            Scope::System => {
                for pid in proc_files::all_pids() {
                    if pid != self.own_pid {
                        self.ensure_known(pid);
                    }
                }
            }
        }
    }

    /// Announces an event that was read and will be applied later. Until then `/proc` may already show the program after
    /// an exec.
    pub(crate) fn announce(&mut self, event: &ProcessEvent) {
        if let ProcessEvent::Exec { pid, .. } = event {
            *self.pending_execs.entry(*pid).or_default() += 1;
        }
    }

    /// Applies an event. Events must arrive in the order of their times.
    pub(crate) fn apply(&mut self, event: ProcessEvent, on_mapping: &mut OnMapping<'_>) {
        match event {
            ProcessEvent::Exec { pid, name } => {
                // It may have been moved to another cgroup.
                self.out_of_scope.remove(&pid);
                if let Some(to_come) = self.pending_execs.get_mut(&pid) {
                    *to_come -= 1;
                    if *to_come == 0 {
                        self.pending_execs.remove(&pid);
                    }
                }
                if self.is_in_scope(pid) {
                    self.ensure_known(pid);
                    let loss_count = self.loss_count;
                    if let Some(known) = self.known.get_mut(&pid) {
                        known.exec(name, loss_count);
                    }
                }
            }
            ProcessEvent::Renamed { pid, name } => {
                if let Some(known) = self.known.get_mut(&pid) {
                    known.name = name;
                }
            }
            ProcessEvent::Mapped { pid, mapping } => {
                // A layout that is read later includes it.
                let program = self
                    .known
                    .get_mut(&pid)
                    .and_then(|known| known.programs.last_mut());
                if let Some(program) = program.filter(|program| program.complete_at.is_some()) {
                    let file = on_mapping(pid, &mapping);
                    let is_inserted = Arc::make_mut(&mut program.layout).insert(&mapping, file);
                    self.unread += u64::from(!is_inserted);
                }
            }
            ProcessEvent::Fork { pid, parent } => self.fork(pid, parent, on_mapping),
            ProcessEvent::Exit { pid, tid } => {
                if let Some(known) = self.known.get_mut(&pid) {
                    known.is_leaderless |= pid == tid;
                    known.ended = known.is_leaderless;
                }
            }
            ProcessEvent::Lost(count) => {
                self.lost = self.lost.saturating_add(count);
                self.loss_count += 1;
                self.out_of_scope.clear();
            }
        }
    }

    /// Returns the incarnation of a process that was sampled; `None` if it is not in scope. Reads its mappings if they are
    /// not known yet. `is_kernel`: the sample is in the kernel, where a process may also be exiting.
    pub(crate) fn identify(
        &mut self,
        pid: u32,
        is_kernel: bool,
        on_mapping: &mut OnMapping<'_>,
    ) -> Option<Incarnation> {
        if !self.is_in_scope(pid) {
            return None;
        }
        self.ensure_known(pid);
        self.read(pid, on_mapping);
        let known = self.known.get_mut(&pid)?;
        // Other threads than the first may still run.
        known.ended &= is_kernel;
        Some(Incarnation {
            pid,
            execs: known.execs(),
        })
    }

    /// Adds a process that another observer (BPF) found in scope, and reads its mappings.
    pub(crate) fn add(&mut self, pid: u32, on_mapping: &mut OnMapping<'_>) {
        if pid != 0 && !self.known.contains_key(&pid) {
            self.ensure_known(pid);
        }
        self.read(pid, on_mapping);
    }

    /// Returns the file and offset of an address, for [`crate::Symbols::user`]; `None` if no mapping contains it.
    ///
    /// If the address had several mappings, or the pid several processes, over time, the last one counts.
    pub(crate) fn locate(&self, process: Incarnation, address: u64) -> Option<(FileNumber, u64)> {
        let known = self.known.get(&process.pid)?;
        // BPF may have begun to count execs a moment before us.
        let last = known.programs.len().checked_sub(1)?;
        let index = process.execs.checked_sub(known.dropped_programs)? as usize;
        known.programs.get(index.min(last))?.layout.locate(address)
    }

    /// Returns the files that have code in the current program of a process, each once.
    pub(crate) fn files(&self, pid: u32) -> Vec<FileNumber> {
        let program = self.known.get(&pid).and_then(|known| known.programs.last());
        program.map(|program| program.layout.files()).unwrap_or_default()
    }

    /// Returns all known processes, sorted by pid.
    pub(crate) fn all(&self) -> Vec<sockeye_profile::Process> {
        let mut all: Vec<_> = self
            .known
            .iter()
            .map(|(&pid, known)| sockeye_profile::Process {
                pid,
                name: String::from_utf8_lossy(&known.name).into_owned(),
                began: known.began,
                ended: known.ended,
            })
            .collect();
        all.sort_unstable_by_key(|process| process.pid);
        all
    }

    /// Returns the pids of the observed processes that have not ended.
    pub(crate) fn alive(&self) -> impl Iterator<Item = u32> + '_ {
        self.known
            .iter()
            .filter(|(_, known)| !known.ended)
            .map(|(&pid, _)| pid)
    }

    /// Returns whether all observed processes have ended; always false for the whole system.
    pub(crate) fn all_ended(&self) -> bool {
        !self.scope.is_system() && self.alive().next().is_none()
    }

    /// Returns the number of lost events, and of processes and mappings that did not fit or could not be read:
    /// [`sockeye_profile::Losses::events`].
    pub(crate) const fn losses(&self) -> u64 {
        self.lost.saturating_add(self.unread)
    }

    /// Sets whether events of processes outside the scope arrive too.
    pub(crate) fn set_unfiltered_events(&mut self, unfiltered_events: bool) {
        self.unfiltered_events = unfiltered_events;
    }

    fn fork(&mut self, pid: u32, parent: u32, on_mapping: &mut OnMapping<'_>) {
        if pid == parent || pid == self.own_pid || !self.is_in_scope(parent) {
            // The pid may have been reused.
            self.out_of_scope.remove(&pid);
            return;
        }
        self.out_of_scope.remove(&pid);
        self.ensure_known(parent);
        self.read(parent, on_mapping);
        let Some((name, program)) = self.known.get(&parent).and_then(|known| {
            let program = known.programs.last()?;
            Some((known.name.clone(), program.clone()))
        }) else {
            return;
        };
        self.insert(pid, ProcessState::new(name, true, program));
    }

    /// Returns whether a process is in scope.
    fn is_in_scope(&mut self, pid: u32) -> bool {
        if self.known.contains_key(&pid) {
            return true;
        }
        if matches!(pid, 0 | u32::MAX) || pid == self.own_pid || self.out_of_scope.contains(&pid) {
            return false;
        }
        let in_scope = match &self.scope {
            Scope::System => true,
            Scope::Cgroup { .. } => {
                let membership = self.membership.as_ref();
                !self.unfiltered_events || membership.is_some_and(|membership| membership.includes(pid))
            }
            // Its fork event may be lost.
            Scope::Processes(_) => {
                self.loss_count > 0
                    && proc_files::parent(pid).is_some_and(|parent| self.known.contains_key(&parent))
            }
        };
        if !in_scope {
            if self.out_of_scope.len() >= PROCESSES_MAX {
                self.out_of_scope.clear();
            }
            self.out_of_scope.insert(pid);
        }
        in_scope
    }

    /// Adds a process with its name from `/proc`, unless it is known.
    fn ensure_known(&mut self, pid: u32) {
        if !self.known.contains_key(&pid) {
            let name = proc_files::name(pid).unwrap_or_default();
            self.insert(pid, ProcessState::new(name, false, Program::default()));
        }
    }

    fn insert(&mut self, pid: u32, known: ProcessState) {
        if self.known.len() >= PROCESSES_MAX && !self.known.contains_key(&pid) {
            self.unread += 1;
            return;
        }
        self.known.insert(pid, known);
    }

    /// Reads the mappings of a process, unless its layout is complete.
    fn read(&mut self, pid: u32, on_mapping: &mut OnMapping<'_>) {
        let now = self.loss_count;
        let will_exec = self.pending_execs.contains_key(&pid);
        let Some(known) = self.known.get_mut(&pid).filter(|_| !will_exec) else {
            return;
        };
        let has_name = !known.name.is_empty();
        let Some(program) = known.programs.last_mut() else {
            return;
        };
        if program.complete_at == Some(now) {
            return;
        }
        program.complete_at = Some(now);
        match proc_files::mappings(pid) {
            Ok(mappings) => {
                let layout = Arc::make_mut(&mut program.layout);
                for mapping in mappings {
                    let file = on_mapping(pid, &mapping);
                    self.unread += u64::from(!layout.insert(&mapping, file));
                }
            }
            Err(error) => {
                self.unread += 1;
                known.ended |= is_gone(&error);
            }
        }
        if !has_name && let Some(name) = proc_files::name(pid) {
            known.name = name;
        }
    }
}

/// Returns whether the error means that there is no such process.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// The most processes; further ones count as losses.
const PROCESSES_MAX: usize = 131_072;

#[cfg(test)]
mod tests {
    use super::*;

    /// Pids that no process has: above the maximum of `kernel.pid_max`.
    const A: u32 = 5_000_000;
    const B: u32 = 5_000_001;

    fn mapping(start: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            offset: 0x2000,
            device: (8, 1),
            inode: 1,
            path: path.into(),
        }
    }

    /// Numbers files by the first byte of their paths: `b"a"` is 97.
    fn by_path(_: u32, mapping: &Mapping) -> FileNumber {
        FileNumber(mapping.path.first().copied().unwrap_or(0).into())
    }

    fn applied(scope: &Scope, events: Vec<ProcessEvent>) -> Processes {
        let mut processes = Processes::new(scope);
        for event in events {
            processes.apply(event, &mut by_path);
        }
        processes
    }

    fn exec(pid: u32, name: &str) -> ProcessEvent {
        ProcessEvent::Exec {
            pid,
            name: name.into(),
        }
    }

    fn mapped(pid: u32, start: u64, path: &str) -> ProcessEvent {
        ProcessEvent::Mapped {
            pid,
            mapping: mapping(start, path),
        }
    }

    const fn at(pid: u32, execs: u32) -> Incarnation {
        Incarnation { pid, execs }
    }

    #[test]
    fn children_are_followed_through_fork_and_exec() {
        let processes = applied(
            &Scope::Processes(vec![A]),
            vec![
                exec(A, "one"),
                mapped(A, 0x1000, "a"),
                ProcessEvent::Fork { pid: B, parent: A },
                mapped(B, 0x5000, "c"),
                exec(B, "two"),
                mapped(B, 0x1000, "b"),
                exec(7, "other"),
                ProcessEvent::Exit { pid: A, tid: A },
            ],
        );
        // The child began as a copy; its later mappings are its own.
        assert_eq!(processes.locate(at(B, 0), 0x1010), Some((FileNumber(97), 0x2010)));
        assert_eq!(processes.locate(at(B, 0), 0x5000), Some((FileNumber(99), 0x2000)));
        assert_eq!(processes.locate(at(A, 1), 0x5000), None);
        assert_eq!(processes.locate(at(B, 1), 0x1010), Some((FileNumber(98), 0x2010)));
        assert_eq!(processes.locate(at(B, 1), 0x5000), None);
        let all: Vec<_> = processes
            .all()
            .into_iter()
            .map(|it| (it.pid, it.name, it.began, it.ended))
            .collect();
        assert_eq!(
            all,
            [(A, "one".into(), false, true), (B, "two".into(), true, false)]
        );
        assert!(!processes.all_ended());
    }

    #[test]
    fn layout_is_not_read_before_announced_exec() {
        let pid = std::process::id();
        let mut processes = Processes::new(&Scope::Processes(vec![pid]));
        processes.announce(&exec(pid, "x"));
        let here = by_path as fn(u32, &Mapping) -> FileNumber as usize as u64;
        assert_eq!(processes.identify(pid, false, &mut by_path), Some(at(pid, 0)));
        assert_eq!(processes.locate(at(pid, 0), here), None);
        processes.apply(exec(pid, "x"), &mut by_path);
        assert_eq!(processes.identify(pid, false, &mut by_path), Some(at(pid, 1)));
        // Its mappings since the exec would have been reported by events.
        assert_eq!(processes.locate(at(pid, 1), here), None);
        processes.apply(ProcessEvent::Lost(1), &mut by_path);
        processes.identify(pid, false, &mut by_path);
        assert!(processes.locate(at(pid, 1), here).is_some());
    }

    #[test]
    fn processes_out_of_scope_are_ignored() {
        let mut processes = applied(
            &Scope::Processes(vec![A]),
            vec![ProcessEvent::Fork { pid: 9, parent: 8 }, exec(9, "x")],
        );
        assert_eq!(processes.identify(9, false, &mut by_path), None);
        assert_eq!(processes.identify(0, false, &mut by_path), None);
        assert_eq!(processes.identify(A, false, &mut by_path), Some(at(A, 0)));
    }

    #[test]
    fn system_scope_excludes_own_process() {
        let mut processes = applied(&Scope::System, vec![exec(A, "x"), mapped(A, 0, "a")]);
        assert_eq!(processes.identify(A, false, &mut by_path), Some(at(A, 1)));
        assert_eq!(processes.identify(std::process::id(), false, &mut by_path), None);
        // A child of ours, which becomes the command, is in scope.
        let parent = std::process::id();
        processes.apply(ProcessEvent::Fork { pid: B, parent }, &mut by_path);
        assert_eq!(processes.identify(B, false, &mut by_path), Some(at(B, 0)));
    }

    #[test]
    fn process_ends_with_its_last_thread() {
        let mut processes = applied(
            &Scope::System,
            vec![exec(A, "x"), ProcessEvent::Exit { pid: A, tid: A }],
        );
        assert!(processes.all()[0].ended);
        processes.identify(A, true, &mut by_path);
        assert!(processes.all()[0].ended, "it is exiting");
        processes.identify(A, false, &mut by_path);
        assert!(!processes.all()[0].ended);
        processes.apply(ProcessEvent::Exit { pid: A, tid: B }, &mut by_path);
        assert!(processes.all()[0].ended);
    }

    #[test]
    fn reused_pid_is_a_new_process() {
        let processes = applied(
            &Scope::Processes(vec![A]),
            vec![
                ProcessEvent::Fork { pid: B, parent: A },
                exec(B, "x"),
                ProcessEvent::Exit { pid: B, tid: B },
                ProcessEvent::Fork { pid: B, parent: A },
            ],
        );
        let b = &processes.all()[1];
        assert_eq!((b.name.as_str(), b.ended), ("", false));
    }

    #[test]
    fn programs_per_process_are_limited() {
        let mut events = vec![];
        for number in 0..200 {
            events.push(exec(A, "x"));
            events.push(mapped(A, 0x1000 * number, "a"));
        }
        let processes = applied(&Scope::Processes(vec![A]), events);
        assert_eq!(
            processes.locate(at(A, 200), 0x1000 * 199 + 1),
            Some((FileNumber(97), 0x2001))
        );
        assert_eq!(
            processes.locate(at(A, 199), 0x1000 * 198),
            Some((FileNumber(97), 0x2000))
        );
        assert_eq!(processes.locate(at(A, 2), 0x1000), None);
    }

    #[test]
    fn losses_make_layouts_outdated() {
        let mut processes = applied(&Scope::System, vec![exec(A, "x"), ProcessEvent::Lost(3)]);
        assert_eq!(processes.losses(), 3);
        processes.identify(A, false, &mut by_path);
        assert_eq!(processes.losses(), 4, "it is not in /proc");
        processes.identify(A, false, &mut by_path);
        assert_eq!(processes.losses(), 4);
    }

    #[test]
    fn scan_existing_reads_own_process() {
        let mut processes = Processes::new(&Scope::Processes(vec![std::process::id()]));
        let mut paths = vec![];
        processes.scan_existing(&mut |_, mapping| {
            paths.push(mapping.path.clone());
            FileNumber(paths.len() as u32)
        });
        let here = scan_existing_reads_own_process as fn() as usize as u64;
        let own = std::env::current_exe().unwrap();
        let (file, _) = processes.locate(at(std::process::id(), 0), here).unwrap();
        assert_eq!(paths[file.0 as usize - 1], own.as_os_str().as_encoded_bytes());
        assert!(paths.iter().any(|path| path == b"[vdso]"));
        assert_eq!(processes.files(std::process::id()).len(), paths.len());
        assert!(!processes.all()[0].name.is_empty());
    }
}
