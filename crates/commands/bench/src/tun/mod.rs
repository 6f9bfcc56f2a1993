//! `sockeye bench tun`: what the queue of a tunnel's device costs.

mod device;
mod sweep;
mod words;

use super::telling::Telling;
use clap::{Args, ValueEnum};
use sockeye_console::usage::UsageError;
use sockeye_load::tun::Carrier;
use std::process::ExitCode;
use std::time::Duration;

/// What the queue of a tunnel's device costs
///
/// Makes two network namespaces joined by a veth pair, and in each a TUN or TAP device whose packets a program carries to
/// the other. TCP goes through it, with queues of several lengths at the device, with and without packets of up to 64 KiB
/// passed on uncut (GSO, GRO), and beside it through the veth pair alone. Nothing outside is touched, and nothing is left.
///
/// With --device it looks at a device that is there, and says how to set it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TunArgs {
    /// Lengths of the device's queue, in packets (txqueuelen)
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', default_value = "3,10,100,500,1000,10000",
          allow_negative_numbers = true, value_parser = queue_length)]
    queues: Vec<u32>,
    /// With packets of up to 64 KiB passed on uncut (IFF_VNET_HDR, TUNSETOFFLOAD): on, off or both
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Offload::Both)]
    offload: Offload,
    /// How many queues the device has, each with threads of its own (IFF_MULTI_QUEUE); default: 1, and 2 on more than
    /// one processor
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', allow_negative_numbers = true, value_parser = queue_count)]
    multi_queue: Vec<usize>,
    /// What the devices carry: tun (IP packets) or tap (Ethernet frames)
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Mode::Tun)]
    mode: Mode,
    /// Short for --mode tap
    #[arg(long, conflicts_with = "mode")]
    tap: bool,
    /// How packets get to the other end: direct (one program has both devices) or udp (a program at each end, and UDP
    /// over the veth pair between them)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = CarrierArg::Direct)]
    carrier: CarrierArg,
    /// Seconds for each point
    #[arg(short = 't', long, value_name = "SECS", default_value = "1.2", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds)]
    time: Duration,
    /// TCP connections at the same time; default: as many as the device has queues
    #[arg(short = 'P', long, value_name = "N", allow_negative_numbers = true, value_parser = streams)]
    streams: Option<usize>,
    /// Their congestion control; default: cubic where there is one, so that hosts compare, else the host's
    #[arg(short = 'C', long, value_name = "NAME")]
    congestion: Option<String>,
    /// Measure everything so many times, in turn; the medians count
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = repeats)]
    repeats: usize,
    /// Build nothing: look at this device for --time seconds, and say how it should be set
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["queues", "offload", "multi_queue", "mode", "tap", "carrier",
          "streams", "congestion", "repeats"])]
    device: Option<String>,
    #[command(flatten)]
    telling: Telling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Offload {
    On,
    Off,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Tun,
    Tap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CarrierArg {
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

pub(crate) fn run(args: &TunArgs) -> anyhow::Result<ExitCode> {
    // A point lasts, and there may be many.
    if args.time > LONGEST {
        return Err(UsageError(format!(
            "sockeye: --time: at most {} seconds for each point\n",
            LONGEST.as_secs()
        ))
        .into());
    }
    match &args.device {
        Some(device) => device::run(device, args),
        None => sweep::run(args),
    }
}

fn queue_length(text: &str) -> Result<u32, String> {
    within(text, 1, 1_000_000)
}

fn queue_count(text: &str) -> Result<usize, String> {
    within(text, 1, 64)
}

fn streams(text: &str) -> Result<usize, String> {
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

const LONGEST: Duration = Duration::from_secs(3600);

const EXAMPLES: &str = "\
Examples:
  sockeye bench tun                              the whole sweep, about a minute
  sockeye bench tun --queues 3,500 -t 1          two lengths only
  sockeye bench tun --carrier udp -o tun.svg     as a VPN does it, drawn
  sockeye bench tun --device tap0                what is wrong with this one";
