//! The table of columns: the one place that defines what a socket's column is.

use super::Sockets;
use super::composites::{
    CongestionInfo, End, Family, Netid, Options, PeerPlace, Queue, Shutdown, State, Timer,
};
use super::memory::Memory;
use super::owners::Owners;
use super::row::SocketRow;
use super::tcp_field::{APP_LIMITED, MptcpField, TcpField, push_tcp_value};
use super::workloads::{Source, Workload};
use crate::csv::Line;
use crate::listing::Align::{Left, Right};
use crate::listing::{Column, Value};
use crate::unit::Unit;
use sockeye_model::{Detail, ShortText, SocketRates, WorkloadKind};
use std::ops::Range;
use std::sync::LazyLock;

type SocketColumn = Column<Sockets>;

/// Every column, in the order of CSV: those of [`plain`], then the fields of tcp_info and of MPTCP's info, then rates.
pub(super) fn all() -> &'static [Column<Sockets>] {
    static ALL: LazyLock<Vec<Column<Sockets>>> = LazyLock::new(|| {
        let mut all = plain();
        all.extend(TcpField::all().map(tcp_column));
        all.extend(MptcpField::all().map(mptcp_column));
        all.extend(rates());
        all
    });
    &ALL
}

/// What `sock_diag` reports of every socket in any case.
const CHEAP: Detail = Detail::QUEUES
    .union(Detail::TIMER)
    .union(Detail::INODE)
    .union(Detail::USER)
    .union(Detail::OPTIONS);

