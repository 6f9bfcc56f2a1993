//! `sockeye bench serve`: the server for stream, rr and crr.

mod args;
mod log;
mod run;

pub(crate) use args::ServeArgs;
pub(crate) use run::run;
