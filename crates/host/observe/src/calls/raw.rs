use super::names;
use crate::{Incarnation, RawStack};
use sockeye_wire::calls::{COMPAT, NONE};

/// System calls and waits, since the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawCalls {
    /// Calls, by process; none if they are not counted.
    pub syscalls: Option<Vec<RawSyscall>>,
    /// Waits, by process, reason and stack; none if they are not.
    pub waits: Option<Vec<RawWait>>,
    /// What could not be kept.
    pub losses: CallLosses,
}

/// One system call of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSyscall {
    /// Whose.
    pub pid: u32,
    /// Which.
    pub call: Call,
    /// How often it returned.
    pub calls: u64,
    /// How many of these were timed. Where a processor does nothing but calls, few are, not to slow it: if this is less
    /// than `calls`, what the others took on the processors is taken to be as much each. Time off the processors is
    /// always measured.
    pub timed: u64,
    /// How often with an error.
    pub errors: u64,
    /// Which errors, by their numbers, and how often each: the most frequent first.
    pub errnos: Vec<(u32, u64)>,
    /// How long those that returned took.
    pub total_ns: u64,
    /// How long the longest of them took, as far as that was seen.
    pub max_ns: u64,
    /// How many have not returned.
    pub unfinished: u64,
}

/// Waits of the threads of one process for the same reason at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawWait {
    /// Whose.
    pub whose: Incarnation,
    /// In which call; none: a page fault, or taken off the processor.
    pub call: Option<Call>,
    /// At what, in words, where that is known.
    pub object: Option<String>,
    /// The first argument of the call, if that is a file descriptor or the address of a futex.
    pub argument: Option<u64>,
    /// How it waited.
    pub state: State,
    /// Where.
    pub stack: RawStack,
    /// How often.
    pub count: u64,
    /// Of these, how many still last: their time until now is among `total_ns` and `max_ns`.
    pub unfinished: u64,
    /// How long together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What could not be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallLosses {
    /// Calls for which there was no room.
    pub syscalls: u64,
    /// Waits for which there was no room, be it for the threads.
    pub waits: u64,
    /// Stacks for which there was none.
    pub stacks: u64,
}

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// Its number.
    pub nr: u32,
    /// It is one of a 32-bit program's on a 64-bit kernel, where numbers mean other calls.
    pub is_compat: bool,
}

/// How a thread off the processor waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It could run.
    Runnable,
    /// It sleeps, and signals wake it.
    Sleeping,
    /// It sleeps, and nothing but what it waits for wakes it.
    DiskSleep,
    /// Stopped by a signal, or by whoever traces it.
    Stopped,
    /// Bits of `task_struct.__state` that are none of these.
    Other(u32),
}

impl Call {
    pub(super) const fn of(nr: u32) -> Option<Self> {
        if nr == NONE {
            return None;
        }
        Some(Self {
            nr: nr & !COMPAT,
            is_compat: nr & COMPAT != 0,
        })
    }

    /// Its name; `syscall_N` if it has none that we know.
    #[must_use]
    pub fn name(self) -> String {
        names::of_call(self)
    }
}

impl State {
    /// `include/linux/sched.h`
    pub(super) const fn of(bits: u32) -> Self {
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

/// The name of an errno, also of those that only the kernel sees; `errno_N` if there is none.
#[must_use]
pub fn errno_name(errno: u32) -> String {
    names::of_errno(errno)
}
