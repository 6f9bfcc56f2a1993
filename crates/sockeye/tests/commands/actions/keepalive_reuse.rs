//! A descriptor that becomes another socket between the question and the deed.
//!
//! In a file, and so in a process, of its own: what another test starts at that moment holds, until it becomes another
//! program, a copy of every descriptor, the socket that should be gone among them.

use crate::fixtures::binary::asked::Asked;
use sockeye_lab::{Lab, Pair, need};

#[test]
fn reused_descriptor_is_not_set() {
    let lab = need!(Lab::new("keepreuse"));
    let here = lab.namespace("here");
    let net_path = here.loopback();
    let (first, second) = (net_path.established(), net_path.established());
    let port = first.client.port();
    let Pair { client, server, .. } = first;
    let mut place = client.duplicate();
    drop(client);
    let asked = Asked::after(&here, &format!("keepalive set sport = :{port}"));
    // The second takes the place of the first.
    rustix::io::dup2(second.client.fd().unwrap(), &mut place).unwrap();
    let (text, code) = asked.answer("y\n");
    assert!(text.contains("1 connection had gone meanwhile"), "{text}");
    assert!(text.contains("0 connections set"), "{text}");
    assert_eq!(code, Some(0), "{text}");
    assert!(!second.client.socket().keepalive().unwrap());
    drop(server);
}