/// Returns the columns except those of tcp_info and of MPTCP's info.
fn plain() -> Vec<Column<Sockets>> {
    let columns = vec![
        SocketColumn::composite(
            "netid",
            "Netid",
            Left,
            "Protocol, as ss names it",
            &Netid,
            &["netid"],
            &["netid", "netid_number"],
        )
        .aliases(&["proto", "protocol"]),
        SocketColumn::composite(
            "family",
            "Family",
            Left,
            "Address family of the socket itself",
            &Family,
            &["family"],
            &["family", "family_number"],
        ),
        SocketColumn::composite(
            "state",
            "State",
            Left,
            "State",
            &State,
            &["state"],
            &["state", "state_number"],
        ),
        SocketColumn::composite(
            "recv_queue_bytes",
            "Recv-Q",
            Right,
            "Bytes received and not read; of a listener, connections waiting for accept",
            &Queue::Receive,
            &["recv_queue_bytes", "accept_queue"],
            &["recv_queue_bytes", "accept_queue"],
        )
        .aliases(&["recvq", "recv_q"]),
        SocketColumn::composite(
            "send_queue_bytes",
            "Send-Q",
            Right,
            "Bytes sent and not acknowledged; of a listener, the limit of its accept queue",
            &Queue::Send,
            &["send_queue_bytes", "accept_backlog"],
            &["send_queue_bytes", "accept_backlog"],
        )
        .aliases(&["sendq", "send_q", "backlog"]),
        SocketColumn::composite(
            "local",
            "Local Address:Port",
            Left,
            "Our address",
            &End::Local,
            LOCAL_FIELDS,
            LOCAL_JSON,
        )
        .aliases(&["src"]),
        SocketColumn::value("local_port", "Local Port", Right, "Our port", |row, _| {
            Value::number(row.entry.socket.local.port().map(|port| port.0))
        })
        .part()
        .aliases(&["sport"]),
        SocketColumn::composite(
            "peer",
            "Peer Address:Port",
            Left,
            "The peer's address",
            &End::Peer,
            PEER_FIELDS,
            PEER_JSON,
        )
        .aliases(&["dst"]),
        SocketColumn::value("peer_port", "Peer Port", Right, "The peer's port", |row, _| {
            Value::number(row.entry.socket.peer.port().map(|port| port.0))
        })
        .part()
        .aliases(&["dport"]),
        SocketColumn::composite(
            "peer_place",
            "Peer Place",
            Left,
            "Country and autonomous system of the peer: 'top --mmdb'",
            &PeerPlace,
            &["peer_country", "peer_as_number"],
            &[],
        )
        .part(),
        SocketColumn::composite(
            "timer",
            "Timer",
            Left,
            "Kind of timer, time left, retransmissions",
            &Timer,
            &["timer"],
            &[
                "timer.kind",
                "timer.kind_number",
                "timer.expires_ms",
                "timer.retransmits",
            ],
        ),
        SocketColumn::value(
            "timer_expires_ms",
            "Expires",
            Right,
            "Time left of the timer",
            |row, _| Value::number(row.entry.socket.timer.map(|timer| timer.expires_ms)),
        )
        .unit(Unit::Ms)
        .json(&["timer.expires_ms"]),
        SocketColumn::value(
            "timer_retransmits",
            "Retrans",
            Right,
            "Retransmissions or probes of the timer",
            |row, _| Value::number(row.entry.socket.timer.map(|timer| timer.retransmits)),
        )
        .json(&["timer.retransmits"]),
        SocketColumn::value(
            "user",
            "User",
            Left,
            "User that created the socket",
            |row, _| match row.entry.socket.uid {
                Some(uid) => Value::Named(uid.0.into(), row.names.user(uid)),
                None => Value::Absent,
            },
        )
        .fields(&["uid", "user"])
        .aliases(&["uid"]),
        SocketColumn::value("inode", "Inode", Right, "Inode number", |row, _| {
            Value::number(row.entry.socket.inode.map(|inode| inode.0))
        })
        .aliases(&["ino"]),
        SocketColumn::value(
            "cookie",
            "Cookie",
            Right,
            "Cookie, the kernel's identifier of the socket",
            |row, _| Value::number(row.entry.socket.cookie.map(|cookie| cookie.0)),
        )
        .unit(Unit::Hexadecimal)
        .needs(Detail::COOKIE),
        SocketColumn::value(
            "interface",
            "Interface",
            Left,
            "Interface that the socket is bound to",
            |row, _| {
                let socket = row.entry.socket;
                match socket.interface {
                    Some(index) => Value::Named(index.0.into(), row.names.interface(index, socket.netns)),
                    None => Value::Absent,
                }
            },
        )
        .fields(&["interface_index", "interface"])
        .aliases(&["dev"]),
        SocketColumn::value("mark", "Mark", Right, "Firewall mark", |row, _| {
            Value::number(row.entry.socket.mark)
        })
        .unit(Unit::Mark)
        .aliases(&["fwmark"]),
        SocketColumn::value(
            "class_id",
            "Class",
            Right,
            "net_cls class or priority",
            |row, _| Value::number(row.entry.socket.class_id),
        )
        .unit(Unit::Hexadecimal)
        .needs(Detail::SERVICE_CLASS),
        SocketColumn::value("tos", "TOS", Right, "IPv4 type of service", |row, _| {
            Value::number(row.entry.socket.tos)
        })
        .unit(Unit::Hexadecimal)
        .needs(Detail::SERVICE_CLASS),
        SocketColumn::value("tclass", "TClass", Right, "IPv6 traffic class", |row, _| {
            Value::number(row.entry.socket.tclass)
        })
        .unit(Unit::Hexadecimal)
        .needs(Detail::SERVICE_CLASS),
        SocketColumn::composite(
            "shutdown",
            "Shutdown",
            Left,
            "Directions that are shut down",
            &Shutdown,
            &["shutdown_receive", "shutdown_send"],
            &["shutdown.receive", "shutdown.send"],
        ),
        SocketColumn::value(
            "v6only",
            "V6only",
            Left,
            "Whether it takes IPv6 only",
            |row, _| Value::bool(row.entry.socket.v6only),
        ),
        SocketColumn::composite(
            "socket_options",
            "Options",
            Left,
            "Other socket options that are on",
            &Options,
            &["socket_options"],
            &["options.bits", "options.set"],
        ),
        SocketColumn::composite(
            "memory",
            "Memory",
            Left,
            "Memory in use and its limits",
            &Memory,
            MEMORY,
            MEMORY_JSON,
        )
        .needs(Detail::MEMORY)
        .aliases(&["skmem", "mem", "rmem", "wmem", "rcvbuf", "sndbuf"]),
        SocketColumn::value(
            "drops",
            "Drops",
            Right,
            "Packets dropped because a buffer was full",
            |row, _| Value::number(row.entry.socket.memory.and_then(|memory| memory.drops)),
        )
        .needs(Detail::MEMORY)
        .json(&["memory.drops"]),
        SocketColumn::value(
            "congestion",
            "Congestion",
            Left,
            "Congestion control",
            |row, _| Value::text(row.entry.socket.congestion.as_ref().map(ShortText::as_bytes)),
        )
        .needs(Detail::CONGESTION)
        .aliases(&["cong"]),
        SocketColumn::composite(
            "congestion_info",
            "Congestion Info",
            Left,
            "State of the congestion control",
            &CongestionInfo,
            &["congestion_info"],
            CONGESTION_JSON,
        )
        .needs(Detail::CONGESTION),
        SocketColumn::value("ulp", "ULP", Left, "Protocol layered upon TCP", |row, _| {
            Value::text(row.entry.socket.ulp.as_ref().map(ShortText::as_bytes))
        })
        .needs(Detail::TCP_INFO),
        SocketColumn::value(
            "references",
            "Refs",
            Right,
            "References to the socket in the kernel",
            |row, _| Value::number(row.entry.socket.references),
        ),
        SocketColumn::value("netns", "Netns", Left, "Network namespace", |row, _| {
            match row.entry.socket.netns {
                Some(inode) => Value::Named(inode.0.into(), row.names.netns(inode)),
                None => Value::Absent,
            }
        })
        .fields(&["netns_inode", "netns"]),
        SocketColumn::value("cgroup", "Cgroup", Left, "Cgroup (v2)", |row, _| {
            match row.entry.socket.cgroup {
                Some(id) => Value::Named(id.0, row.names.cgroup(id)),
                None => Value::Absent,
            }
        })
        .fields(&["cgroup_id", "cgroup"]),
        SocketColumn::composite(
            "owners",
            "Process",
            Left,
            "Owner processes: name, pid and descriptor",
            &Owners,
            &["owners"],
            &["owners"],
        )
        .needs(Detail::OWNERS)
        .aliases(&["owner", "process", "pid", "pgid"]),
        SocketColumn::composite(
            "container",
            "Container",
            Left,
            "Container: its name, or runtime and id",
            &Workload(WorkloadKind::Container),
            &["container"],
            &["container"],
        )
        .needs(Detail::WORKLOADS),
        SocketColumn::composite(
            "unit",
            "Unit",
            Left,
            "Systemd unit: the innermost service or scope",
            &Workload(WorkloadKind::Unit),
            &["unit"],
            &["unit"],
        )
        .needs(Detail::WORKLOADS),
        SocketColumn::composite(
            "exe",
            "Executable",
            Left,
            "Executable of the owners",
            &Workload(WorkloadKind::Exe),
            &["exe"],
            &["exe"],
        )
        .needs(Detail::WORKLOADS),
        SocketColumn::composite(
            "workload_source",
            "Known By",
            Left,
            "How container and unit are known: by the cgroup of the socket, or by its owner",
            &Source,
            &["workload_source"],
            &["workload_source"],
        )
        .needs(Detail::WORKLOADS),
    ];
    let with_cheap = |column: Column<Sockets>| {
        let needs = column.needs | CHEAP;
        column.needs(needs)
    };
    columns.into_iter().map(with_cheap).collect()
}

