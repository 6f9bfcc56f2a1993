//! A table at one moment, as values: what is drawn, sorted and remembered.

use sockeye_model::{Cookie, NetnsInode};
use sockeye_output::listing::SortValue;
use sockeye_output::table::Tint;

/// The heading of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    /// Name, by which rows are sorted.
    pub(crate) name: &'static str,
    /// Text of the heading.
    pub(crate) text: &'static str,
    /// Whether its cells are aligned to the right.
    pub(crate) is_right: bool,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    /// What is shown, harmless for a terminal; empty if the value is absent.
    pub(crate) text: Box<str>,
    /// What rows are sorted by.
    pub(crate) value: Option<SortValue>,
    pub(crate) tint: Tint,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The same in every sample that has the same thing.
    pub(crate) id: u64,
    pub(crate) cells: Box<[Cell]>,
    /// A filter for the sockets of the row; `None` if there is none.
    pub(crate) filter: Option<Box<str>>,
    /// The socket, if the row is one.
    pub(crate) socket: Option<SocketId>,
    /// Why it has no keepalive; `None` if it may have.
    pub(crate) no_keepalive: Option<&'static str>,
    /// The filter by which `capture` selects it.
    pub(crate) capture: Option<Box<str>>,
    /// What Enter shows, if it is a text: a finding in full, as it was when it was listed.
    pub(crate) text: Option<Box<str>>,
    /// What `explain` is asked about, if no cell says it.
    pub(crate) explained: Option<Box<str>>,
    /// What the trend of the row shows: a round trip time in microseconds.
    pub(crate) rtt_us: Option<u32>,
}

/// Identifies a socket until reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketId {
    /// Its namespace; `None` if only one is listed.
    pub(crate) netns: Option<NetnsInode>,
    pub(crate) cookie: Cookie,
}

/// Rows of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    pub(crate) headings: Vec<Heading>,
    pub(crate) rows: Vec<Row>,
    /// Rows that were found and are not here.
    pub(crate) left_out: usize,
}

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// Name of the column.
    pub(crate) column: &'static str,
    pub(crate) descending: bool,
}

impl Table {
    /// Returns the rows in an order; unknown values come last. Rows that are equal keep their order.
    pub(crate) fn sorted(&self, order: Order) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        if let Some(index) = self
            .headings
            .iter()
            .position(|heading| heading.name == order.column)
        {
            let value = |row: &'_ Row| row.cells.get(index).and_then(|cell| cell.value.clone());
            rows.sort_by(|a, b| {
                SortValue::compare_known(value(a).as_ref(), value(b).as_ref(), order.descending)
            });
        }
        rows
    }

    /// Returns an estimate of its memory.
    pub(crate) fn bytes(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        let texts: usize = cells
            .map(|cell| size_of::<Cell>() + cell.text.len() + ALLOCATION)
            .sum();
        let more = self.rows.iter().flat_map(|row| [&row.text, &row.explained]);
        let more: usize = more.flatten().map(|text| text.len() + ALLOCATION).sum();
        texts + more + self.rows.len() * (size_of::<Row>() + 2 * ALLOCATION)
    }

    /// Keeps the first rows, and counts the others.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.left_out += self.rows.len().saturating_sub(rows);
        self.rows.truncate(rows);
        self.rows.shrink_to_fit();
    }
}

/// What an allocation costs in addition to its bytes, about.
const ALLOCATION: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fixtures::{row, table};

    #[track_caller]
    fn check(order: Order, expected: &[u64]) {
        let table = table(&[
            row(1, "b", Some(5)),
            row(2, "a", None),
            row(3, "c", Some(9)),
            row(4, "d", Some(5)),
        ]);
        let ids: Vec<u64> = table.sorted(order).iter().map(|row| row.id).collect();
        assert_eq!(ids, expected, "{order:?}");
    }

    #[test]
    fn unknown_values_are_last_in_both_directions() {
        let by = |column, descending| Order { column, descending };
        check(by("number", true), &[3, 1, 4, 2]);
        check(by("number", false), &[1, 4, 3, 2]);
        check(by("name", false), &[2, 1, 3, 4]);
        check(by("nothing", false), &[1, 2, 3, 4]);
    }

    #[test]
    fn rows_that_are_cut_are_counted() {
        let mut table = table(&[row(1, "b", None), row(2, "a", None)]);
        let bytes = table.bytes();
        table.truncate(1);
        assert_eq!((table.rows.len(), table.left_out), (1, 1));
        assert!(table.bytes() < bytes);
    }
}
