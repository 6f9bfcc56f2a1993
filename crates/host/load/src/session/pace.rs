//! How many bytes a running test moves per second: where a limit is reached, the slowest one makes room.

use super::limits::{RATE_GRACE, RATE_MIN};
use std::time::{Duration, Instant};

/// Bytes that a test has moved, and its rate over the last seconds.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    began: Instant,
    /// Since when nothing has moved.
    moved_at: Instant,
    /// The counter of the test when it was recorded last.
    counter: u64,
    /// Bytes since the start.
    total: u64,
    /// Starts of the current and the next window: when, and the bytes until then.
    windows: [(Instant, u64); 2],
}

impl Pace {
    /// Begins to measure.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            began: now,
            moved_at: now,
            counter: 0,
            total: 0,
            windows: [(now, 0); 2],
        }
    }

    /// Records the test's counter of moved bytes.
    pub fn record(&mut self, counter: u64, now: Instant) {
        // A counter begins anew after an omitted time.
        let more = counter.checked_sub(self.counter).unwrap_or(counter);
        if more > 0 {
            self.moved_at = now;
        }
        self.counter = counter;
        self.total = self.total.saturating_add(more);
        if now.saturating_duration_since(self.windows[1].0) >= WINDOW {
            self.windows = [self.windows[1], (now, self.total)];
        }
    }

    /// Returns bytes per second since the start, or over the last window or two.
    #[must_use]
    pub fn rate(&self, now: Instant) -> u64 {
        let (since, before) = self.windows[0];
        let span = now.saturating_duration_since(since).max(RATE_GRACE);
        ((self.total - before) as f64 / span.as_secs_f64()) as u64
    }

    /// Returns whether the test is too slow to keep a place that another one needs. `places` is the number of shares
    /// of a limit that it has.
    #[must_use]
    pub fn is_slow(&self, now: Instant, places: u64) -> bool {
        now.saturating_duration_since(self.began) >= RATE_GRACE
            && self.rate(now) < RATE_MIN.saturating_mul(places)
    }

    /// Returns since when nothing has moved, as a duration.
    #[must_use]
    pub fn still_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.moved_at)
    }

    /// Returns for how long nothing has moved; `None` if something has since the start.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Option<Duration> {
        (self.total == 0).then(|| now.saturating_duration_since(self.began))
    }
}

/// Long enough that a test at speed outlives a stall of the network.
const WINDOW: Duration = Duration::from_millis(2500);

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that has moved `bytes` each 100 ms for this many seconds.
    fn pace(bytes: u64, seconds: u64) -> (Pace, Instant) {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        let mut now = began;
        for step in 1..=seconds * 10 {
            now = began + Duration::from_millis(step * 100);
            pace.record(bytes * step, now);
        }
        (pace, now)
    }

    #[test]
    fn rate_below_the_minimum_is_slow_after_a_second() {
        let (trickle, now) = pace(1, 7);
        assert!(trickle.is_slow(now, 1));
        assert_eq!(trickle.rate(now), 10);
        let (fast, now) = pace(RATE_MIN / 5, 7);
        assert!(!fast.is_slow(now, 1));
        assert!(fast.is_slow(now, 3), "for three places it is slow");
        // It outlives a stall of a second, but not of many.
        assert!(!fast.is_slow(now + Duration::from_secs(1), 1));
        assert!(fast.is_slow(now + Duration::from_secs(9), 1));
        let young = Pace::new(now);
        assert!(!young.is_slow(now + RATE_GRACE / 2, 1));
        assert!(young.is_slow(now + RATE_GRACE, 1));
    }

    #[test]
    fn counter_that_begins_anew_is_no_stall() {
        let (mut fast, now) = pace(RATE_MIN, 4);
        let now = now + Duration::from_millis(100);
        fast.record(RATE_MIN / 10, now);
        assert!(!fast.is_slow(now, 1));
        assert_eq!(fast.silence(now), None);
    }
}
