//! Which part of a time was recorded: the sums of five minutes or an hour are of this part.

use rusqlite::{Connection, OptionalExtension, params};
use sockeye_history::{Gap, GapReason};

/// What was recorded of five minutes or an hour: the time over which its samples count, from the sample before it to its last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodCoverage {
    /// Begin of the period, in seconds since 1970.
    pub start_s: u64,
    /// Its last sample, in milliseconds since 1970.
    pub last_ms: u64,
    /// The times over which its sums are, without gaps, in milliseconds since 1970, by time. The first may begin a little before the
    /// period, at the sample before it; there is none if nothing could be compared.
    pub parts: Vec<(u64, u64)>,
    /// Time over which its sums are, in milliseconds: that of the parts, and of gaps that differences span.
    pub summed_ms: u64,
}

/// A gap, and whether differences span it.
struct SpannedGap {
    from_ms: u64,
    to_ms: u64,
    is_spanned: bool,
}

/// Returns what was recorded of each period of `length_s` seconds that begins in a time in seconds since 1970 and has samples. One whose
/// first samples were deleted is left out: its sums have them.
pub(crate) fn coverage(
    store: &Connection,
    (from_s, to_s): (u64, u64),
    length_s: u64,
) -> rusqlite::Result<Vec<PeriodCoverage>> {
    let Some(oldest) = store
        .query_row("SELECT id, at_ms FROM sample ORDER BY id LIMIT 1", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(1)?))
        })
        .optional()?
    else {
        return Ok(Vec::new());
    };
    // Ids begin with 1.
    let is_cut = |start_s: u64| oldest.0 > 1 && start_s * 1000 < oldest.1;
    let from_ms = from_s / length_s * length_s * 1000;
    let to_ms = to_s.saturating_mul(1000).min(i64::MAX as u64);
    let sql =
        "SELECT at_ms / ?3 AS period, max(at_ms), min(at_ms) FROM sample WHERE at_ms >= ?1 AND at_ms < ?2
        GROUP BY period ORDER BY period";
    let mut rows = store.prepare_cached(sql)?;
    // The last period may begin just before the end.
    let end_ms = to_ms.div_ceil(length_s * 1000).saturating_mul(length_s * 1000);
    let periods = rows
        .query_map(params![from_ms, end_ms, length_s * 1000], |row| {
            Ok((row.get::<_, u64>(0)? * length_s, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<Vec<(u64, u64, u64)>>>()?;
    let Some((_, _, first_ms)) = periods.first() else {
        return Ok(Vec::new());
    };
    let sql = "SELECT max(at_ms) FROM sample WHERE at_ms < ?1";
    let before: Option<u64> = store.query_row(sql, params![first_ms], |row| row.get(0))?;
    let mut before_ms = before.unwrap_or(*first_ms);
    let gaps = gaps(store, (before_ms, end_ms))?;
    let mut all = Vec::new();
    for (start_s, last_ms, _) in periods {
        if !is_cut(start_s) {
            all.push(period(start_s, (before_ms, last_ms), &gaps));
        }
        before_ms = last_ms;
    }
    Ok(all)
}

/// Returns what of a time between two samples its sums are of. Gaps are by time.
fn period(start_s: u64, (before_ms, last_ms): (u64, u64), gaps: &[SpannedGap]) -> PeriodCoverage {
    let (mut parts, mut summed_ms, mut from_ms) = (Vec::new(), 0, before_ms);
    let within = gaps
        .iter()
        .filter(|gap| gap.from_ms < last_ms && gap.to_ms > before_ms);
    for gap in within {
        if gap.from_ms > from_ms {
            parts.push((from_ms, gap.from_ms));
        }
        if gap.is_spanned {
            summed_ms += gap.to_ms.min(last_ms).saturating_sub(gap.from_ms.max(from_ms));
        }
        from_ms = from_ms.max(gap.to_ms);
    }
    if from_ms < last_ms {
        parts.push((from_ms, last_ms));
    }
    summed_ms += parts.iter().map(|(from_ms, to_ms)| to_ms - from_ms).sum::<u64>();
    PeriodCoverage {
        start_s,
        last_ms,
        parts,
        summed_ms,
    }
}

fn gaps(store: &Connection, (from_ms, to_ms): (u64, u64)) -> rusqlite::Result<Vec<SpannedGap>> {
    // The run of the sample behind a gap knows how long it is late.
    let sql = "SELECT from_ms, to_ms, reason, (SELECT interval_ms FROM sample JOIN run ON run.id = run_id WHERE at_ms = gap.to_ms LIMIT 1)
        FROM gap WHERE min(from_ms, to_ms) < ?2 AND max(from_ms, to_ms) > ?1 ORDER BY min(from_ms, to_ms)";
    let mut rows = store.prepare_cached(sql)?;
    let gaps = rows.query_map(params![from_ms, to_ms], |row| {
        let reason: String = row.get(2)?;
        let interval_ms: Option<u64> = row.get(3)?;
        let gap = Gap {
            from_ms: row.get(0)?,
            to_ms: row.get(1)?,
            reason: GapReason::from_name(&reason).unwrap_or(GapReason::NotRunning),
        };
        Ok(SpannedGap {
            // The end is earlier than the begin if the clock was set back.
            from_ms: gap.from_ms.min(gap.to_ms),
            to_ms: gap.from_ms.max(gap.to_ms),
            is_spanned: interval_ms.is_some_and(|interval_ms| !gap.separates(interval_ms)),
        })
    })?;
    gaps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(from_s: u64, to_s: u64, is_spanned: bool) -> SpannedGap {
        SpannedGap {
            from_ms: from_s * 1000,
            to_ms: to_s * 1000,
            is_spanned,
        }
    }

    /// Parts and time in seconds of the samples from second 600 to 890.
    #[track_caller]
    fn check(gaps: &[SpannedGap], parts: &[(u64, u64)], summed_s: u64) {
        let found = period(600, (590_000, 890_000), gaps);
        let parts: Vec<_> = parts
            .iter()
            .map(|(from_s, to_s)| (from_s * 1000, to_s * 1000))
            .collect();
        assert_eq!((found.parts, found.summed_ms), (parts, summed_s * 1000));
    }

    #[test]
    fn sums_are_from_the_sample_before_to_the_last() {
        check(&[], &[(590, 890)], 300);
        check(&[gap(0, 590, false), gap(890, 900, false)], &[(590, 890)], 300);
    }

    #[test]
    fn gaps_are_no_part_and_have_time_only_if_differences_span_them() {
        check(&[gap(700, 750, false)], &[(590, 700), (750, 890)], 250);
        check(&[gap(700, 750, true)], &[(590, 700), (750, 890)], 300);
        // The clock was set back: they overlap.
        check(&[gap(500, 1000, false), gap(600, 700, true)], &[], 0);
        check(&[gap(500, 610, false), gap(860, 900, true)], &[(610, 860)], 280);
    }
}
