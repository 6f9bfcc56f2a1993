//! How soon an event is shown.

use super::events::Running;
use rustix::process::Signal;
use sockeye_lab::{Lab, need};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// While nothing happens `events` sleeps until it is woken, and an event waits for the RST that may follow it, but not until the next time that the
/// ring is read: that was never less than 20 ms.
#[test]
fn event_after_a_while_without_any_is_shown_at_once() {
    let lab = need!(Lab::new("ev_latency"));
    let namespace = lab.namespace("alone");
    let line = format!("-n -N {} --format jsonl --kinds open", namespace.name());
    let mut running = need!(Running::start(&line));
    let mut shown = BufReader::new(running.child.stdout.take().expect("a pipe"));
    let listener = namespace.run(|| TcpListener::bind("127.0.0.1:0").expect("bind"));
    let address = listener.local_addr().expect("an address");
    let mut took = Vec::new();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(300));
        let begin = Instant::now();
        let client = namespace.run(|| std::net::TcpStream::connect(address).expect("connect"));
        let mut text = String::new();
        for _ in ["active", "passive"] {
            shown.read_line(&mut text).expect("a line");
        }
        took.push(begin.elapsed());
        assert_eq!(text.matches("\"event\":\"open\"").count(), 2, "{text}");
        drop((client, listener.accept().expect("accept")));
    }
    running.signal(Signal::INT);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut shown, &mut rest).expect("the summary");
    let (outcome, notes) = running.ended();
    assert_eq!(outcome.code, Some(0), "{notes}");
    let least = took.iter().min().expect("there are ten");
    assert!(*least < Duration::from_millis(18), "{took:?}");
}
