//! `sockeye bench stream`: throughput.

mod args;
mod output;
mod progress;
mod run;

pub(crate) use args::StreamArgs;
pub(crate) use run::run;
