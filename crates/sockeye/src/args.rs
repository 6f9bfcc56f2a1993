//! What can be typed. Completions and man pages are made from the same definitions.

use clap::{Args, Parser, Subcommand, ValueEnum};
use sockeye_model::{Protocol, ProtocolSet, StateSet};

/// Shows every connection of this host.
///
/// Without a command it is `sockeye flows`: connections folded into host flows.
#[derive(Debug, Parser)]
#[command(name = "sockeye", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  sockeye -np                                who talks to this host, by which processes
  sockeye sockets -tlnp                      what listens on TCP, and who holds it
  sockeye sockets -tanp 'sport = :8080'      everything on local port 8080
  sockeye help sockets                       more, and the flags

Exit status: 0 fine, 1 something failed, 2 a mistake on the command line.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) flows: FlowOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Flows(FlowsArgs),
    #[command(visible_alias = "s")]
    Sockets(SocketsArgs),
    Check(crate::check::CheckArgs),
    Capture(crate::capture::CaptureArgs),
    Analyze(crate::analyze::AnalyzeArgs),
    Graph(crate::graph::GraphArgs),
    Bench(crate::bench::BenchArgs),
    Prof(Box<crate::prof::ProfArgs>),
    Explain(crate::explain::ExplainArgs),
    Ns(crate::ns::NsArgs),
    Keepalive(crate::keepalive::KeepaliveArgs),
    Kill(crate::kill::KillArgs),
    Doctor(DoctorArgs),
    /// Sockets, as ss of iproute2 prints them: its options, its output
    #[command(disable_help_flag = true)]
    Ss(ToolArgs),
    /// Sockets, statistics, interfaces and routes, as netstat of net-tools prints them
    #[command(disable_help_flag = true)]
    Netstat(ToolArgs),
    /// Host flows, as lstf prints them
    #[command(disable_help_flag = true)]
    Lstf(ToolArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell to write it for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    Man {
        /// The folder; it has to exist
        folder: std::path::PathBuf,
    },
}

/// What a tool is called with that we stand in for. It reads them itself.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// Its own options; --help lists them
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<std::ffi::OsString>,
}

/// Who talks to whom: connections folded into host flows
///
/// A flow is all connections between the same two hosts, in the same direction, for the same service.
/// `-->`: we connected to the peer; `<--`: the peer connected to a port we listen on. Listening and
/// half-open sockets are left out.
#[derive(Debug, Args)]
#[command(after_help = FLOWS_EXAMPLES)]
pub(crate) struct FlowsArgs {
    #[command(flatten)]
    pub(crate) options: FlowOptions,
    /// Which connections: an expression as ss takes it, for example: dport = :443 and dst 10.0.0.0/8
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FlowOptions {
    /// Connected UDP sockets instead of TCP connections
    #[arg(short = 'u', long)]
    pub(crate) udp: bool,
    /// TCP connections (the default)
    #[arg(short = 't', long, conflicts_with = "udp")]
    pub(crate) tcp: bool,
    /// Count the connections in each state
    #[arg(short = 's', long)]
    pub(crate) states: bool,
    /// TCP's own figures: sums of bytes and retransmissions, medians of round trip time and delivery rate
    #[arg(short = 'i', long)]
    pub(crate) info: bool,
    /// Only flows with these peers
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Peers::All)]
    pub(crate) filter_peers: Peers,
    /// Fold by: host, port, process, uid, netns, prefix/N (N bits of IPv4, 64 of IPv6) or prefix/N,M
    #[arg(long, value_name = "WHAT", default_value = "host", value_parser = crate::values::group_by)]
    pub(crate) group_by: sockeye_model::GroupBy,
    /// Sort by: connections, direction, local, peer, port, process, uid, netns, sent, received, rtt,
    /// retrans, delivery-rate, sent-rate, received-rate, opened, closed; with '-' before it the other way round
    #[arg(long, value_name = "KEY", default_value = "connections", allow_hyphen_values = true,
          value_parser = crate::values::sorting)]
    pub(crate) sort: crate::values::Sorting,
    /// Only the first N flows
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = crate::values::top)]
    pub(crate) top: Option<usize>,
    /// Again and again, every so many seconds, with the rates between two samples; ^C ends it. JSON is one
    /// document a sample then
    #[arg(short = 'w', long, value_name = "SECS", allow_negative_numbers = true, value_parser = crate::values::seconds)]
    pub(crate) watch: Option<std::time::Duration>,
    /// With -w: end after so many samples
    #[arg(long, value_name = "N", requires = "watch", allow_negative_numbers = true,
          value_parser = crate::values::count)]
    pub(crate) count: Option<u64>,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    pub(crate) columns: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
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
/// unless the filter names states. Without a protocol: all of them. The flags mean what they mean to ss.
#[derive(Debug, Args)]
#[command(after_help = SOCKETS_EXAMPLES)]
pub(crate) struct SocketsArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// User, inode, cookie, mark, cgroup
    #[arg(short = 'e', long)]
    pub(crate) extended: bool,
    /// Timers: kind, time left, retransmissions
    #[arg(short = 'o', long)]
    pub(crate) timers: bool,
    /// Memory in use, its limits, and drops
    #[arg(short = 'm', long)]
    pub(crate) memory: bool,
    /// What TCP knows: congestion control and every field of tcp_info
    #[arg(short = 'i', long)]
    pub(crate) info: bool,
    /// Look up the names of hosts; with -n too, ports and users stay numbers
    #[arg(short = 'r', long)]
    pub(crate) resolve: bool,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    pub(crate) columns: Option<String>,
    /// Sort by a column; with '-' before its name largest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(crate) sort: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which sockets: an expression as ss takes it, for example: state time-wait and sport = :443
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

