//! What can be typed behind `prof`.

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
/// System calls are counted and timed; so is all time off the processor, by what is waited for and where; what computes is
/// sampled. Threads and children are looked at as well, those that begin meanwhile too. It ends after -d seconds, with the
/// command, or when all processes have ended; ^C ends it early and prints what there is. Nothing is left behind.
///
/// A command's output goes to the standard error, so that the standard output is the report alone; its exit status is
/// ours. Where -d ends before the command does, the report comes first, and the command is waited for.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "sockeye prof [OPTIONS] (-p PID | --cgroup G | --system | [--] COMMAND...)\n       \
                      sockeye prof [OPTIONS] --diff A.json B.json"
)]
pub struct ProfArgs {
    /// For so many seconds; without it 10, but a command until it ends
    #[arg(short = 'd', long, value_name = "SECS", allow_negative_numbers = true, value_parser = values::seconds)]
    pub(super) duration: Option<Duration>,
    /// These processes, separated by commas
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = pid)]
    pub(super) pids: Vec<u32>,
    /// All in a cgroup (v2), by its path below /sys/fs/cgroup or as a whole
    #[arg(long, value_name = "CGROUP")]
    pub(super) cgroup: Option<PathBuf>,
    /// Everybody
    #[arg(long)]
    pub(super) system: bool,
    /// Only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',')]
    pub(super) only: Vec<PartArg>,
    /// Samples a second of each processor
    #[arg(long, value_name = "N", default_value_t = 99, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) hz: u32,
    /// Also count and time calls of the functions with such names ('BF_*'); may be given several times. Of a file that others
    /// use too, as the C library, with -p and --cgroup only those who are looked at are slowed, and children are seen a moment
    /// after they begin; with a command or --system everybody is, which is told. More than 256 functions of such a file are
    /// not watched
    #[arg(long, value_name = "GLOB")]
    pub(super) functions: Vec<String>,
    /// With --functions: only those of this library or program (libcrypto, or a path: with a command that file is watched
    /// from the start, whoever executes or loads it later)
    #[arg(long, value_name = "NAME", requires = "functions")]
    pub(super) lib: Option<String>,
    /// Also functions of the kernel with such names, where the kernel allows it; may be given several times
    #[arg(long, value_name = "GLOB")]
    pub(super) kernel_functions: Vec<String>,
    /// Each process by itself, instead of all together
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(super) by: Option<ByArg>,
    /// So many rows of each table, the largest; 0: all. Without it 20, and of CSV all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::top)]
    pub(super) rows: Option<usize>,
    /// Live: again and again what happened since, so many rows of each table; ^C ends it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = rows_live)]
    pub(super) top: Option<usize>,
    /// With --top: every so many seconds
    #[arg(long, value_name = "SECS", requires = "top", allow_negative_numbers = true, default_value = "1",
          value_parser = values::seconds)]
    pub(super) interval: Duration,
    /// Stacks as lines that flame graphs are made of (process;outer;inner COUNT), instead of tables
    #[arg(long)]
    pub(super) folded: bool,
    /// Which stacks --folded and -o have: of samples, or of waits by microseconds
    #[arg(long, value_name = "WHICH", value_enum)]
    stacks: Option<StacksArg>,
    /// Draw a flame graph into a file, called .svg or .png
    #[arg(short = 'o', long, value_name = "OUT.svg")]
    pub(super) output: Option<PathBuf>,
    /// In which form
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatArg::Table)]
    format: FormatArg,
    /// The same as --format json: what --diff reads
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// What changed from one profile to another, which --json wrote
    #[arg(long, value_names = ["A.json", "B.json"], num_args = 2)]
    diff: Vec<PathBuf>,
    /// Tables and CSV without their first line
    #[arg(short = 'H', long)]
    pub(super) no_header: bool,
    /// Colours: auto, always, never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(super) color: ColorArg,
    /// Where the kernel describes its own types, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(super) btf: PathBuf,
    /// Start this command, and look at it from its first instruction on; its output goes to the standard error
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    words: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PartArg {
    /// System calls by count, time and errors
    Syscalls,
    /// Time off the processor by reason
    Waits,
    /// Samples of what computes
    Cpu,
    /// Only what --functions and --kernel-functions ask for
    Functions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ByArg {
    /// By process
    Process,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StacksArg {
    /// Samples of what computes
    Cpu,
    /// Waits, by microseconds
    Waits,
}

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Processes(&'a [u32]),
    Cgroup(&'a Path),
    System,
    Command(&'a [OsString]),
    Difference(&'a Path, &'a Path),
}

impl ProfArgs {
    /// Exactly one of them, and flags that go with it.
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
            return Err(mistake(
                "whom? one of: -p PID, --cgroup CGROUP, --system, -- COMMAND, or --diff A.json B.json",
            ));
        }
        if given.len() > 1 {
            let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
            let text = format!("{}: only one of them at a time", names.join(" and "));
            return Err(mistake(&text));
        }
        let (name, target) = given.remove(0);
        self.check(name, &target)?;
        Ok(target)
    }

    /// Flags that mean nothing beside others.
    fn check(&self, name: &str, target: &Target<'_>) -> Result<(), UsageError> {
        let is_given = [
            ("--folded", self.folded),
            ("-o", self.output.is_some()),
            ("--top", self.top.is_some()),
            ("-d", self.duration.is_some()),
            ("--only", !self.only.is_empty()),
            ("--functions", !self.functions.is_empty()),
            ("--kernel-functions", !self.kernel_functions.is_empty()),
            ("--by", self.by.is_some()),
            ("--stacks", self.stacks.is_some()),
        ];
        if matches!(target, Target::Difference(..))
            && let Some((flag, _)) = is_given.iter().find(|(_, given)| *given)
        {
            return Err(mistake(&format!("{name}: {flag} means nothing for two files")));
        }
        let needed = match self.stacks() {
            StackKind::Cpu => PartArg::Cpu,
            StackKind::Waits => PartArg::Waits,
        };
        let has_stacks = self.folded || self.output.is_some();
        let wrong = if self.folded && self.form() != Format::Table {
            "--folded is a form of its own: it goes with no other"
        } else if self.folded && self.top.is_some() {
            "--top shows tables: it does not go with --folded"
        } else if self.top.is_some() && self.rows.is_some() {
            "--top N says how many rows: it does not go with --rows"
        } else if self.stacks.is_some() && !has_stacks {
            "--stacks says which stacks --folded or -o have: one of them is missing"
        } else if self.only.contains(&PartArg::Functions)
            && self.functions.is_empty()
            && self.kernel_functions.is_empty()
        {
            "--only functions: which? --functions 'NAME*' or --kernel-functions 'NAME*' says it"
        } else if has_stacks && !self.only.is_empty() && !self.only.contains(&needed) {
            match needed {
                PartArg::Waits => "--stacks waits needs waits among --only",
                _ => "stacks of samples need cpu among --only; --stacks waits has those of waits",
            }
        } else {
            return Ok(());
        };
        Err(mistake(wrong))
    }

    pub(super) fn stacks(&self) -> StackKind {
        match self.stacks {
            None | Some(StacksArg::Cpu) => StackKind::Cpu,
            Some(StacksArg::Waits) => StackKind::Waits,
        }
    }

    pub(super) fn form(&self) -> Format {
        if self.json {
            Format::Json
        } else {
            Format::from(self.format)
        }
    }
}

/// A mistake on the command line.
pub(super) fn mistake(text: &str) -> UsageError {
    UsageError(format!("sockeye: prof: {text}\n"))
}

fn pid(text: &str) -> Result<u32, String> {
    let pid = text.trim().parse().ok();
    pid.filter(|pid| (1..=PID_MAX).contains(pid))
        .ok_or_else(|| format!("expected the number of a process, 1 to {PID_MAX}"))
}

fn rows_live(text: &str) -> Result<usize, String> {
    let rows = text.parse().ok();
    rows.filter(|rows| (1..=1000).contains(rows))
        .ok_or_else(|| "expected a number of rows, 1 to 1000".to_owned())
}

/// The kernel's limit, `PID_MAX_LIMIT`.
const PID_MAX: u32 = 4_194_304;

const EXAMPLES: &str = "\
Examples:
  sockeye prof -p 4711                       ten seconds of a process
  sockeye prof -d 30 --cgroup system.slice/nginx.service
  sockeye prof -- ip netns list              a command, from its first instruction on
  sockeye prof -p 4711 -o cpu.svg            and a flame graph
  sockeye prof -p 4711 --stacks waits -o off.svg
                                             of what it waits for
  sockeye prof -p 4711 --functions 'BF_*' --lib libcrypto
                                             how often they are called, and how long they take
  sockeye prof --system --top 5              live
  sockeye prof -p 4711 --json > before.json  and later
  sockeye prof --diff before.json after.json what changed";
