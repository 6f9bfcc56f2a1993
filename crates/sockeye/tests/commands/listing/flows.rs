//! `sockeye flows` folds what was made into the right flows.

use crate::fixtures::envelope;
use crate::fixtures::live::{SOCKEYE, exchange, flows, linked, sockets, sockeye};
use serde_json::{Value, json};
use sockeye_lab::{LabSocket, Namespace, NetPath, Pair, SocketOptions, State, need, wait_for};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A flow as tests name it: direction, local and peer address, port; and how many connections.
type Seen = BTreeMap<(String, String, String, u64), u64>;

fn seen(rows: &[Value]) -> Seen {
    let word = |value: &Value| value.as_str().unwrap_or("many").to_owned();
    let mut all = Seen::new();
    for row in rows {
        let key = (
            word(&row["direction"]),
            word(&row["local"]["ip"]),
            word(&row["peer"]["ip"]),
            port(row).as_u64().unwrap_or(0),
        );
        let twice = all.insert(key, row["connections"].as_u64().unwrap());
        assert_eq!(twice, None, "one flow in two rows: {rows:#?}");
    }
    all
}

/// The port of the service, at the end that has it.
fn port(row: &Value) -> &Value {
    let end = if row["direction"] == "passive" {
        "local"
    } else {
        "peer"
    };
    &row[end]["port"]
}

fn flow(
    direction: &str,
    local: IpAddr,
    peer: IpAddr,
    port: u16,
    count: u64,
) -> ((String, String, String, u64), u64) {
    let text = |ip: IpAddr| ip.to_canonical().to_string();
    (
        (direction.to_owned(), text(local), text(peer), port.into()),
        count,
    )
}

fn ip(lab_socket: &LabSocket) -> IpAddr {
    lab_socket.local.unwrap().ip()
}

fn peer_ip(lab_socket: &LabSocket) -> IpAddr {
    lab_socket.peer.unwrap().ip()
}

/// The one row with this value.
#[track_caller]
fn row_with<'a>(rows: &'a [Value], key: &str, value: impl Into<Value>) -> &'a Value {
    let value = value.into();
    let of = |row: &'a Value| key.split('.').fold(row, |value, key| &value[key]);
    let found: Vec<&Value> = rows.iter().filter(|row| *of(row) == value).collect();
    assert_eq!(found.len(), 1, "{key} {value} in {rows:#?}");
    found[0]
}

#[test]
fn direction_follows_every_kind_of_listener() {
    let (_lab, client, server, link) = need!(linked("directions"));
    let plain = SocketOptions::new();
    let device = link.devices().1;
    let one_address = link.net_path();
    let one_address6 = link.net_path6();
    let at = |net_path: &NetPath, port: u16| SocketAddr::new(net_path.server_ip(), port).to_string();
    let cases = [
        (server.tcp_listener("0.0.0.0:9001", &plain), link.net_path()),
        (server.tcp_listener("[::]:9002", &plain), link.net_path6()),
        (server.tcp_listener("[::]:9003", &plain), link.net_path_mapped()),
        (
            server.tcp_listener("[::]:9004", &SocketOptions::new().v6_only(true)),
            link.net_path6(),
        ),
        (server.tcp_listener(&at(&one_address, 9005), &plain), one_address),
        (
            server.tcp_listener(&at(&one_address6, 9006), &plain),
            one_address6,
        ),
        (
            server.tcp_listener("0.0.0.0:9007", &SocketOptions::new().device(device)),
            link.net_path(),
        ),
        (
            server.tcp_listener("[::]:9008", &SocketOptions::new().device(device)),
            link.net_path6(),
        ),
    ];
    let pairs: Vec<Pair> = cases
        .iter()
        .map(|(listener, net_path)| net_path.established_to(listener))
        .collect();
    let expected = |direction: &str, end: fn(&Pair) -> &LabSocket| -> Seen {
        let rows = pairs.iter().map(|pair| {
            flow(
                direction,
                ip(end(pair)),
                peer_ip(end(pair)),
                pair.server.port(),
                1,
            )
        });
        rows.collect()
    };
    for source in ["auto", "diag-v2"] {
        let passive = flows(&server, &["-n", "--source", source]);
        assert_eq!(
            seen(&passive),
            expected("passive", |pair| &pair.server),
            "{source}"
        );
        let active = flows(&client, &["-n", "--source", source]);
        assert_eq!(seen(&active), expected("active", |pair| &pair.client), "{source}");
    }
    // /proc does not report interfaces, and needs none of them here.
    let passive = flows(&server, &["-n", "--source", "procfs"]);
    assert_eq!(seen(&passive), expected("passive", |pair| &pair.server));
}

