//! Packets that are dropped at netfilter's hooks, on the way to a device, and on a router: where, and how many of how many.

use super::{Following, hop};
use serde_json::Value;
use sockeye_lab::{Lab, Link, Namespace, Skip, need, program};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

const SENT: u64 = 40;

/// Three namespaces: the one in the middle forwards.
struct Router {
    lab: Lab,
    client: Namespace,
    router: Namespace,
    server: Namespace,
    /// The device of the router that receives what the client sends.
    near: String,
    links: [Link; 2],
}

impl Router {
    fn new(purpose: &str) -> Result<Self, Skip> {
        program("nft")?;
        let lab = Lab::new(purpose)?;
        let [client, router, server] = ["client", "router", "server"].map(|name| lab.namespace(name));
        let links = [lab.link(&client, &router), lab.link(&router, &server)];
        router.sysctl("ipv4/ip_forward", "1");
        router.sysctl("ipv6/conf/all/forwarding", "1");
        for (v4, v6) in [links[0].server_addresses(), links[1].client_addresses()] {
            let (from, via) = if v4 == links[0].server_addresses().0 {
                (&client, [v4, v6])
            } else {
                (&server, [v4, v6])
            };
            for via in via {
                from.ip(&format!("route add default via {via}"));
            }
        }
        Ok(Self {
            near: links[0].devices().1.to_owned(),
            lab,
            client,
            router,
            server,
            links,
        })
    }

    /// Addresses of the server.
    fn addresses(&self) -> [IpAddr; 2] {
        let (v4, v6) = self.links[1].server_addresses();
        [v4, v6]
    }
}

/// The queue of its device is after the hook, and the device that has received them is another one.
#[test]
fn drops_at_the_egress_of_a_router_are_before_the_queue_of_its_next_device() {
    let router = need!(Router::new("path_drop_egress"));
    let next = router.links[1].devices().0;
    for (number, address) in (0..).zip(router.addresses()) {
        let port = 5620 + number;
        let rules = format!(
            "add table netdev lab; add chain netdev lab lab {{ type filter hook egress device {next} priority 0; }}; \
             add rule netdev lab lab meta l4proto udp th dport {port} drop"
        );
        router.router.output("nft", &[&rules]);
        let document = follow_datagrams(&router, SocketAddr::new(address, port));
        let words = format!("by the packet filter (hook egress) before the queue of {next}");
        assert_all_dropped(&document, "forward", "NETFILTER_DROP", &words);
    }
}

/// A socket that no program reads takes a few packets, and drops all others: that is no matter of the network layer. On loopback a packet has a
/// route from the beginning, elsewhere it is looked up; UDP takes it away before the socket gets the packet.
#[test]
fn what_a_full_socket_does_not_take_is_dropped_in_its_receive_queue() {
    let router = need!(Router::new("path_drop_socket"));
    router.client.ip("link set lo up");
    let [v4, v6] = router.addresses();
    let here = "127.0.0.1".parse().unwrap();
    for (port, (namespace, address)) in
        (5630..).zip([(&router.server, v4), (&router.server, v6), (&router.client, here)])
    {
        let address = SocketAddr::new(address, port);
        let reading = namespace.run(|| UdpSocket::bind(address).unwrap());
        rustix::net::sockopt::set_socket_recv_buffer_size(&reading, 20_000).unwrap();
        reading.set_nonblocking(true).unwrap();
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let sending = router.client.run(|| UdpSocket::bind(any).unwrap());
        let line = format!("--format json dst {} and dport = :{port}", address.ip());
        let following = Following::start(&router.lab, &line);
        let mut read = 0;
        for _ in 0..200 {
            sending.send_to(&[7; 1000], address).unwrap();
        }
        while reading.recv(&mut [0; 1000]).is_ok() {
            read += 1;
        }
        let document = following.document();
        let socket = hop(&document, "out", "socket");
        let drops = socket["drops"].as_u64().unwrap();
        assert!(
            (198 - read..=200 - read).contains(&drops),
            "{read} read: {document:#}"
        );
        assert_eq!(socket["drop_reasons"]["SOCKET_RCVBUFF"], drops, "{document:#}");
        let hops = document["hops"].as_array().unwrap().iter();
        let others = hops.filter(|hop| hop["hop"] != "socket" && hop["drops"].as_u64() > Some(0));
        assert_eq!(others.count(), 0, "{document:#}");
        let sentences = document["sentences"].as_array().unwrap().iter();
        let found = sentences
            .map(|sentence| sentence["text"].as_str().unwrap())
            .find(|text| {
                text.contains("are dropped in the receive queue of the socket, whose program ")
                    && text.contains("(SOCKET_RCVBUFF): its buffer is full")
            });
        assert!(found.is_some(), "{document:#}");
    }
}

