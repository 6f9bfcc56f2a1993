//! What the programs that count system calls and waits keep in their maps: `bpf/calls.h`, from this side. In native
//! byte order.
//!
//! ```
//! use sockeye_wire::calls::Cell;
//!
//! let mut bytes = [0; Cell::BYTES];
//! bytes[..8].copy_from_slice(&(4711_u64 << 32 | 39).to_ne_bytes());
//! let cell = Cell::read(&bytes).unwrap();
//! assert_eq!((cell.tgid(), cell.nr()), (4711, 39));
//! ```

use crate::bytes::{ne_i32, ne_u32, ne_u64};
use alloc::vec::Vec;

/// In the place of a call's number: none.
pub const NONE: u32 = u32::MAX;
/// Beside the number of a 32-bit call on a 64-bit kernel.
pub const COMPAT: u32 = 1 << 31;

/// Calls of one kind by one process: `struct cell`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Process and number of the call; 0: nothing is counted here.
    pub whose: u64,
    /// How many returned.
    pub count: u64,
    /// How many returned an error.
    pub errors: u64,
    /// How many were timed.
    pub timed: u64,
    /// How long those that were timed were on a processor, together.
    pub on_ns: u64,
    /// How long all of them were off the processors, together.
    pub off_ns: u64,
    /// How long the longest took, as far as it was seen.
    pub max_ns: u64,
}

/// Which errors: `struct error`, a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Process and number of the call.
    pub whose: u64,
    /// The errno.
    pub errno: u64,
}

/// What runs on one processor: `struct running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// When its call began; 0: it is in none, or in one that is not timed.
    pub start_ns: u64,
    /// How many calls have returned on this processor.
    pub calls: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The number of its call, if that is timed.
    pub nr: u32,
    /// Whether it is in scope.
    pub is_in_scope: bool,
}

/// A thread in scope: `struct thread`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Since when it has been off the processors; 0: it is on one.
    pub since_ns: u64,
    /// When its call began; 0: it is in none, or in one that is not timed.
    pub start_ns: u64,
    /// What it waits for, or waited for last.
    pub wait: Wait,
}

/// For what a thread waits, and where: `struct wait`, a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wait {
    /// The first argument of the call, where it says what is waited at; else 0.
    pub argument: u64,
    /// The process.
    pub tgid: u32,
    /// How many programs it was before.
    pub execs: u32,
    /// The number of the call, or [`NONE`].
    pub nr: u32,
    /// `task_struct.__state`; 0: it can run.
    pub state: u32,
    /// The number of a stack; -1: there is none; below: that of a [`Sleeper`], -2 less its number.
    pub kernel_stack: i32,
    /// The number of a stack, or -1.
    pub user_stack: i32,
}

/// How long: `struct time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// How often.
    pub count: u64,
    /// Together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What could not be kept: `struct lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Calls.
    pub calls: u64,
    /// Waits.
    pub waits: u64,
    /// Stacks.
    pub stacks: u64,
    /// Times that a thread or process could not be noted down.
    pub threads: u64,
}

/// A thread that slept already at the beginning: `struct sleeper`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sleeper {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Where its program is.
    pub ip: u64,
    /// Where its stack ends.
    pub sp: u64,
    /// The register that holds the frame, in programs that keep frames.
    pub bp: u64,
    /// Addresses in the kernel, the innermost first.
    pub stack: Vec<u64>,
}

impl Cell {
    /// The size of the map's value.
    pub const BYTES: usize = 56;

    /// As the maps have it; `None` if that is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            whose: ne_u64(bytes, 0)?,
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
        (self.whose >> 32) as u32
    }

    /// The number of the call.
    #[must_use]
    pub const fn nr(&self) -> u32 {
        self.whose as u32
    }
}

impl Failure {
    /// As the map has it.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            whose: ne_u64(bytes, 0)?,
            errno: ne_u64(bytes, 8)?,
        })
    }
}

impl Running {
    /// As the map has it.
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
    /// As the map has it.
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
    /// As the maps have it.
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
    /// As the map has it.
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
    /// As the map has it.
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

    /// One record.
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

/// How deep stacks are: `FRAMES`.
pub const FRAMES_MAX: usize = 127;

/// Of `verdict`.
const IN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Numbers from 1 on, in words of four bytes.
    fn words(count: u32) -> Vec<u8> {
        (1..=count).flat_map(u32::to_ne_bytes).collect()
    }

    #[test]
    fn threads_and_what_they_wait_for() {
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
    fn a_sleeper_has_no_more_frames_than_there_is_room() {
        let mut bytes = vec![0; Sleeper::BYTES];
        bytes[40..48].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(Sleeper::read(&bytes).unwrap().stack.len(), FRAMES_MAX);
        assert_eq!(Sleeper::read(&bytes[..100]), None);
    }
}
