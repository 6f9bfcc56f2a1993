//! `sockeye drops`: which rule of the packet filter dropped a packet, and what it counted.

use super::drops::{Watching, alone, counter, rows, send, sum};
use serde_json::{Value, json};
use sockeye_lab::{Namespace, need, program, wait_until};
use std::net::UdpSocket;

/// The number of the rule with this text.
#[track_caller]
fn handle(namespace: &Namespace, text: &str) -> u64 {
    let listed = namespace.output("nft", &["-a", "list", "ruleset"]);
    let line = listed.lines().find(|line| line.contains(text));
    let line = line.unwrap_or_else(|| panic!("no {text:?} in {listed}"));
    let number = line.rsplit("# handle ").next().unwrap();
    number.trim().parse().unwrap()
}

/// The lines of counters of rules of this namespace.
fn rule_counters<'a>(document: &'a Value, namespace: &Namespace) -> Vec<&'a Value> {
    let all = document["counters"].as_array().unwrap().iter();
    all.filter(|line| line["netns_inode"] == namespace.inode() && line["counter"] == "nft packets")
        .collect()
}

#[test]
fn rule_that_drops_is_named_and_its_counter_explained() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-rule"));
    let bind = || here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let (hit, innocent, sender) = (bind(), bind(), bind());
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    let rules = format!(
        "add table inet t; add chain inet t in {{ type filter hook input priority 0; }}; \
         add rule inet t in udp dport {} counter drop; add rule inet t in udp dport {} counter drop",
        port(&innocent),
        port(&hit)
    );
    here.output("nft", &[rules]);
    let watching = Watching::start(&lab, &here, "--format json");
    send(&sender, hit.local_addr().unwrap(), 10, 30);
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 30, "{document:#}");
    let number = handle(&here, &format!("udp dport {} ", port(&hit)));
    let rule = json!({"family": "inet", "table": "t", "chain": "in", "handle": number});
    assert!(
        rows.iter().all(|row| row["firewall_rule"] == rule),
        "{document:#}"
    );
    let line = counter(&document, &here, "nft packets");
    assert_eq!(line["of"], format!("inet t in {number}"), "{line:#}");
    assert_eq!((&line["moved"], &line["remainder"]), (&30.into(), &0.into()));
    // The other rule dropped nothing.
    assert_eq!(rule_counters(&document, &here).len(), 1, "{document:#}");
}

#[test]
fn rule_without_a_counter_is_named() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-uncounted"));
    let bind = || here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let (receiver, sender) = (bind(), bind());
    let port = receiver.local_addr().unwrap().port();
    let rules = format!(
        "add table ip f; add chain ip f out {{ type filter hook output priority 0; }}; add rule ip f out udp dport {port} drop"
    );
    here.output("nft", &[rules]);
    let watching = Watching::start(&lab, &here, "--format json");
    for _ in 0..7 {
        // The sender gets an error: its own host drops.
        sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap_err();
    }
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 7, "{document:#}");
    let number = handle(&here, "udp dport");
    let rule = json!({"family": "ip", "table": "f", "chain": "out", "handle": number});
    assert_eq!(rows[0]["firewall_rule"], rule, "{document:#}");
    assert_eq!(rule_counters(&document, &here).len(), 0, "{document:#}");
}

#[test]
fn policy_that_drops_is_named() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-policy-alone"));
    let bind = || here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let (receiver, sender) = (bind(), bind());
    here.output(
        "nft",
        &["add table ip f; add chain ip f in { type filter hook input priority 0; policy drop; }; add rule ip f in tcp dport 1 accept"],
    );
    let watching = Watching::start(&lab, &here, "--format json");
    send(&sender, receiver.local_addr().unwrap(), 10, 9);
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 9, "{document:#}");
    assert_eq!(
        rows[0]["firewall_rule"],
        json!({"family": "ip", "table": "f", "chain": "in"}),
        "{document:#}"
    );
}

/// Two sockets whose datagrams are dropped by a rule each, and the numbers of the rules.
fn two_rules(here: &Namespace) -> ([UdpSocket; 2], [u64; 2]) {
    let receivers = [(); 2].map(|()| here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()));
    let ports = [0, 1].map(|nth: usize| receivers[nth].local_addr().unwrap().port());
    let rules: String = ports
        .iter()
        .map(|port| format!("; add rule inet t in udp dport {port} counter drop"))
        .collect();
    here.output(
        "nft",
        &[format!(
            "add table inet t; add chain inet t in {{ type filter hook input priority 0; }}{rules}"
        )],
    );
    let handles = ports.map(|port| handle(here, &format!("udp dport {port} ")));
    (receivers, handles)
}

