//! The columns of hops. Those of connections whose data stand still are in `waiting`.

mod waiting;

use sockeye_measure::{Histogram, duration};
use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{
    Column, Composite, Layout, ListingWriter, Record, SortValue, Value, parse_columns,
};
use sockeye_output::table::Tint;
use sockeye_output::text::{display_width, harmless, push_clean};
use sockeye_output::unit::Unit;
use sockeye_output::{Format, Summary};
use sockeye_path::{Hop, Part, Qdisc, Reader};

use waiting::{Connection, ProgramCell, WaitingBytes, Waits};

/// A hop with what its cells need.
#[derive(Debug)]
pub(crate) struct HopRow<'a> {
    pub(crate) hop: &'a Hop,
    /// Its part of all time.
    pub(crate) share_ppm: Option<u64>,
    /// Name of the network namespace of its device.
    pub(crate) netns_name: Option<String>,
    /// Name of the part.
    pub(crate) part_name: Option<String>,
}

#[cfg(test)]
impl<'a> HopRow<'a> {
    /// A hop without a share and without names.
    pub(super) fn alone(hop: &'a Hop) -> Self {
        Self {
            hop,
            share_ppm: None,
            netns_name: None,
            part_name: None,
        }
    }
}

impl HopRow<'_> {
    fn part(&self) -> Value<'_> {
        Value::text(self.part_name.as_deref().map(str::as_bytes))
    }

    /// Returns a number of what passed; `None` where only is known what waits.
    fn measured(&self, number: u64) -> Option<u64> {
        self.hop.is_timed().then_some(number)
    }

    /// Returns the direction, the hop and its device, for pictures.
    pub(crate) fn label(&self) -> String {
        let key = &self.hop.key;
        let device = key.device.as_ref();
        let device = device.map_or(String::new(), |device| {
            format!(" {}", harmless(device.name.as_bytes()))
        });
        format!("{:3} {}{device}", key.direction.name(), key.kind.name())
    }
}

/// Hops as records: `docs/schema/path.schema.json`, `$defs/hop`.
#[derive(Debug)]
pub(crate) struct Hops;

impl Record for Hops {
    type Row<'a> = &'a HopRow<'a>;

