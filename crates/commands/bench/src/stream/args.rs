//! Arguments of `sockeye bench stream`.

use crate::affinity::{Affinity, affinity, typed};
use crate::family_args::FamilyArgs;
use crate::output_args::OutputArgs;
use crate::secret_args::SecretArgs;
use clap::Args;
use sockeye_console::usage::UsageError;
use sockeye_console::values;
use sockeye_filter::Quantity;
use sockeye_load::Transport;
use sockeye_load::session::{Connector, PORT};
use sockeye_load::stream::{
    DATAGRAM_MAX, DATAGRAM_MIN, Direction, LENGTH_MAX, Plan, STREAMS_MAX, Until, WINDOW_MAX,
};
use sockeye_measure::TypedCommand;
use std::time::Duration;

/// Measure throughput, and what limits it
///
/// The other end is `sockeye bench serve`, or with --iperf3 an iperf3 server. Bytes go from here to there unless
/// --reverse or --bidir is given. Reports the bytes that arrived, and what limited the throughput.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StreamArgs {
    /// The other end: a name or an address
    #[arg(value_name = "HOST")]
    pub(super) host: String,
    /// Its port (default: 5210, with --iperf3 5201)
    #[arg(short, long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// The other end sends, we receive
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub(super) reverse: bool,
    /// Both ends send at once
    #[arg(long)]
    pub(super) bidir: bool,
    /// Streams at once, in each direction (1 to 128)
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=STREAMS_MAX as i64))]
    pub(super) parallel: u16,
    /// Length of the measurement, in seconds; also -t, as in iperf3 [default: 10]
    #[arg(short = 'd', long, short_alias = 't', value_name = "SECS", value_parser = values::seconds, conflicts_with = "bytes")]
    pub(super) duration: Option<Duration>,
    /// How much to send instead, all streams of a direction together: 500M, 2Gi
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = size)]
    pub(super) bytes: Option<u64>,
    /// Bytes of one write, or of one datagram [default: 128Ki; of UDP as many as fit into a packet]
    #[arg(short = 'l', long, value_name = "SIZE", value_parser = size)]
    pub(super) length: Option<u64>,
    /// Send and receive buffers of both ends (SO_SNDBUF, SO_RCVBUF) [default: the kernel sizes them]
    #[arg(short = 'w', long, value_name = "SIZE", value_parser = size)]
    pub(super) window: Option<u64>,
    /// Congestion control of both ends, by its name: cubic, bbr, reno
    #[arg(short = 'C', long, value_name = "NAME", conflicts_with = "udp")]
    pub(super) congestion: Option<String>,
    /// Processors to pin our and the other end's threads to: 0, or 0,1, or ,1
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = affinity)]
    pub(super) affinity: Option<Affinity>,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    #[command(flatten)]
    pub(super) secret: SecretArgs,
    /// UDP instead of TCP: reports loss, reordering and jitter
    #[arg(short, long)]
    pub(super) udp: bool,
    /// Limit of each stream in bits per second: 50M, 1.5Gbit; 0: no limit [default: UDP 1M, TCP 0]
    #[arg(short, long, value_name = "RATE", value_parser = rate)]
    pub(super) bitrate: Option<u64>,
    /// Seconds at the start that are not counted
    #[arg(long, value_name = "SECS", value_parser = values::seconds_or_zero, default_value = "0")]
    pub(super) omit: Duration,
    /// Let the kernel discard what TCP receives, without copying it (MSG_TRUNC)
    #[arg(long)]
    pub(super) skip_rx_copy: bool,
    /// Seconds between two rows of progress and of the report
    #[arg(short, long, value_name = "SECS", value_parser = values::seconds, default_value = "1")]
    pub(super) interval: Duration,
    /// Longest wait for an answer of the other end, in seconds
    #[arg(long, value_name = "SECS", value_parser = values::seconds, default_value = "5")]
    pub(super) connect_timeout: Duration,
    /// Repeats; the report shows the median and the spread
    #[arg(long, value_name = "N", value_parser = values::count, default_value = "1")]
    pub(super) repeats: u64,
    /// The other end is an iperf3 server; JSON is what iperf3 -J prints
    #[arg(long, conflicts_with = "secret_file")]
    pub(super) iperf3: bool,
    /// With --iperf3: how many writes, or datagrams, to send instead
    #[arg(short = 'k', long, value_name = "N", requires = "iperf3", conflicts_with_all = ["duration", "bytes"], value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) blocks: Option<u64>,
    /// With --iperf3: the largest TCP segment of both ends, in bytes (88 to 32767)
    #[arg(short = 'M', long, value_name = "SIZE", requires = "iperf3", conflicts_with = "udp", value_parser = clap::value_parser!(u64).range(88..=32767))]
    pub(super) mss: Option<u64>,
    /// With --iperf3: without Nagle's algorithm (TCP_NODELAY)
    #[arg(short = 'N', long, requires = "iperf3", conflicts_with = "udp")]
    pub(super) no_delay: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl StreamArgs {
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let transport = if self.udp { Transport::Udp } else { Transport::Tcp };
        let length = self
            .length
            .map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        let bounds = match transport {
            Transport::Tcp => 1..=LENGTH_MAX,
            Transport::Udp => DATAGRAM_MIN..=DATAGRAM_MAX,
        };
        if let Some(length) = length
            && !bounds.contains(&length)
        {
            return Err(usage(format!(
                "-l {length}: {} takes {} to {} bytes at once here",
                transport.name().to_uppercase(),
                bounds.start(),
                bounds.end()
            ))
            .into());
        }
        let window = self
            .window
            .map(|window| usize::try_from(window).unwrap_or(usize::MAX));
        if window.is_some_and(|window| !(1..=WINDOW_MAX).contains(&window)) {
            return Err(usage(format!("-w: 1 to {WINDOW_MAX} bytes")).into());
        }
        if self.bytes == Some(0) {
            return Err(usage("-n: at least one byte").into());
        }
        if self
            .congestion
            .as_deref()
            .is_some_and(|name| name.is_empty() || name.contains('\0'))
        {
            return Err(usage("-C: the name of a congestion control, like cubic").into());
        }
        let (ours, theirs) = self.affinity.unwrap_or_default();
        let default_rate = if self.udp { UDP_BITS_PER_S } else { 0 };
        let rate = self.bitrate.unwrap_or(default_rate).div_ceil(8);
        Ok(Plan {
            direction: match (self.reverse, self.bidir) {
                (true, _) => Direction::Receive,
                (_, true) => Direction::Both,
                _ => Direction::Send,
            },
            streams: self.parallel,
            until: match self.bytes {
                Some(bytes) => Until::Bytes(bytes),
                None => Until::Time(self.duration.unwrap_or(Duration::from_secs(10))),
            },
            omit: self.omit,
            transport,
            length,
            window,
            congestion: self.congestion.clone(),
            our_processor: ours,
            their_processor: theirs,
            rate: Some(rate).filter(|&rate| rate > 0),
            skips_copy: self.skip_rx_copy,
            interval: self.interval,
        })
    }

    /// Returns the typed command, for remedies that change one option.
    pub(super) fn typed_command(&self) -> TypedCommand {
        TypedCommand::new("sockeye bench stream", &self.host)
            .flag("--iperf3", self.iperf3)
            .option("-p", self.port)
            .flag("-4", self.family.ipv4)
            .flag("-6", self.family.ipv6)
            .option("--secret-file", self.secret.typed())
            .flag("-u", self.udp)
            .flag("-R", self.reverse)
            .flag("--bidir", self.bidir)
            .option("-P", Some(self.parallel).filter(|&parallel| parallel > 1))
            .option("-d", self.duration.map(|duration| duration.as_secs_f64()))
            .option("-n", self.bytes)
            .option("-k", self.blocks)
            .option("-l", self.length)
            .option("-w", self.window)
            .option("-M", self.mss)
            .flag("-N", self.no_delay)
            .option("-C", self.congestion.as_deref())
            .option("-A", self.affinity.map(typed))
            .option("-b", self.bitrate)
            .option("--omit", Some(self.omit.as_secs_f64()).filter(|&omit| omit > 0.0))
            .flag("--skip-rx-copy", self.skip_rx_copy)
    }

    pub(super) fn connector(&self, iperf3_port: u16) -> anyhow::Result<Connector> {
        let default = if self.iperf3 { iperf3_port } else { PORT };
        Ok(Connector {
            host: self.host.clone(),
            port: self.port.unwrap_or(default),
            is_v6: self.family.is_v6(),
            timeout: self.connect_timeout,
            from: None,
            secret: self.secret.secret()?,
        })
    }
}

