//! What a process is doing and what descriptors it has: `host/source/src/vitals/` reads it for `check`.

use crate::{Process, ShortText};

/// The descriptors of a process, and their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// The process
    pub process: Process,
    /// Open descriptors, and the soft limit (`RLIMIT_NOFILE`)
    pub fill: super::Fill,
    /// Hard limit; `None` if unlimited
    pub hard_max: Option<u64>,
    /// What the descriptors are; `None` if they may not be read, or were not
    pub kinds: Option<DescriptorKinds>,
}

/// What the descriptors of a process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DescriptorKinds {
    /// Sockets
    pub sockets: u64,
    /// Of these, sockets that are in no table of the kernel: neither connected nor bound, because their connection was
    /// reset or failed, or because they were never used
    pub unlisted_sockets: Option<u64>,
    /// Pipes
    pub pipes: u64,
    /// Files with a path: ordinary files, folders, devices
    pub files: u64,
    /// Everything else: epoll, eventfd, timerfd, inotify, memfd, ...
    pub others: u64,
}

/// State of a process, of its first thread that has not ended (`/proc/PID/stat`, `/proc/PID/wchan`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessState {
    /// The kernel's letter: `R` running, `S` asleep, `D` in uninterruptible sleep, `T` stopped, `t` stopped by a debugger
    pub letter: u8,
    /// Function of the kernel that it waits in; empty if unknown
    pub waits_in: ShortText<32>,
    /// Whether that is another thread than the first, which has ended
    pub is_other_thread: bool,
    /// Threads that are at work: they run, or wait for something else than for a lock, a connection or data of a socket. 0 if
    /// the first one is, as it does not leave the work to others
    pub threads_at_work: u32,
    /// The process that traces it: a debugger
    pub tracer: Option<Process>,
    /// Whether its cgroup is frozen
    pub is_frozen: bool,
}

impl ProcessState {
    /// A state of which only the letter and the function that it waits in are known.
    #[must_use]
    pub const fn new(letter: u8, waits_in: ShortText<32>) -> Self {
        Self {
            letter,
            waits_in,
            is_other_thread: false,
            threads_at_work: 0,
            tracer: None,
            is_frozen: false,
        }
    }

    /// Whether it is stopped, by a signal, a debugger or the freezer of its cgroup.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.letter, b'T' | b't') || self.is_frozen
    }

    /// The state in a word; `None` if the letter is unknown.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self.letter {
            _ if self.is_frozen => "frozen",
            b'R' => "running",
            b'S' => "asleep",
            b'D' => "in uninterruptible sleep",
            b'T' => "stopped",
            b't' => "stopped by a debugger",
            b'Z' => "a zombie",
            _ => return None,
        })
    }
}
