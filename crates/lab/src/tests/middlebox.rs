//! What a middlebox does to packets, as those see it that they reach.

use sockeye_lab::{Impairment, Lab, Middlebox, Namespace, Pair, Toward, need};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

struct TestPath {
    // In this order: the middlebox goes before its namespaces.
    middlebox: Middlebox,
    client: Namespace,
    server: Namespace,
    _lab: Lab,
}

fn test_path(purpose: &str, seed: u64) -> Result<TestPath, sockeye_lab::Skip> {
    let lab = Lab::new(purpose)?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    Ok(TestPath {
        middlebox: lab.middlebox(&client, &server, seed),
        client,
        server,
        _lab: lab,
    })
}

/// Sends numbered datagrams and gives the numbers that arrive, in the order they do.
fn numbered(pair: &Pair, count: u16) -> Vec<u16> {
    let client: UdpSocket = pair.client.duplicate().into();
    let server: UdpSocket = pair.server.duplicate().into();
    server
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a timeout");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..count {
                client.send(&number.to_be_bytes()).expect("send");
                // The pace: the box has room for some of them only.
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        // At the same time: the socket's buffer does not hold all of them.
        let mut arrived = Vec::new();
        let mut buffer = [0; 2];
        while server.recv(&mut buffer).is_ok() {
            arrived.push(u16::from_be_bytes(buffer));
        }
        arrived
    })
}

#[test]
fn packets_pass_unchanged_without_impairment() {
    let TestPath { middlebox, .. } = &need!(test_path("middlebox", 1));
    let all: Vec<u16> = (0..200).collect();
    assert_eq!(numbered(&middlebox.net_path().udp_connected(), 200), all);
    assert_eq!(numbered(&middlebox.net_path6().udp_connected(), 200), all);
}

#[test]
fn loss_is_repeated_with_the_same_seed() {
    let lossy = |seed| {
        let TestPath {
            middlebox,
            client,
            server,
            ..
        } = &test_path("middlebox_loss", seed)?;
        for namespace in [client, server] {
            // Nothing but ours is to be under way.
            namespace.sysctl("ipv6/conf/all/disable_ipv6", "1");
        }
        let pair = middlebox.net_path().udp_connected();
        middlebox.set(
            Toward::Server,
            Impairment {
                loss_permille: 300,
                ..Impairment::default()
            },
        );
        Ok::<_, sockeye_lab::Skip>(numbered(&pair, 300))
    };
    let (first, again, other) = (need!(lossy(7)), need!(lossy(7)), need!(lossy(8)));
    assert!((150..270).contains(&first.len()), "{first:?}");
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn packets_are_reordered_and_duplicated() {
    let TestPath { middlebox, .. } = &need!(test_path("middlebox_order", 3));
    let pair = middlebox.net_path().udp_connected();
    let late = Impairment {
        late: Duration::from_millis(20),
        late_permille: 200,
        duplicate_permille: 100,
        ..Impairment::default()
    };
    middlebox.set_both(late);
    let arrived = numbered(&pair, 300);
    assert!((305..400).contains(&arrived.len()), "{arrived:?}");
    assert!(
        arrived.windows(2).filter(|two| two[0] > two[1]).count() > 10,
        "{arrived:?}"
    );
    let mut all = arrived;
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 300);
}

#[test]
fn delay_and_rate_are_kept() {
    let TestPath { middlebox, .. } = &need!(test_path("middlebox_delay", 4));
    middlebox.set_both(Impairment {
        delay: Duration::from_millis(30),
        ..Impairment::default()
    });
    let begun = Instant::now();
    let pair = middlebox.net_path6().established();
    assert!(begun.elapsed() >= Duration::from_millis(60));
    middlebox.set(
        Toward::Server,
        Impairment {
            bytes_per_s: 1_000_000,
            queue_bytes: 100_000,
            ..Impairment::default()
        },
    );
    let begun = Instant::now();
    let mut reader: TcpStream = pair.server.duplicate().into();
    std::thread::scope(|scope| {
        scope.spawn(|| pair.client.socket().write_all(&[b'x'; 300_000]).expect("send"));
        reader.read_exact(&mut [0; 300_000]).expect("receive");
    });
    assert!(
        begun.elapsed() >= Duration::from_millis(250),
        "{:?}",
        begun.elapsed()
    );
}
