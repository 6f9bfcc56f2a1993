//! Times of which nothing is known, and why.

use std::time::Duration;

/// A time without samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Its begin, in microseconds since 1970.
    pub(crate) from_us: u64,
    /// Its end.
    pub(crate) to_us: u64,
    /// Why, in words.
    pub(crate) reason: String,
}

/// Returns why there is nothing between two samples; `None`: there is no gap. `by_clock`: time between them by the clock, in
/// microseconds, negative if it was set back; `elapsed`: the same without the time in which the machine was suspended.
pub(super) fn reason(by_clock_us: i64, elapsed: Duration, interval: Duration) -> Option<String> {
    let elapsed_us = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
    let jump = Duration::from_micros(by_clock_us.abs_diff(elapsed_us));
    if jump >= JUMP_MIN {
        return Some(if by_clock_us < elapsed_us {
            format!("the clock was set back by {} s", jump.as_secs())
        } else {
            format!(
                "the machine was suspended, or its clock set forward, for {} s",
                jump.as_secs()
            )
        });
    }
    (elapsed > interval * 2 + LATE_MIN).then(|| {
        format!(
            "the samples were late: {:.1} s instead of {:.1}",
            elapsed.as_secs_f64(),
            interval.as_secs_f64()
        )
    })
}

/// How much the clocks may differ between two samples.
const JUMP_MIN: Duration = Duration::from_secs(2);
/// How late a sample may be.
const LATE_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(by_clock_ms: i64, elapsed_ms: u64, expected: Option<&str>) {
        let found = reason(
            by_clock_ms * 1000,
            Duration::from_millis(elapsed_ms),
            Duration::from_secs(2),
        );
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn gap_has_its_reason() {
        check(2000, 2000, None);
        check(4900, 4900, None);
        check(9000, 9000, Some("the samples were late: 9.0 s instead of 2.0"));
        check(
            62_000,
            2000,
            Some("the machine was suspended, or its clock set forward, for 60 s"),
        );
        check(-3_598_000, 2000, Some("the clock was set back by 3600 s"));
        check(-10, 2000, Some("the clock was set back by 2 s"));
    }
}
