//! Arguments of `sockeye history`.

use clap::{Args, Subcommand, ValueEnum};
use sockeye_console::args::FormatArg;
use sockeye_console::rows::RowsArgs;
use sockeye_console::usage::UsageError;
use sockeye_output::date::push_rfc3339_us;
use sockeye_query::args::ReplayArgs;
use sockeye_query::when;
use sockeye_store::By;
use std::path::{Path, PathBuf};

/// What was recorded: what is kept, who talked most, what differs between two times, connections over time, findings
///
/// `sockeye record` records. `flows`, `sockets` and `check` take --at TIME, and list what was there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HistoryArgs {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    List(ListArgs),
    Top(TopArgs),
    Diff(DiffArgs),
    Timeline(TimelineArgs),
    Findings(FindingsArgs),
    Counts(CountsArgs),
    Export(ExportArgs),
    /// Play recorded time on the screen of `top`
    ///
    /// Left and Right go to the sample before and after, PgUp and PgDn by minutes, space plays and stops; all other keys are those of `top`.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
}

impl Command {
    /// Returns the store that was named.
    pub(super) fn store(&self) -> Option<&Path> {
        let store = match self {
            Self::List(args) => &args.common.store,
            Self::Top(args) => &args.common.store,
            Self::Diff(args) => &args.common.store,
            Self::Timeline(args) => &args.common.store,
            Self::Findings(args) => &args.common.store,
            Self::Counts(args) => &args.common.store,
            Self::Export(args) => &args.store,
            Self::Replay(args) => &args.store,
        };
        store.as_deref()
    }
}

/// List what is kept: times with samples, times without and why, sizes
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) common: StoreArgs,
}

/// Who transferred most, also by connections that ended between two samples
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub(super) struct TopArgs {
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// What is summed up together
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = ByArg::Owner)]
    pub(super) by: ByArg,
    /// Show the first N rows, after sorting; 0: all
    #[arg(long, value_name = "N", default_value = "20", allow_negative_numbers = true,
          value_parser = sockeye_console::values::top)]
    pub(super) top: usize,
    #[command(flatten)]
    pub(super) common: StoreArgs,
}

/// What differs between two times: flows that came, went, have more or fewer connections, became slower or faster
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(super) struct DiffArgs {
    /// The earlier time: 03:00, "yesterday 03:00", -2h
    #[arg(value_name = "FROM", allow_hyphen_values = true)]
    pub(super) from: String,
    /// The later time
    #[arg(value_name = "TO", allow_hyphen_values = true)]
    pub(super) to: String,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    #[command(flatten)]
    pub(super) common: StoreArgs,
}

/// A selection of TCP connections over time: number, traffic, round trip time, retransmissions; gaps are visible
#[derive(Debug, Args)]
#[command(after_help = TIMELINE_EXAMPLES)]
pub(super) struct TimelineArgs {
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Points in time; otherwise as many as the terminal is wide, without one 60
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(super) points: Option<u32>,
    /// Also draw it into this SVG file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    #[command(flatten)]
    pub(super) common: StoreArgs,
}

/// What `check` found: since when, until when, evidence and remedy
#[derive(Debug, Args)]
#[command(after_help = FINDINGS_EXAMPLES)]
pub(super) struct FindingsArgs {
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// What `sockeye record` kept of this time: 03:12, "yesterday 03:12:20", -10m or as RFC 3339 writes it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["since", "until"])]
    pub(super) at: Option<String>,
    #[command(flatten)]
    pub(super) common: StoreArgs,
}

/// What the kernel counted: counters that moved, and dropped packets by reason and owner, by the minute
#[derive(Debug, Args)]
#[command(after_help = COUNTS_EXAMPLES)]
pub(super) struct CountsArgs {
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Show the first N rows, after sorting; 0: all
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true,
          value_parser = sockeye_console::values::top)]
    pub(super) top: usize,
    #[command(flatten)]
    pub(super) common: StoreArgs,
}

/// Write sums of talkers as CSV, JSON lines or Parquet, or a copy of the store as an SQLite file
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// The form
    #[arg(long, value_enum)]
    pub(super) format: ExportFormat,
    /// The file to write; CSV and JSON lines go to the standard output without it
    #[arg(short = 'o', long, value_name = "FILE", required_if_eq_any([("format", "sqlite"), ("format", "parquet")]))]
    pub(super) output: Option<PathBuf>,
    /// The file that was recorded; otherwise that of the host, or your own
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
}

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// Comma-separated values
    Csv,
    /// One JSON object a line
    Jsonl,
    /// A Parquet file, which DuckDB, ClickHouse and pandas read
    Parquet,
    /// A copy of the whole store
    Sqlite,
}

