//! `sockeye sockets` shows exactly what was made, by every source, and what `ss` shows of it.

use crate::fixtures::live::{
    self, Fields, attempt, check, check_owner, check_unix_name, endpoint, exchange, is_row_of, linked,
    row_of, sockets, ss,
};
use serde_json::Value;
use sockeye_lab::{
    Family, Lab, LabSocket, Link, Namespace, NetPath, Pair, Protocol, Skip, SocketOptions, State,
};
use sockeye_lab::{Timer, UnixKind, UnixName, congestion_control, need, output_of, program, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// TCP sockets in every state over every kind of path, with what keeps them alive.
struct SocketSet {
    _lab: Lab,
    namespaces: [Namespace; 2],
    link: Link,
    lab_sockets: Vec<LabSocket>,
}

impl SocketSet {
    fn new(purpose: &str) -> Result<Self, Skip> {
        let (lab, client, server, link) = linked(purpose)?;
        let mut socket_set = Self {
            _lab: lab,
            namespaces: [client, server],
            link,
            lab_sockets: Vec::new(),
        };
        socket_set.listeners();
        socket_set.net_paths();
        Ok(socket_set)
    }

    fn listeners(&mut self) {
        let [client, _] = &self.namespaces;
        let (plain, v6_only) = (SocketOptions::new(), SocketOptions::new().v6_only(true));
        let (own, own6) = self.link.client_addresses();
        for (local, options) in [
            ("0.0.0.0:8001", &plain),
            ("[::]:8002", &plain),
            ("[::]:8003", &v6_only),
            (&format!("{own}:8004"), &plain),
            (&format!("[{own6}]:8005"), &plain),
            ("127.0.0.1:8006", &SocketOptions::new().backlog(5)),
            ("[::ffff:127.0.0.1]:8007", &plain),
        ] {
            self.lab_sockets.push(client.tcp_listener(local, options));
        }
    }

    fn net_paths(&mut self) {
        let [client, _] = self.namespaces.clone();
        let link = self.link.clone();
        type MakePath = fn(&Link) -> NetPath;
        let over_link: [MakePath; 4] = [
            Link::net_path,
            Link::net_path6,
            Link::net_path_mapped,
            Link::net_path_link_local,
        ];
        for net_path in [client.loopback(), client.loopback6(), client.loopback_mapped()] {
            self.uncut(&net_path);
        }
        for make in over_link {
            self.uncut(&make(&link));
            // These cut their path.
            self.lab_sockets.push(make(&link).syn_sent());
            self.pair(make(&link).syn_recv());
            self.pair(make(&link).fin_wait1());
            self.pair(make(&link).closing());
            self.pair(make(&link).last_ack());
            self.pair(make(&link).retransmitting(777));
        }
    }

    fn uncut(&mut self, net_path: &NetPath) {
        self.pair(net_path.established());
        self.lab_sockets.push(net_path.time_wait());
        self.pair(net_path.half_closed());
        self.pair(net_path.orphaned());
        self.pair(net_path.unread(1234));
        self.pair(net_path.zero_window());
        self.pair(net_path.keepalive(Duration::from_secs(3600)));
        let full = net_path.full_accept_queue(1);
        self.lab_sockets.extend(full.queued);
        self.lab_sockets.extend(full.unaccepted);
        self.lab_sockets.extend([full.listener, full.left_out]);
    }

    fn pair(&mut self, pair: Pair) {
        self.lab_sockets.extend([pair.client, pair.server]);
        self.lab_sockets.extend(pair.listener);
    }

    fn of<'a>(&'a self, namespace: &Namespace) -> impl Iterator<Item = &'a LabSocket> {
        let inode = namespace.inode();
        self.lab_sockets
            .iter()
            .filter(move |lab_socket| lab_socket.namespace.inode() == inode)
    }
}

#[test]
fn every_source_lists_every_tcp_state() {
    let socket_set = need!(SocketSet::new("socket_set"));
    for namespace in &socket_set.namespaces {
        let made: Vec<&LabSocket> = socket_set.of(namespace).collect();
        let mut by_netlink = Vec::new();
        for (source, fields) in [
            ("auto", Fields::All),
            ("diag", Fields::All),
            ("diag-v2", Fields::All),
            ("procfs", Fields::Procfs),
        ] {
            let flags = ["-t", "-a", "-e", "-o", "-m", "-i", "-p", "--source", source];
            let mut rows = sockets(namespace, &flags);
            // While the kernel handles a timer that is over, the socket has none.
            for _ in 0..5 {
                let mut sends_again = made.iter().filter(|lab_socket| lab_socket.timer == Timer::On);
                if sends_again.all(|lab_socket| row_of(&rows, lab_socket)["timer"].is_object()) {
                    break;
                }
                rows = sockets(namespace, &flags);
            }
            for lab_socket in &made {
                let row = check(&rows, lab_socket, fields);
                check_interface(row, lab_socket, fields);
                check_tcp_detail(row, lab_socket, fields);
            }
            // And nothing that was not made, nothing twice.
            assert_eq!(rows.len(), made.len(), "{source} in {}", namespace.label());
            if fields == Fields::All {
                for lab_socket in made.iter().filter(|lab_socket| is_quiet(lab_socket)) {
                    let row = without_clocks(row_of(&rows, lab_socket));
                    if !by_netlink.is_empty() {
                        assert_eq!(row, without_clocks(row_of(&by_netlink, lab_socket)), "{source}");
                    }
                }
                by_netlink = rows;
                continue;
            }
            for lab_socket in made.iter().filter(|lab_socket| is_quiet(lab_socket)) {
                compare_procfs_info(row_of(&rows, lab_socket), row_of(&by_netlink, lab_socket));
            }
        }
    }
}

