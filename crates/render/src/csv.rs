//! CSV after RFC 4180: a header, lines ending in CR LF, quotes where needed; absent values are empty.
//!
//! Numbers are exact and in the unit that the header names. A column may be several fields: an address is
//! `local_ip,local_port,...`. Text that is not UTF-8 or could steer a terminal is written as in tables.
//!
//! Spreadsheets take a cell that begins with `=`, `+`, `-` or `@` for a formula. Text from outside (names of
//! processes, hosts, users, paths) that begins so gets a `'` in front. Abstract UNIX names show as
//! `@name` in tables; here the `@` is the field `local_abstract`, so names are not touched for its sake.
//!
//! Written here although the crate `csv` exists (three packages more). Its writer quotes, as a dozen lines here do; formulas, units
//! and columns of several fields, which are the rest of this module, it does not know.

use crate::address::{ethertype_name, netlink_name, push_ip};
use crate::cell::{self, Scratch};
use crate::column::SocketColumn;
use crate::flow_column::FlowColumn;
use crate::flow_json::{direction_name, states_of};
use crate::number::push_decimal;
use crate::socket_json::memory_fields;
use crate::tcp_words;
use crate::text::push_clean;
use sockeye_model::{
    Endpoint, Entry, Flow, Memory, Names, Process, Protocol, Queues, Socket, State, TimerKind,
};
use std::net::IpAddr;

/// The columns of a listing of sockets.
#[derive(Debug)]
pub(crate) struct CsvColumns(Vec<SocketColumn>);

impl CsvColumns {
    pub(crate) fn new(columns: Vec<SocketColumn>) -> Self {
        Self(columns)
    }

