//! Points of a timeline from recorded totals. Pure.

use crate::view::Point;
use sockeye_history::Sums;
use sockeye_store::{PeriodCoverage, PeriodTotals};

/// Returns points for each period whose sums are known to be of the time that was recorded: one in the middle of each long part of it,
/// since a gap may be between them. Sums of a sample that could not be compared give no rates.
pub(super) fn points(totals: &[PeriodTotals], coverage: &[PeriodCoverage]) -> Vec<(u64, Point)> {
    let mut points = Vec::new();
    for period in totals {
        let covered = coverage.binary_search_by_key(&period.start_s, |covered| covered.start_s);
        let Some(covered) = covered.ok().and_then(|place| coverage.get(place)) else {
            continue;
        };
        let Sums {
            sent_bytes,
            received_bytes,
            retrans_segs,
            connections,
            ..
        } = period.sums;
        let summed_ms = covered.summed_ms;
        let rate = |count: u64| (summed_ms > 0).then(|| count as f64 * 1e3 / summed_ms as f64);
        let point = Point {
            connections,
            sent_bytes_per_s: rate(sent_bytes),
            received_bytes_per_s: rate(received_bytes),
            retrans_segs_per_s: rate(retrans_segs),
            // Sums do not have it.
            rtt_us_median: None,
        };
        let at_us = places_ms(covered, period.length_s).into_iter();
        points.extend(at_us.map(|at_ms| (at_ms * 1000, point)));
    }
    points
}

/// Returns where the points of a period are, in milliseconds since 1970.
fn places_ms(covered: &PeriodCoverage, length_s: u64) -> Vec<u64> {
    let length_ms = |part: &(u64, u64)| part.1 - part.0;
    let long_ms = length_s * 1000 / PARTS_MAX;
    let longest = covered.parts.iter().max_by_key(|part| length_ms(part));
    let is_shown = |part: &&(u64, u64)| length_ms(part) >= long_ms || Some(*part) == longest;
    let parts = covered.parts.iter().filter(is_shown);
    let places: Vec<_> = parts.map(|(from_ms, to_ms)| from_ms.midpoint(*to_ms)).collect();
    if places.is_empty() {
        vec![covered.last_ms]
    } else {
        places
    }
}

/// Points of a period at most, but for one.
const PARTS_MAX: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(sent_bytes: u64) -> Sums {
        Sums {
            sent_bytes,
            connections: 3,
            ..Sums::default()
        }
    }

    /// Second, and rate of the points of five minutes from second 600 on, in which 3,000 bytes were sent.
    #[track_caller]
    fn check(parts: &[(u64, u64)], summed_s: u64, expected: &[(u64, Option<f64>)]) {
        let period = PeriodTotals {
            start_s: 600,
            length_s: 300,
            sums: sums(3000),
        };
        let covered = PeriodCoverage {
            start_s: 600,
            last_ms: 890_000,
            parts: parts
                .iter()
                .map(|(from_s, to_s)| (from_s * 1000, to_s * 1000))
                .collect(),
            summed_ms: summed_s * 1000,
        };
        let points = points(&[period], &[covered]);
        let seen: Vec<_> = points
            .iter()
            .map(|(time_us, point)| (time_us / 1_000_000, point.sent_bytes_per_s))
            .collect();
        assert_eq!(seen, expected);
        assert!(points.iter().all(|(_, point)| point.rtt_us_median.is_none()));
    }

    #[test]
    fn rates_are_averages_of_the_time_that_was_recorded() {
        check(&[(590, 890)], 300, &[(740, Some(10.0))]);
        check(&[(880, 890)], 10, &[(885, Some(300.0))]);
    }

    #[test]
    fn parts_that_a_gap_separates_have_points_of_their_own() {
        check(
            &[(590, 690), (740, 890)],
            250,
            &[(640, Some(12.0)), (815, Some(12.0))],
        );
        // Short ones would not be seen.
        check(&[(590, 600), (610, 620), (740, 890)], 300, &[(815, Some(10.0))]);
        check(&[(590, 600), (610, 621)], 60, &[(615, Some(50.0))]);
    }

    #[test]
    fn sums_of_an_unknown_time_give_no_rates() {
        // The first sample, or one after the clock was set.
        check(&[], 0, &[(890, None)]);
        let period = PeriodTotals {
            start_s: 600,
            length_s: 300,
            sums: sums(3000),
        };
        assert_eq!(points(&[period], &[]), []);
    }
}
