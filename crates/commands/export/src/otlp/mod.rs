//! `sockeye export otlp`.

mod args;
mod environment;
mod run;
mod sender;

pub(crate) use args::OtlpArgs;
pub(crate) use run::run;
