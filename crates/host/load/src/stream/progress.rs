//! Progress and outcome of a transfer.

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
