//! What is looked at less often than sockets: findings, counts, and what of them cannot be seen.

use crate::check_times;
use crate::counts::CountIds;
use crate::periods;
use rusqlite::{Connection, Transaction};
use sockeye_history::{CheckTime, CountKey, DataKind, FindingRecord, PeriodLog, Unseen};

/// What one look shows. It is written with the next sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Check {
    /// Time until the next look is due, in milliseconds.
    pub interval_ms: u64,
    /// What is wrong.
    pub findings: Vec<FindingRecord>,
    /// What was counted since the look before.
    pub counts: Vec<(CountKey, u64)>,
    /// What could not be seen.
    pub unseen: Vec<Unseen>,
}

impl Check {
    /// Returns when it was made; `None`: it could not look for findings.
    fn time(&self, at_ms: u64) -> Option<CheckTime> {
        let has_failed = |unseen: &Unseen| unseen.kind == DataKind::Findings && unseen.part.is_none();
        if self.unseen.iter().any(has_failed) {
            return None;
        }
        let worst = self.findings.iter().map(|finding| &finding.severity).max();
        Some(CheckTime {
            at_ms,
            interval_ms: self.interval_ms,
            findings: self.findings.len() as u64,
            worst: worst.map(|severity| severity.name.clone()),
        })
    }

    /// Returns about how many bytes it takes in the log of changes.
    pub(crate) const fn bytes(&self) -> u64 {
        (self.findings.len() * FINDING_BYTES + (self.counts.len() + self.unseen.len()) * ROW_BYTES) as u64
    }
}

/// What the looks before have shown.
#[derive(Debug)]
pub(crate) struct CheckLog {
    findings: PeriodLog<FindingRecord>,
    unseen: PeriodLog<Unseen>,
    ids: CountIds,
}

impl CheckLog {
    /// Goes on after the last look.
    pub(crate) fn resume(store: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            findings: periods::resume(store)?,
            unseen: periods::resume(store)?,
            ids: CountIds::default(),
        })
    }

    /// Writes what a look at this time shows.
    pub(crate) fn write(
        &mut self,
        store: &Transaction<'_>,
        at_ms: u64,
        check: &Check,
    ) -> rusqlite::Result<()> {
        periods::write(store, &self.findings.look(at_ms, check.findings.iter().cloned()))?;
        periods::write(store, &self.unseen.look(at_ms, check.unseen.iter().cloned()))?;
        if let Some(time) = check.time(at_ms) {
            check_times::write(store, &time)?;
        }
        self.ids.add(store, at_ms / 1000, &check.counts)
    }

    /// Writes what a gap cut off.
    pub(crate) fn write_cut(&mut self, store: &Transaction<'_>) -> rusqlite::Result<()> {
        periods::write(store, &self.findings.take_cut())?;
        periods::write(store, &self.unseen.take_cut())
    }

    /// Notes a gap: what ended in it, and when, is not known.
    pub(crate) fn cut(&mut self) {
        self.findings.cut();
        self.unseen.cut();
        self.forget_ids();
    }

    /// Forgets the ids of rows that may be gone.
    pub(crate) fn forget_ids(&mut self) {
        self.ids = CountIds::default();
    }
}

/// Bytes of a row with its texts, and of the changed page that it may be alone in.
const FINDING_BYTES: usize = 2_048;

/// Bytes of a small row in table and index.
const ROW_BYTES: usize = 256;
