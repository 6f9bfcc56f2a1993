//! A host with enough TCP sockets that they are dumped as two halves at once: each is listed, and once.

use crate::fixtures::binary::words_in;
use crate::fixtures::envelope;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
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
    let flows = words_in(
        &crowd,
        "flows -n --group-by netns --format csv -H --columns connections",
    );
    let folded: usize = envelope::without_time(flows.quiet())
        .lines()
        .map(|line| line.trim().parse::<usize>().unwrap())
        .sum();
    assert_eq!(folded, 2 * CONNECTIONS);
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
