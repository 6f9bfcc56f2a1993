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

record! {
    /// Counts of one system call by one process: `struct cell`.
    #[derive(Default)]
    pub struct CallCounts {
        /// Process id (high half) and number of the call (low half); 0 for an empty entry.
        process_and_call: u64 = ne_u64 @ 0;
        /// Number of calls that returned.
        count: u64 = ne_u64 @ 8;
        /// Number of calls that returned an error.
        errors: u64 = ne_u64 @ 16;
        /// Number of calls that were timed.
        timed: u64 = ne_u64 @ 24;
        /// Total time on a processor of the timed calls.
        on_ns: u64 = ne_u64 @ 32;
        /// Total time off the processors of all calls.
        off_ns: u64 = ne_u64 @ 40;
        /// Duration of the longest call, as far as it was observed.
        max_ns: u64 = ne_u64 @ 48;
    }
}

record! {
    /// An error of a system call: `struct error`, a key.
    pub struct ErrorKey {
        /// Process id (high half) and number of the call (low half).
        process_and_call: u64 = ne_u64 @ 0;
        /// The errno.
        errno: u64 = ne_u64 @ 8;
    }
}

record! {
    /// The thread that runs on a processor: `struct running`.
    pub struct Running {
        /// Start time of its call; 0 if it is in no call, or in one that is not timed.
        start_ns: u64 = ne_u64 @ 8;
        /// Number of calls that have returned on this processor.
        calls: u64 = ne_u64 @ 24;
        /// The thread.
        tid: u32 = ne_u32 @ 32;
        /// Its process.
        tgid: u32 = ne_u32 @ 36;
        /// The number of its call, if it is timed.
        nr: u32 = ne_u32 @ 52;
        /// Whether it is in scope.
        is_in_scope: bool = in_scope @ 48;
    }
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

record! {
    /// A wait of a thread: `struct wait`, a key.
    #[derive(Hash)]
    pub struct Wait {
        /// The first argument of the call, if it identifies what the thread waits for; else 0.
        argument: u64 = ne_u64 @ 0;
        /// The process.
        tgid: u32 = ne_u32 @ 8;
        /// Number of `execve` calls of the process before.
        execs: u32 = ne_u32 @ 12;
        /// The number of the call, or [`NONE`].
        nr: u32 = ne_u32 @ 16;
        /// `task_struct.__state`; 0: it can run.
        state: u32 = ne_u32 @ 20;
        /// Id of a stack; -1 for none; below -1, -2 minus the index of a [`Sleeper`].
        kernel_stack: i32 = ne_i32 @ 24;
        /// Id of a stack; -1 for none.
        user_stack: i32 = ne_i32 @ 28;
    }
}

record! {
    /// Duration of waits: `struct time`.
    #[derive(Default)]
    pub struct Time {
        /// Number of waits.
        count: u64 = ne_u64 @ 0;
        /// Total duration.
        total_ns: u64 = ne_u64 @ 8;
        /// Duration of the longest wait.
        max_ns: u64 = ne_u64 @ 16;
    }
}

record! {
    /// Losses because a table was full: `struct lost`.
    #[derive(Default)]
    pub struct Lost {
        /// Calls that were not counted.
        calls: u64 = ne_u64 @ 0;
        /// Waits that were not counted.
        waits: u64 = ne_u64 @ 8;
        /// Stacks that were not stored.
        stacks: u64 = ne_u64 @ 16;
        /// Threads or processes that could not be tracked.
        threads: u64 = ne_u64 @ 24;
    }
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

fn in_scope(bytes: &[u8], at: usize) -> Option<bool> {
    Some(ne_u32(bytes, at)? == IN)
}

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
