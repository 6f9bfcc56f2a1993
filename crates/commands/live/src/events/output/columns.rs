//! The columns of events.

use super::{EventRow, Events};
use sockeye_model::{ConnectionEvent, ConnectionEventKind, Direction, Endpoint, Process, TcpInfo};
use sockeye_output::address;
use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, SortValue, Value};
use sockeye_output::number::push_decimal;
use sockeye_output::socket::{push_endpoint, push_process_fields};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;
use sockeye_output::unit::Unit;

type EventColumn = Column<Events>;

/// All columns, in the order of CSV.
pub(super) static COLUMNS: &[EventColumn] = &[
    // Every line of JSON and CSV begins with it.
    EventColumn::composite("time", "Time", Left, "When it happened", &Time, &[], &[]).for_later(15),
    word("event", "Event", "What happened", |row, _| {
        Value::Word(row.event.kind.name())
    })
    .for_later(15),
    word("netid", "Netid", "Protocol: tcp, udp, mptcp", |row, _| {
        Value::Word(row.event.socket.protocol.name())
    })
    .aliases(&["proto", "protocol"]),
    word(
        "direction",
        "Direction",
        "Who asked for the connection: active, we did; passive, the peer did; of UDP: who sent the first datagram",
        |row, _| match row.event.direction {
            Some(Direction::Active) => Value::Word("active"),
            Some(Direction::Passive) => Value::Word("passive"),
            None => Value::Absent,
        },
    ),
    EventColumn::composite(
        "local",
        "Local Address:Port",
        Left,
        "Our address",
        &End::Local,
        &["local_ip", "local_port", "local_host", "local_service"],
        &["local"],
    )
    .for_later(21)
    .aliases(&["src"]),
    EventColumn::composite(
        "peer",
        "Peer Address:Port",
        Left,
        "The peer's address",
        &End::Peer,
        &["peer_ip", "peer_port", "peer_host", "peer_service"],
        &["peer"],
    )
    .for_later(21)
    .aliases(&["dst"]),
    EventColumn::composite(
        "owner",
        "Process",
        Left,
        "The process that the connection belongs to",
        &Person::Owner,
        &["owner_comm", "owner_pid"],
        &["owner"],
    )
    .for_later(20)
    .aliases(&["process", "users"]),
    word(
        "known_by",
        "By",
        "How that is known: connect, accept, send, receive, closer, listener, walk",
        |row, _| {
            row.event
                .owner
                .map_or(Value::Absent, |owner| Value::Word(owner.known_by.name()))
        },
    )
    .for_later(8),
    EventColumn::composite(
        "closer",
        "Closer",
        Left,
        "The process that closed the connection, or shut down sending",
        &Person::Closer,
        &["closer_comm", "closer_pid"],
        &["closer"],
    ),
    EventColumn::value(
        "netns_inode",
        "Netns",
        Left,
        "Network namespace",
        |row, _| match row.event.socket.netns {
            Some(netns) => Value::Named(netns.0.into(), row.names.netns(netns)),
            None => Value::Absent,
        },
    )
    .fields(&["netns_inode", "netns"])
    .aliases(&["netns"]),
    EventColumn::composite(
        "took",
        "Took",
        Right,
        "Of an open, the setup; of a close, how long it was established; of window-open, how long the window was zero",
        &Took,
        &[],
        &[],
    )
    .for_later(7),
    number(
        "setup_us",
        "Setup",
        "From connect, or the peer's last ACK, until it was established or failed",
        |row, _| Value::number(row.event.setup_us),
    )
    .unit(Unit::Us),
    number(
        "duration_us",
        "Duration",
        "How long it was established, or its window was zero; absent if it is older than the watch",
        |row, _| Value::number(row.event.duration_us),
    )
    .unit(Unit::Us)
    .aliases(&["duration"]),
    number("sent_bytes", "Sent", "Data sent, each byte once", |row, _| {
        Value::number(row.event.sent_bytes)
    })
    .unit(Unit::Bytes)
    .for_later(6)
    .aliases(&["sent"]),
    number(
        "received_bytes",
        "Received",
        "Data received, each byte once",
        |row, _| Value::number(row.event.received_bytes),
    )
    .unit(Unit::Bytes)
    .aliases(&["received"]),
    number("segs_out", "SegsOut", "Segments sent", |row, _| {
        info(row, |info| info.segs_out)
    }),
    number("segs_in", "SegsIn", "Segments received", |row, _| {
        info(row, |info| info.segs_in)
    }),
    number("data_segs_out", "DataOut", "Segments with data sent", |row, _| {
        info(row, |info| info.data_segs_out)
    }),
    number(
        "data_segs_in",
        "DataIn",
        "Segments with data received",
        |row, _| info(row, |info| info.data_segs_in),
    ),
    number(
        "retrans_segs",
        "Retrans",
        "Segments sent again: of a retransmit in this event, of a close in all",
        |row, _| match row.event.details.retransmitted_segs {
            None => info(row, |info| info.total_retrans_segs),
            segs => Value::number(segs),
        },
    )
    .aliases(&["retrans"]),
    number("rtt_us", "RTT", "Smoothed round-trip time", |row, _| {
        info(row, |info| info.rtt_us)
    })
    .unit(Unit::RoundTripUs)
    .aliases(&["rtt"]),
    number("min_rtt_us", "MinRTT", "Least round-trip time", |row, _| {
        info(row, |info| info.min_rtt_us)
    })
    .unit(Unit::RoundTripUs)
    .aliases(&["minrtt"]),
    number(
        "dsack_dups",
        "DSack",
        "Segments sent again without need, as the peer reported (D-SACK)",
        |row, _| Value::number(row.event.details.dsack_dups),
    ),
    number(
        "sent_datagrams",
        "DgramsOut",
        "Calls that sent a datagram by a UDP socket",
        |row, _| Value::number(row.event.details.sent_datagrams),
    ),
    number(
        "received_datagrams",
        "DgramsIn",
        "Calls that received one",
        |row, _| Value::number(row.event.details.received_datagrams),
    ),
    number(
        "failed_datagrams",
        "DgramsLost",
        "Datagrams that an error concerns",
        |row, _| Value::number(row.event.details.failed_datagrams),
    ),
    EventColumn::composite(
        "how",
        "How",
        Left,
        "How and by whom it ended, why it failed, why a segment was sent again, whose window it is, or the change of the state",
        &How,
        &[],
        &[],
    ),
    word(
        "ended_how",
        "End",
        "How it ended: fin, reset-sent, reset-received, timeout, error, abandoned, no-port",
        |row, _| row.event.end.map_or(Value::Absent, |end| Value::Word(end.name())),
    ),
    word("ended_by", "EndedBy", "Who ended it: local, peer", |row, _| {
        row.event
            .ended_by
            .map_or(Value::Absent, |side| Value::Word(side.name()))
    }),
    number("errno", "Errno", "Error of the socket", |row, _| {
        Value::number(row.event.errno.and_then(|errno| u32::try_from(errno).ok()))
    }),
    word("error", "Error", "Its name", |row, _| {
        row.event
            .errno
            .and_then(errno_name)
            .map_or(Value::Absent, Value::Word)
    }),
    number(
        "reset_reason",
        "ResetReason",
        "Reason of the RST that was sent, a number of the kernel's enum sk_rst_reason",
        |row, _| Value::number(row.event.reset_reason),
    ),
    word(
        "retransmitted_by",
        "Why",
        "Why a segment was sent again: syn, rto, fast, tlp",
        |row, _| {
            row.event
                .retransmission
                .map_or(Value::Absent, |why| Value::Word(why.name()))
        },
    ),
    word(
        "cause",
        "Cause",
        "Why a packet failed: icmp, send, receive, buffer-full, memory, checksum, no-neighbor, no-route",
        |row, _| {
            row.event
                .details
                .cause
                .map_or(Value::Absent, |cause| Value::Word(cause.name()))
        },
    ),
    word(
        "refusal",
        "Refusal",
        "What became of a request that found a queue full: syn-dropped, ack-dropped, reset, cookie",
        |row, _| {
            row.event
                .details
                .refusal
                .map_or(Value::Absent, |refusal| Value::Word(refusal.name()))
        },
    ),
    word(
        "window_of",
        "WindowOf",
        "Whose window is zero, or open again: local, peer",
        |row, _| {
            row.event
                .details
                .window_of
                .map_or(Value::Absent, |side| Value::Word(side.name()))
        },
    ),
    number(
        "mptcp_token",
        "Token",
        "Token of the MPTCP connection that it is, or is a subflow of",
        |row, _| Value::number(row.event.details.mptcp_token),
    )
    .unit(Unit::Hexadecimal),
    word("state", "State", "State after the event", |row, _| {
        Value::Word(row.event.socket.state.snake_name())
    }),
    word("old_state", "OldState", "State before the event", |row, _| {
        Value::Word(row.event.old_state.snake_name())
    }),
    EventColumn::value("uid", "User", Left, "User of the socket", |row, _| {
        match row.event.socket.uid {
            Some(uid) => Value::Named(uid.0.into(), row.names.user(uid)),
            None => Value::Absent,
        }
    })
    .fields(&["uid", "user"])
    .aliases(&["user"]),
    EventColumn::value(
        COMMAND_LINE,
        "Command",
        Left,
        "Command line of the owner, if the process has not ended before it was read",
        |row, _| Value::text(row.command_line),
    ),
    EventColumn::value(
        "container",
        "Container",
        Left,
        "Container of the socket's cgroup",
        |row, _| Value::text(row.container.map(str::as_bytes)),
    ),
    EventColumn::value(
        "unit",
        "Unit",
        Left,
        "Systemd unit of the socket's cgroup",
        |row, _| Value::text(row.unit.map(str::as_bytes)),
    ),
    EventColumn::value(
        "cgroup_id",
        "Cgroup",
        Left,
        "Cgroup of the socket",
        |row, _| match row.event.socket.cgroup {
            Some(id) => Value::Named(id.0, row.cgroup),
            None => Value::Absent,
        },
    )
    .fields(&["cgroup_id", "cgroup"])
    .aliases(&["cgroup"]),
    number(
        "inode",
        "Inode",
        "Inode of the socket; absent if no process has it",
        |row, _| Value::number(row.event.socket.inode.map(|inode| inode.0)),
    ),
    number(
        "cookie",
        "Cookie",
        "Cookie of the socket, if it has one",
        |row, _| Value::number(row.event.socket.cookie.map(|cookie| cookie.0)),
    )
    .unit(Unit::Hexadecimal),
];

