//! The columns of a listing of flows.

use super::Flows;
use super::composites::{Address, Arrow, Direction, Owners, Process, States};
use sockeye_model::Detail;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Value};
use sockeye_output::unit::Unit;

type FlowColumn = Column<Flows>;

/// Creates a column for a member of `Totals`, which is also its CSV field.
macro_rules! total {
    ($member:ident, $name:literal, $heading:literal, $about:literal) => {
        FlowColumn::value($name, $heading, Right, $about, |row, _| {
            Value::number(row.flow.totals.as_ref().and_then(|totals| totals.$member))
        })
        .needs(Detail::TCP_INFO)
        .fields(&[stringify!($member)])
        .json(&[concat!("totals.", stringify!($member))])
    };
}

/// Creates a column for a member of `Rates`, which is also its CSV field.
macro_rules! rate {
    ($member:ident, $name:literal, $heading:literal, $about:literal) => {
        FlowColumn::value($name, $heading, Right, $about, |row, _| {
            Value::float(row.flow.rates.as_ref().and_then(|rates| rates.$member))
        })
        .fields(&[stringify!($member)])
        .json(&[concat!("rates.", stringify!($member))])
    };
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
    .fields(&["uid", "user"]),
    FlowColumn::composite(
        "process",
        "Process",
        Left,
        "Process, if flows are grouped by process",
        &Process,
        &["comm", "pid", "pgid"],
        &["process.comm", "process.pid", "process.pgid"],
    ),
    FlowColumn::composite(
        "local",
        "Local Address:Port",
        Left,
        "Our address; 'many' if it differs between connections",
        &Address::Local,
        &["local_ip", "local_host", "local_port", "local_service"],
        &["local_ip", "local_host"],
    ),
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
            "peer_host",
            "peer_prefix_bits",
            "peer_port",
            "peer_service",
        ],
        &["peer_ip", "peer_host", "peer_prefix_bits", "port", "service"],
    ),
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
    .fields(&["measured"])
    .json(&["totals.measured"]),
    total!(bytes_acked, "sent", "Sent", "Bytes that the peers acknowledged").unit(Unit::Count),
    total!(bytes_received, "received", "Received", "Bytes received").unit(Unit::Count),
    total!(rtt_us_median, "rtt", "RTT", "Median round trip time").unit(Unit::Us),
    total!(retrans_segs, "retrans", "Retrans", "Segments retransmitted").unit(Unit::Count),
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
    ),
    rate!(
        received_bytes_per_s,
        "received_rate",
        "Received/s",
        "Bytes received per second"
    ),
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
    .needs(Detail::OWNERS),
];
