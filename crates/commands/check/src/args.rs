//! Arguments of `sockeye check`.

use crate::selection::{self, RuleSet, Setting};
use clap::Args;
use sockeye_query::args::{ListingArgs, PastArgs};
use sockeye_verdict::Severity;
use std::time::Duration;

/// Find what is wrong with this host: findings with evidence, owner and remedy, the worst first
///
/// It checks all TCP and UDP sockets, counters, settings, devices, tables and limits once. With a filter, only the rules
/// about sockets run, on the sockets that match. Counters cover the time since the host started, and give a finding if
/// they are a large share of their total; with --watch they cover the time between two samples. If a socket looks
/// suspicious, check looks at the sockets a second time after a second: what did not move in between is a finding.
/// What could not be judged is part of the result.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Repeat every so many seconds, until ^C, q or --count; from the second sample on with what changed since the one
    /// before: the first has no result. Text on a terminal is redrawn in place; JSON is one document per sample
    #[arg(short = 'w', long, value_name = "SECS", allow_negative_numbers = true, value_parser = sockeye_console::values::seconds)]
    pub(crate) watch: Option<Duration>,
    /// With -w: end after N reports
    #[arg(short = 'c', long, value_name = "N", requires = "watch", allow_negative_numbers = true,
          value_parser = sockeye_console::values::count)]
    pub(crate) count: Option<u64>,
    /// Time after which suspicious sockets are looked at again; 0 for never
    #[arg(long, value_name = "SECS", default_value = "1", allow_negative_numbers = true,
          value_parser = selection::second_look, conflicts_with = "watch")]
    pub(crate) second_look: Duration,
    /// Exit with 1 if there is a finding of at least this severity: info, notice, warning or critical; with 3 if there is
    /// none, but something could not be judged
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<Severity>,
    /// Lowest severity to show: info, notice, warning or critical
    #[arg(long, value_name = "SEVERITY", default_value = "notice")]
    pub(crate) severity: Severity,
    /// Only these rules, separated by commas; 'check --list' shows them
    #[arg(long, value_name = "RULES", value_parser = selection::rules)]
    pub(crate) only: Option<RuleSet>,
    /// All but these rules
    #[arg(long, value_name = "RULES", value_parser = selection::rules)]
    pub(crate) skip: Option<RuleSet>,
    /// Set a threshold, as in no-keepalive.idle=10m; 'check --list' shows them
    #[arg(long = "set", value_name = "THRESHOLD=VALUE", value_parser = selection::setting)]
    pub(crate) settings: Vec<Setting>,
    /// List all rules with their thresholds, and check nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) past: PastArgs,
    #[command(flatten)]
    pub(crate) common: ListingArgs,
    /// Filter in ss's language, for example: dport = :443 or owner = nginx
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  sockeye check                  everything, once
  sockeye check -w 5 -c 1        what changes within five seconds
  sockeye check -w 60            every minute, until ^C
  sockeye check --netns all --fail-on warning
                                 all namespaces; for a script
  sockeye check 'owner = nginx'  nginx's sockets only
  sockeye check --at 03:12       the sockets that were recorded at that time
  sockeye check --list           all rules with their thresholds
  sockeye check --set no-keepalive.idle=10m --only no-keepalive

Exit status: 0 success, 1 failure, or a finding that --fail-on names, 2 usage error, 3 with --fail-on: no such \
finding, but something could not be judged.";
