//! `sockeye events` without BPF: the kernel's reports of destroyed sockets, and polling.

use super::events::{Running, connect, events, only};
use crate::fixtures::binary::{SOCKEYE, clean, command};
use crate::fixtures::processes::UNPRIVILEGED_UID;
use rustix::process::Signal;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Process, need, wait_until};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Starts it as a user without rights, in a namespace.
fn unprivileged(lab: &Lab, namespace: &Namespace, line: &str) -> Running {
    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let mut command = Command::new(binary);
    clean(&mut command);
    command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    namespace
        .run(|| Running::start_by(command, line))
        .unwrap_or_else(|_| panic!("{line}: it needs no rights"))
}

/// A process of the user without rights with a listener and both ends of a connection.
struct Holder {
    process: Process,
    client_port: u16,
    server_port: u16,
}

impl Holder {
    fn start(lab: &Lab, namespace: &Namespace) -> Self {
        let process = lab
            .process("holder")
            .in_namespace(namespace)
            .user(UNPRIVILEGED_UID, UNPRIVILEGED_UID)
            .tcp_pair("127.0.0.1:0")
            .start();
        let ports = [0, 1].map(|nth: usize| process.sockets()[nth].port());
        Self {
            process,
            server_port: ports[0],
            client_port: ports[1],
        }
    }

    /// Directions of its ends, and their ports.
    const fn ends(&self) -> [(&'static str, u16); 2] {
        [("active", self.client_port), ("passive", self.server_port)]
    }
}

/// Reads standard output while the program runs.
fn follow(running: &mut Running) -> (Arc<Mutex<Vec<String>>>, std::thread::JoinHandle<()>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let stdout = BufReader::new(running.child.stdout.take().expect("a pipe"));
    let keeps = Arc::clone(&lines);
    let reader = std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            keeps.lock().unwrap().push(line);
        }
    });
    (lines, reader)
}

#[test]
fn without_rights_opens_are_polled_and_closes_reported() {
    let lab = need!(Lab::new("ed_rights"));
    let namespace = lab.namespace("alone");
    let mut running = unprivileged(&lab, &namespace, "-n --format jsonl");
    let (lines, reader) = follow(&mut running);
    let count = |word: &str| {
        let word = format!("\"event\":\"{word}\"");
        lines
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.contains(&word))
            .count()
    };
    let holder = Holder::start(&lab, &namespace);
    wait_until("both ends are found", || {
        count("open") == 2 && count("listen") == 1
    });
    let (ends, pid) = (holder.ends(), holder.process.pid());
    holder.process.end();
    wait_until("both ends are closed", || count("close") == 2);
    running.signal(Signal::INT);
    assert!(running.child.wait().unwrap().success());
    reader.join().unwrap();
    let events: Vec<Value> = lines
        .lock()
        .unwrap()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (direction, port) in ends {
        for kind in ["open", "close"] {
            let event = only(&events, kind, direction);
            assert_eq!(event["local"]["port"], port, "{event:#}");
            assert_eq!(
                (&event["owner"]["pid"], &event["known_by"]),
                (&pid.into(), &"walk".into()),
                "{event:#}"
            );
            assert_eq!(event["uid"], UNPRIVILEGED_UID, "{event:#}");
            assert_eq!(event["netns_inode"], namespace.inode(), "{event:#}");
        }
        let close = only(&events, "close", direction);
        assert_eq!(
            (&close["sent_bytes"], &close["received_bytes"]),
            (&0.into(), &0.into()),
            "{close:#}"
        );
        assert!(close.get("ended_how").is_none() && close.get("duration_us").is_none());
    }
}

#[test]
fn without_rights_short_connections_have_a_close() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ed_short"));
    let namespace = lab.namespace("alone");
    let running = unprivileged(&lab, &namespace, "-n --format jsonl --kinds close,fail");
    let made = connect(&namespace, "transfer", "127.0.0.1", 0);
    let refused = connect(&namespace, "refused_later", "127.0.0.1", 0);
    let (outcome, notes) = running.end();
    assert!(!notes.contains("lost"), "{notes}");
    let (events, summary) = events(&outcome);
    let by_port = |port: &Value| {
        let found: Vec<&Value> = events
            .iter()
            .filter(|event| event["event"] == "close" && event["local"]["port"] == *port)
            .collect();
        assert_eq!(found.len(), 1, "{events:#?}");
        found[0]
    };
    let (client, server) = (by_port(&made["client_port"]), by_port(&made["server_port"]));
    assert_eq!(
        (&client["sent_bytes"], &server["sent_bytes"]),
        (&100_000.into(), &5.into())
    );
    // A FIN may be among it.
    let received = server["received_bytes"].as_u64().unwrap();
    assert!((100_000..=100_001).contains(&received), "{server:#}");
    let fail = only(&events, "fail", "active");
    assert_eq!(fail["peer"]["port"], refused["server_port"], "{fail:#}");
    assert_eq!(summary["sources"][0]["source"], "sock_diag", "{summary}");
}

