//! Maps of the BPF programs that count system calls and waits: mirrors `bpf/calls.h`, in native byte order.
//!
//! ```
//! use sockeye_wire::calls::CallCounts;
//!
//! let mut bytes = [0; CallCounts::BYTES];
//! bytes[..8].copy_from_slice(&(4711_u64 << 32 | 39).to_ne_bytes());
//! let cell = CallCounts::read(&bytes).unwrap();
//! assert_eq!((cell.tgid(), cell.nr()), (4711, 39));
//! ```

use crate::bytes::{ne_i32, ne_u32, ne_u64};
use alloc::vec::Vec;

/// The call number of a thread outside of system calls.
pub const NONE: u32 = u32::MAX;
/// Flag next to the number of a 32-bit call on a 64-bit kernel.
pub const COMPAT: u32 = 1 << 31;

/// Counts of one system call by one process: `struct cell`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Process id (high half) and number of the call (low half); 0 for an empty entry.
    pub process_and_call: u64,
    /// Number of calls that returned.
    pub count: u64,
    /// Number of calls that returned an error.
    pub errors: u64,
    /// Number of calls that were timed.
    pub timed: u64,
    /// Total time on a processor of the timed calls.
    pub on_ns: u64,
    /// Total time off the processors of all calls.
    pub off_ns: u64,
    /// Duration of the longest call, as far as it was observed.
    pub max_ns: u64,
}

/// An error of a system call: `struct error`, a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorKey {
    /// Process id (high half) and number of the call (low half).
    pub process_and_call: u64,
    /// The errno.
    pub errno: u64,
}

/// The thread that runs on a processor: `struct running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Start time of its call; 0 if it is in no call, or in one that is not timed.
    pub start_ns: u64,
    /// Number of calls that have returned on this processor.
    pub calls: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The number of its call, if it is timed.
    pub nr: u32,
    /// Whether it is in scope.
    pub is_in_scope: bool,
}

/// A thread in scope: `struct thread`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Time since which it has been off the processors; 0 if it is on one.
    pub since_ns: u64,
    /// Start time of its call; 0 if it is in no call, or in one that is not timed.
    pub start_ns: u64,
    /// Its current or last wait.
    pub wait: Wait,
}

/// A wait of a thread: `struct wait`, a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wait {
    /// The first argument of the call, if it identifies what the thread waits for; else 0.
    pub argument: u64,
    /// The process.
    pub tgid: u32,
    /// Number of `execve` calls of the process before.
    pub execs: u32,
    /// The number of the call, or [`NONE`].
    pub nr: u32,
    /// `task_struct.__state`; 0: it can run.
    pub state: u32,
    /// Id of a stack; -1 for none; below -1, -2 minus the index of a [`Sleeper`].
    pub kernel_stack: i32,
    /// Id of a stack; -1 for none.
    pub user_stack: i32,
}

/// Duration of waits: `struct time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// Number of waits.
    pub count: u64,
    /// Total duration.
    pub total_ns: u64,
    /// Duration of the longest wait.
    pub max_ns: u64,
}

/// Losses because a table was full: `struct lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Calls that were not counted.
    pub calls: u64,
    /// Waits that were not counted.
    pub waits: u64,
    /// Stacks that were not stored.
    pub stacks: u64,
    /// Threads or processes that could not be tracked.
    pub threads: u64,
}

/// A thread that was already asleep at the start: `struct sleeper`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sleeper {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its instruction pointer in user space.
    pub ip: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// Its frame pointer, in programs that keep one.
    pub bp: u64,
    /// Addresses in the kernel, the innermost first.
    pub stack: Vec<u64>,
}

