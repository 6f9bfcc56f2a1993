//! The columns of single packets.

use super::super::rows::DropRow;
use super::push_headers;
use super::rows::{
    Owner, push_headers_csv, push_headers_json, push_rule, push_rule_csv, push_rule_json, push_text,
    rule_cell,
};
use sockeye_output::csv::Line;
use sockeye_output::date::push_rfc3339_us;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Record, SortValue, Value};
use sockeye_output::table::Tint;
use sockeye_wire::drops::Headers;

/// A dropped packet.
#[derive(Debug, Clone)]
pub(in super::super) struct ShownPacket {
    /// When, in microseconds since 1970.
    pub(in super::super) time_us: u64,
    /// The local time of day, for a table.
    pub(in super::super) clock: String,
    pub(in super::super) row: DropRow,
    pub(in super::super) len: u32,
    pub(in super::super) owner: Option<String>,
}

/// Single packets as records: `docs/schema/drops.schema.json`, `$defs/packet`.
#[derive(Debug)]
pub(in super::super) struct DropPackets;

impl Record for DropPackets {
    type Row<'a> = &'a ShownPacket;

    const KEY: &'static str = "dropped_packets";
    const ROW: &'static str = "dropped_packet";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type PacketColumn = Column<DropPackets>;

/// All columns, in the order of CSV.
static COLUMNS: &[PacketColumn] = &[
    // Every line of JSON lines and CSV begins with it.
    PacketColumn::composite("time", "Time", Left, "When it was dropped", &Time, &[], &[]).for_later(15),
    PacketColumn::composite(
        "dropped_at",
        "Dropped",
        Left,
        "When it was dropped, in UTC",
        &Utc,
        &["dropped_at"],
        &["dropped_at"],
    ),
    PacketColumn::value(
        "class",
        "Class",
        Left,
        "What it means: loss, policy, refusal, normal",
        |packet, _| {
            packet
                .row
                .class
                .map_or(Value::Absent, |class| Value::Word(class.name()))
        },
    )
    .for_later(7),
    PacketColumn::value("reason", "Reason", Left, "The kernel's reason", |packet, _| {
        Value::text(packet.row.reason.as_deref().map(str::as_bytes))
    })
    .for_later(16),
    PacketColumn::value("protocol", "Proto", Left, "Protocol", |packet, _| {
        Value::text(packet.row.protocol_name.as_deref().map(str::as_bytes))
    }),
    PacketColumn::composite(
        "packet",
        "Packet",
        Left,
        "Its addresses",
        &Addresses,
        &["source_ip", "source_port", "destination_ip", "destination_port"],
        &["source", "destination"],
    )
    .for_later(46),
    PacketColumn::value(
        "len_bytes",
        "Len",
        Right,
        "Its length from the network header on",
        |packet, _| Value::Number(packet.len.into()),
    ),
    PacketColumn::value(
        "owner_name",
        "Owner",
        Left,
        "Process that owns the socket",
        |packet, _| Value::text(packet.owner.as_deref().map(str::as_bytes)),
    )
    .for_later(15),
    PacketColumn::composite(
        "process",
        "Process",
        Left,
        "The same process, and how it is known",
        &Owner,
        &["comm", "pid", "other_owners", "owner_by"],
        &["process", "other_owners", "owner_by"],
    ),
    PacketColumn::value("device", "Device", Left, "Network device", |packet, _| {
        let device = packet.row.device.as_ref();
        device.map_or(Value::Absent, |device| Value::Name(device.as_bytes()))
    })
    .for_later(8),
    PacketColumn::value("netns", "Netns", Left, "Network namespace", |packet, _| {
        Value::text(packet.row.netns_name.as_deref().map(str::as_bytes))
    }),
    PacketColumn::value(
        "netns_inode",
        "Inode",
        Right,
        "Inode of the network namespace",
        |packet, _| Value::number(packet.row.netns.map(|netns| netns.0)),
    ),
    PacketColumn::value(
        "function",
        "Place",
        Left,
        "Function of the kernel",
        |packet, _| Value::text(packet.row.place.as_deref().map(str::as_bytes)),
    )
    .for_later(24),
    PacketColumn::composite(
        "firewall_rule",
        "Rule",
        Left,
        "Rule of the packet filter that dropped it, or how many it can be",
        &Rule,
        &[
            "firewall_family",
            "firewall_table",
            "firewall_chain",
            "firewall_handle",
            "firewall_rules",
        ],
        &["firewall_rule", "firewall_rules"],
    )
    .for_later(24),
];

/// The columns of a table.
pub(in super::super) const TABLE_COLUMNS: &str =
    "time,class,reason,protocol,packet,len_bytes,owner_name,device,netns,function,firewall_rule";

struct Time;

struct Utc;

struct Addresses;

struct Rule;

impl Addresses {
    fn of(packet: &ShownPacket) -> Option<&Headers> {
        packet.row.samples.last()
    }
}

impl Composite<DropPackets> for Time {
    fn push_cell(&self, out: &mut Vec<u8>, packet: &&ShownPacket) -> Tint {
        out.extend_from_slice(packet.clock.as_bytes());
        Tint::None
    }