/// Drops what goes to a port at a hook, and nothing at others; `what`: the family of the table, and the hook.
fn drop_at(namespace: &Namespace, table: &str, hook: &str, port: u16) {
    let rules = format!(
        "table {table} lab {{ chain lab {{ type filter hook {hook} priority 0; }}; }}; \
         add rule {table} lab lab meta l4proto {{ tcp, udp }} th dport {port} drop"
    );
    let _ = namespace
        .command("nft", &["delete", "table", table, "lab"])
        .output();
    let words = ["add ", &rules].concat();
    namespace.output("nft", &[&words]);
}

/// Sends datagrams to an address, whatever becomes of them, and returns what `path` has of them.
fn follow_datagrams(router: &Router, address: SocketAddr) -> Value {
    let line = format!(
        "--format json dst {} and dport = :{}",
        address.ip(),
        address.port()
    );
    let following = Following::start(&router.lab, &line);
    let any: SocketAddr = if address.is_ipv4() {
        "0.0.0.0:0".parse().unwrap()
    } else {
        "[::]:0".parse().unwrap()
    };
    let sending = router.client.run(|| UdpSocket::bind(any).unwrap());
    for _ in 0..SENT {
        // The kernel says EPERM where the filter of the sender drops.
        let _ = sending.send_to(&[7; 100], address);
    }
    following.document()
}

/// Asserts that all were dropped in a hop, and that the first sentence says so in these words. Where an interrupt hits a thread in which
/// no program runs, a drop is not seen.
#[track_caller]
fn assert_all_dropped(document: &Value, kind: &str, reason: &str, words: &str) {
    let row = hop(document, "out", kind);
    let drops = row["drops"].as_u64().unwrap();
    assert!((SENT - 2..=SENT).contains(&drops), "{document:#}");
    assert_eq!(row["drop_reasons"][reason], drops, "{document:#}");
    let text = document["sentences"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("{drops} of ")), "{text}");
    assert!(text.contains(" are dropped ") && text.contains(words), "{text}");
    if drops == SENT {
        assert!(
            text.contains(&format!("{SENT} of {SENT} packets (100 %)")),
            "{text}"
        );
    }
    assert_eq!(document["dropped"], drops, "{document:#}");
}

#[test]
fn what_the_sender_drops_before_a_queue_is_in_output() {
    let router = need!(Router::new("path_drop_out"));
    for (number, address) in (0..).zip(router.addresses()) {
        for (nth, hook) in (0..).zip(["output", "postrouting"]) {
            let port = 5500 + 10 * number + nth;
            drop_at(&router.client, "inet", hook, port);
            let document = follow_datagrams(&router, SocketAddr::new(address, port));
            assert_all_dropped(
                &document,
                "output",
                "NETFILTER_DROP",
                &format!("(hook {hook}) before the "),
            );
            let remedies = document["sentences"][0]["remedies"].to_string();
            assert!(
                remedies.contains("sockeye drops") && remedies.contains("nft list ruleset"),
                "{document:#}"
            );
        }
    }
}

