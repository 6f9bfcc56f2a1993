//! `sockeye bench stream`: throughput.

mod args;
/// Body of the fuzz target `stream_reports`.
#[cfg(any(test, fuzzing))]
#[path = "../../../../../fuzz/stream_report_body.rs"]
pub mod fuzz_body;
mod output;
mod progress;
mod run;

pub(crate) use args::StreamArgs;
pub(crate) use run::run;
