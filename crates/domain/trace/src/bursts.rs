//! How far bursts of segments get before one of them is lost: how much a queue on the path holds.

use crate::spread::Spread;
use crate::unacked::Transmission;

/// Trains of segments: those that are sent at once, or nearly so.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    began_ns: u64,
    last_ns: u64,
    position: u16,
    /// Most segments in flight since losses were last recovered from, and when
    peak: u64,
    grown_ns: u64,
    /// Most segments ever in flight, how often so many were, and when they last were
    most: u64,
    most_times: u32,
    most_ns: u64,
    /// Half round trips since then in which anything was sent
    halves: u32,
    half_ns: u64,
    /// Segments in flight whenever a buffer seemed to be filled up again
    refilled_to: Spread,
    /// How often nothing was sent for long with as much in flight as ever
    stays: u32,
    lost_at: Spread,
    /// How far into trains segments were that arrived
    passed_at: Spread,
}

impl Bursts {
    /// New data is sent behind `flight` segments; gives how many of its train are before it.
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
            (self.most, self.most_times, self.halves) = (flight, 0, 0);
        }
        if now_ns.saturating_sub(self.half_ns) > round_trip_ns / 2 {
            (self.halves, self.half_ns) = (self.halves.saturating_add(1), now_ns);
        }
        let is_held_by_window = window.is_some_and(|window| window < flight + flight / 4);
        if flight >= self.most - self.most / SLACK
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

    /// This was lost; gives whether more than ever was in flight about then. Of a burst, those before it have filled the
    /// queue.
    pub(crate) fn lose(&mut self, original: &Transmission, round_trip_ns: u64, is_one_of_many: bool) -> bool {
        if !is_one_of_many && original.position() != Transmission::ENDLESS {
            self.lost_at.add(u64::from(original.position()), 1);
        }
        self.grown_ns.abs_diff(original.time_ns) <= 2 * round_trip_ns
    }

    /// Something arrived that was sent once, so far into its train.
    pub(crate) fn arrive(&mut self, position: u16) {
        if position > 0 {
            self.passed_at.add(u64::from(position), 1);
        }
    }

    /// All that was lost has arrived: what is in flight now is what it grows from.
    pub(crate) fn recovered(&mut self, flight: u64) {
        self.peak = flight;
    }

    /// Whether so many segments in flight are not much less than ever: no smaller buffer was full before, and buffers do
    /// not shrink much.
    pub(crate) fn is_full(&self, flight: u64) -> bool {
        3 * flight >= 2 * self.most
    }

    /// Whether so many segments in flight are about as many as there were since the last loss, and these have not become
    /// more for so long.
    pub(crate) fn is_level(&self, now_ns: u64, flight: u64, long_ns: u64) -> bool {
        3 * flight >= self.peak && now_ns.saturating_sub(self.grown_ns) > long_ns
    }

    /// Nothing was sent for long, with as much in flight as before and no reason for it in any window.
    pub(crate) fn stay(&mut self) {
        self.stays = self.stays.saturating_add(1);
    }

    /// What was in flight sank by a third or more, and is that much again at once.
    pub(crate) fn refill(&mut self, flight: u64) {
        self.refilled_to.add(flight, 1);
    }

    /// Whether so many segments in flight are clearly more than ever; a plateau has to be left by more.
    pub(crate) fn has_grown(&self, flight: u64) -> bool {
        let is_plateau = u64::from(self.most_times) > PLATEAU_TIMES;
        let slack = if is_plateau { SLACK } else { 2 * SLACK };
        flight > self.most + self.most / slack
    }

    /// Whether the same number in flight was reached again and again, and not because more was lost, nor because the
    /// window allowed no more: something of the sender's own ends there. What a congestion window probed for in the
    /// beginning, and never again, is nothing like that.
    pub(crate) fn has_plateau(&self, losses: u64) -> bool {
        let is_often = |times: u64| times > PLATEAU_TIMES.max(4 * losses);
        let refilled_to = |percent| self.refilled_to.percentile(percent).unwrap_or(0);
        let is_same = 2 * refilled_to(75) <= 3 * refilled_to(25);
        is_often(self.refilled_to.count()) && is_same
            || is_often(self.stays.into())
            || is_often(self.most_times.into()) && PLATEAU_EVERY * self.most_times >= self.halves
    }

    /// How many segments a queue in front of a fast link holds, at least and at most: if bursts are lost after about as
    /// many, and none much longer got through.
    pub(crate) fn queue(&self) -> Option<(u32, u32)> {
        if self.lost_at.count() < SAMPLES_MIN {
            return None;
        }
        let low = u32::try_from(self.lost_at.percentile(10)?).ok()?;
        let high = u32::try_from(self.lost_at.percentile(90)?).ok()?;
        // While a burst comes, some of it leaves the queue; but what lets much longer ones through overflows elsewhere.
        let got_through = self.passed_at.percentile(100).unwrap_or(0);
        let is_end = got_through <= 2 * u64::from(high) + 2;
        // The first of a burst may be on its way out while the rest queues.
        (low > 0 && high <= 3 * low + 2 && is_end).then_some((low.saturating_sub(1).max(1), high))
    }

    /// Whether bursts are lost anywhere, also at their very beginning, as far as there are any.
    pub(crate) fn is_lost_anywhere(&self) -> bool {
        self.lost_at.percentile(25).is_none_or(|position| position <= 1)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.lost_at.heap_bytes() + self.passed_at.heap_bytes() + self.refilled_to.heap_bytes()
    }
}

/// Segments without such a pause between them are one train; network cards and schedulers make shorter ones.
const PAUSE_NS: u64 = 50_000;

/// Flights that differ by one part in so many are the same: the last write may go beyond a buffer's end.
const SLACK: u64 = 8;

/// Reaching the same number in flight so often is no chance.
const PLATEAU_TIMES: u64 = 3;

/// Where a buffer ends, the same number is reached once in so many half round trips at least.
const PLATEAU_EVERY: u32 = 6;

/// Losses that are needed for an opinion on a queue.
const SAMPLES_MIN: u64 = 4;