/// Whether nothing but its clocks changes of itself; who does not read may be probed.
fn is_quiet(lab_socket: &LabSocket) -> bool {
    lab_socket.state == State::Established
        && lab_socket.recv_queue == 0
        && matches!(lab_socket.timer, Timer::Off | Timer::Keepalive)
}

/// The row without the numbers that change with time alone.
fn without_clocks(row: &Value) -> Value {
    let mut row = row.clone();
    for name in ["last_data_sent_ms", "last_data_recv_ms", "last_ack_recv_ms"] {
        assert!(row["tcp_info"][name].take().is_u64(), "{row}");
    }
    if row["timer"].is_object() {
        row["timer"]["expires_ms"].take();
    }
    // As in `check_owner`: children of other tests come and go.
    row["owners"].take();
    row
}

/// `/proc/net/tcp` has a few fields of tcp_info, with the values of netlink.
#[track_caller]
fn compare_procfs_info(row: &Value, by_netlink: &Value) {
    let (info, full) = (&row["tcp_info"], &by_netlink["tcp_info"]);
    for (name, value) in info.as_object().unwrap() {
        let [ours, theirs] = [value, &full[name]].map(|value| value.as_u64().unwrap());
        // Its times are in hundredths of a second.
        let tolerance = if name.ends_with("_us") { 10_000 } else { 0 };
        assert!(ours.abs_diff(theirs) <= tolerance, "{name}: {row}\n{by_netlink}");
    }
    for name in ["rto_us", "snd_cwnd_segs"] {
        assert!(info[name].is_u64(), "{name}: {row}");
    }
}

/// A link-local socket is bound to its device, since its address has a scope.
#[track_caller]
fn check_interface(row: &Value, lab_socket: &LabSocket, fields: Fields) {
    let scope = match lab_socket.local {
        Some(std::net::SocketAddr::V6(local)) => local.scope_id(),
        _ => 0,
    };
    let shown = &row["interface_index"];
    if scope == 0 || fields == Fields::Procfs {
        assert_eq!(*shown, Value::Null, "{row}\nis not {lab_socket:?}");
    } else {
        assert_eq!(*shown, scope, "{row}\nis not {lab_socket:?}");
        assert!(row["interface"].as_str().unwrap().starts_with("veth"), "{row}");
    }
}

/// Fields that only netlink has, and only of some sockets.
#[track_caller]
fn check_tcp_detail(row: &Value, lab_socket: &LabSocket, fields: Fields) {
    let is_whole =
        !matches!(lab_socket.state, State::TimeWait | State::SynRecv) && lab_socket.timer != Timer::TimeWait;
    for key in ["tcp_info", "memory", "congestion"] {
        // The five numbers of it that /proc/net/tcp has make a tcp_info, too.
        let expected =
            is_whole && (fields == Fields::All || (key == "tcp_info" && lab_socket.state != State::Listen));
        assert_eq!(!row[key].is_null(), expected, "{key} in {row}\nof {lab_socket:?}");
    }
    if fields == Fields::Procfs {
        for key in ["mark", "cgroup_id", "shutdown", "options", "v6only", "class_id"] {
            assert_eq!(row[key], Value::Null, "{key} in {row}");
        }
        return;
    }
    let shutdown = |receive: bool, send: bool| serde_json::json!({"receive": receive, "send": send});
    match lab_socket.state {
        // Neither end closed, or the FIN of the other end shut down receiving.
        State::Established => assert_eq!(row["shutdown"], shutdown(false, false), "{row}"),
        State::CloseWait => assert_eq!(row["shutdown"], shutdown(true, false), "{row}"),
        State::FinWait1 => assert_eq!(row["shutdown"], shutdown(false, true), "{row}"),
        State::Closing | State::LastAck => assert_eq!(row["shutdown"], shutdown(true, true), "{row}"),
        State::Listen if lab_socket.family == Family::Inet6 => {
            let ip = lab_socket.local.unwrap().ip();
            // Bound to an address of IPv6, a socket takes nothing of IPv4 either (inet6_bind).
            let is_v6_only =
                lab_socket.port() == 8003 || !(ip.is_unspecified() || ip.to_canonical().is_ipv4());
            assert_eq!(row["v6only"], is_v6_only, "{row}");
        }
        _ => {}
    }
    if lab_socket.timer == Timer::Keepalive {
        let expires_ms = row["timer"]["expires_ms"].as_u64().unwrap();
        assert!((3_500_000..=3_600_000).contains(&expires_ms), "{row}");
    }
    if lab_socket.timer == Timer::On && lab_socket.send_queue == 777 {
        let ever = row["tcp_info"]["total_retrans_segs"].as_u64().unwrap();
        assert!(
            ever > 0 && row["timer"]["retransmits"].as_u64() > Some(0),
            "{row}"
        );
        assert_eq!(
            row["tcp_info"]["bytes_acked"].as_u64(),
            Some(1),
            "its SYN alone: {row}"
        );
    }
}

