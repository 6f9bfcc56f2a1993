//! Writes rows of any kind in the chosen format.

use super::args::StoreArgs;
use anyhow::Context;
use sockeye_console::{envelope, stdout};
use sockeye_output::listing::{Column, Layout, ListingWriter, Record};
use sockeye_output::{Format, Summary};

/// Writes rows; a table has `columns`, the other formats all.
pub(super) fn write<'r, R: Record>(
    args: &StoreArgs,
    columns: Vec<&'static Column<R>>,
    rows: impl Iterator<Item = R::Row<'r>>,
    summary: &Summary<'_>,
) -> anyhow::Result<()> {
    let format = Format::from(args.format);
    let columns = if format == Format::Table {
        columns
    } else {
        R::columns().iter().collect()
    };
    let mut layout = Layout::new(format, columns);
    layout.style = stdout::style(args.color);
    layout.width = stdout::width();
    layout.no_header = args.no_header;
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
