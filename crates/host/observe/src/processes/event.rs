//! The interface between `sampler`, which makes events from the records of perf, and `Processes`, which
//! applies them in the order of their times.

use crate::Mapping;

/// An event in the life of a process, from a perf record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProcessEvent {
    /// It executed another program.
    Exec {
        /// The process id.
        pid: u32,
        /// The new name.
        name: Vec<u8>,
    },
    /// It changed its name.
    Renamed {
        /// The process id.
        pid: u32,
        /// The new name.
        name: Vec<u8>,
    },
    /// It mapped executable memory.
    Mapped {
        /// The process id.
        pid: u32,
        /// The new mapping.
        mapping: Mapping,
    },
    /// A process was created.
    Fork {
        /// The child.
        pid: u32,
        /// The parent.
        parent: u32,
    },
    /// A thread ended.
    Exit {
        /// The process id.
        pid: u32,
        /// The thread id; equal to `pid` for the first thread.
        tid: u32,
    },
    /// This many events, of any kind, were lost.
    Lost(u64),
}
