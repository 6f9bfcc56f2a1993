//! The columns of a listing of flows.

use super::composites::{Address, Arrow, Direction, Owners, PeerPlace, Process, States};
use super::{FlowRow, Flows};
use crate::listing::Align::{Left, Right};
use crate::listing::{Column, Value};
use crate::unit::Unit;
use sockeye_model::{Detail, Direction as FlowDirection, WorkloadKind};

type FlowColumn = Column<Flows>;

/// Creates a column for a member of `Totals`.
macro_rules! total {
    ($member:ident, $alias:literal, $heading:literal, $about:literal) => {
        FlowColumn::value(stringify!($member), $heading, Right, $about, |row, _| {
            Value::number(row.flow.totals.as_ref().and_then(|totals| totals.$member))
        })
        .needs(Detail::TCP_INFO)
        .aliases(&[$alias])
        .json(&[concat!("totals.", stringify!($member))])
    };
}

/// Creates a column for a member of `Rates`.
macro_rules! rate {
    ($member:ident, $alias:literal, $heading:literal, $about:literal) => {
        FlowColumn::value(stringify!($member), $heading, Right, $about, |row, _| {
            Value::float(row.flow.rates.as_ref().and_then(|rates| rates.$member))
        })
        .aliases(&[$alias])
        .json(&[concat!("rates.", stringify!($member))])
    };
}

/// Returns the workload that flows are grouped by, if it is of this kind.
fn workload<'r>(row: &'r FlowRow<'_>, kind: WorkloadKind) -> Value<'r> {
    let workload = row.flow.key.workload.filter(|workload| workload.kind == kind);
    workload
        .and_then(|workload| row.names.workload(workload.id))
        .map_or(Value::Absent, |name| Value::Name(name.as_bytes()))
}

