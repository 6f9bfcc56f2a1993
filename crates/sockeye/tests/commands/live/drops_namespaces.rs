//! `sockeye drops`: network namespaces that are made or end while it watches, and what is said about those that are selected.

use super::drops::{Watching, alone, counter, rows, send, sum};
use sockeye_lab::{Namespace, need, program};
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

/// Sends as many datagrams to a port of this namespace without a socket.
fn refuse(namespace: &Namespace, times: usize) {
    namespace.run(|| {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..times {
            sender.send_to(b"x", "127.0.0.1:9").unwrap();
        }
    });
}

#[test]
fn namespace_that_is_made_meanwhile_is_named_and_its_counters_explained() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-made"));
    let watching = Watching::start(&lab, &here, "--format json");
    let made = lab.namespace("made");
    made.ip("link set lo up");
    refuse(&made, 19);
    let rules = "add table ip t; add chain ip t i { type filter hook input priority 0; }; add rule ip t i udp dport 9 counter drop";
    made.output("nft", &[rules]);
    refuse(&made, 5);
    let (document, notes) = watching.end_with_notes();
    let refused = rows(&document, &made, "NO_SOCKET");
    assert_eq!(sum(&refused), 19, "{document:#}");
    assert_eq!(refused[0]["netns"], made.name(), "{document:#}");
    let dropped = rows(&document, &made, "NETFILTER_DROP");
    assert_eq!(sum(&dropped), 5, "{document:#}");
    for (name, moved) in [("UdpNoPorts", 19), ("nft packets", 5)] {
        let line = counter(&document, &made, name);
        assert_eq!(
            (&line["moved"], &line["remainder"], &line["netns"]),
            (&moved.into(), &0.into(), &made.name().into()),
            "{line:#}"
        );
    }
    let line = counter(&document, &made, "UdpNoPorts");
    assert_eq!(line["advice"], format!("sockeye ns exec {} ss -uan", made.name()));
    assert!(notes.contains("new network namespaces: "), "{notes}");
    // Rules of a new namespace were not changed.
    assert!(!notes.contains("rules of the packet filter changed"), "{notes}");
}

/// Says its namespace, waits for a line, and sends eleven datagrams to a port without a socket.
const SHORT: &str = "
import os, socket, subprocess, sys
subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
print(os.stat('/proc/self/ns/net').st_ino, flush=True)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(11):
    out.sendto(b'x', ('127.0.0.1', 9))
sys.stdin.readline()
";

#[test]
fn counters_of_a_namespace_that_ends_are_those_of_its_last_reading() {
    need!(program("python3"));
    need!(program("unshare"));
    let (lab, here) = need!(alone("drops-ended"));
    let watching = Watching::start(&lab, &here, "--format json");
    let mut child = Command::new("unshare")
        .args(["-n", "python3", "-c", SHORT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let inode: u64 = line.trim().parse().unwrap();
    // It is read within a second, unless reading takes long.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    drop(child.stdin.take());
    child.wait().unwrap();
    let (document, notes) = watching.end_with_notes();
    let all = document["counters"].as_array().unwrap();
    let is_it = |line: &&serde_json::Value| line["netns_inode"] == inode && line["counter"] == "UdpNoPorts";
    let line = all.iter().find(is_it).unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(line["explained_by"][0]["count"], 11, "{line:#}");
    match line.get("moved") {
        Some(moved) => assert_eq!((moved, &line["remainder"]), (&11.into(), &0.into()), "{line:#}"),
        None => assert_eq!(line.get("remainder"), None, "{line:#}"),
    }
    assert!(notes.contains("ended meanwhile"), "{notes}");
}

#[test]
fn namespace_that_is_gone_before_its_counters_are_read_is_noted() {
    need!(program("python3"));
    need!(program("unshare"));
    let (lab, here) = need!(alone("drops-brief"));
    let watching = Watching::start(&lab, &here, "-d 5 --format json");
    // Counters are read where there are new combinations, once a second at most: this one is gone before.
    refuse(&here, 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let code = SHORT.replace("sys.stdin.readline()", "");
    let said = here.output("unshare", &["--net", "python3", "-c", &code]);
    let inode: u64 = said.trim().parse().unwrap();
    let (document, notes) = watching.end_with_notes();
    let all = document["drops"].as_array().unwrap().iter();
    let count: u64 = all
        .filter(|row| row["netns_inode"] == inode)
        .map(|row| row["count"].as_u64().unwrap())
        .sum();
    // A namespace of another test may have had the same inode before or afterwards.
    assert!(count >= 11, "{document:#}");
    let lines = document["counters"].as_array().unwrap().iter();
    let is_counted = lines.filter(|line| line["netns_inode"] == inode).count() > 0;
    let is_noted =
        notes.contains("made and ended between two readings") || notes.contains("that ended meanwhile");
    assert!(is_counted || is_noted, "{notes}\n{document:#}");
}

#[test]
fn evicted_drops_have_a_row_also_where_one_namespace_is_selected() {
    let (lab, here) = need!(alone("drops-evicted-one"));
    let watching = Watching::start(
        &lab,
        &here,
        &format!("-N {} --keys 16 --format json", here.name()),
    );
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let receivers: Vec<_> = (0..100)
        .map(|_| here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()))
        .collect();
    for receiver in &receivers {
        rustix::net::sockopt::set_socket_recv_buffer_size(receiver, 1).unwrap();
        send(&sender, receiver.local_addr().unwrap(), 1000, 20);
    }
    let document = watching.end();
    let all = document["drops"].as_array().unwrap().iter();
    let is_evicted = |row: &&serde_json::Value| row["reason"] == "SOCKET_RCVBUFF" && row["evicted"] == true;
    let evicted: Vec<_> = all.filter(is_evicted).collect();
    let known = rows(&document, &here, "SOCKET_RCVBUFF");
    let sums = document["counted_by_reason"].as_array().unwrap();
    let of_reason = sums.iter().find(|sum| sum["reason"] == "SOCKET_RCVBUFF").unwrap();
    assert!(sum(&evicted) > 0, "{document:#}");
    assert!(
        sum(&evicted) + sum(&known) <= of_reason["count"].as_u64().unwrap(),
        "{document:#}"
    );
    assert!(
        evicted.iter().all(|row| row.get("netns").is_none()),
        "{document:#}"
    );
}
