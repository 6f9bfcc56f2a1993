//! Times without samples, and why: by the clocks of the samples before and after.

/// The clocks at a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleClocks {
    /// Milliseconds since 1970, by the clock that can be set.
    pub at_ms: u64,
    /// Milliseconds since the boot, without times in which the host was suspended.
    pub monotonic_ms: u64,
    /// Milliseconds since the boot, with them.
    pub boottime_ms: u64,
    /// The boot; `None` if it is unknown.
    pub boot_id: Option<String>,
}

/// Why there is no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// Nothing recorded.
    NotRunning,
    /// The host was started again.
    Reboot,
    /// The host was suspended.
    Suspended,
    /// The clock was set.
    TimeJump,
    /// Samples could not be read.
    NotRead,
    /// Samples could not be written: the disk or the store is full.
    NotWritten,
    /// Reading took longer than the interval.
    Late,
}

impl GapReason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::NotRunning,
        Self::Reboot,
        Self::Suspended,
        Self::TimeJump,
        Self::NotRead,
        Self::NotWritten,
        Self::Late,
    ];

    /// The name, as in the store and in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotRunning => "not-running",
            Self::Reboot => "reboot",
            Self::Suspended => "suspended",
            Self::TimeJump => "time-jump",
            Self::NotRead => "not-read",
            Self::NotWritten => "not-written",
            Self::Late => "late",
        }
    }

    /// Returns the reason with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// A time without samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Time of the last sample before it, in milliseconds since 1970.
    pub from_ms: u64,
    /// Time of the first sample after it: earlier than `from_ms` if the clock was set back.
    pub to_ms: u64,
    /// Why.
    pub reason: GapReason,
}

impl Gap {
    /// Whether no difference may span it: what was transferred in it would count as that of a minute.
    #[must_use]
    pub fn separates(&self, interval_ms: u64) -> bool {
        let is_short = self.to_ms.saturating_sub(self.from_ms) < LATE_MS_MAX.max(3 * interval_ms);
        self.reason != GapReason::Late || !is_short
    }
}

/// Returns the gap between two samples; `None` if the second came when it was due. `is_same_run`: whether the same process took both;
/// `interval_ms`: between samples.
#[must_use]
pub fn gap_between(
    before: &SampleClocks,
    after: &SampleClocks,
    is_same_run: bool,
    interval_ms: u64,
) -> Option<Gap> {
    let gap = |reason| {
        Some(Gap {
            from_ms: before.at_ms,
            to_ms: after.at_ms,
            reason,
        })
    };
    // A little late is no gap: the sample before may have been early.
    let due_ms = interval_ms + interval_ms / 2;
    if before.boot_id != after.boot_id {
        return gap(GapReason::Reboot);
    }
    let ran_ms = after.monotonic_ms.saturating_sub(before.monotonic_ms);
    let passed_ms = after.boottime_ms.saturating_sub(before.boottime_ms);
    let by_clock_ms = after.at_ms as i64 - before.at_ms as i64;
    if passed_ms.saturating_sub(ran_ms) > JUMP_MS {
        return gap(GapReason::Suspended);
    }
    if (by_clock_ms - passed_ms as i64).unsigned_abs() > JUMP_MS {
        return gap(GapReason::TimeJump);
    }
    if passed_ms <= due_ms {
        return None;
    }
    gap(if is_same_run {
        GapReason::Late
    } else {
        GapReason::NotRunning
    })
}

/// Differences of clocks up to this are drift and the time between readings.
const JUMP_MS: u64 = 2_000;

/// A sample that is later than this, and than three intervals, is not compared with the one before.
const LATE_MS_MAX: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(at_ms: u64, monotonic_ms: u64, boottime_ms: u64) -> SampleClocks {
        SampleClocks {
            at_ms,
            monotonic_ms,
            boottime_ms,
            boot_id: Some("a".to_owned()),
        }
    }

    #[track_caller]
    fn check(after: SampleClocks, is_same_run: bool, expected: Option<GapReason>) {
        let before = clocks(1_000_000, 5_000, 5_000);
        let gap = gap_between(&before, &after, is_same_run, 10_000);
        assert_eq!(gap.map(|gap| gap.reason), expected);
    }

    #[test]
    fn clocks_give_the_reason() {
        check(clocks(1_010_000, 15_000, 15_000), true, None);
        check(clocks(1_010_000, 15_000, 15_000), false, None);
        check(clocks(1_015_001, 20_001, 20_001), true, Some(GapReason::Late));
        check(
            clocks(1_030_000, 35_000, 35_000),
            false,
            Some(GapReason::NotRunning),
        );
        check(
            clocks(1_300_000, 15_000, 305_000),
            true,
            Some(GapReason::Suspended),
        );
        check(clocks(4_610_000, 15_000, 15_000), true, Some(GapReason::TimeJump));
        check(clocks(910_000, 15_000, 15_000), true, Some(GapReason::TimeJump));
        let rebooted = SampleClocks {
            boot_id: Some("b".to_owned()),
            ..clocks(1_030_000, 1_000, 1_000)
        };
        check(rebooted, false, Some(GapReason::Reboot));
    }

    #[test]
    fn late_samples_are_compared_up_to_a_minute() {
        let check = |reason, ms: u64, interval_ms, expected| {
            let gap = Gap {
                from_ms: 1_000,
                to_ms: 1_000 + ms,
                reason,
            };
            assert_eq!(gap.separates(interval_ms), expected);
        };
        check(GapReason::Late, 59_999, 10_000, false);
        check(GapReason::Late, 60_000, 10_000, true);
        check(GapReason::Late, 89_999, 30_000, false);
        check(GapReason::Reboot, 1, 10_000, true);
    }

    #[test]
    fn names_are_read_back() {
        for reason in GapReason::ALL {
            assert_eq!(GapReason::from_name(reason.name()), Some(reason));
        }
        assert_eq!(GapReason::from_name(""), None);
    }
}
