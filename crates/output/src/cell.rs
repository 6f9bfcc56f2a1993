//! The cells of a table of sockets.

use crate::address;
use crate::column::{SocketColumn, TcpField};
use crate::number::{push_decimal, push_hexadecimal, push_human, push_short, push_time_us};
use crate::table::{Table, Tint};
use crate::tcp_words;
use crate::text::push_clean;
use crate::unit::Unit;
use sockeye_model::{
    CaState, Entry, Family, Memory, Names, Options, Owner, Protocol, Queues, State, Timer, TimerKind,
};
use std::io::Write;

/// Values of a row that are gathered in one go.
#[derive(Debug)]
pub struct Scratch {
    /// Values of the TCP fields, in the order of [`TcpField`]; `None` if unknown.
    pub tcp: [Option<u64>; TcpField::COUNT],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            tcp: [None; TcpField::COUNT],
        }
    }
}

impl Scratch {
    /// Gathers the fields of tcp_info, if one of `columns` is such a field.
    pub fn gather(&mut self, columns: &[SocketColumn], entry: &Entry<'_>) {
        if columns
            .iter()
            .any(|column| matches!(column, SocketColumn::Tcp(_)))
        {
            self.tcp = tcp_words::values(entry.socket.tcp_info.as_ref());
        }
    }
}

/// Fills a row of `table`.
#[inline]
pub fn push_row(
    table: &mut Table,
    columns: &[SocketColumn],
    entry: &Entry<'_>,
    names: &dyn Names,
    scratch: &mut Scratch,
) {
    scratch.gather(columns, entry);
    for &column in columns {
        let tint = push(table.cell(), column, entry, names, scratch);
        table.end_cell(tint);
    }
}

/// Appends a cell, nothing if its value is absent.
#[inline]
fn push(
    out: &mut Vec<u8>,
    column: SocketColumn,
    entry: &Entry<'_>,
    names: &dyn Names,
    scratch: &Scratch,
) -> Tint {
    let socket = entry.socket;
    match column {
        SocketColumn::State => {
            push_state(out, socket.state);
            return tint(socket.state);
        }
        SocketColumn::RecvQ => match socket.queues {
            Queues::Unknown => {}
            Queues::Data { receive_bytes, .. } => push_decimal(out, receive_bytes.into()),
            Queues::Accept { waiting, .. } => push_decimal(out, waiting.into()),
        },
        SocketColumn::SendQ => match socket.queues {
            Queues::Unknown | Queues::Accept { backlog: None, .. } => {}
            Queues::Data { send_bytes, .. } => push_decimal(out, send_bytes.into()),
            Queues::Accept {
                backlog: Some(backlog),
                ..
            } => push_decimal(out, backlog.into()),
        },
        SocketColumn::Local => address::push_local(out, socket, names),
        SocketColumn::Peer => address::push_peer(out, socket, names),
        SocketColumn::Process => push_owners(out, entry.owners.unwrap_or_default()),
        SocketColumn::Netid => {
            push_short(out, socket.protocol.name().as_bytes());
            if let Protocol::Unknown(number) = socket.protocol {
                push_unknown(out, number);
            }
        }
        _ => push_rarer(out, column, entry, names, scratch),
    }
    Tint::None
}

/// A number without a name: `(10)`.
fn push_unknown(out: &mut Vec<u8>, number: u8) {
    out.push(b'(');
    push_decimal(out, number.into());
    out.push(b')');
}

