//! Round trips that ended at the receiver's window, and cycles of a full send buffer.
//!
//! A sender that paces, or a receiver that opens its window in steps, hides a limit from the moments: the window is full only at
//! the end of each round trip. What each round trip reached shows it.

/// Time of a direction by what bounded its round trips, in nanoseconds. Unlike [`Shares`](crate::Shares), the whole round trip counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BoundTimes {
    /// Round trips
    pub rounds: u64,
    /// Of these, with as much in flight as the receiver's window allowed
    pub window_rounds: u64,
    /// Time of these, and with a closed window
    pub window_ns: u64,
    /// Time in which a send buffer was full and drained in turn
    pub buffer_ns: u64,
    /// The largest window that was advertised with acknowledgements, in bytes
    pub window_max_bytes: u32,
    /// Whether the window shrank to less than half again and again: the receiver's program reads late
    pub is_window_uneven: bool,
}

/// The running round trip of one direction, and the time of those before it.
#[derive(Debug, Default)]
pub(crate) struct BoundTracker {
    /// End of the data whose acknowledgement ends the round trip, and when it began
    running: Option<(u64, u64)>,
    has_reached_window: bool,
    times: BoundTimes,
    /// Advertised windows of acknowledgements of new data: the largest, and how many were not half as large
    window_max: u32,
    acks: u64,
    small_acks: u64,
}

impl BoundTracker {
    /// Records new data up to `high`; `is_window_full`: less than a segment more fits.
    pub(crate) fn send(&mut self, now_ns: u64, high: u64, is_window_full: bool) {
        self.running.get_or_insert((high, now_ns));
        self.has_reached_window |= is_window_full;
    }

    /// Records an acknowledgement up to `acked` of data up to `high`, with this window.
    pub(crate) fn acknowledge(&mut self, now_ns: u64, acked: u64, high: u64, window: Option<u32>) {
        if let Some(window) = window {
            if window > self.window_max {
                // Smaller windows before were those of the beginning.
                (self.window_max, self.acks, self.small_acks) = (window, 0, 0);
            }
            self.acks += 1;
            self.small_acks += u64::from(window < self.window_max / 2);
        }
        let Some((until, began_ns)) = self.running.filter(|(until, _)| acked >= *until) else {
            return;
        };
        let lasted_ns = now_ns.saturating_sub(began_ns);
        self.times.rounds += 1;
        if self.has_reached_window {
            self.times.window_rounds += 1;
            self.times.window_ns = self.times.window_ns.saturating_add(lasted_ns);
        }
        self.has_reached_window = false;
        self.running = (high > acked).then_some((high.max(until), now_ns));
    }

    /// Records time in which nothing was in flight and the window was closed.
    pub(crate) fn wait_for_window(&mut self, ns: u64) {
        if self.running.is_none() {
            self.times.window_ns = self.times.window_ns.saturating_add(ns);
        }
    }

    /// Records a cycle of a send buffer: full, drained, and filled again.
    pub(crate) fn cycle_buffer(&mut self, ns: u64) {
        self.times.buffer_ns = self.times.buffer_ns.saturating_add(ns);
    }

    /// The times. `has_full_buffer`: the flight shows that the cycles are those of a send buffer.
    pub(crate) fn times(&self, has_full_buffer: bool) -> BoundTimes {
        BoundTimes {
            buffer_ns: if has_full_buffer { self.times.buffer_ns } else { 0 },
            window_max_bytes: self.window_max,
            is_window_uneven: SMALL_EVERY * self.small_acks >= self.acks && self.small_acks >= SMALL_ACKS_MIN,
            ..self.times
        }
    }
}

/// With one acknowledgement in so many, the window shrinks again and again: the program does not read at once.
const SMALL_EVERY: u64 = 8;
const SMALL_ACKS_MIN: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn round_trips_that_reach_the_window_count() {
        let mut bound = BoundTracker::default();
        for round in 0..10 {
            let (at_ns, high) = (round * 20 * MS, (round + 1) * 3_000);
            bound.send(at_ns, high - 2_000, false);
            bound.send(at_ns + MS, high - 1_000, false);
            bound.send(at_ns + 2 * MS, high, round >= 4);
            bound.acknowledge(at_ns + 18 * MS, high, high, Some(8_000));
        }
        let times = bound.times(false);
        assert_eq!((times.rounds, times.window_rounds), (10, 6));
        assert_eq!((times.window_ns, times.is_window_uneven), (6 * 18 * MS, false));
    }

    #[test]
    fn shrinking_window_is_uneven() {
        let mut bound = BoundTracker::default();
        for ack in 0..40 {
            bound.acknowledge(ack, ack, ack, Some(if ack % 2 == 0 { 20_000 } else { 8_000 }));
        }
        assert!(bound.times(true).is_window_uneven);
    }
}