/// Name of the column that takes reading `/proc`.
pub(crate) const COMMAND_LINE: &str = "command_line";

const fn word(
    name: &'static str,
    heading: &'static str,
    about: &'static str,
    value: for<'r, 'a> fn(&'r EventRow<'a>, u8) -> Value<'r>,
) -> EventColumn {
    EventColumn::value(name, heading, Left, about, value)
}

const fn number(
    name: &'static str,
    heading: &'static str,
    about: &'static str,
    value: for<'r, 'a> fn(&'r EventRow<'a>, u8) -> Value<'r>,
) -> EventColumn {
    EventColumn::value(name, heading, Right, about, value)
}

fn info<'r>(row: &EventRow<'_>, of: fn(&TcpInfo) -> Option<u32>) -> Value<'r> {
    Value::number(row.event.socket.tcp_info.as_ref().and_then(of))
}

/// The address of one end.
enum End {
    Local,
    Peer,
}

impl End {
    const fn of<'a>(&self, event: &'a ConnectionEvent) -> &'a Endpoint {
        match self {
            Self::Local => &event.socket.local,
            Self::Peer => &event.socket.peer,
        }
    }
}

impl Composite<Events> for End {
    fn push_cell(&self, out: &mut Vec<u8>, row: &EventRow<'_>) -> Tint {
        match self {
            Self::Local => address::push_local(out, &row.event.socket, row.names),
            Self::Peer => address::push_peer(out, &row.event.socket, row.names),
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &EventRow<'_>) {
        let socket = &row.event.socket;
        match *self.of(row.event) {
            Endpoint::Inet { ip, port } => {
                address::push_ip(line.field(), ip);
                line.number(Some(port.0));
                line.text(row.names.host(ip));
                line.text(row.names.service(socket.protocol, port).filter(|_| port.0 != 0));
            }
            _ => line.empty(4),
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &EventRow<'_>) {
        let key = match self {
            Self::Local => "local",
            Self::Peer => "peer",
        };
        push_endpoint(object, key, self.of(row.event), &row.event.socket, row.names);
    }

    fn sort_value(&self, row: &EventRow<'_>) -> Option<SortValue> {
        match *self.of(row.event) {
            Endpoint::Inet { ip, port } => Some(SortValue::Address(address::canonical(ip), port.0)),
            _ => None,
        }
    }
}

/// A process.
enum Person {
    Owner,
    Closer,
}

impl Person {
    fn of(&self, event: &ConnectionEvent) -> Option<Process> {
        match self {
            Self::Owner => event.owner.map(|owner| owner.process),
            Self::Closer => event.closer,
        }
    }
}

impl Composite<Events> for Person {
    fn push_cell(&self, out: &mut Vec<u8>, row: &EventRow<'_>) -> Tint {
        if let Some(process) = self.of(row.event) {
            push_clean(out, process.comm.as_bytes());
            out.push(b'(');
            push_decimal(out, process.pid.0.into());
            out.push(b')');
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &EventRow<'_>) {
        let process = self.of(row.event);
        line.bytes(process.as_ref().map(|process| process.comm.as_bytes()));
        line.number(process.map(|process| process.pid.0));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &EventRow<'_>) {
        let Some(process) = self.of(row.event) else { return };
        let mut fields = object.object(match self {
            Self::Owner => "owner",
            Self::Closer => "closer",
        });
        push_process_fields(&mut fields, &process);
        fields.end();
    }

    fn sort_value(&self, row: &EventRow<'_>) -> Option<SortValue> {
        let process = self.of(row.event)?;
        Some(SortValue::Text(process.comm.as_bytes().into()))
    }
}

/// The local time of an event, for a table.
struct Time;

impl Composite<Events> for Time {
    fn push_cell(&self, out: &mut Vec<u8>, row: &EventRow<'_>) -> Tint {
        out.extend_from_slice(row.clock.as_bytes());
        Tint::None
    }

    fn push_csv(&self, _line: &mut Line<'_>, _row: &EventRow<'_>) {}

    fn push_json(&self, _object: &mut Object<'_>, _row: &EventRow<'_>) {}

    fn sort_value(&self, row: &EventRow<'_>) -> Option<SortValue> {
        Some(SortValue::Number(row.event.time_ns))
    }
}

/// How long an event took, for a table.
struct Took;

impl Took {
    fn us(event: &ConnectionEvent) -> Option<u64> {
        event.setup_us.or(event.duration_us)
    }
}

impl Composite<Events> for Took {
    fn push_cell(&self, out: &mut Vec<u8>, row: &EventRow<'_>) -> Tint {
        if let Some(us) = Self::us(row.event) {
            Unit::Us.push(out, us);
        }
        Tint::None
    }

    fn push_csv(&self, _line: &mut Line<'_>, _row: &EventRow<'_>) {}

    fn push_json(&self, _object: &mut Object<'_>, _row: &EventRow<'_>) {}

    fn sort_value(&self, row: &EventRow<'_>) -> Option<SortValue> {
        Self::us(row.event).map(SortValue::Number)
    }
}

/// How it ended, failed or changed, for a table.
struct How;

impl Composite<Events> for How {
    fn push_cell(&self, out: &mut Vec<u8>, row: &EventRow<'_>) -> Tint {
        let event = row.event;
        let mut words: Vec<String> = Vec::new();
        if let Some(end) = event.end {
            words.push(end.name().to_owned());
        }
        if let Some(side) = event.ended_by
            && event.kind == ConnectionEventKind::Close
        {
            words.push(format!("by {}", side.name()));
        }
        if let Some(errno) = event.errno
            && event.kind != ConnectionEventKind::Retransmit
        {
            words.push(errno_name(errno).map_or_else(|| format!("errno {errno}"), str::to_owned));
        }
        if let Some(why) = event.retransmission {
            words.push(why.name().to_owned());
        }
        let details = &event.details;
        if let Some(cause) = details.cause {
            words.push(cause.name().to_owned());
        }
        if let Some(refusal) = details.refusal {
            words.push(refusal.name().to_owned());
        }
        if let Some(side) = details.window_of {
            words.push(format!("of {}", side.name()));
        }
        if let Some(count) = details.failed_datagrams.filter(|count| *count > 1) {
            words.push(format!("{count} datagrams"));
        }
        if event.kind == ConnectionEventKind::State {
            words.push(format!(
                "{} to {}",
                event.old_state.snake_name(),
                event.socket.state.snake_name()
            ));
        }
        out.extend_from_slice(words.join(" ").as_bytes());
        match event.kind {
            ConnectionEventKind::Fail
            | ConnectionEventKind::ConnectError
            | ConnectionEventKind::AcceptOverflow
            | ConnectionEventKind::SynOverflow
            | ConnectionEventKind::Error => Tint::Yellow,
            _ => Tint::None,
        }
    }

    fn push_csv(&self, _line: &mut Line<'_>, _row: &EventRow<'_>) {}

    fn push_json(&self, _object: &mut Object<'_>, _row: &EventRow<'_>) {}

    fn sort_value(&self, row: &EventRow<'_>) -> Option<SortValue> {
        Some(SortValue::Text(row.event.end?.name().as_bytes().into()))
    }
}

/// Returns the name of an errno that sockets have.
pub(crate) fn errno_name(errno: i32) -> Option<&'static str> {
    Some(match errno {
        1 => "EPERM",
        12 => "ENOMEM",
        13 => "EACCES",
        22 => "EINVAL",
        32 => "EPIPE",
        64 => "ENONET",
        71 => "EPROTO",
        90 => "EMSGSIZE",
        92 => "ENOPROTOOPT",
        95 => "EOPNOTSUPP",
        97 => "EAFNOSUPPORT",
        98 => "EADDRINUSE",
        99 => "EADDRNOTAVAIL",
        100 => "ENETDOWN",
        101 => "ENETUNREACH",
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        105 => "ENOBUFS",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        112 => "EHOSTDOWN",
        113 => "EHOSTUNREACH",
        _ => return None,
    })
}
