//! A host with enough TCP sockets that they are dumped as two halves at once: each is listed, and once.

use crate::fixtures::binary::words_in;
use crate::fixtures::envelope;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use sockeye_lab::{Lab, Skip, need};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// More than 10,000 sockets, from when on it is two halves.
const CONNECTIONS: usize = 5_200;
const DESCRIPTORS: u64 = 2 * CONNECTIONS as u64 + 500;

#[test]
fn each_socket_of_a_big_dump_is_listed_once() {
    let lab = need!(Lab::new("big"));
    need!(enough_descriptors());
    let crowd = lab.namespace("crowd");
    // The halves part at 46883, the middle of the range of ephemeral ports.
    let held = crowd.run(|| {
        let listeners: Vec<TcpListener> = [80, 46_882, 46_883, 46_884]
            .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap())
            .into();
        let mut ends = Vec::new();
        for nth in 0..CONNECTIONS {
            let listener = &listeners[nth % listeners.len()];
            ends.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            ends.push(listener.accept().unwrap().0);
        }
        (listeners, ends)
    });
    let (listeners, ends) = &held;
    let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let made: BTreeMap<(SocketAddr, SocketAddr), usize> = ends
        .iter()
        .map(|end| (end.local_addr().unwrap(), end.peer_addr().unwrap()))
        .chain(
            listeners
                .iter()
                .map(|listener| (listener.local_addr().unwrap(), unspecified)),
        )
        .map(|ends| (ends, 1))
        .collect();

    for line in [
        "sockets -tan --format csv -H --columns local,peer",
        "sockets -tan --source diag-v2 --format csv -H --columns local,peer",
    ] {
        let outcome = words_in(&crowd, line);
        let mut listed = BTreeMap::new();
        for row in envelope::without_time(outcome.quiet()).lines() {
            let fields: Vec<&str> = row.split(',').collect();
            let end =
                |at: usize| SocketAddr::new(fields[at].parse().unwrap(), fields[at + 1].parse().unwrap());
            let half = fields.len() / 2;
            *listed.entry((end(0), end(half))).or_insert(0) += 1;
        }
        assert!(
            listed == made,
            "{line}: {} listed, {} made",
            listed.len(),
            made.len()
        );
    }
    // Several threads write rows: every format stays whole.
    for line in ["sockets -tan", "sockets -tanp", "sockets -tano -H"] {
        let outcome = words_in(&crowd, line);
        let mut listed = BTreeMap::new();
        for row in outcome.quiet().lines().filter(|row| !row.starts_with("State ")) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let end = |cell: &str| cell.replace(":*", ":0").parse::<SocketAddr>().expect(row);
            *listed.entry((end(cells[3]), end(cells[4]))).or_insert(0) += 1;
        }
        assert!(listed == made, "{line}: {} listed", listed.len());
    }
    let ends_of = |socket: &Value| {
        let end = |key: &str| {
            let ip = socket[key]["ip"].as_str().unwrap().parse().unwrap();
            SocketAddr::new(ip, socket[key]["port"].as_u64().unwrap() as u16)
        };
        (end("local"), end("peer"))
    };
    let count = |sockets: &[Value]| {
        let mut listed = BTreeMap::new();
        for socket in sockets {
            *listed.entry(ends_of(socket)).or_insert(0) += 1;
        }
        listed
    };
    let outcome = words_in(&crowd, "sockets -tani --format json");
    let document: Value = serde_json::from_str(outcome.quiet()).unwrap();
    let sockets = document["sockets"].as_array().unwrap();
    assert!(count(sockets) == made && sockets.iter().all(|socket| socket["state"].is_string()));
    let outcome = words_in(&crowd, "sockets -tanp --format jsonl");
    let mut lines: Vec<Value> = outcome
        .quiet()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["summary"]["interrupted"], false, "{summary}");
    assert!(count(&lines) == made);
    let first = words_in(&crowd, "sockets -tan --top 3000 -H");
    assert_eq!(first.stdout.iter().filter(|&&byte| byte == b'\n').count(), 3000);

    let flows = words_in(
        &crowd,
        "flows -n --group-by netns --format csv -H --columns connections",
    );
    let folded: usize = envelope::without_time(flows.quiet())
        .lines()
        .map(|line| line.trim().parse::<usize>().unwrap())
        .sum();
    assert_eq!(folded, 2 * CONNECTIONS);
    // Sorted rows are written by one thread.
    let sorted = words_in(
        &crowd,
        "sockets -tn -H --columns local --sort local state established",
    );
    assert_eq!(sorted.quiet().lines().count(), 2 * CONNECTIONS);
}

/// Raises our limit of descriptors as far as it may go.
fn enough_descriptors() -> Result<(), Skip> {
    let most = getrlimit(Resource::Nofile).maximum;
    if most.is_some_and(|most| most < DESCRIPTORS) {
        return Err(Skip::new(format!("{DESCRIPTORS} descriptors are not allowed")));
    }
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, limit).map_err(|errno| Skip::new(format!("setrlimit: {errno}")))
}
