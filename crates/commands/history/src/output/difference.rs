//! The columns of flows that differ between two times.

use sockeye_console::rows::Fit;
use sockeye_flow::FlowDifference;
use sockeye_model::{Direction, Totals};
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;

/// A flow that differs, with its addresses as text.
#[derive(Debug, Clone)]
pub(crate) struct Ends<'a> {
    difference: &'a FlowDifference,
    local: Option<String>,
    peer: Option<String>,
}

impl<'a> Ends<'a> {
    pub(crate) fn of(difference: &'a FlowDifference) -> Self {
        let text = |ip: Option<std::net::IpAddr>| ip.map(|ip| ip.to_string());
        Self {
            difference,
            local: text(difference.key.local),
            peer: text(difference.key.peer),
        }
    }
}

/// Flows that differ as records: `docs/schema/history.schema.json`, `$defs/difference`.
#[derive(Debug)]
pub(crate) struct DifferenceRows;

impl DifferenceRows {
    /// What a narrow terminal does not show.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "netns_inode",
            "rtt_us_median_before",
            "local_ip",
            "direction",
            "rtt_us_median",
            "connections_before",
        ],
        below: false,
    };
}

impl Record for DifferenceRows {
    type Row<'a> = &'a Ends<'a>;

    const KEY: &'static str = "differences";
    const ROW: &'static str = "flow_difference";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type DifferenceColumn = Column<DifferenceRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[DifferenceColumn] = &[
    DifferenceColumn::value("change", "Change", Left, "How the flow differs", |row, _| {
        Value::Word(row.difference.change.name())
    }),
    DifferenceColumn::value("netns_inode", "Netns", Right, "Network namespace", |row, _| {
        Value::number(row.difference.key.netns.map(|netns| netns.0))
    }),
    DifferenceColumn::value("local_ip", "Local", Left, "Our address", |row, _| {
        Value::text(row.local.as_deref().map(str::as_bytes))
    }),
    DifferenceColumn::value(
        "direction",
        "Direction",
        Left,
        "active if we connected, passive if the peer did",
        |row, _| {
            Value::Word(match row.difference.key.direction {
                Direction::Active => "active",
                Direction::Passive => "passive",
            })
        },
    ),
    DifferenceColumn::value("peer_ip", "Peer", Left, "The peer's address", |row, _| {
        Value::text(row.peer.as_deref().map(str::as_bytes))
    }),
    DifferenceColumn::value("port", "Port", Right, "Port of the service", |row, _| {
        Value::number(row.difference.key.port.map(|port| port.0))
    }),
    DifferenceColumn::value(
        "connections_before",
        "Before",
        Right,
        "Connections at the earlier time",
        |row, _| Value::Number(row.difference.connections_before.into()),
    ),
    DifferenceColumn::value(
        "connections",
        "After",
        Right,
        "Connections at the later time",
        |row, _| Value::Number(row.difference.connections.into()),
    ),
    DifferenceColumn::value(
        "rtt_us_median_before",
        "RTT Before",
        Right,
        "Median round trip time before",
        |row, _| rtt(row.difference.totals_before),
    )
    .unit(Unit::Us),
    DifferenceColumn::value(
        "rtt_us_median",
        "RTT",
        Right,
        "Median round trip time after",
        |row, _| rtt(row.difference.totals),
    )
    .unit(Unit::Us),
];

fn rtt<'a>(totals: Option<Totals>) -> Value<'a> {
    Value::number(totals.and_then(|totals| totals.rtt_us_median))
}
