//! The writer of all listings.

use super::column::{Column, Record, Series};
use super::sort::SortKey;
use super::sort_value::SortValue;
use crate::csv::Line;
use crate::format::{Format, Style, Summary};
use crate::json::{Object, push_summary_fields};
use crate::number::push_decimal;
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
    /// Number of this listing among repeated ones, from 1; JSON and CSV show it.
    pub sample: Option<u64>,
}

impl<R: Record> Layout<R> {
    /// A layout with these columns and nothing else.
    pub fn new(format: Format, columns: Vec<&'static Column<R>>) -> Self {
        Self {
            format,
            columns,
            more_json: Vec::new(),
            sort: None,
            style: Style::Plain,
            width: None,
            no_header: false,
            has_details: false,
            marks_last: false,
            sample: None,
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
}

/// What writes the rows of CSV and JSON: looked for once, not in each row.
struct Parts<R: Record> {
    csv: Vec<CsvPart<R>>,
    /// Columns that write JSON themselves.
    json: Vec<&'static Column<R>>,
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
        let json = R::columns().iter().filter(|column| column.writes_json());
        Self {
            csv,
            json: json.collect(),
        }
    }
}

impl<W: Write, R: Record> ListingWriter<W, R> {
    /// Creates a listing into `writer`; nothing is written yet.
    pub fn new(writer: W, layout: Layout<R>) -> Self {
        let headings = layout
            .columns
            .iter()
            .map(|column| Heading::new(column.heading, column.align));
        let mut table = Table::new(headings.collect(), layout.style, layout.width);
        table.no_header = layout.no_header;
        table.buffers_all = layout.sort.is_some();
        table.has_details = layout.has_details;
        Self {
            output: Output::new(writer),
            parts: Parts::of(&layout),
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
                bytes.push(b'{');
                if let Some(sample) = self.layout.sample {
                    bytes.extend_from_slice(b"\"sample\":");
                    push_decimal(bytes, sample);
                    bytes.push(b',');
                }
                bytes.push(b'"');
                bytes.extend_from_slice(R::KEY.as_bytes());
                bytes.extend_from_slice(b"\":[");
            }
            Format::Csv if !self.layout.no_header => {
                let sample = self.layout.sample.map(|_| "sample");
                let columns = self.layout.columns.iter();
                let fields = sample
                    .into_iter()
                    .chain(columns.flat_map(|column| column.csv_fields()).copied());
                bytes.extend_from_slice(fields.collect::<Vec<_>>().join(",").as_bytes());
                bytes.extend_from_slice(b"\r\n");
            }
            _ => {}
        }
        Ok(())
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

    /// Writes the buffered rows, closes the document and flushes. JSON ends with the summary; JSON lines do so only if
    /// something was lost or the listing was interrupted. Tables and CSV have no summary: the caller shows it elsewhere.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&mut self, summary: &Summary<'_>) -> io::Result<()> {
        self.finish_with(summary, summary.is_incomplete(), |_| ())
    }

    /// As [`finish`](Self::finish), with further fields at the end of JSON. `summary_line`: whether JSON lines end with
    /// a summary too.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish_with(
        &mut self,
        summary: &Summary<'_>,
        summary_line: bool,
        fields: impl FnOnce(&mut Object<'_>),
    ) -> io::Result<()> {
        let values = std::mem::take(&mut self.values);
        let order = self.layout.sort.as_ref().map(|key| key.order(&values));
        if self.layout.format == Format::Table {
            self.table.begin_rows(&mut self.output.bytes);
            for index in 0..self.table.buffered_rows() {
                let index = order.as_ref().map_or(index, |order| order[index]);
                self.table.push_buffered(index, &mut self.output.bytes);
                self.output.write_large()?;
            }
            self.table.clear_buffered();
            return self.output.flush();
        }
        for (nth, &index) in order.iter().flatten().enumerate() {
            if self.layout.format == Format::Json {
                let between: &[u8] = if nth == 0 { b"\n" } else { b",\n" };
                self.output.bytes.extend_from_slice(between);
            }
            self.output.bytes.extend_from_slice(self.buffered.row(index));
            self.output.write_large()?;
        }
        let bytes = &mut self.output.bytes;
        match self.layout.format {
            Format::Json => {
                bytes.extend_from_slice(b"\n],\n");
                push_document_end(bytes, summary, fields);
                bytes.extend_from_slice(b"}\n");
            }
            Format::Jsonl if summary_line => {
                bytes.extend_from_slice(b"{\"summary\":{");
                push_document_end(bytes, summary, fields);
                bytes.extend_from_slice(b"}}\n");
            }
            _ => {}
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
        self.output.flush()
    }

    /// Returns the writer; bytes that are not yet written are dropped.
    pub fn into_inner(self) -> W {
        self.output.into_inner()
    }
}

/// Appends a record as JSON, a JSON line or CSV.
#[inline]
fn push_row<R: Record>(out: &mut Vec<u8>, layout: &Layout<R>, parts: &Parts<R>, row: &R::Row<'_>) {
    if layout.format == Format::Csv {
        let mut line = Line::begin(out);
        if layout.sample.is_some() {
            line.number(layout.sample);
        }
        for part in &parts.csv {
            match part {
                CsvPart::Column(column) => column.push_csv(&mut line, row),
                CsvPart::Series(series, indices) => series(&mut line, row, indices.clone()),
            }
        }
        line.end();
        return;
    }
    let mut object = Object::begin(out);
    if layout.format == Format::Jsonl {
        object.number("sample", layout.sample);
    }
    for column in &parts.json {
        column.push_json(&mut object, row);
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

/// Appends the fields that end a document: those that `fields` writes, then the summary.
pub fn push_document_end(out: &mut Vec<u8>, summary: &Summary<'_>, fields: impl FnOnce(&mut Object<'_>)) {
    let mut more = Vec::new();
    fields(&mut Object::begin(&mut more));
    // Without the brace: these are fields among others.
    if let Some(more) = more.get(1..).filter(|more| !more.is_empty()) {
        out.extend_from_slice(more);
        out.push(b',');
    }
    push_summary_fields(out, summary);
}

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
