//! Queues of listeners: connections that wait to be accepted.

use super::{Answer, Question, TimeRange, between};
use crate::row_binary::{RowError, RowReader};

/// The queue of the listeners on a port of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptQueue {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The most connections that waited.
    pub waiting_max: u32,
    /// The most that may wait then; 0: unknown.
    pub backlog: u32,
    /// Intervals in which some waited.
    pub intervals: u64,
}

/// Asks for the queues that were not empty in a time, of at most the last 7 days.
#[must_use]
pub fn accept_queues(range: &TimeRange) -> Question {
    let sql = "SELECT toString(host), port, max(waiting_max), argMax(backlog, waiting_max), uniqExact(t)
FROM listeners
WHERE t >= fromUnixTimestamp({since:UInt32}) AND t < fromUnixTimestamp({until:UInt32}) AND waiting_max > 0
GROUP BY host, port ORDER BY host, port LIMIT 100000";
    Question {
        sql: sql.to_owned(),
        parameters: between(range.since_s, range.until_s),
    }
}

impl Answer for AcceptQueue {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            host: reader.text()?,
            port: reader.u16()?,
            waiting_max: reader.u32()?,
            backlog: reader.u32()?,
            intervals: reader.u64()?,
        })
    }
}