pub(super) fn usage(text: impl std::fmt::Display) -> UsageError {
    UsageError(format!("sockeye: {text}\n"))
}

fn size(text: &str) -> Result<u64, String> {
    Quantity::Bytes
        .parse(text)
        .ok_or_else(|| format!("expected {}", Quantity::Bytes.description()))
}

/// Parses a rate, with or without a unit of bits: iperf3 accepts `50M`.
fn rate(text: &str) -> Result<u64, String> {
    Quantity::Rate
        .parse(text)
        .or_else(|| Quantity::Count.parse(text))
        .ok_or_else(|| "expected bits a second, like 50M, 1.5Gbit or 10MB/s".to_owned())
}

/// The default of iperf3: low enough to do no harm by accident.
const UDP_BITS_PER_S: u64 = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  sockeye bench serve                              at the other end, first
  sockeye bench stream 10.0.0.2                    ten seconds, to there
  sockeye bench stream 10.0.0.2 -R -P 4            four streams, from there
  sockeye bench stream 10.0.0.2 -u -b 200M         UDP: what is lost?
  sockeye bench stream 10.0.0.2 --repeats 5 -d 3   how much do they differ?";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_parses_or_is_an_error() {
        assert_eq!(rate("50M"), Ok(50_000_000));
        assert_eq!(rate("1.5Gbit"), Ok(1_500_000_000));
        assert_eq!(rate("1MB/s"), Ok(8_000_000));
        assert_eq!(rate("0"), Ok(0));
        assert!(rate("fast").is_err());
    }
}
