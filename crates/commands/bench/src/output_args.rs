//! Output options of all benchmarks: tables, JSON, CSV and charts.

use anyhow::Context;
use clap::Args;
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_console::envelope;
use sockeye_console::output_file::OutputFile;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_measure::{Noise, NoiseSample, Report};
use sockeye_output::{ChartFormat, Format, ReportLayout, harmless, push_report, write_charts};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Output options of all benchmarks.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Draw a chart into a file that ends with .svg or .png
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
}

impl OutputArgs {
    /// Returns whether the output is a table for people.
    pub(crate) fn is_for_eyes(&self) -> bool {
        !self.json && Format::from(self.format) == Format::Table
    }

    /// Checks that the chart can be written, and creates its file.
    pub(crate) fn prepare(&self) -> anyhow::Result<Option<OutputFile>> {
        self.chart_format()?;
        self.output.as_deref().map(OutputFile::create).transpose()
    }

    /// Returns the format by the file name; SVG without an extension.
    fn chart_format(&self) -> Result<ChartFormat, UsageError> {
        if self.output.as_deref() == Some(Path::new("-")) {
            let text = "sockeye: bench: -o -: the figures go to standard output; the drawing needs a file whose name ends in .svg or .png\n";
            return Err(UsageError(text.to_owned()));
        }
        let name = self
            .output
            .as_deref()
            .and_then(Path::extension)
            .map(OsStr::to_string_lossy);
        match name.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("svg") => Ok(ChartFormat::Svg),
            Some("png") => Ok(ChartFormat::Png),
            Some(other) => Err(UsageError(format!(
                "sockeye: bench: -o: unknown ending .{}; the file name must end in .svg or .png\n",
                harmless(other.as_bytes())
            ))),
        }
    }

    fn draw(&self, report: &Report, mut chart: OutputFile) -> anyhow::Result<()> {
        let path = self.output.as_deref().unwrap_or(Path::new(""));
        write_charts(&mut chart, report, self.chart_format()?).with_context(|| format!("write {path:?}"))?;
        chart.finish()
    }

    /// Writes the report and its chart. Returns exit status 1 if the report is partial.
    pub(crate) fn deliver(&self, report: &Report, chart: Option<OutputFile>) -> anyhow::Result<ExitCode> {
        let format = if self.json {
            Format::Json
        } else {
            Format::from(self.format)
        };
        let mut text = Vec::new();
        let layout = ReportLayout {
            format,
            style: stdout::style(self.color),
            width: stdout::width(),
            no_header: self.no_header,
            envelope: envelope::now(),
            sample: None,
        };
        push_report(&mut text, report, layout);
        let written = stdout::write(&text);
        // Also if standard output is a terminal that is gone, or a pipe without a reader.
        let drawn = chart.map(|chart| self.draw(report, chart));
        written?;
        drawn.transpose()?;
        Ok(if report.partial.is_some() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Returns the other load of the machine since `before`.
pub(crate) fn noise_since(before: NoiseSample) -> Noise {
    Noise {
        before,
        after: sockeye_load::noise(),
    }
}