    const KEY: &'static str = "hops";
    const ROW: &'static str = "hop";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type HopColumn = Column<Hops>;

/// All columns, in the order of CSV.
static COLUMNS: &[HopColumn] = &[
    HopColumn::value(
        "direction",
        "Dir",
        Left,
        "Whether the sockets send (out) or receive (in)",
        |row, _| Value::Word(row.hop.key.direction.name()),
    ),
    HopColumn::value("hop", "Hop", Left, "Part of the way", |row, _| {
        Value::Word(row.hop.key.kind.name())
    }),
    HopColumn::value("device", "Device", Left, "Network device", |row, _| {
        let device = row.hop.key.device.as_ref();
        device.map_or(Value::Absent, |device| Value::Name(device.name.as_bytes()))
    }),
    HopColumn::value(
        "class",
        "Class",
        Left,
        "Class of a qdisc, as tc writes it: major:minor",
        |row, _| match row.hop.part {
            Some(Part::Class(_)) => row.part(),
            _ => Value::Absent,
        },
    ),
    HopColumn::value(
        "listener",
        "Listener",
        Left,
        "Listener of an accept queue",
        |row, _| match row.hop.part {
            Some(Part::Listener { .. }) => row.part(),
            _ => Value::Absent,
        },
    ),
    HopColumn::composite(
        "connection",
        "Connection",
        Left,
        "Connection whose data stand still: its local end and its peer",
        &Connection,
        &["protocol", "local", "peer"],
        &["protocol", "local", "peer"],
    ),
    HopColumn::composite(
        "netns",
        "Netns",
        Left,
        "Network namespace of the device, or of the connection",
        &Netns,
        &["netns", "netns_inode"],
        &["netns", "netns_inode"],
    ),
    HopColumn::value(
        "packets",
        "Packets",
        Right,
        "Packets that passed; of 'accept': accepted connections",
        |row, _| Value::number(row.measured(row.hop.packets)),
    ),
    HopColumn::value("bytes", "Bytes", Right, "Their bytes", |row, _| {
        Value::number(row.hop.part.is_none().then_some(row.hop.bytes))
    })
    .unit(Unit::Bytes),
    HopColumn::value("median_ns", "Median", Right, "Median time there", |row, _| {
        Value::number(row.hop.delays.percentile(Histogram::P50))
    })
    .unit(Unit::Ns),
    HopColumn::value(
        "p99_ns",
        "p99",
        Right,
        "Time that one of 100 packets exceeded",
        |row, _| Value::number(row.hop.delays.percentile(Histogram::P99)),
    )
    .unit(Unit::Ns),
    HopColumn::value("max_ns", "Max", Right, "Longest time there", |row, _| {
        Value::number(row.hop.delays.max())
    })
    .unit(Unit::Ns),
    HopColumn::value(
        "total_ns",
        "Total",
        Right,
        "Time of all packets there",
        |row, _| Value::number(row.measured(row.hop.total_ns)),
    )
    .unit(Unit::Ns),
    HopColumn::value(
        "share_percent",
        "Share",
        Right,
        "Part of the time of all packets in all hops, in percent",
        |row, _| Value::float(row.share_ppm.map(|ppm| ppm as f64 / 10_000.0)),
    ),
    HopColumn::composite(
        "queue",
        "Queue",
        Right,
        "Packets that wait there: at the end, and at most; 'none' where there is no queue",
        &Queue,
        &["has_queue", "queued_now", "queued_max"],
        &["has_queue", "queued_now", "queued_max"],
    ),
    HopColumn::value(
        "queue_limit",
        "Limit",
        Right,
        "Most connections that an accept queue takes",
        |row, _| match row.hop.part {
            Some(Part::Listener { limit, .. }) => Value::number(limit),
            _ => Value::Absent,
        },
    ),
    HopColumn::composite(
        "waits",
        "Waits",
        Right,
        "How long what is there has not moved, at least",
        &Waits,
        &["stands_still_ns"],
        &["stands_still_ns"],
    ),
    HopColumn::value("waits_for", "For", Left, "What it waits for", |row, _| {
        let waiting = row.hop.waiting.as_ref();
        waiting.map_or(Value::Absent, |waiting| Value::Word(waiting.cause.name()))
    }),
    HopColumn::composite(
        "waiting_bytes",
        "Waiting",
        Right,
        "Bytes that stand still: at the end, and at most",
        &WaitingBytes,
        &["waiting_bytes_now", "waiting_bytes_max", "buffer_percent"],
        &["waiting_bytes_now", "waiting_bytes_max", "buffer_percent"],
    ),
    HopColumn::composite(
        "program",
        "Program",
        Left,
        "Program of the connection whose data stand still",
        &ProgramCell,
        &["program_comm", "program_pid", "more_connections"],
        &["program", "more_connections"],
    ),
    HopColumn::value(
        "ring_bytes_now",
        "Ring bytes now",
        Right,
        "Bytes that the driver has and has not sent, at the end (BQL): of 'ring'",
        |row, _| Value::number(row.hop.ring_bytes.map(|ring| ring.now)),
    )
    .unit(Unit::Bytes),
    HopColumn::value(
        "ring_bytes_max",
        "Ring bytes",
        Right,
        "Bytes that the driver has and has not sent, at most (BQL): of 'ring'",
        |row, _| Value::number(row.hop.ring_bytes.map(|ring| ring.max)),
    )
    .unit(Unit::Bytes),
    HopColumn::value(
        "unsent_bytes_max",
        "Unsent",
        Right,
        "Bytes that were written and not sent, at most: of 'send'",
        |row, _| Value::number(row.hop.send_buffer.map(|buffer| buffer.unsent)),
    )
    .unit(Unit::Bytes),
    HopColumn::value(
        "unacked_bytes_max",
        "Unacked",
        Right,
        "Bytes that were sent and not acknowledged, at most: of 'send'",
        |row, _| Value::number(row.hop.send_buffer.map(|buffer| buffer.unacked)),
    )
    .unit(Unit::Bytes),
    HopColumn::composite(
        "drops",
        "Drops",
        Right,
        "Dropped packets; in JSON and CSV with their reasons",
        &Drops,
        &["drops", "drop_reasons"],
        &["drops", "drop_reasons"],
    ),
    HopColumn::composite(
        "reader",
        "Reader",
        Left,
        "Program that reads, and how long it takes for a packet while others wait",
        &ReaderCell,
        &[
            "comm",
            "pid",
            "other_readers",
            "unlisted_reads",
            "read_every_ns",
            "processor_wait_ns",
        ],
        &[
            "reader",
            "other_readers",
            "unlisted_reads",
            "read_every_ns",
            "processor_wait_ns",
        ],
    ),
];

/// Returns the name of a class, as tc writes it, or of a listener.
pub(crate) fn part_name(part: Part) -> String {
    match part {
        Part::Class(class) => format!("{:x}:{:x}", class >> 16, class & 0xffff),
        Part::Listener { local, .. } => local.to_string(),
        Part::Connection { local, peer, .. } => match peer {
            Some(peer) => format!("{local} {peer}"),
            None => local.to_string(),
        },
    }
}

/// Returns the columns of a table.
pub(crate) fn table_columns(rows: &[HopRow<'_>]) -> String {
    let mut namespaces: Vec<_> = rows.iter().filter_map(|row| netns_of(row.hop)).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let netns = if namespaces.len() > 1 { ",netns" } else { "" };
    let has_buffer = rows.iter().any(|row| row.hop.send_buffer.is_some());
    let buffer = if has_buffer {
        ",unsent_bytes_max,unacked_bytes_max"
    } else {
        ""
    };
    let column = |name: &str, has_it: fn(&Hop) -> bool| {
        let is_there = rows.iter().any(|row| has_it(row.hop));
        if is_there {
            format!(",{name}")
        } else {
            String::new()
        }
    };
    let class = column("class", |hop| matches!(hop.part, Some(Part::Class(_))));
    let is_listener = |hop: &Hop| matches!(hop.part, Some(Part::Listener { .. }));
    let (listener, limit) = (
        column("listener", is_listener),
        column("queue_limit", is_listener),
    );
    let ring = column("ring_bytes_max", |hop| hop.ring_bytes.is_some());
    let is_connection = |hop: &Hop| matches!(hop.part, Some(Part::Connection { .. }));
    let connection = column("connection", is_connection);
    let waits = column("waits", |hop| hop.waiting.is_some());
    let waits_for = column("waits_for", |hop| hop.waiting.is_some());
    let waiting = column("waiting_bytes", |hop| {
        hop.waiting
            .as_ref()
            .is_some_and(|waiting| waiting.bytes.is_some())
    });
    let program = column("program", |hop| {
        hop.waiting
            .as_ref()
            .is_some_and(|waiting| waiting.program.is_some())
    });
    // Where nothing came through there are no times.
    let is_timed = rows.iter().any(|row| row.hop.is_timed()) || waits.is_empty();
    let (times, passed) = if is_timed {
        (
            ",packets,bytes,median_ns,p99_ns,max_ns,share_percent",
            ",drops,reader",
        )
    } else {
        ("", "")
    };
    let has_queue = |row: &HopRow<'_>| {
        !matches!(row.hop.part, Some(Part::Connection { .. })) || row.hop.key.device.is_some()
    };
    let queue = if rows.iter().any(has_queue) { ",queue" } else { "" };
    let has_device = |row: &HopRow<'_>| row.hop.key.device.is_some();
    let device = if is_timed || rows.iter().any(has_device) {
        ",device"
    } else {
        ""
    };
    format!(
        "direction,hop{device}{class}{listener}{connection}{netns}{times}{queue}{limit}{waiting}{waits}{waits_for}{ring}{buffer}{passed}{program}"
    )
}

/// Leaves out columns until a row is one line of a terminal of this width. Returns what is left, and what was left
/// out.
pub(crate) fn fit_columns(
    rows: &[HopRow<'_>],
    names: &str,
    width: Option<usize>,
) -> (String, Vec<&'static str>) {
    let mut kept: Vec<&str> = names.split(',').collect();
    let mut left_out = Vec::new();
    for name in FIRST_LEFT_OUT {
        if width.is_none_or(|width| line_width(rows, &kept) <= width) {
            break;
        }
        let before = kept.len();
        kept.retain(|column| *column != name);
        if kept.len() < before {
            left_out.push(name);
        }
    }
    (kept.join(","), left_out)
}

/// Returns how long the lines of a table are with these columns and a blank between them.
fn line_width(rows: &[HopRow<'_>], names: &[&str]) -> usize {
    let columns = parse_columns::<Hops>(&names.join(",")).unwrap_or_default();
    let mut out = Vec::new();
    let mut writer = ListingWriter::new(&mut out, Layout::new(Format::Table, columns));
    // A Vec takes everything.
    let _ = writer.begin();
    for row in rows {
        let _ = writer.row(&row);
    }
    let _ = writer.finish(&Summary::default());
    let longest = out.split(|&byte| byte == b'\n').map(display_width).max();
    // Two blanks are between columns there.
    longest.unwrap_or(0).saturating_sub(names.len().saturating_sub(1))
}

/// What a narrow terminal does not show. Direction, hop, device, median, share and drops stay.
const FIRST_LEFT_OUT: [&str; 17] = [
    "bytes",
    "max_ns",
    "packets",
    "unacked_bytes_max",
    "unsent_bytes_max",
    "ring_bytes_max",
    "queue_limit",
    "waits_for",
    "reader",
    "queue",
    "p99_ns",
    "netns",
    "program",
    "class",
    "waiting_bytes",
    "listener",
    "connection",
];

/// What a table shows of the times without a processor.
const PROCESSOR_WAIT_NS_MIN: u64 = 100_000;

struct Netns;
struct Queue;
struct Drops;
struct ReaderCell;

impl Composite<Hops> for Netns {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        match (&row.netns_name, netns_of(row.hop)) {
            (Some(name), _) => push_clean(out, name.as_bytes()),
            (None, Some(netns)) => out.extend_from_slice(netns.to_string().as_bytes()),
            (None, None) => {}
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        line.text(row.netns_name.as_deref());
        line.number(netns_of(row.hop));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        object.text("netns", row.netns_name.as_deref());
        object.number("netns_inode", netns_of(row.hop));
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(netns_of(row.hop)?.into()))
    }
}

/// Returns the network namespace of a hop's device or connection.
pub(crate) fn netns_of(hop: &Hop) -> Option<u32> {
    match (hop.key.device, hop.part) {
        (Some(device), _) => Some(device.netns),
        (None, Some(Part::Connection { netns, .. })) => netns,
        _ => None,
    }
}

/// Returns whether there is a queue, and how many packets are in it now, and were at most; `None` where bytes of a socket wait.
fn queue(hop: &Hop) -> (Option<bool>, Option<[u64; 2]>) {
    let is_socket = matches!(hop.part, Some(Part::Connection { .. })) && hop.key.device.is_none();
    let (has_queue, max) = match hop.qdisc {
        _ if is_socket => return (None, None),
        Some(Qdisc::None) => (Some(false), 0),
        Some(Qdisc::Packets(packets)) => (Some(true), hop.queued_max.max(packets.into())),
        None => (None, hop.queued_max),
    };
    (has_queue, Some([hop.queued_now, max]))
}

impl Composite<Hops> for Queue {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        match queue(row.hop) {
            (Some(false), _) => out.extend_from_slice(b"none"),
            (_, Some([now, max])) => out.extend_from_slice(format!("{now}/{max}").as_bytes()),
            (_, None) => {}
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        let (exists, packets) = queue(row.hop);
        line.boolean(exists);
        line.number(packets.map(|[now, _]| now));
        line.number(packets.map(|[_, max]| max));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        let (exists, packets) = queue(row.hop);
        object.boolean("has_queue", exists);
        object.number("queued_now", packets.map(|[now, _]| now));
        object.number("queued_max", packets.map(|[_, max]| max));
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(queue(row.hop).1?[1]))
    }
}

impl Composite<Hops> for Drops {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        let Some(dropped) = row.measured(row.hop.dropped()) else {
            return Tint::None;
        };
        out.extend_from_slice(dropped.to_string().as_bytes());
        if dropped > 0 { Tint::Yellow } else { Tint::None }
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        line.number(row.measured(row.hop.dropped()));
        let reasons: Vec<_> = row.hop.drops.keys().map(String::as_str).collect();
        line.text(
            Some(&reasons.join(" "))
                .filter(|_| !reasons.is_empty())
                .map(String::as_str),
        );
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        object.number("drops", row.measured(row.hop.dropped()));
        if row.hop.drops.is_empty() {
            return;
        }
        let mut reasons = object.object("drop_reasons");
        for (reason, count) in &row.hop.drops {
            let reason = if reason.is_empty() { "unknown" } else { reason };
            reasons.number(reason, Some(*count));
        }
        reasons.end();
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(row.hop.dropped()))
    }
}

