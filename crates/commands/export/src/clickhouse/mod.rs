//! `sockeye export clickhouse`: what the recorder has stored, to the tables that `sockeye fleet` asks.
//!
//! The store of the recorder is the queue: a file has the last sample that was sent, so that a server that is away for a day is sent that
//! day when it is back, and memory has one interval only. Each interval is an insert a table, with a token by which the server knows
//! one that comes again.

mod args;
mod cursor;
mod run;
mod shipper;

pub(crate) use args::ClickhouseArgs;
pub(crate) use run::run;
