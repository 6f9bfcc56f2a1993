use crate::cell::{self, Scratch};
use crate::column::SocketColumn;
use crate::csv::{self, CsvColumns};
use crate::format::{Format, Style, Summary};
use crate::rows::{Kept, Output};
use crate::sort::{self, SortKey, Value};
use crate::table::{Heading, Table};
use crate::{json, socket_json, tcp_words};
use sockeye_model::{Entry, Names};
use std::io::{self, Write};

/// How sockets are to be listed.
#[derive(Debug, Clone, Default)]
pub struct SocketLayout {
    /// In which form.
    pub format: Format,
    /// The columns of a table or of CSV; `None`: those of `details` in a table, all in CSV. JSON always
    /// has everything that is known.
    pub columns: Option<Vec<SocketColumn>>,
    /// What a table shows beyond state, queues and addresses.
    pub details: Details,
    /// By what rows are sorted; `None`: they stream in the order in which they come.
    pub sort: Option<SortKey>,
    /// Colours of a table.
    pub style: Style,
    /// Columns of the terminal behind a table; `None`: not a terminal, nothing is squeezed or wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of a table or of CSV.
    pub no_header: bool,
}

/// What a table shows beyond state, queues and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Details {
    /// Protocol, where several are listed.
    pub netid: bool,
    /// Namespace, where several are listed.
    pub netns: bool,
    /// Who holds them (`-p`).
    pub owners: bool,
    /// Timers (`-o`).
    pub timers: bool,
    /// User, inode, cookie, mark, cgroup (`-e`).
    pub extended: bool,
    /// Memory (`-m`).
    pub memory: bool,
    /// tcp_info and MPTCP's info, in words, on a line of its own below each socket (`-i`).
    pub info: bool,
}

impl Details {
    /// The columns of a table with these details.
    #[must_use]
    pub fn columns(&self) -> Vec<SocketColumn> {
        use SocketColumn as C;
        let groups: [(bool, &[C]); 8] = [
            (self.netns, &[C::Netns]),
            (self.netid, &[C::Netid]),
            (true, &[C::State, C::RecvQ, C::SendQ, C::Local, C::Peer]),
            (self.timers, &[C::Timer]),
            (self.extended, &[C::User, C::Inode, C::Cookie, C::Mark]),
            (self.memory, &[C::Memory]),
            (self.extended, &[C::Cgroup]),
            (self.owners, &[C::Process]),
        ];
        let shown = groups.into_iter().filter(|(shown, _)| *shown);
        shown.flat_map(|(_, columns)| columns.iter().copied()).collect()
    }
}

/// Writes a listing of sockets: [`begin`](Self::begin), [`row`](Self::row) for each, [`finish`](Self::finish).
///
/// Rows are written in pieces of 64 KiB, so the writer needs no buffer of its own. Errors of the writer
/// are handed on as they are, a broken pipe too; after one the listing should be dropped.
#[derive(Debug)]
pub struct SocketWriter<W> {
    output: Output<W>,
    body: Body,
    sort: Option<SortKey>,
    /// Of each row so far, if rows are sorted.
    values: Vec<Option<Value>>,
    scratch: Scratch,
    no_header: bool,
}

#[derive(Debug)]
enum Body {
    Table {
        table: Table,
        columns: Vec<SocketColumn>,
        info: bool,
    },
    Json {
        rows: usize,
        line: Vec<u8>,
        kept: Kept,
    },
    Jsonl {
        line: Vec<u8>,
        kept: Kept,
    },
    Csv {
        columns: CsvColumns,
        line: Vec<u8>,
        kept: Kept,
    },
}

impl<W: Write> SocketWriter<W> {
    /// A listing into `writer`; nothing is written yet.
    pub fn new(writer: W, layout: SocketLayout) -> Self {
        let body = match layout.format {
            Format::Table => {
                let columns = layout.columns.unwrap_or_else(|| layout.details.columns());
                let headings = columns
                    .iter()
                    .map(|column| Heading::new(&column.header(), column.align()));
                let mut table = Table::new(headings.collect(), layout.style, layout.width);
                table.no_header = layout.no_header;
                table.holds_all = layout.sort.is_some();
                table.has_details = layout.details.info;
                Body::Table {
                    table,
                    columns,
                    info: layout.details.info,
                }
            }
            Format::Json => Body::Json {
                rows: 0,
                line: Vec::new(),
                kept: Kept::default(),
            },
            Format::Jsonl => Body::Jsonl {
                line: Vec::new(),
                kept: Kept::default(),
            },
            Format::Csv => Body::Csv {
                columns: CsvColumns::new(layout.columns.unwrap_or_else(SocketColumn::all)),
                line: Vec::new(),
                kept: Kept::default(),
            },
        };
        Self {
            output: Output::new(writer),
            body,
            sort: layout.sort,
            values: Vec::new(),
            scratch: Scratch::default(),
            no_header: layout.no_header,
        }
    }

