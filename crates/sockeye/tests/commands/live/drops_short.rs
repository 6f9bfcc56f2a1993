//! `sockeye drops`: owners of sockets that live too short for a listing.

use super::drops::{Watching, alone, rows, sum};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program};
use std::process::Child;

/// A program that asks as many questions, each by a socket of its own, and lives on.
const RESOLVER: &str = "
import socket, time
for number in range(20):
    question = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        if number % 2:
            question.sendto(b'x', ('127.0.0.1', 7701))
        else:
            question.connect(('127.0.0.1', 7701))
            question.send(b'x')
    except OSError:
        pass
    question.close()
for _ in range(10):
    opened = socket.socket()
    opened.setblocking(False)
    opened.connect_ex(('127.0.0.1', 7701))
    opened.close()
time.sleep(1.5)
";

/// A namespace whose rules drop what is sent to port 7701.
fn behind_a_rule(purpose: &str) -> Result<(Lab, Namespace), Skip> {
    program("nft")?;
    program("python3")?;
    let (lab, here) = alone(purpose)?;
    here.output(
        "nft",
        &[
            "add table ip o; add chain ip o c { type filter hook output priority 0; }; \
           add rule ip o c udp dport 7701 drop; add rule ip o c tcp dport 7701 drop",
        ],
    );
    Ok((lab, here))
}

fn of_protocol<'a>(rows: &[&'a Value], protocol: &str) -> Vec<&'a Value> {
    let mut rows = rows.to_vec();
    rows.retain(|row| row["protocol"] == protocol);
    rows
}

#[test]
fn sockets_that_live_a_moment_have_one_row_of_their_process() {
    let (lab, here) = need!(behind_a_rule("drops-short"));
    let watching = Watching::start(&lab, &here, "--format json");
    here.output("python3", &["-c", RESOLVER]);
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    let datagrams = of_protocol(&rows, "udp");
    assert_eq!(sum(&datagrams), 20, "{document:#}");
    assert!(
        datagrams.iter().all(|row| row["process"]["comm"] == "python3"),
        "{document:#}"
    );
    // Those with a peer and those without.
    assert_eq!(datagrams.len(), 2, "{document:#}");
    for row in datagrams {
        assert_eq!(row["sockets"], 10, "{row:#}");
        assert_eq!(row["owner_by"], "current", "{row:#}");
        assert!(row["local"].get("port").is_none(), "{row:#}");
    }
    let opens = of_protocol(&rows, "tcp");
    assert!(sum(&opens) >= 10, "{document:#}");
    assert!(
        opens.iter().all(|row| row["process"]["comm"] == "python3"),
        "{document:#}"
    );
    assert_eq!(opens.len(), 1, "{document:#}");
}

#[test]
fn filter_by_owner_finds_packets_of_sockets_that_live_a_moment() {
    let (lab, here) = need!(behind_a_rule("drops-short-filter"));
    for options in ["", "--packets"] {
        let line = format!("{options} --format json -N {} owner = python3", here.name());
        let watching = Watching::start(&lab, &here, &line);
        here.output("python3", &["-c", RESOLVER]);
        let document = watching.end();
        let all = document[if options.is_empty() {
            "drops"
        } else {
            "dropped_packets"
        }]
        .as_array();
        let datagrams: Vec<&Value> = all
            .unwrap()
            .iter()
            .filter(|row| row["protocol"] == "udp")
            .collect();
        let count = match options {
            "" => sum(&datagrams),
            _ => datagrams.len() as u64,
        };
        assert_eq!(count, 20, "{document:#}");
        assert_eq!(document["owner_unknown"].as_u64().unwrap_or(0), 0, "{document:#}");
    }
}

/// A process that is nearly always the current one, with sockets of its own.
const BUSY: &str = "
import socket
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
for one in sockets: one.bind(('127.0.0.1', 0))
while True: pass
";

/// Datagrams of short-lived sockets that are dropped later, by a timer: their neighbor does not answer. The sockets are still open then, but in no listing.
const LATE: &str = "
import socket, time
sockets = []
for _ in range(3):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.connect(('10.77.0.9', 9))
    one.send(b'x')
    sockets.append(one)
time.sleep(2.5)
";

struct Ended(Vec<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn process_that_a_timer_interrupts_is_not_the_owner() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-busy"));
    here.ip("link add x0 type veth peer name x1");
    here.ip("address add 10.77.0.1/24 dev x0");
    here.ip("link set x0 up");
    here.ip("link set x1 up");
    here.sysctl("ipv4/neigh/x0/retrans_time_ms", "300");
    let processors = std::thread::available_parallelism().unwrap().get();
    let busy = (0..processors).map(|_| here.command("python3", &["-c", BUSY]).spawn().unwrap());
    let _busy = Ended(busy.collect());
    let watching = Watching::start(&lab, &here, "--format json");
    let late = Ended(vec![here.command("python3", &["-c", LATE]).spawn().unwrap()]);
    let pid = late.0[0].id();
    let mut late = late;
    late.0[0].wait().unwrap();
    let document = watching.end();
    let all = document["drops"].as_array().unwrap().iter();
    let of_here: Vec<&Value> = all
        .filter(|row| row["netns_inode"] == here.inode() && row["protocol"] == "udp")
        .collect();
    assert_eq!(sum(&of_here), 3, "{document:#}");
    for row in of_here {
        let owner = row["process"].get("pid");
        assert!(owner.is_none_or(|owner| *owner == pid), "{row:#}");
        assert_ne!(row["owner_by"], "current", "{row:#}");
    }
}
