//! Values of a flow with several parts: addresses, direction, states, processes.

use super::{FlowRow, Flows};
use crate::address::{push_bracketed, push_ip, push_service};
use crate::csv::Line;
use crate::json::Object;
use crate::listing::{Composite, SortValue};
use crate::number::push_decimal;
use crate::place::{place_sort_value, push_place, push_place_cell, push_place_csv};
use crate::socket::push_process_fields;
use crate::socket::state::push_state;
use crate::table::Tint;
use crate::text::push_clean;
use sockeye_model::{
    Direction as FlowDirection, Flow, FlowKey, Names, Place, Process as OneProcess, Protocol, State,
};
use std::net::IpAddr;

/// The process that flows are grouped by.
pub(super) struct Process;

impl Composite<Flows> for Process {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FlowRow<'_>) -> Tint {
        if let Some(process) = &row.flow.key.process {
            push_process(out, process);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FlowRow<'_>) {
        let process = row.flow.key.process.as_ref();
        line.bytes(process.map(|process| process.comm.as_bytes()));
        line.number(process.map(|process| process.pid.0));
        line.number(process.and_then(|process| process.pgid).map(|pgid| pgid.0));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &FlowRow<'_>) {
        if let Some(process) = &row.flow.key.process {
            let mut fields = object.object("process");
            push_process_fields(&mut fields, process);
            fields.end();
        }
    }

    fn sort_value(&self, row: &FlowRow<'_>) -> Option<SortValue> {
        let process = row.flow.key.process.as_ref()?;
        Some(SortValue::Text(process.comm.as_bytes().into()))
    }
}

/// The address of one end.
pub(super) enum Address {
    /// Our address.
    Local,
    /// The peer's address.
    Peer,
}

impl Address {
    const fn ip(&self, key: &FlowKey) -> Option<IpAddr> {
        match self {
            Self::Local => key.local,
            Self::Peer => key.peer,
        }
    }

    /// Returns the direction of flows whose service is at this end.
    const fn serves(&self) -> FlowDirection {
        match self {
            Self::Local => FlowDirection::Passive,
            Self::Peer => FlowDirection::Active,
        }
    }
}

impl Composite<Flows> for Address {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FlowRow<'_>) -> Tint {
        let key = &row.flow.key;
        let prefix = match self {
            Self::Local => None,
            Self::Peer => key.peer_prefix,
        };
        push_address(out, self.ip(key), prefix, row.names);
        push_port(out, key, self.serves(), row.names, row.protocol);
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FlowRow<'_>) {
        let key = &row.flow.key;
        let ip = self.ip(key);
        let out = line.field();
        if let Some(ip) = ip {
            push_ip(out, ip);
        }
        let port = key.port_of(self.serves());
        line.number(port.map(|port| port.0));
        line.text(ip.and_then(|ip| row.names.host(ip)));
        line.text(port.and_then(|port| row.names.service(row.protocol, port)));
        if matches!(self, Self::Peer) {
            line.number(key.peer_prefix);
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &FlowRow<'_>) {
        let key = &row.flow.key;
        let (name, prefix) = match self {
            Self::Local => ("local", None),
            Self::Peer => ("peer", key.peer_prefix),
        };
        let (ip, port) = (self.ip(key), key.port_of(self.serves()));
        if ip.is_none() && port.is_none() {
            return;
        }
        let mut fields = object.object(name);
        if let Some(ip) = ip {
            let out = fields.key("ip");
            out.push(b'"');
            push_ip(out, ip);
            out.push(b'"');
        }
        fields.number("port", port.map(|port| port.0));
        fields.text("host", ip.and_then(|ip| row.names.host(ip)));
        fields.text(
            "service",
            port.and_then(|port| row.names.service(row.protocol, port)),
        );
        fields.number("prefix_bits", prefix);
        if matches!(self, Self::Peer) {
            push_place(&mut fields, PeerPlace::of(row));
        }
        fields.end();
    }

    fn sort_value(&self, row: &FlowRow<'_>) -> Option<SortValue> {
        let key = &row.flow.key;
        let port = key.port_of(self.serves());
        Some(SortValue::Address(self.ip(key)?, port.map_or(0, |port| port.0)))
    }
}

