//! What the checks of `record` have found.

use super::words;
use crate::moments::CheckMark;
use sockeye_history::{CheckTime, DataKind, FindingRecord, Period, Unseen};
use sockeye_query::past;
use sockeye_store::StoreReader;

/// What a check found.
#[derive(Debug)]
pub(crate) struct RecordedFindings {
    /// When it was made.
    pub(crate) check: CheckTime,
    /// Its findings, each over its time, the worst first.
    pub(crate) findings: Vec<Period<FindingRecord>>,
    /// What it could not see of findings.
    pub(crate) unseen: Vec<Unseen>,
}

/// Reads what the check found that answers for a time, in milliseconds since 1970.
///
/// # Errors
/// In words: why nothing is known of it.
pub(super) fn read(store: &StoreReader, at_ms: u64) -> Result<RecordedFindings, String> {
    let Some(check) = store.checked_at(at_ms).map_err(words)? else {
        // In a gap, before the begin and after the end the reason is another one.
        past::moment(store, at_ms).map_err(|error| format!("{error:#}"))?;
        let unseen = store.unseen((at_ms, at_ms)).map_err(words)?;
        let failed = unseen.into_iter().map(|period| period.what);
        let mut reasons = failed.filter(|unseen| unseen.kind == DataKind::Findings && unseen.part.is_none());
        return Err(reasons.next().map_or_else(
            || "nothing was checked at that time".to_owned(),
            |unseen| unseen.why,
        ));
    };
    let then_ms = check.at_ms;
    let mut findings = store.findings((then_ms, then_ms)).map_err(words)?;
    // One that this check did not find any more ended with it.
    findings.retain(|period| period.last_ms >= then_ms);
    findings.sort_by(|a, b| b.what.severity.cmp(&a.what.severity));
    let mut unseen = store.unseen((then_ms, then_ms)).map_err(words)?;
    unseen.retain(|period| period.what.kind == DataKind::Findings && period.last_ms >= then_ms);
    Ok(RecordedFindings {
        check,
        findings,
        unseen: unseen.into_iter().map(|period| period.what).collect(),
    })
}

/// Returns the checks as marks; of more than a page can draw the worst of each part.
pub(super) fn marks(checks: Vec<CheckTime>) -> Vec<CheckMark> {
    let part = checks.len().div_ceil(MARKS_MAX).max(1);
    let worst = |checks: &[CheckTime]| {
        let check = checks.iter().max_by_key(|check| (check.findings, check.at_ms))?;
        Some(CheckMark {
            time_us: check.at_ms * 1000,
            findings: check.findings,
            worst: check.worst.clone(),
        })
    };
    checks.chunks(part).filter_map(worst).collect()
}

/// Marks of one answer: checks of each minute of a day.
const MARKS_MAX: usize = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_checks_the_worst_of_each_part_stays() {
        let check = |number: u64| CheckTime {
            at_ms: number * 60_000,
            interval_ms: 60_000,
            findings: u64::from(number == 17),
            worst: None,
        };
        assert_eq!(marks((0..1500).map(check).collect()).len(), 1500);
        let few = marks((0..6000).map(check).collect());
        assert_eq!(few.len(), 1500);
        let found: Vec<_> = few.iter().filter(|mark| mark.findings > 0).collect();
        assert_eq!(
            found.iter().map(|mark| mark.time_us).collect::<Vec<_>>(),
            [17 * 60_000_000]
        );
    }
}
