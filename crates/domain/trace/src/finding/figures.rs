//! Figures of a connection that follow from its others.

use super::MUCH_DATA;
use crate::{Connection, Direction, Ending, IcmpReport, Limit, Shares, Side, Turn, Vantage};
use sockeye_wire::packet::IcmpKind;

impl Side {
    /// What bounded most round trips, and the time of these: the receiver's window, or a send buffer. `None` if neither did, or if
    /// losses did.
    #[must_use]
    pub fn bound_limit(&self) -> Option<(Limit, u64)> {
        let of = |limit| self.shares.of(limit);
        let idle_ns = of(Limit::Application).saturating_add(of(Limit::Setup));
        let busy_ns = self.shares.total().saturating_sub(idle_ns);
        let bound = &self.bound;
        if self.judgements.lost > 0 || self.judgements.timeouts > 0 {
            None
        } else if bound.window_ns >= (busy_ns / 2).max(BOUND_NS_MIN) && bound.window_rounds >= ROUNDS_MIN {
            Some((Limit::ReceiverWindow, bound.window_ns))
        } else if bound.buffer_ns >= (busy_ns / 2).max(BOUND_NS_MIN)
            && of(Limit::SendBuffer) >= busy_ns / 6
            && idle_ns <= busy_ns
            && self.is_flat()
        {
            Some((Limit::SendBuffer, bound.buffer_ns.min(busy_ns)))
        } else {
            None
        }
    }

    /// Whether round trips hardly exceed the shortest one: nothing waits in a queue.
    const fn is_flat(&self) -> bool {
        if matches!(self.vantage, Vantage::Receiver) {
            return self.variation.one_way.p50_ns <= FLAT_NS;
        }
        self.rtt.p50_ns <= self.rtt.min_ns.saturating_add(self.rtt.min_ns / 2)
    }

    /// Time by limiting factor, with whole round trips: what bounded most of them has the time of these, which is taken from the
    /// congestion window.
    #[must_use]
    pub fn whole_shares(&self) -> Shares {
        let mut shares = self.shares;
        if let Some((limit, bound_ns)) = self.bound_limit() {
            let more_ns = bound_ns
                .saturating_sub(shares.of(limit))
                .min(shares.of(Limit::CongestionWindow));
            shares.0[limit as usize] += more_ns;
            shares.0[Limit::CongestionWindow as usize] -= more_ns;
        }
        shares
    }
}

impl Connection {
    /// Figures of this direction.
    #[must_use]
    pub const fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Duration, in nanoseconds.
    #[must_use]
    pub const fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// The direction with most data; if both have much, the one that was limited for longer.
    #[must_use]
    pub fn main_direction(&self) -> Direction {
        let has_more = self.forward.bytes >= self.backward.bytes;
        let limited_ns = |side: &Side| {
            let free_ns = side.shares.of(Limit::Application) + side.shares.of(Limit::Setup);
            side.shares.total().saturating_sub(free_ns)
        };
        let (forward_ns, backward_ns) = (limited_ns(&self.forward), limited_ns(&self.backward));
        let is_clear = forward_ns.max(backward_ns) / 4 * 3 > forward_ns.min(backward_ns);
        let is_forward = if self.carries_both() && is_clear {
            forward_ns > backward_ns
        } else {
            has_more
        };
        if is_forward {
            Direction::Forward
        } else {
            Direction::Backward
        }
    }

    /// Whether both directions carry much data.
    #[must_use]
    pub const fn carries_both(&self) -> bool {
        let (forward, backward) = (self.forward.bytes, self.backward.bytes);
        let (less, more) = if forward < backward {
            (forward, backward)
        } else {
            (backward, forward)
        };
        less >= MUCH_DATA && less >= more / 4
    }

    /// The shortest round trip of the whole path, in nanoseconds; 0 if unknown. The handshake may be slower on a busy
    /// machine.
    #[must_use]
    pub fn round_trip_ns(&self) -> u64 {
        let (there, back) = (&self.forward.rtt, &self.backward.rtt);
        let both_ns = (there.count > 0 && back.count > 0).then(|| there.min_ns.saturating_add(back.min_ns));
        match (self.handshake_ns, both_ns) {
            (Some(handshake_ns), Some(both_ns)) => handshake_ns.min(both_ns),
            (one, other) => one.or(other).unwrap_or(0),
        }
    }

    /// Time in which the client wanted nothing, in nanoseconds: before its first request, and between an answer and the
    /// next request.
    #[must_use]
    pub fn client_idle_ns(&self) -> u64 {
        let times = &self.exchanges.times;
        let before_ns = if self.exchanges.is_server_first {
            0
        } else {
            times.of(Turn::BeforeFirst)
        };
        before_ns.saturating_add(times.of(Turn::ClientThinks))
    }

    /// Timeouts of data in this direction; those of SYNs are counted elsewhere.
    #[must_use]
    pub fn data_timeouts(&self, direction: Direction) -> u64 {
        let syns = match direction {
            Direction::Forward => self.syns,
            Direction::Backward => self.syn_acks,
        };
        let again = u64::from(syns.saturating_sub(1));
        self.side(direction).judgements.timeouts.saturating_sub(again)
    }

    /// The first ICMP error that says that packets are not delivered, whatever their size.
    #[must_use]
    pub fn undelivered(&self) -> Option<&IcmpReport> {
        self.icmp
            .iter()
            .find(|report| !matches!(report.kind, IcmpKind::TooBig | IcmpKind::Other))
    }

    /// Whether segments of the direction that this ICMP error is about were acknowledged after it.
    #[must_use]
    pub fn is_delivered_after(&self, report: &IcmpReport) -> bool {
        let is_connected = !matches!(self.ending, Ending::Unanswered | Ending::Refused);
        let is_at_end = matches!(self.ending, Ending::ServerVanished | Ending::ClientVanished);
        is_connected
            && !is_at_end
            && self.forward.bytes + self.backward.bytes > 0
            && report.time_ns < self.end_ns
    }

    /// The ICMP error about the size of packets in this direction.
    #[must_use]
    pub fn too_big(&self, direction: Direction) -> Option<&IcmpReport> {
        self.icmp
            .iter()
            .find(|report| report.kind == IcmpKind::TooBig && report.direction == direction)
    }
}

/// Fewer round trips at the window's end are those of the beginning.
const ROUNDS_MIN: u64 = 5;

/// Delays from the sender to the capture that vary by less: no queue.
const FLAT_NS: u64 = 5_000_000;

/// A limit that takes less is not noticed.
const BOUND_NS_MIN: u64 = 10_000_000;
