//! `sockeye drops` with a filter: which packets and rows it means.

use super::drops::{Watching, alone, rows, send, sum};
use crate::fixtures::binary::sockeye;
use rustix::process::Signal;
use serde_json::Value;
use sockeye_filter::words;
use sockeye_lab::{Lab, Namespace, need, program};
use std::net::{SocketAddr, UdpSocket};

/// A socket whose receive buffer is full after a few datagrams, and one that sends to it.
fn full(here: &Namespace) -> (UdpSocket, UdpSocket, SocketAddr) {
    let [receiver, sender] = [(); 2].map(|()| here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()));
    rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 4096).unwrap();
    let address = receiver.local_addr().unwrap();
    (receiver, sender, address)
}

/// The lines of single packets, without the summary.
fn lines_of(lab: &Lab, here: &Namespace, filter: &str, fault: impl FnOnce()) -> (Vec<Value>, Value) {
    let line = format!("--packets --format jsonl -N {} {filter}", here.name());
    let watching = Watching::start(lab, here, &line);
    fault();
    let outcome = watching.end_by(Signal::TERM);
    let mut lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.pop().unwrap()["summary"].take();
    (lines, summary)
}

#[test]
fn destination_port_is_that_of_the_packet_whichever_side_the_socket_is() {
    let (lab, here) = need!(alone("drops-dport"));
    let (_receiver, sender, address) = full(&here);
    let port = address.port();
    let fill = || send(&sender, address, 100, 200);
    let number_of = |filter: &str| lines_of(&lab, &here, filter, fill).0.len();
    assert!(number_of(&format!("dport = :{port}")) > 100);
    assert!(number_of(&format!("sport = :{port}")) > 100);
    assert_eq!(number_of(&format!("dport != :{port}")), 0);
    let filter = format!("dst 127.0.0.1 and dport = :{port}");
    let watching = Watching::start(&lab, &here, &format!("--format json {filter}"));
    fill();
    let document = watching.end();
    assert!(
        sum(&rows(&document, &here, "SOCKET_RCVBUFF")) > 100,
        "{document:#}"
    );
}

#[test]
fn owner_of_a_socket_that_is_younger_than_the_last_listing_is_known() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-young"));
    let code = "import socket, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
receiver.bind(('127.0.0.1', 0))
for _ in range(200):
    receiver.sendto(b'x' * 100, receiver.getsockname())
time.sleep(4)
";
    let fault = || {
        here.output("python3", &["-c", code]);
    };
    let (lines, summary) = lines_of(&lab, &here, "owner = python3", fault);
    assert!(lines.len() > 100, "{summary:#}");
    assert_eq!(summary["owner_unknown"], 0, "{summary:#}");
    let (lines, summary) = lines_of(&lab, &here, "", fault);
    let of_full = lines.iter().filter(|line| line["reason"] == "SOCKET_RCVBUFF");
    let is_owned = |line: &&Value| {
        let owner = line["owner_name"].as_str();
        owner.is_some_and(|owner| owner.starts_with("python3("))
    };
    let owned = of_full.clone().filter(is_owned).count();
    let full = of_full.clone().count();
    assert!(full > 100 && owned == full, "{owned} of {full} {summary:#}");
    for line in of_full {
        assert_eq!(line["process"]["comm"], "python3", "{line:#}");
        assert!(line["owner_by"].is_string(), "{line:#}");
    }
}

#[test]
fn packets_whose_owner_is_unknown_are_counted_where_the_filter_wants_one() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-unowned"));
    // The sender has no descriptor of the receiver, which ends before it is listed.
    let code = "import os, socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
receiver.bind(('127.0.0.1', 0))
address = receiver.getsockname()
if not os.fork():
    receiver.close()
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(200):
        sender.sendto(b'x' * 100, address)
    os._exit(0)
os.wait()
";
    let fault = || {
        here.output("python3", &["-c", code]);
    };
    let (lines, summary) = lines_of(&lab, &here, "owner = no-such-program", fault);
    assert!(lines.is_empty(), "{lines:#?}");
    assert!(summary["owner_unknown"].as_u64() > Some(100), "{summary:#}");
}

/// A condition with a word for a UDP socket at 127.0.0.1 of python: any value, where the word has numbers.
fn condition(word: &str, here: &Namespace, pid: u32, port: u16) -> Option<String> {
    let is_condition = |text: &String| sockeye_filter::parse(text, &sockeye_filter::NoResolve).is_ok();
    Some(match word {
        // Those of a packet, which other tests have; without a value, and one of the lab's host.
        "src" | "dst" | "sport" | "dport" | "dev" | "autobound" | "cgroup" => return None,
        "state" => "state closed".to_owned(),
        "exclude" => "exclude listening".to_owned(),
        "owner" => "owner ~ python*".to_owned(),
        "exe" => "exe ~ *python*".to_owned(),
        "container" | "unit" => format!("{word} ~ *"),
        "congestion" | "ulp" => format!("{word} = cubic"),
        "timer" => "timer = off".to_owned(),
        "proto" => "proto = udp".to_owned(),
        "family" => "family = inet".to_owned(),
        "peers" => return None,
        "pid" => format!("pid = {pid}"),
        "netns" => format!("netns = {}", here.name()),
        "fwmark" => "fwmark = 0".to_owned(),
        "drops" => "drops > 0".to_owned(),
        "rcvbuf" => format!("rcvbuf < 5000 and ( sport = :{port} or dport = :{port} )"),
        word => ["0", "0s", "0Mbit"]
            .map(|value| format!("{word} >= {value}"))
            .into_iter()
            .find(is_condition)
            .unwrap_or_else(|| panic!("no value for {word}: add one")),
    })
}

#[test]
fn each_word_selects_the_drops_of_a_live_socket_as_sockets_does() {
    use std::io::{BufRead as _, BufReader};
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-words"));
    let code = "import socket, sys
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
receiver.bind(('127.0.0.1', 0))
print(receiver.getsockname()[1], flush=True)
sys.stdin.read()
";
    let mut child = here
        .command("python3", &["-c", code])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let port: u16 = line.trim().parse().unwrap();
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    send(&sender, address, 100, 100);
    let mut selecting = Vec::new();
    for word in words::conditions() {
        let Some(condition) = condition(word.name, &here, child.id(), port) else {
            continue;
        };
        let filter = format!("sport = :{port} and ( {condition} )");
        let selected = sockeye(&["sockets", "-uan", "-H", "-N", here.name(), &filter]);
        if !selected.ok().is_empty() {
            selecting.push(condition);
        }
    }
    // What a UDP socket has: the others are of TCP.
    assert!(selecting.len() > 25, "{selecting:?}");
    for conditions in selecting.chunks(8) {
        let watching: Vec<_> = conditions
            .iter()
            .map(|condition| {
                let line = format!("--format json -N {} {condition}", here.name());
                (condition, Watching::start(&lab, &here, &line))
            })
            .collect();
        send(&sender, address, 100, 50);
        for (condition, watching) in watching {
            let (document, notes) = watching.end_with_notes();
            let full = sum(&rows(&document, &here, "SOCKET_RCVBUFF"));
            assert_eq!(full, 50, "{condition}: {notes} {document:#}");
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