    pub(crate) fn push_header(&self, out: &mut Vec<u8>) {
        push_names(out, &self.0);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the names of the fields of these columns.
pub(crate) fn push_names(out: &mut Vec<u8>, columns: &[SocketColumn]) {
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
pub(crate) fn push_socket(
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
pub(crate) fn push_socket_column(
    line: &mut Line<'_>,
    column: SocketColumn,
    entry: &Entry<'_>,
    names: &dyn Names,
) {
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

/// Appends the header of a listing of flows.
pub(crate) fn push_flow_header(out: &mut Vec<u8>, columns: &[FlowColumn]) {
    let names: Vec<&str> = columns
        .iter()
        .flat_map(|&column| flow_fields(column))
        .copied()
        .collect();
    out.extend_from_slice(names.join(",").as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Names of the fields of a column.
fn flow_fields(column: FlowColumn) -> &'static [&'static str] {
    use FlowColumn as C;
    match column {
        C::Netns => &["netns_inode", "netns"],
        C::User => &["uid", "user"],
        C::Process => &["comm", "pid", "pgid"],
        C::Local => &["local_ip", "local_host", "local_port", "local_service"],
        // The arrow is for eyes; the direction says the same.
        C::Arrow => &[],
        C::Direction => &["direction"],
        C::Peer => &[
            "peer_ip",
            "peer_host",
            "peer_prefix_bits",
            "peer_port",
            "peer_service",
        ],
        C::Connections => &["connections"],
        C::States => &["states"],
        C::Measured => &["measured"],
        C::Sent => &["bytes_acked"],
        C::Received => &["bytes_received"],
        C::Rtt => &["rtt_us_median"],
        C::Retrans => &["retrans_segs"],
        C::DeliveryRate => &["delivery_rate_bytes_per_s_sum"],
        C::DeliveryRateMedian => &["delivery_rate_bytes_per_s_median"],
        C::SentRate => &["sent_bytes_per_s"],
        C::ReceivedRate => &["received_bytes_per_s"],
        C::RetransRate => &["retrans_segs_per_s"],
        C::OpenedRate => &["opened_per_s"],
        C::ClosedRate => &["closed_per_s"],
        C::Owners => &["owners"],
    }
}

/// Appends a line.
pub(crate) fn push_flow(
    out: &mut Vec<u8>,
    columns: &[FlowColumn],
    flow: &Flow,
    names: &dyn Names,
    protocol: Protocol,
) {
    use FlowColumn as C;
    use sockeye_model::Direction::{Active, Passive};
    let key = &flow.key;
    let (totals, rates) = (flow.totals.as_ref(), flow.rates.as_ref());
    let mut line = Line::begin(out);
    for &column in columns {
        match column {
            C::Netns => {
                line.number(key.netns.map(|inode| inode.0));
                line.text(key.netns.and_then(|inode| names.netns(inode)));
            }
            C::User => {
                line.number(key.uid.map(|uid| uid.0));
                line.text(key.uid.and_then(|uid| names.user(uid)));
            }
            C::Process => {
                let process = key.process.as_ref();
                line.bytes(process.map(|process| process.comm.as_bytes()));
                line.number(process.map(|process| process.pid.0));
                line.number(process.and_then(|process| process.pgid).map(|pgid| pgid.0));
            }
            C::Local | C::Peer => {
                let (ip, has_port) = match column {
                    C::Local => (key.local, key.direction == Passive),
                    _ => (key.peer, key.direction == Active),
                };
                push_flow_address(&mut line, ip, names);
                if column == C::Peer {
                    line.number(key.peer_prefix);
                }
                let port = key.port.filter(|_| has_port);
                line.number(port.map(|port| port.0));
                line.text(port.and_then(|port| names.service(protocol, port)));
            }
            C::Arrow => {}
            C::Direction => line.word(direction_name(key.direction)),
            C::Connections => line.number(Some(flow.connections)),
            C::States => {
                let out = line.field();
                for (nth, (state, count)) in states_of(flow).enumerate() {
                    if nth > 0 {
                        out.push(b' ');
                    }
                    out.extend_from_slice(state.snake_name().as_bytes());
                    out.push(b'=');
                    push_decimal(out, count);
                }
            }
            C::Measured => line.number(totals.map(|totals| totals.measured)),
            C::Sent => line.number(totals.and_then(|totals| totals.bytes_acked)),
            C::Received => line.number(totals.and_then(|totals| totals.bytes_received)),
            C::Rtt => line.number(totals.and_then(|totals| totals.rtt_us_median)),
            C::Retrans => line.number(totals.and_then(|totals| totals.retrans_segs)),
            C::DeliveryRate => line.number(totals.and_then(|totals| totals.delivery_rate_bytes_per_s_sum)),
            C::DeliveryRateMedian => {
                line.number(totals.and_then(|totals| totals.delivery_rate_bytes_per_s_median));
            }
            C::SentRate => line.float(rates.map(|rates| rates.sent_bytes_per_s)),
            C::ReceivedRate => line.float(rates.map(|rates| rates.received_bytes_per_s)),
            C::RetransRate => line.float(rates.map(|rates| rates.retrans_segs_per_s)),
            C::OpenedRate => line.float(rates.map(|rates| rates.opened_per_s)),
            C::ClosedRate => line.float(rates.map(|rates| rates.closed_per_s)),
            C::Owners => line.outside(|out| push_processes(out, &flow.owners)),
        }
    }
    line.end();
}

fn push_flow_address(line: &mut Line<'_>, ip: Option<IpAddr>, names: &dyn Names) {
    let out = line.field();
    if let Some(ip) = ip {
        push_ip(out, ip);
    }
    line.text(ip.and_then(|ip| names.host(ip)));
}

fn push_processes(out: &mut Vec<u8>, processes: &[Process]) {
    for (nth, process) in processes.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        crate::flow_cell::push_process(out, process);
    }
}

/// A line being written.
pub(crate) struct Line<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Line<'a> {
    pub(crate) fn begin(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_empty: true }
    }

    pub(crate) fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Begins a field whose text needs no quotes.
    #[inline]
    pub(crate) fn field(&mut self) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out
    }

    pub(crate) fn empty(&mut self, count: usize) {
        for _ in 0..count {
            self.field();
        }
    }

    #[inline]
    pub(crate) fn number(&mut self, value: Option<impl Into<u64>>) {
        let out = self.field();
        if let Some(value) = value {
            push_decimal(out, value.into());
        }
    }

    pub(crate) fn numbers(&mut self, values: [Option<u32>; 2]) {
        for value in values {
            self.number(value);
        }
    }

    pub(crate) fn float(&mut self, value: Option<f64>) {
        let out = self.field();
        if let Some(value) = value.filter(|value| value.is_finite()) {
            out.extend_from_slice(format!("{value}").as_bytes());
        }
    }

    pub(crate) fn boolean(&mut self, value: Option<bool>) {
        self.word(match value {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        });
    }

    pub(crate) fn word(&mut self, word: &str) {
        self.field().extend_from_slice(word.as_bytes());
    }

    pub(crate) fn text(&mut self, text: Option<&str>) {
        self.bytes(text.map(str::as_bytes));
    }

    pub(crate) fn bytes(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => self.outside(|out| push_clean(out, text)),
            None => self.empty(1),
        }
    }

    /// A field with text from outside: kept from being a formula, quoted where needed.
    pub(crate) fn outside(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
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
