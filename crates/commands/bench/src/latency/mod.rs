//! `sockeye bench rr` and `sockeye bench crr`.

mod figures;

use super::serve::is_v6;
use super::stream::{Affinity, affinity, typed};
use super::telling::{Telling, noise_since};
use clap::Args;
use figures::Figures;
use sockeye_console::notes;
use sockeye_console::progress::Progress;
use sockeye_console::usage::UsageError;
use sockeye_console::values;
use sockeye_filter::Quantity;
use sockeye_load::latency::{CONNECTIONS_MAX, Plan, Sizes, Transport, run};
use sockeye_load::session::{Kind, PORT, Reach, Stop};
use sockeye_measure::TypedCommand;
use sockeye_sys::interrupts::Interrupts;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

/// How long an answer takes: requests over one connection, or several
#[derive(Debug, Args)]
#[command(after_help = RR_EXAMPLES)]
pub(crate) struct RrArgs {
    #[command(flatten)]
    asking: AskingArgs,
    /// Over UDP; a request that is not answered within a second is lost
    #[arg(short = 'u', long)]
    udp: bool,
    /// Look for bytes all the time, at both ends, instead of sleeping until they come: takes a whole processor for each
    /// connection and end
    #[arg(long)]
    busy_poll: bool,
    #[command(flatten)]
    telling: Telling,
}

/// How long a connection takes: connect, request, answer, close, and again
#[derive(Debug, Args)]
#[command(after_help = CRR_EXAMPLES)]
pub(crate) struct CrrArgs {
    #[command(flatten)]
    asking: AskingArgs,
    #[command(flatten)]
    telling: Telling,
}

/// What both understand.
#[derive(Debug, Args)]
struct AskingArgs {
    /// Where `sockeye bench serve` runs: a name or an address
    host: String,
    /// Its port
    #[arg(short, long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// Measure for so long, in seconds [default: 10, without -c]
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = values::seconds)]
    time: Option<Duration>,
    /// Measure so many requests, over all connections
    #[arg(short = 'c', long, value_name = "COUNT", value_parser = values::count)]
    count: Option<u64>,
    /// So many connections at once, a thread for each
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    parallel: u32,
    /// Send so many requests a second, over all connections, by schedule: each delay counts from when the request should
    /// have been sent, whatever held it up. Without it the next request waits for the answer to the one before
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// Bytes of a request (k, M: 1000; Ki, Mi: 1024)
    #[arg(long, value_name = "BYTES", default_value_t = SIZE, value_parser = size)]
    request: u32,
    /// Bytes of an answer
    #[arg(long, value_name = "BYTES", default_value_t = SIZE, value_parser = size)]
    response: u32,
    /// Measure so often; percentiles are those of all runs together, the rate is the median
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Processor that our threads stay on, and theirs: 0, or 0,1, or ,1
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = affinity)]
    affinity: Option<Affinity>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// The address that connections come from
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Give up when nothing was heard for so long, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = values::seconds)]
    timeout: Duration,
}

pub(crate) fn rr(args: &RrArgs) -> anyhow::Result<ExitCode> {
    let transport = if args.udp { Transport::Udp } else { Transport::Tcp };
    let plan = Plan {
        spins: args.busy_poll,
        ..args.asking.plan(Kind::Rr, transport)?
    };
    let again = args.asking.again("sockeye bench rr");
    let again = again.flag("-u", args.udp).flag("--busy-poll", args.busy_poll);
    measure(&plan, again, args.asking.repeats, &args.telling)
}

pub(crate) fn crr(args: &CrrArgs) -> anyhow::Result<ExitCode> {
    let plan = args.asking.plan(Kind::Crr, Transport::Tcp)?;
    let again = args.asking.again("sockeye bench crr");
    measure(&plan, again, args.asking.repeats, &args.telling)
}

