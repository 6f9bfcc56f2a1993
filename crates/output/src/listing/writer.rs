//! The writer of all listings.

use super::column::{Column, Record, Series};
use super::sort::SortKey;
use super::sort_value::SortValue;
use crate::csv::{Line, WaitingRows};
use crate::date::{RFC3339_BYTES, replace_micros, replace_rfc3339_us};
use crate::envelope::Envelope;
use crate::format::{Format, Style, Summary};
use crate::json::{Key, Object, push_summary_fields};
use crate::rows::{Output, RowBuffer};
use crate::table::{Heading, Table};
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

/// How records are listed.
pub struct Layout<R: Record> {
    /// Output format.
    pub format: Format,
    /// Columns of a table or of CSV.
    pub columns: Vec<&'static Column<R>>,
    /// Columns of JSON records in addition to [`Record::columns`].
    pub more_json: Vec<&'static Column<R>>,
    /// What rows are sorted by; `None`: rows stream in the order in which they arrive.
    pub sort: Option<SortKey<R>>,
    /// Rows to write, the first after sorting; `usize::MAX` for all. [`ListingWriter::left_out`] counts the others.
    pub top: usize,
    /// Whether a table is for a live screen: a row is one line, and columns without a value other than zero are left out unless
    /// `keeps_columns`.
    pub live: bool,
    /// Whether the columns were chosen: none is left out because it has no values.
    pub keeps_columns: bool,
    /// Colours of a table.
    pub style: Style,
    /// Columns of the terminal that shows a table; `None`: not a terminal, nothing is squeezed or wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of a table or of CSV.
    pub no_header: bool,
    /// Whether each row of a table is followed by a line of details.
    pub has_details: bool,
    /// Whether an absent value in the last column is shown as `-`, as in the others.
    pub marks_last: bool,
    /// Whether the last column of a table counts with all of its first cells, even if these are long texts: it is then on a further line rather
    /// than wrapped by the terminal.
    pub has_whole_last: bool,
    /// Number of this listing among repeated ones, from 1; JSON and CSV show it.
    pub sample: Option<u64>,
    /// Time of the sample and origin, for JSON and CSV.
    pub envelope: Envelope,
    /// `type` of the JSON document.
    pub document_type: &'static str,
    /// `type` of a record in a JSON line.
    pub row_type: &'static str,
    /// Whether CSV leaves out the columns that no row fills. Then rows wait for the last one, up to [`WAITING_BYTES`]: a
    /// listing with more has all columns, and streams. Nothing is left out without a header, which says what columns are.
    pub leaves_out_empty: bool,
}

impl<R: Record> Clone for Layout<R> {
    fn clone(&self) -> Self {
        Self {
            columns: self.columns.clone(),
            more_json: self.more_json.clone(),
            ..*self
        }
    }
}

impl<R: Record> Layout<R> {
    /// A layout with these columns and nothing else.
    pub fn new(format: Format, columns: Vec<&'static Column<R>>) -> Self {
        Self {
            format,
            columns,
            more_json: Vec::new(),
            sort: None,
            top: usize::MAX,
            live: false,
            keeps_columns: false,
            style: Style::Plain,
            width: None,
            no_header: false,
            has_details: false,
            marks_last: false,
            has_whole_last: false,
            sample: None,
            envelope: Envelope::default(),
            document_type: R::KEY,
            row_type: R::ROW,
            leaves_out_empty: false,
        }
    }
}

/// Writes a listing: [`begin`](Self::begin), [`row`](Self::row) for each record, [`finish`](Self::finish).
///
/// Rows are written in pieces of 64 KiB, so the writer needs no buffer of its own. Errors of the writer are returned as
/// they are, a broken pipe too; after one the listing should be dropped.
pub struct ListingWriter<W, R: Record> {
    output: Output<W>,
    layout: Layout<R>,
    parts: Parts<R>,
    table: Table,
    rows: usize,
    /// Sort values of the rows so far, if rows are sorted.
    values: Vec<Option<SortValue>>,
    /// Rows so far, if rows are sorted and not in the table.
    buffered: RowBuffer,
    line: Vec<u8>,
    /// The rows of CSV that wait for the last one.
    waiting: Option<WaitingRows>,
}

