//! Findings of all hosts.

use super::{Answer, Question, TimeRange, between};
use crate::row_binary::{RowError, RowReader};

/// A finding of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetFinding {
    /// The host.
    pub host: String,
    /// The first check that found it, in milliseconds since 1970.
    pub began_ms: u64,
    /// The last check that found it.
    pub last_ms: u64,
    /// `there`, `ended` or `unknown`: a gap followed.
    pub state: String,
    /// The highest severity.
    pub severity: String,
    /// The rule.
    pub rule: String,
    /// What it is about.
    pub subject: String,
    /// Name of the owner; empty: unknown or several.
    pub owner: String,
    /// Sockets concerned.
    pub sockets: u64,
    /// Evidence: name=value ...
    pub facts: String,
    /// Its meaning.
    pub meaning: String,
}

/// Asks for the findings of a time, the most severe first. Empty `rule` and `host`: of all.
#[must_use]
pub fn findings(range: &TimeRange, rule: &str, host: &str, rows_max: u64) -> Question {
    let sql = format!(
        "SELECT toString(host), toUInt64(toUnixTimestamp64Milli(began)), toUInt64(toUnixTimestamp64Milli(last)), toString(state),
    toString(severity), toString(rule), subject, toString(owner), sockets, facts, meaning
FROM findings FINAL
WHERE began < fromUnixTimestamp({{until:UInt32}})
    AND (last >= fromUnixTimestamp({{since:UInt32}}) OR ended >= fromUnixTimestamp({{since:UInt32}}))
    AND ({{rule:String}} = '' OR rule = {{rule:String}}) AND ({{host:String}} = '' OR host = {{host:String}})
ORDER BY severity_rank DESC, last DESC, host, id LIMIT {rows_max}"
    );
    let mut parameters = between(range.since_s, range.until_s);
    parameters.extend([("rule", rule.to_owned()), ("host", host.to_owned())]);
    Question { sql, parameters }
}

impl Answer for FleetFinding {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            host: reader.text()?,
            began_ms: reader.u64()?,
            last_ms: reader.u64()?,
            state: reader.text()?,
            severity: reader.text()?,
            rule: reader.text()?,
            subject: reader.text()?,
            owner: reader.text()?,
            sockets: reader.u64()?,
            facts: reader.text()?,
            meaning: reader.text()?,
        })
    }
}
