//! When checks were made.

use rusqlite::{Connection, OptionalExtension, Row, params};
use sockeye_history::CheckTime;

/// Writes a check. One of the same time, after the clock was set back, is replaced.
pub(crate) fn write(store: &Connection, check: &CheckTime) -> rusqlite::Result<()> {
    let sql =
        "INSERT OR REPLACE INTO checked (at_ms, interval_ms, finding_count, worst) VALUES (?1, ?2, ?3, ?4)";
    let CheckTime {
        at_ms,
        interval_ms,
        findings,
        worst,
    } = check;
    store
        .execute(sql, params![at_ms, interval_ms, findings, worst])
        .map(|_| ())
}

/// Returns the check that answers for a time.
pub(crate) fn at(store: &Connection, at_ms: u64) -> rusqlite::Result<Option<CheckTime>> {
    let sql = format!("SELECT {COLUMNS} FROM checked WHERE at_ms <= ?1 ORDER BY at_ms DESC LIMIT 1");
    let last = store.query_row(&sql, params![at_ms], read).optional()?;
    Ok(last.filter(|check| check.answers(at_ms)))
}

/// Returns the checks that answer for some time between two, by time.
pub(crate) fn between(store: &Connection, (from_ms, to_ms): (u64, u64)) -> rusqlite::Result<Vec<CheckTime>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM checked WHERE at_ms <= ?2 AND at_ms + 2 * interval_ms > ?1 ORDER BY at_ms"
    );
    let mut rows = store.prepare_cached(&sql)?;
    rows.query_map(params![from_ms, to_ms], read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<CheckTime> {
    Ok(CheckTime {
        at_ms: row.get(0)?,
        interval_ms: row.get(1)?,
        findings: row.get(2)?,
        worst: row.get(3)?,
    })
}

const COLUMNS: &str = "at_ms, interval_ms, finding_count, worst";