#[test]
fn table_csv_filter_and_summary_are_the_same_without_bpf() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ed_formats"));
    let namespace = lab.namespace("alone");
    for (line, closes) in [
        ("-n", 2),
        ("-n --format csv", 2),
        ("-n dst 127.0.0.1", 2),
        ("-n dst 127.0.0.2", 0),
        ("-n -N", 2),
    ] {
        let line = match line {
            "-n -N" => format!("-n -N {}", namespace.name()),
            line => line.to_owned(),
        };
        let line = format!("--source diag --kinds close {line}");
        let running = namespace.run(|| Running::start(&line));
        let running = need!(running);
        connect(&namespace, "transfer", "127.0.0.1", 0);
        let (outcome, notes) = running.end();
        let is_close = |line: &&str| line.split([' ', ',']).any(|word| word == "close");
        let shown = outcome.ok().lines().filter(is_close).count();
        assert_eq!(shown, closes, "{line}: {outcome}");
        assert!(notes.contains(&format!("{closes} closed")), "{line}: {notes}");
    }
    let running = need!(namespace.run(|| Running::start("--source diag -n --summary")));
    connect(&namespace, "many", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    assert!(
        outcome.ok().contains("400 closed") && outcome.ok().contains("127.0.0.1 "),
        "{outcome}"
    );
}

#[test]
fn overrun_of_the_socket_is_counted() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ed_overrun"));
    let namespace = lab.namespace("alone");
    let running = unprivileged(&lab, &namespace, "-n --format jsonl --kinds close --ring 32K");
    running.signal(Signal::STOP);
    for _ in 0..10 {
        connect(&namespace, "many", "127.0.0.1", 0);
    }
    running.signal(Signal::CONT);
    let (outcome, notes) = running.end();
    let (events, summary) = events(&outcome);
    let records = &summary["records"];
    let number = |key: &str| records[key].as_u64().unwrap();
    // Both ends of each connection, and the listeners.
    assert_eq!(number("made"), 10 * (2 * 200 + 1), "{records}");
    assert!(number("lost") > 3000, "{records}");
    assert_eq!(records["lost_by_kind"]["closes"], records["lost"], "{records}");
    assert!(events.len() as u64 <= number("read"), "{records}");
    assert!(notes.is_empty() || notes.contains(" lost"), "{notes}");
}

#[test]
fn kernel_without_types_falls_to_sock_diag() {
    let lab = need!(Lab::new("ed_ladder"));
    let namespace = lab.namespace("alone");
    let mut without_types = command();
    without_types.args(["events", "-n", "--btf", "/nonexistent", "-d", "0.1"]);
    let outcome = namespace.run(|| crate::fixtures::binary::run(&mut without_types));
    assert!(
        outcome.ok().is_empty() || outcome.ok().lines().count() == 1,
        "{outcome}"
    );
    for words in ["watching closes by sock_diag", "/nonexistent", "Not seen"] {
        assert!(outcome.to_string().contains(words), "{words}: {outcome}");
    }
    let mut only_bpf = command();
    only_bpf.args([
        "events",
        "-n",
        "--btf",
        "/nonexistent",
        "-d",
        "0.1",
        "--source",
        "bpf",
    ]);
    let outcome = namespace.run(|| crate::fixtures::binary::run(&mut only_bpf));
    assert!(outcome.failed(1).contains("/nonexistent"), "{outcome}");
}

#[test]
fn what_is_open_comes_first_with_since_start() {
    let lab = need!(Lab::new("ed_present"));
    let namespace = lab.namespace("alone");
    for source in ["bpf", "diag"] {
        let holder = Holder::start(&lab, &namespace);
        let line = format!(
            "-n -N {} --format jsonl --since-start --source {source}",
            namespace.name()
        );
        let running = need!(namespace.run(|| Running::start(&line)));
        let (ends, pid, server_port) = (holder.ends(), holder.process.pid(), holder.server_port);
        holder.process.end();
        let (outcome, _) = running.end();
        let (events, summary) = events(&outcome);
        assert_eq!(summary["counts"]["present_events"], 3, "{source}: {summary}");
        assert!(
            events[..3].iter().all(|event| event["event"] == "present"),
            "{events:#?}"
        );
        for (direction, port) in ends {
            let present = only(&events, "present", direction);
            assert_eq!(present["local"]["port"], port, "{source}: {present:#}");
            assert_eq!(
                (&present["owner"]["pid"], &present["known_by"]),
                (&pid.into(), &"walk".into()),
                "{source}: {present:#}"
            );
            assert_eq!(present["state"], "established");
        }
        let listens = events[..3]
            .iter()
            .find(|event| event["state"] == "listen")
            .expect("the listener");
        assert_eq!(listens["local"]["port"], server_port);
        for (direction, port) in ends {
            let close = only(&events, "close", direction);
            assert_eq!(close["local"]["port"], port, "{source}: {close:#}");
        }
        assert_eq!(summary["present_listeners"], 1, "{source}: {summary:#}");
        let at_port = &summary["by_port"][0];
        assert_eq!(
            (&at_port["port"], &at_port["present"], &at_port["closed"]),
            (&server_port.into(), &2.into(), &2.into()),
            "{source}: {summary:#}"
        );
        assert!(
            events.iter().all(|event| event["event"] != "open"),
            "{source}: {events:#?}"
        );
    }
}

#[test]
fn close_by_so_linger_has_the_address_of_its_open() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ed_linger"));
    let namespace = lab.namespace("alone");
    let line = format!("-n -N {} --format jsonl --source diag", namespace.name());
    let running = need!(namespace.run(|| Running::start(&line)));
    let made = connect(&namespace, "reset_by_linger", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let close = only(&events, "close", "active");
    assert_eq!(
        (&close["local"]["ip"], &close["local"]["port"]),
        (&"127.0.0.1".into(), &made["client_port"]),
        "{events:#?}"
    );
}
