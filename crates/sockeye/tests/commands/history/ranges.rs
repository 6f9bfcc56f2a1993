//! Answers about a time: which part of it was recorded, and what lies between two samples.

use super::{Store, check_schema, connection};
use crate::fixtures::binary::{Outcome, command, run};
use serde_json::Value;
use sockeye_lab::{Lab, Skip, need};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, UNIX_EPOCH};

pub(super) fn error(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr).into_owned()
}

fn now_ms() -> u64 {
    UNIX_EPOCH.elapsed().expect("after 1970").as_millis() as u64
}

#[test]
fn check_of_a_recorded_moment_runs_only_rules_whose_figures_are_recorded() {
    let store = Store::new("judged");
    let (_listener, _client, _server, port) = connection();
    // Longer than the limit of the rule below, in a sample that has times in whole seconds.
    std::thread::sleep(Duration::from_millis(3_100));
    let rule = format!("check --set no-keepalive.idle=1s --format json dport = :{port}");
    let live = run(command().args(rule.split(' ')));
    let live: Value = serde_json::from_slice(&live.stdout).expect("JSON");
    assert!(live.to_string().contains("no-keepalive"), "{live}");
    store.succeed("record --once");
    let recorded = store.succeed(&format!("{rule} --at now"));
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    assert_eq!(recorded["findings"], Value::Array(Vec::new()), "{recorded}");
    let checked = &recorded["checked"];
    assert_eq!(checked["rules"], 6, "{checked}");
    let lacking = recorded["not_judged"].as_array().expect("a list");
    let rules = lacking
        .iter()
        .filter(|gap| gap["kind"] == "not_recorded")
        .flat_map(|gap| gap["rules"].as_array().expect("rules"));
    let rules: Vec<_> = rules.filter_map(Value::as_str).collect();
    for rule in ["retransmissions", "no-keepalive", "listener-drops", "close-wait"] {
        assert!(rules.contains(&rule), "{rule}: {rules:?}");
    }
    assert!(!rules.contains(&"unread"), "{rules:?}");
    let text = store.run("check --at now");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("NOT JUDGED") && text.contains("by 6 rules"),
        "{text}"
    );
}

#[test]
fn sockets_of_other_namespaces_are_noted() {
    let store = Store::new("elsewhere");
    let lab = need!(Lab::new("history_elsewhere"));
    let netns = lab.namespace("recorded");
    let _listener = netns.run(|| TcpListener::bind("0.0.0.0:0")).expect("a port");
    store.succeed(&format!("record --once -N {}", netns.path().display()));
    for words in ["flows --at now", "check --at now", "history timeline --since 1m"] {
        let note = error(&store.run(words));
        assert!(note.contains("1 in others: -N all lists them"), "{words}: {note}");
    }
    let note = error(&store.run("sockets -l --at now -N all"));
    assert!(!note.contains("in others"), "{note}");
    // Both times lack the same.
    store.succeed(&format!("record --once -N {}", netns.path().display()));
    let outcome = store.run("history diff now now");
    let note = error(&outcome);
    assert_eq!(note.matches("in others").count(), 1, "{outcome}");
}

#[test]
fn sockets_that_are_not_recorded_are_named() {
    let store = Store::new("unix");
    store.succeed("record --once");
    let outcome = store.run("sockets -x --at now");
    let note = error(&outcome);
    assert!(note.contains("not recorded: UNIX sockets"), "{note}");
    assert!(!note.contains("there is no connection"), "{note}");
    let note = error(&store.run("sockets -tn --at now"));
    assert!(!note.contains("not recorded"), "{note}");
}

#[test]
fn gaps_in_the_time_of_sums_are_noted() {
    let store = Store::new("gaps");
    let once = "record --once --interval 0.5 --check-interval 0";
    let begin_s = now_ms() / 1000;
    store.succeed(once);
    std::thread::sleep(Duration::from_millis(2_500));
    store.succeed(once);
    for command in ["top", "counts"] {
        let note = error(&store.run(&format!("history {command} --since @{begin_s}")));
        assert!(note.contains("(not-running): what "), "{command}: {note}");
        assert!(note.contains("then is not counted"), "{command}: {note}");
        let note = error(&store.run(&format!("history {command} --since @{}", begin_s - 3_600)));
        assert!(note.contains("nothing is recorded before"), "{command}: {note}");
    }
    let note = error(&store.run(&format!("history findings --since @{begin_s}")));
    assert!(note.contains("unknown, not nothing"), "{note}");
}

/// Connections that live between two samples, and the bytes that they sent.
fn short_connections(count: u64, bytes: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    for _ in 0..count {
        let mut client = TcpStream::connect(address).expect("it listens");
        let (mut server, _) = listener.accept().expect("a connection");
        client.write_all(&vec![7; bytes]).expect("the buffer has room");
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).expect("the client has closed");
        assert_eq!(all.len(), bytes);
    }
}

#[test]
fn connections_between_two_samples_are_in_the_timeline_and_times_are_exact() {
    let store = Store::new("between");
    let mut recorder = command();
    recorder.args([
        "record",
        "--interval",
        "2",
        "--check-interval",
        "0",
        "--store",
        &store.path(),
    ]);
    recorder
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let recorder = super::Recorder(recorder.spawn().expect("the program starts"));
    let first = store.wait_for_more_than(0);
    if String::from_utf8_lossy(&store.run("history list").stdout).contains("ends") {
        return Skip::new("the ends of connections cannot be seen here").print();
    }
    let begin_ms = now_ms();
    short_connections(5, 60_000);
    // The sample that has them, and one more.
    let samples = store.wait_for_more_than(first + 1);
    let end_ms = now_ms();
    store.wait_for_more_than(samples + 1);
    drop(recorder);
    let seconds = |ms: u64| format!("@{}", ms / 1000);
    let (from, to) = (seconds(begin_ms), seconds(end_ms + 3_000));
    let sum = |rows: &[Value], key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
    let mine = format!("--since {from} --until {to} --by owner");
    let top: Value =
        serde_json::from_str(&store.succeed(&format!("history top {mine} --format json"))).expect("JSON");
    check_schema(&top.to_string());
    let name = &std::fs::read_to_string("/proc/self/comm").expect("a name");
    let talkers = top["talkers"].as_array().expect("a list");
    let of_mine = talkers.iter().filter(|talker| talker["name"] == name.trim());
    let sent: u64 = of_mine.filter_map(|talker| talker["sent_bytes"].as_u64()).sum();
    // Other tests of this process may send as well.
    assert!(sent >= 300_000, "{top}");
    assert!(top["summed"]["from_time"].is_string(), "{top}");
    // More points than samples: what was sent is in several of them, and nothing is lost.
    let rows = store.rows(&format!(
        "history timeline --since {from} --until {to} --points 20"
    ));
    assert!(sum(&rows, "sent_bytes") >= 250_000, "{rows:?}");
    // Long after: nothing was recorded, and that is said.
    let later = store.run(&format!(
        "history top --since {} --until {}",
        seconds(end_ms + 60_000_000),
        seconds(end_ms + 61_000_000)
    ));
    assert!(error(&later).contains("nothing is recorded after"), "{later:?}");
    assert!(
        String::from_utf8_lossy(&later.stdout).lines().count() <= 1,
        "{later:?}"
    );
    let findings = store.run(&format!("history findings --at {}", seconds(end_ms + 60_000_000)));
    assert!(
        error(&findings).contains("what was wrong is unknown, not nothing"),
        "{findings:?}"
    );
}