/// The country and the autonomous system of the peer.
pub(super) struct PeerPlace;

impl PeerPlace {
    fn of(row: &FlowRow<'_>) -> Option<Place> {
        let key = &row.flow.key;
        row.names.place(key.peer.filter(|_| key.peer_prefix.is_none())?)
    }
}

impl Composite<Flows> for PeerPlace {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FlowRow<'_>) -> Tint {
        push_place_cell(out, Self::of(row))
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FlowRow<'_>) {
        push_place_csv(line, Self::of(row));
    }

    // The column of the address has it.
    fn push_json(&self, _object: &mut Object<'_>, _row: &FlowRow<'_>) {}

    fn sort_value(&self, row: &FlowRow<'_>) -> Option<SortValue> {
        place_sort_value(Self::of(row))
    }
}

/// The direction, as an arrow.
pub(super) struct Arrow;

impl Composite<Flows> for Arrow {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FlowRow<'_>) -> Tint {
        out.extend_from_slice(match row.flow.key.direction {
            FlowDirection::Active => b"-->",
            FlowDirection::Passive => b"<--",
        });
        tint(row.flow.key.direction)
    }

    // The column of the direction has the same value.
    fn push_csv(&self, _line: &mut Line<'_>, _row: &FlowRow<'_>) {}

    fn push_json(&self, _object: &mut Object<'_>, _row: &FlowRow<'_>) {}

    fn sort_value(&self, row: &FlowRow<'_>) -> Option<SortValue> {
        Direction.sort_value(row)
    }
}

/// The direction, as a word.
pub(super) struct Direction;

impl Composite<Flows> for Direction {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FlowRow<'_>) -> Tint {
        out.extend_from_slice(direction_name(row.flow.key.direction).as_bytes());
        tint(row.flow.key.direction)
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FlowRow<'_>) {
        line.word(direction_name(row.flow.key.direction));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &FlowRow<'_>) {
        object.word("direction", direction_name(row.flow.key.direction));
    }

    fn sort_value(&self, row: &FlowRow<'_>) -> Option<SortValue> {
        let name = direction_name(row.flow.key.direction);
        Some(SortValue::Text(name.as_bytes().into()))
    }
}

const fn tint(direction: FlowDirection) -> Tint {
    match direction {
        FlowDirection::Active => Tint::Cyan,
        FlowDirection::Passive => Tint::Magenta,
    }
}

/// The number of connections in each state.
pub(super) struct States;

impl Composite<Flows> for States {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FlowRow<'_>) -> Tint {
        for (index, (state, count)) in states_of(row.flow).enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            push_state(out, state);
            out.push(b' ');
            push_decimal(out, count);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FlowRow<'_>) {
        let out = line.field();
        for (index, (state, count)) in states_of(row.flow).enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(state.snake_name().as_bytes());
            out.push(b'=');
            push_decimal(out, count);
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &FlowRow<'_>) {
        let mut states = object.object("states");
        for (state, count) in states_of(row.flow) {
            states.number(state.snake_name(), Some(count));
        }
        states.end();
    }

    fn sort_value(&self, _row: &FlowRow<'_>) -> Option<SortValue> {
        None
    }
}

/// The owner processes of the connections.
pub(super) struct Owners;

impl Composite<Flows> for Owners {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FlowRow<'_>) -> Tint {
        push_processes(out, &row.flow.owners);
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FlowRow<'_>) {
        line.outside(|out| push_processes(out, &row.flow.owners));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &FlowRow<'_>) {
        if !row.has_owners && row.flow.owners.is_empty() {
            return;
        }
        let out = object.key("owners");
        out.push(b'[');
        for (index, process) in row.flow.owners.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let mut fields = Object::begin(out);
            push_process_fields(&mut fields, process);
            fields.end();
        }
        out.push(b']');
    }

    fn sort_value(&self, row: &FlowRow<'_>) -> Option<SortValue> {
        let first = row.flow.owners.first()?;
        Some(SortValue::Text(first.comm.as_bytes().into()))
    }
}

