//! How many connections of each program have keepalive: one row a program.

use sockeye_output::column::Align;
use sockeye_output::csv::Line;
use sockeye_output::format::{Format, Style, Summary};
use sockeye_output::json::{Object, push_summary_fields};
use sockeye_output::number::{push_decimal, push_time_us};
use sockeye_output::rows::Output;
use sockeye_output::table::{Heading, Table, Tint};
use sockeye_output::text::push_clean;
use std::io::{self, Write};

/// The connections of all processes of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepaliveOwner<'a> {
    /// Their name; `None`: of connections without an owner that is known.
    pub comm: Option<&'a [u8]>,
    /// How many processes.
    pub processes: u64,
    /// How many connections.
    pub connections: u64,
    /// So many of them have it.
    pub on: u64,
    /// So many have not.
    pub off: u64,
    /// Of so many it is not known.
    pub unknown: u64,
    /// Of those that have not: for how long the one that is quiet longest has been.
    pub idle_ms_max_off: Option<u32>,
}

/// Writes all rows of such a listing, and its end.
///
/// # Errors
/// Those of the writer.
pub fn write_keepalive_owners<W: Write>(
    writer: W,
    format: Format,
    (style, width, no_header): (Style, Option<usize>, bool),
    owners: &[KeepaliveOwner<'_>],
    summary: &Summary<'_>,
    beside: impl FnOnce(&mut Object<'_>),
) -> io::Result<()> {
    let mut output = Output::new(writer);
    let out = &mut output.bytes;
    match format {
        Format::Table => {
            let headings = HEADINGS
                .iter()
                .map(|(_, header, align)| Heading::new(header, *align));
            let mut table = Table::new(headings.collect(), style, width);
            table.no_header = no_header;
            for owner in owners {
                push_row(&mut table, owner);
                table.end_row(out);
            }
            table.settle(out);
        }
        Format::Csv => {
            if !no_header {
                let names: Vec<&str> = HEADINGS.iter().map(|(name, ..)| *name).collect();
                out.extend_from_slice(names.join(",").as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            for owner in owners {
                let mut line = Line::begin(out);
                line.bytes(owner.comm);
                for (_, value) in numbers(owner) {
                    line.number(value);
                }
                line.end();
            }
        }
        Format::Json | Format::Jsonl => {
            let is_whole = format == Format::Json;
            out.extend_from_slice(if is_whole { b"{\"owners\":[" } else { b"" });
            for (nth, owner) in owners.iter().enumerate() {
                if is_whole {
                    out.extend_from_slice(if nth == 0 { b"\n" } else { b",\n" });
                }
                let mut object = Object::begin(out);
                object.bytes("comm", owner.comm);
                for (name, value) in numbers(owner) {
                    object.number(name, value);
                }
                object.end();
                if !is_whole {
                    out.push(b'\n');
                }
            }
            out.extend_from_slice(if is_whole { b"\n],\n" } else { b"{\"summary\":{" });
            let mut fields = Vec::new();
            beside(&mut Object::begin(&mut fields));
            if let Some(fields) = fields.get(1..).filter(|fields| !fields.is_empty()) {
                out.extend_from_slice(fields);
                out.push(b',');
            }
            push_summary_fields(out, summary);
            out.extend_from_slice(if is_whole { b"}\n" } else { b"}}\n" });
        }
    }
    output.flush()
}

fn push_row(table: &mut Table, owner: &KeepaliveOwner<'_>) {
    if let Some(comm) = owner.comm {
        push_clean(table.cell(), comm);
    }
    table.end_cell(Tint::None);
    for (name, value) in numbers(owner) {
        let out = table.cell();
        match value {
            None => out.push(b'-'),
            Some(ms) if name == IDLE => push_time_us(out, ms.saturating_mul(1000)),
            Some(count) => push_decimal(out, count),
        }
        table.end_cell(if name == "off" && value != Some(0) {
            Tint::Yellow
        } else {
            Tint::None
        });
    }
}

fn numbers(owner: &KeepaliveOwner<'_>) -> [(&'static str, Option<u64>); 6] {
    [
        ("processes", Some(owner.processes)),
        ("connections", Some(owner.connections)),
        ("on", Some(owner.on)),
        ("off", Some(owner.off)),
        ("unknown", Some(owner.unknown)),
        (IDLE, owner.idle_ms_max_off.map(u64::from)),
    ]
}

const HEADINGS: [(&str, &str, Align); 7] = [
    ("comm", "Process", Align::Left),
    ("processes", "Processes", Align::Right),
    ("connections", "Connections", Align::Right),
    ("on", "On", Align::Right),
    ("off", "Off", Align::Right),
    ("unknown", "Unknown", Align::Right),
    (IDLE, "LongestIdleOff", Align::Right),
];
const IDLE: &str = "idle_ms_max_off";
