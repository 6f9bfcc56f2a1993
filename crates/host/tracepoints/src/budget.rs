//! How much of a processor watching may take, and how many events are left out to keep to it.

use std::time::{Duration, Instant};

/// Keeps the time that a program takes within a share of one processor: beyond it, only one of so many events is looked at.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Millionths of a processor; `None`: no bound.
    ppm_max: Option<u64>,
    every: u32,
    /// The largest `every` since [`Self::take_peak`].
    peak: u32,
    /// When the time that was taken was read, and how much it was.
    last: Option<(Instant, u64)>,
}

impl Budget {
    /// A budget in millionths of a processor; `None`: each event is looked at, whatever it takes.
    #[must_use]
    pub const fn new(ppm_max: Option<u64>) -> Self {
        Self {
            ppm_max,
            every: 1,
            peak: 1,
            last: None,
        }
    }

    /// How long at most until [`Self::adapt`] is to be called again.
    pub const INTERVAL: Duration = Duration::from_millis(200);

    /// Takes how many nanoseconds the program has taken until now. Returns of how many events one is to be looked at, if that changes.
    pub fn adapt(&mut self, spent_ns: u64, now: Instant) -> Option<u32> {
        let ppm_max = self.ppm_max?;
        let Some((at, spent)) = self.last else {
            self.last = Some((now, spent_ns));
            return None;
        };
        let wall_ns = now.saturating_duration_since(at).as_nanos();
        if wall_ns < SHORTEST.as_nanos() {
            return None;
        }
        self.last = Some((now, spent_ns));
        let ppm = u128::from(spent_ns.saturating_sub(spent)) * 1_000_000 / wall_ns;
        let next = next(self.every, u64::try_from(ppm).unwrap_or(u64::MAX), ppm_max);
        if next == self.every {
            return None;
        }
        self.every = next;
        self.peak = self.peak.max(next);
        Some(next)
    }

    /// Returns the largest number since the last call of which one was looked at: 1 if each was.
    pub const fn take_peak(&mut self) -> u32 {
        let peak = self.peak;
        self.peak = self.every;
        peak
    }
}

/// Returns of how many events one is to be looked at, if one of `every` took `ppm` and `ppm_max` are allowed. It goes down slowly, so that
/// it does not change at each look.
fn next(every: u32, ppm: u64, ppm_max: u64) -> u32 {
    let all = u64::from(every).saturating_mul(ppm);
    if ppm > ppm_max {
        let needed = all.div_ceil(ppm_max.max(1)).max(u64::from(every) + 1);
        u32::try_from(needed).unwrap_or(EVERY_MAX).min(EVERY_MAX)
    } else if ppm < ppm_max / 2 {
        (every / 2).max(1)
    } else {
        every
    }
}

/// The shortest time that says something.
const SHORTEST: Duration = Duration::from_millis(50);
/// At most so many events are left out for one that is looked at.
const EVERY_MAX: u32 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_grows_as_far_as_needed_and_halves() {
        // 20 % where 5 % are allowed: a quarter.
        assert_eq!(next(1, 200_000, 50_000), 4);
        assert_eq!(next(4, 60_000, 50_000), 5);
        assert_eq!(next(4, 40_000, 50_000), 4);
        assert_eq!(next(4, 10_000, 50_000), 2);
        assert_eq!(next(1, 0, 50_000), 1);
        assert_eq!(next(1, u64::MAX, 0), EVERY_MAX);
        assert_eq!(next(EVERY_MAX, u64::MAX, 1), EVERY_MAX);
    }

    #[test]
    fn budget_compares_two_readings() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut budget = Budget::new(Some(50_000));
        assert_eq!(budget.adapt(1_000_000, at(0)), None);
        assert_eq!(budget.adapt(1_000_000_000, at(1)), None, "too short");
        assert_eq!(budget.adapt(21_000_000, at(100)), Some(4));
        assert_eq!(budget.adapt(21_000_000, at(200)), Some(2));
        assert_eq!(budget.take_peak(), 4);
        assert_eq!(budget.take_peak(), 2);
        assert_eq!(Budget::new(None).adapt(u64::MAX, at(900)), None);
    }
}
