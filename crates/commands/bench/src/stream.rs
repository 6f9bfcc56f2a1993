//! `sockeye bench stream`.

use super::serve::is_v6;
use super::telling::{Telling, noise_since};
use anyhow::Context;
use clap::Args;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_console::values;
use sockeye_filter::Quantity;
use sockeye_load::session::{PORT, Reach, Stop};
use sockeye_load::stream::{
    DATAGRAM_MAX, DATAGRAM_MIN, Direction, LENGTH_MAX, Outcome, Plan, Progress, STREAMS_MAX, Transport,
    Until, WINDOW_MAX,
};
use sockeye_load::{StreamOptions, StreamProtocol};
use sockeye_measure::{Partial, Report, TypedCommand};
use sockeye_output::Format;
use sockeye_sys::interrupts::Interrupts;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// How much gets through, and what limits it
///
/// The other end is `sockeye bench serve`, or with --iperf3 an iperf3 server. Bytes go from here to there, unless
/// --reverse or --bidir says otherwise. What is told is what arrived; why it was not more is told with it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StreamArgs {
    /// The other end: a name or an address
    #[arg(value_name = "HOST")]
    host: String,
    /// Its port (default: 5210, with --iperf3 5201)
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// The other end sends, we receive
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    reverse: bool,
    /// Both ends send at once
    #[arg(long)]
    bidir: bool,
    /// Streams at once, in each direction (1 to 128)
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=STREAMS_MAX as i64))]
    streams: u16,
    /// How long to send, in seconds [default: 10]
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = values::seconds, conflicts_with = "bytes")]
    time: Option<Duration>,
    /// How much to send instead, all streams of a direction together: 500M, 2Gi
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = size)]
    bytes: Option<u64>,
    /// Bytes of one write, or of one datagram [default: 128Ki; of UDP as many as fit into a packet]
    #[arg(short = 'l', long, value_name = "SIZE", value_parser = size)]
    length: Option<u64>,
    /// Send and receive buffers of both ends (SO_SNDBUF, SO_RCVBUF) [default: the kernel sizes them]
    #[arg(short = 'w', long, value_name = "SIZE", value_parser = size)]
    window: Option<u64>,
    /// Congestion control of both ends, by its name: cubic, bbr, reno
    #[arg(short = 'C', long, value_name = "NAME", conflicts_with = "udp")]
    congestion: Option<String>,
    /// Processor that our threads stay on, and theirs: 0, or 0,1, or ,1
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = affinity)]
    affinity: Option<Affinity>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// UDP instead of TCP: says what was lost, reordered and how the delay varied
    #[arg(short, long)]
    udp: bool,
    /// At most so many bits a second in each stream: 50M, 1.5Gbit; 0: as fast as it gets [default: UDP 1M, TCP 0]
    #[arg(short, long, value_name = "RATE", value_parser = rate)]
    bitrate: Option<u64>,
    /// Do not count the first so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds_or_zero, default_value = "0")]
    omit: Duration,
    /// Let the kernel throw away what TCP receives, without copying it (MSG_TRUNC)
    #[arg(long)]
    skip_rx_copy: bool,
    /// Seconds between two rows of progress and of the report
    #[arg(short, long, value_name = "SECONDS", value_parser = values::seconds, default_value = "1")]
    interval: Duration,
    /// How long to wait until the other end answers, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, default_value = "5")]
    connect_timeout: Duration,
    /// Do it so many times, and tell the median and how far they lie apart
    #[arg(long, value_name = "N", value_parser = values::count, default_value = "1")]
    repeats: u64,
    /// The other end is an iperf3 server; JSON is what iperf3 -J prints
    #[arg(long)]
    iperf3: bool,
    /// With --iperf3: how many writes, or datagrams, to send instead
    #[arg(short = 'k', long, value_name = "N", requires = "iperf3", conflicts_with_all = ["time", "bytes"], value_parser = clap::value_parser!(u64).range(1..))]
    blocks: Option<u64>,
    /// With --iperf3: the largest TCP segment of both ends, in bytes (88 to 32767)
    #[arg(short = 'M', long, value_name = "BYTES", requires = "iperf3", conflicts_with = "udp", value_parser = clap::value_parser!(u64).range(88..=32767))]
    mss: Option<u64>,
    /// With --iperf3: without Nagle's algorithm (TCP_NODELAY)
    #[arg(short = 'N', long, requires = "iperf3", conflicts_with = "udp")]
    no_delay: bool,
    #[command(flatten)]
    telling: Telling,
}

