//! Findings, counters and drops that a recorder keeps, of faults that are made here.

use super::{Store, check_schema};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// A UDP socket whose receive buffer is full, and which is not read.
struct Unread {
    receiver: UdpSocket,
    sender: UdpSocket,
}

impl Unread {
    fn new() -> Self {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        sender
            .connect(receiver.local_addr().expect("an address"))
            .expect("connect");
        Self { receiver, sender }
    }

    /// Sends more datagrams than fit.
    fn overflow(&self) {
        for _ in 0..300 {
            self.sender.send(&[0; 8192]).expect("send");
        }
    }

    fn port(&self) -> u64 {
        self.receiver.local_addr().expect("an address").port().into()
    }
}

/// Repeats until there is a row, and returns it.
#[track_caller]
fn wait_for(what: &str, mut find: impl FnMut() -> Option<Value>) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(row) = find() {
            return row;
        }
        assert!(Instant::now() < deadline, "{what}: not within a minute");
    }
}

/// Returns the recorded finding about sockets of this process that overflow.
fn overflow_finding(store: &Store) -> Option<Value> {
    let findings = store.rows("history findings");
    findings.into_iter().find(|row| {
        ["udp-unread", "socket-drops"].contains(&row["rule"].as_str().unwrap_or_default())
            && row["pid"] == std::process::id()
    })
}

#[test]
fn finding_has_begin_and_end_and_its_drops_are_counted() {
    let store = Store::new("findings");
    let unread = Unread::new();
    unread.overflow();
    let _recorder = store.record();
    let there = wait_for("a finding", || {
        unread.overflow();
        overflow_finding(&store).filter(|row| row["state"] == "there")
    });
    assert!(there["to"].is_null(), "{there}");
    assert!(
        there["facts"].as_object().is_some_and(|facts| !facts.is_empty()),
        "{there}"
    );
    assert!(there["remedies"][0].is_object(), "{there}");
    let counted = |kind: &'static str, name: &'static str| {
        let store = &store;
        move || {
            let mut counts = store.rows("history counts").into_iter();
            counts.find(|row| row["kind"] == kind && row["name"] == name)
        }
    };
    wait_for("a counter", counted("counter", "UdpRcvbufErrors"));
    let dropped = wait_for("a drop", || {
        unread.overflow();
        counted("drop", "SOCKET_RCVBUFF")()
    });
    assert!(dropped["count"].as_u64() > Some(0), "{dropped}");
    let port = unread.port();
    drop(unread);
    let ended = wait_for("its end", || {
        overflow_finding(&store).filter(|row| row["state"] == "ended")
    });
    assert!(ended["to"].is_string(), "port {port}: {ended}");
    for words in [
        "history findings --format json",
        "history counts --format json",
        "history list --format json",
    ] {
        check_schema(&store.succeed(words));
    }
    let table = store.succeed("history findings");
    assert!(table.contains("Began") && table.contains("udp"), "{table}");
}

#[test]
fn single_sample_says_what_it_lacks() {
    let store = Store::new("once");
    store.succeed("record --once");
    let outcome = store.run("history findings");
    assert_eq!(outcome.code, Some(0));
    let list = store.rows("history list");
    for kind in ["counters", "drops", "ends"] {
        let row = list.iter().find(|row| row["kind"] == kind);
        let row = row.unwrap_or_else(|| panic!("{kind} in {list:?}"));
        assert_eq!(row["gap"], "not-seen");
        assert!(
            row["why"].as_str().is_some_and(|why| why.contains("--once")),
            "{row}"
        );
    }
}

#[test]
fn findings_of_a_time_are_those_that_were_there() {
    let store = Store::new("at");
    store.succeed("record --once");
    assert_eq!(store.run("history findings --at soon").code, Some(2));
    assert_eq!(store.run("history findings --at now --since 1h").code, Some(2));
    let before = store.succeed("history findings --at 2001-01-01 --format csv");
    assert_eq!(before.lines().count(), 1, "{before}");
}
