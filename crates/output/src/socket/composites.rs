//! Values with parts: protocol, state, queues, addresses, timer, options.

use super::Sockets;
use super::row::SocketRow;
use super::state::{push_state, push_unknown, tint};
use super::{endpoint, tcp_json, tcp_words};
use crate::address;
use crate::csv::Line;
use crate::json::Object;
use crate::listing::{Composite, SortValue};
use crate::number::{push_decimal, push_short, push_time_us};
use crate::place::{place_sort_value, push_place_cell, push_place_csv};
use crate::table::Tint;
use sockeye_model::{
    Endpoint, Family as SocketFamily, Options as OptionSet, Place, Protocol, Queues, Socket,
    State as SocketState, Timer as RunningTimer, TimerKind,
};

/// The protocol.
pub(super) struct Netid;

impl Composite<Sockets> for Netid {
    #[inline]
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        let protocol = row.entry.socket.protocol;
        push_short(out, protocol.name().as_bytes());
        if let Protocol::Unknown(number) = protocol {
            push_unknown(out, number);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        line.word(match row.entry.socket.protocol {
            Protocol::Unknown(_) => "unknown",
            protocol => protocol.name(),
        });
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        match row.entry.socket.protocol {
            Protocol::Unknown(number) => {
                object.word("netid", "unknown");
                object.number("netid_number", Some(number));
            }
            protocol => object.word("netid", protocol.name()),
        }
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        let name = row.entry.socket.protocol.name();
        Some(SortValue::Text(name.as_bytes().into()))
    }
}

/// The address family.
pub(super) struct Family;

impl Composite<Sockets> for Family {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        let family = row.entry.socket.family;
        push_short(out, family.name().as_bytes());
        if let SocketFamily::Unknown(number) = family {
            push_unknown(out, number);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        line.word(row.entry.socket.family.name());
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let family = row.entry.socket.family;
        object.word("family", family.name());
        if let SocketFamily::Unknown(number) = family {
            object.number("family_number", Some(number));
        }
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(row.entry.socket.family.number().into()))
    }
}

/// The state.
pub(super) struct State;

impl Composite<Sockets> for State {
    #[inline]
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        push_state(out, row.entry.socket.state);
        tint(row.entry.socket.state)
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        let state = row.entry.socket.state;
        let out = line.field();
        out.extend_from_slice(state.snake_name().as_bytes());
        if let SocketState::Unknown(number) = state {
            out.push(b' ');
            push_decimal(out, number.into());
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let state = row.entry.socket.state;
        object.word("state", state.snake_name());
        if let SocketState::Unknown(number) = state {
            object.number("state_number", Some(number));
        }
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(row.entry.socket.state.number().into()))
    }
}

/// A queue: bytes of data or, for a listener, connections.
pub(super) enum Queue {
    /// Received and not read, or waiting for `accept`.
    Receive,
    /// Sent and not acknowledged, or the limit of connections waiting.
    Send,
}

impl Queue {
    /// Returns bytes of data and connections; at most one of them is known.
    #[inline]
    const fn figures(&self, socket: &Socket) -> [Option<u32>; 2] {
        match (self, socket.queues) {
            (_, Queues::Unknown) => [None, None],
            (Self::Receive, Queues::Data { receive_bytes, .. }) => [Some(receive_bytes), None],
            (Self::Send, Queues::Data { send_bytes, .. }) => [Some(send_bytes), None],
            (Self::Receive, Queues::Accept { waiting, .. }) => [None, Some(waiting)],
            (Self::Send, Queues::Accept { backlog, .. }) => [None, backlog],
        }
    }
}

impl Composite<Sockets> for Queue {
    #[inline]
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        let [bytes, connections] = self.figures(row.entry.socket);
        if let Some(figure) = bytes.or(connections) {
            push_decimal(out, figure.into());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        line.numbers(self.figures(row.entry.socket));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let [bytes, connections] = self.figures(row.entry.socket);
        let (bytes_key, connections_key) = match self {
            Self::Receive => ("recv_queue_bytes", "accept_queue"),
            Self::Send => ("send_queue_bytes", "accept_backlog"),
        };
        object.number(bytes_key, bytes);
        object.number(connections_key, connections);
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        let [bytes, connections] = self.figures(row.entry.socket);
        bytes
            .or(connections)
            .map(|figure| SortValue::Number(figure.into()))
    }
}

/// The address of one end.
pub(super) enum End {
    /// Our address.
    Local,
    /// The peer's address.
    Peer,
}

impl End {
    const fn of<'a>(&self, socket: &'a Socket) -> &'a Endpoint {
        match self {
            Self::Local => &socket.local,
            Self::Peer => &socket.peer,
        }
    }
}

impl Composite<Sockets> for End {
    #[inline]
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        match self {
            Self::Local => address::push_local(out, row.entry.socket, row.names),
            Self::Peer => address::push_peer(out, row.entry.socket, row.names),
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        let socket = row.entry.socket;
        endpoint::push_endpoint_csv(line, self.of(socket), socket, row.names);
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let socket = row.entry.socket;
        let key = match self {
            Self::Local => "local",
            Self::Peer => "peer",
        };
        endpoint::push_endpoint(object, key, self.of(socket), socket, row.names);
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        endpoint::sort_value(self.of(row.entry.socket))
    }
}

