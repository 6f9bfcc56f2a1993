//! What a capture tells of its connections: for people, as JSON and as CSV.

mod compared;
mod csv;
mod flagged;
mod json;
mod sentence;

pub use sentence::sentences as connection_sentences;
mod shares;
mod tally;
mod text;

pub use compared::{ComparedWay, Comparison, Place, push_comparisons};
pub use flagged::FlaggedSegment;
pub use tally::CaptureTally;

use sockeye_output::format::{Format, Style};
use sockeye_trace::Connection;
use std::io::{self, Write};

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnalysisLayout {
    /// The form
    pub format: Format,
    /// Colours or none
    pub style: Style,
    /// Of the terminal; `None`: there is none
    pub width: Option<usize>,
    /// Leaves out the header line of CSV
    pub no_header: bool,
    /// Everything that is known of each connection, in text
    pub is_detailed: bool,
    /// What is listed
    pub lists: Listed,
}

/// Whose the ends of a connection are, where the capture tells: `iperf3(3124)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndOwners {
    /// Of the client
    pub client: Option<Box<str>>,
    /// Of the server
    pub server: Option<Box<str>>,
}

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listed {
    /// Connections
    #[default]
    Connections,
    /// Segments with flags
    Segments,
}

/// Writes an analysis as it comes.
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
    to: W,
    layout: AnalysisLayout,
    rows: u64,
    buffer: Vec<u8>,
}

impl<W: Write> AnalysisWriter<W> {
    /// Begins the listing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(to: W, layout: AnalysisLayout) -> io::Result<Self> {
        let mut writer = Self {
            to,
            layout,
            rows: 0,
            buffer: Vec::new(),
        };
        match (layout.format, layout.lists) {
            (Format::Json, Listed::Connections) => writer.buffer.extend_from_slice(b"{\"connections\":["),
            (Format::Json, Listed::Segments) => writer.buffer.extend_from_slice(b"{\"flagged\":["),
            (Format::Csv, _) if layout.no_header => {}
            (Format::Csv, Listed::Connections) => csv::push_header(&mut writer.buffer),
            (Format::Csv, Listed::Segments) => flagged::push_csv_header(&mut writer.buffer),
            (Format::Table | Format::Jsonl, _) => {}
        }
        writer.write()?;
        Ok(writer)
    }

    /// A connection, and whose it is.
    ///
    /// # Errors
    /// When it cannot be written.
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

    /// A segment that has flags.
    ///
    /// # Errors
    /// When it cannot be written.
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
        // Many and short: they are written together.
        if self.buffer.len() < BUFFERED {
            return Ok(());
        }
        self.write()
    }

    /// The end, with what is known only then; `interfaces` are what the capture calls those it was made on.
    ///
    /// # Errors
    /// When it cannot be written.
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
        self.to.flush()
    }

    fn separate(&mut self) {
        if self.layout.format == Format::Json && self.rows > 0 {
            self.buffer.push(b',');
        }
        self.rows += 1;
    }

    fn write(&mut self) -> io::Result<()> {
        self.to.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Short rows are written when there are so many bytes of them.
const BUFFERED: usize = 32 * 1024;