fn push_rarer(
    out: &mut Vec<u8>,
    column: SocketColumn,
    entry: &Entry<'_>,
    names: &dyn Names,
    scratch: &Scratch,
) {
    use SocketColumn as C;
    let socket = entry.socket;
    let decimal = |out: &mut Vec<u8>, number: Option<u64>| {
        if let Some(number) = number {
            push_decimal(out, number);
        }
    };
    let hexadecimal = |out: &mut Vec<u8>, number: Option<u64>| {
        if let Some(number) = number {
            push_hexadecimal(out, number);
        }
    };
    match column {
        C::State | C::RecvQ | C::SendQ | C::Local | C::Peer | C::Process | C::Netid => {
            unreachable!("these are pushed above")
        }
        C::Family => {
            push_short(out, socket.family.name().as_bytes());
            if let Family::Unknown(number) = socket.family {
                push_unknown(out, number);
            }
        }
        C::Timer => {
            if let Some(timer) = socket.timer {
                push_timer(out, timer);
            }
        }
        C::TimerExpires => {
            if let Some(timer) = socket.timer {
                push_time_us(out, u64::from(timer.expires_ms) * 1000);
            }
        }
        C::TimerRetransmits => decimal(out, socket.timer.map(|timer| timer.retransmits.into())),
        C::User => {
            if let Some(uid) = socket.uid {
                match names.user(uid) {
                    Some(name) => push_clean(out, name.as_bytes()),
                    None => push_decimal(out, uid.0.into()),
                }
            }
        }
        C::Inode => decimal(out, socket.inode.map(|inode| inode.0.into())),
        C::Cookie => hexadecimal(out, socket.cookie.map(|cookie| cookie.0)),
        C::Interface => {
            if let Some(interface) = socket.interface {
                address::push_interface(out, interface, socket, names);
            }
        }
        // No mark is what nearly all sockets have.
        C::Mark => hexadecimal(out, socket.mark.filter(|&mark| mark != 0).map(u64::from)),
        C::ClassId => hexadecimal(out, socket.class_id.map(u64::from)),
        C::Tos => hexadecimal(out, socket.tos.map(u64::from)),
        C::Tclass => hexadecimal(out, socket.tclass.map(u64::from)),
        C::Shutdown => {
            if let Some(shutdown) = socket.shutdown {
                out.extend_from_slice(match (shutdown.receive, shutdown.send) {
                    (false, false) => b"none".as_slice(),
                    (true, false) => b"receive",
                    (false, true) => b"send",
                    (true, true) => b"both",
                });
            }
        }
        C::V6only => {
            if let Some(v6only) = socket.v6only {
                out.extend_from_slice(if v6only { b"yes" } else { b"no" });
            }
        }
        C::Options => {
            if let Some(options) = socket.options {
                push_options(out, options, b',');
            }
        }
        C::Memory => {
            if let Some(memory) = &socket.memory {
                push_memory(out, memory);
            }
        }
        C::Drops => decimal(out, socket.memory.and_then(|memory| memory.drops).map(u64::from)),
        C::Congestion => {
            if let Some(name) = socket.congestion {
                push_clean(out, name.as_bytes());
            }
        }
        C::CongestionInfo => {
            if let Some(info) = &socket.congestion_info {
                tcp_words::push_congestion_info(out, info);
            }
        }
        C::Ulp => {
            if let Some(name) = socket.ulp {
                push_clean(out, name.as_bytes());
            }
        }
        C::References => decimal(out, socket.references.map(u64::from)),
        C::Netns => {
            if let Some(inode) = socket.netns {
                match names.netns(inode) {
                    Some(name) => push_clean(out, name.as_bytes()),
                    None => push_decimal(out, inode.0.into()),
                }
            }
        }
        C::Cgroup => {
            if let Some(id) = socket.cgroup {
                match names.cgroup(id) {
                    Some(path) => push_clean(out, path.as_bytes()),
                    None => push_decimal(out, id.0),
                }
            }
        }
        C::Tcp(field) => {
            if let Some(value) = scratch.tcp[field.place()] {
                Unit::of(field.name()).push(out, value);
            }
        }
        C::Mptcp(field) => {
            if let Some(value) = socket.mptcp_info.as_ref().and_then(|info| field.value(info)) {
                Unit::of(field.name()).push(out, value);
            }
        }
    }
}

/// Appends the name of a state of congestion control; one without a name as its number.
pub fn push_ca_state(out: &mut Vec<u8>, number: u64) {
    // Writing into a Vec cannot fail.
    let _ = match u8::try_from(number) {
        Ok(number) => write!(out, "{}", CaState::from_number(number)),
        Err(_) => write!(out, "{number}"),
    };
}

/// Appends the name of a state; one without a name as its number.
#[inline]
pub fn push_state(out: &mut Vec<u8>, state: State) {
    push_short(out, state.short_name().as_bytes());
    if let State::Unknown(number) = state {
        push_unknown(out, number);
    }
}

/// Returns the colour of a state.
#[inline]
pub const fn tint(state: State) -> Tint {
    match state {
        State::Established => Tint::Green,
        State::Listen => Tint::Blue,
        State::TimeWait | State::Close | State::BoundInactive => Tint::Dim,
        State::Unknown(_) => Tint::None,
        _ => Tint::Yellow,
    }
}

/// `keepalive 1h58m 0`: what runs, how long still, retransmissions or probes so far.
fn push_timer(out: &mut Vec<u8>, timer: Timer) {
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

/// `nginx(812,fd=6),nginx(813,fd=6)`.
pub fn push_owners(out: &mut Vec<u8>, owners: &[Owner]) {
    for (nth, owner) in owners.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        push_clean(out, owner.process.comm.as_bytes());
        out.push(b'(');
        push_decimal(out, owner.process.pid.0.into());
        out.extend_from_slice(b",fd=");
        push_decimal(out, owner.fd.0.into());
        out.push(b')');
    }
}

/// Appends the names of options that are on, bits without a name as `bit11`.
pub fn push_options(out: &mut Vec<u8>, options: Options, separator: u8) {
    let mut first = true;
    for place in (0..16).filter(|&place| options.is_set(place)) {
        if !first {
            out.push(separator);
        }
        first = false;
        match Options::NAMES.get(place) {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => {
                out.extend_from_slice(b"bit");
                push_decimal(out, place as u64);
            }
        }
    }
}

/// `rcv 0/131K snd 0/2.6M`: held of allowed; then what else is held, if anything is.
fn push_memory(out: &mut Vec<u8>, memory: &Memory) {
    let mut between = "";
    for (word, held, limit) in [
        ("rcv ", memory.rmem_alloc_bytes, memory.rcvbuf_bytes),
        ("snd ", memory.wmem_alloc_bytes, memory.sndbuf_bytes),
    ] {
        let Some(held) = held else { continue };
        push_short(out, between.as_bytes());
        between = " ";
        push_short(out, word.as_bytes());
        push_human(out, held.into());
        if let Some(limit) = limit {
            out.push(b'/');
            push_human(out, limit.into());
        }
    }
    for (word, value) in [
        ("queued ", memory.wmem_queued_bytes),
        ("fwd ", memory.fwd_alloc_bytes),
        ("opt ", memory.optmem_bytes),
        ("backlog ", memory.backlog_bytes),
        ("drops ", memory.drops),
    ] {
        let Some(value) = value.filter(|&value| value > 0) else {
            continue;
        };
        push_short(out, between.as_bytes());
        between = " ";
        push_short(out, word.as_bytes());
        push_human(out, value.into());
    }
}