/// The country and the autonomous system of the peer.
pub(super) struct PeerPlace;

impl PeerPlace {
    fn of(row: &SocketRow<'_>) -> Option<Place> {
        row.names.place(row.entry.socket.peer.ip()?)
    }
}

impl Composite<Sockets> for PeerPlace {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        push_place_cell(out, Self::of(row))
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        push_place_csv(line, Self::of(row));
    }

    // The column of the address has it.
    fn push_json(&self, _object: &mut Object<'_>, _row: &SocketRow<'_>) {}

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        place_sort_value(Self::of(row))
    }
}

/// The running timer.
pub(super) struct Timer;

impl Composite<Sockets> for Timer {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        if let Some(timer) = row.entry.socket.timer {
            push_timer(out, timer);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        let out = line.field();
        let Some(timer) = row.entry.socket.timer else {
            return;
        };
        out.extend_from_slice(timer.kind.name().as_bytes());
        if let TimerKind::Unknown(number) = timer.kind {
            out.push(b' ');
            push_decimal(out, number.into());
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let Some(timer) = row.entry.socket.timer else {
            return;
        };
        let mut fields = object.object("timer");
        fields.word("kind", timer.kind.name());
        if let TimerKind::Unknown(number) = timer.kind {
            fields.number("kind_number", Some(number));
        }
        fields.number("expires_ms", Some(timer.expires_ms));
        fields.number("retransmits", Some(timer.retransmits));
        fields.end();
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        let kind = row.entry.socket.timer?.kind;
        Some(SortValue::Text(kind.name().as_bytes().into()))
    }
}

/// The directions that are shut down.
pub(super) struct Shutdown;

impl Composite<Sockets> for Shutdown {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        if let Some(shutdown) = row.entry.socket.shutdown {
            out.extend_from_slice(match (shutdown.receive, shutdown.send) {
                (false, false) => b"none".as_slice(),
                (true, false) => b"receive",
                (false, true) => b"send",
                (true, true) => b"both",
            });
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        let shutdown = row.entry.socket.shutdown;
        line.boolean(shutdown.map(|shutdown| shutdown.receive));
        line.boolean(shutdown.map(|shutdown| shutdown.send));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let Some(shutdown) = row.entry.socket.shutdown else {
            return;
        };
        let mut fields = object.object("shutdown");
        fields.boolean("receive", Some(shutdown.receive));
        fields.boolean("send", Some(shutdown.send));
        fields.end();
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        let shutdown = row.entry.socket.shutdown?;
        let bits = u64::from(shutdown.receive) + 2 * u64::from(shutdown.send);
        Some(SortValue::Number(bits))
    }
}

/// Socket options that are on.
pub(super) struct Options;

impl Composite<Sockets> for Options {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        if let Some(options) = row.entry.socket.options {
            push_options(out, options, b',');
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        let out = line.field();
        if let Some(options) = row.entry.socket.options {
            push_options(out, options, b' ');
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let Some(options) = row.entry.socket.options else {
            return;
        };
        let mut fields = object.object("options");
        fields.number("bits", Some(options.0));
        let out = fields.key("set");
        out.push(b'[');
        let set = OptionSet::NAMES.iter().enumerate();
        for (nth, (_, name)) in set.filter(|(bit, _)| options.is_set(*bit)).enumerate() {
            out.extend_from_slice(if nth == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(name.as_bytes());
            out.push(b'"');
        }
        out.push(b']');
        fields.end();
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        let options = row.entry.socket.options?;
        Some(SortValue::Number(options.0.into()))
    }
}

/// The state of the congestion control.
pub(super) struct CongestionInfo;

impl Composite<Sockets> for CongestionInfo {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        if let Some(info) = &row.entry.socket.congestion_info {
            tcp_words::push_congestion_info(out, info);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        let out = line.field();
        if let Some(info) = &row.entry.socket.congestion_info {
            tcp_words::push_congestion_info(out, info);
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        if let Some(info) = &row.entry.socket.congestion_info {
            tcp_json::push_congestion_info(object, info);
        }
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        let name = row.entry.socket.congestion?;
        Some(SortValue::Text(name.as_bytes().into()))
    }
}

/// Appends `keepalive 1h58m 0`: kind, time left, retransmissions or probes so far.
fn push_timer(out: &mut Vec<u8>, timer: RunningTimer) {
    push_short(out, timer.kind.name().as_bytes());
    if let TimerKind::Unknown(number) = timer.kind {
        out.push(b'(');
        push_decimal(out, number.into());
        out.push(b')');
    }
    out.push(b' ');
    push_time_us(out, u64::from(timer.expires_ms) * 1000);
    out.push(b' ');
    push_decimal(out, timer.retransmits.into());
}

/// Appends the names of options that are on, bits without a name as `bit11`.
fn push_options(out: &mut Vec<u8>, options: OptionSet, separator: u8) {
    let mut first = true;
    for bit in (0..16).filter(|&bit| options.is_set(bit)) {
        if !first {
            out.push(separator);
        }
        first = false;
        match OptionSet::NAMES.get(bit) {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => {
                out.extend_from_slice(b"bit");
                push_decimal(out, bit as u64);
            }
        }
    }
}
