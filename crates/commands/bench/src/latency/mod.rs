//! `sockeye bench rr` and `sockeye bench crr`: latency.

mod args;
mod output;
mod run;

pub(crate) use args::{CrrArgs, RrArgs};
pub(crate) use run::{crr, rr};