/// Ours, and theirs.
pub(super) type Affinity = (Option<usize>, Option<usize>);

pub(crate) fn run(args: &StreamArgs, iperf3: &dyn StreamProtocol) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let chart = args.telling.prepare()?;
    let interrupts = Interrupts::catch().context("catch signals")?;
    let stop = Stop::by(interrupts);
    let reach = args.reach(iperf3.port());
    let options = StreamOptions {
        blocks: args.blocks,
        mss: args.mss,
        no_delay: args.no_delay,
    };
    if args.iperf3 {
        iperf3
            .check(&plan)
            .map_err(|reason| usage(format!("--iperf3: {reason}")))?;
        // Scripts that read what `iperf3 -J` prints get the same.
        if args.telling.json || Format::from(args.telling.format) == Format::Json {
            if args.repeats > 1 || chart.is_some() {
                return Err(
                    usage("--iperf3 --json is one document of iperf3's: without --repeats and -o").into(),
                );
            }
            let mut line = ProgressLine::new(&plan, 1, 1);
            let document =
                iperf3.run_for_document(&reach, &plan, options, &stop, &mut |progress| line.show(progress));
            stdout::write(document.text.as_bytes())?;
            return match document.outcome {
                Ok(true) => Ok(ExitCode::SUCCESS),
                Ok(false) => Ok(ExitCode::FAILURE),
                Err(error) => Err(anyhow::Error::from_boxed(error)),
            };
        }
    }
    let noise = sockeye_load::noise();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut failure: Option<Partial> = None;
    for number in 0..args.repeats {
        let mut line = ProgressLine::new(&plan, number + 1, args.repeats);
        let made = if args.iperf3 {
            iperf3
                .run(&reach, &plan, options, &stop, &mut |progress| line.show(progress))
                .map_err(|failed| (failed.code, anyhow::Error::from_boxed(failed.error)))
        } else {
            sockeye_load::stream::run(&reach, &plan, &stop, &mut |progress| line.show(progress))
                .map_err(|trouble| (trouble.code(), anyhow::Error::from(trouble)))
        };
        drop(line);
        match made {
            Ok(outcome) => {
                let is_partial = outcome.partial.is_some();
                outcomes.push(outcome);
                if is_partial {
                    break;
                }
            }
            // What was measured before is told nevertheless.
            Err((code, trouble)) if !outcomes.is_empty() => {
                failure = Some(Partial {
                    code,
                    text: format!("repeat {} of {}: {trouble}", number + 1, args.repeats),
                });
                break;
            }
            Err((_, trouble)) => return Err(trouble),
        }
    }
    let mut report = Report::new("stream");
    let again = args.again();
    super::stream_report::fill(
        &mut report,
        &plan,
        &reach,
        &again,
        &outcomes,
        args.telling.is_for_eyes(),
    );
    report.noise = Some(noise_since(noise));
    report.partial = report.partial.or(failure);
    args.telling.deliver(&report, chart)
}

