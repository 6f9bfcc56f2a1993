//! Arguments of `sockeye fleet`.

use clap::{Args, Subcommand};
use sockeye_console::rows::RowsArgs;
use sockeye_console::server_args::ServerArgs;
use sockeye_console::usage::UsageError;
use sockeye_fleet::question::TimeRange;
use sockeye_query::when;
use std::path::PathBuf;

/// Connections of many hosts: what they sent to ClickHouse by `sockeye export clickhouse`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Schema(SchemaArgs),
    Hosts(HostsArgs),
    Who(WhoArgs),
    At(AtArgs),
    Map(MapArgs),
    Findings(FindingsArgs),
    Blame(BlameArgs),
}

/// Print the statements that create the tables, or execute them
///
/// Flows are kept 7 days as they were sent, 90 days by five minutes and 400 days by the hour.
#[derive(Debug, Args)]
#[command(after_help = SCHEMA_EXAMPLES)]
pub(super) struct SchemaArgs {
    /// Create the tables, or upgrade those of an older version
    #[arg(long)]
    pub(super) apply: bool,
    /// For a cluster of this name: replicated tables on each server, and tables that distribute
    #[arg(long, value_name = "NAME")]
    pub(super) cluster: Option<String>,
    /// Hosts that will send (100): the server remembers their inserts of a day, at most 2 million a table; also for tables that exist
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) hosts: Option<u32>,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// List the hosts: when they last sent, gaps, losses, clocks
#[derive(Debug, Args)]
#[command(after_help = HOSTS_EXAMPLES)]
pub(super) struct HostsArgs {
    #[command(flatten)]
    pub(super) range: RangeArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// List who talked to whom, as both ends saw it
#[derive(Debug, Args)]
#[command(after_help = WHO_EXAMPLES)]
pub(super) struct WhoArgs {
    /// Port of the server
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// List the connections between hosts at a time
#[derive(Debug, Args)]
#[command(after_help = AT_EXAMPLES)]
pub(super) struct AtArgs {
    /// The time: 03:12, "yesterday 03:12", -10m
    #[arg(value_name = "TIME", allow_hyphen_values = true)]
    pub(super) at: String,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// List which services use which
#[derive(Debug, Args)]
#[command(after_help = MAP_EXAMPLES)]
pub(super) struct MapArgs {
    /// Also draw it into this SVG file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// List what `check` found on all hosts
#[derive(Debug, Args)]
#[command(after_help = FINDINGS_EXAMPLES)]
pub(super) struct FindingsArgs {
    /// Of this rule alone
    #[arg(long, value_name = "NAME")]
    pub(super) rule: Option<String>,
    /// Of this host alone
    #[arg(long, value_name = "NAME")]
    pub(super) host: Option<String>,
    /// Show the first N rows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) top: u32,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// Say what makes a service slow: the server, the network or the clients
///
/// Each edge to it is judged by what its ends saw: queues, retransmissions, round trip times.
#[derive(Debug, Args)]
#[command(after_help = BLAME_EXAMPLES)]
pub(super) struct BlameArgs {
    /// The service as `fleet map` names servers, or its port
    #[arg(value_name = "SERVICE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) service: String,
    /// Judge the N edges with most bytes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) top: u32,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// The edges to look at.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// Show the N edges with most bytes
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) top: u32,
    /// Which: port, client, server, address, host, service, client_service, server_service, with = or !=, and, or, not, ( )
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
}

/// The time to look at.
#[derive(Debug, Args)]
pub(super) struct RangeArgs {
    /// Begin: a time, or how long ago: 24h
    #[arg(long, value_name = "TIME", default_value = "1h", allow_hyphen_values = true)]
    pub(super) since: String,
    /// End: a time, or how long ago
    #[arg(long, value_name = "TIME", default_value = "now", allow_hyphen_values = true)]
    pub(super) until: String,
}

impl RangeArgs {
    /// Returns the time.
    pub(super) fn range(&self) -> anyhow::Result<TimeRange> {
        let now = when::now();
        let time = |flag: &str, text: &str| {
            when::since(text, &now).map_err(|error| UsageError(format!("sockeye: {flag}: {error}\n")))
        };
        let (since_ms, until_ms) = (time("--since", &self.since)?, time("--until", &self.until)?);
        if since_ms >= until_ms {
            return Err(when::wrong_order(["--since", "--until"], [since_ms, until_ms]).into());
        }
        Ok(TimeRange {
            since_s: since_ms / 1_000,
            until_s: until_ms.div_ceil(1_000),
            now_s: when::since("now", &now).unwrap_or(until_ms) / 1_000,
        })
    }
}

/// Options of each question.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    #[command(flatten)]
    pub(super) rows: RowsArgs,
}

const EXAMPLES: &str = "\
Examples:
  sockeye fleet schema --apply               create the tables
  sockeye export clickhouse                  on each host, next to `sockeye record`
  sockeye fleet hosts                        who sends, gaps, clocks
  sockeye fleet who --port 23 --since 24h    who still uses telnet
  sockeye fleet map                          which services use which
  sockeye fleet at 03:12 'port = 5432'       clients of the database then
  sockeye fleet findings --since 12h         what was wrong, anywhere
  sockeye fleet blame postgres               slow: by whom?

Exit status: 0 fine, 1 a failure, 2 usage error.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  sockeye fleet schema                       print the statements
  sockeye fleet schema --apply --hosts 200   create the tables
  sockeye fleet schema --cluster main        for a cluster, print them";

const HOSTS_EXAMPLES: &str = "\
Examples:
  sockeye fleet hosts                        of the last hour
  sockeye fleet hosts --since 7d --format jsonl";

const WHO_EXAMPLES: &str = "\
Examples:
  sockeye fleet who --port 23                who uses telnet
  sockeye fleet who 'server = 10.0.0.5 and not client = 10.0.0.0/8'
  sockeye fleet who --since 24h 'server_service = postgres'";

const AT_EXAMPLES: &str = "\
Examples:
  sockeye fleet at 03:12 'port = 5432'       clients of the database then
  sockeye fleet at -10m 'host = web1'        of one host, ten minutes ago";

const MAP_EXAMPLES: &str = "\
Examples:
  sockeye fleet map --svg map.svg            of the last hour, also as a picture
  sockeye fleet map --since 24h --format json 'service = checkout'";

const BLAME_EXAMPLES: &str = "\
Examples:
  sockeye fleet blame postgres               of the last hour
  sockeye fleet blame 5432 --since 24h       by port";

const FINDINGS_EXAMPLES: &str = "\
Examples:
  sockeye fleet findings                     of the last hour
  sockeye fleet findings --since 12h --rule accept-queue";
