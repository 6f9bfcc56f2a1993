//! Arguments of `flows`, `sockets` and `doctor`.

use clap::{Args, ValueEnum};
use sockeye_console::values;
use sockeye_model::{GroupBy, WorkloadKind};
use sockeye_query::args::{ListingArgs, PastArgs, SocketArgs};
use std::path::PathBuf;
use std::time::Duration;

/// Who talks to whom: connections folded into host flows
///
/// A flow is all connections between the same two hosts, in the same direction, for the same service.
/// `-->`: we connected to the peer; `<--`: the peer connected to a port we listen on. Listening and
/// half-open sockets are left out.
#[derive(Debug, Args)]
#[command(after_help = FLOWS_EXAMPLES)]
pub struct FlowsArgs {
    #[command(flatten)]
    pub(crate) options: FlowOptions,
    /// Which connections: an expression as in ss, for example: dport = :443 and dst 10.0.0.0/8
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

/// Options of `flows`, also without a command.
#[derive(Debug, Args)]
pub struct FlowOptions {
    /// Connected UDP sockets instead of TCP connections
    #[arg(short = 'u', long)]
    pub(crate) udp: bool,
    /// TCP connections (the default)
    #[arg(short = 't', long, conflicts_with = "udp")]
    pub(crate) tcp: bool,
    /// Count the connections in each state
    #[arg(short = 's', long)]
    pub(crate) states: bool,
    /// From tcp_info: sums of bytes and retransmissions, medians of round trip time and delivery rate
    #[arg(short = 'i', long)]
    pub(crate) info: bool,
    /// Only flows with these peers
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Peers::All)]
    pub(crate) filter_peers: Peers,
    /// Fold by: host, port, process, user, container, unit, cgroup, exe (executable), netns, prefix/N (N bits of IPv4, 64
    /// of IPv6) or prefix/N,M
    #[arg(long, value_name = "WHAT", default_value = "host", value_parser = group_by)]
    pub(crate) group_by: GroupBy,
    /// Sort by a column, ascending; with '-' before its name descending
    #[arg(long, value_name = "COLUMN", default_value = Self::SORT, allow_hyphen_values = true)]
    pub(crate) sort: String,
    /// Show the first N rows, after sorting; 0: all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::top)]
    pub(crate) top: Option<usize>,
    /// Repeat every so many seconds, until ^C, q or --count; from the second sample on with the rates since the one
    /// before. A table on a terminal is redrawn in place; JSON is one document per sample
    #[arg(short = 'w', long, value_name = "SECS", allow_negative_numbers = true, value_parser = values::seconds)]
    pub(crate) watch: Option<Duration>,
    /// With -w: end after N reports
    #[arg(short = 'c', long, value_name = "N", requires = "watch", allow_negative_numbers = true,
          value_parser = values::count)]
    pub(crate) count: Option<u64>,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    pub(crate) columns: Option<String>,
    #[command(flatten)]
    pub(crate) past: PastArgs,
    #[command(flatten)]
    pub(crate) common: ListingArgs,
}

impl FlowOptions {
    /// The order without `--sort`.
    pub(crate) const SORT: &'static str = "-connections";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peers {
    /// Every peer
    All,
    /// Peers on the internet
    Public,
    /// Peers on this host or a private network
    Private,
}

/// Every socket, one row each
///
/// Without -a or -l: sockets that are neither listening nor unconnected nor in TIME_WAIT or SYN_RECV,
/// unless the filter names states. Without a protocol: all of them. The options have the meaning that they have in ss.
#[derive(Debug, Args)]
#[command(after_help = SOCKETS_EXAMPLES)]
pub struct SocketsArgs {
    #[command(flatten)]
    pub(crate) which: SocketArgs,
    /// User, inode, cookie, mark, cgroup
    #[arg(short = 'e', long)]
    pub(crate) extended: bool,
    /// Timers: kind, time left, retransmissions
    #[arg(short = 'o', long)]
    pub(crate) timers: bool,
    /// Memory in use, its limits, and drops
    #[arg(short = 'm', long)]
    pub(crate) memory: bool,
    /// Congestion control and all fields of tcp_info
    #[arg(short = 'i', long)]
    pub(crate) info: bool,
    /// Look up the names of hosts; with -n too, ports and users stay numbers
    #[arg(short = 'r', long)]
    pub(crate) resolve: bool,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    pub(crate) columns: Option<String>,
    /// Sort by a column, ascending; with '-' before its name descending
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(crate) sort: Option<String>,
    /// Show the first N rows, after sorting; 0: all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::top)]
    pub(crate) top: Option<usize>,
    /// Repeat every so many seconds, until ^C, q or --count; from the second sample on with the rates since the one before.
    /// A table on a terminal is redrawn in place, the busiest sockets first. '-w SECS' is the same; -w without a number
    /// is RAW sockets, as in ss
    #[arg(long, value_name = "SECS", allow_negative_numbers = true, value_parser = values::seconds)]
    pub(crate) watch: Option<Duration>,
    /// With -w: end after N reports
    #[arg(short = 'c', long, value_name = "N", requires = "watch", allow_negative_numbers = true,
          value_parser = values::count)]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) past: PastArgs,
    #[command(flatten)]
    pub(crate) common: ListingArgs,
    /// Which sockets: an expression as in ss, for example: state time-wait and sport = :443
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

