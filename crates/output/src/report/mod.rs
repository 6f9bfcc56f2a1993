//! Reports of benchmarks: tables for people, JSON and CSV for programs, charts.
//!
//! Every format shows the same [`Report`], and none depends on the benchmark that made it.

mod chart;
mod csv;
mod figure;
mod json;
mod noise;
mod text;

pub use json::push_sentences;
pub use text::push_sentence;

use crate::envelope::Envelope;
use crate::format::{Format, Style};
use crate::picture::{GraphTheme, png, raster, svg};
use sockeye_measure::Report;
use std::io::{self, Write};

/// How a [`Report`] is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportLayout {
    /// Output format.
    pub format: Format,
    /// Colours of a table.
    pub style: Style,
    /// Columns of the terminal; `None` if the output is not a terminal.
    pub width: Option<usize>,
    /// Leaves out the header line of tables.
    pub no_header: bool,
    /// Time and origin, for JSON and CSV.
    pub envelope: Envelope,
    /// Number of the report, from 1, if others follow: CSV then has all columns.
    pub sample: Option<u64>,
}

/// Appends the report. CSV has the rows of its first table.
pub fn push_report(out: &mut Vec<u8>, report: &Report, layout: ReportLayout) {
    match layout.format {
        Format::Table => text::push(out, report, layout),
        Format::Json => json::push_document(out, report, &layout.envelope),
        Format::Jsonl => json::push_lines(out, report, &layout.envelope),
        Format::Csv => csv::push(out, report, layout),
    }
}

/// Picture format of charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChartFormat {
    /// Scalable, self-contained, light or dark as the viewer prefers.
    #[default]
    Svg,
    /// Pixels, light.
    Png,
}

/// Draws the report's charts, one below the other, with the settings above and the noise below. A report without charts
/// becomes a picture with a message.
///
/// # Errors
/// Those of `out`.
pub fn write_charts(out: &mut impl Write, report: &Report, format: ChartFormat) -> io::Result<()> {
    let scene = chart::lay_out(report);
    match format {
        ChartFormat::Svg => svg::write(out, &scene, GraphTheme::Auto),
        ChartFormat::Png => png::write(out, &raster::draw(&scene, GraphTheme::Light, 2)),
    }
}
