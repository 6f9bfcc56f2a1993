//! When a sample was taken, and the time between two.

use crate::context::QueryContext;
use std::time::{Duration, Instant};

/// When a sample was taken. Recorded samples are read at another time, and maybe in the same moment.
#[derive(Debug, Clone, Copy)]
pub struct SampleTime {
    read: Instant,
    /// Microseconds since 1970; `None`: it was taken when it was read.
    recorded_us: Option<u64>,
}

impl SampleTime {
    /// Returns the time of a sample that is read now.
    #[must_use]
    pub fn now(context: &QueryContext) -> Self {
        let recorded_us = context.looks_back().then(|| context.envelope().time_us);
        Self {
            read: Instant::now(),
            recorded_us,
        }
    }

    /// Returns when it was read.
    #[must_use]
    pub const fn read(&self) -> Instant {
        self.read
    }

    /// Returns the time since an earlier sample.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Duration {
        match (self.recorded_us, earlier.recorded_us) {
            (Some(later_us), Some(earlier_us)) => Duration::from_micros(later_us.saturating_sub(earlier_us)),
            _ => self.read.duration_since(earlier.read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_samples_are_apart_as_they_were_taken() {
        let read = Instant::now();
        let of = |recorded_us| SampleTime { read, recorded_us };
        let apart = of(Some(10_500_000)).since(&of(Some(500_000)));
        assert_eq!(apart, Duration::from_secs(10));
        assert_eq!(of(None).since(&of(None)), Duration::ZERO);
        // The clock was set back.
        assert_eq!(of(Some(1)).since(&of(Some(2))), Duration::ZERO);
    }
}