#[test]
fn tcp_fields_are_those_of_ss() {
    let socket_set = need!(SocketSet::new("ss"));
    for namespace in &socket_set.namespaces {
        let cookies = |lines: Vec<ss::Line>| -> BTreeMap<u64, ss::Line> {
            lines.into_iter().map(|line| (line.cookie(), line)).collect()
        };
        let mut left: BTreeSet<u64> = cookies(ss::lines(namespace, "-taneoim", &[]))
            .into_keys()
            .collect();
        assert_eq!(left.len(), socket_set.of(namespace).count());
        // A socket that changes between two looks of ss is looked at again.
        wait_for("quiet sockets", || {
            let before = cookies(ss::lines(namespace, "-taneoim", &[]));
            let rows = sockets(namespace, &["-taneoim"]);
            let after = cookies(ss::lines(namespace, "-taneoim", &[]));
            assert_eq!(before.len(), rows.len());
            for row in &rows {
                let cookie = row["cookie"].as_u64().unwrap();
                let (Some(before), Some(after)) = (before.get(&cookie), after.get(&cookie)) else {
                    continue;
                };
                if left.contains(&cookie) && ss::compare(before, row, after).is_some() {
                    ss::compare_clocks(before, row, after);
                    left.remove(&cookie);
                }
            }
            left.is_empty().then_some(())
        });
    }
}

/// Data in both directions, so that no counter that ss prints is left at nothing.
#[test]
fn tcp_counters_are_those_of_ss_and_of_the_data_sent() {
    let (_lab, client, _server, link) = need!(linked("counters"));
    for net_path in [client.loopback(), link.net_path6(), link.net_path_mapped()] {
        let pair = net_path.established();
        exchange(&pair.client, &pair.server, 100_000);
        exchange(&pair.server, &pair.client, 30_000);
        wait_for("quiet ends", || {
            pair.lab_sockets()
                .take(2)
                .all(|end| is_as_sent(end, &pair))
                .then_some(())
        });
    }
}

fn is_as_sent(end: &LabSocket, pair: &Pair) -> bool {
    // The port alone may be that of a socket at another address, too.
    let (own, other) = (
        format!(":{}", end.port()),
        format!(":{}", end.peer.unwrap().port()),
    );
    let filter = [
        "exclude",
        "listening",
        "sport",
        "=",
        &own,
        "and",
        "dport",
        "=",
        &other,
    ];
    let before = ss::lines(&end.namespace, "-taneoim", &filter);
    let rows = sockets(&end.namespace, &[&["-taneoim"], &filter[..]].concat());
    let after = ss::lines(&end.namespace, "-taneoim", &filter);
    let ([before], [after]) = (&before[..], &after[..]) else {
        panic!("{before:?} {after:?}");
    };
    let row = row_of(&rows, end);
    let info = &row["tcp_info"];
    let (sent, received) = if end.inode == pair.client.inode {
        (100_000, 30_000)
    } else {
        (30_000, 100_000)
    };
    // ACKs may be on their way. The SYN of the active side counts as a byte.
    let acked = info["bytes_acked"].as_u64().unwrap();
    if ss::compare(before, row, after).is_none() || !(sent..=sent + 1).contains(&acked) {
        return false;
    }
    assert_eq!(info["bytes_received"], received, "{row}");
    assert_eq!(
        info["bytes_sent"].as_u64().unwrap() - info["bytes_retrans"].as_u64().unwrap(),
        sent,
        "{row}"
    );
    assert!(
        info["rtt_us"].as_u64() > Some(0) && info["min_rtt_us"].as_u64() > Some(0),
        "{row}"
    );
    true
}

