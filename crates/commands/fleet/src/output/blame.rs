//! The columns of judged edges.

use super::edge::EdgeRow;
use sockeye_console::rows::Fit;
use sockeye_fleet::Blame;
use sockeye_fleet::question::Edge;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;

/// An edge and its judgement.
#[derive(Debug)]
pub(crate) struct BlameRow<'a> {
    edge: EdgeRow<'a>,
    pub(crate) blame: &'a Blame,
}

impl<'a> BlameRow<'a> {
    pub(crate) fn of(edge: &'a Edge, blame: &'a Blame) -> Self {
        Self {
            edge: EdgeRow::of(edge),
            blame,
        }
    }
}

/// Judged edges as records: `docs/schema/fleet.schema.json`, `$defs/fleet_blame`.
#[derive(Debug)]
pub(crate) struct BlameRows;

impl BlameRows {
    /// What a narrow terminal does not show in the line of a row.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "evidence",
            "seen_by",
            "request_bytes",
            "response_bytes",
            "client_ip",
            "server_ip",
            "client_host",
            "server_host",
            "port",
            "client_service",
        ],
        below: true,
    };
}

impl Record for BlameRows {
    type Row<'a> = &'a BlameRow<'a>;

    const KEY: &'static str = "fleet_blames";
    const ROW: &'static str = "fleet_blame";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type BlameColumn = Column<BlameRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[BlameColumn] = &[
    BlameColumn::value(
        "cause",
        "Cause",
        Left,
        "What makes it slow: server, network, client, none",
        |row, _| Value::Word(row.blame.cause.name()),
    ),
    BlameColumn::value(
        "client_host",
        "Client host",
        Left,
        "Host of the client",
        |row, _| text(&row.edge.client_end.host),
    ),
    BlameColumn::value(
        "client_service",
        "Client service",
        Left,
        "Container, unit or process of the client; all of them, if it is not known which one it is",
        |row, _| text(&row.edge.client_end.service),
    ),
    BlameColumn::value(
        "client_ip",
        "Client address",
        Left,
        "The end that connected",
        |row, _| Value::text(row.edge.client.as_deref().map(str::as_bytes)),
    ),
    BlameColumn::value(
        "server_host",
        "Server host",
        Left,
        "Host of the server",
        |row, _| text(&row.edge.server_end.host),
    ),
    BlameColumn::value(
        "server_service",
        "Server service",
        Left,
        "Container, unit or process of the server; all of them, if it is not known which one it is",
        |row, _| text(&row.edge.server_end.service),
    ),
    BlameColumn::value(
        "server_ip",
        "Server address",
        Left,
        "The end that listens",
        |row, _| Value::text(row.edge.server.as_deref().map(str::as_bytes)),
    ),
    BlameColumn::value("port", "Port", Right, "Port of the server", |row, _| {
        Value::Number(row.edge.port.into())
    }),
    BlameColumn::value(
        "seen_by",
        "Seen by",
        Left,
        "Which ends sent rows: both, client, server",
        |row, _| Value::Word(row.edge.seen_by()),
    ),
    BlameColumn::value(
        "request_bytes",
        "Requests",
        Right,
        "Bytes from client to server",
        |row, _| Value::Number(row.edge.request_bytes),
    )
    .unit(Unit::Bytes),
    BlameColumn::value(
        "response_bytes",
        "Responses",
        Right,
        "Bytes from server to client",
        |row, _| Value::Number(row.edge.response_bytes),
    )
    .unit(Unit::Bytes),
    BlameColumn::value("evidence", "Evidence", Left, "What was seen", |row, _| {
        Value::Text(row.blame.evidence.as_bytes())
    }),
];

fn text(text: &str) -> Value<'_> {
    Value::text((!text.is_empty()).then_some(text.as_bytes()))
}