/// All columns, in the order of CSV.
pub(super) static COLUMNS: &[FlowColumn] = &[
    FlowColumn::value("netns", "Netns", Left, "Network namespace", |row, _| {
        match row.flow.key.netns {
            Some(inode) => Value::Named(inode.0.into(), row.names.netns(inode)),
            None => Value::Absent,
        }
    })
    .fields(&["netns_inode", "netns"]),
    FlowColumn::value(
        "user",
        "User",
        Left,
        "User, if flows are grouped by user",
        |row, _| match row.flow.key.uid {
            Some(uid) => Value::Named(uid.0.into(), row.names.user(uid)),
            None => Value::Absent,
        },
    )
    .fields(&["uid", "user"])
    .aliases(&["uid"]),
    FlowColumn::composite(
        "process",
        "Process",
        Left,
        "Process, if flows are grouped by process",
        &Process,
        &["comm", "pid", "pgid"],
        &["process.comm", "process.pid", "process.pgid"],
    ),
    FlowColumn::value(
        "container",
        "Container",
        Left,
        "Container, if flows are grouped by it",
        |row, _| workload(row, WorkloadKind::Container),
    ),
    FlowColumn::value(
        "unit",
        "Unit",
        Left,
        "Systemd unit, if flows are grouped by it",
        |row, _| workload(row, WorkloadKind::Unit),
    ),
    FlowColumn::value(
        "cgroup",
        "Cgroup",
        Left,
        "Path of the cgroup, if flows are grouped by it",
        |row, _| workload(row, WorkloadKind::Cgroup),
    ),
    FlowColumn::value(
        "exe",
        "Executable",
        Left,
        "Path of the executable, if flows are grouped by it",
        |row, _| workload(row, WorkloadKind::Exe),
    ),
    FlowColumn::composite(
        "local",
        "Local Address:Port",
        Left,
        "Our address; 'many' if it differs between connections",
        &Address::Local,
        &["local_ip", "local_port", "local_host", "local_service"],
        &["local.ip", "local.port", "local.host", "local.service"],
    )
    .aliases(&["src"]),
    FlowColumn::value(
        "local_port",
        "Local Port",
        Right,
        "Our port, if the peer connected to it",
        |row, _| Value::number(row.flow.key.port_of(FlowDirection::Passive).map(|port| port.0)),
    )
    .part()
    .aliases(&["sport"]),
    FlowColumn::composite(
        "arrow",
        "",
        Left,
        "--> if we connected, <-- if the peer did",
        &Arrow,
        &[],
        &[],
    ),
    FlowColumn::composite(
        "direction",
        "Direction",
        Left,
        "active if we connected, passive if the peer did",
        &Direction,
        &["direction"],
        &["direction"],
    ),
    FlowColumn::composite(
        "peer",
        "Peer Address:Port",
        Left,
        "The peer's address; 'many' if it differs between connections",
        &Address::Peer,
        &[
            "peer_ip",
            "peer_port",
            "peer_host",
            "peer_service",
            "peer_prefix_bits",
        ],
        &[
            "peer.ip",
            "peer.port",
            "peer.host",
            "peer.service",
            "peer.prefix_bits",
            "peer.country",
            "peer.as_number",
        ],
    )
    .aliases(&["dst"]),
    FlowColumn::value(
        "peer_port",
        "Peer Port",
        Right,
        "The peer's port, if we connected to it",
        |row, _| Value::number(row.flow.key.port_of(FlowDirection::Active).map(|port| port.0)),
    )
    .part()
    .aliases(&["dport"]),
    FlowColumn::composite(
        "peer_place",
        "Peer Place",
        Left,
        "Country and autonomous system of the peer: 'top --mmdb'",
        &PeerPlace,
        &["peer_country", "peer_as_number"],
        &[],
    )
    .part(),
    FlowColumn::value(
        "connections",
        "Connections",
        Right,
        "Number of connections",
        |row, _| Value::Number(row.flow.connections.into()),
    ),
    FlowColumn::composite(
        "states",
        "States",
        Left,
        "Number of connections in each state",
        &States,
        &["states"],
        &["states"],
    ),
    FlowColumn::value(
        "measured",
        "Measured",
        Right,
        "Connections whose tcp_info is known",
        |row, _| Value::number(row.flow.totals.as_ref().map(|totals| totals.measured)),
    )
    .needs(Detail::TCP_INFO)
    .json(&["totals.measured"]),
    total!(bytes_acked, "sent", "Sent", "Bytes that the peers acknowledged").unit(Unit::Bytes),
    total!(bytes_received, "received", "Received", "Bytes received").unit(Unit::Bytes),
    total!(rtt_us_median, "rtt", "RTT", "Median round trip time").unit(Unit::Us),
    total!(total_retrans_segs, "retrans", "Retrans", "Segments retransmitted").unit(Unit::Count),
    total!(
        delivery_rate_bytes_per_s_sum,
        "delivery_rate",
        "Delivery Sum",
        "Sum of the delivery rates"
    )
    .unit(Unit::BytesPerSecond),
    total!(
        delivery_rate_bytes_per_s_median,
        "delivery_rate_median",
        "Delivery",
        "Median of the delivery rates"
    )
    .unit(Unit::BytesPerSecond),
    rate!(
        sent_bytes_per_s,
        "sent_rate",
        "Sent/s",
        "Bytes per second that the peers acknowledged"
    )
    .unit(Unit::ByteRate),
    rate!(
        received_bytes_per_s,
        "received_rate",
        "Received/s",
        "Bytes received per second"
    )
    .unit(Unit::ByteRate),
    rate!(
        retrans_segs_per_s,
        "retrans_rate",
        "Retrans/s",
        "Segments retransmitted per second"
    ),
    rate!(
        opened_per_s,
        "opened_rate",
        "Opened/s",
        "Connections opened per second"
    ),
    rate!(
        closed_per_s,
        "closed_rate",
        "Closed/s",
        "Connections closed per second"
    ),
    FlowColumn::composite(
        "owners",
        "Process",
        Left,
        "Owner processes: name, pid and process group",
        &Owners,
        &["owners"],
        &["owners"],
    )
    .needs(Detail::OWNERS)
    .aliases(&["owner"]),
];
