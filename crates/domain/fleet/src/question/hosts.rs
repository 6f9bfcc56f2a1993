//! The hosts that send.

use super::{Answer, Question, TimeRange, between};
use crate::row_binary::{RowError, RowReader};

/// A host over a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetHost {
    /// Its name.
    pub host: String,
    /// Version of its recorder.
    pub version: String,
    /// Its last sample, in milliseconds since 1970.
    pub last_ms: u64,
    /// Boots in this time.
    pub boots: u64,
    /// Samples.
    pub samples: u64,
    /// Sockets at the end.
    pub sockets: u32,
    /// Flows of the last interval, also those that are folded or idle.
    pub flows_seen: u32,
    /// Rows of flows of the last interval.
    pub flows_sent: u32,
    /// What the recorder could not read.
    pub losses: u64,
    /// Its clock minus that of the server when rows came, in milliseconds: the median. The way to the server makes it smaller.
    pub clock_ahead_ms: i64,
    /// Gaps.
    pub gaps: u64,
    /// Seconds of all gaps.
    pub gap_s: u64,
}

/// Asks for the hosts that sent something of a time, or have a gap in it.
#[must_use]
pub fn hosts(range: &TimeRange) -> Question {
    let sql = "SELECT toString(h.host) AS host, toString(argMax(h.version, h.last_sample)) AS version,
    toUInt64(toUnixTimestamp64Milli(max(h.last_sample))) AS last_ms, uniqExact(h.boot_id) AS boots,
    sum(h.samples) AS samples, argMax(h.sockets, h.last_sample) AS sockets,
    argMax(h.flows_seen, h.last_sample) AS flows_seen, argMax(h.flows_sent, h.last_sample) AS flows_sent,
    sum(h.losses) AS losses,
    toInt64(median(toUnixTimestamp64Milli(h.sent) - toUnixTimestamp64Milli(h.received))) AS clock_ahead_ms,
    any(g.gaps) AS gaps, any(g.gap_s) AS gap_s
FROM hosts AS h LEFT ANY JOIN (
    SELECT host, count() AS gaps, toUInt64(sum(greatest(dateDiff('second', begin, end), 0))) AS gap_s
    FROM gaps FINAL
    WHERE end >= fromUnixTimestamp({since:UInt32}) AND begin < fromUnixTimestamp({until:UInt32}) GROUP BY host
) AS g ON g.host = h.host
WHERE h.t >= fromUnixTimestamp({since:UInt32}) AND h.t < fromUnixTimestamp({until:UInt32})
GROUP BY h.host ORDER BY host";
    Question {
        sql: sql.to_owned(),
        parameters: between(range.since_s, range.until_s),
    }
}

impl Answer for FleetHost {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            host: reader.text()?,
            version: reader.text()?,
            last_ms: reader.u64()?,
            boots: reader.u64()?,
            samples: reader.u64()?,
            sockets: reader.u32()?,
            flows_seen: reader.u32()?,
            flows_sent: reader.u32()?,
            losses: reader.u64()?,
            clock_ahead_ms: reader.i64()?,
            gaps: reader.u64()?,
            gap_s: reader.u64()?,
        })
    }
}