    fn push_csv(&self, _line: &mut Line<'_>, _packet: &&ShownPacket) {}

    fn push_json(&self, _object: &mut Object<'_>, _packet: &&ShownPacket) {}

    fn sort_value(&self, packet: &&ShownPacket) -> Option<SortValue> {
        Some(SortValue::Number(packet.time_us))
    }
}

impl Utc {
    fn text(packet: &ShownPacket) -> String {
        let mut text = String::new();
        push_rfc3339_us(&mut text, packet.time_us);
        text
    }
}

impl Composite<DropPackets> for Utc {
    fn push_cell(&self, out: &mut Vec<u8>, packet: &&ShownPacket) -> Tint {
        out.extend_from_slice(Self::text(packet).as_bytes());
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, packet: &&ShownPacket) {
        line.text(Some(&Self::text(packet)));
    }

    fn push_json(&self, object: &mut Object<'_>, packet: &&ShownPacket) {
        object.text("dropped_at", Some(&Self::text(packet)));
    }

    fn sort_value(&self, packet: &&ShownPacket) -> Option<SortValue> {
        Some(SortValue::Number(packet.time_us))
    }
}

impl Composite<DropPackets> for Addresses {
    fn push_cell(&self, out: &mut Vec<u8>, packet: &&ShownPacket) -> Tint {
        if let Some(headers) = Self::of(packet) {
            push_headers(out, headers);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, packet: &&ShownPacket) {
        push_headers_csv(line, Self::of(packet));
    }

    fn push_json(&self, object: &mut Object<'_>, packet: &&ShownPacket) {
        if let Some(headers) = Self::of(packet) {
            push_headers_json(object, headers);
        }
    }

    fn sort_value(&self, packet: &&ShownPacket) -> Option<SortValue> {
        let mut text = Vec::new();
        push_headers(&mut text, Self::of(packet)?);
        Some(SortValue::Text(text.as_slice().into()))
    }
}

impl Composite<DropPackets> for Owner {
    fn push_cell(&self, out: &mut Vec<u8>, packet: &&ShownPacket) -> Tint {
        push_text(out, packet.owner.as_deref())
    }

    fn push_csv(&self, line: &mut Line<'_>, packet: &&ShownPacket) {
        Self::push_fields_csv(line, &packet.row);
    }

    fn push_json(&self, object: &mut Object<'_>, packet: &&ShownPacket) {
        Self::push_fields_json(object, &packet.row);
    }

    fn sort_value(&self, packet: &&ShownPacket) -> Option<SortValue> {
        Some(SortValue::Text(packet.owner.as_ref()?.as_bytes().into()))
    }
}

impl Composite<DropPackets> for Rule {
    fn push_cell(&self, out: &mut Vec<u8>, packet: &&ShownPacket) -> Tint {
        push_rule(out, &packet.row)
    }

    fn push_csv(&self, line: &mut Line<'_>, packet: &&ShownPacket) {
        push_rule_csv(line, &packet.row);
    }

    fn push_json(&self, object: &mut Object<'_>, packet: &&ShownPacket) {
        push_rule_json(object, &packet.row);
    }

    fn sort_value(&self, packet: &&ShownPacket) -> Option<SortValue> {
        let text = rule_cell(&packet.row)?;
        Some(SortValue::Text(text.as_bytes().into()))
    }
}
