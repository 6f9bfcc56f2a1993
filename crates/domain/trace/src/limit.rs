//! Limiting factors of a transfer, as shares of its time.
//!
//! Inferred from packets alone, after Zhang and others 2002 (T-RAT), Siekkinen and others 2005 and 2008, and Timmer and
//! others 2005, with the exclusive order of Linux's `tcp_info` (`busy_time`, `rwnd_limited`, `sndbuf_limited`). The time
//! of a direction is that of its connection, from the first packet to the last. Each moment belongs to the first limit
//! in this list with a true condition, by the sender's knowledge at that moment:
//!
//! 1. Setup: until the handshake's last ACK, or the first ACK if the beginning was not captured.
//! 2. Timeout: from the last progress (new data sent or acknowledged) until the oldest segment is retransmitted, if that
//!    took at least 150 ms and one and a half round trips; and from there until that segment is acknowledged.
//! 3. Receiver window: less than a full segment more fits into the window, and there is more to send, also during fast
//!    recovery; or the window is closed. After it was filled up to its end, this lasts while less fits than the last burst
//!    or a third of the window, because senders wait for more. The initial window (ten segments, RFC 6928) counts as
//!    congestion window, whatever the receive window is.
//! 4. Fast recovery: from the first retransmission for another reason than a timeout until everything sent before it is
//!    acknowledged.
//! 5. Application: nothing is in flight; or the last data was pushed and is no full segment (stacks send such a segment
//!    when they have no more data), unless the window ended there, and the data after it did not answer an
//!    acknowledgement.
//! 6. Send buffer: all data was sent, and more came right after a plain acknowledgement; or the last data was pushed, the
//!    flight then sank by at least a quarter without new data and came back to at least two thirds (Linux lets programs
//!    write again when a third of the buffer is free; a congestion window releases one segment per acknowledged one); or
//!    nothing was sent for a quarter of a round trip while little was acknowledged, with at least ten segments in flight
//!    and no growth for four round trips (congestion windows grow while nothing is lost). All this only if it happens
//!    repeatedly (more than three times, and more than four times as often as losses) and the window allowed a quarter
//!    more.
//! 7. Congestion window: data is in flight, and none of the above holds. This includes the rate of the path and the
//!    sender's pacing.
//!
//! Drops in a local queue have no share. A capture sees what was handed to the device, not what its queue or the ring of
//! a TUN device dropped: such a segment is missing like any other lost one, and the time until its retransmission is
//! recovery or timeout. The waits at losses show that a queue of a few segments overflows, near or far
//! ([`Verdict::queue_segs`]); drop counters of the host show which queue it is.
//!
//! A sender that paces (BBR always, others on request) is not limited by a full window until its pacing allows the next
//! segment; `tcp_info` counts like this, and so do the shares here. Near the sender, pacing shows where a segment is sent
//! without a trigger, later than the acknowledgement that opened the window; it is assumed for the trains after that.
//! In captures elsewhere pacing is unknown, and its time counts for the receiver window: up to twice `rwnd_limited` of
//! `tcp_info`. The largest share ([`Verdict::limit`]) is the receiver window in any case: with a wider one the sender
//! would have paced faster.
//!
//! A capture does not show whether a program was waiting. Linux counts a full buffer in `sndbuf_limited` only if a part
//! of it had to wait before it was sent; a buffer that is sent at once has a smaller value there than here, down to 0.
//! And Linux measures in ticks of its clock (4 ms at 250 Hz), so that its shares of a transfer of less than about 200 ms
//! are exact to 5 points at best.
//!
//! The capture point matters ([`crate::Vantage`]). Near the sender, the capture shows what the sender knows. Elsewhere,
//! acknowledgements take effect later by the round trip between capture and sender, which the handshake and echoed
//! timestamps measure, including queues on the way. Losses before the capture point show only when the gap is filled, or
//! by IP identifications that are missing after a silence.

use crate::named::named;

named! {
    /// What a sender was waiting for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Limit {
        /// The handshake
        Setup = "setup",
        /// The sender had nothing to send
        Application = "application",
        /// The receiver's window was full
        ReceiverWindow = "receiver_window",
        /// The send buffer was full of unacknowledged data, below both windows
        SendBuffer = "send_buffer",
        /// The congestion window, or the rate of the path
        CongestionWindow = "congestion_window",
        /// Recovery after duplicate acknowledgements
        FastRecovery = "fast_recovery",
        /// Waiting for a retransmission timeout
        Timeout = "timeout",
    }
}

/// Time of one direction by limit, in nanoseconds; the sum is its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shares(pub [u64; Limit::ALL.len()]);

impl Shares {
    /// Time spent waiting for this limit, in nanoseconds.
    #[must_use]
    pub const fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// Sum of all times.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }
}

/// What limited one direction, with its evidence.
///
/// A loss counts as right after growth if a new maximum since the last recovery was in flight within two
/// round trips of it. The length of the queue is estimated from how long segments sent before a loss waited,
/// divided by the time that each segment takes to leave the queue: the 25th to the 75th percentile of at
/// least three waits, and only if these agree and hardly any wait was longer. In front of links so fast that
/// nothing waits, it is the length of bursts up to their first loss, if no burst of more than about twice
/// that length ever got through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Limit with the largest share of the time
    pub limit: Option<Limit>,
    /// Median of segments in flight while waiting for acknowledgements
    pub in_flight_segs: Option<u32>,
    /// Segments that the peer's window allowed then
    pub window_segs: Option<u32>,
    /// Segments that were lost
    pub lost_segs: u64,
    /// Of these, lost in bursts right after the window had grown
    pub lost_after_growth_segs: u64,
    /// Segments that a queue on the path holds (least, most), by where bursts overflow it
    pub queue_segs: Option<(u32, u32)>,
    /// Whether nothing waited in a queue on the path when segments were lost
    pub has_no_queue: bool,
    /// Retransmission timeouts
    pub timeouts: u64,
}
