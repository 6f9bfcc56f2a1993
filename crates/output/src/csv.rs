//! CSV after RFC 4180: a header, lines ending in CR LF, quotes where needed; absent values are empty.
//!
//! Numbers are exact and in the unit that the header names. A column may be several fields: an address is
//! `local_ip,local_port,...`. Text that is not UTF-8 or could steer a terminal is written as in tables.
//!
//! Spreadsheets take a cell that begins with `=`, `+`, `-` or `@` for a formula. Text from outside (names of
//! processes, hosts, users, paths) that begins so gets a `'` in front. Abstract UNIX names show as
//! `@name` in tables; here the `@` is the field `local_abstract`, so names are not touched for its sake.

use crate::address::{ethertype_name, netlink_name, push_ip};
use crate::cell::{self, Scratch};
use crate::column::SocketColumn;
use crate::number::push_decimal;
use crate::socket_json::memory_fields;
use crate::tcp_words;
use crate::text::push_clean;
use sockeye_model::{Endpoint, Entry, Memory, Names, Protocol, Queues, Socket, State, TimerKind};

/// The columns of a listing of sockets.
#[derive(Debug)]
pub struct CsvColumns(Vec<SocketColumn>);

impl CsvColumns {
    /// Creates the header and row layout for `columns`.
    pub fn new(columns: Vec<SocketColumn>) -> Self {
        Self(columns)
    }