    /// Opens the document or writes the header. A table's header waits for the first rows.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(&mut self) -> io::Result<()> {
        match &self.body {
            Body::Json { .. } => self.output.bytes.extend_from_slice(b"{\"sockets\":["),
            Body::Csv { columns, .. } if !self.no_header => columns.push_header(&mut self.output.bytes),
            _ => {}
        }
        Ok(())
    }

    /// Writes a socket, or keeps it if rows are sorted.
    ///
    /// # Errors
    /// Those of the writer.
    #[inline]
    pub fn row(&mut self, entry: &Entry<'_>, names: &dyn Names) -> io::Result<()> {
        let sorted = self.sort.is_some();
        if let Some(key) = self.sort {
            self.values.push(sort::value(key.column, entry, names));
        }
        match &mut self.body {
            Body::Table { table, columns, info } => {
                cell::push_row(table, columns, entry, names, &mut self.scratch);
                if *info {
                    tcp_words::push(table.cell(), entry.socket);
                    table.end_details();
                }
                table.end_row(&mut self.output.bytes);
            }
            Body::Json { rows, line, kept } => {
                let bytes = if sorted { line } else { &mut self.output.bytes };
                if !sorted && *rows > 0 {
                    bytes.push(b',');
                }
                *rows += 1;
                if !sorted {
                    bytes.push(b'\n');
                }
                socket_json::push(bytes, entry, names);
                if sorted {
                    kept.push(bytes);
                    bytes.clear();
                }
            }
            Body::Jsonl { line, kept } => {
                let bytes = if sorted { line } else { &mut self.output.bytes };
                socket_json::push(bytes, entry, names);
                bytes.push(b'\n');
                if sorted {
                    kept.push(bytes);
                    bytes.clear();
                }
            }
            Body::Csv { columns, line, kept } => {
                let bytes = if sorted { line } else { &mut self.output.bytes };
                csv::push_socket(bytes, columns, entry, names, &mut self.scratch);
                if sorted {
                    kept.push(bytes);
                    bytes.clear();
                }
            }
        }
        self.output.write_large()
    }

    /// Writes what was kept, closes the document and flushes.
    ///
    /// JSON ends with what was lost and what was read; JSON lines do so only if something was lost or the
    /// listing was interrupted. Tables and CSV have no place for it: the caller says it elsewhere.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&mut self, summary: &Summary<'_>) -> io::Result<()> {
        let order = self.order();
        match &mut self.body {
            Body::Table { table, .. } => {
                table.begin_rows(&mut self.output.bytes);
                for place in 0..table.held() {
                    let place = order.as_ref().map_or(place, |order| order[place]);
                    table.push_held(place, &mut self.output.bytes);
                    self.output.write_large()?;
                }
                table.forget_held();
            }
            Body::Json { kept, .. } => {
                for (nth, &place) in order.iter().flatten().enumerate() {
                    self.output
                        .bytes
                        .extend_from_slice(if nth == 0 { b"\n" } else { b",\n" });
                    self.output.bytes.extend_from_slice(kept.row(place));
                    self.output.write_large()?;
                }
                self.output.bytes.extend_from_slice(b"\n],\n");
                json::push_summary_fields(&mut self.output.bytes, summary);
                self.output.bytes.extend_from_slice(b"}\n");
            }
            Body::Jsonl { kept, .. } | Body::Csv { kept, .. } => {
                for &place in order.iter().flatten() {
                    self.output.bytes.extend_from_slice(kept.row(place));
                    self.output.write_large()?;
                }
                if matches!(self.body, Body::Jsonl { .. }) && summary.is_incomplete() {
                    json::push_summary_line(&mut self.output.bytes, summary);
                }
            }
        }
        self.output.flush()
    }

    /// Writes the rows that are ready to be written, for a listing that pauses. A table settles its widths.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Body::Table { table, .. } = &mut self.body
            && self.sort.is_none()
        {
            table.settle(&mut self.output.bytes);
        }
        self.output.flush()
    }

    /// The writer, without what was not yet written.
    pub fn into_inner(self) -> W {
        self.output.into_inner()
    }

    /// In which order the kept rows go out, if they were kept.
    fn order(&mut self) -> Option<Vec<usize>> {
        let key = self.sort?;
        let values = std::mem::take(&mut self.values);
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| key.compare(values[a].as_ref(), values[b].as_ref()));
        Some(order)
    }
}