#[test]
fn rule_of_the_first_packets_is_not_that_of_all() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-two-rules"));
    let (receivers, handles) = two_rules(&here);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--format json");
    for (receiver, count) in receivers.iter().zip([1025, 1000]) {
        send(&sender, receiver.local_addr().unwrap(), 10, count);
    }
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 2025, "{document:#}");
    for row in &rows {
        let handle = row["firewall_rule"]["handle"].as_u64();
        let counted = match handle {
            Some(handle) if handle == handles[0] => 1025,
            Some(_) => 1000,
            None => continue,
        };
        assert!(row["count"].as_u64() <= Some(counted), "{document:#}");
    }
    let latest = rows
        .iter()
        .flat_map(|row| row["seen_packets"].as_array().unwrap());
    let port = receivers[1].local_addr().unwrap().port();
    assert!(
        latest.clone().any(|packet| packet["destination"]["port"] == port),
        "{document:#}"
    );
}

#[test]
fn rules_that_come_and_go_meanwhile_are_noted() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-new-rule"));
    let (receivers, handles) = two_rules(&here);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let other = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
    send(&sender, receivers[0].local_addr().unwrap(), 10, 5);
    here.output("nft", &[format!("delete rule inet t in handle {}", handles[0])]);
    let port = other.local_addr().unwrap().port();
    here.output(
        "nft",
        &[format!("add rule inet t in udp dport {port} counter drop")],
    );
    send(&sender, other.local_addr().unwrap(), 10, 8);
    let (document, notes) = watching.end_with_notes();
    assert!(notes.contains("1 added and 1 removed"), "{notes}");
    let lines = rule_counters(&document, &here);
    let added = handle(&here, &format!("udp dport {port} "));
    let [line] = &lines[..] else {
        panic!("{document:#}");
    };
    assert_eq!(
        (&line["of"], &line["moved"]),
        (&format!("inet t in {added}").into(), &8.into())
    );
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 13, "{document:#}");
}

#[test]
fn each_packet_has_its_rule() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-packet-rule"));
    let (receivers, handles) = two_rules(&here);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--packets --format json");
    for _ in 0..5 {
        for receiver in &receivers {
            send(&sender, receiver.local_addr().unwrap(), 10, 1);
        }
    }
    let document = watching.end();
    let all = document["dropped_packets"].as_array().unwrap().iter();
    let of_here = all.filter(|packet| packet["netns_inode"] == here.inode());
    let found: Vec<_> = of_here
        .map(|packet| packet["firewall_rule"]["handle"].as_u64())
        .collect();
    let expected: Vec<_> = (0..5).flat_map(|_| handles.map(Some)).collect();
    assert_eq!(found, expected, "{document:#}");
}

#[test]
fn rules_of_iptables_are_named_also_without_an_expression_of_nf_tables() {
    need!(program("iptables-nft"));
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-iptables"));
    let rules = [
        "-m multiport --dports 4015,4016 -j DROP",
        "--dport 4014 -j REJECT",
        "--dport 4012 -m comment --comment <b>x</b> -j DROP",
        "--dport 4017 -m string --algo bm --string xx -j DROP",
    ];
    for rule in rules {
        let line = format!("-A INPUT -p udp {rule}");
        here.output("iptables-nft", &line.split(' ').collect::<Vec<_>>());
    }
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--packets --format json");
    let ports = [4014, 4012, 4015, 4017];
    for port in ports {
        // A rejected one has an error, which the next call may get.
        let _ = sender.send_to(b"axxb", ("127.0.0.1", port));
        let _ = sender.take_error();
    }
    let document = watching.end();
    let all = document["dropped_packets"].as_array().unwrap().iter();
    let of_here =
        all.filter(|packet| packet["netns_inode"] == here.inode() && packet["reason"] == "NETFILTER_DROP");
    let found: Vec<_> = of_here
        .map(|packet| {
            (
                packet["destination"]["port"].as_u64().unwrap(),
                packet["firewall_rule"]["handle"].as_u64(),
            )
        })
        .collect();
    let texts = ["4014", "4012", "4015", "4017"];
    let expected: Vec<_> = texts
        .map(|text| (text.parse().unwrap(), Some(handle(&here, text))))
        .to_vec();
    assert_eq!(found, expected, "{document:#}");
}

