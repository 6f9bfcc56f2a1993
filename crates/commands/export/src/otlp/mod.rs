//! `sockeye export otlp`.

mod args;
mod environment;
mod grpc;
mod outcome;
mod queue;
mod run;
mod sender;

pub(crate) use args::OtlpArgs;
pub(crate) use run::run;
