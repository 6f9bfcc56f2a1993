//! What is asked of the tables. Both ends of a flow are folded to the edges between them first, by GROUP BY: rows are never joined with each
//! other. Rows of connections that NAT translates are joined with what it makes of them.

mod clocks;
mod edges;
mod findings;
mod fold;
mod hosts;
mod map;
mod queues;
mod rows;
mod stored;
mod translated;

pub use clocks::{ClockPair, clock_pairs};
pub use edges::{Edge, EdgeEnd, OfAll, Selection, edges, edges_at};
pub use findings::{FleetFinding, findings};
pub use hosts::{FleetHost, hosts};
pub use map::{ServiceEdge, service_map};
pub use queues::{AcceptQueue, accept_queues};
pub use stored::{MissingHost, Stored, host_names, missing_at, stored, stored_at};
pub use translated::{TranslatedFlow, translated_flows};

use crate::row_binary::{RowError, RowReader};

/// A statement and its parameters, which are in it as `{name:Type}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The statement.
    pub sql: String,
    /// Names and values.
    pub parameters: Vec<(&'static str, String)>,
}

/// A row of an answer in `RowBinary`.
pub trait Answer: Sized {
    /// Reads a row.
    ///
    /// # Errors
    /// If the bytes are no row.
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError>;
}

/// Reads all rows of an answer.
///
/// # Errors
/// If the bytes are no rows.
pub fn read_rows<A: Answer>(bytes: &[u8]) -> Result<Vec<A>, RowError> {
    let mut reader = RowReader::new(bytes);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        rows.push(A::read(&mut reader)?);
    }
    Ok(rows)
}

/// A time that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// Begin, in seconds since 1970.
    pub since_s: u64,
    /// End.
    pub until_s: u64,
    /// Now: what is too old for a table is in a coarser one.
    pub now_s: u64,
}

impl TimeRange {
    /// Returns the table of flows that has this time in the fewest rows: intervals for half an hour of the last days, else five minutes, else
    /// hours. A begin within a period of a coarser table is that of the period.
    #[must_use]
    pub const fn flows_table(&self) -> &'static str {
        let age_s = self.now_s.saturating_sub(self.since_s);
        let length_s = self.until_s.saturating_sub(self.since_s);
        if age_s <= 6 * DAY_S && length_s <= 1_800 {
            "flows"
        } else if age_s <= 89 * DAY_S && length_s <= 14 * DAY_S {
            "flows_5m"
        } else {
            "flows_1h"
        }
    }

    fn begin_s(&self) -> u64 {
        let period_s = match self.flows_table() {
            "flows_5m" => 300,
            "flows_1h" => 3_600,
            _ => 1,
        };
        self.since_s / period_s * period_s
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        between(self.begin_s(), self.until_s)
    }
}

/// Returns the parameters of a question about a time, in seconds since 1970.
fn between(since_s: u64, until_s: u64) -> Vec<(&'static str, String)> {
    vec![("since", since_s.to_string()), ("until", until_s.to_string())]
}

const DAY_S: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_fits_age_and_length() {
        let now_s = 400 * DAY_S + 1_234;
        let table = |ago_s: u64, length_s: u64| {
            let since_s = now_s - ago_s;
            let range = TimeRange {
                since_s,
                until_s: since_s + length_s,
                now_s,
            };
            (range.flows_table(), since_s - range.begin_s())
        };
        assert_eq!(table(3_600, 1_800), ("flows", 0));
        assert_eq!(table(3_600, 3_600), ("flows_5m", 34));
        assert_eq!(table(DAY_S, DAY_S), ("flows_5m", 34));
        assert_eq!(table(8 * DAY_S, 60), ("flows_5m", 34));
        assert_eq!(table(100 * DAY_S, 60), ("flows_1h", 1_234));
    }
}
