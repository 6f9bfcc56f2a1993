//! Packets that a qdisc divides: what is reported compared with what the qdisc itself counts.

use super::{Following, hop};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// What `tc -s` says of the qdisc of a device.
pub(super) fn qdisc_of(namespace: &Namespace, device: &str) -> Value {
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

/// Sends packets of ten segments of 1,400 bytes and one of 500, and returns how many of these the socket has got.
fn send_segments(client: &Namespace, receiving: &UdpSocket, packets: u32, pause: Duration) -> u64 {
    let sending = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    sending.connect(receiving.local_addr().unwrap()).unwrap();
    sockeye_sys::udp_offload::set_segment_size(&sending, 1400).unwrap();
    receiving
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..packets {
                // What does not fit is an error, or not.
                let _ = sending.send(&[0; 14_500]);
                std::thread::sleep(pause);
            }
        });
        let mut received = 0;
        while receiving.recv(&mut [0; 65_536]).is_ok() {
            received += 1;
        }
        received
    })
}

/// Segments of UDP have no number. They are more than go through, so that the queue is full.
#[test]
fn segments_of_udp_have_the_time_and_the_drops_of_a_qdisc_that_divides() {
    let lab = need!(Lab::new("path_udp_segments"));
    need!(program("tc"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let device = link.devices().0;
    let line = "qdisc replace dev DEVICE root tbf rate 10mbit burst 10k limit 60k";
    let line = line.replace("DEVICE", device);
    client.output("tc", &line.split_whitespace().collect::<Vec<_>>());
    let address = SocketAddr::new(link.server_addresses().0, 5465);
    let receiving = server.run(|| UdpSocket::bind(address).unwrap());
    let before = qdisc_of(&client, device);
    let following = Following::start(&lab, "--format json dport = :5465");
    let received = send_segments(&client, &receiving, 150, Duration::from_millis(9));
    let counted = qdisc_of(&client, device);
    let document = following.document();
    let qdisc = hop(&document, "out", "qdisc");
    let since = |key: &str| counted[key].as_u64().unwrap() - before[key].as_u64().unwrap();
    let drops = qdisc["drops"].as_u64().unwrap();
    assert!(since("drops") > 0, "{counted:#}");
    assert!(
        (since("drops") * 9 / 10..=since("drops")).contains(&drops),
        "{drops} drops of {}: {document:#}",
        since("drops")
    );
    for kind in ["qdisc", "device", "socket"] {
        let packets = hop(&document, "out", kind)["packets"].as_u64().unwrap();
        assert!(
            (received * 9 / 10..=received).contains(&packets),
            "{kind}: {packets} of {received}: {document:#}"
        );
    }
    // 60 KB are 48 ms. Most of them wait for as long as the queue is full.
    let median_ns = qdisc["median_ns"].as_u64().unwrap();
    assert!((15_000_000..100_000_000).contains(&median_ns), "{document:#}");
}

/// Where no queue divides, the socket that receives does.
#[test]
fn segments_of_udp_are_followed_from_where_they_are_received() {
    let lab = need!(Lab::new("path_udp_receipt"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = SocketAddr::new(link.server_addresses().0, 5466);
    let receiving = server.run(|| UdpSocket::bind(address).unwrap());
    let following = Following::start(&lab, "--format json dport = :5466");
    let received = send_segments(&client, &receiving, 20, Duration::from_millis(2));
    assert_eq!(received, 220);
    let document = following.document();
    assert_eq!(document["divided"], 20, "{document:#}");
    assert_eq!(hop(&document, "out", "qdisc")["packets"], 20, "{document:#}");
    // Where an interrupt hits a thread in which no program runs, a segment is not seen.
    let complete = document["complete"].as_u64().unwrap();
    assert!((209..=220).contains(&complete), "{document:#}");
    for kind in ["stack", "socket"] {
        assert_eq!(hop(&document, "out", kind)["packets"], complete, "{document:#}");
    }
}
