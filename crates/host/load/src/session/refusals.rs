//! Counts of what `bench serve` refused, and log lines about it. `acceptor.rs` counts each refusal here; the
//! first of each reason is a line, further ones are merged per interval, so that no client can flood the log.

use std::time::{Duration, Instant};

/// Why a connection or datagram was refused before it became a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It made room for newer connections.
    Evicted,
    /// Its request was not complete in time.
    TimedOut,
    /// It speaks another protocol, or breaks this one.
    Foreign,
    /// It speaks another version.
    Version,
    /// It does not know the secret.
    Secret,
    /// A limit did not allow its test.
    Full,
    /// It brought data for no test of its own.
    Data,
}

/// Counts by reason. The first refusal of each reason is a line of its own; more of them are one line per interval.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: [Count; REASONS.len()],
    summed_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    total: u64,
    /// Those that no line has mentioned.
    unmentioned: u64,
    mentioned_at: Option<Instant>,
}

impl Refusals {
    /// Counts a refusal. Returns whether it is to be logged by itself.
    pub(super) fn count(&mut self, reason: Reason, now: Instant) -> bool {
        let Some(at) = REASONS.iter().position(|(known, _)| *known == reason) else {
            return false;
        };
        let count = &mut self.counts[at];
        count.total += 1;
        let is_recent = count
            .mentioned_at
            .is_some_and(|at| now.saturating_duration_since(at) < INTERVAL);
        if is_recent {
            count.unmentioned += 1;
            self.summed_at.get_or_insert(now);
        } else {
            count.mentioned_at = Some(now);
        }
        !is_recent
    }

    /// Returns a line about refusals that were not logged by themselves, if one is due.
    pub(super) fn summary(&mut self, now: Instant, is_last: bool) -> Option<String> {
        let since = self.summed_at?;
        if !is_last && now.saturating_duration_since(since) < INTERVAL {
            return None;
        }
        self.summed_at = None;
        let mut parts = Vec::new();
        for (count, (_, text)) in self.counts.iter_mut().zip(REASONS) {
            if count.unmentioned > 0 {
                count.unmentioned = 0;
                count.mentioned_at = Some(now);
                parts.push(format!("{} {text}", count.total));
            }
        }
        Some(format!("refused since the start: {}", parts.join(", ")))
    }
}

/// Time between two lines about the same reason.
const INTERVAL: Duration = Duration::from_secs(10);

const REASONS: [(Reason, &str); 7] = [
    (Reason::Evicted, "made room for newer connections"),
    (Reason::TimedOut, "sent no request in time"),
    (Reason::Foreign, "spoke another protocol"),
    (Reason::Version, "spoke another version"),
    (Reason::Secret, "did not know the secret"),
    (Reason::Full, "were refused by a limit"),
    (Reason::Data, "brought data for no test of theirs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_are_one_line_per_interval() {
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        assert!(refusals.count(Reason::Secret, begun));
        assert_eq!(refusals.summary(begun + INTERVAL, false), None);
        for _ in 0..1000 {
            assert!(!refusals.count(Reason::Secret, begun));
        }
        assert!(refusals.count(Reason::Evicted, begun));
        assert_eq!(refusals.summary(begun, false), None);
        let line = refusals.summary(begun + INTERVAL, false).unwrap();
        assert_eq!(line, "refused since the start: 1001 did not know the secret");
        assert_eq!(refusals.summary(begun + INTERVAL * 2, true), None);
        assert!(refusals.count(Reason::Secret, begun + INTERVAL * 2));
    }
}
