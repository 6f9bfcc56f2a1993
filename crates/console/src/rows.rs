//! Rows on standard output, for commands that print what they know at once, and the flags for it.

use crate::args::{ColorArg, FormatArg};
use crate::notes::say;
use crate::{envelope, stdout};
use anyhow::Context;
use clap::Args;
use sockeye_output::listing::{Column, FittedColumns, Layout, ListingWriter, Record};
use sockeye_output::{Format, Summary};

/// How rows are printed.
#[derive(Debug, Clone, Args)]
pub struct RowsArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub format: FormatArg,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

impl RowsArgs {
    /// Whether rows are a table on a terminal that has no room for long times.
    #[must_use]
    pub fn is_narrow_table(&self) -> bool {
        Format::from(self.format) == Format::Table && stdout::width().is_some_and(|width| width < NARROW)
    }

    /// Writes rows; a table has `columns`, the other formats all. On a terminal that is too narrow for a row in one line, those of `fit`
    /// are left out, which a note says; they are returned.
    ///
    /// # Errors
    /// If standard output cannot be written to.
    pub fn write<'r, R: Record>(
        &self,
        columns: Vec<&'static Column<R>>,
        fit: &Fit<'_>,
        rows: impl Iterator<Item = R::Row<'r>> + Clone,
        summary: &Summary<'_>,
    ) -> anyhow::Result<Vec<&'static str>> {
        let format = Format::from(self.format);
        let width = stdout::width();
        let mut fitted = FittedColumns {
            shown: columns,
            left_out: Vec::new(),
        };
        if format != Format::Table {
            fitted.shown = R::columns().iter().collect();
        } else if let Some(width) = width {
            fitted = FittedColumns::new(fitted.shown, fit.least, rows.clone(), width);
        }
        let mut layout = Layout::new(format, fitted.shown.clone());
        layout.style = stdout::style(self.color);
        layout.width = width;
        layout.no_header = self.no_header;
        layout.envelope = envelope::now();
        layout.has_whole_last = !fit.least.is_empty();
        layout.has_details = fit.below && !fitted.left_out.is_empty();
        let mut writer = ListingWriter::new(stdout::open().context(stdout::WRITING)?, layout);
        let write = || {
            writer.begin()?;
            for row in rows {
                writer.row_with_details(&row, |out| {
                    let mut details = Vec::new();
                    fitted.push_left_out(&mut details, &row);
                    out.extend_from_slice(&details);
                })?;
            }
            writer.finish(summary)
        };
        write().context(stdout::WRITING)?;
        if !fitted.left_out.is_empty() && !fit.below {
            let headings: Vec<_> = fitted.left_out.iter().map(|column| column.heading).collect();
            say(&format!(
                "sockeye: not shown in so narrow a terminal: {}: --format csv has all\n",
                headings.join(", ")
            ));
        }
        Ok(fitted.left_out.iter().map(|column| column.name).collect())
    }
}

/// Terminals with fewer characters have no room for two times with year and zone, and what was then.
const NARROW: usize = 120;

/// What happens to a table on a terminal that is too narrow for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fit<'a> {
    /// Names of columns that may be left out, those of least use first.
    pub least: &'a [&'a str],
    /// Whether the values that are left out follow each row in lines of their own; otherwise a note names the columns.
    pub below: bool,
}