/// Of which protocols sockets are meant, and in which states.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// TCP sockets
    #[arg(short = 't', long)]
    pub(crate) tcp: bool,
    /// UDP sockets
    #[arg(short = 'u', long)]
    pub(crate) udp: bool,
    /// RAW sockets
    #[arg(short = 'w', long)]
    pub(crate) raw: bool,
    /// UNIX sockets
    #[arg(short = 'x', long)]
    pub(crate) unix: bool,
    /// PACKET sockets
    #[arg(short = '0', long)]
    pub(crate) packet: bool,
    /// MPTCP sockets
    #[arg(short = 'M', long)]
    pub(crate) mptcp: bool,
    /// Sockets of these protocols: all, inet, tcp, udp, udplite, raw, mptcp, unix, unix_stream,
    /// unix_dgram, unix_seqpacket, packet, netlink, separated by commas
    #[arg(short = 'A', long, value_name = "LIST", value_parser = crate::values::protocols)]
    pub(crate) protocols: Option<ProtocolSet>,
    /// Sockets in every state (of those merely bound: state bound-inactive)
    #[arg(short = 'a', long, overrides_with = "listening")]
    pub(crate) all: bool,
    /// Listening and unconnected sockets only; of -a and -l the last one counts, as in ss
    #[arg(short = 'l', long, overrides_with = "all")]
    pub(crate) listening: bool,
}

/// What this kernel and your rights allow; which source is used, and why
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// In which form: table, json or jsonl
    #[arg(long, value_enum, default_value_t = DoctorFormat::Table)]
    pub(crate) format: DoctorFormat,
    /// Where the kernel describes its own types, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(crate) btf: std::path::PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// For people
    Table,
    /// One JSON object
    Json,
    /// The same
    Jsonl,
}