#[test]
fn socket_options_are_listed() {
    let (_lab, client, _server, link) = need!(linked("options"));
    let device = link.devices().0;
    let marked = client
        .loopback()
        .with_client(SocketOptions::new().mark(0x1234))
        .established();
    let tied = client.tcp_listener("0.0.0.0:8100", &SocketOptions::new().device(device));
    let twice = SocketOptions::new().reuse_port();
    let shared = [
        client.tcp_listener("0.0.0.0:8101", &twice),
        client.tcp_listener("0.0.0.0:8101", &twice),
    ];

    let rows = sockets(&client, &["-tae"]);
    assert_eq!(check(&rows, &marked.client, Fields::All)["mark"], 0x1234);
    assert_eq!(check(&rows, &marked.server, Fields::All)["mark"], 0);
    let row = check(&rows, &tied, Fields::All);
    assert_eq!(
        (
            row["interface"].as_str(),
            &endpoint(&row["local"]).to_string()[..]
        ),
        (Some(device), "0.0.0.0:8100")
    );
    let inodes: BTreeSet<u64> = rows
        .iter()
        .filter(|row| is_row_of(row, &shared[0]))
        .filter_map(|row| row["inode"].as_u64())
        .collect();
    assert_eq!(inodes, shared.iter().map(|listener| listener.inode).collect());

    for name in ["cubic", "reno", "bbr"] {
        if let Err(skip) = congestion_control(name) {
            skip.print();
            continue;
        }
        let net_path = client
            .loopback()
            .with_client(SocketOptions::new().congestion(name));
        let pair = net_path.established();
        exchange(&pair.client, &pair.server, 50_000);
        for source in ["diag", "diag-v2"] {
            let rows = sockets(&client, &["-tai", "--source", source]);
            let row = row_of(&rows, &pair.client);
            assert_eq!(row["congestion"], name, "{row}");
            assert_eq!(row["congestion_info"].is_object(), name == "bbr", "{row}");
            if name == "bbr" {
                assert_eq!(row["congestion_info"]["algorithm"], "bbr", "{row}");
                // bbr:(bw:..,mrtt:..,...)
                let filter = ["sport", "=", &format!(":{}", pair.client.port())];
                let outcome = ss::lines(&client, "-tain", &filter);
                assert!(outcome[0].word("bbr").is_some(), "{outcome:?}");
            }
        }
    }
}

/// They were lost before: the kernel reports them as closed, which is not the requested state.
#[test]
fn bound_sockets_without_connection_are_listed() {
    let (_lab, client, _server, _link) = need!(linked("idle"));
    let idle = client.tcp_bound("127.0.0.1:8200", &SocketOptions::new());
    // As in ss, they are listed when asked for by name only.
    assert_eq!(sockets(&client, &["-ta"]), [] as [Value; 0]);
    for source in ["auto", "diag-v2"] {
        let rows = sockets(&client, &["-tap", "--source", source, "state", "bound-inactive"]);
        if rows.is_empty() && !kernel_is(6, 8) {
            Skip::new("this kernel does not list bound and idle TCP sockets (Linux 6.8)").print();
            return;
        }
        let row = row_of(&rows, &idle);
        assert_eq!(row["state"], "bound", "{row}");
        assert_eq!(row["inode"], idle.inode, "{row}");
        check_owner(row["owners"].as_array().unwrap(), &idle, &row.to_string());
        assert_eq!(rows.len(), 1);
    }
    let _listener = client.tcp_listener("127.0.0.1:8201", &SocketOptions::new());
    let rows = sockets(&client, &["-t", "state", "all"]);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(
        sockets(&client, &["-t", "state", "unconnected"]),
        [] as [Value; 0]
    );
}

/// Whether the kernel's release is at least this.
fn kernel_is(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next()) >= (major, minor)
}

#[test]
fn every_source_lists_udp_and_udp_lite() {
    let (_lab, client, _server, link) = need!(linked("udp"));
    let plain = SocketOptions::new();
    let device = link.devices().0;
    let mut made = vec![
        client.udp_bound("0.0.0.0:5001", &plain),
        client.udp_bound("[::]:5002", &plain),
        client.udp_bound("[::]:5003", &SocketOptions::new().v6_only(true)),
        client.udp_bound("[::1]:5004", &plain),
        client.udp_bound("127.0.0.1:5005", &SocketOptions::new().device("lo").mark(9)),
    ];
    for net_path in [client.loopback(), client.loopback6(), client.loopback_mapped()] {
        let pair = net_path.udp_connected();
        made.extend([pair.client, pair.server]);
    }
    let far = link.net_path_link_local().udp_connected();
    let waiting = client.loopback().udp_connected();
    waiting.client.socket().send(b"hello").unwrap();
    wait_for("the datagram", || {
        let rows = sockets(&client, &["-ua"]);
        (row_of(&rows, &waiting.server)["recv_queue_bytes"].as_u64() > Some(0)).then_some(())
    });

    for (source, fields) in [
        ("auto", Fields::All),
        ("diag", Fields::All),
        ("procfs", Fields::Procfs),
    ] {
        let rows = sockets(&client, &["-uaemop", "--source", source]);
        for lab_socket in &made {
            let row = check(&rows, lab_socket, fields);
            assert_eq!(row["tcp_info"], Value::Null);
            if fields == Fields::All {
                let of_lo = lab_socket.port() == 5005;
                assert_eq!(row["mark"], if of_lo { 9 } else { 0 }, "{row}");
                assert_eq!(
                    row["interface"],
                    if of_lo { "lo".into() } else { Value::Null },
                    "{row}"
                );
                assert!(row["memory"]["rcvbuf_bytes"].as_u64() > Some(0), "{row}");
            }
        }
        let row = check(&rows, &far.client, fields);
        let shown = if fields == Fields::All {
            device.into()
        } else {
            Value::Null
        };
        assert_eq!(row["interface"], shown, "{row}");
        // The kernel counts what a datagram takes of the buffer, not its five bytes.
        let row = row_of(&rows, &waiting.server);
        assert!(row["recv_queue_bytes"].as_u64() > Some(5), "{row}");
        assert_eq!(rows.len(), made.len() + 3, "{source}");
    }
    compare_quiet(&client, "-uaneom");
    // Connected ones are what is listed without -a.
    let rows = sockets(&client, &["-u"]);
    assert!(rows.iter().all(|row| row["state"] == "established"), "{rows:?}");
    assert_eq!(rows.len(), 9);

    let lite = need!(client.udp_lite_bound("127.0.0.1:5100", &plain));
    let lite6 = need!(client.udp_lite_bound("[::1]:5100", &plain));
    for (source, fields) in [("auto", Fields::All), ("procfs", Fields::Procfs)] {
        let rows = sockets(&client, &["-A", "udplite", "-aep", "--source", source]);
        check(&rows, &lite, fields);
        check(&rows, &lite6, fields);
        assert_eq!(rows.len(), 2);
    }
}