/// Connections from the port of a listener that is at another address, of another family or in
/// another namespace, are ours.
#[test]
fn a_listener_elsewhere_makes_no_connection_passive() {
    let (_lab, client, server, link) = need!(linked("elsewhere"));
    let pairs = [
        link.net_path().established(),
        link.net_path().established(),
        link.net_path().established(),
    ];
    let [first, second, third] = pairs.each_ref().map(|pair| pair.client.port());
    let _listeners = [
        client.tcp_listener(&format!("127.0.0.1:{first}"), &SocketOptions::new()),
        client.tcp_listener(&format!("[::]:{second}"), &SocketOptions::new().v6_only(true)),
        server.tcp_listener(&format!("0.0.0.0:{third}"), &SocketOptions::new()),
    ];
    let expected: Seen = pairs
        .iter()
        .map(|pair| {
            flow(
                "active",
                ip(&pair.client),
                peer_ip(&pair.client),
                pair.server.port(),
                1,
            )
        })
        .collect();
    assert_eq!(seen(&flows(&client, &["-n"])), expected);

    let rows = flows(&client, &["-n", "--netns", "all"]);
    let inode: Value = client.inode().into();
    let here: Vec<Value> = rows
        .into_iter()
        .filter(|row| row["netns_inode"] == inode)
        .collect();
    assert_eq!(seen(&here), expected);
}

#[test]
fn both_ends_on_one_host_are_two_flows_and_mapped_addresses_are_ipv4() {
    let (lab, client, _server, _link) = need!(linked("local"));
    let pair = client.loopback_mapped().established();
    let ones = [IpAddr::from([127, 0, 0, 1]); 2];
    let port = pair.server.port();
    let expected = |count| -> Seen {
        let both = ["active", "passive"].map(|direction| flow(direction, ones[0], ones[1], port, count));
        both.into_iter().collect()
    };
    assert_eq!(seen(&flows(&client, &["-n"])), expected(1));

    // An IPv6 socket that calls an IPv4 address is in the same flow.
    let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{port}").parse().unwrap();
    let caller = lab
        .process("mapped")
        .in_namespace(&client)
        .tcp_connect(mapped)
        .start();
    let accepted = pair.listener.as_ref().unwrap().accept();
    assert_eq!(accepted.peer.unwrap().port(), caller.sockets()[0].port());
    assert_eq!(seen(&flows(&client, &["-n"])), expected(2));
    for source in ["diag", "diag-v2", "procfs"] {
        assert_eq!(
            seen(&flows(&client, &["-n", "--source", source])),
            expected(2),
            "{source}"
        );
    }
}

#[test]
fn states_are_counted_and_listeners_left_out() {
    let (_lab, client, server, link) = need!(linked("states"));
    let net_path = link.net_path();
    let listener = net_path.listener();
    let made: Vec<Pair> = (0..5).map(|_| net_path.established_to(&listener)).collect();
    made[0]
        .client
        .socket()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    made[0]
        .server
        .wait_row("CLOSE_WAIT", |row| row.state == State::CloseWait);
    made[0]
        .client
        .wait_row("FIN_WAIT2", |row| row.state == State::FinWait2);
    let rows = flows(&client, &["-n", "-s"]);
    assert_eq!(
        rows[0]["states"],
        json!({"established": 4, "fin_wait_2": 1}),
        "{rows:?}"
    );
    assert_eq!((rows.len(), &rows[0]["connections"]), (1, &5.into()));
    let rows = flows(&server, &["-n", "-s"]);
    assert_eq!(
        rows[0]["states"],
        json!({"established": 4, "close_wait": 1}),
        "{rows:?}"
    );

    // A filter that names states chooses among them.
    let waiting = flows(&server, &["-n", "state", "close-wait"]);
    assert_eq!((waiting.len(), &waiting[0]["connections"]), (1, &1.into()));

    // Half-open and listening sockets are in no flow.
    let half_open = [link.net_path().syn_recv(), link.net_path6().syn_recv()];
    let calling = link.net_path().syn_sent();
    assert_eq!(
        (half_open[0].server.state, calling.state),
        (State::SynRecv, State::SynSent)
    );
    for words in [
        &["-n"][..],
        &["-n", "state", "all"],
        &[
            "-n",
            "state",
            "syn-recv",
            "state",
            "syn-sent",
            "state",
            "established",
        ],
    ] {
        for namespace in [&client, &server] {
            let rows = flows(namespace, words);
            assert_eq!(rows.len(), 1, "{words:?}: {rows:?}");
        }
    }
    assert_eq!(flows(&server, &["-n", "state", "listening"]), [] as [Value; 0]);

    let gone = link.net_path6().time_wait();
    let rows = flows(&client, &["-n"]);
    let row = row_with(&rows, "peer.ip", peer_ip(&gone).to_string());
    assert_eq!(
        (&row["states"], &row["direction"]),
        (&json!({"time_wait": 1}), &"active".into())
    );
}

