//! What was seen of processes during some time. Its fields are the fields of its JSON, in `docs/schema/prof.schema.json`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where the time of processes went.
///
/// A part is `None` if it was not asked for, or could not be had: then [`Profile::missing`] says why. All that is counted
/// is counted from the beginning, so that of two looks at the same run the later one contains the earlier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Of this layout: [`Profile::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Who was looked at, in words: `pid 4711`, `cgroup /system.slice/nginx.service`, `system`, the command.
    pub target: String,
    /// How long.
    pub duration_ns: u64,
    /// How many processors the host has.
    pub processors: u32,
    /// Everybody of whom anything is told.
    pub processes: Vec<Process>,
    /// System calls, by process and call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub syscalls: Option<Vec<Syscall>>,
    /// Time off the processor, by process, stack and reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waits: Option<Vec<Wait>>,
    /// Samples of what ran on the processors.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu: Option<Cpu>,
    /// Calls of the functions that were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub functions: Option<Functions>,
    /// What stacks are made of: they name frames by their places here.
    pub frames: Vec<Frame>,
    /// What was seen too late, or could not be kept.
    pub losses: Losses,
    /// What could not be looked at, and why.
    pub missing: Vec<Missing>,
    /// Why it ended before its time, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partial: Option<Partial>,
}

/// Somebody who was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number, as we see it.
    pub pid: u32,
    /// Its name (`comm`), the last one it had.
    pub name: String,
    /// It began while we looked.
    pub began: bool,
    /// It ended while we looked.
    pub ended: bool,
}

/// One system call of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syscall {
    /// Whose.
    pub pid: u32,
    /// Its name, or `syscall_N`.
    pub name: String,
    /// How often it returned.
    pub calls: u64,
    /// How often with an error.
    pub errors: u64,
    /// Which errors, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errnos: Vec<Errno>,
    /// How long all of them took together; an estimate if not all were timed.
    pub total_ns: u64,
    /// The longest of those that were timed.
    pub max_ns: u64,
    /// How many of `calls` were timed: where a processor makes calls all the time a part of them is, not to slow it. The
    /// time that calls waited is known of all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timed: Option<u64>,
    /// How many have not returned yet: they are not among `calls`, nor is their time in `total_ns`.
    pub unfinished: u64,
}

/// An error that a system call returned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errno {
    /// `ENOENT`, or `errno_N`.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Times that the threads of one process were off the processor with the same stack, for the same reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Whose.
    pub pid: u32,
    /// For what.
    pub reason: Reason,
    /// The system call it was in; none: a page fault, or taken off the processor.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub syscall: Option<String>,
    /// What it waited at, where that is known: `fd 5 tcp 10.0.0.2:40112 > 10.0.0.1:443`, `futex 0x7f12...`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<String>,
    /// Places in [`Profile::frames`], the outermost first, the kernel's behind the process's own.
    pub stack: Vec<u32>,
    /// How often.
    pub count: u64,
    /// Of these, how many still lasted when we stopped looking; their time until then counts.
    pub unfinished: u64,
    /// How long together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What a thread off the processor waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Something else.
    #[default]
    Other,
    /// A processor: it could run, but others do.
    Processor,
    /// Time: it sleeps, by its own will.
    Sleep,
    /// A lock or a condition of its own program (futex).
    Lock,
    /// A lock of the kernel's.
    KernelLock,
    /// Events: poll, select, epoll and their like.
    Events,
    /// The network: data, room, a connection.
    Network,
    /// A pipe, a UNIX socket, a terminal: somebody else's process.
    Peer,
    /// A disk, or a file system.
    Disk,
    /// A page of memory.
    Page,
    /// A child's end.
    Child,
    /// Stopped, or traced.
    Stopped,
}

/// Samples of what ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// So many a second of each processor, while somebody looked at runs there.
    pub samples_per_s: u32,
    /// How many there are.
    pub samples: u64,
    /// Of these, how many in the kernel.
    pub kernel_samples: u64,
    /// Of these, how many have a stack of the process's that ends after one frame: its code keeps no frame pointers, or it
    /// really is that short.
    pub cut_stacks: u64,
    /// They are of the processes' own code only: the kernel's is not ours to see.
    pub user_only: bool,
    /// From our start to the first possible sample: everything was attached.
    pub ready_ns: u64,
    /// By process and stack.
    pub stacks: Vec<CpuStack>,
}

