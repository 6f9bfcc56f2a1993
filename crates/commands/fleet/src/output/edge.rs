//! The columns of edges: who talked to whom.

use sockeye_console::rows::Fit;
use sockeye_fleet::question::{Edge, EdgeEnd};
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;
use std::net::IpAddr;

/// An edge, with its addresses as text.
#[derive(Debug)]
pub(crate) struct EdgeRow<'a> {
    edge: &'a Edge,
    pub(super) client: Option<String>,
    pub(super) server: Option<String>,
    via: Option<String>,
}

impl<'a> EdgeRow<'a> {
    pub(crate) fn of(edge: &'a Edge) -> Self {
        let address = |ip: IpAddr| (!ip.is_unspecified()).then(|| ip.to_string());
        Self {
            edge,
            client: address(edge.client),
            server: address(edge.server),
            via: edge
                .via
                .map(|(ip, port)| std::net::SocketAddr::new(ip, port).to_string()),
        }
    }
}

impl std::ops::Deref for EdgeRow<'_> {
    type Target = Edge;

    fn deref(&self) -> &Edge {
        self.edge
    }
}

/// Edges as records: `docs/schema/fleet.schema.json`, `$defs/fleet_edge`.
#[derive(Debug)]
pub(crate) struct EdgeRows;

impl EdgeRows {
    /// What a narrow terminal does not show in the line of a row: at the end of it names and addresses, of which each edge has some.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "via",
            "server_retrans_segs",
            "client_retrans_segs",
            "seen_by",
            "client_rtt_us_mean",
            "opened",
            "failed",
            "client_ip",
            "server_ip",
            "request_bytes",
            "response_bytes",
            "client_host",
            "server_host",
            "connections_max",
        ],
        below: true,
    };
}

impl Record for EdgeRows {
    type Row<'a> = &'a EdgeRow<'a>;

