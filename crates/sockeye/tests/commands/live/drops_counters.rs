//! `sockeye drops`: which counter counts a drop, and what is known of counters that come and go.

use super::drops::{Watching, alone, counter, rows, send, sum, value};
use rustix::net::{AddressFamily, SocketType, socket};
use sockeye_lab::{Lab, Namespace, need, program, wait_until};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Sends frames on lo that are shorter than their IP header says, and frames that are shorter than their UDP header says.
const SHORT: &str = "
import socket, struct
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('lo', 0x800))
def frame(total, length):
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, total, 0, 0, 64, 17, 0, *[socket.inet_aton('127.0.0.1')] * 2)
    words = sum(struct.unpack('!10H', ip))
    words = (words & 0xffff) + (words >> 16)
    ip = ip[:10] + struct.pack('!H', ~words & 0xffff) + ip[12:]
    return bytes(12) + b'\\x08\\x00' + ip + struct.pack('!HHHH', 1, 9, length, 0) + bytes(20)
for _ in range(3):
    out.send(frame(2000, 28))
for _ in range(4):
    out.send(frame(48, 500))
";

/// Sends datagrams with a wrong checksum. One of up to 76 bytes would be verified when it arrives.
const WRONG: &str = "
import socket, struct, sys
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
for _ in range(4):
    out.sendto(struct.pack('!HHHH', 1, int(sys.argv[1]), 208, 0xbeef) + bytes(200), ('127.0.0.1', 0))
";

#[track_caller]
fn is_explained(document: &serde_json::Value, here: &Namespace, name: &str, moved: u64) {
    let line = counter(document, here, name);
    assert_eq!(
        (&line["moved"], &line["remainder"]),
        (&moved.into(), &0.into()),
        "{line:#}"
    );
}

#[test]
fn short_packet_of_ip_is_not_counted_by_udp() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-short"));
    // The frames come back from lo without the route that they were sent by.
    for setting in ["accept_local", "route_localnet"] {
        here.sysctl(&format!("ipv4/conf/all/{setting}"), "1");
    }
    let watching = Watching::start(&lab, &here, "--format json");
    here.output("python3", &["-c", SHORT]);
    let document = watching.end();
    assert_eq!(sum(&rows(&document, &here, "PKT_TOO_SMALL")), 7, "{document:#}");
    is_explained(&document, &here, "UdpInErrors", 4);
    is_explained(&document, &here, "IpExtInTruncatedPkts", 3);
}

#[test]
fn checksum_that_is_verified_by_recv_has_a_namespace_and_an_owner() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-recv"));
    let receiver = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    receiver.set_nonblocking(true).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
    here.output("python3", &["-c", WRONG, &port.to_string()]);
    here.run(|| receiver.recv(&mut [0; 300]).unwrap_err());
    let document = watching.end();
    let rows = rows(&document, &here, "UDP_CSUM");
    assert_eq!(sum(&rows), 4, "{document:#}");
    assert_eq!(rows[0]["process"]["pid"], std::process::id(), "{document:#}");
    is_explained(&document, &here, "UdpInErrors", 4);
    is_explained(&document, &here, "UdpInCsumErrors", 4);
}

#[test]
fn qdisc_that_is_gone_has_no_number() {
    need!(program("tc"));
    let (lab, here) = need!(alone("drops-qdisc-gone"));
    let [receiver, sender] = [(); 2].map(|()| here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()));
    let watching = Watching::start(&lab, &here, "--format json");
    let tbf = "qdisc add dev lo root tbf rate 8kbit burst 1600 limit 3000";
    here.output("tc", &tbf.split(' ').collect::<Vec<_>>());
    send(&sender, receiver.local_addr().unwrap(), 1000, 40);
    here.output("tc", &["qdisc", "del", "dev", "lo", "root"]);
    let document = watching.end();
    let dropped = sum(&rows(&document, &here, "QDISC_DROP"));
    assert!(dropped > 20, "{document:#}");
    let line = counter(&document, &here, "qdisc drops");
    assert_eq!(
        (line.get("moved"), line.get("remainder")),
        (None, None),
        "{line:#}"
    );
    assert_eq!(line["explained_by"][0]["count"], dropped, "{line:#}");
}

/// Begins to connect, without waiting for it.
fn begin_to_connect(address: SocketAddr) -> OwnedFd {
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::io::ioctl_fionbio(&client, true).unwrap();
    let _ = rustix::net::connect(&client, &address);
    client
}

