//! `sockeye drops`: what explains a counter other than a drop with a reason of its own, and what a drop does not explain.

use super::drops::{Watching, alone, counter, rows, sum, value};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Sends RSTs and SYNs to a port that nothing listens on.
const STRAY: &str = "
import socket, struct
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
ip = socket.inet_aton('127.0.0.1')
def send(port, flags):
    tcp = struct.pack('!HHIIBBHHH', port, 9, 1, 0, 5 << 4, flags, 1000, 0, 0)
    total = sum(struct.unpack('!16H', ip + ip + struct.pack('!BBH', 0, 6, 20) + tcp))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    raw.sendto(tcp[:16] + struct.pack('!H', ~total & 0xffff) + tcp[18:], ('127.0.0.1', 0))
for number in range(3):
    send(4000 + number, 4)
";

/// The number of a counter that a cause explains, and what nothing does.
#[track_caller]
fn explained(document: &Value, here: &Namespace, name: &str, cause: &str) -> (u64, i64) {
    let line = counter(document, here, name);
    let mut parts = line["explained_by"].as_array().unwrap().iter();
    let part = parts.find(|part| part["cause"] == cause);
    let count = part.map_or(0, |part| part["count"].as_u64().unwrap());
    (count, line["remainder"].as_i64().unwrap())
}

#[test]
fn reset_without_a_socket_is_not_one_that_was_sent() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-stray"));
    let watching = Watching::start(&lab, &here, "--format json");
    here.output("python3", &["-c", STRAY]);
    let document = watching.end();
    assert_eq!(sum(&rows(&document, &here, "NO_SOCKET")), 3, "{document:#}");
    let mut lines = document["counters"].as_array().unwrap().iter();
    let is_it = |line: &Value| line["netns_inode"] == here.inode() && line["counter"] == "TcpOutRsts";
    assert!(!lines.any(is_it), "{document:#}");
}

#[test]
fn resets_of_closes_are_explained() {
    let (lab, here) = need!(alone("drops-aborts"));
    let watching = Watching::start(&lab, &here, "--format json");
    here.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for _ in 0..4 {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            client.write_all(b"unread").unwrap();
            accepted.peek(&mut [0; 6]).unwrap();
            drop(accepted);
        }
    });
    let sent = value(&here, "snmp", "Tcp", "OutRsts");
    let document = watching.end();
    assert_eq!(sent, 4);
    let found = explained(&document, &here, "TcpOutRsts", "close with unread data");
    assert_eq!(found, (4, 0), "{document:#}");
}

#[test]
fn sender_gets_an_error_for_what_its_queue_drops() {
    need!(program("tc"));
    let lab = need!(Lab::new("drops-sender"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let device = link.devices().0.to_owned();
    let tbf = format!("qdisc add dev {device} root tbf rate 8kbit burst 1600 limit 3000");
    here.output("tc", &tbf.split(' ').collect::<Vec<_>>());
    let sender = here.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let to = SocketAddr::new(link.server_addresses().0, 4000);
    let watching = Watching::start(&lab, &here, "--format json");
    for _ in 0..60 {
        let _ = sender.send_to(&[7; 1000], to);
    }
    let moved = value(&here, "snmp", "Udp", "SndbufErrors");
    let document = watching.end();
    assert!(moved > 40, "{document:#}");
    for name in ["UdpSndbufErrors", "IpOutDiscards"] {
        let (count, remainder) = explained(&document, &here, name, "QDISC_DROP");
        assert_eq!((count >= moved, remainder), (true, 0), "{name}: {document:#}");
    }
}

#[test]
fn datagram_that_an_output_rule_drops_is_discarded_output() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-output"));
    let rules = "add table ip f; add chain ip f o { type filter hook output priority 0; }; add rule ip f o udp dport 7915 drop";
    here.output("nft", &[rules]);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--format json");
    for _ in 0..6 {
        sender.send_to(b"x", "127.0.0.1:7915").unwrap_err();
    }
    let document = watching.end();
    let found = explained(&document, &here, "IpOutDiscards", "NETFILTER_DROP");
    assert_eq!(found, (6, 0), "{document:#}");
}

#[test]
fn blackhole_of_ipv6_is_a_loss() {
    let lab = need!(Lab::new("drops-blackhole"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&there, &here);
    let (from, to) = link.devices();
    for (namespace, device, address) in [(&there, from, "fd79::2/64"), (&here, to, "fd79::1/64")] {
        namespace.ip(&format!("addr add {address} dev {device} nodad"));
    }
    here.sysctl("ipv6/conf/all/forwarding", "1");
    here.ip("route add blackhole fd90::/64");
    there.ip("route add fd90::/64 via fd79::1");
    let sender = there.run(|| UdpSocket::bind("[::]:0").unwrap());
    let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
    for _ in 0..5 {
        sender.send_to(b"x", "[fd90::1]:9").unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    let document = watching.end();
    let rows: Vec<_> = rows(&document, &here, "NOT_SPECIFIED")
        .into_iter()
        .filter(|row| row["protocol"] == "udp")
        .collect();
    assert_eq!(sum(&rows), 5, "{document:#}");
    assert!(rows.iter().all(|row| row["class"] == "loss"), "{document:#}");
}
