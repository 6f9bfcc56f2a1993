//! Columns of connections whose data stand still.

use super::{HopRow, Hops, part_name};
use sockeye_measure::duration;
use sockeye_model::Process;
use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_output::listing::{Composite, SortValue};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;
use sockeye_output::unit::Unit;
use sockeye_path::{Hop, Part};
use std::net::SocketAddr;

/// The ends of a connection.
pub(super) struct Connection;
/// How long something has not moved, at least.
pub(super) struct Waits;
/// Bytes that have not moved.
pub(super) struct WaitingBytes;
/// The program of a connection.
pub(super) struct ProgramCell;

impl Composite<Hops> for Connection {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        if let Some(part @ Part::Connection { .. }) = row.hop.part {
            out.extend_from_slice(part_name(part).as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        let (protocol, local, peer) = connection(row.hop);
        line.text(protocol);
        for end in [local, peer] {
            line.text(end.map(|end| end.to_string()).as_deref());
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        let (protocol, local, peer) = connection(row.hop);
        object.text("protocol", protocol);
        for (key, end) in [("local", local), ("peer", peer)] {
            let Some(end) = end else { continue };
            let mut fields = object.object(key);
            fields.text("ip", Some(&end.ip().to_string()));
            fields.number("port", Some(end.port()));
            fields.end();
        }
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        match row.hop.part? {
            Part::Connection { local, .. } => Some(SortValue::Address(local.ip(), local.port())),
            _ => None,
        }
    }
}

/// Returns the protocol and the ends of a connection.
fn connection(hop: &Hop) -> (Option<&'static str>, Option<SocketAddr>, Option<SocketAddr>) {
    match hop.part {
        Some(Part::Connection {
            protocol,
            local,
            peer,
            ..
        }) => (Some(protocol.name()), Some(local), peer),
        _ => (None, None, None),
    }
}

/// Returns how long something has stood still.
fn waits_ns(hop: &Hop) -> Option<u64> {
    hop.waiting.as_ref().map(|waiting| waiting.at_least_ns)
}

impl Composite<Hops> for Waits {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        let Some(ns) = waits_ns(row.hop) else {
            return Tint::None;
        };
        out.extend_from_slice(format!(">={}", duration(ns)).as_bytes());
        Tint::Yellow
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        line.number(waits_ns(row.hop));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        object.number("stands_still_ns", waits_ns(row.hop));
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(waits_ns(row.hop)?))
    }
}

/// Returns the bytes that stand still, now and at most.
fn waiting_bytes(hop: &Hop) -> Option<[u64; 2]> {
    let bytes = hop.waiting.as_ref()?.bytes?;
    Some([bytes.now, bytes.max])
}

/// Returns how much of the buffer is taken.
fn buffer_percent(hop: &Hop) -> Option<u8> {
    hop.waiting.as_ref()?.full_percent
}

impl Composite<Hops> for WaitingBytes {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        let Some([now, max]) = waiting_bytes(row.hop) else {
            return Tint::None;
        };
        Unit::Bytes.push(out, now);
        out.push(b'/');
        Unit::Bytes.push(out, max);
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        let bytes = waiting_bytes(row.hop);
        line.number(bytes.map(|[now, _]| now));
        line.number(bytes.map(|[_, max]| max));
        line.number(buffer_percent(row.hop));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        let bytes = waiting_bytes(row.hop);
        object.number("waiting_bytes_now", bytes.map(|[now, _]| now));
        object.number("waiting_bytes_max", bytes.map(|[_, max]| max));
        object.number("buffer_percent", buffer_percent(row.hop));
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(waiting_bytes(row.hop)?[0]))
    }
}

/// Returns the program of a connection, and how many more connections of it wait for the same.
fn program(hop: &Hop) -> (Option<Process>, Option<u64>) {
    let waiting = hop.waiting.as_ref();
    (
        waiting.and_then(|waiting| waiting.program),
        waiting.map(|waiting| waiting.more).filter(|more| *more > 0),
    )
}

impl Composite<Hops> for ProgramCell {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&HopRow<'_>) -> Tint {
        let (Some(process), more) = program(row.hop) else {
            return Tint::None;
        };
        push_clean(out, process.comm.as_bytes());
        out.extend_from_slice(format!("({})", process.pid).as_bytes());
        if let Some(more) = more {
            out.extend_from_slice(format!(" and {more} more").as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&HopRow<'_>) {
        let (process, more) = program(row.hop);
        let comm = process.map(|process| String::from_utf8_lossy(process.comm.as_bytes()).into_owned());
        line.text(comm.as_deref());
        line.number(process.map(|process| process.pid.0));
        line.number(more);
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&HopRow<'_>) {
        let (process, more) = program(row.hop);
        if let Some(process) = process {
            let mut fields = object.object("program");
            fields.text("comm", Some(&*String::from_utf8_lossy(process.comm.as_bytes())));
            fields.number("pid", Some(process.pid.0));
            fields.end();
        }
        object.number("more_connections", more);
    }

    fn sort_value(&self, row: &&HopRow<'_>) -> Option<SortValue> {
        let process = program(row.hop).0?;
        Some(SortValue::Number(process.pid.0.into()))
    }
}