/// What all listings have in common.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Which processes hold the sockets
    #[arg(short = 'p', long)]
    pub(crate) processes: bool,
    /// Numbers instead of the names of services, users and hosts
    #[arg(short = 'n', long)]
    pub(crate) numeric: bool,
    /// IPv4 sockets only
    #[arg(short = '4', long)]
    pub(crate) ipv4: bool,
    /// IPv6 sockets only
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// In another network namespace: its name, a process in it, a path, a container's name or id, or 'all'
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub(crate) netns: Option<String>,
    /// With -N all: also sockets that no process holds, of every protocol (slow: each namespace is entered)
    #[arg(long)]
    pub(crate) complete: bool,
    /// Where the sockets are read from; `sockeye doctor` tells what works here
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    pub(crate) source: SourceArg,
    /// In which form
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
    /// Where the kernel describes its own types, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(crate) btf: std::path::PathBuf,
    /// How long to wait for the names of hosts, in seconds
    #[arg(long, value_name = "SECS", default_value = "0.5", allow_negative_numbers = true,
          value_parser = crate::values::patience)]
    pub(crate) names_timeout: std::time::Duration,
    /// Say on stderr which source was used
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Columns for people
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceArg {
    /// The best that works
    Auto,
    /// Our own BPF programs only
    Bpf,
    /// Netlink only: one pass for TCP of IPv4 and IPv6, sock_diag for the rest
    Diag,
    /// Netlink only, and sock_diag v2 for all
    DiagV2,
    /// /proc/net only
    Procfs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

const FLOWS_EXAMPLES: &str = "\
Examples:
  sockeye flows -np                          with the processes, without looking up names
  sockeye flows --filter-peers public        only peers on the internet
  sockeye flows -n 'dport = :443'            whom we reach by HTTPS
  sockeye flows -n --group-by process        which process has how many connections
  sockeye flows -ni -w 2                     traffic, round trip times and rates, every 2 seconds

The filter is ss's language: state, src, dst, sport, dport, dev, fwmark, cgroup, autobound; and, or, not,
parentheses. Beyond ss: owner = nginx, pid = 1, uid = 1000, rtt > 50ms, idle > 10m, retrans > 0 and others.
Put it in quotes where it holds ( ) < > ! & or |.";

const SOCKETS_EXAMPLES: &str = "\
Examples:
  sockeye sockets -tlnp                      what listens on TCP, and who holds it
  sockeye sockets -tanp 'sport = :8080'      everything on local port 8080
  sockeye sockets -tn state close-wait       connections that the program forgot to close
  sockeye sockets -tni dst 10.0.0.0/8        all that TCP knows of connections into 10.0.0.0/8
  sockeye sockets -tn 'rtt > 50ms' --sort -rtt_us --columns local,peer,rtt_us
  sockeye sockets -a --format jsonl          everything, for a script

The filter is ss's language: state, src, dst, sport, dport, dev, fwmark, cgroup, autobound; and, or, not,
parentheses. Beyond ss: owner = nginx, pid = 1, uid = 1000, rtt > 50ms, idle > 10m, retrans > 0 and others.
Put it in quotes where it holds ( ) < > ! & or |.";

impl Which {
    /// What was asked for by flags; `None`: nothing was.
    pub(crate) fn protocols(&self) -> Option<ProtocolSet> {
        let flags = [
            (self.tcp, ProtocolSet::of(&[Protocol::Tcp])),
            (self.udp, ProtocolSet::of(&[Protocol::Udp])),
            (self.raw, ProtocolSet::of(&[Protocol::Raw])),
            (self.unix, ProtocolSet::UNIX),
            (self.packet, ProtocolSet::PACKET),
            (self.mptcp, ProtocolSet::of(&[Protocol::Mptcp])),
        ];
        let listed = self.protocols.unwrap_or(ProtocolSet::EMPTY);
        let asked = flags
            .iter()
            .filter(|(flag, _)| *flag)
            .fold(listed, |all, (_, one)| all.or(*one));
        (!asked.is_empty()).then_some(asked)
    }

    /// In which states, where the filter names none.
    pub(crate) const fn states(&self) -> StateSet {
        if self.all {
            StateSet::ALL
        } else if self.listening {
            StateSet::LISTENING
        } else {
            StateSet::SS_DEFAULT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn ss_flags_may_stand_together_and_after_the_filter() {
        let cli = Cli::try_parse_from(["sockeye", "sockets", "-tanH", "sport", "=", ":22", "-p4"]).unwrap();
        let Some(Command::Sockets(args)) = cli.command else {
            panic!("not sockets")
        };
        assert!(args.which.tcp && args.which.all && args.common.numeric && args.common.no_header);
        assert!(args.common.processes && args.common.ipv4);
        assert_eq!(args.filter, ["sport", "=", ":22"]);
        assert!(
            Cli::try_parse_from(["sockeye", "-n", "--top", "3"])
                .unwrap()
                .flows
                .common
                .numeric
        );
        assert!(Cli::try_parse_from(["sockeye", "flwos"]).is_err());
    }
}
