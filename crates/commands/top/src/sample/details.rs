//! All that is known of one connection.

use crate::state::sample::Details;
use crate::state::table::SocketId;
use sockeye_model::{Endpoint, InterfaceIndex, Names, PathQuery, Route, SendPath, Socket};
use sockeye_output::listing::{Column, find_column};
use sockeye_output::socket::{SocketRow, Sockets};

/// Gathers the details of a socket.
pub(super) fn of(socket: SocketId, row: &SocketRow<'_>, limit: Box<str>) -> Details {
    let text = |column: &Column<Sockets>| {
        let mut text = Vec::new();
        column.push_cell(&mut text, row);
        let text = String::from_utf8_lossy(&text).into_owned();
        // A number alone does not say what it is.
        if text.starts_with(|first: char| first.is_ascii_digit()) && HEADED.contains(&column.name) {
            format!("{} {text}", column.heading)
        } else {
            text
        }
    };
    let facts = FACTS.iter().filter_map(|(label, names)| {
        let texts = names.iter().filter_map(|name| find_column(name).ok()).map(text);
        let known: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        (!known.is_empty()).then(|| (*label, known.join("  ").into_boxed_str()))
    });
    let mut numbers = Vec::new();
    if let Some(info) = &row.entry.socket.tcp_info {
        info.visit(|name, value| numbers.push((name, value)));
        // What changes most, and says most, comes first.
        numbers.sort_by_key(|(name, _)| {
            FIRST
                .iter()
                .position(|first| first == name)
                .unwrap_or(FIRST.len())
        });
    }
    Details {
        socket,
        facts: facts.collect(),
        limit,
        numbers,
    }
}

/// Adds how the host sends to the peer now.
pub(super) fn add_route(details: &mut Details, path: &SendPath, names: &dyn Names) {
    let name = |index: InterfaceIndex| {
        names
            .interface(index, path.query.netns)
            .map_or_else(|| index.0.to_string(), str::to_owned)
    };
    let text = match path.route {
        Route::Unknown => return,
        Route::Refused(errno) => format!("none: {}", std::io::Error::from_raw_os_error(errno)),
        Route::Via { device, gateway } => {
            let gateway = gateway.map_or_else(String::new, |gateway| format!("via {gateway} "));
            format!("{gateway}dev {}", name(device))
        }
    };
    details.facts.push(("route", text.into()));
}

/// Returns the question for the way to the peer of a connection; `None` if it has no peer.
pub(super) fn path_query(socket: &Socket) -> Option<PathQuery> {
    let port = |endpoint: &Endpoint| endpoint.port().map_or(0, |port| port.0);
    Some(PathQuery {
        netns: socket.netns,
        from: socket.local.ip()?.to_canonical(),
        to: socket
            .peer
            .ip()
            .filter(|peer| !peer.is_unspecified())?
            .to_canonical(),
        mark: socket.mark.unwrap_or(0),
        uid: socket.uid,
        interface: socket.interface,
        ports: [port(&socket.local), port(&socket.peer)],
    })
}

/// Labels, and the columns behind them.
const FACTS: &[(&str, &[&str])] = &[
    ("connection", &["netid", "state", "local", "peer"]),
    ("owner", &["owners", "user"]),
    ("namespace", &["netns"]),
    ("device", &["interface"]),
    ("queues", &["recv_queue_bytes", "send_queue_bytes"]),
    ("timer", &["timer"]),
    ("memory", &["memory"]),
    ("congestion", &["congestion", "congestion_info"]),
    ("options", &["socket_options"]),
    ("cgroup", &["cgroup"]),
];

/// Columns whose numbers have their heading before them: `Recv-Q 0`.
const HEADED: &[&str] = &["user", "recv_queue_bytes", "send_queue_bytes"];

/// The fields of tcp_info that are shown first.
const FIRST: &[&str] = &[
    "rtt_us",
    "rttvar_us",
    "min_rtt_us",
    "snd_cwnd_segs",
    "snd_ssthresh_segs",
    "unacked_segs",
    "lost_segs",
    "retrans_segs",
    "total_retrans_segs",
    "delivery_rate_bytes_per_s",
    "pacing_rate_bytes_per_s",
    "bytes_acked",
    "bytes_received",
    "notsent_bytes",
    "snd_wnd_bytes",
    "rcv_space_bytes",
    "busy_time_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
    "rto_us",
];

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{BridgePort, Cookie, NoNames, Port, Protocol, State};

    fn connection() -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(443));
        socket.peer = Endpoint::inet("::ffff:10.9.0.7".parse().unwrap(), Port(51234));
        socket
    }

    #[test]
    fn way_is_asked_for_connections_only() {
        let query = path_query(&connection()).unwrap();
        assert_eq!(
            (query.to.to_string().as_str(), query.ports),
            ("10.9.0.7", [443, 51234])
        );
        let mut listener = connection();
        listener.peer = Endpoint::inet([0, 0, 0, 0].into(), Port(0));
        assert_eq!(path_query(&listener), None);
    }

    #[test]
    fn route_is_in_words() {
        let check = |route, expected: &[&str]| {
            let mut details = Details {
                socket: SocketId {
                    netns: None,
                    cookie: Cookie(1),
                },
                facts: Vec::new(),
                limit: "".into(),
                numbers: Vec::new(),
            };
            let path = SendPath {
                query: path_query(&connection()).unwrap(),
                route,
                next_hop: None,
                bridge_port: BridgePort::Unknown,
            };
            add_route(&mut details, &path, &NoNames);
            let texts: Vec<&str> = details.facts.iter().map(|(_, text)| &**text).collect();
            assert_eq!(texts, expected);
        };
        let via = |gateway| Route::Via {
            device: InterfaceIndex(2),
            gateway,
        };
        check(via(None), &["dev 2"]);
        check(via(Some([10, 0, 0, 254].into())), &["via 10.0.0.254 dev 2"]);
        check(
            Route::Refused(101),
            &["none: Network is unreachable (os error 101)"],
        );
        check(Route::Unknown, &[]);
    }
}
