//! `sockeye bench rr` (requests over open connections) and `sockeye bench crr` (a connection for each request): arguments,
//! run and report. `run.rs` of the crate calls [`rr`] and [`crr`]; `sockeye_load::latency` sends the requests.

mod args;
mod output;
mod run;

pub(crate) use args::{CrrArgs, RrArgs};
pub(crate) use run::{crr, rr};
