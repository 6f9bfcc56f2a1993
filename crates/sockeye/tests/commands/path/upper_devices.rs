//! Devices upon others, to which the kernel hands packets without a tracepoint.

use super::round_trips::connect_to;
use super::{Following, hop};
use serde_json::Value;
use sockeye_lab::{Lab, need};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

const ROUNDS: usize = 50;

/// Hops of what comes in: kind, device, inode of the network namespace.
fn incoming(document: &Value) -> Vec<(&str, &str, u64)> {
    let hops = document["hops"].as_array().unwrap().iter();
    let of_device = hops.filter(|hop| hop["direction"] == "in" && hop.get("device").is_some());
    of_device
        .map(|hop| {
            let [kind, device] = ["hop", "device"].map(|key| hop[key].as_str().unwrap());
            (kind, device, hop["netns_inode"].as_u64().unwrap())
        })
        .collect()
}

/// The device is in another namespace than the one below it, as a container's is.
#[test]
fn what_a_macvlan_receives_is_in_its_namespace() {
    let lab = need!(Lab::new("path_macvlan"));
    let names = ["client", "host", "container"];
    let [client, host, container] = names.map(|name| lab.namespace(name));
    let link = lab.link(&client, &host);
    let below = link.devices().1;
    host.ip(&format!("link add mv0 link {below} type macvlan mode bridge"));
    host.ip(&format!("link set mv0 netns {}", container.name()));
    container.ip("link set mv0 up");
    container.ip("address add 192.0.2.3/24 dev mv0");
    client.ip(&format!("address add 192.0.2.1/24 dev {}", link.devices().0));
    let line = format!("--format json -N {} sport = :5458", container.name());
    let following = Following::start(&lab, &line);
    let listener = container.run(|| TcpListener::bind("192.0.2.3:5458").unwrap());
    let [mut asking, mut answering] = connect_to(&client, &listener);
    let datagrams = container.run(|| UdpSocket::bind("192.0.2.3:5458").unwrap());
    datagrams.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let sending = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    for _ in 0..ROUNDS {
        asking.write_all(&[7; 64]).unwrap();
        answering.read_exact(&mut [0; 64]).unwrap();
        answering.write_all(&[7; 64]).unwrap();
        asking.read_exact(&mut [0; 64]).unwrap();
        sending.send_to(&[7; 64], "192.0.2.3:5458").unwrap();
        datagrams.recv(&mut [0; 64]).unwrap();
    }
    let document = following.document();
    let (host, container) = (host.inode(), container.inode());
    let found = incoming(&document);
    for expected in [
        ("backlog", below, host),
        ("handover", below, host),
        ("input", "mv0", container),
        ("stack", "mv0", container),
    ] {
        assert!(found.contains(&expected), "{expected:?}: {document:#}");
    }
    assert!(
        !found
            .iter()
            .any(|(kind, device, _)| *device == below && ["input", "stack"].contains(kind)),
        "{document:#}"
    );
    let socket = hop(&document, "in", "socket");
    assert_eq!(socket["reader"]["pid"], std::process::id(), "{document:#}");
    assert!(
        socket["packets"].as_u64().unwrap() >= 2 * ROUNDS as u64 * 9 / 10,
        "{document:#}"
    );
    // They were sent by the container, too.
    assert!(hop(&document, "out", "upper-device")["packets"].as_u64().unwrap() >= ROUNDS as u64);
}

#[test]
fn first_fragments_are_not_said_to_be_followed_to_their_end() {
    let lab = need!(Lab::new("path_fragments"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = (link.server_addresses().0, 5459);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5459", address.0),
    );
    let receiving = server.run(|| UdpSocket::bind(address).unwrap());
    receiving.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let sending = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    for bytes in std::iter::repeat_n(4000, ROUNDS).chain([100; ROUNDS]) {
        sending.send_to(&vec![7; bytes], address).unwrap();
        assert_eq!(receiving.recv(&mut [0; 4000]).unwrap(), bytes);
    }
    let document = following.document();
    assert_eq!(document["reassembled"], ROUNDS, "{document:#}");
    assert_eq!(document["complete"], ROUNDS, "{document:#}");
    assert_eq!(document["matched_ppm"], 500_000, "{document:#}");
}