/// The time to look at.
#[derive(Debug, Args)]
pub(super) struct RangeArgs {
    /// Begin: a time, or how long ago: 24h
    #[arg(long, value_name = "TIME", default_value = "24h", allow_hyphen_values = true)]
    pub(super) since: String,
    /// End: a time, or how long ago
    #[arg(long, value_name = "TIME", default_value = "now", allow_hyphen_values = true)]
    pub(super) until: String,
}

impl RangeArgs {
    /// Returns begin and end, in milliseconds since 1970.
    pub(super) fn times_ms(&self) -> anyhow::Result<(u64, u64)> {
        let now = when::now();
        let time = |flag: &str, text: &str| {
            when::since(text, &now).map_err(|error| UsageError(format!("sockeye: {flag}: {error}\n")))
        };
        let (since, until) = (time("--since", &self.since)?, time("--until", &self.until)?);
        if since >= until {
            let names = ["--since", "--until"];
            return Err(when::wrong_order(names, [since, until]).into());
        }
        Ok((since, until))
    }
}

/// What talkers are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ByArg {
    /// Name of the process
    Owner,
    /// Address of the peer
    Peer,
    /// Port of the service
    Port,
    /// Network namespace
    Netns,
    /// Container
    Container,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Owner => Self::Owner,
            ByArg::Peer => Self::Peer,
            ByArg::Port => Self::Port,
            ByArg::Netns => Self::Netns,
            ByArg::Container => Self::Container,
        }
    }
}

/// The connections to look at.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// In another network namespace, or in all
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub(super) netns: Option<String>,
    /// Which connections: an expression as in ss, for example: dport = :443
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
}

/// Options of each of them.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// The file that was recorded; otherwise that of the host, or your own
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
    #[command(flatten)]
    pub(super) rows: RowsArgs,
}

impl StoreArgs {
    /// Returns what makes times of rows, in milliseconds since 1970, text: local time for people, RFC 3339 in UTC for programs.
    pub(super) fn time(&self) -> fn(u64) -> String {
        match self.rows.format {
            FormatArg::Table if self.rows.is_narrow_table() => when::brief,
            FormatArg::Table => when::local,
            _ => utc,
        }
    }
}

fn utc(at_ms: u64) -> String {
    let mut text = String::new();
    push_rfc3339_us(&mut text, at_ms.saturating_mul(1000));
    text
}

const EXAMPLES: &str = "\
Examples:
  sockeye history list                       what is kept, and gaps
  sockeye history top --since 24h --by peer  who transferred most
  sockeye history diff 03:00 03:15           what came, went, slowed down
  sockeye history timeline 'dport = :5432'   connections over time
  sockeye history findings --since 12h       what was wrong, and when
  sockeye history counts --since 1h          resets, retransmissions, drops
  sockeye history export --format sqlite -o copy.db
  sockeye flows -np --at 03:12               connections at that time
  sockeye sockets -tn --at 'yesterday 03:12:20' 'retrans > 0'

Exit status: 0 fine, 1 a failure, 2 usage error.";

const LIST_EXAMPLES: &str = "\
Examples:
  sockeye history list                          times with samples, gaps, sizes
  sockeye history list --format jsonl           for a script";

const TOP_EXAMPLES: &str = "\
Examples:
  sockeye history top                           the processes that transferred most in 24 h
  sockeye history top --since 1h --by peer      the peers, in the last hour";

const DIFF_EXAMPLES: &str = "\
Examples:
  sockeye history diff 03:00 03:15              what came, went, slowed down
  sockeye history diff -2h now 'dport = :5432'  of some connections";

const TIMELINE_EXAMPLES: &str = "\
Examples:
  sockeye history timeline 'dport = :5432'      a day of connections to port 5432
  sockeye history timeline --since 1h --format csv
  sockeye history timeline --since 12h --svg night.svg";

const FINDINGS_EXAMPLES: &str = "\
Examples:
  sockeye history findings                      of the last 24 h
  sockeye history findings --at 03:12           what was wrong then";

const COUNTS_EXAMPLES: &str = "\
Examples:
  sockeye history counts --since 03:00 --until 03:15
  sockeye history counts --format csv           of the last 24 h";

const REPLAY_EXAMPLES: &str = "\
Examples:
  sockeye history replay --at 03:10             the screen as it was from 03:10 on
  sockeye history replay --speed 60 'dport = :5432'";

const EXPORT_EXAMPLES: &str = "\
Examples:
  sockeye history export --format csv           sums of five minutes, of the last 24 h
  sockeye history export --format parquet --since 7d -o week.parquet
  sockeye history export --format sqlite -o copy.db";
