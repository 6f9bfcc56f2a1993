//! `sockeye drops`: columns, order, and the bound of what counting may take.

use super::drops::{Watching, alone, rows, send, sum, value};
use crate::fixtures::binary::{words, words_in};
use rustix::process::Signal;
use serde_json::Value;
use sockeye_lab::{need, program};
use std::net::{TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn columns_and_order_are_those_that_were_asked_for() {
    let (lab, here) = need!(alone("drops-columns"));
    let refuse = || {
        here.run(|| {
            for _ in 0..5 {
                TcpStream::connect("127.0.0.1:9").unwrap_err();
            }
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.send_to(b"x", "127.0.0.1:9").unwrap();
        });
    };
    let watching = Watching::start(&lab, &here, "-N /proc/self/ns/net --format json --sort count");
    refuse();
    let document = watching.end();
    let counts: Vec<_> = rows(&document, &here, "NO_SOCKET")
        .iter()
        .map(|row| row["count"].as_u64().unwrap())
        .collect();
    assert!(counts.len() >= 2 && counts.is_sorted(), "{document:#}");
    assert_eq!(document["interrupted"], true, "{document:#}");
    let outcome = words_in(
        &here,
        "drops -d 0.1 -N /proc/self/ns/net --format csv --columns reason,count",
    );
    let header = outcome.ok().lines().next().unwrap().to_owned();
    assert!(header.ends_with("reason,count"), "{outcome}");
    let outcome = words("drops --columns help");
    assert!(outcome.ok().contains("estimated"), "{outcome}");
    assert!(
        words("drops --counters --columns help")
            .ok()
            .contains("remainder")
    );
    let outcome = words("drops --columns nothing");
    assert!(outcome.failed(2).contains("nothing"), "{outcome}");
    let outcome = words("drops --sort nothing");
    assert!(outcome.failed(2).contains("nothing"), "{outcome}");
    let outcome = words("drops --cpu 101%");
    assert!(outcome.failed(2).contains("percentage"), "{outcome}");
}

#[test]
fn more_than_the_budget_is_sampled_and_estimated() {
    let (lab, here) = need!(alone("drops-budget"));
    let receiver = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 4096).unwrap();
    let before = value(&here, "snmp", "Udp", "RcvbufErrors");
    let watching = Watching::start(&lab, &here, "--cpu 0.005% --format json");
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(2) {
        send(&sender, receiver.local_addr().unwrap(), 100, 1000);
    }
    let dropped = value(&here, "snmp", "Udp", "RcvbufErrors") - before;
    let document = watching.end();
    assert!(document["sampled_every"].as_u64().unwrap() > 1, "{document:#}");
    let rows = rows(&document, &here, "SOCKET_RCVBUFF");
    let estimated: u64 = rows.iter().filter_map(|row| row["estimated"].as_u64()).sum();
    assert!(estimated > 0 && estimated < sum(&rows), "{document:#}");
    // The number of the reason is exact, and estimates fit it.
    let sums = document["counted_by_reason"].as_array().unwrap();
    let sum_of_reason = sums.iter().find(|sum| sum["reason"] == "SOCKET_RCVBUFF").unwrap();
    let counted = sum_of_reason["count"].as_u64().unwrap();
    assert!(counted >= dropped, "{dropped} were dropped: {document:#}");
    assert!(sum(&rows) <= counted, "{document:#}");
    if counted == dropped {
        assert_eq!(sum(&rows), dropped, "{document:#}");
    }
    // What is sampled is not taken for evicted.
    assert!(
        rows.iter().all(|row| row.get("evicted").is_none()),
        "{document:#}"
    );
    let watching = Watching::start(&lab, &here, "--cpu 0 --format json");
    send(&sender, receiver.local_addr().unwrap(), 100, 500);
    assert_eq!(watching.end().get("sampled_every"), None);
}

/// A connection that cannot be made, and whose socket stays for some time.
const UNANSWERED: &str = "
import socket, sys, time
client = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
client.setblocking(False)
client.connect_ex((sys.argv[1], 9))
time.sleep(60)
";

/// When the packet is dropped, the connection has failed already: its socket is in no table of the kernel, but still is one of its process.
#[test]
fn connection_without_a_neighbor_drops_packets_of_its_process() {
    need!(program("python3"));
    for (family, ours, peer) in [
        ("ipv4", "192.0.2.1/24", "192.0.2.7"),
        ("ipv6", "fd00::1/64 nodad", "fd00::7"),
    ] {
        let (lab, here) = need!(alone("drops-neighbor"));
        here.ip("link add n0 type veth peer name n1");
        for line in ["link set n0 up", "link set n1 up"] {
            here.ip(line);
        }
        if family == "ipv6" {
            here.sysctl("ipv6/conf/n0/disable_ipv6", "0");
        }
        here.ip(&format!("addr add {ours} dev n0"));
        // The neighbor is given up after the sockets can be listed again: they are, once a second.
        here.sysctl(&format!("{family}/neigh/n0/mcast_solicit"), "1");
        here.sysctl(&format!("{family}/neigh/n0/retrans_time_ms"), "2000");
        let watching = Watching::start(&lab, &here, "-n --packets --format jsonl -N /proc/self/ns/net");
        let mut command = here.command("python3", &["-c", UNANSWERED, peer]);
        let mut child = command.stdin(Stdio::null()).spawn().expect("python3");
        std::thread::sleep(Duration::from_secs(4));
        let outcome = watching.end_by(Signal::INT);
        let owner = format!("python3({})", child.id());
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        let packets = outcome.ok().lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line
        });
        let packets: Vec<Value> = packets
            .filter(|packet| packet["protocol"] == "tcp" && packet["destination"]["ip"] == peer)
            .collect();
        assert!(!packets.is_empty(), "{outcome}");
        for packet in packets {
            assert_eq!(
                (&packet["class"], &packet["owner_name"]),
                (&"loss".into(), &owner.as_str().into()),
                "{packet:#}"
            );
        }
    }
}