impl StreamArgs {
    fn plan(&self) -> anyhow::Result<Plan> {
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
            streams: self.streams,
            until: match self.bytes {
                Some(bytes) => Until::Bytes(bytes),
                None => Until::Time(self.time.unwrap_or(Duration::from_secs(10))),
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

    /// What was typed, for remedies that change one thing of it.
    fn again(&self) -> TypedCommand {
        TypedCommand::new("sockeye bench stream", &self.host)
            .flag("--iperf3", self.iperf3)
            .option("-p", self.port)
            .flag("-4", self.ipv4)
            .flag("-6", self.ipv6)
            .flag("-u", self.udp)
            .flag("-R", self.reverse)
            .flag("--bidir", self.bidir)
            .option("-P", Some(self.streams).filter(|&streams| streams > 1))
            .option("-t", self.time.map(|time| time.as_secs_f64()))
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

    fn reach(&self, iperf3_port: u16) -> Reach {
        let default = if self.iperf3 { iperf3_port } else { PORT };
        Reach {
            host: self.host.clone(),
            port: self.port.unwrap_or(default),
            is_v6: is_v6(self.ipv4, self.ipv6),
            patience: self.connect_timeout,
        }
    }
}

fn usage(text: impl std::fmt::Display) -> UsageError {
    UsageError(format!("sockeye: {text}\n"))
}

fn size(text: &str) -> Result<u64, String> {
    Quantity::Bytes
        .parse(text)
        .ok_or_else(|| format!("expected {}", Quantity::Bytes.description()))
}

/// With or without the word for bits: `50M` is what iperf3 takes.
fn rate(text: &str) -> Result<u64, String> {
    Quantity::Rate
        .parse(text)
        .or_else(|| Quantity::Count.parse(text))
        .ok_or_else(|| "expected bits a second, like 50M, 1.5Gbit or 10MB/s".to_owned())
}

pub(super) fn affinity(text: &str) -> Result<Affinity, String> {
    let (ours, theirs) = text.split_once(',').unwrap_or((text, ""));
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| "expected numbers of processors, like 0, or 0,1, or ,1".to_owned()),
    };
    let both = (number(ours)?, number(theirs)?);
    if both == (None, None) {
        return Err("expected at least one processor".to_owned());
    }
    Ok(both)
}

/// As it was typed.
pub(super) fn typed((ours, theirs): Affinity) -> String {
    let number = |number: Option<usize>| number.map_or_else(String::new, |number| number.to_string());
    match theirs {
        Some(_) => format!("{},{}", number(ours), number(theirs)),
        None => number(ours),
    }
}

/// How far it has come, on a terminal's stderr.
struct ProgressLine {
    title: String,
    is_watched: bool,
    is_shown: bool,
}

impl ProgressLine {
    fn new(plan: &Plan, number: u64, repeats: u64) -> Self {
        let amount = match plan.until {
            Until::Time(time) => format!(" of {} s", (time + plan.omit).as_secs_f64()),
            Until::Bytes(_) => " s".to_owned(),
        };
        let which = if repeats > 1 {
            format!(" ({number} of {repeats})")
        } else {
            String::new()
        };
        Self {
            title: format!("{amount}{which}"),
            is_watched: std::io::stderr().is_terminal(),
            is_shown: false,
        }
    }

    fn show(&mut self, progress: &Progress) {
        if !self.is_watched {
            return;
        }
        let mut text = format!(
            "\r\x1b[Ksockeye: {:.0}{}",
            progress.elapsed.as_secs_f64(),
            self.title
        );
        for (way, rate) in [
            ("sent", progress.sent_bytes_per_s),
            ("received", progress.received_bytes_per_s),
        ] {
            if let Some(rate) = rate {
                text.push_str(&format!(", {way} {}", bits_per_s(rate)));
            }
        }
        if let Some(segments) = progress.retransmitted_segs.filter(|&segments| segments > 0) {
            text.push_str(&format!(", {segments} retransmitted"));
        }
        self.is_shown = true;
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// Bytes a second as networks count.
pub(super) fn bits_per_s(bytes_per_s: f64) -> String {
    let mut rate = bytes_per_s * 8.0;
    for unit in ["bit/s", "kbit/s", "Mbit/s"] {
        if rate < 1000.0 {
            return format!("{rate:.1} {unit}");
        }
        rate /= 1000.0;
    }
    format!("{rate:.2} Gbit/s")
}

/// As iperf3 has it: little enough to hurt nobody by mistake.
const UDP_BITS_PER_S: u64 = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  sockeye bench serve                              at the other end, first
  sockeye bench stream 10.0.0.2                    ten seconds, to there
  sockeye bench stream 10.0.0.2 -R -P 4            four streams, from there
  sockeye bench stream 10.0.0.2 -u -b 200M         UDP: what is lost?
  sockeye bench stream 10.0.0.2 --repeats 5 -t 3   how much do they differ?";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_typed() {
        assert_eq!(rate("50M"), Ok(50_000_000));
        assert_eq!(rate("1.5Gbit"), Ok(1_500_000_000));
        assert_eq!(rate("1MB/s"), Ok(8_000_000));
        assert_eq!(rate("0"), Ok(0));
        assert_eq!(affinity("0"), Ok((Some(0), None)));
        assert_eq!(affinity(",1"), Ok((None, Some(1))));
        assert_eq!(affinity("0,1"), Ok((Some(0), Some(1))));
        for bad in ["", ",", "a", "0,1,2", "-1"] {
            assert!(affinity(bad).is_err(), "{bad}");
        }
        assert!(rate("fast").is_err());
        assert_eq!([(Some(0), None), (None, Some(1))].map(typed), ["0", ",1"]);
        assert_eq!(bits_per_s(125.0), "1.0 kbit/s");
        assert_eq!(bits_per_s(1.25e9), "10.00 Gbit/s");
    }
}
