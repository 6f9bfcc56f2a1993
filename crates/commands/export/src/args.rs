//! Arguments of `export`.

use crate::clickhouse::ClickhouseArgs;
use crate::otlp::OtlpArgs;
use crate::prometheus::PrometheusArgs;
use clap::{Args, Subcommand};

/// Export metrics of connections to a monitoring system, or what was recorded to ClickHouse
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    #[command(subcommand)]
    pub(crate) format: Format,
}

/// Whom the metrics are for.
#[derive(Debug, Subcommand)]
pub(crate) enum Format {
    Prometheus(PrometheusArgs),
    Otlp(OtlpArgs),
    Clickhouse(ClickhouseArgs),
}

const EXAMPLES: &str = "\
Examples:
  sockeye export prometheus              metrics at http://127.0.0.1:9977/metrics
  sockeye export prometheus --textfile /var/lib/prometheus/node-exporter/sockeye.prom
  sockeye export otlp                    to the OpenTelemetry collector on this host
  sockeye export clickhouse --url http://clickhouse:8123
                                         what `sockeye record` records, flow by flow";
