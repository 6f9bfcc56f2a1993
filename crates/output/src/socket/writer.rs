//! The writer of listings of sockets.

use super::row::{SocketRow, TcpValues};
use super::{Sockets, tcp_words};
use crate::envelope::Envelope;
use crate::format::{Format, Style, Summary};
use crate::json::Object;
use crate::listing::{Column, Layout, ListingWriter, SortKey, Value, all_columns, named_columns};
use sockeye_model::{Detail, Entry, Names, SocketRates};
use std::io::{self, Write};

/// How sockets are listed.
#[derive(Debug, Clone, Default)]
pub struct SocketLayout {
    /// Output format.
    pub format: Format,
    /// The columns of a table or of CSV; `None`: those of `details` in a table, all that a row fills in CSV. JSON always has every known
    /// value.
    pub columns: Option<Vec<&'static Column<Sockets>>>,
    /// What a table shows beyond state, queues and addresses.
    pub details: Details,
    /// What rows are sorted by; `None`: rows stream in the order in which they arrive.
    pub sort: Option<SortKey<Sockets>>,
    /// Rows to write; `None`: all.
    pub top: Option<usize>,
    /// Number of this listing among repeated ones, from 1; JSON and CSV show it. `None`: it is not repeated.
    pub sample: Option<u64>,
    /// Whether a table is for a live screen, in which a row is one line.
    pub live: bool,
    /// Colours of a table.
    pub style: Style,
    /// Columns of the terminal that shows a table; `None`: not a terminal, nothing is squeezed or wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of a table or of CSV.
    pub no_header: bool,
    /// Time of the sample and origin, for JSON and CSV.
    pub envelope: Envelope,
}

/// What a table shows beyond state, queues and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Details {
    /// Protocol, for listings of several.
    pub netid: bool,
    /// Namespace, for listings of several.
    pub netns: bool,
    /// Owner processes (`-p`).
    pub owners: bool,
    /// Timers (`-o`).
    pub timers: bool,
    /// User, inode, cookie, mark, cgroup (`-e`).
    pub extended: bool,
    /// Memory (`-m`).
    pub memory: bool,
    /// tcp_info and MPTCP's info as text, on a separate line below each socket (`-i`).
    pub info: bool,
    /// Changes per second since the sample before (`--watch`).
    pub rates: bool,
}

/// What is read only on request.
const COSTLY: [Detail; 3] = [Detail::TCP_INFO, Detail::CONGESTION, Detail::MEMORY];

impl Details {
    /// What these details and a sort key need of [`COSTLY`].
    fn asked(&self, sort: Option<SortKey<Sockets>>) -> Detail {
        let sort = sort.map_or(Detail::NONE, |key| key.column.needs);
        Detail::MEMORY.when(self.memory) | (Detail::TCP_INFO | Detail::CONGESTION).when(self.info) | sort
    }

    /// Returns the columns of a table with these details.
    #[must_use]
    pub fn columns(&self) -> Vec<&'static Column<Sockets>> {
        let groups: [(bool, &[&str]); 9] = [
            (self.netns, &["netns"]),
            (self.netid, &["netid"]),
            (
                true,
                &["state", "recv_queue_bytes", "send_queue_bytes", "local", "peer"],
            ),
            (
                self.rates,
                &["sent_bytes_per_s", "received_bytes_per_s", "retrans_segs_per_s"],
            ),
            (self.timers, &["timer"]),
            (self.extended, &["user", "inode", "cookie", "mark"]),
            (self.memory, &["memory"]),
            (self.extended, &["cgroup"]),
            (self.owners, &["owners"]),
        ];
        let shown = groups.into_iter().filter(|(shown, _)| *shown);
        shown.flat_map(|(_, names)| named_columns(names)).collect()
    }
}

/// Writes a listing of sockets: [`begin`](Self::begin), [`row`](Self::row) for each, [`finish`](Self::finish).
///
/// It adds to [`ListingWriter`] that the fields of tcp_info are gathered once for each row, and that a table may have them
/// as text on a line below each socket.
#[derive(Debug)]
pub struct SocketWriter<W> {
    listing: ListingWriter<W, Sockets>,
    /// Whether tcp_info is shown as text.
    info: bool,
    /// Whether a column shows a field of tcp_info.
    needs_tcp: bool,
}

