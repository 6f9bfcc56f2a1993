//! Flows of a moment: a part of them for the table, or all for a file.

use crate::moments::Moment;
use crate::view::{Selected, Window, row};
use sockeye_model::Names;
use sockeye_output::flow::{FlowDetails, FlowLayout};
use sockeye_output::listing::ListingWriter;
use sockeye_output::{Format, JsonObject};
use std::io;

/// A part of the flows of a moment.
pub(crate) struct FlowsPage<'a> {
    pub(crate) moment: &'a Moment,
    pub(crate) selected: &'a Selected,
    pub(crate) window: Window,
    pub(crate) names: &'a dyn Names,
    /// Whether it is the last moment, which is shown as long as it is.
    pub(crate) is_newest: bool,
}

/// Appends the rows of a window, with where they are among all: `docs/schema/serve.schema.json`, `$defs/page`.
pub(crate) fn push_page(out: &mut Vec<u8>, page: &FlowsPage<'_>) -> io::Result<()> {
    let rows = page.window.of(page.selected.order.len());
    let mut object = JsonObject::begin(out);
    object.word("type", "page");
    object.number("time_us", Some(page.moment.time_us()));
    object.boolean("is_newest", Some(page.is_newest));
    object.number("flows_total", Some(page.moment.flows.len() as u64));
    object.number("flows_matching", Some(page.selected.order.len() as u64));
    object.number("flows_undecided", Some(page.selected.undecided as u64));
    object.number("offset", Some(rows.start as u64));
    write(object.key("document"), page, Format::Json)?;
    object.end();
    Ok(())
}

/// Appends a document as `flows --format json` writes it: `docs/schema/flows.schema.json`.
pub(crate) fn push_document(out: &mut Vec<u8>, page: &FlowsPage<'_>) -> io::Result<()> {
    write(out, page, Format::Json)
}

/// Appends a table as `flows --format csv` writes it.
pub(crate) fn push_csv(out: &mut Vec<u8>, page: &FlowsPage<'_>) -> io::Result<()> {
    write(out, page, Format::Csv)
}

fn write(out: &mut Vec<u8>, page: &FlowsPage<'_>, format: Format) -> io::Result<()> {
    let (moment, order) = (page.moment, &page.selected.order);
    let rows = page.window.of(order.len());
    let layout = FlowLayout {
        format,
        details: FlowDetails {
            netns: true,
            states: true,
            owners: true,
            info: true,
            rates: true,
        },
        sample: moment.sample,
        envelope: moment.envelope,
        ..FlowLayout::default()
    };
    let left_out = order.len() - rows.len();
    let mut writer = ListingWriter::new(out, layout.listing());
    let mut reader = moment.flows.reader();
    writer.begin()?;
    for place in &order[rows] {
        writer.row(&row(moment, reader.read(*place), page.names))?;
    }
    writer.finish(&moment.summary(left_out))
}
