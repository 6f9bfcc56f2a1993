//! In which processes a file's functions are watched.
//!
//! A uprobe belongs to a file: without more said the kernel puts it into every process that has the file mapped, and each of
//! them is stopped at it, whoever is looked at. Of a program of one's own that is what one wants, for its children are seen
//! from their first instruction on. Of the C library it would slow the whole machine.

use crate::Scope;
use sockeye_wire::proc_maps;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// In whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// In every process that has the file mapped, or will.
    All,
    /// In each of those that are looked at, by itself; in their children from when we learn of them.
    Each,
    /// In nobody: too many functions for so many who would be slowed.
    Nobody,
}

impl Reach {
    /// For so many functions of a file that so many processes have mapped which are not looked at (of everybody: who have it
    /// mapped at all). `is_exact`: children must be seen from their first instruction on; `can_each`: the kernel can watch in
    /// some alone.
    pub(super) fn of(scope: &Scope, functions: usize, others: usize, is_exact: bool, can_each: bool) -> Self {
        let few = functions <= FUNCTIONS_OF_OTHERS_MAX;
        match scope {
            _ if others <= usize::from(scope.is_everybody()) => Self::All,
            Scope::System if functions <= FUNCTIONS_OF_SHARED_MAX => Self::All,
            Scope::System => Self::Nobody,
            Scope::Processes(_) | Scope::Cgroup { .. } if is_exact && few => Self::All,
            _ if functions > FUNCTIONS_OF_SHARED_MAX => Self::Nobody,
            _ if can_each => Self::Each,
            _ if few => Self::All,
            _ => Self::Nobody,
        }
    }
}

/// Who has which files mapped, as it was a moment ago.
#[derive(Debug, Default)]
pub(super) struct Users {
    of_files: HashMap<((u32, u32), u64), Vec<u32>>,
    read: Option<Instant>,
}

impl Users {
    /// Those that have it mapped to be executed, by number.
    pub(super) fn of(&mut self, file: &File) -> &[u32] {
        if self.read.is_none_or(|read| read.elapsed() > STALE) {
            self.read();
        }
        let key = file.metadata().ok().map(|file| {
            let device = file.dev();
            let device = (rustix::fs::major(device), rustix::fs::minor(device));
            (device, file.ino())
        });
        key.and_then(|key| self.of_files.get(&key))
            .map_or(&[], Vec::as_slice)
    }

    fn read(&mut self) {
        let began = Instant::now();
        self.of_files.clear();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for number in numbers {
            // Who has ended, or is not ours to see, does not count.
            let maps = std::fs::read(format!("/proc/{number}/maps")).unwrap_or_default();
            for line in proc_maps::executable(&maps).filter(|line| line.inode != 0) {
                let users = self.of_files.entry((line.device, line.inode)).or_default();
                if users.last() != Some(&number) {
                    users.push(number);
                }
            }
            // Those who were found are enough to know that there are many.
            if began.elapsed() > PATIENCE {
                break;
            }
        }
        self.read = Some(Instant::now());
    }
}

/// More functions of a file that others have mapped are not watched in them.
const FUNCTIONS_OF_OTHERS_MAX: usize = 16;

/// More functions of such a file are not watched at all.
pub(super) const FUNCTIONS_OF_SHARED_MAX: usize = 256;

/// Who is read again.
const STALE: Duration = Duration::from_secs(1);

/// For machines with tens of thousands of processes.
const PATIENCE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_spared() {
        let some = Scope::Processes(vec![1]);
        let everybody = Scope::System;
        for (scope, functions, others, is_exact, can_each, expected) in [
            (&some, 5000, 0, false, true, Reach::All),
            (&some, 1, 1, false, true, Reach::Each),
            (&some, 1, 1, false, false, Reach::All),
            (&some, 17, 1, false, false, Reach::Nobody),
            (&some, 1, 1, true, true, Reach::All),
            (&some, 17, 1, true, true, Reach::Each),
            (&some, 257, 1, true, true, Reach::Nobody),
            (&everybody, 5000, 1, false, true, Reach::All),
            (&everybody, 256, 2, false, true, Reach::All),
            (&everybody, 257, 2, false, true, Reach::Nobody),
        ] {
            let found = Reach::of(scope, functions, others, is_exact, can_each);
            assert_eq!(
                found, expected,
                "{scope:?} {functions} {others} {is_exact} {can_each}"
            );
        }
    }

    #[test]
    fn who_has_our_own_file() {
        let own = File::open("/proc/self/exe").unwrap();
        assert!(Users::default().of(&own).contains(&std::process::id()));
    }
}
