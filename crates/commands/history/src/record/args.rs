//! Arguments of `sockeye record`.

use crate::listing_args::listing_args;
use crate::values;
use clap::Args;
use sockeye_query::args::{ListingArgs, SourceArg};
use std::path::PathBuf;
use std::time::Duration;

/// Record connections with their owners, in bounded space, for `history` and `--at`
///
/// Every ten seconds it adds a sample of all TCP, UDP and RAW sockets to one file, until it is ended, and every minute what `check`
/// finds, which counters moved, and what the kernel dropped. Each sample is one transaction: whenever the process is killed, at most the sample in hand is missing. The file never exceeds its size
/// limit; the oldest samples go first. Times without samples are kept as gaps with their reason.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArgs {
    /// Take one sample and end: for timers
    #[arg(long)]
    pub(super) once: bool,
    /// Seconds between samples; with --once: between its calls
    #[arg(long, value_name = "SECS", default_value = "10", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds)]
    pub(super) interval: Duration,
    /// Time between two checks for findings, in seconds; 0 for none
    #[arg(long, value_name = "SECS", default_value = "60", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds_or_zero)]
    pub(super) check_interval: Duration,
    /// The file; otherwise /var/lib/sockeye/record.db, or for users one in their state folder
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
    /// The most that all files of the store may have together
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = values::max_size)]
    pub(super) max_size: u64,
    /// Delete what is older, even if there is space
    #[arg(long, value_name = "TIME", value_parser = values::age)]
    pub(super) max_age: Option<Duration>,
    /// In another network namespace: its name, a process in it, a path, a container's name or id, or 'all'
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub(super) netns: Option<String>,
    /// Source of the sockets; `sockeye doctor` shows what works here
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    pub(super) source: SourceArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(super) btf: PathBuf,
    /// Report each sample on stderr
    #[arg(short = 'v', long)]
    pub(super) verbose: bool,
}

impl RecordArgs {
    /// Returns the options of a listing of what is recorded.
    pub(super) fn listing(&self) -> ListingArgs {
        listing_args(self.netns.clone(), self.source, self.btf.clone())
    }
}

const EXAMPLES: &str = "\
Examples:
  sockeye record                            every 10 s, until ^C
  sockeye record -N all --max-size 2Gi      every network namespace
  sockeye record --once --interval 60       from a timer that runs every minute
  sockeye flows -np --at 03:12              what was there
  sockeye history list                      what is kept

Exit status: 0 ended, 1 a failure, 2 usage error, or another recorder writes there.";
