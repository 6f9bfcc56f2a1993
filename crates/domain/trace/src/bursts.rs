//! Trains of segments and their losses: how many segments a queue on the path holds.

use crate::histogram::Histogram;
use crate::unacked::Transmission;

/// Statistics of segment trains: segments sent at once, or nearly so.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    began_ns: u64,
    last_ns: u64,
    position: u16,
    /// Most segments in flight since the last recovery, and when
    peak: u64,
    grown_ns: u64,
    /// Most segments ever in flight, how often that number was reached, and when last
    most: u64,
    most_times: u32,
    most_ns: u64,
    /// Half round trips since then in which data was sent
    half_round_trips: u32,
    half_ns: u64,
    /// Segments in flight whenever a send buffer seemed to be refilled
    refilled_to: Histogram,
    /// Number of long pauses with as much in flight as ever
    long_pauses: u32,
    lost_at: Histogram,
    /// Positions in their trains of segments that arrived
    passed_at: Histogram,
}

impl Bursts {
    /// Records new data sent behind `flight` segments; returns the number of earlier segments in its train.
    pub(crate) fn send(
        &mut self,
        now_ns: u64,
        segs: u32,
        flight: u64,
        window: Option<u64>,
        round_trip_ns: u64,
    ) -> u16 {
        let pause_ns = (round_trip_ns / 8).max(PAUSE_NS);
        if now_ns.saturating_sub(self.last_ns) > pause_ns {
            (self.began_ns, self.position) = (now_ns, 0);
        }
        self.last_ns = now_ns;
        let is_endless = now_ns.saturating_sub(self.began_ns) > (round_trip_ns / 4).max(PAUSE_NS);
        let position = if is_endless {
            Transmission::ENDLESS
        } else {
            self.position.min(Transmission::ENDLESS - 1)
        };
        self.position = self
            .position
            .saturating_add(u16::try_from(segs).unwrap_or(u16::MAX));
        let flight = flight + u64::from(segs);
        if self.has_grown(flight) {
            (self.most, self.most_times, self.half_round_trips) = (flight, 0, 0);
        }
        if now_ns.saturating_sub(self.half_ns) > round_trip_ns / 2 {
            (self.half_round_trips, self.half_ns) = (self.half_round_trips.saturating_add(1), now_ns);
        }
        let is_held_by_window = window.is_some_and(|window| window < flight + flight / 4);
        if flight >= self.most - self.most / FLIGHT_TOLERANCE
            && !is_held_by_window
            && now_ns.saturating_sub(self.most_ns) > round_trip_ns / 2
        {
            (self.most_times, self.most_ns) = (self.most_times.saturating_add(1), now_ns);
        }
        if flight > self.peak {
            (self.peak, self.grown_ns) = (flight, now_ns);
        }
        position
    }

    /// Records a loss; returns whether a new maximum was in flight about then. The earlier segments of a
    /// burst have filled the queue.
    pub(crate) fn lose(&mut self, original: &Transmission, round_trip_ns: u64, is_one_of_many: bool) -> bool {
        if !is_one_of_many && original.position() != Transmission::ENDLESS {
            self.lost_at.add(u64::from(original.position()), 1);
        }
        self.grown_ns.abs_diff(original.time_ns) <= 2 * round_trip_ns
    }

    /// Records the arrival of a segment that was sent once, at this position in its train.
    pub(crate) fn arrive(&mut self, position: u16) {
        if position > 0 {
            self.passed_at.add(u64::from(position), 1);
        }
    }

    /// Records that all losses are recovered: growth is measured from this flight.
    pub(crate) fn recovered(&mut self, flight: u64) {
        self.peak = flight;
    }

    /// Whether this flight is not much less than the maximum: no smaller buffer was full before, and buffers
    /// do not shrink much.
    pub(crate) fn is_full(&self, flight: u64) -> bool {
        3 * flight >= 2 * self.most
    }

    /// Whether this flight is about the maximum since the last loss, and has not grown for `long_ns`.
    pub(crate) fn is_level(&self, now_ns: u64, flight: u64, long_ns: u64) -> bool {
        3 * flight >= self.peak && now_ns.saturating_sub(self.grown_ns) > long_ns
    }

    /// Records a long pause with as much in flight as before, although both windows allowed more.
    pub(crate) fn note_long_pause(&mut self) {
        self.long_pauses = self.long_pauses.saturating_add(1);
    }

    /// Records that the flight sank by a third or more and came back to that number at once.
    pub(crate) fn refill(&mut self, flight: u64) {
        self.refilled_to.add(flight, 1);
    }

    /// Whether this flight is clearly more than the maximum; a plateau has to be exceeded by more.
    pub(crate) fn has_grown(&self, flight: u64) -> bool {
        let is_plateau = u64::from(self.most_times) > PLATEAU_TIMES;
        let slack = if is_plateau {
            FLIGHT_TOLERANCE
        } else {
            2 * FLIGHT_TOLERANCE
        };
        flight > self.most + self.most / slack
    }

    /// Whether the same flight was reached repeatedly, without losses and without a window that ended there:
    /// then a buffer of the sender ends there. A congestion window that was probed once in the beginning does
    /// not count.
    pub(crate) fn has_plateau(&self, losses: u64) -> bool {
        let is_often = |times: u64| times > PLATEAU_TIMES.max(4 * losses);
        let refilled_to = |percent| self.refilled_to.percentile(percent).unwrap_or(0);
        let is_same = 2 * refilled_to(75) <= 3 * refilled_to(25);
        is_often(self.refilled_to.count()) && is_same
            || is_often(self.long_pauses.into())
            || is_often(self.most_times.into()) && PLATEAU_EVERY * self.most_times >= self.half_round_trips
    }

    /// Bounds of the number of segments that a queue in front of a fast link holds: known if bursts are lost
    /// after about the same number, and no much longer burst got through.
    pub(crate) fn queue(&self) -> Option<(u32, u32)> {
        if self.lost_at.count() < SAMPLES_MIN {
            return None;
        }
        let low = u32::try_from(self.lost_at.percentile(10)?).ok()?;
        let high = u32::try_from(self.lost_at.percentile(90)?).ok()?;
        // The queue drains while a burst arrives; but if much longer bursts got through, another queue
        // overflows.
        let got_through = self.passed_at.percentile(100).unwrap_or(0);
        let is_end = got_through <= 2 * u64::from(high) + 2;
        // The first segments of a burst may leave while the others queue.
        (low > 0 && high <= 3 * low + 2 && is_end).then_some((low.saturating_sub(1).max(1), high))
    }

    /// Whether bursts are lost at any position, also at their beginning.
    pub(crate) fn has_losses_at_any_position(&self) -> bool {
        self.lost_at.percentile(25).is_none_or(|position| position <= 1)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.lost_at.heap_bytes() + self.passed_at.heap_bytes() + self.refilled_to.heap_bytes()
    }
}

/// Segments without such a pause between them are one train; network cards and schedulers pause for less.
const PAUSE_NS: u64 = 50_000;

/// Flights that differ by less than 1/8 are equal: the last write may exceed a buffer's end.
const FLIGHT_TOLERANCE: u64 = 8;

/// Times that the same flight must be reached to be no coincidence.
const PLATEAU_TIMES: u64 = 3;

/// At the end of a buffer, the same flight is reached at least once in this many half round trips.
const PLATEAU_EVERY: u32 = 6;

/// Losses that an estimate of the queue requires.
const SAMPLES_MIN: u64 = 4;
