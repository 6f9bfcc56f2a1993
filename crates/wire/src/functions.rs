//! Maps of the BPF programs that trace function calls: mirrors `bpf/functions.bpf.c`, in native byte order.
//!
//! ```
//! use sockeye_wire::functions::{Counts, Settings};
//!
//! assert_eq!(Settings::default().bytes().len(), Settings::BYTES);
//! assert_eq!(Counts::read(&[0; Counts::BYTES]), Some(Counts::default()));
//! ```

use crate::bytes::{ne_u32, ne_u64};
use alloc::vec::Vec;

/// The program at entries and returns.
pub const SESSION: &str = "fn_session";
/// The program at entries.
pub const ENTERED: &str = "fn_entered";
/// The program at returns.
pub const LEFT: &str = "fn_left";
/// The program at the return instructions of functions.
pub const LEAVING: &str = "fn_leaving";
/// The program at return instructions that is used together with [`SESSION`].
pub const SESSION_LEAVING: &str = "fn_session_leaving";
/// The program at entries of kernel functions (fentry).
pub const BEGAN: &str = "fn_began";
/// The program at exits of kernel functions (fexit).
pub const ENDED: &str = "fn_ended";
/// The programs at tracepoints, with the names of the tracepoints.
pub const TRACEPOINTS: [(&str, &str); 3] = [
    ("fn_fork", "sched_process_fork"),
    ("fn_exec", "sched_process_exec"),
    ("fn_exit", "sched_process_exit"),
];

/// The map with the [`Settings`].
pub const SETTINGS: &str = "fn_settings";
/// The map of the processes in scope: 32-bit process ids, as key and value.
pub const MEMBERS: &str = "fn_members";
/// The map of the cgroup in scope: its directory's descriptor.
pub const CGROUP: &str = "fn_cgroup";
/// The map from [`Key`] to [`Counts`].
pub const COUNTS: &str = "fn_counts";
/// The map of [`Thread`]s.
pub const THREADS: &str = "fn_threads";
/// The map with the [`Losses`].
pub const LOSSES: &str = "fn_losses";

/// Flag in a cookie, next to the function's number: its returns are not traced.
pub const ENTRIES_ONLY: u64 = 1 << 32;
/// Flag in a cookie: [`LEAVING`] is attached to its return instructions.
pub const BY_EXITS: u64 = 1 << 33;

/// What to trace: `struct settings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// The processes whose calls count.
    pub scope: Scope,
    /// Inode of the pid namespace of all process ids; 0 for the initial one.
    pub pid_namespace: u32,
    /// Number of bytes that a return removes from the stack.
    pub return_bytes: u32,
    /// Whether the functions are in the kernel.
    pub in_kernel: bool,
    /// Process id of this process, whose calls are not counted as those of others.
    pub own_process: u32,
    /// Whether counting is paused; process creation is still tracked.
    pub paused: bool,
}

/// The processes whose calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// All processes.
    #[default]
    All = 0,
    /// The processes in the map [`MEMBERS`], and their descendants.
    Members = 1,
    /// The processes of the cgroup in the map [`CGROUP`].
    Cgroup = 2,
}

record! {
    /// A function in a process: `struct key`.
    #[derive(Hash)]
    pub struct Key {
        /// The process.
        pid: u32 = ne_u32 @ 0;
        /// The function's number.
        function: u32 = ne_u32 @ 4;
    }
}

record! {
    /// Counts of a function: `struct counts`.
    #[derive(Default)]
    pub struct Counts {
        /// Number of calls.
        calls: u64 = ne_u64 @ 0;
        /// Number of calls with a known duration.
        timed: u64 = ne_u64 @ 8;
        /// Total duration of the outermost calls.
        total_ns: u64 = ne_u64 @ 16;
        /// Total duration of all calls, without the time in other traced functions.
        self_ns: u64 = ne_u64 @ 24;
        /// Duration of the longest call.
        max_ns: u64 = ne_u64 @ 32;
        /// Number of calls whose return was not seen.
        missed_returns: u64 = ne_u64 @ 40;
    }
}

/// The running calls of a thread: `struct thread`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Numbers of the functions, the outermost first.
    pub functions: Vec<u32>,
}

record! {
    /// Losses because a table was full: `struct losses`.
    #[derive(Default)]
    pub struct Losses {
        /// Calls nested deeper than 64 traced functions.
        too_deep: u64 = ne_u64 @ 0;
        /// Calls of threads that could not be tracked.
        threads: u64 = ne_u64 @ 8;
        /// Calls whose function and process could not be added to the counts.
        counts: u64 = ne_u64 @ 16;
        /// Processes started in scope that could not be tracked.
        members: u64 = ne_u64 @ 24;
        /// Not a loss: processes started by processes in scope.
        started: u64 = ne_u64 @ 32;
        /// Not a loss: calls of processes out of scope.
        others: u64 = ne_u64 @ 40;
    }
}

impl Settings {
    /// The size of the map's value.
    pub const BYTES: usize = 24;

    /// Encodes the settings as the map's value.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let numbers = [
            self.scope as u32,
            self.pid_namespace,
            self.return_bytes,
            u32::from(self.in_kernel),
            self.own_process,
            u32::from(self.paused),
        ];
        for (to, from) in bytes.chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        bytes
    }
}

impl Key {
    /// The size of the map's key.
    pub const BYTES: usize = 8;
}

impl Counts {
    /// The size of the map's value.
    pub const BYTES: usize = 48;
}

impl Thread {
    /// The size of the map's value.
    pub const BYTES: usize = 8 + DEPTH_MAX * FRAME_BYTES;

    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let depth = ne_u32(bytes, 4)? as usize;
        let functions = (0..depth.min(DEPTH_MAX)).map(|place| ne_u32(bytes, 8 + place * FRAME_BYTES));
        Some(Self {
            pid: ne_u32(bytes, 0)?,
            functions: functions.collect::<Option<_>>()?,
        })
    }
}

impl Losses {
    /// The size of the map's value.
    pub const BYTES: usize = 48;
}

/// `DEPTH_MAX` of the program, the kernel's `MAX_URETPROBE_DEPTH`.
const DEPTH_MAX: usize = 64;
/// `struct frame`
const FRAME_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_with_impossible_depth_is_bounded() {
        let mut bytes = [0; Thread::BYTES];
        bytes[..8].copy_from_slice(&[7_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
        bytes[8..12].copy_from_slice(&11_u32.to_ne_bytes());
        bytes[40..44].copy_from_slice(&12_u32.to_ne_bytes());
        let thread = Thread::read(&bytes).unwrap();
        assert_eq!((thread.pid, thread.functions), (7, [11, 12].to_vec()));
        // An impossible depth.
        bytes[4..8].fill(0xff);
        assert_eq!(Thread::read(&bytes).unwrap().functions.len(), DEPTH_MAX);
        assert_eq!(Thread::read(&bytes[..100]), None);
        assert_eq!(Counts::read(&[0; 47]), None);
    }

    #[test]
    fn settings_have_the_programs_layout() {
        let settings = Settings {
            scope: Scope::Cgroup,
            pid_namespace: 3,
            return_bytes: 8,
            in_kernel: true,
            own_process: 9,
            paused: true,
        };
        let bytes = settings.bytes();
        let numbers: [u32; 6] = core::array::from_fn(|place| ne_u32(&bytes, 4 * place).unwrap());
        assert_eq!(numbers, [2, 3, 8, 1, 9, 1]);
    }
}