    /// Appends the header line.
    pub fn push_header(&self, out: &mut Vec<u8>) {
        push_names(out, &self.0);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the names of the fields of these columns.
pub fn push_names(out: &mut Vec<u8>, columns: &[SocketColumn]) {
    let names: Vec<String> = columns.iter().flat_map(|&column| socket_fields(column)).collect();
    out.extend_from_slice(names.join(",").as_bytes());
}

/// Names of the fields of a column.
fn socket_fields(column: SocketColumn) -> Vec<String> {
    use SocketColumn as C;
    let names: &[&str] = match column {
        C::RecvQ => &["recv_queue_bytes", "accept_queue"],
        C::SendQ => &["send_queue_bytes", "accept_backlog"],
        C::Local | C::Peer => {
            let side = column.name();
            return ENDPOINT_FIELDS
                .iter()
                .map(|field| format!("{side}_{field}"))
                .collect();
        }
        C::Timer => &["timer"],
        C::TimerExpires => &["timer_expires_ms"],
        C::User => &["uid", "user"],
        C::Interface => &["interface_index", "interface"],
        C::Shutdown => &["shutdown_receive", "shutdown_send"],
        C::Memory => {
            let fields = memory_fields(&Memory::default());
            let but_drops = fields.iter().filter(|(name, _)| *name != "drops");
            return but_drops.map(|(name, _)| (*name).to_owned()).collect();
        }
        C::Netns => &["netns_inode", "netns"],
        C::Cgroup => &["cgroup_id", "cgroup"],
        _ => return vec![column.name().into_owned()],
    };
    names.iter().map(|&name| name.to_owned()).collect()
}

const ENDPOINT_FIELDS: [&str; 14] = [
    "ip",
    "port",
    "host",
    "service",
    "name",
    "abstract",
    "inode",
    "ethertype",
    "ethertype_name",
    "interface",
    "netlink_protocol",
    "netlink_protocol_name",
    "port_id",
    "group",
];

/// Appends a line.
pub fn push_socket(
    out: &mut Vec<u8>,
    columns: &CsvColumns,
    entry: &Entry<'_>,
    names: &dyn Names,
    scratch: &mut Scratch,
) {
    scratch.gather(&columns.0, entry);
    let mut line = Line::begin(out);
    for &column in &columns.0 {
        match column {
            SocketColumn::Tcp(field) => match (field.name(), scratch.tcp[field.place()]) {
                ("ca_state", Some(number)) => cell::push_ca_state(line.field(), number),
                ("delivery_rate_app_limited", value) => line.boolean(value.map(|value| value != 0)),
                (_, value) => line.number(value),
            },
            SocketColumn::Mptcp(field) => {
                line.number(
                    entry
                        .socket
                        .mptcp_info
                        .as_ref()
                        .and_then(|info| field.value(info)),
                );
            }
            _ => push_socket_column(&mut line, column, entry, names),
        }
    }
    line.end();
}

/// Appends the fields of a column, but not of tcp_info or MPTCP's info.
pub fn push_socket_column(line: &mut Line<'_>, column: SocketColumn, entry: &Entry<'_>, names: &dyn Names) {
    use SocketColumn as C;
    let socket = entry.socket;
    match column {
        C::Netid => line.word(match socket.protocol {
            Protocol::Unknown(_) => "unknown",
            protocol => protocol.name(),
        }),
        C::Family => line.word(socket.family.name()),
        C::State => {
            line.word(socket.state.snake_name());
            if let State::Unknown(number) = socket.state {
                line.out.push(b' ');
                push_decimal(line.out, number.into());
            }
        }
        C::RecvQ => match socket.queues {
            Queues::Unknown => line.empty(2),
            Queues::Data { receive_bytes, .. } => line.numbers([Some(receive_bytes), None]),
            Queues::Accept { waiting, .. } => line.numbers([None, Some(waiting)]),
        },
        C::SendQ => match socket.queues {
            Queues::Unknown => line.empty(2),
            Queues::Data { send_bytes, .. } => line.numbers([Some(send_bytes), None]),
            Queues::Accept { backlog, .. } => line.numbers([None, backlog]),
        },
        C::Local => push_endpoint(line, &socket.local, socket, names),
        C::Peer => push_endpoint(line, &socket.peer, socket, names),
        C::Timer => {
            line.word(socket.timer.map_or("", |timer| timer.kind.name()));
            if let Some(TimerKind::Unknown(number)) = socket.timer.map(|timer| timer.kind) {
                line.out.push(b' ');
                push_decimal(line.out, number.into());
            }
        }
        C::TimerExpires => line.number(socket.timer.map(|timer| timer.expires_ms)),
        C::TimerRetransmits => line.number(socket.timer.map(|timer| timer.retransmits)),
        C::User => {
            line.number(socket.uid.map(|uid| uid.0));
            line.text(socket.uid.and_then(|uid| names.user(uid)));
        }
        C::Inode => line.number(socket.inode.map(|inode| inode.0)),
        C::Cookie => line.number(socket.cookie.map(|cookie| cookie.0)),
        C::Interface => {
            line.number(socket.interface.map(|index| index.0));
            line.text(
                socket
                    .interface
                    .and_then(|index| names.interface(index, socket.netns)),
            );
        }
        C::Mark => line.number(socket.mark),
        C::ClassId => line.number(socket.class_id),
        C::Tos => line.number(socket.tos),
        C::Tclass => line.number(socket.tclass),
        C::Shutdown => {
            line.boolean(socket.shutdown.map(|shutdown| shutdown.receive));
            line.boolean(socket.shutdown.map(|shutdown| shutdown.send));
        }
        C::V6only => line.boolean(socket.v6only),
        C::Options => {
            let out = line.field();
            if let Some(options) = socket.options {
                cell::push_options(out, options, b' ');
            }
        }
        C::Memory => {
            for (name, value) in memory_fields(&socket.memory.unwrap_or_default()) {
                if name != "drops" {
                    line.number(value);
                }
            }
        }
        C::Drops => line.number(socket.memory.and_then(|memory| memory.drops)),
        C::Congestion => line.bytes(socket.congestion.as_ref().map(sockeye_model::ShortText::as_bytes)),
        C::CongestionInfo => {
            let out = line.field();
            if let Some(info) = &socket.congestion_info {
                tcp_words::push_congestion_info(out, info);
            }
        }
        C::Ulp => line.bytes(socket.ulp.as_ref().map(sockeye_model::ShortText::as_bytes)),
        C::References => line.number(socket.references),
        C::Netns => {
            line.number(socket.netns.map(|inode| inode.0));
            line.text(socket.netns.and_then(|inode| names.netns(inode)));
        }
        C::Cgroup => {
            line.number(socket.cgroup.map(|id| id.0));
            line.text(socket.cgroup.and_then(|id| names.cgroup(id)));
        }
        C::Process => line.outside(|out| cell::push_owners(out, entry.owners.unwrap_or_default())),
        C::Tcp(_) | C::Mptcp(_) => unreachable!("these are pushed by push_socket"),
    }
}

/// Appends [`ENDPOINT_FIELDS`].
fn push_endpoint(line: &mut Line<'_>, endpoint: &Endpoint, socket: &Socket, names: &dyn Names) {
    match endpoint {
        Endpoint::None => line.empty(14),
        Endpoint::Inet { ip, port } => {
            push_ip(line.field(), *ip);
            line.number(Some(port.0));
            line.text(names.host(*ip));
            line.text(names.service(socket.protocol, *port).filter(|_| port.0 != 0));
            line.empty(10);
        }
        Endpoint::Unix { name, inode } => {
            line.empty(4);
            let name = name.as_ref().map(sockeye_model::ShortText::as_bytes);
            let abstract_name = name.and_then(|name| name.strip_prefix(b"\0"));
            line.bytes(abstract_name.or(name));
            line.boolean(name.map(|_| abstract_name.is_some()));
            line.number(inode.map(|inode| inode.0));
            line.empty(7);
        }
        Endpoint::Packet { ethertype, interface } => {
            line.empty(7);
            line.number(Some(*ethertype));
            line.word(if *ethertype == 3 {
                "all"
            } else {
                ethertype_name(*ethertype).unwrap_or_default()
            });
            match interface.map(|index| (index, names.interface(index, socket.netns))) {
                Some((_, Some(name))) => line.text(Some(name)),
                Some((index, None)) => line.number(Some(index.0)),
                None => line.empty(1),
            }
            line.empty(4);
        }
        Endpoint::Netlink {
            protocol,
            port,
            group,
        } => {
            line.empty(10);
            line.number(Some(*protocol));
            line.word(netlink_name(*protocol).unwrap_or_default());
            line.number(Some(*port));
            line.number(*group);
        }
    }
}

/// A line being written.
pub struct Line<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Line<'a> {
    /// Begins a line at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_empty: true }
    }

