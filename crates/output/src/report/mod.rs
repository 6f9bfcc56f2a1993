//! Reports of benchmarks: tables for eyes, JSON and CSV for programs, charts.
//!
//! All of them tell the same [`Report`]; none knows which benchmark it came from.

mod chart;
mod csv;
mod figure;
mod json;
mod noise;
mod text;

use crate::format::{Format, Style};
use crate::picture::{GraphTheme, png, raster, svg};
use sockeye_measure::Report;
use std::io::{self, Write};

/// How a [`Report`] is to be told.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportLayout {
    /// As tables or for programs.
    pub format: Format,
    /// Whether there may be colours.
    pub style: Style,
    /// Columns of the terminal; None if it is none.
    pub width: Option<usize>,
    /// Tables without the line of headings.
    pub no_header: bool,
}

/// Appends the report. CSV has the rows of its first table.
pub fn push_report(out: &mut Vec<u8>, report: &Report, layout: ReportLayout) {
    match layout.format {
        Format::Table => text::push(out, report, layout),
        Format::Json => json::push_document(out, report),
        Format::Jsonl => json::push_lines(out, report),
        Format::Csv => csv::push(out, report, layout.no_header),
    }
}

/// As what charts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChartFormat {
    /// A picture that stands alone and scales, light or dark as whoever looks at it prefers.
    #[default]
    Svg,
    /// A picture of pixels.
    Png,
}

/// Draws the report's charts, one below the other, with what was asked for above and how noisy it was below. One without
/// charts says so.
///
/// # Errors
/// Those of `out`.
pub fn write_charts(out: &mut impl Write, report: &Report, format: ChartFormat) -> io::Result<()> {
    let scene = chart::lay_out(report);
    match format {
        ChartFormat::Svg => svg::write(out, &scene, GraphTheme::Reader),
        ChartFormat::Png => png::write(out, &raster::draw(&scene, GraphTheme::Light, 2)),
    }
}
