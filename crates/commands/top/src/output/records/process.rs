//! Processes and their traffic.

use crate::traffic::Traffic;
use sockeye_model::{Names, NetnsInode, Process};
use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Record, SortValue, Value};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;
use sockeye_output::unit::Unit;
use std::sync::LazyLock;

/// Processes: `docs/schema/top-processes.schema.json`.
#[derive(Debug)]
pub(crate) struct Processes;

/// A process, and what it sends and receives.
#[derive(Clone, Copy)]
pub(crate) struct ProcessRow<'a> {
    pub(crate) names: &'a dyn Names,
    pub(crate) netns: Option<NetnsInode>,
    /// `None`: connections whose owner is not known.
    pub(crate) process: Option<Process>,
    pub(crate) traffic: &'a Traffic,
}

type ProcessColumn = Column<Processes>;

impl Record for Processes {
    type Row<'a> = ProcessRow<'a>;

    const KEY: &'static str = "top_processes";
    const ROW: &'static str = "top_process";

    fn columns() -> &'static [Column<Self>] {
        static COLUMNS: LazyLock<Vec<ProcessColumn>> = LazyLock::new(columns);
        &COLUMNS
    }
}

fn columns() -> Vec<ProcessColumn> {
    let value = ProcessColumn::value;
    vec![
        value("netns", "Netns", Left, "Network namespace", |row, _| {
            match row.netns {
                Some(inode) => Value::Named(inode.0.into(), row.names.netns(inode)),
                None => Value::Absent,
            }
        })
        .fields(&["netns_inode", "netns"]),
        ProcessColumn::composite(
            "process",
            "Process",
            Left,
            "Name and process id; '-' for connections whose owner is not known",
            &Name,
            &["comm", "pid"],
            &["process.comm", "process.pid"],
        ),
        value(
            "traffic_bytes_per_s",
            "All/s",
            Right,
            "Bytes sent and received per second, TCP and UDP",
            |row, _| Value::float(row.traffic.sum()),
        )
        .unit(Unit::ByteRate),
        value(
            "tcp_sent_bytes_per_s",
            "TCP-sent/s",
            Right,
            "Bytes per second that the peers acknowledged",
            |row, _| Value::float(row.traffic.tcp_sent),
        )
        .unit(Unit::ByteRate),
        value(
            "tcp_received_bytes_per_s",
            "TCP-recv/s",
            Right,
            "Bytes received per second over TCP",
            |row, _| Value::float(row.traffic.tcp_received),
        )
        .unit(Unit::ByteRate),
        value(
            "udp_sent_bytes_per_s",
            "UDP-sent/s",
            Right,
            "Bytes sent per second over UDP",
            |row, _| Value::float(row.traffic.udp_sent),
        )
        .unit(Unit::ByteRate),
        value(
            "udp_received_bytes_per_s",
            "UDP-recv/s",
            Right,
            "Bytes received per second over UDP",
            |row, _| Value::float(row.traffic.udp_received),
        )
        .unit(Unit::ByteRate),
        value(
            "connections",
            "Connections",
            Right,
            "Connections of TCP",
            |row, _| Value::Number(row.traffic.connections),
        ),
        value(
            "retrans_segs_per_s",
            "Retrans/s",
            Right,
            "Segments retransmitted per second",
            |row, _| Value::float(row.traffic.retrans_segs),
        ),
        value(
            "opened_per_s",
            "Opened/s",
            Right,
            "Connections opened per second",
            |row, _| Value::float(row.traffic.opened),
        ),
        value(
            "closed_per_s",
            "Closed/s",
            Right,
            "Connections closed per second",
            |row, _| Value::float(row.traffic.closed),
        ),
    ]
}

struct Name;

impl Composite<Processes> for Name {
    fn push_cell(&self, out: &mut Vec<u8>, row: &ProcessRow<'_>) -> Tint {
        if let Some(process) = row.process {
            push_clean(out, process.comm.as_bytes());
            out.extend_from_slice(format!("({})", process.pid.0).as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &ProcessRow<'_>) {
        line.bytes(row.process.as_ref().map(|process| process.comm.as_bytes()));
        line.number(row.process.map(|process| process.pid.0));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &ProcessRow<'_>) {
        if let Some(process) = row.process {
            let mut of = object.object("process");
            of.bytes("comm", Some(process.comm.as_bytes()));
            of.number("pid", Some(process.pid.0));
            of.end();
        }
    }

    fn sort_value(&self, row: &ProcessRow<'_>) -> Option<SortValue> {
        let process = row.process.as_ref()?;
        Some(SortValue::Text(process.comm.as_bytes().into()))
    }
}
