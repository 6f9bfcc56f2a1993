//! Arguments of `sockeye bench rr` and `sockeye bench crr`.

use crate::affinity::{Affinity, affinity, typed};
use crate::family_args::FamilyArgs;
use crate::output_args::OutputArgs;
use crate::secret_args::SecretArgs;
use clap::Args;
use sockeye_console::usage::UsageError;
use sockeye_console::values;
use sockeye_filter::Quantity;
use sockeye_load::Transport;
use sockeye_load::latency::{CONNECTIONS_MAX, Plan, Sizes};
use sockeye_load::session::{Connector, Kind, PORT};
use sockeye_measure::TypedCommand;
use std::net::IpAddr;
use std::time::Duration;

/// Measure how long an answer takes: requests over one connection, or several
#[derive(Debug, Args)]
#[command(after_help = RR_EXAMPLES)]
pub(crate) struct RrArgs {
    #[command(flatten)]
    pub(super) options: LatencyArgs,
    /// Over UDP; a request that is not answered within a second is lost
    #[arg(short = 'u', long)]
    pub(super) udp: bool,
    /// Poll without sleeping, at both ends: uses a whole processor per connection and end; the server has to allow it
    /// (`bench serve --allow-busy-poll`, or a secret)
    #[arg(long)]
    pub(super) busy_poll: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Measure how long a connection takes: connect, request, answer, close
#[derive(Debug, Args)]
#[command(after_help = CRR_EXAMPLES)]
pub(crate) struct CrrArgs {
    #[command(flatten)]
    pub(super) options: LatencyArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Options of `rr` and `crr`.
#[derive(Debug, Args)]
pub(super) struct LatencyArgs {
    /// Where `sockeye bench serve` runs: a name or an address
    pub(super) host: String,
    /// Its port
    #[arg(short, long, value_name = "PORT", default_value_t = PORT)]
    pub(super) port: u16,
    /// Length of the measurement, in seconds [default: 10, without -c]
    #[arg(short = 'd', long, value_name = "SECS", value_parser = values::seconds)]
    pub(super) duration: Option<Duration>,
    /// Number of requests, over all connections
    #[arg(short = 'c', long, value_name = "N", value_parser = values::count)]
    pub(super) count: Option<u64>,
    /// Connections at once, with a thread each
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    pub(super) parallel: u32,
    /// Requests per second, over all connections, by schedule: each delay counts from when the request was due. Without
    /// it the next request waits for the answer to the one before
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Bytes of a request
    #[arg(long, value_name = "SIZE", default_value_t = SIZE, value_parser = size)]
    pub(super) request: u32,
    /// Bytes of an answer
    #[arg(long, value_name = "SIZE", default_value_t = SIZE, value_parser = size)]
    pub(super) response: u32,
    /// Runs; percentiles are over all runs, the rate is the median
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeats: u32,
    /// Processors to pin our and the other end's threads to: 0, or 0,1, or ,1
    #[arg(long, value_name = "CPU[,CPU]", value_parser = affinity)]
    pub(super) affinity: Option<Affinity>,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    #[command(flatten)]
    pub(super) secret: SecretArgs,
    /// Local address of the connections
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub(super) bind: Option<IpAddr>,
    /// Longest wait for an answer, in seconds
    #[arg(long, value_name = "SECS", default_value = "10", value_parser = values::seconds)]
    pub(super) timeout: Duration,
}

impl LatencyArgs {
    pub(super) fn plan(&self, kind: Kind, transport: Transport) -> anyhow::Result<Plan> {
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
        if let (Some(is_v6), true) = (family, self.family.ipv4 || self.family.ipv6)
            && is_v6 != self.family.ipv6
        {
            anyhow::bail!(UsageError(
                "sockeye: -B: an address of the other family than -4 or -6 asks for\n".to_owned()
            ));
        }
        let selected = self.family.is_v6();
        let default = self.count.is_none().then_some(DEFAULT_TIME);
        Ok(Plan {
            connector: Connector {
                host: self.host.clone(),
                port: self.port,
                is_v6: selected.or(family),
                timeout: self.timeout,
                from: self.bind,
                secret: self.secret.secret()?,
            },
            kind,
            transport,
            sizes,
            connections: self.parallel as usize,
            length: self.duration.or(default),
            count: self.count,
            rate: self.rate,
            busy_poll: false,
            processors: self.affinity.unwrap_or_default(),
        })
    }

    /// Returns the typed command, for remedies that change one option.
    pub(super) fn typed_command(&self, name: &str) -> TypedCommand {
        let size = |bytes: u32| Some(bytes).filter(|&bytes| bytes != SIZE);
        TypedCommand::new(name, &self.host)
            .option("-p", Some(self.port).filter(|&port| port != PORT))
            .flag("-4", self.family.ipv4)
            .flag("-6", self.family.ipv6)
            .option("--secret-file", self.secret.typed())
            .option("-B", self.bind)
            .option("-P", Some(self.parallel).filter(|&parallel| parallel > 1))
            .option("-d", self.duration.map(|duration| duration.as_secs_f64()))
            .option("-c", self.count)
            .option("--rate", self.rate)
            .option("--request", size(self.request))
            .option("--response", size(self.response))
            .option("--affinity", self.affinity.map(typed))
    }
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
  sockeye bench serve                             at the other end, first
  sockeye bench rr 10.0.0.2                       one request at a time
  sockeye bench rr 10.0.0.2 --rate 1000 -d 60     a fixed rate, as from users
  sockeye bench rr 10.0.0.2 -P 8 --response 16Ki  8 at once, longer answers
  sockeye bench rr 10.0.0.2 -u -o delays.svg      over UDP, with a curve";

const CRR_EXAMPLES: &str = "\
The connections go to a port of their own, which the server picks anew for each test: a firewall in between must allow \
more ports than PORT (the server's net.ipv4.ip_local_port_range). The server closes each connection first, so that this end \
does not run out of ports; SO_LINGER is not changed.

Examples:
  sockeye bench serve                          at the other end, first
  sockeye bench crr 10.0.0.2                   one after the other
  sockeye bench crr 10.0.0.2 --rate 500 -P 16  500 a second, 16 at once";
