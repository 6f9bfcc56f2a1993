//! `sockeye drops` with a filter: which packets and rows it means.

use super::drops::{Watching, alone, rows, send, sum};
use rustix::process::Signal;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need};
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