/// What writes the rows of CSV and JSON: looked for once, not in each row.
struct Parts<R: Record> {
    /// What each row of CSV or JSON lines begins with: the envelope.
    begin: Vec<u8>,
    /// Where the time is in it.
    time: Option<usize>,
    csv: Vec<CsvPart<R>>,
    /// Columns that write JSON themselves, with their keys.
    json: Vec<(&'static Column<R>, Vec<Key>)>,
    /// The second of the time in `begin`.
    second: Option<u64>,
}

enum CsvPart<R: Record> {
    Column(&'static Column<R>),
    /// Columns of one structure, by their indices.
    Series(Series<R>, Range<u8>),
}

impl<R: Record> Parts<R> {
    fn of(layout: &Layout<R>) -> Self {
        let mut csv = Vec::new();
        for &column in &layout.columns {
            let Some(series) = column.series else {
                csv.push(CsvPart::Column(column));
                continue;
            };
            match csv.last_mut() {
                Some(CsvPart::Series(last, indices))
                    if std::ptr::fn_addr_eq(*last, series) && indices.end == column.index =>
                {
                    indices.end += 1;
                }
                _ => csv.push(CsvPart::Series(series, column.index..column.index + 1)),
            }
        }
        let columns = R::columns().iter().filter(|column| column.writes_json());
        let json = columns.map(|column| (column, column.prepared_keys()));
        let begin = match layout.format {
            Format::Csv => layout.envelope.csv_fields(),
            Format::Jsonl => layout.envelope.line_begin(layout.row_type),
            Format::Table | Format::Json => Vec::new(),
        };
        let time = layout.envelope.time();
        Self {
            time: begin
                .windows(RFC3339_BYTES)
                .position(|window| window == time.as_bytes()),
            begin,
            csv,
            json: json.collect(),
            second: None,
        }
    }
}

impl<W: Write, R: Record> ListingWriter<W, R> {
    /// Creates a listing into `writer`; nothing is written yet.
    pub fn new(writer: W, mut layout: Layout<R>) -> Self {
        if layout.format == Format::Csv {
            leave_out_parts(&mut layout.columns);
        }
        let last = layout.columns.len().saturating_sub(1);
        let headings = layout.columns.iter().enumerate().map(|(nth, column)| {
            let heading = Heading::new(column.heading, column.align).for_later(column.later_width.into());
            let heading = if column.is_uncapped {
                heading.uncapped()
            } else {
                heading
            };
            if layout.has_whole_last && nth == last {
                heading.breaking(true)
            } else {
                heading
            }
        });
        let mut table = Table::new(headings.collect(), layout.style, layout.width);
        table.no_header = layout.no_header;
        table.buffers_all = layout.sort.is_some() || layout.live;
        table.live = layout.live;
        table.drops_empty = layout.live && !layout.keeps_columns;
        table.has_details = layout.has_details;
        Self {
            output: Output::new(writer),
            parts: Parts::of(&layout),
            waiting: None,
            layout,
            table,
            rows: 0,
            values: Vec::new(),
            buffered: RowBuffer::default(),
            line: Vec::new(),
        }
    }

