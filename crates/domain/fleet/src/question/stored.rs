//! What is stored of a time, and what is not: an answer without rows may have two reasons.

use super::{Answer, Question, TimeRange, between};
use crate::row_binary::{RowError, RowReader};

/// What is stored, of all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Hosts that sent something of the time.
    pub hosts: u64,
    /// The first time of which something is stored, in seconds since 1970; 0: nothing is.
    pub first_s: u32,
    /// The last one.
    pub last_s: u32,
}

/// Asks for what is stored of a time and of all times, in the table that goes back as far.
#[must_use]
pub fn stored(range: &TimeRange) -> Question {
    // Hosts are kept as long as five minutes are.
    let table = match range.flows_table() {
        "flows_1h" => "flows_1h",
        _ => "hosts",
    };
    let sql = format!(
        "SELECT uniqExactIf(h.host, h.t >= fromUnixTimestamp({{since:UInt32}}) AND h.t < fromUnixTimestamp({{until:UInt32}})),
    toUInt32(min(h.t)), toUInt32(max(h.t))
FROM {table} AS h"
    );
    Question {
        sql,
        parameters: range.parameters(),
    }
}

/// Asks for what is stored of a time and shortly before it, where [`super::edges_at`] looks.
#[must_use]
pub fn stored_at(at_s: u64, now_s: u64) -> Question {
    let since_s = at_s.saturating_sub(super::edges::LOOK_BACK_S);
    let range = TimeRange {
        since_s,
        until_s: at_s,
        now_s,
    };
    Question {
        // A row of this second is of it.
        parameters: between(range.begin_s(), at_s + 1),
        ..stored(&range)
    }
}

impl Answer for Stored {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            hosts: reader.u64()?,
            first_s: reader.u32()?,
            last_s: reader.u32()?,
        })
    }
}

/// A host that has no sample of a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingHost {
    /// The host.
    pub host: String,
    /// Its last sample before, in milliseconds since 1970.
    pub from_ms: u64,
    /// The first one after; `None`: there is none yet.
    pub until_ms: Option<u64>,
    /// Why; empty: unknown.
    pub reason: String,
}

/// Asks for the hosts that have no sample of a time, in seconds since 1970: those with a gap there, and those that have sent nothing for longer
/// than it takes.
#[must_use]
pub fn missing_at(at_s: u64) -> Question {
    let sql = format!(
        "SELECT m.host AS host, min(m.from_ms) AS from_ms, max(m.until_ms) AS until_ms, max(m.reason) AS reason
FROM (
    SELECT toString(g.host) AS host, toUInt64(toUnixTimestamp64Milli(g.begin)) AS from_ms,
        toUInt64(toUnixTimestamp64Milli(g.end)) AS until_ms, toString(g.reason) AS reason
    FROM gaps AS g FINAL
    WHERE g.begin <= fromUnixTimestamp({{at:UInt32}}) AND g.end > fromUnixTimestamp({{at:UInt32}})
    UNION ALL
    SELECT toString(h.host) AS host, toUInt64(toUnixTimestamp64Milli(max(h.last_sample))) AS from_ms, toUInt64(0) AS until_ms, '' AS reason
    FROM hosts AS h
    WHERE h.t > fromUnixTimestamp({{since:UInt32}}) AND h.t <= fromUnixTimestamp({{until:UInt32}})
    GROUP BY h.host
    HAVING max(h.last_sample) < fromUnixTimestamp({{late:UInt32}})
) AS m
GROUP BY m.host ORDER BY host LIMIT {MISSING_MAX}"
    );
    let before = |seconds: u64| at_s.saturating_sub(seconds);
    let mut parameters = between(before(super::edges::LOOK_BACK_S), at_s + LATE_S);
    parameters.extend([("at", at_s.to_string()), ("late", before(LATE_S).to_string())]);
    Question { sql, parameters }
}

impl Answer for MissingHost {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            host: reader.text()?,
            from_ms: reader.u64()?,
            until_ms: Some(reader.u64()?).filter(|ms| *ms > 0),
            reason: reader.text()?,
        })
    }
}

/// Asks for the names of the hosts of a time.
#[must_use]
pub fn host_names(range: &TimeRange) -> Question {
    Question {
        sql: format!(
            "SELECT DISTINCT toString(h.host) AS name FROM hosts AS h
WHERE h.t >= fromUnixTimestamp({{since:UInt32}}) AND h.t < fromUnixTimestamp({{until:UInt32}}) ORDER BY name LIMIT {MISSING_MAX}"
        ),
        parameters: range.parameters(),
    }
}

impl Answer for String {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        reader.text()
    }
}

/// What is sent of an interval comes up to a minute after it, and samples may be a minute apart.
const LATE_S: u64 = 150;

/// More hosts are not named.
const MISSING_MAX: u32 = 1_000;
