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
    /// The path of its cgroup; `None` if unknown.
    pub cgroup: Option<&'a str>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::NoNames;
    use sockeye_output::listing::{ListingWriter, push_json_row};

    /// Records of every kind, with a number in each field.
    fn filled_events() -> impl Iterator<Item = ConnectionEvent> {
        let number = |at: usize| u8::try_from(at % 251).unwrap_or(1);
        (1..=19_u8).flat_map(move |kind| {
            [2_u8, 10].map(|family| {
                let mut bytes: Vec<u8> = (0..264).map(number).collect();
                bytes[..8].copy_from_slice(&[kind, 0, 0, 0, 1, 7, 1, 1]);
                bytes[72..74].copy_from_slice(&[family, 0]);
                bytes[128..144].copy_from_slice(b"\"nginx\"\xff worker\0");
                bytes[168..171].copy_from_slice(&[1, 2, 0]);
                bytes[176..180].copy_from_slice(&104_i32.to_ne_bytes());
                bytes[180..184].copy_from_slice(&3_i32.to_ne_bytes());
                ConnectionEvent::from_wire(&bytes).expect("it is complete")
            })
        })
    }

    #[test]
    fn line_has_the_fields_of_an_object() {
        let mut lines = 0;
        for event in filled_events() {
            for text in [None, Some("/system.slice/nginx \u{9b}.service")] {
                let row = EventRow {
                    event: &event,
                    names: &NoNames,
                    clock: "",
                    cgroup: text,
                    container: text,
                    unit: text,
                    command_line: text.map(str::as_bytes),
                };
                let (mut written, mut object) = (Vec::new(), Vec::new());
                let mut writer = ListingWriter::new(&mut written, layout(Format::Jsonl, None, false, true));
                writer.row(&row).expect("memory takes it");
                writer.flush().expect("memory takes it");
                push_json_row::<Events>(&mut object, &row);
                let rest = String::from_utf8(object).expect("UTF-8").replacen('{', ",", 1);
                let line = String::from_utf8(written).expect("UTF-8");
                assert!(line.ends_with(&format!("{rest}\n")), "{line}{rest}");
                lines += 1;
            }
        }
        assert_eq!(lines, 76);
    }
}
