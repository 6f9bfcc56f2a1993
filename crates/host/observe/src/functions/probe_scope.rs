//! In which processes a file's functions are watched.
//!
//! A uprobe belongs to a file. By default the kernel inserts it into every process that maps the file, also those that are
//! not observed, and each of them is slowed. For the user's own program that is right: its children are observed from
//! their first instruction. For the C library it would slow the whole machine.

use crate::Scope;
use sockeye_wire::proc_maps;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// The processes in which the functions of a file are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeScope {
    /// Every process that maps the file, now or later.
    AllProcesses,
    /// Each observed process separately; children as soon as they are known.
    EachProcess,
    /// None: too many functions, too many other processes would be slowed.
    Nowhere,
}

impl ProbeScope {
    /// Decides for a number of functions of a file. `others`: number of processes out of scope that map it (for the whole
    /// system: of all that map it); `exact_children`: children must be observed from their first instruction;
    /// `per_process`: the kernel can watch in single processes.
    pub(super) fn new(
        scope: &Scope,
        functions: usize,
        others: usize,
        exact_children: bool,
        per_process: bool,
    ) -> Self {
        let few = functions <= FUNCTIONS_OF_OTHERS_MAX;
        match scope {
            _ if others <= usize::from(scope.is_system()) => Self::AllProcesses,
            Scope::System if functions <= FUNCTIONS_OF_SHARED_MAX => Self::AllProcesses,
            Scope::System => Self::Nowhere,
            Scope::Processes(_) | Scope::Cgroup { .. } if exact_children && few => Self::AllProcesses,
            _ if functions > FUNCTIONS_OF_SHARED_MAX => Self::Nowhere,
            _ if per_process => Self::EachProcess,
            _ if few => Self::AllProcesses,
            _ => Self::Nowhere,
        }
    }
}

/// A cache of which processes map which files.
#[derive(Debug, Default)]
pub(super) struct FileUsers {
    /// Pids by device and inode.
    by_file: HashMap<((u32, u32), u64), Vec<u32>>,
    /// When it was last read.
    read: Option<Instant>,
    /// Whether all processes were read then.
    is_complete: bool,
}

impl FileUsers {
    /// Returns how many processes that fulfil a condition map a file as code. Where reading took too long, those that were not read count
    /// as one that does: what is not known must not slow the whole machine.
    pub(super) fn count(&mut self, file: &File, condition: impl Fn(u32) -> bool) -> usize {
        if self.read.is_none_or(|read| read.elapsed() > MAX_AGE) {
            self.read(READ_TIME_MAX);
        }
        let known = self.of(file).iter().filter(|user| condition(**user)).count();
        known + usize::from(!self.is_complete)
    }

    fn of(&self, file: &File) -> &[u32] {
        let key = file.metadata().ok().map(|file| {
            let device = file.dev();
            let device = (rustix::fs::major(device), rustix::fs::minor(device));
            (device, file.ino())
        });
        key.and_then(|key| self.by_file.get(&key))
            .map_or(&[], Vec::as_slice)
    }

    fn read(&mut self, time_max: Duration) {
        let began = Instant::now();
        self.is_complete = true;
        self.by_file.clear();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for number in numbers {
            // A process that has ended or is not ours to read does not count.
            let maps = std::fs::read(format!("/proc/{number}/maps")).unwrap_or_default();
            for line in proc_maps::executable(&maps).filter(|line| line.inode != 0) {
                let users = self.by_file.entry((line.device, line.inode)).or_default();
                if users.last() != Some(&number) {
                    users.push(number);
                }
            }
            if began.elapsed() > time_max {
                self.is_complete = false;
                break;
            }
        }
        self.read = Some(Instant::now());
    }
}

/// The most functions of a shared file that are watched in processes out of scope.
const FUNCTIONS_OF_OTHERS_MAX: usize = 16;

/// The most functions of a shared file that are watched at all.
pub(super) const FUNCTIONS_OF_SHARED_MAX: usize = 256;

/// The cache is read again after this time.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The longest time for reading, on machines with tens of thousands of processes.
const READ_TIME_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_depends_on_number_of_functions_and_other_users() {
        let some = Scope::Processes(vec![1]);
        let system = Scope::System;
        for (scope, functions, others, exact_children, per_process, expected) in [
            (&some, 5000, 0, false, true, ProbeScope::AllProcesses),
            (&some, 1, 1, false, true, ProbeScope::EachProcess),
            (&some, 1, 1, false, false, ProbeScope::AllProcesses),
            (&some, 17, 1, false, false, ProbeScope::Nowhere),
            (&some, 1, 1, true, true, ProbeScope::AllProcesses),
            (&some, 17, 1, true, true, ProbeScope::EachProcess),
            (&some, 257, 1, true, true, ProbeScope::Nowhere),
            (&system, 5000, 1, false, true, ProbeScope::AllProcesses),
            (&system, 256, 2, false, true, ProbeScope::AllProcesses),
            (&system, 257, 2, false, true, ProbeScope::Nowhere),
        ] {
            let found = ProbeScope::new(scope, functions, others, exact_children, per_process);
            assert_eq!(
                found, expected,
                "{scope:?} {functions} {others} {exact_children} {per_process}"
            );
        }
    }

    #[test]
    fn own_process_maps_own_file() {
        let own = File::open("/proc/self/exe").unwrap();
        let mut users = FileUsers::default();
        users.read(Duration::MAX);
        assert!(users.of(&own).contains(&std::process::id()));
        assert!(users.is_complete);
        users.read(Duration::ZERO);
        assert!(!users.is_complete);
    }
}
