//! Arguments of `top`.

use crate::state::view::{GROUPS, View, group_name};
use clap::{Args, ValueEnum};
use sockeye_console::values;
use sockeye_model::GroupBy;
use sockeye_query::args::ListingArgs;
use std::path::PathBuf;
use std::time::Duration;

/// A live screen: connections, sockets, processes and listeners, as they change
///
/// Keys choose the view, the order and the filter, show one connection in detail, and go back in time; `?` lists them.
/// Without a screen, --once prints one sample and --format jsonl one after the other.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// The view to begin with
    #[arg(long, value_name = "VIEW", value_enum, default_value_t = ViewArg::Flows)]
    pub(crate) view: ViewArg,
    /// What the view of groups folds by: container, unit, cgroup, user, exe or netns
    #[arg(long, value_name = "WHAT", default_value = "container", value_parser = group_by)]
    pub(crate) group_by: GroupBy,
    /// Seconds between samples; on a busy host more, so that they take 5 % of a core at most
    #[arg(short = 'w', long, value_name = "SECS", default_value = "2", allow_negative_numbers = true,
          value_parser = values::seconds)]
    pub(crate) watch: Duration,
    /// Print one sample with its rates, and end
    #[arg(long, conflicts_with = "count")]
    pub(crate) once: bool,
    /// Without a screen: end after N samples
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true, value_parser = values::count)]
    pub(crate) count: Option<u64>,
    /// Look up the names of hosts; with -n too, ports and users stay numbers
    #[arg(short = 'r', long)]
    pub(crate) resolve: bool,
    /// Show country and autonomous system of peers, from this database (MMDB); again for another one
    #[arg(long, value_name = "FILE")]
    pub(crate) mmdb: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) common: ListingArgs,
    /// Which connections: an expression as in ss, for example: dport = :443 and dst 10.0.0.0/8
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

/// A view, as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewArg {
    /// Who talks to whom
    Flows,
    /// One row each
    Sockets,
    /// Connections of each process
    Processes,
    /// Connections of each container, unit, cgroup, user, executable or namespace
    Groups,
    /// Listening sockets and their queues
    Listeners,
    /// Packets that the kernel drops, whose, and counters of drops
    Drops,
    /// What is wrong, as it comes and goes
    Findings,
    /// Network devices and their queues
    Devices,
}

impl From<ViewArg> for View {
    fn from(view: ViewArg) -> Self {
        match view {
            ViewArg::Flows => Self::Flows,
            ViewArg::Sockets => Self::Sockets,
            ViewArg::Processes => Self::Processes,
            ViewArg::Groups => Self::Groups,
            ViewArg::Listeners => Self::Listeners,
            ViewArg::Drops => Self::Drops,
            ViewArg::Findings => Self::Findings,
            ViewArg::Devices => Self::Devices,
        }
    }
}

/// Parses one of [`GROUPS`].
fn group_by(text: &str) -> Result<GroupBy, String> {
    let text = if text == "uid" { "user" } else { text };
    let found = GROUPS.into_iter().find(|group| group_name(*group) == text);
    found.ok_or_else(|| format!("expected {}", GROUPS.map(group_name).join(", ")))
}

const EXAMPLES: &str = "\
Examples:
  sockeye top                              who talks to whom, live
  sockeye top --view processes             traffic of each process
  sockeye top -w 1 'dport = :443'          only HTTPS, every second
  sockeye top --view groups --group-by unit --once
  sockeye top --mmdb GeoLite2-Country.mmdb --mmdb GeoLite2-ASN.mmdb
  sockeye top --view sockets --format jsonl -c 10

The filter language is that of ss: state, src, dst, sport, dport, dev, fwmark, cgroup, autobound; \
and, or, not, parentheses. Beyond ss: owner = nginx, pid = 1, uid = 1000, rtt > 50ms, idle > 10m, \
retrans > 0 and others. Put it in quotes where it contains ( ) < > ! & or |.";

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::WorkloadKind;

    #[test]
    fn groups_are_those_of_the_view() {
        assert_eq!(group_by("unit"), Ok(GroupBy::Workload(WorkloadKind::Unit)));
        assert_eq!(group_by("uid"), group_by("user"));
        for bad in ["", "host", "port", "prefix/24"] {
            assert!(group_by(bad).is_err(), "{bad}");
        }
    }
}
