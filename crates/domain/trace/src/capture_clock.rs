//! The clock of a capture, which may be set while it runs.

/// Turns timestamps into times that never run backwards.
///
/// A clock that is set back by much stays there: time goes on from where it was. Where timestamps run backwards by little, or
/// again and again, segments are in the wrong order, and time stands still until it is passed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct CaptureClock {
    /// What is added to timestamps, in nanoseconds
    set_back_ns: u64,
    steps: u8,
    /// The last timestamp was earlier than the one before
    pub(crate) runs_backwards: bool,
}

impl CaptureClock {
    /// Returns the time of a segment with this timestamp, after a segment at `last_ns`.
    pub(crate) fn time(&mut self, timestamp_ns: u64, last_ns: u64) -> u64 {
        if self.set_back_ns > 0 && timestamp_ns >= last_ns {
            self.set_back_ns = 0;
        }
        let now_ns = timestamp_ns.saturating_add(self.set_back_ns);
        self.runs_backwards = now_ns < last_ns;
        if !self.runs_backwards {
            return now_ns;
        }
        let step_ns = last_ns - now_ns;
        if (STEP_NS_MIN..=STEP_NS_MAX).contains(&step_ns) && self.steps < STEPS_MAX {
            self.steps += 1;
            self.set_back_ns = self.set_back_ns.saturating_add(step_ns);
        } else if self.steps == STEPS_MAX {
            self.set_back_ns = 0;
        }
        last_ns
    }

    /// Returns the time to compare with timestamps: `timestamp_ns` after the clock was set back, `now_ns` otherwise.
    pub(crate) fn comparable(&self, timestamp_ns: u64, now_ns: u64) -> u64 {
        if self.set_back_ns > 0 {
            timestamp_ns
        } else {
            now_ns
        }
    }
}

/// Segments in the wrong order differ by less.
const STEP_NS_MIN: u64 = 100_000_000;

/// A day. Longer steps are wrong timestamps.
const STEP_NS_MAX: u64 = 86_400_000_000_000;

/// A clock that is set more often is none.
const STEPS_MAX: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn times(timestamps_ms: &[u64]) -> Vec<u64> {
        let (mut clock, mut last_ns) = (CaptureClock::default(), 0);
        let time = |ms: &u64| {
            last_ns = clock.time(ms * MS, last_ns);
            last_ns / MS
        };
        timestamps_ms.iter().map(time).collect()
    }

    #[test]
    fn time_goes_on_after_the_clock_is_set_back() {
        assert_eq!(times(&[5_000, 5_100, 3_100, 3_700]), [5_000, 5_100, 5_100, 5_700]);
    }

    #[test]
    fn swapped_segments_set_no_clock() {
        assert_eq!(times(&[5_000, 5_030, 5_010, 5_040]), [5_000, 5_030, 5_030, 5_040]);
    }

    #[test]
    fn one_wrong_timestamp_does_not_last() {
        assert_eq!(times(&[5_000, 1_000, 5_100, 5_200]), [5_000, 5_000, 5_100, 5_200]);
    }
}
