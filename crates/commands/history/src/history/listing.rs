//! Writes rows of any kind in the chosen format.

use super::args::StoreArgs;
use anyhow::Context;
use sockeye_console::notes::say;
use sockeye_console::{envelope, stdout};
use sockeye_history::{Period, Unseen};
use sockeye_output::listing::{Column, Layout, ListingWriter, Record};
use sockeye_output::{Format, Summary};
use sockeye_query::when;

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

/// Says what could not be seen, and when.
pub(super) fn say_unseen(unseen: &[Period<Unseen>]) {
    for unseen in unseen {
        say(&unseen_note(unseen));
    }
}

/// Returns what could not be seen, and when.
fn unseen_note(unseen: &Period<Unseen>) -> String {
    let Unseen { kind, part, why } = &unseen.what;
    let part = part.as_ref().map_or_else(String::new, |part| format!(", {part}"));
    format!(
        "sockeye: not recorded from {} to {}: {}{part}: {why}\n",
        when::local(unseen.began_ms),
        when::local(unseen.last_ms),
        kind.name(),
    )
}
