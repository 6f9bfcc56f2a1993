//! What held a transfer back, as shares of its time.
//!
//! Inferred from packets alone, after Zhang and others 2002 (T-RAT), Siekkinen and others 2005 and 2008, and Timmer and
//! others 2005, with the exclusive order of Linux's `tcp_info` (`busy_time`, `rwnd_limited`, `sndbuf_limited`). The time of
//! a direction is that of its connection, from the first packet to the last; each moment belongs to the first of these
//! that is true of it, as the sender knew it then:
//!
//! 1. Setup: until the handshake's last ACK, or the first ACK of a connection whose beginning was not captured.
//! 2. Timeout: from when anything last got on (new data sent, or something acknowledged) until the oldest segment is sent
//!    again, if that took 150 ms and one and a half round trips at least; and from there until that is acknowledged.
//! 3. Receiver window: less than a full segment more fits into the window, and there is more to send, also during fast
//!    recovery; or it is closed. After it was filled up to its end, as long as less fits than was sent at once last, or than
//!    a third of it: senders wait for more. What a connection may begin with (ten segments, RFC 6928) is held by the
//!    congestion window, whatever the other one is.
//! 4. Fast recovery: from the first segment that is sent again for another reason until everything is acknowledged that
//!    had been sent by then.
//! 5. Application: nothing is in flight; or the last data was pushed and no full segment, which stacks send when they have
//!    nothing more, unless the window ended there, and what came next was not the answer to an acknowledgement.
//! 6. Send buffer: all was sent, and more came at once after a plain acknowledgement; or what was sent last was pushed,
//!    what was in flight then sank by a quarter at least without being filled up, and came to two thirds of the same
//!    again (Linux lets programs write again when a third of the buffer is free; a congestion window lets a segment out for
//!    each that arrives); or nothing was sent for a quarter of a round trip while hardly anything was acknowledged, with ten
//!    segments at least in flight that had not become more for four round trips, which congestion windows do as long as
//!    nothing is lost. But only where that happens again and again (more than three times, and more than four times as
//!    often as anything was lost) and the window would have held a quarter more.
//! 7. Congestion window: data is in flight, and nothing of the above is true. The rate of the path is in it, and the
//!    sender's pace.
//!
//! What a local queue drops has no share. A capture sees what was handed to the device, not what the queue before it or a
//! TUN ring behind it threw away: such a segment is missing like one lost anywhere else, and the time until it is sent again
//! is recovery or timeout. That a queue of a few segments overflows near by or far away is told by what waited when things
//! were lost ([`Verdict::queue_segs`]); whose queue it is, drop counters of the host tell.
//!
//! A sender that paces (BBR always, others on request) is not held by a full window until its pace is over; so `tcp_info`
//! counts, and so do the shares here. The pace is seen where a segment goes out by itself, later than the acknowledgement
//! that made room for it, captured near the sender; it is assumed for the trains after that. Captured elsewhere it is not
//! known, and the receiver window has its time as well: as much as twice what `tcp_info` says in `rwnd_limited`. What held
//! most of the time ([`Verdict::limit`]) is the receiver window in any case: a wider one would have let it pace faster.
//!
//! What a capture cannot know either: whether a program was waiting. Linux counts a full buffer in `sndbuf_limited` only if
//! something of it had to wait before it was sent, so that a buffer that is sent at once as a whole has less there, down to
//! nothing, than here. And it measures in ticks of its clock (4 ms with 250 of them a second), so that its shares of a
//! transfer that takes less than some 200 ms are no better than 5 points.
//!
//! Where it was captured matters ([`crate::Vantage`]). Near the sender, what is captured is what the sender knows. Elsewhere,
//! acknowledgements take effect later by the round trip between the capture and the sender, which the handshake and
//! echoed timestamps measure, with what waits in queues on the way. What was lost before the capture is known only by what
//! fills the gap, or by IP identifications that are missing after a silence.

/// What a moment was spent waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The handshake
    Setup,
    /// The sender had nothing to send
    Application,
    /// The receiver's window was full
    ReceiverWindow,
    /// The sender's buffer was full of what was not acknowledged, below both windows
    SendBuffer,
    /// The congestion window, or the rate of the path
    CongestionWindow,
    /// Recovery after duplicate acknowledgements
    FastRecovery,
    /// Waiting for a retransmission timeout
    Timeout,
}

impl Limit {
    /// Each of them.
    pub const ALL: [Self; 7] = [
        Self::Setup,
        Self::Application,
        Self::ReceiverWindow,
        Self::SendBuffer,
        Self::CongestionWindow,
        Self::FastRecovery,
        Self::Timeout,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Application => "application",
            Self::ReceiverWindow => "receiver_window",
            Self::SendBuffer => "send_buffer",
            Self::CongestionWindow => "congestion_window",
            Self::FastRecovery => "fast_recovery",
            Self::Timeout => "timeout",
        }
    }
}

/// How the time of one direction was spent, in nanoseconds; together its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shares(pub [u64; Limit::ALL.len()]);

impl Shares {
    /// How long it waited for this.
    #[must_use]
    pub const fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// How long all of it took.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }
}

/// What held one direction back, with what proves it, for a sentence.
///
/// A loss counts as right after growth if more than ever since the last recovery was in flight within two round trips of
/// it. The queue is as long as what was sent before something lost waited, in the time that each segment takes to leave it:
/// from the 25th to the 75th percentile of three times at least, and only if these agree and hardly anything ever waited
/// longer. In front of links so fast that nothing waits it is as long as bursts got before their first loss, if no burst of
/// more than about twice as many ever got through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// What took most of the time
    pub limit: Option<Limit>,
    /// Segments in flight while it waited for acknowledgements, the median
    pub in_flight_segs: Option<u32>,
    /// Segments that the peer's window would have held then
    pub window_segs: Option<u32>,
    /// Segments lost
    pub lost_segs: u64,
    /// Of these, lost in bursts right after the window had grown
    pub lost_after_growth_segs: u64,
    /// How many segments a queue on the path holds, by where bursts overflow it: at least and at most
    pub queue_segs: Option<(u32, u32)>,
    /// Nothing waited in a queue on the path when segments were lost
    pub has_no_queue: bool,
    /// Retransmission timeouts
    pub timeouts: u64,
}