#[test]
fn flows_of_namespaces_are_separate() {
    let (lab, client, server, _link) = need!(linked("mix"));
    // The same addresses and ports in both.
    let hold = |namespace: &Namespace, count: usize| -> Vec<_> {
        let listener = namespace.tcp_listener("127.0.0.1:9100", &SocketOptions::new());
        let pairs: Vec<Pair> = (0..count)
            .map(|_| namespace.loopback().established_to(&listener))
            .collect();
        vec![(listener, pairs)]
    };
    let _held = (hold(&client, 2), hold(&server, 3));
    let ours = |rows: Vec<Value>| -> Vec<Value> {
        let mine = [client.inode(), server.inode()];
        let is_ours = |row: &Value| {
            row["netns_inode"]
                .as_u64()
                .is_some_and(|inode| mine.contains(&inode))
        };
        rows.into_iter().filter(is_ours).collect()
    };
    let words = [
        "-n", "--netns", "all", "sport", "=", ":9100", "or", "dport", "=", ":9100",
    ];
    let rows = ours(flows(&client, &words));
    assert_eq!(rows.len(), 4, "{rows:#?}");
    for (namespace, count) in [(&client, 2), (&server, 3)] {
        let inode: Value = namespace.inode().into();
        let here: Vec<Value> = rows
            .iter()
            .filter(|row| row["netns_inode"] == inode)
            .cloned()
            .collect();
        let one = IpAddr::from([127, 0, 0, 1]);
        let both = ["active", "passive"].map(|direction| flow(direction, one, one, 9100, count));
        assert_eq!(seen(&here), both.into_iter().collect(), "{}", namespace.label());
        assert!(
            here.iter().all(|row| row["netns"] == namespace.name()),
            "{here:?}"
        );

        // By name, from elsewhere.
        let by_name = flows(&client, &["-n", "--netns", namespace.name()]);
        assert_eq!(
            by_name
                .iter()
                .filter_map(|row| row["connections"].as_u64())
                .sum::<u64>(),
            2 * count
        );
    }
    for (group, of_row) in [("netns", 1), ("port", 1)] {
        let rows = ours(flows(&client, &[&words[..], &["--group-by", group]].concat()));
        for (namespace, count) in [(&client, 2), (&server, 3)] {
            let inode: Value = namespace.inode().into();
            let here: Vec<_> = rows.iter().filter(|row| row["netns_inode"] == inode).collect();
            assert_eq!(here.len(), 2 * of_row, "{group}: {rows:#?}");
            assert!(
                here.iter().all(|row| row["connections"] == count),
                "{group}: {here:#?}"
            );
        }
    }
    // A process's own namespace, by its pid.
    let holder = lab.process("holder").in_namespace(&server).start();
    let rows = flows(&client, &["-n", "--netns", &holder.pid().to_string()]);
    assert_eq!(
        rows.iter()
            .filter_map(|row| row["connections"].as_u64())
            .sum::<u64>(),
        6
    );
}

