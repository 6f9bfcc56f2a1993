//! Drivers hand several packets up at once: the network stack has received all of them before it delivers the first.

use super::round_trips::connect_to;
use super::{Following, hop};
use sockeye_lab::{Lab, need, program};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

const CONNECTIONS: usize = 10;
const ROUNDS: usize = 10;

#[test]
fn packets_of_a_batch_are_delivered_to_their_own_sockets() {
    let lab = need!(Lab::new("path_batch"));
    need!(program("ethtool"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    // With GRO, and packets that it can merge, veth receives as a NIC does.
    client.output("ethtool", &["-K", link.devices().0, "tso", "off"]);
    server.output("ethtool", &["-K", link.devices().1, "gro", "on"]);
    let address = SocketAddr::new(link.server_addresses().0, 5443);
    let listener = server.run(|| TcpListener::bind(address).unwrap());
    let mut pairs: Vec<_> = (0..CONNECTIONS).map(|_| connect_to(&client, &listener)).collect();
    // What arrives within 20 ms is received together. /sys has the devices of the namespace in which it is mounted.
    let device = format!("/sys/class/net/{}", link.devices().1);
    let script = format!(
        "mount -t sysfs none /sys && echo 20000000 > {device}/gro_flush_timeout && echo 100 > {device}/napi_defer_hard_irqs"
    );
    server.output("unshare", &["--mount", "sh", "-c", &script]);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5443", address.ip()),
    );
    for _ in 0..ROUNDS {
        for [asking, _] in &mut pairs {
            asking.write_all(&[7; 64]).unwrap();
        }
        for [_, answering] in &mut pairs {
            answering.read_exact(&mut [0; 64]).unwrap();
        }
    }
    let document = following.document();
    let all = CONNECTIONS * ROUNDS;
    assert_eq!(document["complete"], all, "{document:#}");
    assert_eq!(document["merged"], 0, "{document:#}");
    // A virtual machine can have an agent in whose interrupts no programs run, and the kernel does not count that: all packets of a
    // round are received without a stamp then. They are counted.
    let packets = |kind| hop(&document, "out", kind)["packets"].as_u64().unwrap();
    let (in_stack, in_socket) = (packets("stack"), packets("socket"));
    let unseen = all as u64 - in_socket;
    let missed = document["missed"].as_u64().unwrap();
    assert_eq!(unseen % CONNECTIONS as u64, 0, "{document:#}");
    assert_eq!(document["received_unseen"], unseen, "{document:#}");
    assert!(unseen <= all as u64 / 2, "{document:#}");
    assert!(
        (in_socket.saturating_sub(missed)..=in_socket).contains(&in_stack),
        "{document:#}"
    );
}
