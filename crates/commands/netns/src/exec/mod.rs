//! `sockeye ns exec`: a program in a network namespace, or in many at once.

mod job;
mod many;
mod outcome;
mod report;

use clap::{Args, ValueEnum};
use many::Many;
use sockeye_act::netns;
use sockeye_act::program::Program;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use sockeye_output::harmless;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Run a program in a network namespace, as ip netns exec does, or in many at once
///
/// In one namespace the program takes the place of sockeye: the same process, terminal and exit status. With --all or
/// --prefix each runs with nothing to read; what it prints comes line by line behind the name of its namespace, stdout
/// to stdout and stderr to stderr, and otherwise as it is, on a terminal too.
///
/// For the program alone, /sys shows the interfaces of the namespace, and the files of /etc/netns/NAME lie over those of
/// /etc.
#[derive(Debug, Args)]
#[command(override_usage = "sockeye ns exec [OPTIONS] NAME [--] COMMAND...\n       \
                            sockeye ns exec [OPTIONS] --all|--prefix TEXT [--] COMMAND...")]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExecArgs {
    /// In every namespace that has a name
    #[arg(long, conflicts_with = "prefix")]
    all: bool,
    /// In every namespace whose name begins so
    #[arg(long, value_name = "TEXT")]
    prefix: Option<OsString>,
    /// How many at once; twice as many as there are processors unless told otherwise
    #[arg(short = 'j', long, value_name = "N", value_parser = sockeye_console::values::count)]
    jobs: Option<u64>,
    /// In which form; json and jsonl hold output and exit status of each, in the order in which they ended
    #[arg(long, value_enum, default_value_t = ExecFormat::Text)]
    format: ExecFormat,
    /// Print the names of the namespaces, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// The namespace, unless --all or --prefix is given; then the program and its arguments
    #[arg(value_name = "NAME COMMAND", trailing_var_arg = true)]
    words: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecFormat {
    /// What the program prints
    Text,
    /// One array of objects
    Json,
    /// One object a line
    Jsonl,
}

pub(crate) fn run(args: &ExecArgs) -> anyhow::Result<ExitCode> {
    let is_one = !args.all && args.prefix.is_none();
    let (names, words) = if is_one {
        let (name, words) = args.words.split_first().ok_or_else(|| {
            UsageError("sockeye: ns exec: which namespace? a name, --all or --prefix TEXT\n".to_owned())
        })?;
        // What stands for it may be gone: that is told when it is opened.
        (vec![super::existing(name)?], words)
    } else {
        (super::all_names(args.prefix.as_deref())?, &args.words[..])
    };
    if args.dry_run {
        stdout::write_lines(names.iter().map(|name| harmless(name.as_os_str().as_bytes())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = Program::new(words).ok_or_else(|| {
        UsageError("sockeye: ns exec: no command, as in: sockeye ns exec web1 ip addr\n".to_owned())
    })?;
    if let Err(error) = netns::leave_vrf() {
        notes::say(&format!(
            "sockeye: cannot leave the VRF of ip vrf exec: {error}; sockets stay bound to its interface\n"
        ));
    }
    if let ([name], true, ExecFormat::Text) = (&names[..], is_one, args.format) {
        return Ok(become_it(name, &program));
    }
    if names.is_empty() {
        let which = match &args.prefix {
            Some(prefix) => format!("has a name that begins with {prefix:?}"),
            None => "has a name".to_owned(),
        };
        notes::say(&format!(
            "sockeye: no network namespace {which}: nothing to run\n"
        ));
    }
    Many {
        names: &names,
        program: &program,
        is_one,
        jobs: args.jobs,
        format: args.format,
    }
    .run()
}

/// Only returns if that fails, with the exit status of `ip netns exec`.
fn become_it(name: &NetnsName, program: &Program<'_>) -> ExitCode {
    match netns::enter(name) {
        Ok(entered) => {
            for failed in &entered.failed_binds {
                notes::say(&format!("sockeye: {failed}\n"));
            }
            notes::say(&format!("sockeye: {}\n", program.exec()));
            ExitCode::from(NOT_STARTED)
        }
        Err(error) => {
            notes::say(&format!("sockeye: {error}\n"));
            ExitCode::from(NOT_ENTERED)
        }
    }
}

/// As `ip netns exec` ends when the program cannot be started.
const NOT_STARTED: u8 = 1;
/// As `ip netns exec` ends when the namespace cannot be entered.
const NOT_ENTERED: u8 = 255;

const EXAMPLES: &str = "\
Examples:
  sockeye ns exec web1 ip addr                         as ip netns exec web1 ip addr
  sockeye ns exec --all -- ip -br link                 each line behind the name of its namespace
  sockeye ns exec --prefix web -j 8 -- ping -c1 10.0.0.1
  sockeye ns exec --all --format jsonl -- ss -s        output and exit status of each, for scripts

Exit status: that of the command, or 128 and the number of the signal that killed it; of many, the
highest. 255 if the namespace cannot be entered, 1 if the command cannot be started, 2 for a
mistake on the command line, 130 after ^C.";