/// Returns the median time that it had no processor.
fn processor_wait_ns(reader: &Reader) -> Option<u64> {
    reader.processor_waits.percentile(Histogram::P50)
}

impl Composite<Hops> for ReaderCell {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        let Some(reader) = row.hop.readers.first() else {
            return Tint::None;
        };
        push_clean(out, reader.comm.as_bytes());
        if let Some(pid) = reader.pid {
            out.extend_from_slice(format!("({pid})").as_bytes());
        }
        if row.hop.readers.len() > 1 {
            out.extend_from_slice(format!(" +{}", row.hop.readers.len() - 1).as_bytes());
            if row.hop.unlisted_reads > 0 {
                out.extend_from_slice(b" or more");
            }
        }
        if let Some(ns) = reader.pace_ns() {
            out.extend_from_slice(format!(" every {}", duration(ns)).as_bytes());
        }
        if let Some(ns) = processor_wait_ns(reader).filter(|ns| *ns >= PROCESSOR_WAIT_NS_MIN) {
            out.extend_from_slice(format!(", {} without a processor", duration(ns)).as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        let reader = row.hop.readers.first();
        line.bytes(reader.map(|reader| reader.comm.as_bytes()));
        line.number(reader.and_then(|reader| reader.pid));
        line.number(reader.map(|_| row.hop.readers.len() as u64 - 1));
        line.number(reader.map(|_| row.hop.unlisted_reads));
        line.number(reader.and_then(Reader::pace_ns));
        line.number(reader.and_then(processor_wait_ns));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        let Some(reader) = row.hop.readers.first() else {
            return;
        };
        let mut process = object.object("reader");
        process.bytes("comm", Some(reader.comm.as_bytes()));
        process.number("pid", reader.pid);
        process.end();
        object.number("other_readers", Some(row.hop.readers.len() as u64 - 1));
        object.number("unlisted_reads", Some(row.hop.unlisted_reads));
        object.number("read_every_ns", reader.pace_ns());
        object.number("processor_wait_ns", processor_wait_ns(reader));
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        let reader = row.hop.readers.first()?;
        Some(SortValue::Text(reader.comm.as_bytes().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_path::{AcceptFold, PathReport, QueueFold};

    #[test]
    fn row_of_a_narrow_terminal_is_one_line() {
        let mut queues = QueueFold::default();
        let listener = Part::Listener {
            local: ([127, 0, 0, 1], 80).into(),
            netns: None,
            limit: Some(4096),
        };
        queues.add_listener(listener, 3);
        let mut report = PathReport::default();
        report.add_queues(&queues, &AcceptFold::default());
        let rows: Vec<HopRow<'_>> = report
            .hops
            .iter()
            .map(|hop| HopRow {
                part_name: hop.part.map(part_name),
                ..HopRow::alone(hop)
            })
            .collect();
        let all = table_columns(&rows);
        assert_eq!(fit_columns(&rows, &all, None), (all.clone(), vec![]));
        assert_eq!(fit_columns(&rows, &all, Some(200)), (all.clone(), vec![]));
        for width in [80, 60, 40] {
            let (kept, left_out) = fit_columns(&rows, &all, Some(width));
            let names: Vec<&str> = kept.split(',').collect();
            assert!(line_width(&rows, &names) <= width, "{width}: {kept}");
            assert!(names.len() + left_out.len() == all.split(',').count());
            for name in [
                "direction",
                "hop",
                "device",
                "median_ns",
                "share_percent",
                "drops",
            ] {
                assert!(names.contains(&name), "{width}: {kept}");
            }
        }
        assert!(fit_columns(&rows, &all, Some(60)).1.len() < fit_columns(&rows, &all, Some(40)).1.len());
    }

    #[test]
    fn classes_are_named_as_by_tc() {
        assert_eq!(part_name(Part::Class(0x0001_00a0)), "1:a0");
    }
}
