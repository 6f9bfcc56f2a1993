//! From the options of `prof` to rows, format and width of its report, for new profiles and for `--diff`.

use crate::args::ProfArgs;
use sockeye_console::envelope;
use sockeye_console::stdout;
use sockeye_output::{Format, ReportLayout};
use sockeye_profile::ReportOptions;

/// Returns which rows are shown: `--top`, or all in formats for programs.
pub(crate) fn view(args: &ProfArgs) -> ReportOptions {
    ReportOptions {
        rows: match (args.top, args.output_format()) {
            (Some(usize::MAX), _) | (None, Format::Json | Format::Jsonl | Format::Csv) => 0,
            (Some(rows), _) => rows,
            (None, Format::Table) => ReportOptions::ROWS,
        },
        by_process: args.group_by.is_some(),
        ..ReportOptions::default()
    }
}

/// Returns the format and the terminal's width and colours.
pub(crate) fn layout(args: &ProfArgs) -> ReportLayout {
    ReportLayout {
        format: args.output_format(),
        style: stdout::style(args.color),
        width: stdout::width(),
        no_header: args.no_header,
        envelope: envelope::now(),
        sample: None,
    }
}
