//! `sockeye export prometheus`.

mod answer;
mod args;
mod endpoint;
mod hosts;
mod published;
mod run;
mod textfile;

pub(crate) use args::PrometheusArgs;
pub(crate) use run::run;
