//! Throughput: as many bytes as possible, in one direction or both, over TCP or UDP.
//!
//! A [`Plan`] has the parameters; the outcome is a [`sockeye_measure::Transfer`], whichever protocol the ends use.

mod client;
mod control;
mod end_report;
mod engine;
mod host_snapshot;
mod plan;
mod server;
mod tcp;
mod udp;
mod watch;

pub use client::run;
pub use engine::set_congestion;
pub use host_snapshot::HostSnapshot;
pub use plan::{
    DATAGRAM_MAX, DATAGRAM_MIN, Direction, LENGTH_MAX, Plan, STREAMS_MAX, TCP_LENGTH, Transport, Until,
    WINDOW_MAX,
};
pub(crate) use server::answer;
pub use watch::Watch;

/// Outcome of a transfer.
pub type Outcome = sockeye_measure::Transfer;

/// Progress of a running transfer, reported once per interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Since the start.
    pub elapsed: std::time::Duration,
    /// Bytes per second sent in the last interval; `None` if this end does not send.
    pub sent_bytes_per_s: Option<f64>,
    /// Bytes per second received in the last interval; `None` if this end does not receive.
    pub received_bytes_per_s: Option<f64>,
    /// Retransmitted segments so far.
    pub retransmitted_segs: Option<u64>,
    /// Round-trip time.
    pub rtt_us: Option<u64>,
}
