//! The profile of processes over some time. Its fields are the fields of its JSON, in
//! `docs/schema/prof.schema.json`.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};

/// A profile of processes.
///
/// A part is `None` if it was not requested or not available: then [`Profile::missing`] has the reason.
/// Counts start at the beginning, so that of two profiles of the same run the later one contains the earlier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of the layout: [`Profile::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was observed: `pid 4711`, `cgroup /system.slice/nginx.service`, `system`, the command.
    pub target: String,
    /// Duration of the observation.
    pub duration_ns: u64,
    /// Number of processors of the host.
    pub processors: u32,
    /// All processes that occur in the profile.
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
    /// Calls of the selected functions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub functions: Option<Functions>,
    /// Frames; stacks refer to them by index.
    pub frames: Vec<Frame>,
    /// Events that were lost or could not be kept.
    pub losses: Losses,
    /// Parts that could not be observed, and why.
    pub missing: Vec<Missing>,
    /// Why the observation ended early, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partial: Option<Partial>,
}

/// An observed process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id, in the observer's PID namespace.
    pub pid: u32,
    /// Its last name (`comm`).
    pub name: String,
    /// Whether it began during the observation.
    pub began: bool,
    /// Whether it ended during the observation.
    pub ended: bool,
}

/// One system call of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syscall {
    /// Process id.
    pub pid: u32,
    /// Its name, or `syscall_N`.
    pub name: String,
    /// Number of returns.
    pub calls: u64,
    /// Number of returns with an error.
    pub errors: u64,
    /// The errors, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errnos: Vec<Errno>,
    /// Sum of the durations; an estimate if not all calls were timed.
    pub total_ns: u64,
    /// The longest timed call.
    pub max_ns: u64,
    /// Number of timed calls; `None`: all. On a processor with constant calls only some are timed, to limit
    /// the overhead. Waiting time is known for all calls.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timed: Option<u64>,
    /// Calls in progress at the end: not in `calls`, nor is their time in `total_ns`.
    pub unfinished: u64,
}

/// An error that a system call returned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errno {
    /// `ENOENT`, or `errno_N`.
    pub name: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Waits of one process with the same stack and reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Process id.
    pub pid: u32,
    /// What was waited for.
    pub reason: Reason,
    /// The system call; `None`: a page fault, or preempted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub syscall: Option<String>,
    /// The object of the wait, if known: `fd 5 tcp 10.0.0.2:40112 > 10.0.0.1:443`, `futex 0x7f12...`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<String>,
    /// Indices into [`Profile::frames`], outermost first, the kernel's after the process's own.
    pub stack: Vec<u32>,
    /// Number of waits.
    pub count: u64,
    /// Of these, waits in progress at the end; their time until then counts.
    pub unfinished: u64,
    /// Sum of the durations.
    pub total_ns: u64,
    /// The longest wait.
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
    /// A processor: it was runnable, but others ran.
    Processor,
    /// Time: it sleeps.
    Sleep,
    /// A lock or a condition of its own program (futex).
    Lock,
    /// A kernel lock.
    KernelLock,
    /// Events: poll, select, epoll and their like.
    Events,
    /// The network: data, buffer space, a connection.
    Network,
    /// A pipe, a UNIX socket, a terminal: another process.
    Peer,
    /// A disk, or a file system.
    Disk,
    /// A page of memory.
    Page,
    /// The end of a child process.
    Child,
    /// Stopped, or traced.
    Stopped,
}

/// Samples of what ran on the processors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Samples per second of each processor, while an observed process runs there.
    pub samples_per_s: u32,
    /// Number of samples.
    pub samples: u64,
    /// Of these, samples in the kernel.
    pub kernel_samples: u64,
    /// Of these, samples with a user stack of a single frame: the code has no frame pointers, or the stack is
    /// that short.
    pub cut_stacks: u64,
    /// Whether the samples are of user space only, because the kernel's are not permitted.
    pub user_only: bool,
    /// Nanoseconds from the start to the first possible sample: everything was attached.
    pub ready_ns: u64,
    /// Samples by process and stack.
    pub stacks: Vec<CpuStack>,
}

/// Samples with the same stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStack {
    /// Process id.
    pub pid: u32,
    /// Indices into [`Profile::frames`], outermost first, the kernel's after the process's own.
    pub stack: Vec<u32>,
    /// Number of samples.
    pub samples: u64,
}

/// A location in a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The demangled function; `None`: unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub function: Option<String>,
    /// The file name of the program or library, `kernel`, a kernel module's name, `[vdso]`, `[jit]`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub module: Option<String>,
    /// Offset in the file, if the function is unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offset: Option<u64>,
    /// Space of its code.
    pub space: Space,
}

