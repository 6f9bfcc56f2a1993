//! Arguments of `sockeye bench tun`.

use crate::output_args::OutputArgs;
use clap::{Args, ValueEnum};
use sockeye_load::tun::Carrier;
use std::time::Duration;

/// Measure what the queue of a tunnel's device costs
///
/// Creates two network namespaces with a veth pair, and in each a TUN or TAP device; a program forwards packets between
/// them. Measures TCP through the tunnel, with device queues of several lengths, with and without unsegmented packets of
/// up to 64 KiB (GSO, GRO), and for comparison through the veth pair alone. Changes nothing else on the host, and removes
/// all of it.
///
/// With --device it watches an existing device, and recommends settings.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TunArgs {
    /// Lengths of the device's queue, in packets (txqueuelen)
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', default_value = "3,10,100,500,1000,10000",
          allow_negative_numbers = true, value_parser = queue_length)]
    pub(super) queues: Vec<u32>,
    /// Unsegmented packets of up to 64 KiB (IFF_VNET_HDR, TUNSETOFFLOAD): on, off or both
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Offload::Both)]
    pub(super) offload: Offload,
    /// Numbers of queues of the device, each with its own threads (IFF_MULTI_QUEUE); default: 1, and 2 on more than one
    /// processor
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', allow_negative_numbers = true, value_parser = queue_count)]
    pub(super) multi_queue: Vec<usize>,
    /// What the devices carry: tun (IP packets) or tap (Ethernet frames)
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Mode::Tun)]
    pub(super) mode: Mode,
    /// Short for --mode tap
    #[arg(long, conflicts_with = "mode")]
    pub(super) tap: bool,
    /// Transport between the ends: direct (one program has both devices) or udp (a program at each end, and UDP over the
    /// veth pair between them)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = CarrierArg::Direct)]
    pub(super) carrier: CarrierArg,
    /// Seconds for each point
    #[arg(short = 'd', long, value_name = "SECS", default_value = "1.2", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds)]
    pub(super) duration: Duration,
    /// TCP connections at once; default: as many as the device has queues
    #[arg(short = 'P', long, value_name = "N", allow_negative_numbers = true, value_parser = parallel)]
    pub(super) parallel: Option<usize>,
    /// Congestion control; default: cubic if available, so that hosts compare, else the host's
    #[arg(short = 'C', long, value_name = "NAME")]
    pub(super) congestion: Option<String>,
    /// Repeats of all measurements, in turn; the report shows medians
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = repeats)]
    pub(super) repeats: usize,
    /// Create nothing: watch this device for --duration seconds, and recommend settings
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["queues", "offload", "multi_queue", "mode", "tap", "carrier",
          "parallel", "congestion", "repeats"])]
    pub(super) device: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Offload {
    On,
    Off,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Tun,
    Tap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CarrierArg {
    Direct,
    Udp,
}

impl From<CarrierArg> for Carrier {
    fn from(carrier: CarrierArg) -> Self {
        match carrier {
            CarrierArg::Direct => Self::Direct,
            CarrierArg::Udp => Self::Udp,
        }
    }
}

fn queue_length(text: &str) -> Result<u32, String> {
    within(text, 1, 1_000_000)
}

fn queue_count(text: &str) -> Result<usize, String> {
    within(text, 1, 64)
}

fn parallel(text: &str) -> Result<usize, String> {
    within(text, 1, 256)
}

fn repeats(text: &str) -> Result<usize, String> {
    within(text, 1, 1000)
}

fn within<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    let number = text.trim().parse().ok();
    number
        .filter(|number| (&least..=&most).contains(&number))
        .ok_or_else(|| format!("expected a whole number, {least} to {most}"))
}

const EXAMPLES: &str = "\
Examples:
  sockeye bench tun                           all, about a minute
  sockeye bench tun --queues 3,500 -d 1       two lengths only
  sockeye bench tun --carrier udp -o tun.svg  as a VPN does it, drawn
  sockeye bench tun --device tap0             what is wrong with this one";
