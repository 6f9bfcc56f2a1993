//! `sockeye capture`: packets as they pass, into a file.

mod filter;
mod interface;
mod owners;
mod recorder;
mod session;
mod target;
mod told;
mod values;

use clap::Args;
use interface::Interface;
use sockeye_console::usage::Usage;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use values::Ring;

/// Packets as they pass an interface, into a pcapng file
///
/// The file names the interface, the filter, what the kernel dropped and, where it can be told, the process that each
/// connection belongs to. sockeye analyze, Wireshark, tshark and tcpdump -r read it. ^C ends it; so do -c and -a.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CaptureArgs {
    /// The interface, or 'any' for all of them
    #[arg(short = 'i', long, value_name = "IFACE|any")]
    pub(super) interface: String,
    /// In another network namespace: its name, a process in it, a path, a container's name or id
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH")]
    pub(super) netns: Option<String>,
    /// The file, which is overwritten; '-' is standard output. Without it: sockeye-IFACE-TIME.pcapng, here
    #[arg(short = 'o', long, value_name = "FILE", short_alias = 'w')]
    pub(super) output: Option<PathBuf>,
    /// Keep so many bytes of each packet; 0: all
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 0, value_parser = values::snaplen)]
    pub(super) snaplen: u32,
    /// End after so many packets
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true, value_parser = sockeye_console::values::count)]
    pub(super) count: Option<u64>,
    /// End after so many seconds
    #[arg(short = 'a', long, value_name = "SECS", allow_negative_numbers = true, value_parser = sockeye_console::values::seconds)]
    pub(super) seconds: Option<Duration>,
    /// Many files FILE-00001, FILE-00002 and so on of this size each, of which the last so many are kept: 10x100M.
    /// Those of an earlier capture are counted on, and count
    #[arg(long, value_name = "FILESxSIZE")]
    pub(super) ring: Option<String>,
    /// Memory in which the kernel leaves packets until they are written, in KiB or with a unit
    #[arg(short = 'B', long, value_name = "SIZE", default_value = "32Mi", value_parser = values::buffer)]
    pub(super) buffer: u64,
    /// Only packets that the interface would receive anyway
    #[arg(short = 'p', long)]
    pub(super) no_promiscuous: bool,
    /// Do not look for the processes behind connections
    #[arg(long)]
    pub(super) no_owners: bool,
    /// Accepted for the sake of fingers: names are never looked up for what is written
    #[arg(short = 'n', hide = true, action = clap::ArgAction::Count)]
    pub(super) numeric: u8,
    /// Likewise: packets are always written soon
    #[arg(short = 'U', hide = true)]
    pub(super) unbuffered: bool,
    /// Which packets, in tcpdump's language, for example: tcp port 80 and host 10.0.0.1
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
}

/// Captures packets.
///
/// # Errors
/// If an option is wrong, capturing is not permitted, or the file cannot be written.
pub fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    if args.netns.as_deref() == Some("all") {
        let text = "sockeye: capture: one network namespace at a time; start one capture for each, or name one after --netns\n";
        return Err(Usage(text.to_owned()).into());
    }
    let (ring, used) = match &args.ring {
        Some(text) => {
            let understood = Ring::typed(text, &args.filter);
            let (ring, used) = understood
                .map_err(|expected| Usage(format!("sockeye: capture: --ring {text:?}: {expected}\n")))?;
            (Some(ring), used)
        }
        None => (None, 0),
    };
    let filter = args.filter[used..].join(" ");
    let interface = Interface::find(args)?;
    session::run(args, &interface, &filter, ring)
}

const EXAMPLES: &str = "\
Examples:
  sockeye capture -i eth0                              into sockeye-eth0-TIME.pcapng, until ^C
  sockeye capture -i any -o web.pcapng tcp port 443    on all interfaces
  sockeye capture -i eth0 -s 100 --ring 10x100M        headers only; the last gigabyte of them
  sockeye capture -i eth0 -N web1 -a 10 -o - | sockeye analyze -

The filter is tcpdump's language: host, net, port, portrange with src and dst; tcp, udp, icmp, arp, ip, ip6; vlan;
ether host; less, greater; tcp[tcpflags] & tcp-syn != 0; and, or, not, parentheses. Put it in quotes where it holds
( ) < > ! & | or [ ].";