/// Every socket as ss shows it, for protocols whose sockets stay as they are.
#[track_caller]
fn compare_quiet(namespace: &Namespace, flags: &str) {
    let lines = ss::lines(namespace, flags, &[]);
    let rows = sockets(namespace, &[flags]);
    assert_eq!(lines.len(), rows.len());
    for line in &lines {
        let row = rows.iter().find(|row| row["cookie"] == line.cookie());
        let row = row.unwrap_or_else(|| panic!("{} is not among {rows:#?}", line.text));
        assert_eq!(ss::compare(line, row, line), Some(()));
    }
}

#[test]
fn raw_packet_and_netlink_sockets_are_listed() {
    let (_lab, client, _server, _link) = need!(linked("raw"));
    let raw = [client.raw(1, false), client.raw(58, true)];
    let packet = [client.packet(3), client.packet(0x0800)];
    let netlink = [client.netlink(0), client.netlink(4)];
    for source in ["auto", "procfs"] {
        // Whether netlink lists RAW sockets depends on the kernel (CONFIG_INET_RAW_DIAG).
        let rows = sockets(&client, &["-waep", "--source", source]);
        for lab_socket in &raw {
            let row = check(
                &rows,
                lab_socket,
                if row_has_cookie(&rows) {
                    Fields::All
                } else {
                    Fields::Procfs
                },
            );
            let Protocol::Raw(number) = lab_socket.protocol else {
                unreachable!()
            };
            // The port of a RAW socket is its protocol.
            assert_eq!(row["local"]["port"], number, "{row}");
        }
        assert_eq!(rows.len(), 2);

        let fields = if source == "auto" {
            Fields::All
        } else {
            Fields::Procfs
        };
        let rows = sockets(&client, &["-0aep", "--source", source]);
        for lab_socket in &packet {
            let row = row_of(&rows, lab_socket);
            let Protocol::Packet(ethertype) = lab_socket.protocol else {
                unreachable!()
            };
            assert_eq!(row["local"]["ethertype"], ethertype, "{row}");
            assert_eq!(
                (&row["uid"], &row["family"]),
                (&lab_socket.uid.into(), &"packet".into()),
                "{row}"
            );
            check_owner(row["owners"].as_array().unwrap(), lab_socket, &row.to_string());
            if fields == Fields::All {
                assert_eq!(row["cookie"], lab_socket.cookie.unwrap(), "{row}");
            }
        }
        assert_eq!(rows.len(), 2);

        let rows = sockets(&client, &["-A", "netlink", "-aep", "--source", source]);
        for lab_socket in &netlink {
            let row = row_of(&rows, lab_socket);
            let Protocol::Netlink(family) = lab_socket.protocol else {
                unreachable!()
            };
            assert_eq!(row["local"]["netlink_protocol"], family, "{row}");
            assert_eq!(
                row["local"]["port_id"],
                lab_socket.netlink_port().unwrap(),
                "{row}"
            );
            check_owner(row["owners"].as_array().unwrap(), lab_socket, &row.to_string());
        }
    }
    let outcome = client.output("ss", &["-H0ane"]);
    for lab_socket in &packet {
        assert!(
            outcome.contains(&format!("ino:{} ", lab_socket.inode)),
            "{outcome}"
        );
    }
}

fn row_has_cookie(rows: &[Value]) -> bool {
    rows.iter().all(|row| row["cookie"].is_u64())
}