impl AskingArgs {
    fn plan(&self, kind: Kind, transport: Transport) -> anyhow::Result<Plan> {
        let sizes = Sizes {
            request: self.request,
            response: self.response,
        };
        let bounds = transport.size_min()..=transport.size_max();
        for (option, size) in [("--request", sizes.request), ("--response", sizes.response)] {
            if !bounds.contains(&size) {
                let (least, most) = (bounds.start(), bounds.end());
                let what = match transport {
                    Transport::Tcp => "",
                    Transport::Udp => " over UDP",
                };
                anyhow::bail!(UsageError(format!(
                    "sockeye: {option}: expected {least} to {most} bytes{what}, found {size}\n"
                )));
            }
        }
        let family = self.bind.map(|address| address.is_ipv6());
        if let (Some(is_v6), true) = (family, self.ipv4 || self.ipv6)
            && is_v6 != self.ipv6
        {
            anyhow::bail!(UsageError(
                "sockeye: -B: an address of the other family than -4 or -6 asks for\n".to_owned()
            ));
        }
        let asked = is_v6(self.ipv4, self.ipv6);
        let default = self.count.is_none().then_some(DEFAULT_TIME);
        Ok(Plan {
            reach: Reach {
                host: self.host.clone(),
                port: self.port,
                is_v6: asked.or(family),
                patience: self.timeout,
            },
            kind,
            transport,
            sizes,
            connections: self.parallel as usize,
            length: self.time.or(default),
            count: self.count,
            rate: self.rate,
            spins: false,
            processors: self.affinity.unwrap_or_default(),
            from: self.bind,
        })
    }

    /// What was typed, for remedies that change one thing of it.
    fn again(&self, words: &str) -> TypedCommand {
        let size = |bytes: u32| Some(bytes).filter(|&bytes| bytes != SIZE);
        TypedCommand::new(words, &self.host)
            .option("-p", Some(self.port).filter(|&port| port != PORT))
            .flag("-4", self.ipv4)
            .flag("-6", self.ipv6)
            .option("-B", self.bind)
            .option("-P", Some(self.parallel).filter(|&parallel| parallel > 1))
            .option("-t", self.time.map(|time| time.as_secs_f64()))
            .option("-c", self.count)
            .option("--rate", self.rate)
            .option("--request", size(self.request))
            .option("--response", size(self.response))
            .option("-A", self.affinity.map(typed))
    }
}

fn measure(plan: &Plan, again: TypedCommand, repeats: u32, telling: &Telling) -> anyhow::Result<ExitCode> {
    let chart = telling.prepare()?;
    let stop = Stop::by(Interrupts::catch()?);
    let before = sockeye_load::noise();
    let mut figures = Figures::new(plan, again);
    for _ in 0..repeats {
        let outcome = {
            let mut progress = match plan.count {
                Some(count) => Progress::new("answers", usize::try_from(count).unwrap_or(usize::MAX)),
                None => Progress::without_total("answers"),
            };
            run(plan, &stop, &mut |answered| progress.reach(answered as usize))
        };
        match outcome {
            Ok(outcome) => figures.take(outcome),
            // Nothing to tell.
            Err(trouble) if figures.is_empty() => return Err(trouble.into()),
            Err(trouble) => figures.fail(&trouble),
        }
        if figures.is_partial() {
            break;
        }
    }
    let mut report = figures.report();
    report.noise = Some(noise_since(before));
    if let Some(partial) = report.partial.as_ref().filter(|_| !telling.is_for_eyes()) {
        notes::say(&format!("sockeye: {}\n", partial.text));
    }
    telling.deliver(&report, chart)
}

fn size(text: &str) -> Result<u32, String> {
    let bytes = Quantity::Bytes
        .parse(text)
        .and_then(|bytes| u32::try_from(bytes).ok());
    bytes
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| format!("expected {}, 1 or more", Quantity::Bytes.description()))
}

fn rate(text: &str) -> Result<f64, String> {
    let counted = Quantity::Count.parse(text).map(|count| count as f64);
    let rate = counted.or_else(|| text.parse().ok());
    rate.filter(|rate| (0.001..=RATE_MAX).contains(rate))
        .ok_or_else(|| format!("expected requests a second, 0.001 to {RATE_MAX}"))
}

/// Of a request and of an answer, by default.
const SIZE: u32 = 64;
const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// More than any host sends.
const RATE_MAX: f64 = 1e8;

const RR_EXAMPLES: &str = "\
Examples:
  sockeye bench serve                              at the other end, first
  sockeye bench rr 10.0.0.2                        one request at a time
  sockeye bench rr 10.0.0.2 --rate 1000 -t 60      by schedule, as users ask
  sockeye bench rr 10.0.0.2 -P 8 --response 16Ki   eight at once, longer answers
  sockeye bench rr 10.0.0.2 -u -o delays.svg       over UDP, with a curve";

const CRR_EXAMPLES: &str = "\
The connections go to a port of their own, which the server picks anew for each test: a firewall between has to let more \
than PORT through (the server's net.ipv4.ip_local_port_range). The server closes each connection first, so that this end \
does not run out of ports; SO_LINGER is left alone.

Examples:
  sockeye bench serve                            at the other end, first
  sockeye bench crr 10.0.0.2                     one after the other
  sockeye bench crr 10.0.0.2 --rate 500 -P 16    500 a second, up to 16 at once";