#[test]
fn flows_are_grouped_by_owner_port_and_prefix() {
    let (lab, client, server, link) = need!(linked("groups"));
    let listener = server.tcp_listener("0.0.0.0:9200", &SocketOptions::new());
    let (a, b) = (link.net_path(), link.net_path());
    // Not of this process: between fork and exec, children of other tests hold what is ours.
    let Pair {
        client: shared,
        server: _far,
        ..
    } = a.established_to(&listener);
    let sharer = lab
        .process("sharer")
        .in_namespace(&client)
        .own_group()
        .sharing(&shared)
        .start();
    let taker = lab.process("taker").in_namespace(&client).taking(shared).start();
    let to = SocketAddr::new(b.server_ip(), 9200);
    let unprivileged = lab
        .process("unprivileged")
        .in_namespace(&client)
        .user(65534, 65534)
        .tcp_connect(to)
        .tcp_connect(to)
        .start();
    let _accepted = [listener.accept(), listener.accept()];

    let rows = flows(&client, &["-n", "-p"]);
    assert_eq!(rows.len(), 2);
    let pids = |row: &Value| -> Vec<u64> {
        row["owners"]
            .as_array()
            .unwrap()
            .iter()
            .map(|owner| owner["pid"].as_u64().unwrap())
            .collect()
    };
    let row = row_with(&rows, "peer.ip", a.server_ip().to_string());
    let mut both = vec![u64::from(taker.pid()), sharer.pid().into()];
    both.sort_unstable();
    assert_eq!((pids(row), &row["connections"]), (both, &1.into()), "{row}");
    let sharing = row["owners"]
        .as_array()
        .unwrap()
        .iter()
        .find(|owner| owner["pid"] == sharer.pid())
        .unwrap();
    assert_eq!(
        sharing,
        &json!({"comm": "sharer", "pid": sharer.pid(), "pgid": sharer.group()})
    );
    let row = row_with(&rows, "peer.ip", b.server_ip().to_string());
    assert_eq!(
        (pids(row), &row["connections"]),
        (vec![unprivileged.pid().into()], &2.into()),
        "{row}"
    );

    // A connection of two processes counts with each.
    let rows = flows(&client, &["-n", "--group-by", "process"]);
    let by_pid: BTreeMap<u64, u64> = rows
        .iter()
        .map(|row| {
            (
                row["process"]["pid"].as_u64().unwrap(),
                row["connections"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        by_pid,
        BTreeMap::from([
            (taker.pid().into(), 1),
            (sharer.pid().into(), 1),
            (unprivileged.pid().into(), 2)
        ])
    );

    let rows = flows(&client, &["-n", "--group-by", "uid"]);
    assert_eq!(row_with(&rows, "uid", 65534)["connections"], 2);
    assert_eq!(row_with(&rows, "uid", taker.uid())["connections"], 1);

    let rows = flows(&client, &["-n", "--group-by", "port"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (port(&rows[0]), &rows[0]["connections"], &rows[0]["direction"]),
        (&9200.into(), &3.into(), &"active".into())
    );

    // The server addresses of both paths are in 10.77.0.0/24. The sources differ, because each path binds them.
    let from_b = flows(
        &client,
        &["-n", "--group-by", "prefix/24", "dst", &b.server_ip().to_string()],
    );
    let row = row_with(&from_b, "peer.ip", "10.77.0.0");
    assert_eq!(
        (&row["peer"]["prefix_bits"], &row["connections"]),
        (&24.into(), &2.into())
    );
    let passive = flows(&server, &["-n", "--group-by", "prefix/8"]);
    assert!(
        passive
            .iter()
            .all(|row| row["peer"]["ip"] == "10.0.0.0" && row["direction"] == "passive"),
        "{passive:?}"
    );
    assert_eq!(
        passive
            .iter()
            .filter_map(|row| row["connections"].as_u64())
            .sum::<u64>(),
        3
    );
}

#[test]
fn udp_flows_have_directions() {
    let (_lab, client, server, link) = need!(linked("udp_flows"));
    let shared = SocketOptions::new().reuse_port();
    let pair = link.net_path().with_server(shared.clone()).udp_connected();
    let strangers = link.net_path().udp_connected();
    let seen_by = |direction: &str, end: &LabSocket, port| flow(direction, ip(end), peer_ip(end), port, 1);
    // The port has no listener: a connected socket is the active end.
    let both: Seen = [&pair, &strangers]
        .map(|pair| seen_by("active", &pair.server, pair.client.port()))
        .into_iter()
        .collect();
    assert_eq!(seen(&flows(&server, &["-n", "-u"])), both);
    let waiting = server.udp_bound(&format!("0.0.0.0:{}", pair.server.port()), &shared);
    let expected: Seen = [
        seen_by("passive", &pair.server, pair.server.port()),
        seen_by("active", &strangers.server, strangers.client.port()),
    ]
    .into_iter()
    .collect();
    for source in ["auto", "procfs"] {
        assert_eq!(
            seen(&flows(&server, &["-n", "-u", "--source", source])),
            expected,
            "{source}: {waiting:?}"
        );
    }
    let active: Seen = [&pair, &strangers]
        .map(|pair| seen_by("active", &pair.client, pair.server.port()))
        .into_iter()
        .collect();
    assert_eq!(seen(&flows(&client, &["-n", "-u"])), active);
    // And TCP's listing has none of them.
    assert_eq!(flows(&client, &["-n"]), [] as [Value; 0]);
}

#[test]
fn peers_are_filtered_by_public_and_private() {
    let (_lab, client, _server, _link) = need!(linked("peers"));
    // An address of the internet that never leaves this namespace.
    client.ip("addr add 9.9.9.9/32 dev lo");
    client.ip("addr add 2620:fe::fe/128 dev lo nodad");
    let listener = client.tcp_listener("[::]:9300", &SocketOptions::new());
    let private = client.loopback_mapped().established_to(&listener);
    let call = |to: &str| {
        let to: SocketAddr = to.parse().unwrap();
        // An address that was just given is not at once ready to be a source.
        let connect = || client.run(|| std::net::TcpStream::connect(to)).ok();
        let stream = wait_for(format_args!("a connection to {to}"), connect);
        (stream, listener.accept())
    };
    let _public = [call("9.9.9.9:9300"), call("[2620:fe::fe]:9300")];
    let peers = |which: &str| -> Vec<String> {
        let rows = flows(
            &client,
            &[
                "-n",
                "--filter-peers",
                which,
                "--sort",
                "peer",
                "dport",
                "=",
                ":9300",
            ],
        );
        rows.iter()
            .map(|row| row["peer"]["ip"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(private.client.state, State::Established);
    assert_eq!(peers("public"), ["9.9.9.9", "2620:fe::fe"]);
    assert_eq!(peers("private"), ["127.0.0.1"]);
    assert_eq!(peers("all"), ["9.9.9.9", "127.0.0.1", "2620:fe::fe"]);
}

#[test]
fn flows_are_sorted_and_limited() {
    let (_lab, client, _server, _link) = need!(linked("sorted"));
    let mut held = Vec::new();
    for (port, count) in [(9401, 2), (9402, 3), (9403, 1)] {
        let listener = client.tcp_listener(&format!("127.0.0.1:{port}"), &SocketOptions::new());
        let pairs: Vec<Pair> = (0..count)
            .map(|_| client.loopback().established_to(&listener))
            .collect();
        held.push((listener, pairs));
    }
    let ports = |words: &[&str]| -> Vec<u64> {
        let only = [
            "--group-by",
            "port",
            "dport",
            "ge",
            ":9401",
            "and",
            "dport",
            "le",
            ":9403",
        ];
        let rows = flows(&client, &[&["-n"], words, &only].concat());
        rows.iter().map(|row| port(row).as_u64().unwrap()).collect()
    };
    assert_eq!(ports(&[]), [9402, 9401, 9403]);
    assert_eq!(ports(&["--sort", "connections"]), [9403, 9401, 9402]);
    assert_eq!(ports(&["--sort", "peer_port"]), [9401, 9402, 9403]);
    assert_eq!(ports(&["--sort", "-dport"]), [9403, 9402, 9401]);
    assert_eq!(ports(&["--top", "2"]), [9402, 9401]);
    assert_eq!(ports(&["--sort", "peer-port", "--top", "1"]), [9401]);
    assert_eq!(ports(&["--top", "0"]), [9402, 9401, 9403]);
}

#[test]
fn totals_are_the_sums_over_sockets() {
    let (_lab, client, server, link) = need!(linked("totals"));
    let net_path = link.net_path();
    let listener = net_path.listener();
    let pairs: Vec<Pair> = (0..5).map(|_| net_path.established_to(&listener)).collect();
    for (nth, pair) in pairs.iter().enumerate() {
        exchange(&pair.client, &pair.server, 10_000 * (nth + 1));
        exchange(&pair.server, &pair.client, 3_000 * (nth + 1));
    }
    for (namespace, sent, received) in [(&client, 150_000, 45_000), (&server, 45_000, 150_000)] {
        wait_for("nothing on its way", || {
            let before = sums(namespace);
            let rows = flows(namespace, &["-n", "-i"]);
            assert_eq!(rows.len(), 1);
            let totals = rows[0]["totals"].clone();
            if before != sums(namespace) || before["bytes_acked"].as_u64().unwrap() < sent {
                return None;
            }
            assert_eq!(totals, before);
            // A SYN of ours counts as a byte.
            assert!(
                (sent..=sent + 5).contains(&totals["bytes_acked"].as_u64().unwrap()),
                "{totals}"
            );
            assert_eq!(
                (&totals["bytes_received"], &totals["measured"]),
                (&received.into(), &5.into())
            );
            Some(())
        });
    }
}

/// What `flows -i` should say, from `sockets -i`.
fn sums(namespace: &Namespace) -> Value {
    let rows = sockets(namespace, &["-tin", "state", "established"]);
    let all = |name: &str| -> Vec<u64> {
        let mut values: Vec<u64> = rows
            .iter()
            .map(|row| row["tcp_info"][name].as_u64().unwrap())
            .collect();
        values.sort_unstable();
        values
    };
    let sum = |name: &str| all(name).into_iter().sum::<u64>();
    let median = |name: &str| {
        let values: Vec<u64> = all(name).into_iter().filter(|value| *value != 0).collect();
        values.get(values.len().wrapping_sub(1) / 2).copied()
    };
    json!({
        "measured": rows.len(),
        "bytes_acked": sum("bytes_acked"),
        "bytes_received": sum("bytes_received"),
        "rtt_us_median": median("rtt_us"),
        "total_retrans_segs": sum("total_retrans_segs"),
        "delivery_rate_bytes_per_s_sum": sum("delivery_rate_bytes_per_s"),
        "delivery_rate_bytes_per_s_median": median("delivery_rate_bytes_per_s"),
    })
}

#[test]
fn rates_are_differences_of_two_samples() {
    let (_lab, client, _server, _link) = need!(linked("rates"));
    let net_path = client.loopback();
    let listener = net_path.listener();
    // A loaded machine may miss the time between two samples: then again.
    wait_for("a run in time", || rates_of_a_run(&client, &net_path, &listener));
}

fn rates_of_a_run(namespace: &Namespace, net_path: &NetPath, listener: &LabSocket) -> Option<()> {
    const BYTES: usize = 600_000;
    const INTERVAL: Duration = Duration::from_millis(1000);
    let pair = net_path.established_to(listener);
    let [one, other] = [
        net_path.established_to(listener),
        net_path.established_to(listener),
    ];
    let port = format!(":{}", listener.port());
    // Connections of runs before this one are in TIME_WAIT at most.
    let words = [
        "flows",
        "-n",
        "-w",
        "1",
        "--count",
        "2",
        "--format",
        "jsonl",
        "state",
        "established",
        "(",
        "sport",
        "=",
        &port,
        "or",
        "dport",
        "=",
        &port,
        ")",
    ];
    let mut command = namespace.command(SOCKEYE, &words);
    command.stdout(Stdio::piped()).stdin(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut rows = vec![lines.next().unwrap().unwrap()];

    exchange(&pair.client, &pair.server, BYTES);
    drop((one.client, one.server));
    let _opened = [(); 4].map(|()| net_path.established_to(listener));
    let took = started.elapsed();

    rows.extend(lines.map(Result::unwrap));
    let lasted = started.elapsed();
    assert!(child.wait().unwrap().success());
    drop(other);
    let rows: Vec<Value> = rows
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|row: &Value| row["summary"].is_null())
        .collect();
    if took > INTERVAL * 8 / 10 {
        return None;
    }
    assert_eq!(rows.len(), 4, "two flows in two samples: {rows:#?}");
    assert!(
        rows[..2]
            .iter()
            .all(|row| row["rates"].is_null() && row["connections"] == 3),
        "{rows:#?}"
    );
    for row in &rows[2..] {
        let rate = |name: &str| row["rates"][name].as_f64().unwrap();
        assert_eq!(row["connections"], 3 + 4 - 1, "{row}");
        // Four opened in one interval, whatever its length: shorter than asked for if the first sample was late.
        let interval = 4.0 / rate("opened_per_s");
        assert!(
            (0.5..=lasted.as_secs_f64()).contains(&interval),
            "{interval} s: {row}"
        );
        let near = |name: &str, count: f64, tolerance: f64| {
            let counted = rate(name) * interval;
            assert!(
                (counted - count).abs() <= tolerance,
                "{name}: {counted}, not {count}: {row}"
            );
        };
        near("closed_per_s", 1.0, 1e-6);
        let bytes = BYTES as f64;
        let (sent, received) = if row["direction"] == "active" {
            (bytes, 0.0)
        } else {
            (0.0, bytes)
        };
        near("sent_bytes_per_s", sent, 10.0);
        near("received_bytes_per_s", received, 10.0);
    }
    Some(())
}

#[test]
fn every_format_has_the_same_flows() {
    let (lab, client, server, link) = need!(linked("formats"));
    // Everything is held by processes of its own, so that no child of another test shows among the owners.
    let (v4, v6) = link.server_addresses();
    let [v4, v6] = [v4, v6].map(|ip| SocketAddr::new(ip, 9500));
    let listening = lab.process("listening").in_namespace(&server);
    let _far = listening
        .tcp_listen(&v4.to_string())
        .tcp_listen(&v6.to_string())
        .start();
    let calling = lab.process("calling").in_namespace(&client);
    let calling = calling
        .tcp_connect(v4)
        .tcp_connect(v4)
        .tcp_connect(v4)
        .tcp_connect(v6)
        .tcp_connect(v6);
    let holder = calling.tcp_pair("127.0.0.1:0").start();
    let rows = flows(&client, &["-n", "-p", "-s"]);
    assert_eq!(rows.len(), 4);
    let ask = |format: &str| sockeye(&client, &["flows", "-n", "-p", "-s", "--format", format]);
    assert_eq!(envelope::rows(&ask("jsonl")), rows);

    let csv = ask("csv");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let cell = |line: &[&str], name: &str| {
        let place = header
            .iter()
            .position(|column| *column == name)
            .unwrap_or_else(|| panic!("{name}: {header:?}"));
        line[place].to_owned()
    };
    let table = ask("table");
    let mut tabled = table.lines().skip(1);
    for row in &rows {
        let text_of = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = |key: &str| text_of(&row[key]);
        let port = || text_of(port(row));
        let line = lines.next().unwrap();
        for key in ["direction", "connections"] {
            assert_eq!(cell(&line, key), text(key), "{key}: {csv}");
        }
        for end in ["local", "peer"] {
            let ip = text_of(&row[end]["ip"]);
            assert_eq!(cell(&line, &format!("{end}_ip")), ip, "{csv}");
        }
        let passive = row["direction"] == "passive";
        let (own_port, peer_port) = if passive {
            (port(), String::new())
        } else {
            (String::new(), port())
        };
        assert_eq!(
            (cell(&line, "local_port"), cell(&line, "peer_port")),
            (own_port, peer_port),
            "{csv}"
        );

        let words: Vec<&str> = tabled.next().unwrap().split_whitespace().collect();
        let side = |end: &str, port: Option<String>| {
            let ip = text_of(&row[end]["ip"]);
            let ip = if ip.contains(':') { format!("[{ip}]") } else { ip };
            format!("{ip}:{}", port.unwrap_or_else(|| "many".to_owned()))
        };
        let local = side("local", passive.then(port));
        let peer = side("peer", (!passive).then(port));
        let arrow = if passive { "<--" } else { "-->" };
        assert_eq!(
            words[..4],
            [&local[..], arrow, &peer, &text("connections")],
            "{table}"
        );
        assert_eq!(words[4..6], ["ESTAB", &text("connections")], "{table}");
        assert!(
            words[6..].join(" ").contains(&holder.pid().to_string()),
            "{table}"
        );
    }
    assert_eq!((lines.next(), tabled.next()), (None, None));
}
