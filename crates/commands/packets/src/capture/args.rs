//! Arguments of `sockeye capture`.

use super::values;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Packets as they pass an interface, into a pcapng file
///
/// The file has the interface, the filter, the kernel's drop count and, where known, the process that owns each
/// connection. sockeye analyze, Wireshark, tshark and tcpdump -r read it. ^C ends it; so do -c and -d.
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
    /// Bytes to keep of each packet; 0: all
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 0, value_parser = values::snaplen)]
    pub(super) snaplen: u32,
    /// End after N packets
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true, value_parser = sockeye_console::values::count)]
    pub(super) count: Option<u64>,
    /// End after this many seconds
    #[arg(short = 'd', long, value_name = "SECS", allow_negative_numbers = true, value_parser = sockeye_console::values::seconds)]
    pub(super) duration: Option<Duration>,
    /// Files FILE-00001, FILE-00002 and so on of this size, of which the last FILES are kept: 10x100M. Files of an
    /// earlier capture belong to the ring
    #[arg(long, value_name = "FILESxSIZE")]
    pub(super) ring: Option<String>,
    /// Kernel memory for packets that are not written yet, in KiB or with a unit
    #[arg(short = 'B', long, value_name = "SIZE", default_value = "32Mi", value_parser = values::buffer)]
    pub(super) buffer: u64,
    /// Only packets that the interface receives without promiscuous mode
    #[arg(short = 'p', long)]
    pub(super) no_promiscuous: bool,
    /// Do not look up the processes that own connections
    #[arg(long)]
    pub(super) no_owners: bool,
    /// Accepted for compatibility: captured addresses are never looked up
    #[arg(short = 'n', hide = true, action = clap::ArgAction::Count)]
    pub(super) numeric: u8,
    /// Accepted for compatibility: packets are always written soon
    #[arg(short = 'U', hide = true)]
    pub(super) unbuffered: bool,
    /// Filter in tcpdump's language, for example: tcp port 80 and host 10.0.0.1
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  sockeye capture -i eth0                            until ^C
  sockeye capture -i any -o web.pcapng tcp port 443  on all interfaces
  sockeye capture -i eth0 -s 100 --ring 10x100M      headers, the last GB
  sockeye capture -i eth0 -N web1 -d 10 -o - | sockeye analyze -

The filter is tcpdump's language: host, net, port, portrange with src and dst; tcp, udp, icmp, arp, ip, ip6; vlan; \
ether host; less, greater; tcp[tcpflags] & tcp-syn != 0; and, or, not, parentheses. Quote it if it contains \
( ) < > ! & | or [ ].";
