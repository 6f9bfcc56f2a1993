//! What was read at one moment.

use super::table::{SocketId, Table};
use super::view::View;
use sockeye_model::GroupBy;
use std::time::Duration;

/// What was read for a view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sample {
    /// Number of the sample, from 1.
    pub(crate) number: u64,
    /// When it was read: time since the start.
    pub(crate) at: Duration,
    /// Time of day: `12:00:00`.
    pub(crate) clock: Box<str>,
    pub(crate) view: Option<View>,
    /// The filter with which it was taken; empty: none.
    pub(crate) filter: Box<str>,
    /// What groups were folded by.
    pub(crate) group_by: Option<GroupBy>,
    pub(crate) table: Table,
    /// Sums, as a line; empty if there are none.
    pub(crate) totals: Box<str>,
    /// What was lost or is not known, as lines.
    pub(crate) notes: Box<str>,
    /// The interval until the next sample, as it was after this one.
    pub(crate) interval: Duration,
    /// What is known of the connection that is watched.
    pub(crate) details: Option<Box<Details>>,
}

/// One connection in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) socket: SocketId,
    /// Names and values: owner, route, timers.
    pub(crate) facts: Vec<(&'static str, Box<str>)>,
    /// What holds the connection back, in words.
    pub(crate) limit: Box<str>,
    /// Numbers that are drawn over time: names and values in their units.
    pub(crate) numbers: Vec<(&'static str, Option<u64>)>,
}

impl Sample {
    /// Returns an estimate of its memory.
    pub(crate) fn bytes(&self) -> usize {
        let details = self.details.as_ref().map_or(0, |details| {
            let facts: usize = details.facts.iter().map(|(_, text)| text.len() + 40).sum();
            facts + details.numbers.len() * 32 + 128
        });
        size_of::<Self>()
            + self.table.bytes()
            + self.filter.len()
            + self.totals.len()
            + self.notes.len()
            + details
    }
}
