//! Arguments of `export otlp`.

use crate::sample_args::SampleArgs;
use clap::{Args, ValueEnum};
use sockeye_console::tls_args::TlsArgs;
use sockeye_http::Target;
use std::path::PathBuf;

/// Send metrics and log records to an OpenTelemetry collector, by OTLP over HTTP or gRPC
///
/// The same metrics as those for Prometheus, after each sample. The number of connections has the name of the semantic conventions,
/// system.network.connection.count. What a collector did not take is in the next request: all totals count since the begin. Log records
/// are sent once each, and again as long as the collector is away, 8 MB of them at most.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OtlpArgs {
    /// The collector, to whose URL /v1/metrics and /v1/logs are appended; otherwise http://127.0.0.1:4318, by gRPC port 4317
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    pub(super) endpoint: Option<Target>,
    /// How the collector is spoken to
    #[arg(long, value_name = "HOW", value_enum)]
    pub(super) protocol: Option<Protocol>,
    /// What is sent as log records
    #[arg(long, value_name = "WHAT,...", value_enum, value_delimiter = ',', default_values_t = [LogKind::Findings])]
    pub(super) logs: Vec<LogKind>,
    /// File with further headers, as an authorization: one on each line, NAME: VALUE
    #[arg(long, value_name = "FILE")]
    pub(super) headers_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) samples: SampleArgs,
}

/// How a collector is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    /// By POST over HTTP/1.1, unless OTEL_EXPORTER_OTLP_PROTOCOL says grpc
    Http,
    /// By gRPC, over HTTP/2
    Grpc,
}

/// What can be a log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogKind {
    /// Findings that begin, change their severity, and are over
    Findings,
    /// Connections that ended or were not established: at most 5,000 in the time between two samples
    Closes,
    /// Nothing
    None,
}

const EXAMPLES: &str = "\
Examples:
  sockeye export otlp                                the collector on this host
  sockeye export otlp --endpoint https://otel:4318 --tls-ca /etc/sockeye/ca.pem --sample-interval 30
  sockeye export otlp --protocol grpc --endpoint http://otel:4317
  sockeye export otlp --logs findings,closes         also each connection that ended
  OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=web-1,k8s.namespace.name=shop sockeye export otlp
                                                     attributes of the host

Environment: OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS (NAME=VALUE,..., such as a token), and where options do not say it
OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY.

Exit status: 0 ended, 1 a failure, 2 usage error.";
