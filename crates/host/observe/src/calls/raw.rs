//! Result of `Calls::read`: system calls and waits by number, and losses, from the BPF maps. `since.rs`
//! subtracts an earlier result; `session/profile.rs` turns it into parts of a `Profile`.

use crate::{Incarnation, RawStack};
use sockeye_wire::calls::{COMPAT, NONE};

/// Counts of system calls and waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawCalls {
    /// Calls by process; `None` if not requested.
    pub(crate) syscalls: Option<Vec<RawSyscall>>,
    /// Waits by process, reason and stack; `None` if not requested.
    pub(crate) waits: Option<Vec<RawWait>>,
    /// Events that did not fit into the maps.
    pub(crate) losses: CallLosses,
}

/// One system call of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawSyscall {
    /// The process id.
    pub(crate) pid: u32,
    /// The system call.
    pub(crate) call: Call,
    /// How often it returned.
    pub(crate) calls: u64,
    /// How many of these were timed. Where a processor makes very many calls only some are, to limit the overhead: then
    /// `total_ns` assumes the same processor time for the others. Time off the processors is always measured.
    pub(crate) timed: u64,
    /// How often it returned an error.
    pub(crate) errors: u64,
    /// Errors as (errno, count), the most frequent first.
    pub(crate) errnos: Vec<(u32, u64)>,
    /// Total duration of the calls that returned, in nanoseconds.
    pub(crate) total_ns: u64,
    /// Duration of the longest timed call, in nanoseconds.
    pub(crate) max_ns: u64,
    /// Number of calls in progress.
    pub(crate) unfinished: u64,
}

/// Waits of the threads of one process in the same call, state and stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawWait {
    /// The process.
    pub(crate) process: Incarnation,
    /// The system call; `None` for a page fault or preemption.
    pub(crate) call: Option<Call>,
    /// What it waits for, in words; `None` if unknown.
    pub(crate) object: Option<String>,
    /// The first argument of the call if it is a file descriptor or futex address, else `None`.
    pub(crate) argument: Option<u64>,
    /// The state of the threads.
    pub(crate) state: State,
    /// The stack of the threads.
    pub(crate) stack: RawStack,
    /// Number of waits.
    pub(crate) count: u64,
    /// Number of these in progress; `total_ns` and `max_ns` include their time until now.
    pub(crate) unfinished: u64,
    /// Total time in nanoseconds.
    pub(crate) total_ns: u64,
    /// Longest wait in nanoseconds.
    pub(crate) max_ns: u64,
}

/// Events that did not fit into the BPF maps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CallLosses {
    /// Number of lost calls.
    pub(crate) syscalls: u64,
    /// Number of lost waits, including those of threads that did not fit.
    pub(crate) waits: u64,
    /// Number of lost stacks.
    pub(crate) stacks: u64,
}

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Call {
    /// Its number in its ABI.
    pub(crate) nr: u32,
    /// Whether it is a call of a 32-bit program on a 64-bit kernel.
    pub(crate) is_compat: bool,
}

/// The state of a thread off the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    /// Ready to run: it waits for a processor.
    Runnable,
    /// Asleep; signals wake it.
    Sleeping,
    /// Asleep; only the awaited event wakes it.
    DiskSleep,
    /// Stopped by a signal or a tracer.
    Stopped,
    /// Any other value of `task_struct.__state`.
    Other(u32),
}

impl Call {
    /// Returns the call with a number of the BPF maps; `None` for [`NONE`].
    pub(super) const fn new(nr: u32) -> Option<Self> {
        if nr == NONE {
            return None;
        }
        Some(Self {
            nr: nr & !COMPAT,
            is_compat: nr & COMPAT != 0,
        })
    }
}

impl State {
    /// Returns the state for bits of `include/linux/sched.h`.
    pub(super) const fn new(bits: u32) -> Self {
        const INTERRUPTIBLE: u32 = 1;
        const UNINTERRUPTIBLE: u32 = 2;
        const STOPPED_OR_TRACED: u32 = 4 | 8;
        /// `TASK_RTLOCK_WAIT`, with PREEMPT_RT
        const LOCK: u32 = 0x1000;
        match bits {
            0 => Self::Runnable,
            _ if bits & STOPPED_OR_TRACED != 0 => Self::Stopped,
            _ if bits & (UNINTERRUPTIBLE | LOCK) != 0 => Self::DiskSleep,
            _ if bits & INTERRUPTIBLE != 0 => Self::Sleeping,
            _ => Self::Other(bits),
        }
    }
}
