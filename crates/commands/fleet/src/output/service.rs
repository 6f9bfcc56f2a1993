//! The columns of the map of services.

use sockeye_console::rows::Fit;
use sockeye_fleet::question::ServiceEdge;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;

/// Edges between services as records: `docs/schema/fleet.schema.json`, `$defs/service_edge`.
#[derive(Debug)]
pub(crate) struct ServiceRows;

impl ServiceRows {
    /// What a narrow terminal does not show.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "pairs_of_both",
            "pairs",
            "opened",
            "retrans_segs",
            "connections_max",
            "request_bytes",
            "rtt_us_mean",
            "response_bytes",
        ],
        below: false,
    };
}

impl Record for ServiceRows {
    type Row<'a> = &'a ServiceEdge;

    const KEY: &'static str = "service_edges";
    const ROW: &'static str = "service_edge";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type ServiceColumn = Column<ServiceRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[ServiceColumn] = &[
    ServiceColumn::value(
        "client_service",
        "Client",
        Left,
        "Service of the clients, or their address",
        |row, _| Value::Text(row.client.as_bytes()),
    ),
    ServiceColumn::value(
        "server_service",
        "Server",
        Left,
        "Service of the servers, or their address",
        |row, _| Value::Text(row.server.as_bytes()),
    ),
    ServiceColumn::value("port", "Port", Right, "Port of the servers", |row, _| {
        Value::Number(row.port.into())
    }),
    ServiceColumn::value("pairs", "Pairs", Right, "Pairs of hosts", |row, _| {
        Value::Number(row.edges)
    })
    .unit(Unit::Count),
    ServiceColumn::value(
        "pairs_of_both",
        "Both",
        Right,
        "Pairs of which both ends sent rows",
        |row, _| Value::Number(row.edges_of_both),
    )
    .unit(Unit::Count),
    ServiceColumn::value(
        "connections_max",
        "Connections",
        Right,
        "The most connections of the pairs, summed",
        |row, _| Value::Number(row.connections),
    )
    .unit(Unit::Count),
    ServiceColumn::value("opened", "Opened", Right, "Connections opened", |row, _| {
        Value::Number(row.opened)
    })
    .unit(Unit::Count),
    ServiceColumn::value(
        "request_bytes",
        "Requests",
        Right,
        "Bytes from clients to servers",
        |row, _| Value::Number(row.request_bytes),
    )
    .unit(Unit::Bytes),
    ServiceColumn::value(
        "response_bytes",
        "Responses",
        Right,
        "Bytes from servers to clients",
        |row, _| Value::Number(row.response_bytes),
    )
    .unit(Unit::Bytes),
    ServiceColumn::value(
        "retrans_segs",
        "Retrans",
        Right,
        "Segments that either end retransmitted",
        |row, _| Value::Number(row.retrans_segs),
    )
    .unit(Unit::Count),
    ServiceColumn::value(
        "rtt_us_mean",
        "RTT",
        Right,
        "Mean of the median round trip times",
        |row, _| Value::number(known(row.rtt_us_mean)),
    )
    .unit(Unit::RoundTripUs),
];

fn known(us: u64) -> Option<u64> {
    (us > 0).then_some(us)
}
