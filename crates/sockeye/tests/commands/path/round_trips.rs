//! Requests and answers: the parts of the way make up the round trip that the application measures.

use super::{Following, alone, hop};
use crate::fixtures::processes::words_unprivileged;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 3000;

/// Sends and receives 64 bytes so many times; returns nanoseconds for each.
fn rounds(mut exchange: impl FnMut(&mut [u8; 64])) -> f64 {
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        exchange(&mut [7; 64]);
    }
    begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

/// Exchanges datagrams between two namespaces; returns nanoseconds for each round trip.
fn udp(client: &Namespace, server: &Namespace, address: SocketAddr) -> f64 {
    let answering = server.run(|| UdpSocket::bind(address).unwrap());
    let asking = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    asking.connect(address).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 64];
            for _ in 0..ROUNDS {
                let (_, from) = answering.recv_from(&mut buffer).unwrap();
                answering.send_to(&buffer, from).unwrap();
            }
        });
        rounds(|bytes| {
            asking.send(bytes).unwrap();
            asking.recv(bytes).unwrap();
        })
    })
}

/// A connection between two namespaces: both ends.
fn connect(client: &Namespace, server: &Namespace, address: SocketAddr) -> [TcpStream; 2] {
    connect_to(client, &server.run(|| TcpListener::bind(address).unwrap()))
}

/// A connection from a namespace to a listener: both ends.
pub(super) fn connect_to(client: &Namespace, listener: &TcpListener) -> [TcpStream; 2] {
    let address = listener.local_addr().unwrap();
    let asking = client.run(|| TcpStream::connect(address).unwrap());
    let (answering, _) = listener.accept().unwrap();
    for stream in [&asking, &answering] {
        stream.set_nodelay(true).unwrap();
    }
    [asking, answering]
}

/// Exchanges messages over a connection; returns nanoseconds for each round trip.
fn tcp([mut asking, mut answering]: [TcpStream; 2]) -> f64 {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = [0; 64];
            for _ in 0..ROUNDS {
                answering.read_exact(&mut buffer).unwrap();
                answering.write_all(&buffer).unwrap();
            }
        });
        rounds(|bytes| {
            asking.write_all(bytes).unwrap();
            asking.read_exact(bytes).unwrap();
        })
    })
}

/// Nanoseconds of all hops together, for each round trip.
fn sum_of_parts(document: &Value) -> f64 {
    let hops = document["hops"].as_array().unwrap().iter();
    let total: f64 = hops.map(|hop| hop["total_ns"].as_f64().unwrap()).sum();
    total / f64::from(ROUNDS)
}

#[track_caller]
fn assert_parts_make_up(document: &Value, round_trip_ns: f64) {
    let parts = sum_of_parts(document);
    let share = parts / round_trip_ns;
    assert!(
        (0.95..1.05).contains(&share),
        "{parts:.0} ns of {round_trip_ns:.0} ns: {document:#}"
    );
    assert_eq!(document["matched_ppm"], 1_000_000, "{document:#}");
    assert_eq!(document["ring_lost"], 0);
}

/// Asserts that a packet of each round passed a hop, but those whose stamp the kernel has left out: a program does not run while it runs on
/// the same processor, and the document counts that.
#[track_caller]
fn assert_all(document: &Value, hop: &Value) {
    let packets = hop["packets"].as_u64().unwrap();
    let missed = document["missed"].as_u64().unwrap();
    let rounds = u64::from(ROUNDS);
    assert!(
        (rounds.saturating_sub(missed)..=rounds).contains(&packets),
        "{document:#}"
    );
}

/// Segments that a namespace has sent again: its TCP does that when a machine is slow, too.
pub(super) fn sent_again(namespace: &Namespace) -> u64 {
    let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let [names, values] = [lines.next().unwrap(), lines.next().unwrap()].map(str::split_whitespace);
    let mut pairs = names.zip(values);
    pairs
        .find(|(name, _)| *name == "RetransSegs")
        .unwrap()
        .1
        .parse()
        .unwrap()
}

