//! Throughput: as many bytes as possible, in one direction or both, over TCP or UDP.
//!
//! A [`Plan`] has the parameters; the outcome is a [`sockeye_measure::Transfer`], whichever protocol the ends use.

mod client;
mod control;
mod end_report;
mod engine;
mod host_snapshot;
mod plan;
mod progress;
mod server;
mod tcp;
mod udp;
mod watch;

pub use client::run;
pub use engine::set_congestion;
pub use host_snapshot::HostSnapshot;
pub use plan::{
    DATAGRAM_MAX, DATAGRAM_MIN, Direction, LENGTH_MAX, Plan, SENT_LENGTH_MIN, STREAMS_MAX, Until, WINDOW_MAX,
};
pub use progress::{Outcome, Progress};
pub(crate) use server::answer;
pub use watch::Watch;
#[cfg(any(test, fuzzing))]
pub(crate) use {
    end_report::{end_of, merge, streams as stream_transfers},
    udp::count_datagrams,
};
