//! Arguments of `path`.

use clap::Args;
use sockeye_console::args::FormatArg;
use sockeye_query::args::ListingArgs;
use sockeye_query::watch_args::WatchArgs;
use std::path::PathBuf;
use std::time::Duration;

/// Where the time goes on the way of packets through this host: each queue between the application and the wire
///
/// It follows packets of TCP and UDP with data for some seconds, in every network namespace, and then reports each hop: how many packets
/// passed, how long they were there, how many wait there, and how many were dropped. A hop is a qdisc, a device, a program that reads
/// a device (a VPN), the backlog of a processor, the network stack, or the receive queue of a socket. Of connections that stand still
/// meanwhile it says where their data are and what they wait for. It needs the right to load BPF programs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PathArgs {
    /// Watch for this many seconds; ^C ends earlier, with the report
    #[arg(short = 'd', short_alias = 't', long, value_name = "SECS", default_value = "10", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds)]
    pub(crate) duration: Duration,
    /// Only packets of sockets with this local port: 'out' is what they send
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Follow one of N packets, at random
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) sample: u32,
    /// Slots for packets that are on their way: with a tenth as many packets, one of ten is not followed
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    pub(crate) slots: u32,
    /// Also draw the way into a file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Only sockets in a network namespace: its name, a process in it, a path, a container's name or id, or 'all'
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all", default_value = "all")]
    pub(crate) netns: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    #[command(flatten)]
    pub(crate) common: WatchArgs,
    /// Only packets of sockets that match, as in ss, for example: dport = :443 or owner = nginx
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  sockeye path --port 5432            packets of the server at this port, for 10 seconds
  sockeye path -d 3 dst 10.8.0.0/24   what goes through the VPN
  sockeye path owner = nginx          of nginx's sockets
  sockeye path --sample 64            one of 64 packets of all, at less cost
  sockeye path --port 443 --svg w.svg with a picture
  sockeye path --format json          for a program";

impl PathArgs {
    /// Returns the flags of a listing of sockets.
    pub(crate) fn listing(&self) -> ListingArgs {
        ListingArgs {
            processes: false,
            ..self
                .common
                .listing(Some(self.netns.clone()), self.format, Duration::from_millis(500))
        }
    }

    /// Returns the condition that `--port` means.
    pub(crate) fn port_filter(&self) -> Option<String> {
        self.port.map(|port| format!("sport = :{port}"))
    }
}