/// Samples with the same stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStack {
    /// Whose.
    pub pid: u32,
    /// Places in [`Profile::frames`], the outermost first, the kernel's behind the process's own.
    pub stack: Vec<u32>,
    /// How many.
    pub samples: u64,
}

/// A place in a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The function, demangled; none: nothing is known there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub function: Option<String>,
    /// The file name of the program or library, `kernel`, a kernel module's name, `[vdso]`, `[jit]`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub module: Option<String>,
    /// Where in the file, if there is no function.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offset: Option<u64>,
    /// Whose code it is.
    pub space: Space,
}

/// Whose code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// The process's.
    #[default]
    User,
    /// The kernel's.
    Kernel,
}

/// Calls of the functions that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Functions {
    /// By process and function.
    pub calls: Vec<Function>,
    /// What watching one call cost, on average of the calls: measured here on functions of ours that begin and end like those.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overhead_ns_per_call: Option<f64>,
    /// How many functions are watched.
    pub watched: u64,
    /// Calls of the same functions by processes that are not looked at: each was slowed as well.
    #[serde(default)]
    pub calls_of_others: u64,
    /// By what means, the kernel's word for each: `uprobe_multi`, `kprobe_multi`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub means: Vec<String>,
}

/// Calls of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// By whom; 0: by anybody (functions of the kernel).
    pub pid: u32,
    /// Its name, demangled.
    pub name: String,
    /// The file name of the program or library; `kernel`.
    pub module: String,
    /// How often it was called.
    pub calls: u64,
    /// How long it was on the stack: a call of itself within it counts once. None: only calls are counted there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total_ns: Option<u64>,
    /// The same without the time in other functions that are watched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub self_ns: Option<u64>,
    /// The longest call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_ns: Option<u64>,
    /// Calls whose return was never seen: left by longjmp, an exception, exec or exit. Their time is not counted.
    pub missed_returns: u64,
    /// Calls that had not returned when we stopped looking. Their time is not counted.
    pub unfinished: u64,
}

/// What was lost, by what it was. Zeros are not losses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Losses {
    /// Samples for which the kernel had no room.
    pub samples: u64,
    /// Calls of system calls for which there was no room.
    pub syscalls: u64,
    /// Waits for which there was no room.
    pub waits: u64,
    /// Stacks that could not be taken, or be kept: their samples and waits count, without one.
    pub stacks: u64,
    /// Calls of watched functions that could not be followed: too deep, or too many threads.
    pub functions: u64,
    /// Events of processes (begin, exec, mapping of files) that were lost: symbols may be missing.
    pub events: u64,
    /// Frames of which only the file, or nothing, is known.
    pub unnamed_frames: u64,
}

/// Something that could not be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// A stable word: `syscalls`, `waits`, `cpu`, `kernel_samples`, `functions`, `kernel_functions`, `symbols`, `process`.
    pub part: String,
    /// What is missing, and why.
    pub text: String,
    /// What would help; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remedy: Option<String>,
}

/// Why it ended early.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// A stable word: `interrupted`.
    pub code: String,
    /// What happened.
    pub text: String,
}

/// Why a file is no profile.
#[derive(Debug)]
pub enum UnreadableProfile {
    /// It is no JSON, or other JSON.
    Json(serde_json::Error),
    /// It is of another version.
    Version(u32),
}

impl Profile {
    /// It rises when a key changes its meaning or goes away, not when one is added.
    pub const SCHEMA_VERSION: u32 = 1;

    /// As JSON, with a line end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("its keys are strings, and its numbers finite");
        text.push('\n');
        text
    }

    /// From JSON.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_json(text: &[u8]) -> Result<Self, UnreadableProfile> {
        let profile: Self = serde_json::from_slice(text).map_err(UnreadableProfile::Json)?;
        // The one of a default value is 0.
        if profile.schema_version > Self::SCHEMA_VERSION {
            return Err(UnreadableProfile::Version(profile.schema_version));
        }
        Ok(profile)
    }
}

impl fmt::Display for UnreadableProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The source says where and why.
            Self::Json(_) => f.write_str("not a profile, as sockeye prof --json writes it"),
            Self::Version(version) => write!(
                f,
                "a profile of version {version}, of a newer sockeye; this one knows version {}",
                Profile::SCHEMA_VERSION
            ),
        }
    }
}

impl std::error::Error for UnreadableProfile {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Version(_) => None,
        }
    }
}