    /// Opens the document or writes the header. A table's header waits for the first rows.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(&mut self) -> io::Result<()> {
        let bytes = &mut self.output.bytes;
        match self.layout.format {
            Format::Json => {
                let mut document = Object::begin(bytes);
                self.layout
                    .envelope
                    .push(&mut document, self.layout.document_type);
                document.number("sample", self.layout.sample);
                document.key(R::KEY).push(b'[');
            }
            Format::Csv if !self.layout.no_header => {
                let sample = self.layout.sample.map(|_| "sample");
                let columns = self.layout.columns.iter();
                let fields = [self.layout.envelope.csv_header()]
                    .into_iter()
                    .chain(sample)
                    .chain(columns.flat_map(|column| column.csv_fields()).copied());
                let header = fields.collect::<Vec<_>>().join(",").into_bytes();
                if self.layout.leaves_out_empty {
                    self.waiting = Some(WaitingRows::new(header, &self.parts.begin));
                } else {
                    bytes.extend_from_slice(&header);
                    bytes.extend_from_slice(b"\r\n");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Announces a record that will be written, after [`begin`](Self::begin). CSV that leaves out columns writes rows twice if a later
    /// one fills a further column: this avoids it where the last rows differ from the first.
    pub fn announce(&mut self, row: &R::Row<'_>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.announce(|line| push_csv(line, &self.layout, &self.parts, row));
        }
    }

    /// Writes a record, or buffers it if rows are sorted.
    ///
    /// # Errors
    /// Those of the writer.
    #[inline]
    pub fn row(&mut self, row: &R::Row<'_>) -> io::Result<()> {
        self.row_with_details(row, |_| ())
    }

    /// Writes a record and, in a table, the line of details that `details` appends.
    ///
    /// # Errors
    /// Those of the writer.
    #[inline]
    pub fn row_with_details(
        &mut self,
        row: &R::Row<'_>,
        details: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        if self.layout.sort.is_none() && self.rows >= self.layout.top {
            self.rows += 1;
            return Ok(());
        }
        if let Some(key) = &self.layout.sort {
            self.values.push(key.column.sort_value(row));
        }
        if self.layout.format == Format::Table {
            for column in &self.layout.columns {
                let cell = self.table.cell();
                let start = cell.len();
                let tint = column.push_cell(cell, row);
                if self.layout.marks_last && cell.len() == start {
                    cell.push(b'-');
                }
                self.table.end_cell(tint);
            }
            if self.layout.has_details {
                details(self.table.cell());
                self.table.end_details();
            }
            self.table.end_row(&mut self.output.bytes);
        } else if self.layout.sort.is_some() {
            self.line.clear();
            push_row(&mut self.line, &self.layout, &self.parts, row);
            self.buffered.push(&self.line);
        } else if let Some(waiting) = &mut self.waiting {
            waiting.push(|line| push_csv(line, &self.layout, &self.parts, row));
            self.rows += 1;
            return self.limit_waiting();
        } else {
            if self.layout.format == Format::Json {
                let between: &[u8] = if self.rows == 0 { b"\n" } else { b",\n" };
                self.output.bytes.extend_from_slice(between);
            }
            push_row(&mut self.output.bytes, &self.layout, &self.parts, row);
        }
        self.rows += 1;
        self.output.write_large()
    }

    /// Writes the rows that wait if they are very many: with all columns.
    #[inline]
    fn limit_waiting(&mut self) -> io::Result<()> {
        match self
            .waiting
            .take_if(|waiting| waiting.whole_len() >= WAITING_BYTES)
        {
            Some(waiting) => waiting.finish(true, |piece| self.output.push(piece)),
            None => Ok(()),
        }
    }

    /// Writes the buffered rows, closes the document and flushes. JSON and JSON lines end with the summary. Tables and CSV
    /// have none: the caller shows it elsewhere.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&mut self, summary: &Summary<'_>) -> io::Result<()> {
        self.finish_with(summary, |_| ())
    }

    /// As [`finish`](Self::finish), with further fields before the summary.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish_with(
        &mut self,
        summary: &Summary<'_>,
        fields: impl FnOnce(&mut Object<'_>),
    ) -> io::Result<()> {
        let values = std::mem::take(&mut self.values);
        let mut order = self.layout.sort.as_ref().map(|key| key.order(&values));
        if self.layout.format == Format::Table {
            if let Some(sorted) = order.take_if(|_| self.layout.live) {
                // Widths and columns are those of the rows on the screen.
                self.table.select_rows(sorted.into_iter().take(self.layout.top));
            }
            self.table.begin_rows(&mut self.output.bytes);
            for index in 0..self.table.buffered_rows().min(self.layout.top) {
                let index = order.as_ref().map_or(index, |order| order[index]);
                self.table.push_buffered(index, &mut self.output.bytes);
                self.output.write_large()?;
            }
            self.table.clear_buffered();
            return self.output.flush();
        }
        for (nth, &index) in order.iter().flatten().take(self.layout.top).enumerate() {
            if self.layout.format == Format::Json {
                let between: &[u8] = if nth == 0 { b"\n" } else { b",\n" };
                self.output.bytes.extend_from_slice(between);
            }
            if let Some(waiting) = &mut self.waiting {
                waiting.push_written(self.buffered.row(index));
                self.limit_waiting()?;
            } else {
                self.output.push(self.buffered.row(index))?;
            }
        }
        let bytes = &mut self.output.bytes;
        match self.layout.format {
            Format::Json => {
                bytes.extend_from_slice(b"\n],\n");
                push_document_end(&mut Object::inside(bytes), summary, fields);
                bytes.extend_from_slice(b"}\n");
            }
            Format::Jsonl => {
                let envelope = &self.layout.envelope;
                envelope.push_summary_line(bytes, self.layout.document_type, |object| {
                    object.number("sample", self.layout.sample);
                    push_document_end(object, summary, fields);
                });
            }
            Format::Csv => {
                if let Some(waiting) = self.waiting.take() {
                    waiting.finish(false, |piece| self.output.push(piece))?;
                }
            }
            Format::Table => {}
        }
        self.output.flush()
    }

    /// Writes the rows that are ready to be written, for a listing that pauses. A table settles its widths.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.layout.format == Format::Table && self.layout.sort.is_none() {
            self.table.settle(&mut self.output.bytes);
        }
        // What waits is not in it.
        self.output.flush()
    }