impl CallCounts {
    /// The size of the map's value.
    pub const BYTES: usize = 56;

    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            process_and_call: ne_u64(bytes, 0)?,
            count: ne_u64(bytes, 8)?,
            errors: ne_u64(bytes, 16)?,
            timed: ne_u64(bytes, 24)?,
            on_ns: ne_u64(bytes, 32)?,
            off_ns: ne_u64(bytes, 40)?,
            max_ns: ne_u64(bytes, 48)?,
        })
    }

    /// The process.
    #[must_use]
    pub const fn tgid(&self) -> u32 {
        (self.process_and_call >> 32) as u32
    }

    /// The number of the call.
    #[must_use]
    pub const fn nr(&self) -> u32 {
        self.process_and_call as u32
    }
}

impl ErrorKey {
    /// Parses the map's key; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            process_and_call: ne_u64(bytes, 0)?,
            errno: ne_u64(bytes, 8)?,
        })
    }
}

impl Running {
    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            start_ns: ne_u64(bytes, 8)?,
            calls: ne_u64(bytes, 24)?,
            tid: ne_u32(bytes, 32)?,
            tgid: ne_u32(bytes, 36)?,
            is_in_scope: ne_u32(bytes, 48)? == IN,
            nr: ne_u32(bytes, 52)?,
        })
    }
}

impl Thread {
    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            since_ns: ne_u64(bytes, 24)?,
            start_ns: ne_u64(bytes, 8)?,
            wait: Wait::read(bytes.get(40..)?)?,
        })
    }
}

impl Wait {
    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            argument: ne_u64(bytes, 0)?,
            tgid: ne_u32(bytes, 8)?,
            execs: ne_u32(bytes, 12)?,
            nr: ne_u32(bytes, 16)?,
            state: ne_u32(bytes, 20)?,
            kernel_stack: ne_i32(bytes, 24)?,
            user_stack: ne_i32(bytes, 28)?,
        })
    }
}

impl Time {
    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            count: ne_u64(bytes, 0)?,
            total_ns: ne_u64(bytes, 8)?,
            max_ns: ne_u64(bytes, 16)?,
        })
    }
}

impl Lost {
    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            calls: ne_u64(bytes, 0)?,
            waits: ne_u64(bytes, 8)?,
            stacks: ne_u64(bytes, 16)?,
            threads: ne_u64(bytes, 24)?,
        })
    }
}

impl Sleeper {
    /// The size of a record.
    pub const BYTES: usize = 48 + 8 * FRAMES_MAX;

    /// Parses one record.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let frames = ne_u64(bytes, 40)?.min(FRAMES_MAX as u64) as usize;
        Some(Self {
            tid: ne_u32(bytes, 0)?,
            tgid: ne_u32(bytes, 4)?,
            ip: ne_u64(bytes, 16)?,
            sp: ne_u64(bytes, 24)?,
            bp: ne_u64(bytes, 32)?,
            stack: (0..frames)
                .map(|place| ne_u64(bytes, 48 + 8 * place))
                .collect::<Option<_>>()?,
        })
    }
}

/// Most frames of a stack: `FRAMES`.
pub const FRAMES_MAX: usize = 127;

/// `IN` of `enum verdict`.
const IN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Numbers from 1 in words of four bytes.
    fn words(count: u32) -> Vec<u8> {
        (1..=count).flat_map(u32::to_ne_bytes).collect()
    }

    #[test]
    fn thread_has_its_wait() {
        let bytes = words(18);
        let thread = Thread::read(&bytes).unwrap();
        assert_eq!(
            (
                thread.wait.tgid,
                thread.wait.execs,
                thread.wait.nr,
                thread.wait.state
            ),
            (13, 14, 15, 16)
        );
        assert_eq!((thread.wait.kernel_stack, thread.wait.user_stack), (17, 18));
        assert_eq!(Thread::read(&bytes[..68]), None);
    }

    #[test]
    fn too_many_frames_are_cut_to_the_record() {
        let mut bytes = vec![0; Sleeper::BYTES];
        bytes[40..48].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(Sleeper::read(&bytes).unwrap().stack.len(), FRAMES_MAX);
        assert_eq!(Sleeper::read(&bytes[..100]), None);
    }
}
