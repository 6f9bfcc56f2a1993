//! Analyses of captured connections: as text, JSON and CSV.

mod comparison;
mod counts;
mod csv;
mod exchanges;
mod flagged;
mod json;
mod quantity;
mod sentence;
mod shares;
mod tally;
mod text;
mod unsupported_links;

pub use comparison::{ComparedCapture, ComparedDirection, Comparison, push_comparisons};
pub use flagged::FlaggedSegment;
pub use sentence::sentences as connection_sentences;
pub use tally::CaptureTally;
pub use unsupported_links::UnsupportedLinks;

use sockeye_output::Envelope;
use sockeye_output::csv::{Line, push_filled};
use sockeye_output::format::{Format, Style};
use sockeye_output::json::Object;
use sockeye_output::listing::WAITING_BYTES;
use sockeye_trace::Connection;
use std::io::{self, Write};

/// How an analysis is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnalysisLayout {
    /// Output format.
    pub format: Format,
    /// Colours of text.
    pub style: Style,
    /// Columns of the terminal; `None` if the output is not a terminal.
    pub width: Option<usize>,
    /// Leaves out the header line of CSV.
    pub no_header: bool,
    /// Shows every detail of each connection in text.
    pub is_detailed: bool,
    /// Kind of rows.
    pub lists: Listed,
    /// Time and origin, for JSON and CSV.
    pub envelope: Envelope,
}

/// Owner processes of the ends of a connection, from comments in the capture: `iperf3(3124)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndOwners {
    /// Owners of the client's end; `None` if unknown.
    pub client: Option<Box<str>>,
    /// Owners of the server's end; `None` if unknown.
    pub server: Option<Box<str>>,
}

/// Kind of rows of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listed {
    /// Connections.
    #[default]
    Connections,
    /// Segments with flags.
    Segments,
}

/// Writes an analysis row by row.
///
/// ```
/// use sockeye_output::Format;
/// use sockeye_packets::output::{AnalysisLayout, AnalysisWriter, CaptureTally};
///
/// let mut out = Vec::new();
/// let layout = AnalysisLayout { format: Format::Jsonl, ..AnalysisLayout::default() };
/// let writer = AnalysisWriter::begin(&mut out, layout)?;
/// writer.finish(&CaptureTally { packets: 3, ..CaptureTally::default() }, &[])?;
/// assert!(out.starts_with(b"{\"type\":\"analyze_summary\","));
/// assert!(out.ends_with(b"}}\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AnalysisWriter<W> {
    writer: W,
    layout: AnalysisLayout,
    rows: u64,
    buffer: Vec<u8>,
    /// What each row of CSV or JSON lines begins with: time and origin.
    row_begin: Vec<u8>,
    /// Whether rows of CSV wait for the last one, so that the columns that none fills are left out: up to
    /// [`WAITING_BYTES`].
    waits: bool,
}

impl<W: Write> AnalysisWriter<W> {
    /// Begins the listing.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(writer: W, layout: AnalysisLayout) -> io::Result<Self> {
        let row_type = match layout.lists {
            Listed::Connections => "connection",
            Listed::Segments => "segment",
        };
        let envelope = &layout.envelope;
        let mut analysis = Self {
            writer,
            layout,
            rows: 0,
            buffer: Vec::new(),
            row_begin: match layout.format {
                Format::Jsonl => envelope.line_begin(row_type),
                Format::Csv => envelope.csv_fields(),
                Format::Table | Format::Json => Vec::new(),
            },
            waits: layout.format == Format::Csv && !layout.no_header,
        };
        match layout.format {
            Format::Json => {
                let mut document = Object::begin(&mut analysis.buffer);
                envelope.push(&mut document, "analyze");
                let key = match layout.lists {
                    Listed::Connections => "connections",
                    Listed::Segments => "flagged",
                };
                document.key(key).push(b'[');
            }
            Format::Csv if !layout.no_header => {
                let columns = match layout.lists {
                    Listed::Connections => csv::columns(),
                    Listed::Segments => flagged::CSV_COLUMNS.to_owned(),
                };
                let header = format!("{},{columns}\r\n", envelope.csv_header());
                analysis.buffer.extend_from_slice(header.as_bytes());
            }
            _ => {}
        }
        analysis.write()?;
        Ok(analysis)
    }

    /// Writes a connection with its owners.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn connection(&mut self, connection: &Connection, owners: &EndOwners) -> io::Result<()> {
        if self.layout.format == Format::Table {
            text::push(&mut self.buffer, connection, owners, &self.layout);
        } else {
            self.push_row(
                |object| json::push(object, connection, owners),
                |line| csv::push(line, connection, owners),
            );
        }
        self.write()
    }

    /// Writes a segment that has flags.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn segment(&mut self, segment: &FlaggedSegment<'_>) -> io::Result<()> {
        if self.layout.format == Format::Table {
            segment.push_text(&mut self.buffer);
        } else {
            self.push_row(
                |object| segment.push_fields(object),
                |line| segment.push_csv(line),
            );
        }
        // These rows are many and short: several are written at once.
        if self.buffer.len() < BUFFERED {
            return Ok(());
        }
        self.write()
    }

    /// Writes the end, with counts and the names of the interfaces in the capture.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self, tally: &CaptureTally, interfaces: &[String]) -> io::Result<()> {
        let out = &mut self.buffer;
        match self.layout.format {
            Format::Table if self.layout.lists == Listed::Connections => {
                tally.push_text(out, interfaces, self.layout.width);
            }
            Format::Csv if self.waits => {
                let table = std::mem::take(out);
                push_filled(out, &table);
                self.waits = false;
            }
            Format::Table | Format::Csv => {}
            Format::Json => {
                out.extend_from_slice(b"],");
                let mut rest = Object::inside(out);
                tally.push_json_fields(&mut rest, interfaces);
                rest.end();
                out.push(b'\n');
            }
            Format::Jsonl => self.layout.envelope.push_summary_line(out, "analyze", |summary| {
                tally.push_json_fields(summary, interfaces);
            }),
        }
        self.write()?;
        self.writer.flush()
    }

    /// Appends a row of JSON, JSON lines or CSV.
    fn push_row(&mut self, push_json: impl FnOnce(&mut Object<'_>), push_csv: impl FnOnce(&mut Line<'_>)) {
        let out = &mut self.buffer;
        match self.layout.format {
            Format::Csv => {
                let mut line = Line::begin(out);
                line.constants(&self.row_begin);
                push_csv(&mut line);
                line.end();
            }
            Format::Jsonl => {
                out.extend_from_slice(&self.row_begin);
                let mut object = Object::continued(out);
                push_json(&mut object);
                object.end();
                out.push(b'\n');
            }
            Format::Json | Format::Table => {
                if self.rows > 0 {
                    out.push(b',');
                }
                let mut object = Object::begin(out);
                push_json(&mut object);
                object.end();
            }
        }
        self.rows += 1;
    }

    fn write(&mut self) -> io::Result<()> {
        if self.waits {
            self.waits = self.buffer.len() < WAITING_BYTES;
            return Ok(());
        }
        self.writer.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Bytes of short rows that are written at once.
const BUFFERED: usize = 32 * 1024;