#[test]
fn parts_of_datagrams_on_loopback_make_up_the_round_trip() {
    let (lab, here) = need!(alone("path_udp"));
    let following = Following::start(&lab, &format!("--format json --port 5353 -N {}", here.name()));
    let round_trip_ns = udp(&here, &here, "127.0.0.1:5353".parse().unwrap());
    let document = following.document();
    assert_parts_make_up(&document, round_trip_ns);
    for direction in ["in", "out"] {
        assert_eq!(hop(&document, direction, "qdisc")["has_queue"], false);
        let socket = hop(&document, direction, "socket");
        assert_all(&document, socket);
        assert_eq!(socket["reader"]["pid"], std::process::id());
    }
    assert_eq!(document["followed"], 2 * ROUNDS, "{document:#}");
    assert_eq!(document["complete"], 2 * ROUNDS, "{document:#}");
}

/// Since Linux 6.18 the processor that made a packet frees it, when another one's program has read it, and while that call has not returned.
#[test]
fn packet_that_is_freed_elsewhere_while_it_is_read_is_counted_once() {
    let (lab, here) = need!(alone("path_freed"));
    let following = Following::start(&lab, &format!("--format json --port 5356 -N {}", here.name()));
    let busy = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    busy.set_nonblocking(true).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Softirqs that free what was read.
        scope.spawn(|| {
            let own = busy.local_addr().unwrap();
            while !done.load(Ordering::Relaxed) {
                let _ = busy.send_to(&[0; 500], own);
                let _ = busy.recv(&mut [0; 500]);
            }
        });
        udp(&here, &here, "127.0.0.1:5356".parse().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    let document = following.document();
    assert_eq!(document["followed"], 2 * ROUNDS, "{document:#}");
    for direction in ["in", "out"] {
        for kind in ["qdisc", "device", "backlog"] {
            assert_eq!(hop(&document, direction, kind)["packets"], ROUNDS, "{document:#}");
        }
        assert_all(&document, hop(&document, direction, "socket"));
    }
}

#[test]
fn parts_of_a_connection_on_loopback_make_up_the_round_trip() {
    let (lab, here) = need!(alone("path_tcp"));
    let following = Following::start(&lab, &format!("--format json --port 5432 -N {}", here.name()));
    let round_trip_ns = tcp(connect(&here, &here, "127.0.0.1:5432".parse().unwrap()));
    let document = following.document();
    assert_parts_make_up(&document, round_trip_ns);
    for direction in ["in", "out"] {
        assert_all(&document, hop(&document, direction, "stack"));
        assert_eq!(
            hop(&document, direction, "socket")["packets"],
            ROUNDS,
            "{document:#}"
        );
    }
    let sent = u64::from(2 * ROUNDS) + sent_again(&here);
    assert_eq!(document["followed"], sent, "{document:#}");
    // Acknowledgements have no reader.
    assert_eq!(document["lost"], 0);
}

/// What kernels before Linux 6.2 get: other objects, which copy what they read.
#[test]
fn parts_make_up_the_round_trip_on_older_kernels() {
    let (lab, here) = need!(alone("path_old"));
    let line = format!("--format json --port 5436 -N {}", here.name());
    let following = Following::start_with(&lab, &line, &[("SOCKEYE_BPF", "5.10")]);
    let round_trip_ns = tcp(connect(&here, &here, "127.0.0.1:5436".parse().unwrap()));
    assert_parts_make_up(&following.document(), round_trip_ns);
}

#[test]
fn lines_and_csv_have_the_same_hops() {
    let (lab, here) = need!(alone("path_formats"));
    let address = "127.0.0.1:5437".parse().unwrap();
    let lines = Following::start(&lab, &format!("--format jsonl --port 5437 -N {}", here.name()));
    tcp(connect(&here, &here, address));
    let text = String::from_utf8(lines.end().stdout).unwrap();
    let hops = text.lines().filter(|line| line.contains(r#""type":"hop""#));
    assert_eq!(hops.clone().count(), text.lines().count() - 1, "{text}");
    // Whether a connection is seen before it is accepted is a matter of luck.
    let rows = hops.filter(|line| !line.contains(r#""hop":"accept""#)).count();
    assert!(
        text.lines().last().unwrap().contains(r#""type":"path_summary""#),
        "{text}"
    );
    let csv = Following::start(&lab, &format!("--format csv --port 5437 -N {}", here.name()));
    tcp(connect(&here, &here, address));
    let text = String::from_utf8(csv.end().stdout).unwrap();
    let lines = text.lines().filter(|line| !line.contains(",in,accept,"));
    assert_eq!(lines.count(), rows + 1, "{text}");
}

/// Of a stream, the kernel divides and merges packets: each has an end all the same.
#[test]
fn packets_of_a_stream_have_a_known_end() {
    let (lab, here) = need!(alone("path_stream"));
    let following = Following::start(&lab, &format!("--format json --port 5438 -N {}", here.name()));
    let [mut sending, mut reading] = connect(&here, &here, "127.0.0.1:5438".parse().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let block = vec![0; 65_536];
            for _ in 0..1000 {
                sending.write_all(&block).unwrap();
            }
        });
        let mut buffer = vec![0; 65_536];
        while reading.read(&mut buffer).unwrap() > 0 {}
    });
    let document = following.document();
    let number = |key: &str| document[key].as_u64().unwrap();
    let parts = ["complete", "dropped", "divided", "merged", "lost", "unfinished"].map(number);
    assert_eq!(parts.iter().sum::<u64>(), number("followed"), "{document:#}");
    assert!(number("followed") >= 1000, "{document:#}");
    assert!(number("matched_ppm") >= 950_000, "{document:#}");
    // The listener, and the socket that reads, have this port.
    let send = hop(&document, "in", "send");
    assert!(send["unsent_bytes_max"].as_u64().unwrap() > 0, "{document:#}");
}

#[test]
fn way_through_two_namespaces_has_the_devices_of_both() {
    let lab = need!(Lab::new("path_veth"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = SocketAddr::new(link.server_addresses().0, 5432);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5432", address.ip()),
    );
    let round_trip_ns = tcp(connect(&client, &server, address));
    let document = following.document();
    assert_parts_make_up(&document, round_trip_ns);
    for direction in ["in", "out"] {
        assert_all(&document, hop(&document, direction, "stack"));
        assert_eq!(
            hop(&document, direction, "socket")["packets"],
            ROUNDS,
            "{document:#}"
        );
    }
    let out = hop(&document, "out", "device");
    assert_eq!(out["device"], link.devices().0);
    assert_eq!(out["netns_inode"], client.inode());
    let stack = hop(&document, "out", "stack");
    assert_eq!(stack["device"], link.devices().1);
    assert_eq!(stack["netns_inode"], server.inode());
}

#[test]
fn datagrams_are_followed_through_nat() {
    let lab = need!(Lab::new("path_nat"));
    need!(program("nft"));
    let names = ["client", "router", "server"];
    let [client, router, server] = names.map(|name| lab.namespace(name));
    let near = lab.link(&client, &router);
    let far = lab.link(&router, &server);
    let address = SocketAddr::new(near.server_addresses().0, 5441);
    let target = SocketAddr::new(far.server_addresses().0, 5441);
    router.sysctl("ipv4/ip_forward", "1");
    let rules = format!(
        "table ip n {{ chain a {{ type nat hook prerouting priority dstnat; udp dport 5441 dnat to {}; }}; \
         chain b {{ type nat hook postrouting priority srcnat; udp dport 5441 masquerade; }}; }}",
        target.ip()
    );
    router.output("nft", &[&rules]);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5441", address.ip()),
    );
    let receiving = server.run(|| UdpSocket::bind(target).unwrap());
    receiving.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let sending = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    for _ in 0..100 {
        sending.send_to(&[1; 100], address).unwrap();
        assert_eq!(receiving.recv(&mut [0; 1000]).unwrap(), 100);
    }
    let document = following.document();
    let number = |key: &str| document[key].as_u64();
    assert_eq!(
        (number("complete"), number("lost")),
        (Some(100), Some(0)),
        "{document:#}"
    );
    // The route is looked up once, with the address that NAT has written; in the server's namespace, too, since the socket is not connected.
    for kind in ["prerouting", "stack"] {
        let hops = document["hops"].as_array().unwrap().iter();
        let devices: Vec<_> = hops
            .filter(|hop| hop["hop"] == kind && hop["packets"] == 100)
            .map(|hop| hop["device"].as_str().unwrap())
            .collect();
        let server = far.devices().1;
        let expected = if kind == "stack" {
            vec![server]
        } else {
            vec![near.devices().1, server]
        };
        assert_eq!(devices, expected, "{kind}: {document:#}");
    }
    assert_eq!(hop(&document, "out", "forward")["packets"], 100, "{document:#}");
}

/// A base chain of 400 rules, none of which matches.
fn long_chain(name: &str, hook: &str) -> String {
    let rules: String = (0..400)
        .map(|number| format!("ip saddr 203.0.{}.{} counter; ", number / 250, number % 250))
        .collect();
    format!("chain {name} {{ type filter hook {hook} priority 0; {rules} }}; ")
}

/// The rules are in one of two namespaces, or of two hooks: the same hop without them is in the same run.
#[test]
fn long_chains_of_each_hook_are_seen_in_its_hop() {
    let lab = need!(Lab::new("path_hooks"));
    need!(program("nft"));
    let names = ["client", "router", "server"];
    let [client, router, server] = names.map(|name| lab.namespace(name));
    let near = lab.link(&client, &router);
    let far = lab.link(&router, &server);
    let address = SocketAddr::new(far.server_addresses().0, 5446);
    router.sysctl("ipv4/ip_forward", "1");
    client.ip(&format!("route add default via {}", near.server_addresses().0));
    server.ip(&format!("route add default via {}", far.client_addresses().0));
    let table = |chains: &str| format!("table ip n {{ {chains} }}");
    client.output("nft", &[&table(&long_chain("a", "output"))]);
    server.output("nft", &[&table(&long_chain("a", "input"))]);
    let both = long_chain("a", "prerouting") + &long_chain("b", "forward");
    router.output("nft", &[&table(&both)]);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5446", address.ip()),
    );
    tcp(connect(&client, &server, address));
    let document = following.document();
    let median = |direction: &str, kind: &str, device: Option<&str>| {
        let mut hops = document["hops"].as_array().unwrap().iter();
        let found = hops.find(|hop| {
            hop["direction"] == direction
                && hop["hop"] == kind
                && device.is_none_or(|device| hop["device"] == device)
        });
        found.unwrap_or_else(|| panic!("no hop {direction} {kind}: {document:#}"))["median_ns"]
            .as_u64()
            .unwrap()
    };
    let with = [
        median("out", "output", None),
        median("out", "input", None),
        median("out", "prerouting", None),
        median("out", "forward", None),
    ];
    let without = [median("in", "output", None), median("in", "input", None)];
    // 400 rules take several times as long as all else there.
    assert!(
        with[0] > 2 * without[0] && with[1] > 2 * without[1],
        "{document:#}"
    );
    assert!(
        with[2] > 2 * without[1] && with[3] > 2 * without[1],
        "{document:#}"
    );
}

#[test]
fn packets_that_netfilter_drops_have_its_reason() {
    let lab = need!(Lab::new("path_nft"));
    need!(program("nft"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = SocketAddr::new(link.server_addresses().0, 5444);
    server.output(
        "nft",
        &["table ip n { chain a { type filter hook input priority 0; udp dport 5444 drop; }; }"],
    );
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5444", address.ip()),
    );
    let sending = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    for _ in 0..50 {
        sending.send_to(&[1; 100], address).unwrap();
    }
    let document = following.document();
    let stack = hop(&document, "out", "stack");
    assert_eq!(
        (&stack["drops"], &stack["device"]),
        (&50.into(), &link.devices().1.into())
    );
    assert_eq!(stack["drop_reasons"]["NETFILTER_DROP"], 50, "{document:#}");
    assert_eq!(document["dropped"], 50, "{document:#}");
}

#[test]
fn packets_that_are_divided_have_their_time_in_the_qdisc() {
    let lab = need!(Lab::new("path_divided"));
    need!(program("ethtool"));
    need!(program("tc"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let device = link.devices().0;
    client.output("ethtool", &["-K", device, "tso", "off"]);
    client.output(
        "tc",
        &[
            "qdisc", "replace", "dev", device, "root", "pfifo", "limit", "1000",
        ],
    );
    let address = SocketAddr::new(link.server_addresses().0, 5442);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5442", address.ip()),
    );
    let [mut sending, mut reading] = connect(&client, &server, address);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..100 {
                sending.write_all(&[0; 65_536]).unwrap();
            }
        });
        let mut buffer = vec![0; 65_536];
        while reading.read(&mut buffer).unwrap() > 0 {}
    });
    let document = following.document();
    let divided = document["divided"].as_u64().unwrap();
    assert!(divided >= 50, "{document:#}");
    let qdisc = hop(&document, "out", "qdisc");
    assert!(qdisc["packets"].as_u64().unwrap() >= divided, "{document:#}");
    assert!(qdisc["bytes"].as_u64().unwrap() >= 6_000_000, "{document:#}");
}