/// A connection, so that there is something to be dropped: its segments, and those sent again.
#[test]
fn segments_that_the_sender_drops_are_in_output() {
    let router = need!(Router::new("path_drop_tcp"));
    for (number, address) in (0..).zip(router.addresses()) {
        let address = SocketAddr::new(address, 5540 + number);
        let listener = router.server.run(|| TcpListener::bind(address).unwrap());
        let mut sending = router.client.run(|| TcpStream::connect(address).unwrap());
        let accepted = listener.accept().unwrap();
        drop_at(&router.client, "inet", "output", address.port());
        let line = format!(
            "--format json -N {} dport = :{}",
            router.client.name(),
            address.port()
        );
        let following = Following::start(&router.lab, &line);
        sending.write_all(&[7; 100]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let document = following.document();
        let row = hop(&document, "out", "output");
        assert!(row["drops"].as_u64().unwrap() > 0, "{document:#}");
        assert_eq!(row["drops"], document["followed"], "{document:#}");
        // On a busy machine it has stood still for a second before, which is said first.
        let mut sentences = document["sentences"].as_array().unwrap().iter();
        let drops = sentences.find(|sentence| sentence["code"] == "drops").unwrap();
        let text = drops["text"].as_str().unwrap();
        assert!(text.contains("(hook output) before the device"), "{text}");
        drop(accepted);
    }
}

/// Without a route there is no header of the network layer when TCP drops.
#[test]
fn segments_without_a_route_are_in_output() {
    let router = need!(Router::new("path_drop_route"));
    for (number, address) in (0..).zip(router.addresses()) {
        let address = SocketAddr::new(address, 5550 + number);
        let listener = router.server.run(|| TcpListener::bind(address).unwrap());
        let mut sending = router.client.run(|| TcpStream::connect(address).unwrap());
        let accepted = listener.accept().unwrap();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        router
            .client
            .ip(&format!("route add blackhole {}/{bits}", address.ip()));
        let line = format!(
            "--format json dst {} and dport = :{}",
            address.ip(),
            address.port()
        );
        let following = Following::start(&router.lab, &line);
        sending.write_all(&[7; 100]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let document = following.document();
        let row = hop(&document, "out", "output");
        assert!(row["drops"].as_u64().unwrap() > 0, "{document:#}");
        drop(accepted);
    }
}

#[test]
fn drops_of_some_are_counted_of_all_that_were_sent() {
    let router = need!(Router::new("path_drop_some"));
    let address = SocketAddr::new(router.addresses()[0], 5560);
    let _receiving = router.server.run(|| UdpSocket::bind(address).unwrap());
    let rules = "add table inet lab; add chain inet lab lab { type filter hook output priority 0; }; \
                 add rule inet lab lab udp dport 5560 numgen inc mod 4 == 0 drop";
    router.client.output("nft", &[rules]);
    let document = follow_datagrams(&router, address);
    assert_eq!(hop(&document, "out", "output")["drops"], SENT / 4, "{document:#}");
    let sentences = document["sentences"].as_array().unwrap().iter();
    let texts: Vec<_> = sentences
        .map(|sentence| sentence["text"].as_str().unwrap())
        .collect();
    let expected = format!(
        "{} of {SENT} packets (25 %) are dropped by the packet filter",
        SENT / 4
    );
    assert!(texts.iter().any(|text| text.starts_with(&expected)), "{texts:#?}");
    assert!(!texts[0].starts_with(&expected), "{texts:#?}");
}

#[test]
fn drops_of_a_router_are_where_it_drops() {
    let router = need!(Router::new("path_drop_router"));
    for (number, address) in (0..).zip(router.addresses()) {
        let hooks = [
            ("prerouting", "prerouting"),
            ("forward", "forward"),
            ("postrouting", "forward"),
        ];
        for (nth, (hook, kind)) in (0..).zip(hooks) {
            let port = 5570 + 10 * number + nth;
            drop_at(&router.router, "inet", hook, port);
            let document = follow_datagrams(&router, SocketAddr::new(address, port));
            let words = format!(
                "by the packet filter (hook {hook}), after {} has received",
                router.near
            );
            assert_all_dropped(&document, kind, "NETFILTER_DROP", &words);
            let rules = format!("sockeye ns exec {} nft list ruleset", router.router.name());
            assert_eq!(document["sentences"][0]["remedies"][1], rules, "{document:#}");
        }
        let port = 5573 + 10 * number;
        drop_at(&router.server, "inet", "input", port);
        let document = follow_datagrams(&router, SocketAddr::new(address, port));
        assert_all_dropped(&document, "stack", "NETFILTER_DROP", "(hook input), after ");
    }
}

#[test]
fn packets_without_a_route_and_too_large_ones_are_not_on_their_way_to_a_socket() {
    let router = need!(Router::new("path_drop_forward"));
    let document = follow_datagrams(&router, "203.0.113.9:5590".parse().unwrap());
    assert_all_dropped(
        &document,
        "forward",
        "IP_INNOROUTES",
        "where the route is looked up",
    );
}

/// The sender has a wrong address of the router.
#[test]
fn packets_for_another_mac_address_are_dropped() {
    let router = need!(Router::new("path_drop_mac"));
    for (number, address) in (0..).zip(router.addresses()) {
        let (v4, v6) = router.links[0].server_addresses();
        let gateway = if address.is_ipv4() { v4 } else { v6 };
        router.client.ip(&format!(
            "neigh replace {gateway} lladdr 02:00:00:00:00:99 dev {} nud permanent",
            router.links[0].devices().0
        ));
        let document = follow_datagrams(&router, SocketAddr::new(address, 5595 + number));
        assert_all_dropped(&document, "prerouting", "OTHERHOST", "another MAC address");
    }
}

/// Segments that come while one before them is missing wait in TCP, and not for their program.
#[test]
fn segments_behind_a_lost_one_wait_in_order() {
    let router = need!(Router::new("path_order"));
    let address = SocketAddr::new(router.addresses()[0], 5640);
    let rules = "add table inet lab; add chain inet lab lab { type filter hook forward priority 0; }; \
                 add rule inet lab lab tcp dport 5640 meta length > 1000 numgen inc mod 10 == 5 drop";
    router.router.output("nft", &[rules]);
    let listener = router.server.run(|| TcpListener::bind(address).unwrap());
    let mut sending = router.client.run(|| TcpStream::connect(address).unwrap());
    let (mut reading, _) = listener.accept().unwrap();
    let following = Following::start(&router.lab, "--format json --port 5640");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..100 {
                sending.write_all(&[7; 20_000]).unwrap();
            }
        });
        let mut buffer = vec![0; 65_536];
        while reading.read(&mut buffer).unwrap() > 0 {}
    });
    let document = following.document();
    assert!(document["dropped"].as_u64().unwrap() > 0, "{document:#}");
    let order = hop(&document, "in", "order");
    assert!(order["packets"].as_u64().unwrap() > 0, "{document:#}");
    assert!(order["max_ns"].as_u64().unwrap() > 0, "{document:#}");
}