/// What this kernel and your rights allow; which source is used, and why
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = DoctorFormat::Table)]
    pub(crate) format: DoctorFormat,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(crate) btf: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// Lines of text
    Table,
    /// One JSON object
    Json,
    /// The same, as one line
    Jsonl,
}

/// Parses `host`, `port`, `process`, `user` (or `uid`), `container`, `unit`, `cgroup`, `exe`, `netns`, `prefix/N` or
/// `prefix/N,M`.
fn group_by(text: &str) -> Result<GroupBy, String> {
    let lengths = match text {
        "host" => return Ok(GroupBy::Host),
        "port" => return Ok(GroupBy::Port),
        "process" => return Ok(GroupBy::Process),
        "user" | "uid" => return Ok(GroupBy::Uid),
        "netns" => return Ok(GroupBy::Netns),
        other => {
            if let Some(kind) = WorkloadKind::ALL.into_iter().find(|kind| kind.name() == other) {
                return Ok(GroupBy::Workload(kind));
            }
            other.strip_prefix("prefix/").ok_or(
                "expected host, port, process, user, container, unit, cgroup, exe, netns, prefix/N or prefix/N,M",
            )?
        }
    };
    let (v4, v6) = lengths.split_once(',').unwrap_or((lengths, "64"));
    let length = |text: &str, max: u8| {
        text.parse::<u8>()
            .ok()
            .filter(|bits| *bits <= max)
            .ok_or_else(|| format!("expected a length of 0 to {max} bits, found {text:?}"))
    };
    Ok(GroupBy::Prefix {
        v4: length(v4, 32)?,
        v6: length(v6, 128)?,
    })
}

const FLOWS_EXAMPLES: &str = "\
Examples:
  sockeye flows -np                    with processes, no names
  sockeye flows --filter-peers public  only peers on the internet
  sockeye flows -n 'dport = :443'      whom we reach by HTTPS
  sockeye flows -n --group-by process  connections per process
  sockeye flows --group-by container   connections per container
  sockeye flows -ni --sort -retrans    the most retransmissions first
  sockeye flows -ni -w 2               traffic and rates, every 2 s

The filter language is that of ss: state, src, dst, sport, dport, dev, fwmark, cgroup, autobound; \
and, or, not, parentheses. Beyond ss: owner = nginx, pid = 1, uid = 1000, rtt > 50ms, idle > 10m, \
retrans > 0 and others. Put it in quotes where it contains ( ) < > ! & or |.";

const SOCKETS_EXAMPLES: &str = "\
Examples:
  sockeye sockets -tlnp                  TCP listeners and their processes
  sockeye sockets -tanp 'sport = :8080'  everything on local port 8080
  sockeye sockets -tn state close-wait   not closed by the program
  sockeye sockets -tni dst 10.0.0.0/8    tcp_info, by destination
  sockeye sockets -tn 'rtt > 50ms' --sort -rtt --columns local,peer,rtt
  sockeye sockets -tn --columns container,unit,local,peer
  sockeye sockets -a --format jsonl      everything, for a script
  sockeye sockets -tnp -w 2 --top 10     who sends and receives most, every 2 s

The filter language is that of ss: state, src, dst, sport, dport, dev, fwmark, cgroup, autobound; \
and, or, not, parentheses. Beyond ss: owner = nginx, pid = 1, uid = 1000, rtt > 50ms, idle > 10m, \
retrans > 0 and others. Put it in quotes where it contains ( ) < > ! & or |.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Sockets {
        #[command(flatten)]
        args: SocketsArgs,
    }

    #[test]
    fn ss_flags_combine_and_may_follow_the_filter() {
        let words = ["sockets", "-tanH", "sport", "=", ":22", "-p4"];
        let args = Sockets::try_parse_from(words).unwrap().args;
        assert!(args.which.tcp && args.which.all && args.common.numeric && args.common.no_header);
        assert!(args.common.processes && args.common.ipv4);
        assert_eq!(args.filter, ["sport", "=", ":22"]);
    }

    #[test]
    fn prefix_lengths_are_bounded() {
        assert_eq!(group_by("prefix/24"), Ok(GroupBy::Prefix { v4: 24, v6: 64 }));
        assert_eq!(group_by("prefix/0,128"), Ok(GroupBy::Prefix { v4: 0, v6: 128 }));
        for (text, kind) in [("container", WorkloadKind::Container), ("exe", WorkloadKind::Exe)] {
            assert_eq!(group_by(text), Ok(GroupBy::Workload(kind)));
        }
        assert_eq!(group_by("user"), group_by("uid"));
        for bad in [
            "",
            "hosts",
            "prefix",
            "prefix/",
            "prefix/33",
            "prefix/24,129",
            "prefix/-1",
        ] {
            assert!(group_by(bad).is_err(), "{bad}");
        }
    }
}
