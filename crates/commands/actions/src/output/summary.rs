//! Rows of keepalive per program: how many connections of each have it. `keepalive/summary.rs` counts them. Pure: no file,
//! socket or clock.

use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Record, SortValue, Value};
use sockeye_output::number::push_decimal;
use sockeye_output::table::Tint;
use sockeye_output::unit::Unit;

/// The connections of all processes of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepaliveOwner<'a> {
    /// Name of the processes; `None`: connections without a known owner.
    pub comm: Option<&'a [u8]>,
    /// Number of processes.
    pub processes: u64,
    /// Number of connections.
    pub connections: u64,
    /// Number of connections with keepalive.
    pub on: u64,
    /// Number of connections without keepalive.
    pub off: u64,
    /// Number of connections whose keepalive is unknown.
    pub unknown: u64,
    /// Longest idle time of a connection without keepalive; `None` if there is none.
    pub idle_ms_max_off: Option<u32>,
}

/// The kind of record that is a [`KeepaliveOwner`].
#[derive(Debug)]
pub struct KeepaliveOwners;

impl Record for KeepaliveOwners {
    type Row<'a> = KeepaliveOwner<'a>;

    const KEY: &'static str = "owners";
    const ROW: &'static str = "keepalive_owner";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type OwnerColumn = Column<KeepaliveOwners>;

static COLUMNS: &[OwnerColumn] = &[
    OwnerColumn::value("comm", "Process", Left, "Name of the processes", |owner, _| {
        Value::text(owner.comm)
    }),
    OwnerColumn::value(
        "processes",
        "Processes",
        Right,
        "Number of processes",
        |owner, _| Value::Number(owner.processes),
    ),
    OwnerColumn::value(
        "connections",
        "Connections",
        Right,
        "Number of connections",
        |owner, _| Value::Number(owner.connections),
    ),
    OwnerColumn::value("on", "On", Right, "Connections with keepalive", |owner, _| {
        Value::Number(owner.on)
    }),
    OwnerColumn::composite(
        "off",
        "Off",
        Right,
        "Connections without keepalive",
        &Off,
        &["off"],
        &["off"],
    ),
    OwnerColumn::value(
        "unknown",
        "Unknown",
        Right,
        "Connections with unknown keepalive",
        |owner, _| Value::Number(owner.unknown),
    ),
    OwnerColumn::value(
        "idle_ms_max_off",
        "LongestIdleOff",
        Right,
        "Longest idle time of a connection without keepalive",
        |owner, _| Value::number(owner.idle_ms_max_off),
    )
    .unit(Unit::Ms),
];

/// The number of connections without keepalive; a table highlights it.
struct Off;

impl Composite<KeepaliveOwners> for Off {
    fn push_cell(&self, out: &mut Vec<u8>, owner: &KeepaliveOwner<'_>) -> Tint {
        push_decimal(out, owner.off);
        if owner.off > 0 { Tint::Yellow } else { Tint::None }
    }

    fn push_csv(&self, line: &mut Line<'_>, owner: &KeepaliveOwner<'_>) {
        line.number(Some(owner.off));
    }

    fn push_json(&self, object: &mut Object<'_>, owner: &KeepaliveOwner<'_>) {
        object.number("off", Some(owner.off));
    }

    fn sort_value(&self, owner: &KeepaliveOwner<'_>) -> Option<SortValue> {
        Some(SortValue::Number(owner.off))
    }
}
