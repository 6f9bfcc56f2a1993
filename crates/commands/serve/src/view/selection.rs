//! Which flows of a moment are shown, and in which order.

use crate::moments::Moment;
use sockeye_filter::Filter;
use sockeye_model::{Flow, Names, Protocol};
use sockeye_output::SortKey;
use sockeye_output::flow::{FlowRow, Flows};
use std::ops::Range;

/// A filter and an order.
pub(crate) struct Selection {
    pub(crate) filter: Filter,
    pub(crate) sort: SortKey<Flows>,
}

/// The flows of a moment that match a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selected {
    /// Their places in the moment, in the order in which they are shown.
    pub(crate) order: Vec<u32>,
    /// How many others have connections that match and some that do not, or lack what the filter tests.
    pub(crate) undecided: usize,
}

/// The rows that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

impl Selection {
    /// Selects flows of a moment.
    pub(crate) fn of(&self, moment: &Moment, names: &dyn Names) -> Selected {
        let mut reader = moment.flows.reader();
        let (mut places, mut undecided) = (Vec::new(), 0);
        for place in moment.flows.places() {
            match self.matches(|| reader.read(place)) {
                Some(false) => {}
                Some(true) => places.push(place),
                None => undecided += 1,
            }
        }
        let value = |place: &u32| {
            self.sort
                .column
                .sort_value(&row(moment, reader.read(*place), names))
        };
        let order = self.sort.order_of(places.iter().map(value)).into_iter();
        Selected {
            order: order.map(|index| places[index]).collect(),
            undecided,
        }
    }

    fn matches<'f>(&self, flow: impl FnOnce() -> &'f Flow) -> Option<bool> {
        if self.filter.is_empty() {
            return Some(true);
        }
        self.filter.matches_flow(flow(), PROTOCOL)
    }
}

impl Window {
    /// Returns the indices of the rows, of so many.
    pub(crate) fn of(&self, rows: usize) -> Range<usize> {
        let begin = self.offset.min(rows);
        begin..begin.saturating_add(self.limit).min(rows)
    }
}

/// Returns a flow of a moment as a row.
pub(crate) const fn row<'a>(moment: &Moment, flow: &'a Flow, names: &'a dyn Names) -> FlowRow<'a> {
    FlowRow {
        flow,
        names,
        protocol: PROTOCOL,
        has_owners: moment.has_owners,
    }
}

/// The protocol of all flows.
pub(crate) const PROTOCOL: Protocol = Protocol::Tcp;

#[cfg(test)]
mod tests {
    use super::Window;

    #[test]
    fn window_ends_with_the_rows() {
        let of = |offset, limit, rows| Window { offset, limit }.of(rows);
        assert_eq!(of(0, 10, 25), 0..10);
        assert_eq!(of(20, 10, 25), 20..25);
        assert_eq!(of(30, 10, 25), 25..25);
        assert_eq!(of(1, usize::MAX, 3), 1..3);
    }
}
