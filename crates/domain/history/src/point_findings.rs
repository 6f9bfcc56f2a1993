//! Findings at the points of a timeline.

use crate::check_time::CheckTime;
use crate::finding::FindingRecord;
use crate::period::{Period, PeriodEnd};
use crate::timeline::Point;

/// Counts in each point the findings that were there since the point before; before the first point is `since_ms`. Points without a sample
/// have no number, and points of a time for which no check answers have none unless a finding is known.
pub fn add_findings(
    points: &mut [Point],
    since_ms: u64,
    findings: &[Period<FindingRecord>],
    checks: &[CheckTime],
) {
    let mut from_ms = since_ms;
    for point in points {
        let was_there = |period: &&Period<FindingRecord>| {
            let last_ms = match period.end {
                PeriodEnd::There => u64::MAX,
                PeriodEnd::At(at_ms) => at_ms.saturating_sub(1),
                PeriodEnd::Unknown => period.last_ms,
            };
            period.began_ms <= point.at_ms && last_ms >= from_ms
        };
        if point.connections.is_some() {
            let count = findings.iter().filter(was_there).count() as u64;
            let was_checked = checks
                .iter()
                .any(|check| check.at_ms <= point.at_ms && check.until_ms() > from_ms);
            point.findings = (was_checked || count > 0).then_some(count);
        }
        from_ms = point.at_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingSeverity;
    use crate::gap::GapReason;
    use crate::timeline::Timeline;

    fn period(began_ms: u64, last_ms: u64, end: PeriodEnd) -> Period<FindingRecord> {
        Period {
            id: 0,
            began_ms,
            last_ms,
            end,
            what: FindingRecord {
                rule: String::new(),
                severity: FindingSeverity {
                    rank: 0,
                    name: String::new(),
                },
                netns: None,
                subject: String::new(),
                owner: None,
                sockets: 0,
                example: None,
                facts: Vec::new(),
                meaning: String::new(),
                remedies: Vec::new(),
            },
        }
    }

    #[track_caller]
    fn check(period: Period<FindingRecord>, expected: [Option<u64>; 4]) {
        let mut timeline = Timeline::<u64>::new(0);
        timeline.add_point(10);
        timeline.add_point(20);
        timeline.add_gap(30, GapReason::Reboot);
        timeline.add_point(40);
        let mut points = timeline.finish();
        let check = |at_ms| CheckTime {
            at_ms,
            interval_ms: 5,
            findings: 0,
            worst: None,
        };
        add_findings(&mut points, 0, &[period], &[5, 15, 35].map(check));
        let found: Vec<_> = points.iter().map(|point| point.findings).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn without_a_check_the_number_is_unknown() {
        let mut timeline = Timeline::<u64>::new(0);
        for at_ms in [10, 20, 30] {
            timeline.add_point(at_ms);
        }
        let mut points = timeline.finish();
        let check = CheckTime {
            at_ms: 12,
            interval_ms: 3,
            findings: 0,
            worst: None,
        };
        add_findings(&mut points, 0, &[], &[check]);
        let found: Vec<_> = points.iter().map(|point| point.findings).collect();
        assert_eq!(found, [None, Some(0), None]);
    }

    #[test]
    fn findings_count_in_each_point_of_their_time() {
        let some = [Some(0), Some(1), None, Some(0)];
        check(period(11, 15, PeriodEnd::At(20)), some);
        check(period(20, 20, PeriodEnd::Unknown), some);
        check(period(5, 6, PeriodEnd::At(7)), [Some(1), Some(0), None, Some(0)]);
        check(
            period(11, 15, PeriodEnd::There),
            [Some(0), Some(1), None, Some(1)],
        );
        check(
            period(41, 41, PeriodEnd::There),
            [Some(0), Some(0), None, Some(0)],
        );
    }
}