fn push_processes(out: &mut Vec<u8>, processes: &[OneProcess]) {
    for (index, process) in processes.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_process(out, process);
    }
}

/// Appends `nginx(812/800)`: pid and, where it is known, process group.
fn push_process(out: &mut Vec<u8>, process: &OneProcess) {
    push_clean(out, process.comm.as_bytes());
    out.push(b'(');
    push_decimal(out, process.pid.0.into());
    if let Some(pgid) = process.pgid {
        out.push(b'/');
        push_decimal(out, pgid.0.into());
    }
    out.push(b')');
}

/// An address, its prefix within the brackets of IPv6; `many` where connections differ.
fn push_address(out: &mut Vec<u8>, ip: Option<IpAddr>, prefix: Option<u8>, names: &dyn Names) {
    let Some(ip) = ip else {
        return out.extend_from_slice(MANY);
    };
    let Some(prefix) = prefix else {
        return match names.host(ip) {
            Some(name) => push_clean(out, name.as_bytes()),
            None => push_bracketed(out, ip),
        };
    };
    push_bracketed(out, ip);
    let is_v6 = out.pop_if(|last| *last == b']').is_some();
    out.push(b'/');
    push_decimal(out, prefix.into());
    if is_v6 {
        out.push(b']');
    }
}

/// The port of the service, at the side that has it; `many` at the other.
fn push_port(out: &mut Vec<u8>, key: &FlowKey, side: FlowDirection, names: &dyn Names, protocol: Protocol) {
    out.push(b':');
    match key.port.filter(|_| key.direction == side) {
        Some(port) => push_service(out, port, protocol, names),
        None => out.extend_from_slice(MANY),
    }
}

const MANY: &[u8] = b"many";

const fn direction_name(direction: FlowDirection) -> &'static str {
    match direction {
        FlowDirection::Active => "active",
        FlowDirection::Passive => "passive",
    }
}

/// How many connections are in each state that has any. Both kinds of `SYN_RECV` are one state to a reader.
fn states_of(flow: &Flow) -> impl Iterator<Item = (State, u64)> {
    let of_state = |state: State| match state {
        State::NewSynRecv => 0,
        State::SynRecv => u64::from(flow.in_state(state)) + u64::from(flow.in_state(State::NewSynRecv)),
        state => u64::from(flow.in_state(state)),
    };
    let unknown = (State::Unknown(0), u64::from(flow.states[0]));
    let named = State::ALL.into_iter().map(move |state| (state, of_state(state)));
    named.chain([unknown]).filter(|(_, count)| *count > 0)
}

/// Appends the rates, if they are known.
pub(super) fn push_rates(object: &mut Object<'_>, flow: &Flow) {
    let Some(rates) = &flow.rates else { return };
    let mut fields = object.object("rates");
    let all = [
        ("sent_bytes_per_s", rates.sent_bytes_per_s),
        ("received_bytes_per_s", rates.received_bytes_per_s),
        ("retrans_segs_per_s", rates.retrans_segs_per_s),
        ("opened_per_s", rates.opened_per_s),
        ("closed_per_s", rates.closed_per_s),
    ];
    for (name, rate) in all {
        if let Some(rate) = rate {
            fields.float(name, rate);
        }
    }
    fields.end();
}

/// Appends sums and medians of tcp_info, if they are known.
pub(super) fn push_totals(object: &mut Object<'_>, flow: &Flow) {
    let Some(totals) = &flow.totals else { return };
    let mut fields = object.object("totals");
    fields.number("measured", Some(totals.measured));
    fields.number("bytes_acked", totals.bytes_acked);
    fields.number("bytes_received", totals.bytes_received);
    fields.number("rtt_us_median", totals.rtt_us_median);
    fields.number("total_retrans_segs", totals.total_retrans_segs);
    fields.number(
        "delivery_rate_bytes_per_s_sum",
        totals.delivery_rate_bytes_per_s_sum,
    );
    fields.number(
        "delivery_rate_bytes_per_s_median",
        totals.delivery_rate_bytes_per_s_median,
    );
    fields.end();
}