    /// Returns a listing for the rows of another thread, in the same layout; `None` if rows depend on each other: if they are sorted or
    /// counted, or wait for others, or the widths of a table are not settled yet.
    ///
    /// Both write whole rows, so that pieces of both can follow each other, after what this one has written so far: it has to be
    /// [flushed](Self::flush) first. A cell that is wider than its column widens it on its own thread only. The other listing ends with
    /// [`flush`](Self::flush), and this one with [`finish`](Self::finish) after [`add_rows`](Self::add_rows).
    pub fn for_thread<V: Write>(&self, writer: V) -> Option<ListingWriter<V, R>> {
        let is_ready = match self.layout.format {
            Format::Table => self.table.is_settled() && !self.layout.live,
            // The first row of a document has no comma before it.
            Format::Json | Format::Jsonl => self.rows > 0,
            Format::Csv => self.waiting.is_none(),
        };
        let are_independent = self.layout.sort.is_none() && self.layout.top == usize::MAX;
        (is_ready && are_independent).then(|| ListingWriter {
            output: Output::new(writer),
            parts: Parts::of(&self.layout),
            waiting: None,
            layout: self.layout.clone(),
            table: self.table.for_thread(),
            rows: self.rows,
            values: Vec::new(),
            buffered: RowBuffer::default(),
            line: Vec::new(),
        })
    }

    /// Writes rows that another thread rendered, whose listing [`for_thread`](Self::for_thread) made.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn push_rows(&mut self, rendered: &[u8], rows: usize) -> io::Result<()> {
        self.rows += rows;
        self.output.push(rendered)
    }

