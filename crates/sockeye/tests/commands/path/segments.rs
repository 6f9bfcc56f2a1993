//! Packets that a qdisc divides: what is reported compared with what the qdisc itself counts.

use super::{Following, hop};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What `tc -s` says of the qdisc of a device.
fn qdisc_of(namespace: &Namespace, device: &str) -> Value {
    let text = namespace.output("tc", &["-s", "-j", "qdisc", "show", "dev", device]);
    let document: Value = serde_json::from_str(&text).unwrap();
    document[0].clone()
}

/// A tbf divides packets that are larger than what its bucket holds: their segments wait in it, and are dropped by it.
#[test]
fn segments_have_the_time_and_the_drops_of_a_qdisc_that_divides() {
    let lab = need!(Lab::new("path_segments"));
    need!(program("tc"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let device = link.devices().0;
    let line = "qdisc replace dev DEVICE root tbf rate 10mbit burst 10k limit 60k";
    let line = line.replace("DEVICE", device);
    client.output("tc", &line.split_whitespace().collect::<Vec<_>>());
    let address = SocketAddr::new(link.server_addresses().0, 5457);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5457", address.ip()),
    );
    let listener = server.run(|| TcpListener::bind(address).unwrap());
    let mut sending = client.run(|| TcpStream::connect(address).unwrap());
    let (mut reading, _) = listener.accept().unwrap();
    let mut backlogs = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(2) {
                sending.write_all(&[0; 60_000]).unwrap();
            }
        });
        scope.spawn(move || while reading.read(&mut [0; 65_536]).unwrap() > 0 {});
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(150));
            backlogs.push(qdisc_of(&client, device)["backlog"].as_u64().unwrap());
        }
    });
    let counted = qdisc_of(&client, device);
    let document = following.document();
    let qdisc = hop(&document, "out", "qdisc");
    // 10 Mbit/s: 800 ns for a byte. How long the queue is full depends on what TCP makes of the drops.
    let full_ns = backlogs.iter().max().unwrap() * 800;
    let [median_ns, max_ns] = ["median_ns", "max_ns"].map(|key| qdisc[key].as_u64().unwrap());
    assert!(
        (full_ns / 10..full_ns * 3).contains(&median_ns) && max_ns >= full_ns / 2,
        "{median_ns} ns, at most {max_ns} ns, for {backlogs:?} bytes: {document:#}"
    );
    // But for segments without data, which are not followed.
    let sent = counted["bytes"].as_u64().unwrap();
    let bytes = qdisc["bytes"].as_u64().unwrap();
    assert!(
        (sent * 9 / 10..=sent).contains(&bytes),
        "{bytes} bytes of {sent}: {document:#}"
    );
    let device = hop(&document, "out", "device");
    assert_eq!(device["packets"], qdisc["packets"], "{document:#}");
    let drops = qdisc["drops"].as_u64().unwrap();
    assert!(drops > 0, "{document:#}");
    // But for what TCP sends again while the first one waits there: the two are taken for one.
    let expected = counted["drops"].as_u64().unwrap();
    assert!(
        (expected * 9 / 10..=expected).contains(&drops),
        "{drops} drops of {expected}: {document:#}"
    );
    assert!(document["divided"].as_u64().unwrap() > 0, "{document:#}");
}
