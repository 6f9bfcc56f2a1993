//! How far the clocks of two hosts are apart, by data that both saw.

use super::{Answer, Question, TimeRange, between};
use crate::row_binary::{RowError, RowReader};

/// Two hosts that exchanged data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockPair {
    /// Host of clients.
    pub client: String,
    /// Host of servers.
    pub server: String,
    /// Exchanges of data that both saw.
    pub exchanges: u64,
    /// The server's clock minus that of the client, in milliseconds: by the exchange that took least there and back.
    pub server_ahead_ms: i64,
    /// How long that one took there and back, which is twice the largest error.
    pub delay_ms: i64,
}

/// Asks for all pairs of a time. The time of an exchange is by the later of both clocks, and a clock that is ahead is what this is about: up to a
/// day after the end counts, too.
#[must_use]
pub fn clock_pairs(range: &TimeRange) -> Question {
    let sql = "SELECT client_host, server_host, count() AS exchanges,
    toInt64(round(argMin(server_ahead_ms, delay_ms))) AS ahead_ms, toInt64(min(delay_ms)) AS least_ms
FROM clock_offsets
WHERE day >= toDate(fromUnixTimestamp({since:UInt32})) - 1 AND t >= fromUnixTimestamp({since:UInt32}) AND t < fromUnixTimestamp({until:UInt32}) + INTERVAL 1 DAY
GROUP BY client_host, server_host ORDER BY client_host, server_host LIMIT 1000000";
    Question {
        sql: sql.to_owned(),
        parameters: between(range.since_s, range.until_s),
    }
}

impl Answer for ClockPair {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            client: reader.text()?,
            server: reader.text()?,
            exchanges: reader.u64()?,
            server_ahead_ms: reader.i64()?,
            delay_ms: reader.i64()?,
        })
    }
}