#[test]
fn filter_by_owner_selects_the_sockets_of_a_process() {
    let (lab, here) = need!(alone("path_owner"));
    let pid = std::process::id();
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let older = connect(&here, &here, address(5433));
    let following = Following::start(&lab, &format!("--format json pid = {pid} and sport = :5433"));
    tcp(older);
    let document = following.document();
    let sent = u64::from(2 * ROUNDS) + sent_again(&here);
    assert_eq!(document["followed"], sent, "{document:#}");
    let none = Following::start(&lab, "--format json pid = 1 and sport = :5434");
    tcp(connect(&here, &here, address(5434)));
    let document = none.document();
    assert_eq!(document["followed"], 0, "{document:#}");
    assert!(document["not_selected"].as_u64().unwrap() > 0);
}

/// What only a socket has, and no packet shows.
#[test]
fn filters_by_user_inode_and_cookie_select_sockets() {
    let (lab, here) = need!(alone("path_socket_fields"));
    let uid = rustix::process::getuid().as_raw();
    let tests = [
        "inode > 0".to_owned(),
        "cookie > 0".to_owned(),
        format!("uid = {uid}"),
    ];
    for (port, test) in (5470..).zip(tests) {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let [receiving, sending] = [address, SocketAddr::from(([127, 0, 0, 1], 0))]
            .map(|address| here.run(|| UdpSocket::bind(address).unwrap()));
        let line = format!("--format json -N {} {test} and sport = :{port}", here.name());
        let following = Following::start(&lab, &line);
        for _ in 0..20 {
            sending.send_to(&[7; 64], address).unwrap();
            receiving.recv(&mut [0; 64]).unwrap();
        }
        let document = following.document();
        assert_eq!(document["followed"], 20, "{test}: {document:#}");
        let other = format!("--format json -N {} not {test} and sport = :{port}", here.name());
        let following = Following::start(&lab, &other);
        sending.send_to(&[7; 64], address).unwrap();
        receiving.recv(&mut [0; 64]).unwrap();
        let document = following.document();
        assert_eq!(document["followed"], 0, "{test}: {document:#}");
    }
}

#[test]
fn missing_rights_are_named_with_the_remedy() {
    let (lab, here) = need!(alone("path_rights"));
    let binary = lab.copy_for_all_users(Path::new(crate::fixtures::binary::SOCKEYE));
    let outcome = words_unprivileged(&here, &binary, "path -d 1");
    let error = outcome.failed(1);
    assert!(error.contains("CAP_BPF and CAP_PERFMON"), "{outcome}");
}
