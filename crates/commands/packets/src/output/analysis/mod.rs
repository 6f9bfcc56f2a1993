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

use sockeye_output::format::{Format, Style};
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
/// assert!(out.starts_with(b"{\"summary\":{\"packets\":3,"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AnalysisWriter<W> {
    writer: W,
    layout: AnalysisLayout,
    rows: u64,
    buffer: Vec<u8>,
}

impl<W: Write> AnalysisWriter<W> {
    /// Begins the listing.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(writer: W, layout: AnalysisLayout) -> io::Result<Self> {
        let mut analysis = Self {
            writer,
            layout,
            rows: 0,
            buffer: Vec::new(),
        };
        match (layout.format, layout.lists) {
            (Format::Json, Listed::Connections) => analysis.buffer.extend_from_slice(b"{\"connections\":["),
            (Format::Json, Listed::Segments) => analysis.buffer.extend_from_slice(b"{\"flagged\":["),
            (Format::Csv, _) if layout.no_header => {}
            (Format::Csv, Listed::Connections) => csv::push_header(&mut analysis.buffer),
            (Format::Csv, Listed::Segments) => flagged::push_csv_header(&mut analysis.buffer),
            (Format::Table | Format::Jsonl, _) => {}
        }
        analysis.write()?;
        Ok(analysis)
    }

    /// Writes a connection with its owners.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn connection(&mut self, connection: &Connection, owners: &EndOwners) -> io::Result<()> {
        self.separate();
        let out = &mut self.buffer;
        match self.layout.format {
            Format::Table => text::push(out, connection, owners, &self.layout),
            Format::Json => json::push(out, connection, owners),
            Format::Jsonl => {
                json::push(out, connection, owners);
                out.push(b'\n');
            }
            Format::Csv => csv::push(out, connection, owners),
        }
        self.write()
    }

    /// Writes a segment that has flags.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn segment(&mut self, segment: &FlaggedSegment<'_>) -> io::Result<()> {
        self.separate();
        let out = &mut self.buffer;
        match self.layout.format {
            Format::Table => segment.push_text(out),
            Format::Json => segment.push_json(out),
            Format::Jsonl => {
                segment.push_json(out);
                out.push(b'\n');
            }
            Format::Csv => segment.push_csv(out),
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
            Format::Table | Format::Csv => {}
            Format::Json => {
                out.extend_from_slice(b"],");
                tally.push_json_fields(out, interfaces);
                out.extend_from_slice(b"}\n");
            }
            Format::Jsonl => {
                out.extend_from_slice(b"{\"summary\":{");
                tally.push_json_fields(out, interfaces);
                out.extend_from_slice(b"}}\n");
            }
        }
        self.write()?;
        self.writer.flush()
    }

    fn separate(&mut self) {
        if self.layout.format == Format::Json && self.rows > 0 {
            self.buffer.push(b',');
        }
        self.rows += 1;
    }

    fn write(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Bytes of short rows that are written at once.
const BUFFERED: usize = 32 * 1024;
