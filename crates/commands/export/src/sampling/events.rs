//! What happened since the last sample, one by one: metrics have only counts of it.

use sockeye_history::{FindingRecord, Lasting};
use sockeye_query::sampling::EndedConnection;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is wanted of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventSelection {
    /// Findings that begin and that are over.
    pub(crate) findings: bool,
    /// Connections that ended, or were not established.
    pub(crate) ended: bool,
}

/// What happened since the last sample.
#[derive(Debug, Default)]
pub(crate) struct HostEvents {
    pub(crate) findings: Vec<FindingEvent>,
    pub(crate) ended: Vec<EndedConnection>,
}

/// A finding that began or is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FindingEvent {
    pub(crate) finding: FindingRecord,
    pub(crate) change: FindingChange,
    /// When it was noticed, in microseconds since 1970.
    pub(crate) time_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FindingChange {
    Began,
    /// It is there, and its severity is another one.
    Changed,
    Over,
}

impl FindingChange {
    /// Returns its word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Changed => "changed",
            Self::Over => "over",
        }
    }
}

/// The findings of the last check.
#[derive(Debug, Default)]
pub(super) struct FindingsThere(HashMap<<FindingRecord as Lasting>::Key, FindingRecord>);

impl FindingsThere {
    /// Replaces them by those of another check. Returns what began, changed, and is over.
    pub(super) fn replace(&mut self, found: Vec<FindingRecord>, time_us: u64) -> Vec<FindingEvent> {
        let mut events = Vec::new();
        let mut note = |finding: &FindingRecord, change| {
            events.push(FindingEvent {
                finding: finding.clone(),
                change,
                time_us,
            });
        };
        let mut before = std::mem::take(&mut self.0);
        for finding in found {
            let key = finding.key();
            match before.remove(&key) {
                // Of two with the same key the first, which is the worse, is that of the last check.
                None if self.0.contains_key(&key) => continue,
                None => note(&finding, FindingChange::Began),
                Some(before) if before.severity != finding.severity => note(&finding, FindingChange::Changed),
                Some(_) => {}
            }
            self.0.insert(key, finding);
        }
        let mut over: Vec<_> = before.into_values().collect();
        over.sort_by(|one, other| (&one.rule, &one.subject).cmp(&(&other.rule, &other.subject)));
        for finding in &over {
            note(finding, FindingChange::Over);
        }
        events
    }
}

/// Returns the time in microseconds since 1970.
pub(super) fn now_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sockeye_history::FindingSeverity;

    pub(crate) fn finding(subject: &str, severity: &str) -> FindingRecord {
        FindingRecord {
            rule: "accept-queue".to_owned(),
            severity: FindingSeverity {
                rank: u8::from(severity == "critical"),
                name: severity.to_owned(),
            },
            netns: None,
            subject: subject.to_owned(),
            owner: None,
            sockets: 1,
            example: None,
            facts: vec![("waiting".to_owned(), 5)],
            meaning: "It is full.".to_owned(),
            remedies: Vec::new(),
        }
    }

    #[test]
    fn each_finding_begins_changes_and_is_over_once() {
        let mut there = FindingsThere::default();
        let mut changes = |found: &[FindingRecord]| {
            let events = there.replace(found.to_vec(), 7);
            let words = events
                .iter()
                .map(|event| format!("{} {}", event.finding.subject, event.change.name()));
            words.collect::<Vec<_>>()
        };
        let (one, other) = (finding("a", "warning"), finding("b", "warning"));
        assert_eq!(
            changes(&[one.clone(), one.clone(), other]),
            ["a began", "b began"]
        );
        assert_eq!(changes(&[one]), ["b over"]);
        assert_eq!(changes(&[finding("a", "critical")]), ["a changed"]);
        assert_eq!(changes(&[finding("a", "critical")]), [""; 0]);
        assert_eq!(changes(&[]), ["a over"]);
        assert_eq!(changes(&[]), [""; 0]);
    }
}
