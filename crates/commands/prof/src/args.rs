//! The options of `prof`, and which of them exclude each other.

use clap::{Args, ValueEnum};
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_console::usage::UsageError;
use sockeye_console::values;
use sockeye_output::Format;
use sockeye_profile::StackKind;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the time of processes goes: system calls, waits, computing, functions
///
/// System calls are counted and timed. Time off the processor is measured by reason and place. Code that runs is sampled.
/// Threads and children are observed as well, also new ones. It ends after -d seconds, with the command, or when all
/// processes have ended; ^C ends it early and prints the results so far. Nothing is left behind.
///
/// A command's output goes to the standard error: the standard output has only the report. The exit status is the
/// command's. If -d ends before the command does, the report is printed first; then prof waits for the command.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "sockeye prof [OPTIONS] (-p PID | --cgroup G | --system | [--] COMMAND...)\n       \
                      sockeye prof [OPTIONS] --diff A.json B.json"
)]
pub struct ProfArgs {
    /// Observe for this many seconds [default: 10; a command until it ends]
    #[arg(short = 'd', long, value_name = "SECS", allow_negative_numbers = true, value_parser = values::seconds)]
    pub(super) duration: Option<Duration>,
    /// Observe these processes, separated by commas
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = pid)]
    pub(super) pids: Vec<u32>,
    /// Observe all processes of a cgroup (v2): a full path, or one below /sys/fs/cgroup
    #[arg(long, value_name = "CGROUP")]
    pub(super) cgroup: Option<PathBuf>,
    /// Observe all processes
    #[arg(long)]
    pub(super) system: bool,
    /// Only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',')]
    pub(super) only: Vec<PartArg>,
    /// Samples per second on each processor
    #[arg(long, value_name = "N", default_value_t = 99, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) hz: u32,
    /// How the stacks of samples are walked: by frame pointers; by unwind tables, from a copy of 16 KiB of each stack; or both, and
    /// the longer one counts
    #[arg(long, value_name = "HOW", value_enum, default_value_t = UnwindArg::Fp)]
    pub(super) unwind: UnwindArg,
    /// Also count and time calls of functions whose names match ('BF_*'); can be repeated. If other processes use the same
    /// file (the C library), -p and --cgroup slow only the observed processes and see new children a moment late; a command
    /// and --system slow all processes that use it, and the report says so. More than 256 functions of such a file are not
    /// watched
    #[arg(long, value_name = "GLOB")]
    pub(super) functions: Vec<String>,
    /// With --functions: only functions of this library or program (libcrypto, or a path: with a command that file is
    /// watched from the start, also if a child loads it later)
    #[arg(long, value_name = "NAME", requires = "functions")]
    pub(super) lib: Option<String>,
    /// Also functions of the kernel whose names match, where the kernel allows it; can be repeated
    #[arg(long, value_name = "GLOB")]
    pub(super) kernel_functions: Vec<String>,
    /// One row per process, instead of all processes together
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(super) group_by: Option<GroupByArg>,
    /// Show the N largest rows of each table; 0: all [default: 20; CSV and JSON: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::top)]
    pub(super) top: Option<usize>,
    /// Repeat every so many seconds, until ^C, --count or -d: what happened since the report before. JSON is one
    /// document per report then
    #[arg(short = 'w', long, value_name = "SECS", allow_negative_numbers = true, value_parser = values::seconds)]
    pub(super) watch: Option<Duration>,
    /// With -w: end after N reports
    #[arg(short = 'c', long, value_name = "N", requires = "watch", allow_negative_numbers = true,
          value_parser = values::count)]
    pub(super) count: Option<u64>,
    /// Print folded stacks for flame graph tools (process;outer;inner COUNT), instead of tables
    #[arg(long)]
    pub(super) folded: bool,
    /// Which stacks --folded and -o show: samples, or waits in microseconds
    #[arg(long, value_name = "WHICH", value_enum)]
    stacks: Option<StacksArg>,
    /// Draw a flame graph into a file whose name ends in .svg or .png
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatArg::Table)]
    format: FormatArg,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Show what changed between two profiles that --json wrote
    #[arg(long, value_names = ["A.json", "B.json"], num_args = 2)]
    diff: Vec<PathBuf>,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub(super) no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(super) color: ColorArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(super) btf: PathBuf,
    /// Start this command and observe it from its first instruction; its output goes to the standard error
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    words: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PartArg {
    /// System calls by count, time and errors
    Syscalls,
    /// Time off the processor by reason
    Waits,
    /// Samples of running code
    Cpu,
    /// Only the functions that --functions and --kernel-functions select
    Functions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum UnwindArg {
    /// By frame pointers
    Fp,
    /// By unwind tables (.eh_frame, DWARF)
    Dwarf,
    /// By both: the longer stack counts
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GroupByArg {
    /// By process
    Process,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StacksArg {
    /// Samples of running code
    Cpu,
    /// Waits, in microseconds
    Waits,
}

/// What to observe, or which files to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Processes(&'a [u32]),
    Cgroup(&'a Path),
    System,
    Command(&'a [OsString]),
    Difference(&'a Path, &'a Path),
}

impl ProfArgs {
    /// Returns the one target that was given.
    ///
    /// # Errors
    /// If there is none or more than one, or another option does not go with it.
    pub(super) fn target(&self) -> Result<Target<'_>, UsageError> {
        let mut given = Vec::new();
        if !self.pids.is_empty() {
            given.push(("-p", Target::Processes(&self.pids)));
        }
        if let Some(cgroup) = &self.cgroup {
            given.push(("--cgroup", Target::Cgroup(cgroup)));
        }
        if self.system {
            given.push(("--system", Target::System));
        }
        if let [a, b] = &self.diff[..] {
            given.push(("--diff", Target::Difference(a, b)));
        }
        if self.words.iter().any(|word| word != "--") {
            given.push(("a command", Target::Command(&self.words)));
        }
        if given.is_empty() {
            return Err(usage_error(
                "whom? give one of: -p PID, --cgroup CGROUP, --system, -- COMMAND, or --diff A.json B.json",
            ));
        }
        if given.len() > 1 {
            let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
            let text = format!("{}: only one of them at a time", names.join(" and "));
            return Err(usage_error(&text));
        }
        let (name, target) = given.remove(0);
        self.check(name, &target)?;
        Ok(target)
    }

    /// Rejects options that contradict each other.
    fn check(&self, name: &str, target: &Target<'_>) -> Result<(), UsageError> {
        let is_given = [
            ("--folded", self.folded),
            ("-o", self.output.is_some()),
            ("--watch", self.watch.is_some()),
            ("-d", self.duration.is_some()),
            ("--only", !self.only.is_empty()),
            ("--functions", !self.functions.is_empty()),
            ("--kernel-functions", !self.kernel_functions.is_empty()),
            ("--group-by", self.group_by.is_some()),
            ("--stacks", self.stacks.is_some()),
        ];
        if matches!(target, Target::Difference(..))
            && let Some((flag, _)) = is_given.iter().find(|(_, given)| *given)
        {
            return Err(usage_error(&format!(
                "{name}: {flag} means nothing for two files"
            )));
        }
        let needed = match self.stacks() {
            StackKind::Cpu => PartArg::Cpu,
            StackKind::Waits => PartArg::Waits,
        };
        let has_stacks = self.folded || self.output.is_some();
        let wrong = if self.folded && self.output_format() != Format::Table {
            "--folded is a format of its own: it does not go with --format or --json"
        } else if self.folded && self.watch.is_some() {
            "--watch shows tables: it does not go with --folded"
        } else if self.stacks.is_some() && !has_stacks {
            "--stacks needs --folded or -o: it selects the stacks that they show"
        } else if self.only.contains(&PartArg::Functions)
            && self.functions.is_empty()
            && self.kernel_functions.is_empty()
        {
            "--only functions: which? Add --functions 'NAME*' or --kernel-functions 'NAME*'"
        } else if has_stacks && !self.only.is_empty() && !self.only.contains(&needed) {
            match needed {
                PartArg::Waits => "--stacks waits needs waits among --only",
                _ => "stacks of samples need cpu among --only; for stacks of waits add --stacks waits",
            }
        } else {
            return Ok(());
        };
        Err(usage_error(wrong))
    }

    /// Returns which stacks `--folded` and `-o` show.
    pub(super) fn stacks(&self) -> StackKind {
        match self.stacks {
            None | Some(StacksArg::Cpu) => StackKind::Cpu,
            Some(StacksArg::Waits) => StackKind::Waits,
        }
    }

    pub(super) fn output_format(&self) -> Format {
        if self.json {
            Format::Json
        } else {
            Format::from(self.format)
        }
    }
}

/// Returns a usage error with the prefix of this command.
pub(super) fn usage_error(text: &str) -> UsageError {
    UsageError(format!("sockeye: prof: {text}\n"))
}

fn pid(text: &str) -> Result<u32, String> {
    let pid = text.trim().parse().ok();
    pid.filter(|pid| (1..=PID_MAX).contains(pid))
        .ok_or_else(|| format!("expected the number of a process, 1 to {PID_MAX}"))
}

/// The kernel's limit, `PID_MAX_LIMIT`.
const PID_MAX: u32 = 4_194_304;

const EXAMPLES: &str = "\
Examples:
  sockeye prof -p 4711                            a process, for ten seconds
  sockeye prof -d 30 --cgroup system.slice/nginx.service
  sockeye prof -- ip netns list                   a command, from its start
  sockeye prof -p 4711 -o cpu.svg                 also a flame graph
  sockeye prof -p 4711 --stacks waits -o off.svg  a flame graph of its waits
  sockeye prof -p 4711 --functions 'BF_*' --lib libcrypto
                                                  calls and their time
  sockeye prof --system -w 1 --top 5              live
  sockeye prof -p 4711 --json > before.json
  sockeye prof --diff before.json after.json what changed

Exit status: that of the command if it is not 0; otherwise 0 success, 1 failure or an incomplete profile, 2 usage error.";
