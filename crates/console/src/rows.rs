//! Rows on standard output, for commands that print what they know at once, and the flags for it.

use crate::args::{ColorArg, FormatArg};
use crate::{envelope, stdout};
use anyhow::Context;
use clap::Args;
use sockeye_output::listing::{Column, Layout, ListingWriter, Record};
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
    /// Writes rows; a table has `columns`, the other formats all.
    ///
    /// # Errors
    /// If standard output cannot be written to.
    pub fn write<'r, R: Record>(
        &self,
        columns: Vec<&'static Column<R>>,
        rows: impl Iterator<Item = R::Row<'r>>,
        summary: &Summary<'_>,
    ) -> anyhow::Result<()> {
        let format = Format::from(self.format);
        let columns = if format == Format::Table {
            columns
        } else {
            R::columns().iter().collect()
        };
        let mut layout = Layout::new(format, columns);
        layout.style = stdout::style(self.color);
        layout.width = stdout::width();
        layout.no_header = self.no_header;
        layout.envelope = envelope::now();
        let mut writer = ListingWriter::new(stdout::open().context(stdout::WRITING)?, layout);
        let write = || {
            writer.begin()?;
            for row in rows {
                writer.row(&row)?;
            }
            writer.finish(summary)
        };
        write().context(stdout::WRITING)
    }
}
