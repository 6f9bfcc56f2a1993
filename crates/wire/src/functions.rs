//! What the programs that follow calls of functions are told, and what they tell: `bpf/functions.bpf.c`, from this
//! side. In native byte order.
//!
//! ```
//! use sockeye_wire::functions::{Counts, Settings};
//!
//! assert_eq!(Settings::default().bytes().len(), Settings::BYTES);
//! assert_eq!(Counts::read(&[0; Counts::BYTES]), Some(Counts::default()));
//! ```

use crate::bytes::{ne_u32, ne_u64};
use alloc::vec::Vec;

/// The program that is called at entries and at returns.
pub const SESSION: &str = "fn_session";
/// The program that is called at entries.
pub const ENTERED: &str = "fn_entered";
/// The program that is called at returns.
pub const LEFT: &str = "fn_left";
/// The program that is called at the instructions by which functions end.
pub const LEAVING: &str = "fn_leaving";
/// The same beside [`SESSION`].
pub const SESSION_LEAVING: &str = "fn_session_leaving";
/// The program that is called when a function of the kernel's begins, by fentry.
pub const BEGAN: &str = "fn_began";
/// The program that is called when it ends, by fexit.
pub const ENDED: &str = "fn_ended";
/// The programs that are called at tracepoints, with the tracepoints.
pub const TRACEPOINTS: [(&str, &str); 3] = [
    ("fn_fork", "sched_process_fork"),
    ("fn_exec", "sched_process_exec"),
    ("fn_exit", "sched_process_exit"),
];

/// The map with the [`Settings`].
pub const SETTINGS: &str = "fn_settings";
/// The map with the processes in scope: 32-bit numbers, for themselves.
pub const MEMBERS: &str = "fn_members";
/// The map with the cgroup in scope: its folder's descriptor.
pub const CGROUP: &str = "fn_cgroup";
/// The map from [`Key`] to [`Counts`].
pub const COUNTS: &str = "fn_counts";
/// The map whose values are [`Thread`]s.
pub const THREADS: &str = "fn_threads";
/// The map with the [`Losses`].
pub const LOSSES: &str = "fn_losses";

/// In a cookie beside the function's number: its returns are not to be watched.
pub const ENTRIES_ONLY: u64 = 1 << 32;
/// Likewise: [`LEAVING`] is attached to the instructions by which it ends.
pub const BY_EXITS: u64 = 1 << 33;

/// Who is looked at: `struct settings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Whose calls count.
    pub scope: Scope,
    /// The inode of the pid namespace whose numbers are meant; 0: the machine's first.
    pub pid_namespace: u32,
    /// So much of the stack a return takes away.
    pub return_bytes: u32,
    /// The functions are the kernel's own.
    pub in_kernel: bool,
    /// The number of the process that looks, whose calls are not told as those of others.
    pub own_process: u32,
    /// Nobody's calls count yet; who starts whom is followed.
    pub paused: bool,
}

/// Whose calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Everybody's.
    #[default]
    Everybody = 0,
    /// Those of the processes in the map [`MEMBERS`], and of what they start.
    Members = 1,
    /// Those of the cgroup in the map [`CGROUP`].
    Cgroup = 2,
}

/// One function of one process: `struct key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The process.
    pub pid: u32,
    /// The function's number.
    pub function: u32,
}

/// What was counted: `struct counts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Calls.
    pub calls: u64,
    /// Of these, whose time is known.
    pub timed: u64,
    /// The time of the outermost calls.
    pub total_ns: u64,
    /// The time of all calls without that in other watched functions.
    pub self_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Those left without a return.
    pub missed_returns: u64,
}

/// The calls that a thread is in: `struct thread`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// The numbers of the functions, the outermost first.
    pub functions: Vec<u32>,
}

/// What there was no room for: `struct losses`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Calls below 64 others that are watched.
    pub too_deep: u64,
    /// Calls of threads that could not be followed.
    pub threads: u64,
    /// Calls that could not be counted.
    pub counts: u64,
    /// Processes that were started in scope.
    pub members: u64,
    /// No loss: processes that those in scope have started.
    pub started: u64,
    /// No loss: calls of processes that are not looked at.
    pub others: u64,
}

impl Settings {
    /// The size of the map's value.
    pub const BYTES: usize = 24;

    /// As the programs read it.
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

    /// As the map has it.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            pid: ne_u32(bytes, 0)?,
            function: ne_u32(bytes, 4)?,
        })
    }
}

impl Counts {
    /// The size of the map's value.
    pub const BYTES: usize = 48;

    /// As the map has it.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            calls: ne_u64(bytes, 0)?,
            timed: ne_u64(bytes, 8)?,
            total_ns: ne_u64(bytes, 16)?,
            self_ns: ne_u64(bytes, 24)?,
            max_ns: ne_u64(bytes, 32)?,
            missed_returns: ne_u64(bytes, 40)?,
        })
    }
}

impl Thread {
    /// The size of the map's value.
    pub const BYTES: usize = 8 + DEPTH_MAX * FRAME_BYTES;

    /// As the map has it.
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

    /// As the map has it.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            too_deep: ne_u64(bytes, 0)?,
            threads: ne_u64(bytes, 8)?,
            counts: ne_u64(bytes, 16)?,
            members: ne_u64(bytes, 24)?,
            started: ne_u64(bytes, 32)?,
            others: ne_u64(bytes, 40)?,
        })
    }
}

/// `DEPTH_MAX` there, which is the kernel's `MAX_URETPROBE_DEPTH`.
const DEPTH_MAX: usize = 64;
/// `struct frame`
const FRAME_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_calls() {
        let mut bytes = [0; Thread::BYTES];
        bytes[..8].copy_from_slice(&[7_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
        bytes[8..12].copy_from_slice(&11_u32.to_ne_bytes());
        bytes[40..44].copy_from_slice(&12_u32.to_ne_bytes());
        let thread = Thread::read(&bytes).unwrap();
        assert_eq!((thread.pid, thread.functions), (7, [11, 12].to_vec()));
        // A depth that cannot be.
        bytes[4..8].fill(0xff);
        assert_eq!(Thread::read(&bytes).unwrap().functions.len(), DEPTH_MAX);
        assert_eq!(Thread::read(&bytes[..100]), None);
        assert_eq!(Counts::read(&[0; 47]), None);
    }

    #[test]
    fn settings_as_the_programs_read_them() {
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
