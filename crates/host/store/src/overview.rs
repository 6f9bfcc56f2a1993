//! What is kept over a long time: the samples next to a time, gaps, and what all connections transferred.

use rusqlite::{Connection, params};
use sockeye_history::{Gap, GapReason, Sums};

/// What all connections transferred over some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodTotals {
    /// Begin, in seconds since 1970.
    pub start_s: u64,
    /// Its length, in seconds.
    pub length_s: u64,
    /// The sums; `connections` is at most the largest number at a time.
    pub sums: Sums,
}

/// Which sample is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    /// The last one before a time.
    Past,
    /// The first one after it.
    Future,
}

/// Returns the time of the sample next to a time, which is not at that time.
pub(crate) fn next_sample(store: &Connection, at_ms: u64, toward: Toward) -> rusqlite::Result<Option<u64>> {
    let sql = match toward {
        Toward::Past => "SELECT max(at_ms) FROM sample WHERE at_ms < ?1",
        Toward::Future => "SELECT min(at_ms) FROM sample WHERE at_ms > ?1",
    };
    // A larger time than SQLite has is after all samples.
    let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
    store.query_row(sql, params![at_ms], |row| row.get(0))
}

/// Returns the gaps that overlap a time, by time.
pub(crate) fn gaps_within(store: &Connection, (from_ms, to_ms): (u64, u64)) -> rusqlite::Result<Vec<Gap>> {
    let sql = "SELECT from_ms, to_ms, reason FROM gap WHERE from_ms < ?2 AND to_ms > ?1 ORDER BY from_ms";
    let mut rows = store.prepare_cached(sql)?;
    let gaps = rows.query_map(params![from_ms, to_ms], |row| {
        let reason: String = row.get(2)?;
        Ok(Gap {
            from_ms: row.get(0)?,
            to_ms: row.get(1)?,
            reason: GapReason::from_name(&reason).unwrap_or(GapReason::NotRunning),
        })
    })?;
    gaps.collect()
}

/// Returns the totals of each five minutes, or of each hour if `by_hour`, whose begin is in a time in seconds since 1970.
pub(crate) fn totals(
    store: &Connection,
    (from_s, to_s): (u64, u64),
    by_hour: bool,
) -> rusqlite::Result<Vec<PeriodTotals>> {
    let (table, length_s) = if by_hour {
        // Each connection is in one of its rows by namespace.
        ("top_1h WHERE by = 'netns' AND", 3600)
    } else {
        ("sum_5m WHERE", 300)
    };
    let sql = format!(
        "SELECT start_s, sum(sent_bytes), sum(received_bytes), sum(retrans_segs), sum(opened), sum(closed),
            sum(connections_max) FROM {table} start_s >= ?1 AND start_s < ?2 GROUP BY start_s ORDER BY start_s"
    );
    let mut rows = store.prepare_cached(&sql)?;
    let totals = rows.query_map(params![from_s / length_s * length_s, to_s], |row| {
        Ok(PeriodTotals {
            start_s: row.get(0)?,
            length_s,
            sums: Sums {
                sent_bytes: row.get(1)?,
                received_bytes: row.get(2)?,
                retrans_segs: row.get(3)?,
                opened: row.get(4)?,
                closed: row.get(5)?,
                connections: row.get(6)?,
            },
        })
    })?;
    totals.collect()
}
