//! Events as rows, and the summary at their end.

mod columns;
pub(crate) mod summary;
pub(crate) mod summary_csv;
pub(crate) mod summary_tables;

pub(crate) use columns::COMMAND_LINE;

use sockeye_model::{ConnectionEvent, Names};
use sockeye_output::Format;
use sockeye_output::listing::{Column, Layout, Record, all_columns, named_columns};

/// Events as records: `docs/schema/events.schema.json`, `$defs/event`.
#[derive(Debug)]
pub struct Events;

impl Record for Events {
    type Row<'a> = EventRow<'a>;

    const KEY: &'static str = "events";
    const ROW: &'static str = "event";

    fn columns() -> &'static [Column<Self>] {
        columns::COLUMNS
    }
}

/// An event, and what its cells also need.
#[derive(Clone, Copy)]
pub struct EventRow<'a> {
    /// The event.
    pub event: &'a ConnectionEvent,
    /// Names of hosts, services, users and others.
    pub names: &'a dyn Names,
    /// The local time, for a table.
    pub clock: &'a str,
    /// Its container; `None` if it is in none, or that is unknown.
    pub container: Option<&'a str>,
    /// Its systemd unit, likewise.
    pub unit: Option<&'a str>,
    /// The command line of its owner; `None` if it was not asked for, or not read in time.
    pub command_line: Option<&'a [u8]>,
}

/// Returns the layout of events with these columns; `None`: the default ones in a table, all in CSV. JSON always has all values.
#[must_use]
pub fn layout(
    format: Format,
    columns: Option<Vec<&'static Column<Events>>>,
    is_one_netns: bool,
    has_protocols: bool,
) -> Layout<Events> {
    let columns = match columns {
        Some(columns) => columns,
        None if format == Format::Csv => all_columns().collect(),
        None => {
            let shown = |name: &&&str| match **name {
                "netns_inode" => !is_one_netns,
                "netid" => has_protocols,
                _ => true,
            };
            let names: Vec<&str> = TABLE.iter().filter(shown).copied().collect();
            named_columns(&names)
        }
    };
    let mut layout = Layout::new(format, columns);
    layout.marks_last = true;
    layout
}

/// Default columns of a table.
const TABLE: [&str; 13] = [
    "time",
    "event",
    "netid",
    "direction",
    "local",
    "peer",
    "owner",
    "known_by",
    "netns_inode",
    "took",
    "sent_bytes",
    "received_bytes",
    "how",
];