/// Returns the columns of what changed since the sample before.
fn rates() -> [Column<Sockets>; 4] {
    /// Creates a column for a member of `SocketRates`.
    macro_rules! rate {
        ($member:ident, $alias:literal, $heading:literal, $about:literal) => {
            SocketColumn::value(stringify!($member), $heading, Right, $about, |row, _| {
                Value::float(row.rates.and_then(|rates| rates.$member))
            })
            .needs(RATES)
            .aliases(&[$alias])
            .json(&[concat!("rates.", stringify!($member))])
        };
    }
    [
        rate!(
            sent_bytes_per_s,
            "sent_rate",
            "Sent/s",
            "With --watch: bytes per second that the peer acknowledged"
        )
        .unit(Unit::ByteRate),
        rate!(
            received_bytes_per_s,
            "received_rate",
            "Received/s",
            "With --watch: bytes received per second"
        )
        .unit(Unit::ByteRate),
        rate!(
            retrans_segs_per_s,
            "retrans_rate",
            "Retrans/s",
            "With --watch: segments retransmitted per second"
        ),
        SocketColumn::value(
            "traffic_bytes_per_s",
            "Traffic/s",
            Right,
            "With --watch: the sum of sent_bytes_per_s and received_bytes_per_s",
            |row, _| {
                let sum = |rates: SocketRates| match (rates.sent_bytes_per_s, rates.received_bytes_per_s) {
                    (None, None) => None,
                    (sent, received) => Some(sent.unwrap_or(0.0) + received.unwrap_or(0.0)),
                };
                Value::float(row.rates.and_then(sum))
            },
        )
        .unit(Unit::ByteRate)
        .needs(RATES)
        .aliases(&["traffic"])
        .part(),
    ]
}

/// What rates are computed from.
const RATES: Detail = CHEAP.union(Detail::TCP_INFO).union(Detail::COOKIE);

