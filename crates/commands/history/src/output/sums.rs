//! The columns of an export.

use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_store::PeriodSums;

/// Sums over five minutes, with their begin as text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SumRow<'a> {
    pub(crate) start: &'a str,
    pub(crate) sums: &'a PeriodSums,
}

/// Sums as records: `docs/schema/history.schema.json`, `$defs/sums`.
#[derive(Debug)]
pub(crate) struct SumRows;

impl Record for SumRows {
    type Row<'a> = SumRow<'a>;

    const KEY: &'static str = "sums";
    const ROW: &'static str = "talker_sums";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type SumColumn = Column<SumRows>;

/// Creates a column with a sum.
macro_rules! sum {
    ($name:literal, $member:ident, $about:literal) => {
        SumColumn::value($name, $name, Right, $about, |row, _| {
            Value::Number(row.sums.sums.$member)
        })
    };
}

/// All columns, in the order of CSV.
static COLUMNS: &[SumColumn] = &[
    SumColumn::value(
        "start_time",
        "start_time",
        Left,
        "Begin of the five minutes, in UTC",
        |row, _| Value::Text(row.start.as_bytes()),
    ),
    SumColumn::value(
        "netns_inode",
        "netns_inode",
        Right,
        "Network namespace",
        |row, _| Value::number(row.sums.netns_inode),
    ),
    SumColumn::value(
        "direction",
        "direction",
        Left,
        "active if we connected, passive if the peer did",
        |row, _| Value::Text(row.sums.direction.as_bytes()),
    ),
    SumColumn::value("peer_ip", "peer_ip", Left, "The peer's address", |row, _| {
        Value::Text(row.sums.peer.as_bytes())
    }),
    SumColumn::value("port", "port", Right, "Port of the service", |row, _| {
        Value::Number(row.sums.port)
    }),
    SumColumn::value(
        "owner_comm",
        "owner_comm",
        Left,
        "Name of the process",
        |row, _| Value::text(row.sums.owner.as_deref().map(str::as_bytes)),
    ),
    SumColumn::value("container", "container", Left, "Container", |row, _| {
        Value::text(row.sums.container.as_deref().map(str::as_bytes))
    }),
    sum!("sent_bytes", sent_bytes, "Bytes that the peers acknowledged"),
    sum!("received_bytes", received_bytes, "Bytes received"),
    sum!("retrans_segs", retrans_segs, "Segments retransmitted"),
    sum!("opened", opened, "Connections opened"),
    sum!("closed", closed, "Connections closed"),
    sum!("connections_max", connections, "The most connections of a sample"),
];
