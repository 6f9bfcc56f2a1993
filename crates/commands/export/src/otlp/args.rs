//! Arguments of `export otlp`.

use crate::sample_args::SampleArgs;
use clap::Args;
use sockeye_http::Target;

/// Send metrics to an OpenTelemetry collector, by OTLP over HTTP
///
/// The same metrics as those for Prometheus, after each sample. The number of connections has the name of the semantic conventions,
/// system.network.connection.count. What a collector did not take is in the next request: all totals count since the begin.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OtlpArgs {
    /// The collector, to whose URL /v1/metrics is appended
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4318", value_parser = Target::parse)]
    pub(super) endpoint: Target,
    #[command(flatten)]
    pub(super) samples: SampleArgs,
}

const EXAMPLES: &str = "\
Examples:
  sockeye export otlp                                the collector on this host
  sockeye export otlp --endpoint http://otel:4318 --sample-interval 30
  OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=web-1,k8s.namespace.name=shop sockeye export otlp
                                                     attributes of the host

Environment: OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS (NAME=VALUE,..., such as a token).

Exit status: 0 ended, 1 a failure, 2 usage error.";
