//! As many bytes as get through, one way or both, over TCP or UDP.
//!
//! A [`Plan`] says what is wanted; what came of it is a [`sockeye_measure::Transfer`], whichever protocol the ends agreed by.

mod client;
mod course;
mod datagrams;
mod engine;
mod lane;
mod plan;
mod server;
mod surroundings;
mod told;
mod watch;

pub use client::run;
pub use plan::{
    DATAGRAM_MAX, DATAGRAM_MIN, Direction, LENGTH_MAX, Plan, STREAMS_MAX, TCP_LENGTH, Transport, Until,
    WINDOW_MAX,
};
pub(crate) use server::answer;
pub use surroundings::Surroundings;
pub use watch::Watch;

/// What came of it.
pub type Outcome = sockeye_measure::Transfer;

/// How far it has come, told once each interval while it runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Since the beginning
    pub elapsed: std::time::Duration,
    /// Bytes a second that we sent in the last interval; none: we do not
    pub sent_bytes_per_s: Option<f64>,
    /// Bytes a second that we received
    pub received_bytes_per_s: Option<f64>,
    /// Segments sent again so far
    pub retransmitted_segs: Option<u64>,
    /// Round trip
    pub rtt_us: Option<u64>,
}
