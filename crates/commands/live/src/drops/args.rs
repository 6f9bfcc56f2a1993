//! Arguments of `drops`.

use clap::Args;
use sockeye_console::args::FormatArg;
use sockeye_query::args::ListingArgs;
use sockeye_query::watch_args::{BudgetArgs, WatchArgs};
use std::time::Duration;

/// Packets that the kernel drops: why, where, whose, and which counters they explain
///
/// It watches every network namespace until ^C, or for -d seconds, and then reports. Drops are counted in the kernel. A drop has a
/// class: loss (no room, no route, damaged), policy (a rule forbids it), refusal (the host does not take it), normal (the packet has
/// done its work: not shown without --all). Counters of the kernel that moved meanwhile are compared with the drops that were seen; what no drop
/// explains is the remainder. Without rights only counters are shown.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DropsArgs {
    /// End after this many seconds
    #[arg(short = 'd', long, value_name = "SECS", allow_negative_numbers = true, value_parser = sockeye_console::values::seconds)]
    pub(crate) duration: Option<Duration>,
    /// Report every so many seconds, until ^C, -c or -d: what happened since the report before
    #[arg(short = 'w', long, value_name = "SECS", allow_negative_numbers = true, value_parser = sockeye_console::values::seconds)]
    pub(crate) watch: Option<Duration>,
    /// With -w: end after N reports
    #[arg(short = 'c', long, value_name = "N", requires = "watch", allow_negative_numbers = true,
          value_parser = sockeye_console::values::count)]
    pub(crate) count: Option<u64>,
    /// Also normal ends of packets, such as the queue of a closed socket
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
    /// Print each dropped packet, and no counters
    #[arg(long, conflicts_with_all = ["watch", "counters"])]
    pub(crate) packets: bool,
    /// Print the counters only
    #[arg(long)]
    pub(crate) counters: bool,
    /// Most combinations of reason, place, namespace, device and socket that are counted apart; the longest unused one makes room. 0: only reasons are
    /// counted, at the least cost
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub(crate) keys: u32,
    /// Sort by a column, ascending; with '-' before its name descending
    #[arg(
        long,
        value_name = "COLUMN",
        allow_hyphen_values = true,
        conflicts_with = "packets"
    )]
    pub(crate) sort: Option<String>,
    /// In another network namespace: its name, a process in it, a path, a container's name or id, or 'all'
    ///
    /// The default is all, and without the right to watch drops the current one.
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub(crate) netns: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) common: WatchArgs,
    /// Only drops of packets that match, as in ss, for example: dport = :443 or owner = nginx. Counters are not compared then
    ///
    /// Ends are those of the packet, in either direction: dport = :53 finds packets to port 53 and from it, whichever side the socket is.
    #[arg(value_name = "FILTER", conflicts_with = "counters")]
    pub(crate) filter: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  sockeye drops -d 10                 ten seconds, then the report
  sockeye drops -w 5                  every five seconds, until ^C
  sockeye drops -w 5 --sort -bytes    the most bytes first
  sockeye drops --packets dport = :53 each dropped packet of DNS
  sockeye drops -d 10 owner = nginx   of nginx's sockets
  sockeye drops -d 60 --format json   for a program

sockeye explain REASON says what a reason means.";

impl DropsArgs {
    /// Returns the flags of a listing of sockets, by which owners are found.
    pub(super) fn listing(&self, netns: Option<String>) -> ListingArgs {
        self.common
            .listing(netns, self.format, Duration::from_millis(500))
    }
}
