//! A VPN program that reads slowly, with a queue of three frames: the oldest of the field reports.

use super::{Following, alone, hop};
use sockeye_lab::{DEADLINE, Namespace, need, program};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Sends bursts into the tunnel while its program takes this long for a packet, until it has read so many.
fn send_and_read_slowly(here: &Namespace, device: &OwnedFd, pause: Duration, reads: u32) {
    here.run(|| {
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let begin = Instant::now();
        let mut buffer = [0; 2048];
        for number in 0..reads {
            assert!(begin.elapsed() < DEADLINE, "{number} packets");
            // The queue is full before each read.
            for _ in 0..4 {
                socket.send_to(&[0; 1000], "10.77.0.2:5000").unwrap();
            }
            rustix::io::read(device, &mut buffer).unwrap();
            let busy = Instant::now();
            while busy.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
    });
}

#[test]
fn queue_of_three_frames_and_its_slow_program_are_found() {
    let (lab, here) = need!(alone("path_tunnel"));
    let device = here.run(|| sockeye_sys::tun::make("tun0")).unwrap();
    here.ip("link set tun0 txqueuelen 3 up");
    here.ip("address add 10.77.0.1/24 dev tun0");
    let following = Following::start(&lab, "--format json dst 10.77.0.2");
    send_and_read_slowly(&here, &device, Duration::from_micros(500), 100);
    let document = following.document();
    let tunnel = hop(&document, "out", "tunnel");
    assert_eq!(tunnel["device"], "tun0");
    assert_eq!(tunnel["packets"], 100);
    assert_eq!(tunnel["queued_max"], 3, "{document:#}");
    assert!(tunnel["drops"].as_u64().unwrap() >= 200, "{document:#}");
    assert_eq!(tunnel["reader"]["pid"], std::process::id());
    let every_ns = tunnel["read_every_ns"].as_u64().unwrap();
    assert!((500_000..5_000_000).contains(&every_ns), "{every_ns}");
    let sentences = document["sentences"].as_array().unwrap();
    assert_eq!(sentences[0]["code"], "longest-hop");
    let text = sentences[0]["text"].as_str().unwrap();
    assert!(
        text.contains("spent in the queue of tun0, whose program ("),
        "{text}"
    );
    assert_eq!(sentences[1]["code"], "drops");
    let text = sentences[1]["text"].as_str().unwrap();
    assert!(text.contains("at most 3 packets were in it at once"), "{text}");
    assert!(text.contains("(FULL_RING)"), "{text}");
    assert_eq!(tunnel["drop_reasons"]["FULL_RING"], tunnel["drops"]);
    let remedy = sentences[1]["remedies"][0].as_str().unwrap();
    let expected = format!("sockeye ns exec {} ip link set dev tun0 txqueuelen ", here.name());
    assert!(remedy.starts_with(&expected), "{remedy}");
}

/// A datagram that a program of a tunnel has read from the network, as it writes it into the device.
fn datagram() -> Vec<u8> {
    let mut packet = vec![0; 128];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&128_u16.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 17]);
    packet[12..20].copy_from_slice(&[10, 77, 0, 2, 10, 77, 0, 1]);
    packet[20..22].copy_from_slice(&5000_u16.to_be_bytes());
    packet[22..24].copy_from_slice(&5001_u16.to_be_bytes());
    packet[24..26].copy_from_slice(&108_u16.to_be_bytes());
    let sum: u32 = packet[..20]
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

#[test]
fn way_begins_where_the_program_writes() {
    let (lab, here) = need!(alone("path_tunnel_in"));
    let device = here.run(|| sockeye_sys::tun::make("tun0")).unwrap();
    here.ip("link set tun0 up");
    here.ip("address add 10.77.0.1/24 dev tun0");
    let socket = here.run(|| UdpSocket::bind("10.77.0.1:5001").unwrap());
    let line = format!("--format json --port 5001 -N {}", here.name());
    let following = Following::start(&lab, &line);
    for _ in 0..50 {
        rustix::io::write(&device, &datagram()).unwrap();
        socket.recv(&mut [0; 200]).unwrap();
    }
    let document = following.document();
    let stack = hop(&document, "in", "stack");
    assert_eq!(
        (&stack["device"], &stack["packets"]),
        (&"tun0".into(), &50.into())
    );
    assert_eq!(
        hop(&document, "in", "socket")["reader"]["pid"],
        std::process::id()
    );
    assert_eq!(document["matched_ppm"], 1_000_000, "{document:#}");
}

#[test]
fn qdisc_that_delays_and_drops_is_found() {
    let (lab, here) = need!(alone("path_qdisc"));
    need!(program("tc"));
    here.output(
        "tc",
        &[
            "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", "200kbit", "burst", "3000", "limit",
            "6000",
        ],
    );
    let line = format!("--format json --port 5002 -N {}", here.name());
    let following = Following::start(&lab, &line);
    here.run(|| {
        let server = UdpSocket::bind("127.0.0.1:5002").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let reading = server.try_clone().unwrap();
        // The two that pass at once, and the five that fit into the queue.
        let reader = std::thread::spawn(move || {
            (0..7).for_each(|_| assert_eq!(reading.recv(&mut [0; 1000]).unwrap(), 1000));
        });
        for _ in 0..30 {
            client.send_to(&[0; 1000], "127.0.0.1:5002").unwrap();
        }
        reader.join().unwrap();
    });
    let document = following.document();
    let qdisc = hop(&document, "in", "qdisc");
    assert_eq!(qdisc["has_queue"], true);
    assert_eq!(
        qdisc["packets"].as_u64().unwrap() + qdisc["drops"].as_u64().unwrap(),
        30
    );
    assert!(qdisc["drops"].as_u64().unwrap() >= 20, "{document:#}");
    assert!(qdisc["max_ns"].as_u64().unwrap() > 50_000_000, "{document:#}");
    let text = document["sentences"][0]["text"].as_str().unwrap();
    assert!(text.contains("in the qdisc of lo"), "{text}");
}
