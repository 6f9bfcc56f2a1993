//! The first rows of a view in an order, as values; of the others only their number is kept.

use crate::state::table::{Cell, Heading, Order, Row, SocketId, Table};
use sockeye_output::listing::{Align, Column, Record, SortValue, find_column};
use sockeye_output::table::Tint;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

/// What takes the rows of a sample.
pub(crate) trait Rows<R: Record> {
    /// Adds a row. `about` is called only if the row may be shown.
    ///
    /// # Errors
    /// Those of writing.
    fn add(&mut self, row: &R::Row<'_>, about: &dyn Fn() -> About) -> io::Result<()>;
}

/// What a row has in addition to its cells.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) id: u64,
    pub(crate) filter: Option<Box<str>>,
    pub(crate) socket: Option<SocketId>,
    /// Why it has no keepalive.
    pub(crate) no_keepalive: Option<&'static str>,
    pub(crate) capture: Option<Box<str>>,
    /// What Enter shows, if it is a text.
    pub(crate) text: Option<Box<str>>,
    /// What `explain` is asked about, if no cell says it.
    pub(crate) explained: Option<Box<str>>,
    pub(crate) rtt_us: Option<u32>,
    /// The addresses of both ends.
    pub(crate) ips: [Option<IpAddr>; 2],
}

/// Keeps the first [`ROWS_MAX`] rows.
pub(super) struct TopRows<R: Record> {
    columns: Vec<&'static Column<R>>,
    /// What rows are sorted by; `None`: the view has no such column, and the first ones are kept.
    order: Option<(&'static Column<R>, bool)>,
    rows: Vec<(Option<SortValue>, Row)>,
    count: usize,
    /// The sort value of the last row that is kept, once there are enough.
    last: Option<Option<SortValue>>,
    /// Addresses of rows that may be shown.
    addresses: BTreeSet<IpAddr>,
}

impl<R: Record> TopRows<R> {
    pub(super) fn new(columns: Vec<&'static Column<R>>, order: Order) -> Self {
        Self {
            columns,
            order: find_column(order.column)
                .ok()
                .map(|column| (column, order.descending)),
            rows: Vec::new(),
            count: 0,
            last: None,
            addresses: BTreeSet::new(),
        }
    }

    /// Returns the addresses of the rows that may be shown.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }

    /// Returns the rows in their order.
    pub(super) fn finish(mut self) -> Table {
        self.keep_first();
        let headings = self.columns.iter().map(|column| Heading {
            name: column.name,
            text: column.heading,
            is_right: column.align == Align::Right,
        });
        Table {
            headings: headings.collect(),
            left_out: self.count - self.rows.len(),
            rows: self.rows.into_iter().map(|(_, row)| row).collect(),
        }
    }

    fn keep_first(&mut self) {
        let descending = self.order.is_none_or(|(_, descending)| descending);
        self.rows
            .sort_by(|(a, _), (b, _)| SortValue::compare_known(a.as_ref(), b.as_ref(), descending));
        self.rows.truncate(ROWS_MAX);
        if self.rows.len() == ROWS_MAX {
            self.last = self.rows.last().map(|(value, _)| value.clone());
        }
    }

    fn cell(column: &Column<R>, row: &R::Row<'_>) -> Cell {
        let mut text = Vec::new();
        let tint = column.push_cell(&mut text, row);
        Cell {
            text: String::from_utf8_lossy(&text).into(),
            value: column.sort_value(row),
            tint: if text.is_empty() { Tint::Dim } else { tint },
        }
    }
}

impl<R: Record> Rows<R> for TopRows<R> {
    fn add(&mut self, row: &R::Row<'_>, about: &dyn Fn() -> About) -> io::Result<()> {
        self.count += 1;
        let value = self.order.and_then(|(column, _)| column.sort_value(row));
        let descending = self.order.is_none_or(|(_, descending)| descending);
        if let Some(last) = &self.last
            && SortValue::compare_known(value.as_ref(), last.as_ref(), descending) != Ordering::Less
        {
            return Ok(());
        }
        let About {
            id,
            filter,
            socket,
            no_keepalive,
            capture,
            text,
            explained,
            rtt_us,
            ips,
        } = about();
        self.addresses.extend(ips.into_iter().flatten());
        let cells = self
            .columns
            .iter()
            .map(|column| Self::cell(column, row))
            .collect();
        let row = Row {
            id,
            cells,
            filter,
            socket,
            no_keepalive,
            capture,
            text,
            explained,
            rtt_us,
        };
        self.rows.push((value, row));
        if self.rows.len() == 2 * ROWS_MAX {
            self.keep_first();
        }
        Ok(())
    }
}

/// Rows that are kept of a sample.
const ROWS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Entry, NoNames, Port, Protocol, Socket, State};
    use sockeye_output::listing::named_columns;
    use sockeye_output::socket::{SocketRow, Sockets, TcpValues};

    fn ports(count: u16, descending: bool) -> Table {
        let order = Order {
            column: "local_port",
            descending,
        };
        let mut rows = TopRows::<Sockets>::new(named_columns(&["local_port"]), order);
        for nth in 0..count {
            let mut socket = Socket::new(Protocol::Tcp, State::Established);
            // In no order.
            let port = (u32::from(nth) * 7919 % u32::from(count)) as u16;
            socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(port));
            let row = SocketRow {
                entry: Entry::new(&socket),
                names: &NoNames,
                tcp: TcpValues::NONE,
                rates: None,
                more: &[],
            };
            let about = || About {
                id: port.into(),
                ..About::default()
            };
            rows.add(&row, &about).unwrap();
        }
        rows.finish()
    }

    #[test]
    fn first_rows_are_kept_in_their_order() {
        let ids = |table: &Table| table.rows.iter().map(|row| row.id).collect::<Vec<_>>();
        let few = ports(3, true);
        assert_eq!((ids(&few), few.left_out), (vec![2, 1, 0], 0));
        let many = ports(20_000, true);
        assert_eq!(
            (ids(&many)[..3].to_vec(), many.rows.len(), many.left_out),
            (vec![19_999, 19_998, 19_997], 500, 19_500)
        );
        assert_eq!(ids(&ports(20_000, false)), (0..500).collect::<Vec<_>>());
    }
}
