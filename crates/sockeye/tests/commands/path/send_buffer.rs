//! A sender without end: its data waits in the send buffer, and the sentence says for what.

use super::segments::qdisc_of;
use super::{Following, hop};
use rustix::net::sockopt;
use serde_json::Value;
use sockeye_lab::{Impairment, Lab, Namespace, need, program};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Sends as much as goes through for two seconds, and calls this meanwhile.
fn send_without_end(
    [client, server]: [&Namespace; 2],
    address: SocketAddr,
    prepare: impl FnOnce(&TcpStream),
    mut look: impl FnMut(),
) {
    let listener = server.run(|| TcpListener::bind(address).unwrap());
    let mut sending = client.run(|| TcpStream::connect(address).unwrap());
    prepare(&sending);
    let (mut reading, _) = listener.accept().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(2) {
                sending.write_all(&[0; 20_000]).unwrap();
            }
        });
        scope.spawn(move || while reading.read(&mut [0; 65_536]).unwrap() > 0 {});
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(150));
            look();
        }
    });
}

/// The first sentence, which must be about the send buffer, and its commands.
#[track_caller]
fn longest(document: &Value) -> (&str, Vec<&str>) {
    let sentence = &document["sentences"][0];
    let text = sentence["text"].as_str().unwrap();
    assert!(
        text.contains("is spent in the send buffer: "),
        "{text}: {document:#}"
    );
    let remedies = sentence["remedies"].as_array().into_iter().flatten();
    (text, remedies.map(|remedy| remedy.as_str().unwrap()).collect())
}

/// The kilobytes before these words.
#[track_caller]
fn kilobytes_before(text: &str, words: &str) -> f64 {
    let before = text
        .split(&format!(" KB {words}"))
        .next()
        .filter(|before| before.len() < text.len())
        .unwrap_or_else(|| panic!("no KB {words}: {text}"));
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn qdisc_that_fills_the_congestion_window_is_named() {
    let lab = need!(Lab::new("path_window"));
    need!(program("tc"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let device = link.devices().0;
    for (port, congestion, limit) in [
        (5461, "cubic", "the congestion window is full, and of "),
        (5462, "bbr", ", and of "),
    ] {
        let address = SocketAddr::new(link.server_addresses().0, port);
        let line = "qdisc replace dev DEVICE root tbf rate 10mbit burst 10k limit 60k";
        let line = line.replace("DEVICE", device);
        client.output("tc", &line.split_whitespace().collect::<Vec<_>>());
        let following = Following::start(&lab, &format!("--format json dst {address}"));
        let (mut backlogs, mut has_it) = (Vec::new(), true);
        let choose = |sending: &TcpStream| {
            has_it = sockopt::set_tcp_congestion(sending, congestion).is_ok();
        };
        send_without_end([&client, &server], address, choose, || {
            backlogs.push(qdisc_of(&client, device)["backlog"].as_u64().unwrap());
        });
        let document = following.document();
        if !has_it {
            println!("SKIP: {congestion}: not in this kernel");
            continue;
        }
        let (text, remedies) = longest(&document);
        assert!(text.contains(limit), "{congestion}: {text}");
        let place = format!(" in the qdisc of {device} (");
        assert!(text.contains(&place), "{congestion}: {text}");
        assert!(
            text.ends_with(", whose rate is the bottleneck."),
            "{congestion}: {text}"
        );
        let command = format!("sockeye ns exec {} tc -s qdisc show dev {device}", client.name());
        assert_eq!(remedies, [command]);
        // What the qdisc itself counts.
        backlogs.sort_unstable();
        let expected = backlogs[backlogs.len() / 2] as f64 / 1e3;
        let said = kilobytes_before(text, "are in the qdisc");
        assert!(
            (expected / 2.5..expected * 2.5).contains(&said),
            "{congestion}: {expected} KB: {text}"
        );
        assert!(kilobytes_before(text, "in flight") >= said, "{text}");
        hop(&document, "out", "qdisc");
    }
}

#[test]
fn window_that_the_network_fills_is_no_matter_of_a_qdisc() {
    let lab = need!(Lab::new("path_network"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let middlebox = lab.middlebox(&client, &server, 25);
    middlebox.set_both(Impairment {
        delay: Duration::from_millis(20),
        bytes_per_s: 500_000,
        queue_bytes: 60_000,
        ..Impairment::default()
    });
    let address = SocketAddr::new(middlebox.net_path().server_ip(), 5463);
    let following = Following::start(&lab, "--format json dport = :5463");
    let choose = |sending: &TcpStream| sockopt::set_tcp_congestion(sending, "cubic").unwrap();
    send_without_end([&client, &server], address, choose, || {});
    let document = following.document();
    let (text, remedies) = longest(&document);
    assert!(
        text.contains(": the congestion window is full, and the peer is on this host, where packets spend "),
        "{text}"
    );
    assert!(remedies.is_empty(), "{remedies:?}");
}

#[test]
fn rate_that_a_program_allows_is_named() {
    let lab = need!(Lab::new("path_paced"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = SocketAddr::new(link.server_addresses().0, 5464);
    let following = Following::start(&lab, "--format json dport = :5464");
    let limit = |sending: &TcpStream| {
        let rate = 500_000;
        sockeye_sys::tcp::set_max_pacing_rate(sending, rate).unwrap();
    };
    send_without_end([&client, &server], address, limit, || {});
    let document = following.document();
    let (text, _) = longest(&document);
    assert!(
        text.ends_with(": its program limits the rate (SO_MAX_PACING_RATE)."),
        "{text}"
    );
}