    const KEY: &'static str = "fleet_edges";
    const ROW: &'static str = "fleet_edge";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

impl EdgeRows {
    /// Returns the columns of a table of rows: without those that say nothing of any of them.
    pub(crate) fn table_columns(rows: &[EdgeRow<'_>]) -> Vec<&'static Column<Self>> {
        let is_shown = |name: &&'static str| match *name {
            "via" => rows.iter().any(|row| row.via.is_some()),
            "failed" => rows.iter().any(|row| row.client_end.failed > 0),
            "client_retrans_segs" => rows.iter().any(|row| row.client_end.retrans_segs > 0),
            "server_retrans_segs" => rows.iter().any(|row| row.server_end.retrans_segs > 0),
            _ => true,
        };
        let shown: Vec<_> = SHOWN.iter().copied().filter(is_shown).collect();
        COLUMNS
            .iter()
            .filter(|column| shown.contains(&column.name))
            .collect()
    }
}

const SHOWN: &[&str] = &[
    "client_host",
    "client_service",
    "client_ip",
    "server_host",
    "server_service",
    "server_ip",
    "port",
    "via",
    "seen_by",
    "connections_max",
    "opened",
    "failed",
    "request_bytes",
    "response_bytes",
    "client_rtt_us_mean",
    "client_retrans_segs",
    "server_retrans_segs",
];

type EdgeColumn = Column<EdgeRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[EdgeColumn] = &[
    EdgeColumn::value(
        "client_host",
        "Client host",
        Left,
        "Host of the client",
        |row, _| text(&row.client_end.host),
    ),
    EdgeColumn::value(
        "client_service",
        "Client service",
        Left,
        "Container, unit or process of the client",
        |row, _| text(&row.client_end.service),
    ),
    EdgeColumn::value(
        "client_ip",
        "Client address",
        Left,
        "The end that connected; absent in a row of folded flows",
        |row, _| Value::text(row.client.as_deref().map(str::as_bytes)),
    ),
    EdgeColumn::value(
        "server_host",
        "Server host",
        Left,
        "Host of the server",
        |row, _| text(&row.server_end.host),
    ),
    EdgeColumn::value(
        "server_service",
        "Server service",
        Left,
        "Container, unit or process of the server",
        |row, _| text(&row.server_end.service),
    ),
    EdgeColumn::value(
        "server_ip",
        "Server address",
        Left,
        "The end that listens; absent in a row of folded flows",
        |row, _| Value::text(row.server.as_deref().map(str::as_bytes)),
    ),
    EdgeColumn::value("port", "Port", Right, "Port of the server", |row, _| {
        Value::Number(row.port.into())
    }),
    EdgeColumn::value(
        "via",
        "Via",
        Left,
        "Address and port that the client connected to, if NAT makes those of the server of it",
        |row, _| Value::text(row.via.as_deref().map(str::as_bytes)),
    ),
    EdgeColumn::value(
        "zone",
        "Zone",
        Left,
        "Host on which the addresses are valid; absent: everywhere",
        |row, _| text(&row.zone),
    ),
    EdgeColumn::value(
        "seen_by",
        "Seen by",
        Left,
        "Which ends sent rows: both, client, server",
        |row, _| Value::Word(row.seen_by()),
    ),
    EdgeColumn::value(
        "connections_max",
        "Connections",
        Right,
        "The most connections in an interval",
        |row, _| Value::Number(row.connections),
    )
    .unit(Unit::Count),
    EdgeColumn::value("opened", "Opened", Right, "Connections opened", |row, _| {
        Value::Number(row.opened)
    })
    .unit(Unit::Count),
    EdgeColumn::value(
        "failed",
        "Failed",
        Right,
        "Connects that failed, as the client saw it",
        |row, _| seen(&row.client_end, row.client_end.failed),
    )
    .unit(Unit::Count),
    EdgeColumn::value(
        "refused",
        "Refused",
        Right,
        "Of these, those that the server refused",
        |row, _| seen(&row.client_end, row.client_end.refused),
    )
    .unit(Unit::Count),
    EdgeColumn::value(
        "request_bytes",
        "Requests",
        Right,
        "Bytes from client to server",
        |row, _| Value::Number(row.request_bytes),
    )
    .unit(Unit::Bytes),
    EdgeColumn::value(
        "response_bytes",
        "Responses",
        Right,
        "Bytes from server to client",
        |row, _| Value::Number(row.response_bytes),
    )
    .unit(Unit::Bytes),
    EdgeColumn::value(
        "client_retrans_segs",
        "Client retrans",
        Right,
        "Segments that the client retransmitted",
        |row, _| seen(&row.client_end, row.client_end.retrans_segs),
    )
    .unit(Unit::Count),
    EdgeColumn::value(
        "client_rtt_us_mean",
        "Client RTT",
        Right,
        "Mean of the median round trip times that the client measured",
        |row, _| seen_us(&row.client_end, row.client_end.rtt_us_mean),
    )
    .unit(Unit::RoundTripUs),
    EdgeColumn::value(
        "client_rtt_us_p95",
        "Client p95",
        Right,
        "The largest 95th percentile of it",
        |row, _| seen_us(&row.client_end, row.client_end.rtt_us_p95.into()),
    )
    .unit(Unit::RoundTripUs),
    EdgeColumn::value(
        "client_receive_queue_bytes",
        "Client unread",
        Right,
        "The most bytes that the client had received and not read",
        |row, _| seen(&row.client_end, row.client_end.receive_queue_bytes),
    )
    .unit(Unit::Bytes),
    EdgeColumn::value(
        "client_send_queue_bytes",
        "Client unsent",
        Right,
        "The most bytes that the client had written and that were not acknowledged",
        |row, _| seen(&row.client_end, row.client_end.send_queue_bytes),
    )
    .unit(Unit::Bytes),
    EdgeColumn::value(
        "client_busy_ms",
        "Client busy ms",
        Right,
        "Time in which connections of the client had data to send, summed over intervals in which something held them back",
        |row, _| seen(&row.client_end, row.client_end.limits.busy_ms),
    ),
    EdgeColumn::value(
        "client_rwnd_limited_ms",
        "Client by window ms",
        Right,
        "Of this, held back by the receive window of the server",
        |row, _| seen(&row.client_end, row.client_end.limits.rwnd_limited_ms),
    ),
    EdgeColumn::value(
        "client_sndbuf_limited_ms",
        "Client by buffer ms",
        Right,
        "Of this, held back by the send buffer of the client",
        |row, _| seen(&row.client_end, row.client_end.limits.sndbuf_limited_ms),
    ),
    EdgeColumn::value(
        "server_retrans_segs",
        "Server retrans",
        Right,
        "Segments that the server retransmitted",
        |row, _| seen(&row.server_end, row.server_end.retrans_segs),
    )
    .unit(Unit::Count),
    EdgeColumn::value(
        "server_rtt_us_mean",
        "Server RTT",
        Right,
        "Mean of the median round trip times that the server measured",
        |row, _| seen_us(&row.server_end, row.server_end.rtt_us_mean),
    )
    .unit(Unit::RoundTripUs),
    EdgeColumn::value(
        "server_rtt_us_p95",
        "Server p95",
        Right,
        "The largest 95th percentile of it",
        |row, _| seen_us(&row.server_end, row.server_end.rtt_us_p95.into()),
    )
    .unit(Unit::RoundTripUs),
    EdgeColumn::value(
        "server_receive_queue_bytes",
        "Server unread",
        Right,
        "The most bytes that the server had received and not read",
        |row, _| seen(&row.server_end, row.server_end.receive_queue_bytes),
    )
    .unit(Unit::Bytes),
    EdgeColumn::value(
        "server_send_queue_bytes",
        "Server unsent",
        Right,
        "The most bytes that the server had written and that were not acknowledged",
        |row, _| seen(&row.server_end, row.server_end.send_queue_bytes),
    )
    .unit(Unit::Bytes),
    EdgeColumn::value(
        "server_busy_ms",
        "Server busy ms",
        Right,
        "Time in which connections of the server had data to send, summed over intervals in which something held them back",
        |row, _| seen(&row.server_end, row.server_end.limits.busy_ms),
    ),
    EdgeColumn::value(
        "server_rwnd_limited_ms",
        "Server by window ms",
        Right,
        "Of this, held back by the receive window of the client",
        |row, _| seen(&row.server_end, row.server_end.limits.rwnd_limited_ms),
    ),
    EdgeColumn::value(
        "server_sndbuf_limited_ms",
        "Server by buffer ms",
        Right,
        "Of this, held back by the send buffer of the server",
        |row, _| seen(&row.server_end, row.server_end.limits.sndbuf_limited_ms),
    ),
    EdgeColumn::value(
        "first_s",
        "First",
        Right,
        "Begin of the first interval with it, in seconds since 1970",
        |row, _| Value::Number(row.first_s.into()),
    ),
    EdgeColumn::value(
        "last_s",
        "Last",
        Right,
        "Begin of the last interval with it, in seconds since 1970",
        |row, _| Value::Number(row.last_s.into()),
    ),
];

fn text(text: &str) -> Value<'_> {
    Value::text((!text.is_empty()).then_some(text.as_bytes()))
}

fn seen(end: &EdgeEnd, number: u64) -> Value<'static> {
    Value::number(end.has_figures().then_some(number))
}

fn seen_us(end: &EdgeEnd, us: u64) -> Value<'static> {
    Value::number((end.has_figures() && us > 0).then_some(us))
}
