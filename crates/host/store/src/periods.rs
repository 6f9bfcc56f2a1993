//! Rows of things that are there for a time: findings, and what cannot be seen.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use sockeye_history::{Lasting, Period, PeriodEnd, PeriodLog};

/// A table of periods. Its first columns are those of the period.
pub(crate) trait PeriodTable: Lasting + Clone {
    /// Its name.
    const NAME: &'static str;

    /// Its further columns.
    const COLUMNS: &'static [&'static str];

    /// Returns the values of these columns.
    fn values(&self) -> Vec<Value>;

    /// Reads these columns, of which the first has the number `first`. `None`: a later version wrote what is not known here.
    fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Self>>;
}

/// Writes periods. Those that are there already are replaced.
pub(crate) fn write<T: PeriodTable>(store: &Connection, periods: &[Period<T>]) -> rusqlite::Result<()> {
    let columns = [PERIOD_COLUMNS, T::COLUMNS].concat();
    let places: Vec<_> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    let sql = format!(
        "INSERT OR REPLACE INTO {} ({}) VALUES ({})",
        T::NAME,
        columns.join(", "),
        places.join(", ")
    );
    let mut insert = store.prepare(&sql)?;
    for period in periods {
        let (end, ended_ms) = match period.end {
            PeriodEnd::There => (THERE, None),
            PeriodEnd::At(at_ms) => (ENDED, Some(at_ms)),
            PeriodEnd::Unknown => (UNKNOWN, None),
        };
        let times = [
            Value::from(period.id),
            number(period.began_ms),
            number(period.last_ms),
            Value::from(end.to_owned()),
            ended_ms.map_or(Value::Null, number),
        ];
        insert.execute(params_from_iter(times.into_iter().chain(period.what.values())))?;
    }
    Ok(())
}

/// Returns the log that goes on after the last look.
pub(crate) fn resume<T: PeriodTable>(store: &Connection) -> rusqlite::Result<PeriodLog<T>> {
    let there = read(store, "WHERE end = 'there'", &[])?;
    let sql = format!("SELECT ifnull(max(id), 0) + 1 FROM {}", T::NAME);
    let next_id = store.query_row(&sql, [], |row| row.get(0))?;
    Ok(PeriodLog::resume(there, next_id))
}

/// Returns the periods that reach into a time, by their begin.
pub(crate) fn between<T: PeriodTable>(
    store: &Connection,
    (from_ms, to_ms): (u64, u64),
) -> rusqlite::Result<Vec<Period<T>>> {
    // Nothing is known after the last sample.
    let which = "WHERE began_ms <= ?2 AND CASE end WHEN 'ended' THEN ended_ms
                 WHEN 'there' THEN (SELECT max(at_ms) FROM sample) ELSE last_ms END >= ?1 ORDER BY began_ms, id";
    read(store, which, &[from_ms, to_ms])
}

/// Deletes those that ended before a time.
pub(crate) fn delete_before<T: PeriodTable>(store: &Connection, last_ms: u64) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM {} WHERE last_ms <= ?1", T::NAME);
    store.execute(&sql, params![last_ms]).map(|_| ())
}

fn read<T: PeriodTable>(
    store: &Connection,
    which: &str,
    times_ms: &[u64],
) -> rusqlite::Result<Vec<Period<T>>> {
    let columns = [PERIOD_COLUMNS, T::COLUMNS].concat().join(", ");
    let mut rows = store.prepare(&format!("SELECT {columns} FROM {} {which}", T::NAME))?;
    let periods = rows.query_map(params_from_iter(times_ms), |row| {
        let (end, ended_ms): (String, Option<u64>) = (row.get(3)?, row.get(4)?);
        let end = match (end.as_str(), ended_ms) {
            (THERE, _) => PeriodEnd::There,
            (ENDED, Some(at_ms)) => PeriodEnd::At(at_ms),
            _ => PeriodEnd::Unknown,
        };
        let Some(what) = T::read(row, PERIOD_COLUMNS.len())? else {
            return Ok(None);
        };
        Ok(Some(Period {
            id: row.get(0)?,
            began_ms: row.get(1)?,
            last_ms: row.get(2)?,
            end,
            what,
        }))
    })?;
    periods.filter_map(Result::transpose).collect()
}

/// Returns a number as SQLite has it. Times and counters do not reach its sign.
pub(crate) fn number(number: impl Into<u64>) -> Value {
    Value::from(number.into().cast_signed())
}

/// Returns a text, or NULL.
pub(crate) fn text(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| Value::from(text.to_owned()))
}

const PERIOD_COLUMNS: &[&str] = &["id", "began_ms", "last_ms", "end", "ended_ms"];

const THERE: &str = "there";
const ENDED: &str = "ended";
const UNKNOWN: &str = "unknown";