    /// Ends the line with CR LF.
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Begins a field whose text needs no quotes.
    #[inline]
    pub fn field(&mut self) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out
    }

    /// Appends `count` empty fields.
    pub fn empty(&mut self, count: usize) {
        for _ in 0..count {
            self.field();
        }
    }

    /// Appends an integer; `None` is an empty field.
    #[inline]
    pub fn number(&mut self, value: Option<impl Into<u64>>) {
        let out = self.field();
        if let Some(value) = value {
            push_decimal(out, value.into());
        }
    }

    /// Appends two integers; `None` is an empty field.
    pub fn numbers(&mut self, values: [Option<u32>; 2]) {
        for value in values {
            self.number(value);
        }
    }

    /// Appends a number with a fraction; `None` is an empty field.
    pub fn float(&mut self, value: Option<f64>) {
        let out = self.field();
        if let Some(value) = value.filter(|value| value.is_finite()) {
            out.extend_from_slice(format!("{value}").as_bytes());
        }
    }

    /// Appends `true` or `false`; `None` is an empty field.
    pub fn boolean(&mut self, value: Option<bool>) {
        self.word(match value {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        });
    }

    /// Appends a word of ours, which needs no quotes.
    pub fn word(&mut self, word: &str) {
        self.field().extend_from_slice(word.as_bytes());
    }

    /// Appends text from outside, quoted where needed; `None` is an empty field.
    pub fn text(&mut self, text: Option<&str>) {
        self.bytes(text.map(str::as_bytes));
    }

    /// Appends bytes from outside as text; `None` is an empty field.
    pub fn bytes(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => self.outside(|out| push_clean(out, text)),
            None => self.empty(1),
        }
    }

    /// A field with text from outside: kept from being a formula, quoted where needed.
    pub fn outside(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        let out = self.field();
        let start = out.len();
        push(out);
        if matches!(out.get(start), Some(b'=' | b'+' | b'-' | b'@')) {
            out.insert(start, b'\'');
        }
        if !out[start..]
            .iter()
            .any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n'))
        {
            return;
        }
        let text = out.split_off(start);
        out.push(b'"');
        for byte in text {
            if byte == b'"' {
                out.push(b'"');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
}