#[test]
fn unix_sockets_are_listed_with_their_peers() {
    let (lab, client, server, _link) = need!(linked("unix"));
    let mut made = Vec::new();
    let odd: &[u8] = b"a\nb\x1b[31m\xffc d";
    for kind in [UnixKind::Stream, UnixKind::Datagram, UnixKind::Seqpacket] {
        made.push(client.unix_connected(kind, &lab.unix_path(format!("{kind:?}"))));
        made.push(client.unix_connected(kind, &lab.unix_abstract(format!("{kind:?}"))));
        made.push(client.unix_connected(
            kind,
            &lab.unix_path([odd, format!("{kind:?}").as_bytes()].concat()),
        ));
        made.push(client.unix_connected(
            kind,
            &lab.unix_abstract([b"nul\0inside", odd, format!("{kind:?}").as_bytes()].concat()),
        ));
        made.push(client.unix_pair(kind));
    }
    let elsewhere = server.unix_bound(UnixKind::Stream, &lab.unix_abstract("elsewhere"));
    let unread = client.unix_pair(UnixKind::Stream);
    unread.client.socket().send(b"twelve bytes").unwrap();

    let all: Vec<&LabSocket> = made.iter().flat_map(Pair::lab_sockets).collect();
    for (source, fields) in [("auto", Fields::All), ("procfs", Fields::Procfs)] {
        // Of /proc/net/unix, whose lines newlines in names break, the broken ones are counted.
        let (rows, rest) = live::document(&client, "sockets", &["-xaemp", "--source", source]);
        let broken = made
            .iter()
            .flat_map(Pair::lab_sockets)
            .filter(|lab_socket| has_newline(lab_socket))
            .count();
        let broken = if fields == Fields::Procfs { broken } else { 0 };
        assert_eq!(rest["losses"]["broken_records"], broken, "{source}");
        assert_eq!(rows.len(), all.len() + 2, "{source}");
        assert!(!rows.iter().any(|row| is_row_of(row, &elsewhere)));
        for lab_socket in &all {
            check_unix(row_of(&rows, lab_socket), lab_socket, fields);
        }
        let row = row_of(&rows, &unread.server);
        if fields == Fields::All {
            assert_eq!(row["recv_queue_bytes"], 12, "{row}");
        }
    }
    // The same inodes, types and peers as ss says: Netid State Recv-Q Send-Q Name Inode PeerName PeerInode
    let rows = sockets(&client, &["-xa"]);
    let outcome = client.output("ss", &["-Hxan"]);
    for lab_socket in made
        .iter()
        .filter(|pair| is_plain(pair))
        .flat_map(Pair::lab_sockets)
    {
        let row = row_of(&rows, lab_socket);
        let inode = lab_socket.inode.to_string();
        let words = outcome
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let words = words
            .into_iter()
            .find(|words| words.get(5) == Some(&&inode[..]))
            .unwrap();
        assert_eq!(row["netid"], words[0]);
        assert_eq!(row["state"], ss::state_of_word(words[1]));
        assert_eq!(
            row["peer"]["inode"].as_u64().unwrap_or(0).to_string(),
            words[7],
            "{row}"
        );
    }
}

fn has_newline(lab_socket: &LabSocket) -> bool {
    match lab_socket.name.as_ref().unwrap() {
        UnixName::Unnamed => false,
        UnixName::Path(path) => path.as_os_str().as_bytes().contains(&b'\n'),
        UnixName::Abstract(name) => name.contains(&b'\n'),
    }
}

/// Whether its name leaves ss's columns in their places.
fn is_plain(pair: &Pair) -> bool {
    pair.lab_sockets()
        .all(|lab_socket| match lab_socket.name.as_ref().unwrap() {
            UnixName::Unnamed => true,
            UnixName::Path(path) => path.to_str().is_some_and(|path| !path.contains(['\n', ' '])),
            UnixName::Abstract(name) => name.iter().all(u8::is_ascii_graphic),
        })
}

#[track_caller]
fn check_unix(row: &Value, lab_socket: &LabSocket, fields: Fields) {
    assert_eq!(row["state"], live::state_name(lab_socket.state), "{row}");
    check_owner(row["owners"].as_array().unwrap(), lab_socket, &row.to_string());
    if fields == Fields::Procfs {
        // /proc/net/unix knows neither users nor peers, shows NUL as '@' and ends a line at a newline.
        let local = &row["local"];
        let name = match lab_socket.name.as_ref().unwrap() {
            UnixName::Unnamed => return assert_eq!(local["name"], Value::Null, "{row}"),
            UnixName::Path(path) => path.as_os_str().as_bytes(),
            UnixName::Abstract(name) => name,
        };
        let until_odd = name.split(|byte| !byte.is_ascii_graphic()).next().unwrap();
        let until_odd = std::str::from_utf8(until_odd).unwrap();
        let shown = local["name"]
            .as_str()
            .unwrap_or_else(|| panic!("{row} is not {lab_socket:?}"));
        assert!(shown.starts_with(until_odd), "{row} is not {lab_socket:?}");
        assert!(
            until_odd.len() < name.len() || shown == until_odd,
            "{row} is not {lab_socket:?}"
        );
        return;
    }
    check_unix_name(row, lab_socket);
    assert_eq!(row["cookie"], lab_socket.cookie.unwrap(), "{row}");
    assert_eq!(row["uid"], lab_socket.uid, "{row}");
    if lab_socket.state == State::Listen {
        assert_eq!(
            (&row["accept_queue"], &row["accept_backlog"]),
            (&0.into(), &128.into()),
            "{row}"
        );
    }
    assert!(row["memory"]["rcvbuf_bytes"].as_u64() > Some(0), "{row}");
}