    /// Counts rows that another thread wrote.
    pub const fn add_rows(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Sets the time of the following rows, in microseconds since 1970; for records that have their own.
    pub fn set_time(&mut self, time_us: u64) {
        self.layout.envelope.time_us = time_us;
        let Parts {
            begin, time, second, ..
        } = &mut self.parts;
        if let Some(text) = time.and_then(|at| begin.get_mut(at..)?.first_chunk_mut()) {
            let now = time_us / 1_000_000;
            if *second == Some(now) {
                replace_micros(text, time_us);
            } else {
                *second = Some(now);
                replace_rfc3339_us(text, time_us);
            }
        }
    }

    /// Sets the number of the sample of the summaries that follow.
    pub const fn set_sample(&mut self, sample: Option<u64>) {
        self.layout.sample = sample;
    }

    /// Returns the number of rows that [`Layout::top`] leaves out so far.
    pub fn left_out(&self) -> usize {
        self.rows.saturating_sub(self.layout.top)
    }

    /// Returns the number of rows so far, with those that are left out.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns that a narrow terminal leaves out, once the rows are written.
    pub fn columns_left_out(&self) -> usize {
        self.table.columns_left_out
    }

    /// Returns the writer; bytes that are not yet written are dropped.
    pub fn into_inner(self) -> W {
        self.output.into_inner()
    }
}

/// Leaves out columns all of whose CSV fields another one has: each field is there once.
fn leave_out_parts<R: Record>(columns: &mut Vec<&'static Column<R>>) {
    let all = columns.clone();
    columns.retain(|column| {
        let has_all = |other: &&Column<R>| {
            let fields = other.csv_fields();
            column.csv_fields().iter().all(|field| fields.contains(field))
        };
        !all.iter().any(|other| other != column && has_all(other))
    });
}

/// Appends a record as JSON, a JSON line or CSV.
#[inline]
fn push_row<R: Record>(out: &mut Vec<u8>, layout: &Layout<R>, parts: &Parts<R>, row: &R::Row<'_>) {
    if layout.format == Format::Csv {
        let mut line = Line::begin(out);
        push_csv(&mut line, layout, parts, row);
        line.end();
        return;
    }
    let mut object;
    if layout.format == Format::Jsonl {
        out.extend_from_slice(&parts.begin);
        object = Object::continued(out);
        object.number("sample", layout.sample);
    } else {
        object = Object::begin(out);
    }
    for (column, keys) in &parts.json {
        column.push_prepared_json(&mut object, keys, row);
    }
    R::push_objects(&mut object, row);
    for column in &layout.more_json {
        column.push_json(&mut object, row);
    }
    object.end();
    if layout.format == Format::Jsonl {
        out.push(b'\n');
    }
}

/// Appends the fields of a record.
#[inline]
fn push_csv<R: Record>(line: &mut Line<'_>, layout: &Layout<R>, parts: &Parts<R>, row: &R::Row<'_>) {
    line.constants(&parts.begin);
    if layout.sample.is_some() {
        line.number(layout.sample);
    }
    for part in &parts.csv {
        match part {
            CsvPart::Column(column) => column.push_csv(line, row),
            CsvPart::Series(series, indices) => series(line, row, indices.clone()),
        }
    }
}

/// Appends a record as a JSON object, for a document that has records of two kinds.
pub fn push_json_row<R: Record>(out: &mut Vec<u8>, row: &R::Row<'_>) {
    let mut object = Object::begin(out);
    for column in R::columns().iter().filter(|column| column.writes_json()) {
        column.push_json(&mut object, row);
    }
    R::push_objects(&mut object, row);
    object.end();
}

/// Writes the fields that end a document: those that `fields` writes, then the summary.
fn push_document_end(object: &mut Object<'_>, summary: &Summary<'_>, fields: impl FnOnce(&mut Object<'_>)) {
    fields(object);
    push_summary_fields(object, summary);
}

/// Most bytes of CSV that wait for the last row, to leave out the columns that none fills: some 200,000 sockets.
pub const WAITING_BYTES: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

impl<R: Record> fmt::Debug for Layout<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("format", &self.format)
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl<W, R: Record> fmt::Debug for ListingWriter<W, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingWriter")
            .field("layout", &self.layout)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
