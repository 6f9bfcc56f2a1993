//! Arguments of `export prometheus`.

use super::endpoint::Endpoint;
use super::hosts::Hosts;
use super::textfile;
use crate::sample_args::SampleArgs;
use clap::Args;
use std::path::PathBuf;

/// Serve metrics for Prometheus, or write them to a file for node_exporter
///
/// Connections by state and service, what they sent and lost, round trip times, queues of listeners, resets and drops by reason,
/// findings, and the health of the exporter. A service is the owner of a listener, or a port. No address, pid or ephemeral port is a
/// label.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PrometheusArgs {
    /// Where to listen: an address and port, or unix:PATH; 127.0.0.1:9977 unless there is a --textfile
    #[arg(long, value_name = "IP:PORT|unix:PATH", value_parser = Endpoint::parse)]
    pub(super) listen: Option<Endpoint>,
    /// Others than this host may connect, and read along: there is no TLS and no password
    #[arg(long, requires = "listen")]
    pub(super) allow_remote: bool,
    /// Another name of this host that requests may have, as a proxy passes it on; addresses and localhost always may
    #[arg(long, value_name = "NAME", value_parser = Hosts::parse)]
    pub(super) allow_host: Vec<String>,
    /// File to write after each sample, for the textfile collector of node_exporter; its name ends in .prom
    #[arg(long, value_name = "FILE", value_parser = textfile::path)]
    pub(super) textfile: Option<PathBuf>,
    /// Take one sample and end, for timers: only what one sample shows, no counters
    #[arg(long, requires = "textfile", conflicts_with = "listen")]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) samples: SampleArgs,
}

const EXAMPLES: &str = "\
Examples:
  sockeye export prometheus                          http://127.0.0.1:9977/metrics
  sockeye export prometheus -N all --services 30     all network namespaces, 30 services
  sockeye export prometheus --textfile /var/lib/prometheus/node-exporter/sockeye.prom
  curl --unix-socket /run/sockeye.sock http://localhost/metrics
                                                     with --listen unix:/run/sockeye.sock

Exit status: 0 ended, 1 a failure, 2 usage error, or another process listens there.";