#[test]
fn rules_of_iptables_legacy_are_said_to_be_unknown() {
    need!(program("iptables-legacy"));
    let (lab, here) = need!(alone("drops-legacy"));
    let rule = "-A INPUT -p udp --dport 4018 -j DROP";
    let status = here
        .command("iptables-legacy", &rule.split(' ').collect::<Vec<_>>())
        .output();
    if !status.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this kernel has no tables of iptables-legacy");
        return;
    }
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
    send(&sender, "127.0.0.1:4018".parse().unwrap(), 10, 5);
    let (document, notes) = watching.end_with_notes();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 5, "{document:#}");
    assert!(
        rows.iter().all(|row| row.get("firewall_rule").is_none()),
        "{document:#}"
    );
    assert!(notes.contains("tables of iptables-legacy"), "{notes}");
}

#[test]
fn row_of_which_another_rule_has_counted_most_has_no_rule() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-other-rule"));
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    // Port and addresses, by which packets are counted apart, are the same.
    let rules = "add table ip f; add chain ip f i { type filter hook input priority 0; }; \
                 add rule ip f i udp dport 7911 udp length 18 counter drop; add rule ip f i udp dport 7911 drop";
    here.output("nft", &[rules]);
    let watching = Watching::start(&lab, &here, "--format json");
    let to = "127.0.0.1:7911".parse().unwrap();
    send(&sender, to, 10, 70);
    // The headers of the latest packets are kept, at most one a millisecond.
    for _ in 0..30 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        send(&sender, to, 20, 1);
    }
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 100, "{document:#}");
    assert!(
        rows.iter().all(|row| row.get("firewall_rule").is_none()),
        "{document:#}"
    );
    let line = counter(&document, &here, "nft packets");
    assert_eq!(line["moved"], 70, "{line:#}");
}

/// Sends datagrams as frames to an address that a bridge does not know.
const BRIDGED: &str = "
import socket, struct
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('x0', 0))
ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 48, 0, 0, 64, 17, 0, *map(socket.inet_aton, ('10.9.9.1', '10.9.9.2')))
words = sum(struct.unpack('!10H', ip))
words = (words & 0xffff) + (words >> 16)
ip = ip[:10] + struct.pack('!H', ~words & 0xffff) + ip[12:]
ethernet = bytes([2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98, 8, 0])
for _ in range(12):
    out.send(ethernet + ip + struct.pack('!HHHH', 7, 9, 28, 0) + bytes(20))
";

#[test]
fn rule_of_a_bridge_is_named_and_its_counter_explained() {
    need!(program("nft"));
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-bridge"));
    here.ip("link add br0 type bridge");
    for pair in ["x", "y"] {
        here.ip(&format!("link add {pair}0 type veth peer name {pair}1"));
        here.ip(&format!("link set {pair}1 master br0"));
        for end in [0, 1] {
            here.ip(&format!("link set {pair}{end} up"));
        }
    }
    here.ip("link set br0 up");
    let forwards = || {
        here.output("ip", &["-d", "link", "show", "dev", "y1"])
            .contains("forwarding")
    };
    wait_until("the port of the bridge", forwards);
    let rules = "add table bridge f; add chain bridge f c { type filter hook forward priority 0; }; \
                 add rule bridge f c udp dport 9 counter drop";
    here.output("nft", &[rules]);
    let number = handle(&here, "udp dport 9");
    let watching = Watching::start(&lab, &here, "--format json");
    here.output("python3", &["-c", BRIDGED]);
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 12, "{document:#}");
    let rule = json!({"family": "bridge", "table": "f", "chain": "c", "handle": number});
    assert!(
        rows.iter().all(|row| row["firewall_rule"] == rule),
        "{document:#}"
    );
    let line = counter(&document, &here, "nft packets");
    assert_eq!((&line["moved"], &line["remainder"]), (&12.into(), &0.into()));
}

#[test]
fn rule_that_came_and_went_is_said_to_be_gone() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-gone-rule"));
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
    let rules = "add table ip f; add chain ip f i { type filter hook input priority 0; }; add rule ip f i udp dport 7912 drop";
    here.output("nft", &[rules]);
    send(&sender, "127.0.0.1:7912".parse().unwrap(), 10, 10);
    here.output("nft", &["flush", "ruleset"]);
    let (document, notes) = watching.end_with_notes();
    assert_eq!(sum(&rows(&document, &here, "NETFILTER_DROP")), 10, "{document:#}");
    assert!(
        notes.contains("10 packets were dropped by rules of the packet filter that were added and removed"),
        "{notes}"
    );
}