#[test]
fn mptcp_connections_are_listed() {
    let (_lab, client, _server, link) = need!(linked("mptcp"));
    for net_path in [client.loopback(), link.net_path(), link.net_path6()] {
        let pair = need!(net_path.mptcp());
        for end in pair.lab_sockets() {
            let rows = sockets(&end.namespace, &["-Maeip"]);
            let row = row_of(&rows, end);
            assert_eq!(row["state"], live::state_name(end.state), "{row}");
            assert_eq!(row["inode"], end.inode, "{row}");
            check_owner(row["owners"].as_array().unwrap(), end, &row.to_string());
            if end.state == State::Established {
                assert!(row["mptcp_info"].is_object(), "{row}");
            }
        }
        let rows = sockets(&client, &["-ti"]);
        let subflow = rows
            .iter()
            .find(|row| endpoint(&row["local"]) == live::without_scope(pair.client.local.unwrap()));
        assert_eq!(subflow.unwrap()["ulp"], "mptcp", "{rows:?}");
    }
}

#[test]
fn owners_of_every_kind_are_listed() {
    let (lab, client, _server, _link) = need!(linked("owners"));
    let shared = client.tcp_listener("127.0.0.1:8300", &SocketOptions::new());
    let name = lab.unix_abstract("held");
    let unprivileged = lab
        .process("no\nbody\x1b[1m")
        .in_namespace(&client)
        .user(65534, 65534)
        .tcp_pair("127.0.0.1:0")
        .udp_bind("127.0.0.1:0")
        .unix_listen(&name)
        .start();
    let sharer = lab
        .process("sharer")
        .in_namespace(&client)
        .own_group()
        .sharing(&shared)
        .start();

    let rows = sockets(&client, &["-tuxap"]);
    for lab_socket in unprivileged.sockets() {
        let row = if lab_socket.protocol == Protocol::UnixStream {
            row_of(&rows, lab_socket)
        } else {
            check(&rows, lab_socket, Fields::All)
        };
        let owners = row["owners"].as_array().unwrap();
        assert_eq!(owners.len(), 1, "{row}");
        assert_eq!(owners[0]["comm"], "no\nbody\u{1b}[1m", "{row}");
        assert_eq!(
            (&row["uid"], &owners[0]["pid"]),
            (&65534.into(), &unprivileged.pid().into()),
            "{row}"
        );
    }
    let row = check(&rows, &shared, Fields::All);
    let theirs = row["owners"]
        .as_array()
        .unwrap()
        .iter()
        .find(|owner| owner["pid"] == sharer.pid())
        .unwrap();
    // A shared descriptor is the holder's stderr.
    assert_eq!(
        (&theirs["fd"], &theirs["pgid"]),
        (&2.into(), &sharer.group().into()),
        "{row}"
    );

    // A table's rows are lines, whatever a process is called.
    let table = live::sockeye(&client, &["sockets", "-tnapH", "--source", "diag"]);
    assert_eq!(
        table.lines().count(),
        rows.iter().filter(|row| row["netid"] == "tcp").count(),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "{table:?}");
}

#[test]
fn namespaces_are_selected_by_name_pid_path_and_all() {
    let (lab, client, server, link) = need!(linked("netns"));
    let pair = link.net_path().established();
    let holder = lab
        .process("inside")
        .in_namespace(&server)
        .tcp_listen("0.0.0.0:8400")
        .start();
    let from_client = |netns: &str| sockets(&client, &["-tae", "--netns", netns]);
    let path = server.path().to_str().unwrap();
    for netns in [server.name(), path, &holder.pid().to_string()] {
        let rows = from_client(netns);
        assert_eq!(rows.len(), 3, "{netns}: {rows:?}");
        let row = check(&rows, &pair.server, Fields::All);
        assert_eq!(row["netns_inode"], server.inode(), "{row}");
    }
    let rows = from_client("all");
    for (end, namespace) in [(&pair.client, &client), (&pair.server, &server)] {
        let row = rows.iter().find(|row| row["inode"] == end.inode).unwrap();
        assert_eq!(
            (&row["netns_inode"], &row["netns"]),
            (&namespace.inode().into(), &namespace.name().into())
        );
    }
    let failed = attempt(&client, &["sockets", "--netns", "no-such-namespace"]);
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert!(
        failed.status.code() == Some(1) && stderr.contains("no-such-namespace"),
        "{stderr}"
    );
}

