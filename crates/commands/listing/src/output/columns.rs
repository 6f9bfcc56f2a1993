//! The table of columns: the one place that defines what a flow's column is.

use super::Flows;
use super::composites::{Address, Arrow, Direction, Owners, Process, States};
use sockeye_model::Detail;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Value};
use sockeye_output::unit::Unit;

type FlowColumn = Column<Flows>;

/// Every column, in the order of CSV.
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
    FlowColumn::value(
        "sent",
        "Sent",
        Right,
        "Bytes that the peers acknowledged",
        |row, _| Value::number(row.flow.totals.as_ref().and_then(|totals| totals.bytes_acked)),
    )
    .unit(Unit::Count)
    .needs(Detail::TCP_INFO)
    .fields(&["bytes_acked"])
    .json(&["totals.bytes_acked"]),
    FlowColumn::value("received", "Received", Right, "Bytes received", |row, _| {
        Value::number(row.flow.totals.as_ref().and_then(|totals| totals.bytes_received))
    })
    .unit(Unit::Count)
    .needs(Detail::TCP_INFO)
    .fields(&["bytes_received"])
    .json(&["totals.bytes_received"]),
    FlowColumn::value("rtt", "RTT", Right, "Median round trip time", |row, _| {
        Value::number(row.flow.totals.as_ref().and_then(|totals| totals.rtt_us_median))
    })
    .unit(Unit::Us)
    .needs(Detail::TCP_INFO)
    .fields(&["rtt_us_median"])
    .json(&["totals.rtt_us_median"]),
    FlowColumn::value("retrans", "Retrans", Right, "Segments retransmitted", |row, _| {
        Value::number(row.flow.totals.as_ref().and_then(|totals| totals.retrans_segs))
    })
    .unit(Unit::Count)
    .needs(Detail::TCP_INFO)
    .fields(&["retrans_segs"])
    .json(&["totals.retrans_segs"]),
    FlowColumn::value(
        "delivery_rate",
        "Delivery Sum",
        Right,
        "Sum of the delivery rates",
        |row, _| {
            Value::number(
                row.flow
                    .totals
                    .as_ref()
                    .and_then(|totals| totals.delivery_rate_bytes_per_s_sum),
            )
        },
    )
    .unit(Unit::BytesPerSecond)
    .needs(Detail::TCP_INFO)
    .fields(&["delivery_rate_bytes_per_s_sum"])
    .json(&["totals.delivery_rate_bytes_per_s_sum"]),
    FlowColumn::value(
        "delivery_rate_median",
        "Delivery",
        Right,
        "Median of the delivery rates",
        |row, _| {
            Value::number(
                row.flow
                    .totals
                    .as_ref()
                    .and_then(|totals| totals.delivery_rate_bytes_per_s_median),
            )
        },
    )
    .unit(Unit::BytesPerSecond)
    .needs(Detail::TCP_INFO)
    .fields(&["delivery_rate_bytes_per_s_median"])
    .json(&["totals.delivery_rate_bytes_per_s_median"]),
    FlowColumn::value(
        "sent_rate",
        "Sent/s",
        Right,
        "Bytes a second that the peers acknowledged",
        |row, _| Value::float(row.flow.rates.as_ref().map(|rates| rates.sent_bytes_per_s)),
    )
    .fields(&["sent_bytes_per_s"])
    .json(&["rates.sent_bytes_per_s"]),
    FlowColumn::value(
        "received_rate",
        "Received/s",
        Right,
        "Bytes received a second",
        |row, _| Value::float(row.flow.rates.as_ref().map(|rates| rates.received_bytes_per_s)),
    )
    .fields(&["received_bytes_per_s"])
    .json(&["rates.received_bytes_per_s"]),
    FlowColumn::value(
        "retrans_rate",
        "Retrans/s",
        Right,
        "Segments retransmitted a second",
        |row, _| Value::float(row.flow.rates.as_ref().map(|rates| rates.retrans_segs_per_s)),
    )
    .fields(&["retrans_segs_per_s"])
    .json(&["rates.retrans_segs_per_s"]),
    FlowColumn::value(
        "opened_rate",
        "Opened/s",
        Right,
        "Connections opened a second",
        |row, _| Value::float(row.flow.rates.as_ref().map(|rates| rates.opened_per_s)),
    )
    .fields(&["opened_per_s"])
    .json(&["rates.opened_per_s"]),
    FlowColumn::value(
        "closed_rate",
        "Closed/s",
        Right,
        "Connections closed a second",
        |row, _| Value::float(row.flow.rates.as_ref().map(|rates| rates.closed_per_s)),
    )
    .fields(&["closed_per_s"])
    .json(&["rates.closed_per_s"]),
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