fn tcp_column(field: TcpField) -> Column<Sockets> {
    fn value<'r>(row: &'r SocketRow<'_>, index: u8) -> Value<'r> {
        match row.tcp.0[usize::from(index)] {
            Some(number) if usize::from(index) == APP_LIMITED.index() => Value::Bool(number != 0),
            number => Value::number(number),
        }
    }
    let aliases: &[&str] = match field.name() {
        "snd_cwnd_segs" => &["cwnd"],
        "snd_ssthresh_segs" => &["ssthresh"],
        "snd_mss_bytes" => &["mss"],
        // As ss: retransmissions in all.
        "total_retrans_segs" => &["retrans"],
        "min_rtt_us" => &["minrtt"],
        "last_data_sent_ms" => &["lastsnd"],
        "last_data_recv_ms" => &["lastrcv"],
        "last_ack_recv_ms" => &["lastack"],
        _ => &[],
    };
    SocketColumn::value(
        field.name(),
        field.short_name(),
        Right,
        "Field of tcp_info",
        value,
    )
    .unit(Unit::of(field.name()))
    .needs(CHEAP | Detail::TCP_INFO)
    .aliases(aliases)
    .json(leak(vec![leak_text(format!("tcp_info.{}", field.name()))]))
    .index(field.index() as u8)
    .series(push_tcp_csv)
}

/// Appends fields of tcp_info as CSV.
fn push_tcp_csv(line: &mut Line<'_>, row: &SocketRow<'_>, indices: Range<u8>) {
    for index in indices.map(usize::from) {
        let out = line.field();
        if let Some(value) = row.tcp.0[index] {
            push_tcp_value(out, index, value, b"");
        }
    }
}

fn mptcp_column(field: MptcpField) -> Column<Sockets> {
    fn value<'r>(row: &'r SocketRow<'_>, index: u8) -> Value<'r> {
        let info = row.entry.socket.mptcp_info.as_ref();
        Value::number(info.and_then(|info| MptcpField::at(index).value(info)))
    }
    let name = leak_text(format!("mptcp_{}", field.name()));
    SocketColumn::value(name, name, Right, "Field of MPTCP's info", value)
        .unit(Unit::of(field.name()))
        .needs(CHEAP | Detail::TCP_INFO)
        .json(leak(vec![leak_text(format!("mptcp_info.{}", field.name()))]))
        .index(field.index())
        .series(push_mptcp_csv)
}

/// Appends fields of MPTCP's info as CSV.
fn push_mptcp_csv(line: &mut Line<'_>, row: &SocketRow<'_>, indices: Range<u8>) {
    match &row.entry.socket.mptcp_info {
        None => line.empty(indices.len()),
        Some(info) => indices.for_each(|index| line.number(MptcpField::at(index).value(info))),
    }
}

/// Keeps a text until the process ends: there is one table of columns.
fn leak_text(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn leak(names: Vec<&'static str>) -> &'static [&'static str] {
    Box::leak(names.into_boxed_slice())
}

/// The CSV fields of an endpoint.
macro_rules! endpoint_fields {
    ($side:literal) => {
        &[
            concat!($side, "_ip"),
            concat!($side, "_port"),
            concat!($side, "_host"),
            concat!($side, "_service"),
            concat!($side, "_name"),
            concat!($side, "_abstract"),
            concat!($side, "_inode"),
            concat!($side, "_ethertype"),
            concat!($side, "_ethertype_name"),
            concat!($side, "_interface"),
            concat!($side, "_netlink_protocol"),
            concat!($side, "_netlink_protocol_name"),
            concat!($side, "_port_id"),
            concat!($side, "_group"),
        ]
    };
}

/// CSV fields of the column `local`.
pub const LOCAL_FIELDS: &[&str] = endpoint_fields!("local");
/// CSV fields of the column `peer`.
pub const PEER_FIELDS: &[&str] = endpoint_fields!("peer");
const LOCAL_JSON: &[&str] = &["local"];
const PEER_JSON: &[&str] = &["peer"];
const CONGESTION_JSON: &[&str] = &["congestion_info"];
const MEMORY: &[&str] = &[
    "rmem_alloc_bytes",
    "rcvbuf_bytes",
    "wmem_alloc_bytes",
    "sndbuf_bytes",
    "fwd_alloc_bytes",
    "wmem_queued_bytes",
    "optmem_bytes",
    "backlog_bytes",
];
const MEMORY_JSON: &[&str] = &[
    "memory.rmem_alloc_bytes",
    "memory.rcvbuf_bytes",
    "memory.wmem_alloc_bytes",
    "memory.sndbuf_bytes",
    "memory.fwd_alloc_bytes",
    "memory.wmem_queued_bytes",
    "memory.optmem_bytes",
    "memory.backlog_bytes",
    "memory.drops",
];
