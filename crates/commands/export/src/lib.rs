//! `sockeye export`: what monitoring systems collect, for more hosts than anyone can look at one by one.
//!
//! It deliberately keeps no history, which these systems do, and changes nothing on the host.
//!
//! - `args`: the formats; `sample_args`: the options that all of them have
//! - `sampling`: from samples of the host to `sockeye_metrics::HostMetrics`
//! - `prometheus`: serves them, or writes them to a file; `otlp`: sends them, and what happened as log records
//! - `clickhouse`: sends what was recorded, from the store of the recorder
//! - `output`: the formats; pure
//!
//! # Who waits for whom
//! The main thread takes samples at their interval, and waits for no reader. It writes each as text once; a thread of its own answers
//! requests with the last one: no client makes more work than to send it.

mod args;
mod clickhouse;
mod otlp;
mod output;
mod prometheus;
mod sample_args;
mod sampling;

pub use args::ExportArgs;

use args::Format;

/// Exports metrics until it is ended.
///
/// # Errors
/// If an option is wrong, the first sample cannot be taken, or the metrics cannot be served or written.
pub fn run(args: &ExportArgs) -> anyhow::Result<()> {
    match &args.format {
        Format::Prometheus(args) => prometheus::run(args),
        Format::Otlp(args) => otlp::run(args),
        Format::Clickhouse(args) => clickhouse::run(args),
    }
}