#[test]
fn repeated_syn_that_is_answered_is_not_one_that_a_full_queue_dropped() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-repeated"));
    let listener = here.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let watching = Watching::start(&lab, &here, "--format json");
    // The answers are lost until the clients have repeated their SYNs.
    let port = address.port();
    here.output(
        "nft",
        &[format!(
            "add table ip f; add chain ip f in {{ type filter hook input priority 0; }}; add rule ip f in tcp sport {port} drop"
        )],
    );
    let clients: Vec<_> = here.run(|| (0..3).map(|_| begin_to_connect(address)).collect());
    let repeated = || value(&here, "netstat", "TcpExt", "TCPSynRetrans");
    wait_until("three repeated SYNs", || repeated() >= 3);
    std::thread::sleep(Duration::from_millis(300));
    here.output("nft", &["flush", "ruleset"]);
    wait_until("three connections", || {
        value(&here, "snmp", "Tcp", "PassiveOpens") == 3
    });
    let document = watching.end();
    drop(clients);
    for name in ["ListenDrops", "ListenOverflows"] {
        assert_eq!(value(&here, "netstat", "TcpExt", name), 0, "{name}");
    }
    let lines = document["counters"].as_array().unwrap().iter();
    let names: Vec<_> = lines
        .filter(|line| line["netns_inode"] == here.inode())
        .map(|line| line["counter"].as_str().unwrap())
        .collect();
    assert!(
        names.iter().all(|name| !name.contains("Listen")),
        "{names:?} {document:#}"
    );
}

/// Sends frames on lo of a protocol that nothing takes.
const UNHANDLED: &str = "
import socket
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('lo', 0))
for _ in range(10):
    out.send(bytes(12) + b'\\x88\\xb5' + bytes(50))
";

#[test]
fn normal_end_that_a_counter_counts_explains_it_without_being_shown() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-unhandled"));
    for all in ["", "--all"] {
        let watching = Watching::start(&lab, &here, &format!("{all} --format json"));
        here.output("python3", &["-c", UNHANDLED]);
        let document = watching.end();
        is_explained(&document, &here, "rx_dropped", 10);
        let shown = sum(&rows(&document, &here, "UNHANDLED_PROTO"));
        assert_eq!(shown, if all.is_empty() { 0 } else { 10 }, "{document:#}");
    }
}

#[test]
fn segment_without_a_route_is_counted_by_its_family() {
    let lab = need!(Lab::new("drops-no-route"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let (v4, v6) = link.server_addresses();
    for (server, counter, reason) in [
        (v4, "IpOutNoRoutes", "IP_OUTNOROUTES"),
        (v6, "Ip6OutNoRoutes", "NOT_SPECIFIED"),
    ] {
        let listener = there.run(|| TcpListener::bind((server, 0)).unwrap());
        let mut client = here.run(|| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let family = if server.is_ipv4() { "-4" } else { "-6" };
        let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
        here.output("ip", &[family, "route", "flush", "dev", link.devices().0]);
        for _ in 0..5 {
            // The error of the route, where the kernel reports it.
            let _ = client.write_all(b"x");
        }
        let document = watching.end();
        let rows = rows(&document, &here, reason);
        let dropped = sum(&rows);
        assert!(
            dropped >= 5 && rows.iter().all(|row| row["class"] == "loss"),
            "{document:#}"
        );
        is_explained(&document, &here, counter, dropped);
    }
}

#[test]
fn packet_to_pass_on_without_a_usable_route_is_a_loss() {
    let lab = need!(Lab::new("drops-ip-error"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&there, &here);
    here.sysctl("ipv4/ip_forward", "1");
    let gateway = link.server_addresses().0;
    there.ip(&format!("route add 203.0.113.0/24 via {gateway}"));
    for kind in ["blackhole", "prohibit", "unreachable"] {
        here.ip(&format!("route replace {kind} 203.0.113.0/24"));
        let sender = there.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
        for _ in 0..4 {
            // An ICMP error to an earlier one.
            let _ = sender.send_to(b"x", "203.0.113.1:9");
        }
        let document = watching.end();
        let rows = rows(&document, &here, "NOT_SPECIFIED");
        let rows: Vec<_> = rows
            .into_iter()
            .filter(|row| row["function"] == "ip_error")
            .collect();
        assert!(sum(&rows) > 0, "{kind}: {document:#}");
        assert!(rows.iter().all(|row| row["class"] == "loss"), "{document:#}");
        here.ip(&format!("route del {kind} 203.0.113.0/24"));
    }
}