#[test]
fn formats_columns_and_sort_order_agree() {
    let (_lab, client, _server, link) = need!(linked("formats"));
    let pairs = [
        client.loopback().unread(300),
        client.loopback6().unread(200),
        link.net_path().unread(100),
    ];
    let gone = client.loopback().time_wait();
    let rows = sockets(&client, &["-tain", "--sort", "inode"]);
    // A socket without a file comes last either way, or first: what matters is the order of the others.
    let inodes =
        |rows: &[Value]| -> Vec<u64> { rows.iter().filter_map(|row| row["inode"].as_u64()).collect() };
    let sorted = inodes(&rows);
    assert!(sorted.is_sorted() && sorted.len() + 1 == rows.len(), "{sorted:?}");
    assert!(rows.iter().any(|row| is_row_of(row, &gone)));
    let reversed: Vec<u64> = sorted.iter().rev().copied().collect();
    assert_eq!(inodes(&sockets(&client, &["-tan", "--sort", "-inode"])), reversed);
    let largest = sockets(&client, &["-tn", "--sort", "-recv_q"]);
    let queues: Vec<u64> = largest
        .iter()
        .map(|row| row["recv_queue_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(queues[..2], [300, 200]);
    assert!(pairs.iter().all(|pair| pair.client.timer == Timer::Off));

    let lines = live::sockeye(
        &client,
        &["sockets", "-tain", "--sort", "inode", "--format", "jsonl"],
    );
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lines: Vec<Value> = lines
        .into_iter()
        .filter(|line| line["summary"].is_null())
        .collect();
    assert_eq!(lines.len(), rows.len());
    let columns = ["--columns", "inode,cookie,snd_mss_bytes", "--sort", "inode"];
    let csv = live::sockeye(
        &client,
        &[&["sockets", "-tan", "--format", "csv"], &columns[..]].concat(),
    );
    let table = live::sockeye(&client, &[&["sockets", "-tanH"], &columns[..]].concat());
    let mut csv = csv.lines();
    assert_eq!(csv.next(), Some("time,host,inode,cookie,snd_mss_bytes"));
    let mut table = table.lines();
    for (row, line) in rows.iter().zip(&lines) {
        for key in ["inode", "cookie", "state", "local", "peer", "recv_queue_bytes"] {
            assert_eq!(row[key], line[key], "{key}");
        }
        let cell = |value: &Value| value.as_u64().map_or(String::new(), |number| number.to_string());
        let cells = [&row["inode"], &row["cookie"], &row["tcp_info"]["snd_mss_bytes"]].map(cell);
        assert_eq!(csv.next().unwrap().split(',').skip(2).collect::<Vec<_>>(), cells);
        let words: Vec<&str> = table.next().unwrap().split_whitespace().collect();
        if !cells.contains(&String::new()) {
            // For people: bytes with a unit, the cookie in hexadecimal as in ss.
            assert_eq!((words[0], words.len()), (&cells[0][..], 3), "{words:?}");
            assert!(words[2].ends_with('B'), "{words:?}");
            let cookie = u64::from_str_radix(words[1].strip_prefix("0x").unwrap(), 16).unwrap();
            assert_eq!(row["cookie"], cookie);
        }
    }
    assert_eq!((csv.next(), table.next()), (None, None));
}

#[test]
fn default_states_depend_on_the_flags() {
    let (_lab, client, _server, link) = need!(linked("defaults"));
    let pair = link.net_path().half_closed();
    let gone = link.net_path().time_wait();
    let half = link.net_path().syn_recv();
    let calling = link.net_path().syn_sent();
    let states = |namespace: &Namespace, flags: &str| -> BTreeSet<String> {
        let rows = sockets(namespace, &[flags]);
        rows.iter()
            .map(|row| row["state"].as_str().unwrap().to_owned())
            .collect()
    };
    let set = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    assert_eq!(gone.state, State::TimeWait);
    assert_eq!(calling.state, State::SynSent);
    assert_eq!(states(&client, "-t"), set(&["fin_wait_2", "syn_sent"]));
    assert_eq!(
        states(&client, "-ta"),
        set(&["fin_wait_2", "syn_sent", "time_wait"])
    );
    assert_eq!(states(&client, "-tl"), set(&[]));
    let server = &pair.server.namespace;
    assert_eq!(states(server, "-t"), set(&["close_wait"]));
    assert_eq!(states(server, "-tl"), set(&["listen"]));
    assert_eq!(states(server, "-ta"), set(&["close_wait", "listen", "syn_recv"]));
    assert_eq!(half.server.state, State::SynRecv);
}

/// An unprivileged user sees all addresses, the owners of own sockets, and a note on the others.
#[test]
fn unprivileged_user_sees_only_own_owners() {
    let (_lab, client, _server, _link) = need!(linked("unprivileged"));
    need!(program("setpriv"));
    let pair = client.loopback().established();
    let binary = _lab.copy_for_all_users(std::path::Path::new(live::SOCKEYE));
    let words = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ];
    let path = binary.to_str().unwrap();
    let command = client.command(
        "setpriv",
        &[&words[..], &[path, "sockets", "-taeip", "--format", "json"]].concat(),
    );
    let text = output_of(command);
    let document: Value = serde_json::from_str(&text).unwrap();
    let rows = document["sockets"].as_array().unwrap();
    for end in pair.lab_sockets() {
        let row = row_of(rows, end);
        assert_eq!(
            (&row["inode"], &row["state"]),
            (&end.inode.into(), &live::state_name(end.state).into())
        );
        assert_eq!(row["owners"], Value::Array(Vec::new()), "{row}");
        assert_eq!(row["mark"], Value::Null, "{row}");
    }
    assert!(
        document["losses"]["unreadable_processes"].as_u64() > Some(0),
        "{document}"
    );
}