/// Space of code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// User space.
    #[default]
    User,
    /// The kernel.
    Kernel,
}

/// Calls of the selected functions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Functions {
    /// By process and function.
    pub calls: Vec<Function>,
    /// Mean cost of watching one call, measured on this host with functions of our own that begin and end
    /// like those.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overhead_ns_per_call: Option<f64>,
    /// Number of watched functions.
    pub watched: u64,
    /// Calls of the same functions by processes that are not observed: each was slowed as well.
    #[serde(default)]
    pub calls_of_others: u64,
    /// Mechanisms used, by the kernel's names: `uprobe_multi`, `kprobe_multi`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub means: Vec<String>,
}

/// Calls of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Process id; 0: any process (functions of the kernel).
    pub pid: u32,
    /// Its name, demangled.
    pub name: String,
    /// The file name of the program or library; `kernel`.
    pub module: String,
    /// Number of calls.
    pub calls: u64,
    /// Time on the stack; recursive calls count once. `None`: only calls are counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total_ns: Option<u64>,
    /// The same without the time in other watched functions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub self_ns: Option<u64>,
    /// The longest call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_ns: Option<u64>,
    /// Calls without an observed return: left by longjmp, an exception, exec or exit. Their time is not
    /// counted.
    pub missed_returns: u64,
    /// Calls in progress at the end. Their time is not counted.
    pub unfinished: u64,
}

/// Losses by kind. 0 means none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Losses {
    /// Samples that did not fit into the kernel's buffer.
    pub samples: u64,
    /// System calls that did not fit.
    pub syscalls: u64,
    /// Waits that did not fit.
    pub waits: u64,
    /// Stacks that could not be read or kept: their samples and waits count without a stack.
    pub stacks: u64,
    /// Calls of watched functions that could not be followed: too deep, or too many threads.
    pub functions: u64,
    /// Lost process events (begin, exec, mapped files): symbols may be missing.
    pub events: u64,
    /// Frames with only a file name, or nothing.
    pub unnamed_frames: u64,
}

/// A part that could not be observed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// A stable code: `syscalls`, `waits`, `cpu`, `kernel_samples`, `functions`, `kernel_functions`,
    /// `symbols`, `process`.
    pub part: String,
    /// What is missing, and why.
    pub text: String,
    /// What would help; `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remedy: Option<String>,
}

/// Why the observation ended early.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// A stable code: `interrupted`.
    pub code: String,
    /// What happened.
    pub text: String,
}

/// Why a file is not a profile.
#[derive(Debug)]
pub enum UnreadableProfile {
    /// Not JSON, or other JSON.
    Json(JsonError),
    /// Not a JSON object.
    NoObject,
    /// Another version.
    Version(u32),
}

/// An error of parsing. It may quote what was parsed, and only shows the beginning of that.
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cut = Cut {
            out: f,
            left: JSON_ERROR_MAX,
        };
        match write!(cut, "{}", self.0) {
            // Stopped by the limit.
            Err(fmt::Error) if cut.left == 0 => {
                write!(f, "... at line {} column {}", self.0.line(), self.0.column())
            }
            written => written,
        }
    }
}

impl std::error::Error for JsonError {}

/// Writes so many characters, and fails at the next one.
struct Cut<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    left: usize,
}

impl fmt::Write for Cut<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.out.write_char(character)?;
        }
        Ok(())
    }
}

/// Most characters of an error of parsing.
const JSON_ERROR_MAX: usize = 200;

impl Profile {
    /// Rises when a key changes its meaning or is removed, not when one is added.
    pub const SCHEMA_VERSION: u32 = 2;

    /// The JSON text, with a newline at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("its keys are strings, and its numbers finite");
        text.push('\n');
        text
    }

    /// Parses the JSON text.
    ///
    /// # Errors
    /// If it is not the JSON of a profile.
    pub fn from_json(text: &[u8]) -> Result<Self, UnreadableProfile> {
        // Also a list of values would fit.
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err(UnreadableProfile::NoObject);
        }
        let profile: Self =
            serde_json::from_slice(text).map_err(|error| UnreadableProfile::Json(JsonError(error)))?;
        // A default value has version 0.
        if profile.schema_version > Self::SCHEMA_VERSION {
            return Err(UnreadableProfile::Version(profile.schema_version));
        }
        Ok(profile)
    }
}

impl fmt::Display for UnreadableProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The source error has place and reason.
            Self::Json(_) | Self::NoObject => f.write_str("not a profile, as sockeye prof --json writes it"),
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
            Self::NoObject | Self::Version(_) => None,
        }
    }
}
