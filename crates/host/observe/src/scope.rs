//! Selection of the processes of a `Session`; `prof` builds it from its arguments. `Processes`, the perf
//! events and the BPF programs of `calls` and `functions` are limited to it.

use std::path::PathBuf;

/// The processes to observe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// These processes, with all their threads and future children.
    Processes(Vec<u32>),
    /// All processes in a cgroup (v2) and in its descendants.
    Cgroup {
        /// Its folder in cgroupfs.
        folder: PathBuf,
        /// Its id: the inode of its folder.
        id: u64,
    },
    /// All processes.
    System,
}

impl Scope {
    /// Returns whether all processes are observed.
    pub(crate) const fn is_system(&self) -> bool {
        matches!(self, Self::System)
    }
}
