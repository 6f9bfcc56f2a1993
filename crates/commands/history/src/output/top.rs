//! The columns of talkers.

use sockeye_console::rows::Fit;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;
use sockeye_store::Talker;

/// A talker, and what talkers are summed up by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopRow<'a> {
    pub(crate) by: &'static str,
    pub(crate) talker: &'a Talker,
}

/// Talkers as records: `docs/schema/history.schema.json`, `$defs/talker`.
#[derive(Debug)]
pub(crate) struct TopRows;

impl TopRows {
    /// What a narrow terminal does not show.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "closed",
            "opened",
            "connections_max",
            "retrans_segs",
            "received_bytes",
        ],
        below: false,
    };
}

impl Record for TopRows {
    type Row<'a> = TopRow<'a>;

    const KEY: &'static str = "talkers";
    const ROW: &'static str = "talker";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type TopColumn = Column<TopRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[TopColumn] = &[
    TopColumn::value("by", "By", Left, "What is summed up together", |row, _| {
        Value::Word(row.by)
    }),
    TopColumn::value(
        "name",
        "Name",
        Left,
        "Owner, peer, port, namespace or container",
        |row, _| Value::text(row.talker.name.as_deref().map(str::as_bytes)),
    ),
    TopColumn::value(
        "sent_bytes",
        "Sent",
        Right,
        "Bytes that the peers acknowledged",
        |row, _| Value::Number(row.talker.sums.sent_bytes),
    )
    .unit(Unit::Bytes),
    TopColumn::value("received_bytes", "Received", Right, "Bytes received", |row, _| {
        Value::Number(row.talker.sums.received_bytes)
    })
    .unit(Unit::Bytes),
    TopColumn::value(
        "retrans_segs",
        "Retrans",
        Right,
        "Segments retransmitted",
        |row, _| Value::Number(row.talker.sums.retrans_segs),
    )
    .unit(Unit::Count),
    TopColumn::value("opened", "Opened", Right, "Connections opened", |row, _| {
        Value::Number(row.talker.sums.opened)
    })
    .unit(Unit::Count),
    TopColumn::value("closed", "Closed", Right, "Connections closed", |row, _| {
        Value::Number(row.talker.sums.closed)
    })
    .unit(Unit::Count),
    TopColumn::value(
        "connections_max",
        "Connections",
        Right,
        "The most connections at a time",
        |row, _| Value::Number(row.talker.sums.connections),
    )
    .unit(Unit::Count),
];
