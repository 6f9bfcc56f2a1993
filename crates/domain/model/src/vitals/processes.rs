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

/// State of a process, of its first thread (`/proc/PID/stat`, `/proc/PID/wchan`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessState {
    /// The kernel's letter: `R` running, `S` asleep, `D` in uninterruptible sleep, `T` stopped, `t` stopped by a debugger
    pub letter: u8,
    /// Function of the kernel that it waits in; empty if unknown
    pub waits_in: ShortText<32>,
}

impl ProcessState {
    /// Whether it is stopped, by a signal or a debugger.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.letter, b'T' | b't')
    }

    /// The state in a word; `None` if the letter is unknown.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self.letter {
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