impl<W: Write> SocketWriter<W> {
    /// Creates a listing into `writer`; nothing is written yet.
    pub fn new(writer: W, layout: SocketLayout) -> Self {
        let info = layout.details.info && layout.format == Format::Table;
        let leaves_out_empty = layout.columns.is_none() && layout.sample.is_none();
        let keeps_columns = layout.columns.is_some();
        let columns = layout.columns.unwrap_or_else(|| match layout.format {
            // One header is for all samples, of which the first has no rates.
            Format::Csv if layout.sample.is_some() => Details {
                rates: true,
                ..layout.details
            }
            .columns(),
            Format::Csv if layout.no_header => all_columns().filter(|column| !is_rate(column)).collect(),
            // The kernel was not asked for the others: no row can fill them.
            Format::Csv => {
                let asked = layout.details.asked(layout.sort);
                let is_asked = |column: &&Column<Sockets>| {
                    let mut costly = COSTLY.into_iter();
                    costly.all(|detail| !column.needs.contains(detail) || asked.contains(detail))
                };
                all_columns()
                    .filter(is_asked)
                    .filter(|column| !is_rate(column))
                    .collect()
            }
            _ => layout.details.columns(),
        });
        let mut listing = Layout::new(layout.format, columns);
        listing.sort = layout.sort;
        listing.top = layout.top.unwrap_or(usize::MAX);
        listing.sample = layout.sample;
        listing.live = layout.live;
        listing.keeps_columns = keeps_columns;
        listing.style = layout.style;
        listing.width = layout.width;
        listing.no_header = layout.no_header;
        listing.has_details = info;
        listing.envelope = layout.envelope;
        listing.leaves_out_empty = leaves_out_empty;
        Self::with_columns(writer, listing)
    }

    /// Creates a listing with any columns, also those that show the further values of [`row_with`](Self::row_with).
    pub fn with_columns(writer: W, layout: Layout<Sockets>) -> Self {
        let sort = layout.sort.map(|key| key.column);
        let mut shown = layout.columns.iter().copied().chain(sort);
        Self {
            info: layout.has_details,
            needs_tcp: shown.any(|column| column.needs.contains(Detail::TCP_INFO)),
            listing: ListingWriter::new(writer, layout),
        }
    }

    /// Opens the document or writes the header. A table's header waits for the first rows.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(&mut self) -> io::Result<()> {
        self.listing.begin()
    }

    /// Writes a socket, or buffers it if rows are sorted.
    ///
    /// # Errors
    /// Those of the writer.
    #[inline]
    pub fn row(&mut self, entry: &Entry<'_>, names: &dyn Names) -> io::Result<()> {
        self.row_with(entry, names, &[])
    }

    /// Writes a socket with further values, for columns that are not those of all sockets.
    ///
    /// # Errors
    /// Those of the writer.
    #[inline]
    pub fn row_with(&mut self, entry: &Entry<'_>, names: &dyn Names, more: &[Value<'_>]) -> io::Result<()> {
        self.push(entry, names, None, more)
    }

    /// Writes a socket with its changes since the sample before.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn row_with_rates(
        &mut self,
        entry: &Entry<'_>,
        names: &dyn Names,
        rates: Option<SocketRates>,
    ) -> io::Result<()> {
        self.push(entry, names, rates, &[])
    }

    #[inline]
    fn push(
        &mut self,
        entry: &Entry<'_>,
        names: &dyn Names,
        rates: Option<SocketRates>,
        more: &[Value<'_>],
    ) -> io::Result<()> {
        let gathered;
        let tcp = if self.needs_tcp {
            gathered = TcpValues::of(entry);
            &gathered
        } else {
            TcpValues::NONE
        };
        let row = SocketRow {
            entry: *entry,
            names,
            tcp,
            rates,
            more,
        };
        if self.info {
            self.listing
                .row_with_details(&row, |out| tcp_words::push(out, entry.socket))
        } else {
            self.listing.row(&row)
        }
    }

    /// Writes the buffered rows, closes the document and flushes: [`ListingWriter::finish`].
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&mut self, summary: &Summary<'_>) -> io::Result<()> {
        self.listing.finish(summary)
    }

    /// As [`finish`](Self::finish); JSON has the fields that `fields` writes before the summary.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish_with(
        &mut self,
        summary: &Summary<'_>,
        fields: impl FnOnce(&mut Object<'_>),
    ) -> io::Result<()> {
        self.listing.finish_with(summary, fields)
    }

    /// Writes the rows that are ready to be written: [`ListingWriter::flush`].
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.listing.flush()
    }

    /// Returns a listing for the rows of another thread: [`ListingWriter::for_thread`].
    pub fn for_thread<V: Write>(&self, writer: V) -> Option<SocketWriter<V>> {
        Some(SocketWriter {
            listing: self.listing.for_thread(writer)?,
            info: self.info,
            needs_tcp: self.needs_tcp,
        })
    }

    /// Counts rows that another thread wrote.
    pub const fn add_rows(&mut self, rows: usize) {
        self.listing.add_rows(rows);
    }

    /// Returns the listing, with the numbers of its rows and columns.
    pub const fn listing(&self) -> &ListingWriter<W, Sockets> {
        &self.listing
    }

    /// Returns the writer; bytes that are not yet written are dropped.
    pub fn into_inner(self) -> W {
        self.listing.into_inner()
    }
}

/// Whether a column has a change between two samples.
fn is_rate(column: &Column<Sockets>) -> bool {
    column.json_paths().iter().any(|path| path.starts_with("rates."))
}
