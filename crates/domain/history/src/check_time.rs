//! When a recorder looked for findings: without this, no finding and no look would be the same.

/// A check that was made, and judged what it could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckTime {
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Time until the next one is due.
    pub interval_ms: u64,
    /// Number of its findings.
    pub findings: u64,
    /// Name of the highest severity; `None` without findings.
    pub worst: Option<String>,
}

impl CheckTime {
    /// Returns until when it answers, in milliseconds since 1970: a check comes with the next sample after it is due, and may be late.
    #[must_use]
    pub const fn until_ms(&self) -> u64 {
        self.at_ms.saturating_add(self.interval_ms.saturating_mul(2))
    }

    /// Whether it is the one that answers for a time, if no later one does.
    #[must_use]
    pub const fn answers(&self, at_ms: u64) -> bool {
        self.at_ms <= at_ms && at_ms < self.until_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::CheckTime;

    #[test]
    fn check_answers_until_the_next_one_is_missing() {
        let check = CheckTime {
            at_ms: 1_000,
            interval_ms: 60_000,
            findings: 0,
            worst: None,
        };
        let answers = [999, 1_000, 61_000, 120_999, 121_000].map(|at_ms| check.answers(at_ms));
        assert_eq!(answers, [false, true, true, true, false]);
    }
}
