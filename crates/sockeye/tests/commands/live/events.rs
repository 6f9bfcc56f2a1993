//! Real connections, and the events that they make.

use crate::fixtures::binary::{Outcome, command, ended, words};
use crate::fixtures::processes::words_unprivileged;
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, wait_until};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running `sockeye events`, attached.
pub(super) struct Running {
    pub(super) child: Child,
    /// Standard error after the note that it watches.
    notes: JoinHandle<String>,
}

impl Running {
    /// Starts it; a [`Skip`] if programs cannot be loaded here.
    pub(super) fn start(line: &str) -> Result<Self, Skip> {
        Self::start_by(command(), line)
    }

    pub(super) fn start_by(mut command: Command, line: &str) -> Result<Self, Skip> {
        let mut child = command
            .args(["events", "-v"])
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut first = String::new();
        stderr.read_line(&mut first).expect("a line");
        if !first.contains("watching") {
            let _ = child.wait();
            return if first.contains("CAP_BPF") {
                Err(Skip::new(first))
            } else {
                panic!("{first}")
            };
        }
        let notes = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = stderr.read_to_string(&mut rest);
            rest
        });
        Ok(Self { child, notes })
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Ends it by SIGINT.
    pub(super) fn end(self) -> (Outcome, String) {
        self.signal(Signal::INT);
        self.ended()
    }

    pub(super) fn ended(self) -> (Outcome, String) {
        let outcome = ended(self.child);
        (outcome, self.notes.join().expect("no panic"))
    }
}

/// The events and the summary of JSON lines, which follow their schema.
#[track_caller]
pub(super) fn events(outcome: &Outcome) -> (Vec<Value>, Value) {
    let schema = schema_file::load(include_str!("../../../../../docs/schema/events.schema.json"));
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .expect("a schema");
    let mut lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for line in &lines {
        assert!(schema.is_valid(line), "{line:#}");
    }
    let summary = lines.pop().expect("a summary");
    assert_eq!(summary["type"], "events_summary");
    let records = &summary["summary"]["records"];
    let number = |key: &str| records[key].as_u64().expect("a number");
    assert_eq!(
        number("read") + number("lost") + number("left_out"),
        number("made"),
        "{records}"
    );
    assert_eq!(number("unreadable"), 0);
    (lines, summary["summary"].clone())
}

/// Runs a function of `connections.py` in a namespace, and returns what it prints.
#[track_caller]
pub(super) fn connect(namespace: &Namespace, way: &str, address: &str, port: u16) -> Value {
    let output = namespace.output(
        "python3",
        &[script().to_str().expect("UTF-8"), way, address, &port.to_string()],
    );
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{way}: {error}: {output}"))
}

pub(super) fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/commands/live/connections.py")
}

/// Makes connections in a namespace of its own while events are watched there, and returns them with what was printed.
pub(super) fn watched(
    purpose: &str,
    way: &str,
    address: &str,
    more: &str,
) -> Result<(Vec<Value>, Value), Skip> {
    sockeye_lab::program("python3")?;
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("alone");
    let running = Running::start(&format!("-n -N {} --format jsonl {more}", namespace.name()))?;
    let made = connect(&namespace, way, address, 0);
    let (outcome, notes) = running.end();
    assert!(!notes.contains("lost"), "{notes}");
    let (events, _) = events(&outcome);
    Ok((events, made))
}

/// Returns the only event of a kind with this direction.
#[track_caller]
pub(super) fn only<'a>(events: &'a [Value], kind: &str, direction: &str) -> &'a Value {
    let is_it = |event: &&Value| event["event"] == kind && event["direction"] == direction;
    let found: Vec<&Value> = events.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{kind} {direction}: {events:#?}");
    found[0]
}

#[test]
fn transfer_has_owners_bytes_and_the_side_that_closed() {
    for address in ["127.0.0.1", "::1"] {
        let (events, made) = need!(watched("ev_transfer", "transfer", address, ""));
        let (out, back) = (only(&events, "open", "active"), only(&events, "open", "passive"));
        assert_eq!(out["local"]["port"], made["client_port"]);
        assert_eq!(
            (&out["owner"]["pid"], &out["known_by"]),
            (&made["pid"], &"connect".into())
        );
        assert_eq!(
            (&back["owner"]["pid"], &back["known_by"]),
            (&made["pid"], &"listener".into())
        );
        assert_eq!(back["local"]["ip"], address);
        assert!(
            out["setup_us"].as_u64().is_some_and(|us| us < 5_000_000),
            "{out:#}"
        );
        let (client, server) = (
            only(&events, "close", "active"),
            only(&events, "close", "passive"),
        );
        for (end, sent, received, side) in [(client, 100_000, 5, "local"), (server, 5, 100_000, "peer")] {
            assert_eq!(
                (&end["sent_bytes"], &end["received_bytes"]),
                (&sent.into(), &received.into()),
                "{end:#}"
            );
            assert_eq!(
                (&end["ended_how"], &end["ended_by"]),
                (&"fin".into(), &side.into()),
                "{end:#}"
            );
            assert!(
                end["duration_us"].as_u64().is_some() && end["rtt_us"].as_u64().is_some(),
                "{end:#}"
            );
            // On a busy machine an acknowledgement can come later than the probe for a lost tail.
            assert!(
                end["retrans_segs"].as_u64().is_some_and(|segs| segs < 5),
                "{end:#}"
            );
        }
        assert_eq!(
            (&client["owner"]["pid"], &client["closer"]["pid"]),
            (&made["pid"], &made["pid"])
        );
        // The child has read the data.
        assert_eq!(
            (&server["owner"]["pid"], &server["known_by"]),
            (&made["child"], &"accept".into())
        );
        assert_eq!(server["closer"]["pid"], made["child"]);
    }
}

#[test]
fn without_readers_the_closer_is_the_owner() {
    let (events, made) = need!(watched("ev_closer", "transfer", "127.0.0.1", "--no-readers"));
    let server = only(&events, "close", "passive");
    assert_eq!(
        (&server["owner"]["pid"], &server["known_by"]),
        (&made["child"], &"closer".into())
    );
}

#[test]
fn failed_opens_have_their_reason() {
    let (events, made) = need!(watched("ev_refused", "refused", "127.0.0.1", ""));
    let fail = only(&events, "fail", "active");
    assert_eq!(
        (&fail["ended_how"], &fail["error"]),
        (&"reset-received".into(), &"ECONNREFUSED".into()),
        "{fail:#}"
    );
    assert_eq!(
        (&fail["peer"]["port"], &fail["owner"]["pid"]),
        (&made["server_port"], &made["pid"])
    );
}

#[test]
fn unanswered_opens_time_out_or_are_abandoned() {
    let lab = need!(Lab::new("ev_unanswered"));
    need!(sockeye_lab::program("python3"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    // Packets to this address reach the other end of the link, which is not the one that they are for.
    let (address, device) = ("192.0.2.1", link.devices().0);
    client.ip(&format!("route add {address}/32 dev {device}"));
    client.ip(&format!(
        "neigh add {address} lladdr 02:00:00:00:00:07 dev {device}"
    ));
    let running = need!(Running::start(&format!("-n -N {} --format jsonl", client.name())));
    let made = connect(&client, "abandoned", address, 9);
    connect(&client, "unanswered", address, 9);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let fails: Vec<&Value> = events.iter().filter(|event| event["event"] == "fail").collect();
    assert_eq!(fails.len(), 2, "{events:#?}");
    assert_eq!(
        (&fails[0]["ended_how"], &fails[0]["owner"]["pid"]),
        (&"abandoned".into(), &made["pid"])
    );
    assert_eq!(
        (&fails[1]["ended_how"], &fails[1]["error"]),
        (&"timeout".into(), &"ETIMEDOUT".into())
    );
    assert!(
        fails[1]["setup_us"].as_u64().is_some_and(|us| us > 1_000_000),
        "{:#}",
        fails[1]
    );
    let again: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "retransmit")
        .collect();
    assert!(
        !again.is_empty() && again.iter().all(|event| event["retransmitted_by"] == "syn"),
        "{events:#?}"
    );
}

#[test]
fn abort_is_a_reset_on_both_sides() {
    let (events, made) = need!(watched("ev_aborted", "aborted", "127.0.0.1", "--kinds all"));
    let (client, server) = (
        only(&events, "close", "active"),
        only(&events, "close", "passive"),
    );
    assert_eq!(
        (&client["ended_how"], &client["ended_by"]),
        (&"reset-sent".into(), &"local".into()),
        "{client:#}"
    );
    assert_eq!(
        (&client["closer"]["pid"], &client["owner"]["pid"]),
        (&made["pid"], &made["pid"])
    );
    assert_eq!(
        (&server["ended_how"], &server["ended_by"]),
        (&"reset-received".into(), &"peer".into()),
        "{server:#}"
    );
    assert_eq!(
        only(&events, "reset-sent", "active")["local"]["port"],
        made["client_port"]
    );
    only(&events, "reset-received", "passive");
}

#[test]
fn close_with_unread_data_is_a_reset() {
    let (events, _) = need!(watched("ev_unread", "unread", "127.0.0.1", ""));
    let server = only(&events, "close", "passive");
    assert_eq!(
        (&server["ended_how"], &server["ended_by"]),
        (&"reset-sent".into(), &"local".into()),
        "{server:#}"
    );
    assert_eq!(server["received_bytes"], 10);
    let client = only(&events, "close", "active");
    assert_eq!(
        (&client["ended_how"], &client["sent_bytes"]),
        (&"reset-received".into(), &10.into()),
        "{client:#}"
    );
}

#[test]
fn worker_of_a_prefork_server_is_the_owner_when_it_closes() {
    let (events, made) = need!(watched("ev_prefork", "prefork", "127.0.0.1", ""));
    let open = only(&events, "open", "passive");
    assert_eq!(
        (&open["owner"]["pid"], &open["known_by"]),
        (&made["pid"], &"listener".into())
    );
    let close = only(&events, "close", "passive");
    assert_eq!(
        (&close["owner"]["pid"], &close["known_by"]),
        (&made["child"], &"closer".into()),
        "{close:#}"
    );
    assert_eq!(close["ended_by"], "local");
}

/// Checks that each connection of `listeners` has the process that listens for it; `old`: by the programs for kernels before 6.2.
fn connections_have_their_listener(purpose: &str, old: bool) -> Result<(), Skip> {
    sockeye_lab::program("python3")?;
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("alone");
    let mut watch = command();
    if old {
        watch.env("SOCKEYE_BPF", "5.10");
    }
    // Nothing accepts or reads: the owner stays the listener.
    let line = format!("-n -N {} --kinds open --format jsonl", namespace.name());
    let running = Running::start_by(watch, &line)?;
    let made = connect(&namespace, "listeners", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let made = made["connections"].as_array().expect("an array");
    let passive: Vec<&Value> = events
        .iter()
        .filter(|event| event["direction"] == "passive")
        .collect();
    assert_eq!((passive.len(), made.len()), (13, 13), "{events:#?}");
    for (nth, (event, connection)) in passive.iter().zip(made).enumerate() {
        assert_eq!(event["peer"]["port"], connection[0], "{nth}: {event:#}");
        let pids = connection[1].as_array().expect("an array");
        // The programs for older kernels store nothing with sockets: they do not know those that share a port, nor one for which the kernel
        // has found it.
        let is_known = !old || event.get("owner").is_some();
        assert!(
            !is_known || (pids.contains(&event["owner"]["pid"]) && event["known_by"] == "listener"),
            "{nth}: {pids:?} {event:#}"
        );
        assert!(is_known || [0, 1, 9].contains(&nth), "{nth}: {pids:?} {event:#}");
    }
    Ok(())
}

#[test]
fn connection_has_the_process_of_its_listener() {
    need!(connections_have_their_listener("ev_listeners", false));
}

#[test]
fn programs_before_6_2_know_the_listener_of_a_connection() {
    need!(connections_have_their_listener("ev_old_listeners", true));
}

/// A listener that the watch has seen is not that of connections which an older one at another address of its port has made.
#[test]
fn older_listener_at_the_port_of_a_new_one_keeps_its_connections() {
    let lab = need!(Lab::new("ev_two"));
    let namespace = lab.namespace("alone");
    let older = namespace.run(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let port = older.local_addr().unwrap().port();
    let running = need!(Running::start(&format!(
        "-n -N {} --kinds open --format jsonl",
        namespace.name()
    )));
    let code = format!(
        "import socket; s = socket.create_server(('127.0.0.2', {port})); socket.create_connection(('127.0.0.2', {port})); socket.create_connection(('127.0.0.1', {port}))"
    );
    let mut python = namespace.command("python3", &["-c", &code]).spawn().unwrap();
    let newer = python.id();
    python.wait().unwrap();
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let passive: Vec<&Value> = events
        .iter()
        .filter(|event| event["direction"] == "passive")
        .collect();
    let owners: Vec<_> = passive.iter().map(|event| &event["owner"]["pid"]).collect();
    assert_eq!(
        owners,
        [&Value::from(newer), &std::process::id().into()],
        "{events:#?}"
    );
}

#[test]
fn process_that_got_a_connection_is_the_owner_when_it_reads() {
    let (events, made) = need!(watched("ev_passed", "passed", "127.0.0.1", ""));
    let close = only(&events, "close", "passive");
    assert_eq!(
        (&close["owner"]["pid"], &close["known_by"]),
        (&made["child"], &"accept".into()),
        "{close:#}"
    );
    assert_eq!(
        (&close["closer"]["pid"], &close["received_bytes"]),
        (&made["child"], &2.into())
    );
}

#[test]
fn older_connection_has_the_owner_that_the_walk_found() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_older"));
    let namespace = lab.namespace("alone");
    let mut older = namespace
        .command(
            "python3",
            &[script().to_str().unwrap(), "older", "127.0.0.1", "0"],
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(older.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let running = match Running::start(&format!("-n -N {} --format jsonl", namespace.name())) {
        Ok(running) => running,
        Err(skip) => {
            let _ = older.kill();
            let _ = older.wait();
            return skip.print();
        }
    };
    // A new connection to the old listener.
    let port: u16 = line_port(&namespace);
    namespace.run(|| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    drop(older.stdin.take());
    line.clear();
    stdout.read_line(&mut line).unwrap();
    older.wait().unwrap();
    let made: Value = serde_json::from_str(&line).unwrap();
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let opened = only(&events, "open", "passive");
    assert_eq!(
        (&opened["owner"]["pid"], &opened["known_by"]),
        (&made["pid"], &"listener".into()),
        "{opened:#}"
    );
    let is_old = |event: &&Value| event["event"] == "close" && event.get("direction").is_none();
    let closes: Vec<&Value> = events.iter().filter(is_old).collect();
    assert_eq!(closes.len(), 2, "{events:#?}");
    for close in closes {
        assert_eq!(
            (&close["owner"]["pid"], &close["known_by"]),
            (&made["pid"], &"walk".into()),
            "{close:#}"
        );
        assert_eq!(close["closer"]["pid"], made["pid"], "{close:#}");
        assert!(close.get("duration_us").is_none(), "{close:#}");
        assert_eq!(close["ended_how"], "fin", "{close:#}");
    }
}

/// Returns the port of the only listener in a namespace.
fn line_port(namespace: &Namespace) -> u16 {
    let listing = namespace.run(|| words("sockets -tlnH --columns local_port"));
    listing.ok().trim().parse().expect("a port")
}

#[test]
fn stalled_reader_loses_events_and_counts_them() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_stalled"));
    let namespace = lab.namespace("alone");
    let running = need!(Running::start(&format!(
        "-n -N {} --format jsonl --ring 8K",
        namespace.name()
    )));
    running.signal(Signal::STOP);
    connect(&namespace, "many", "127.0.0.1", 0);
    running.signal(Signal::CONT);
    let (outcome, notes) = running.end();
    let (events, summary) = events(&outcome);
    let records = &summary["records"];
    let number = |key: &str| records[key].as_u64().unwrap();
    // Each connection opens and closes on both sides; the listener is one more, at its begin and its end.
    assert_eq!(number("made") + number("missed"), 802, "{records}");
    assert!(number("lost") > 700, "{records}");
    assert_eq!(events.len() as u64, number("read"), "{records}");
    let by_kind = records["lost_by_kind"].as_object().unwrap();
    let lost: u64 = by_kind.values().map(|lost| lost.as_u64().unwrap()).sum();
    assert_eq!(lost, number("lost"));
    // The loss may be counted after the last note: the summary has it. What is compared with is always said.
    let notes: Vec<_> = notes
        .lines()
        .filter(|note| !note.contains("compared with"))
        .collect();
    assert!(notes.iter().all(|note| note.contains(" lost")), "{notes:?}");
}

#[test]
fn events_beyond_the_budget_are_left_out_and_counted() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_budget"));
    let namespace = lab.namespace("alone");
    // Even to wait for events takes more than a millionth of a processor.
    let running = need!(Running::start(&format!(
        "-n -N {} --summary --format jsonl --cpu 0.0001%",
        namespace.name()
    )));
    let (begin, mut rounds) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(2) {
        connect(&namespace, "many", "127.0.0.1", 0);
        rounds += 1;
    }
    let (outcome, notes) = running.end();
    let (_, summary) = events(&outcome);
    let records = &summary["records"];
    let number = |key: &str| records[key].as_u64().unwrap();
    assert_eq!(number("made") + number("missed"), rounds * 802, "{records}");
    assert!(number("left_out") > 0, "{records}");
    assert!(summary["sampled_every"].as_u64().unwrap() > 1, "{summary}");
    let of_listeners = ["listen_events", "unlisten_events"].map(|kind| summary["counts"][kind].as_u64());
    assert_eq!(of_listeners, [Some(rounds); 2], "never left out");
    assert!(notes.contains("--cpu allows: only those of one in"), "{notes}");
}

#[test]
fn count_and_duration_end_it() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_count"));
    let namespace = lab.namespace("alone");
    let running = need!(Running::start(&format!(
        "-n -N {} --format csv --kinds open,close -c 3",
        namespace.name()
    )));
    connect(&namespace, "transfer", "127.0.0.1", 0);
    let (outcome, notes) = running.ended();
    let lines: Vec<&str> = outcome.ok().lines().collect();
    assert_eq!(lines.len(), 4, "{outcome}");
    assert!(
        lines[0].starts_with("time,") && lines[0].contains(",owner_comm,owner_pid,known_by,"),
        "{outcome}"
    );
    assert!(notes.contains("no event was lost"), "{notes}");
    let running = need!(Running::start("-d 0.2 sport = :1"));
    let (outcome, notes) = running.ended();
    assert_eq!(outcome.ok().lines().count(), 1, "the header: {outcome}");
    assert!(notes.contains("0 opened, 0 failed, 0 closed"), "{notes}");
}

#[test]
fn filter_selects_by_port_owner_and_counters() {
    for (filter, expected) in [
        ("sport = :1", 0),
        ("owner = python3", 4),
        ("owner = no-such-program", 0),
        ("dst ::1", 0),
        ("dst 127.0.0.1", 4),
        // A few are sent again where the receiver gets no processor for a while.
        ("retrans > 1000", 0),
    ] {
        let (events, _) = need!(watched(
            "ev_filter",
            "transfer",
            "127.0.0.1",
            &format!("--kinds open,close {filter}")
        ));
        assert_eq!(events.len(), expected, "{filter}: {events:#?}");
    }
}

#[test]
fn table_has_a_line_for_each_event() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_table"));
    let namespace = lab.namespace("alone");
    let running = need!(Running::start(&format!("-n -N {}", namespace.name())));
    connect(&namespace, "transfer", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    // On a busy machine an acknowledgement can come later than the probe for a lost tail.
    let lines = outcome.ok().lines().filter(|line| !line.contains(" retransmit "));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 7, "{outcome}");
    assert!(
        lines[0].starts_with("Time ") && lines[0].ends_with("How"),
        "{outcome}"
    );
    for words in [
        "listen",
        "open",
        "close",
        "unlisten",
        "fin by local",
        "fin by peer",
        "python3(",
    ] {
        assert!(outcome.ok().contains(words), "{words}: {outcome}");
    }
    let running = need!(Running::start(&format!("-n --summary -N {}", namespace.name())));
    connect(&namespace, "transfer", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    assert!(outcome.ok().starts_with("Process "), "{outcome}");
    for words in [
        "python3 ",
        "127.0.0.1 ",
        "close fin ",
        "2 opened, 0 failed, 2 closed, ",
    ] {
        assert!(outcome.ok().contains(words), "{words}: {outcome}");
    }
}

#[test]
fn nothing_stays_attached_after_kill() {
    let running = need!(Running::start("sport = :1"));
    let pid = running.child.id();
    let mut programs = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten() {
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        let ids = info.lines().filter_map(|line| line.strip_prefix("prog_id:"));
        programs.extend(ids.map(|id| id.trim().parse::<u32>().unwrap()));
    }
    assert!(programs.len() >= 4, "{programs:?}");
    running.signal(Signal::KILL);
    let mut child = running.child;
    child.wait().unwrap();
    wait_until("the programs are gone", || {
        let is_there = |id: &u32| sockeye_sys::bpf::Program::by_id(*id).is_ok();
        !programs.iter().any(is_there)
    });
}

#[test]
fn missing_rights_are_named() {
    let lab = need!(Lab::new("ev_rights"));
    let namespace = lab.namespace("alone");
    let binary = lab.copy_for_all_users(crate::fixtures::binary::SOCKEYE.as_ref());
    let outcome = words_unprivileged(&namespace, &binary, "events -d 0.1 --source bpf");
    assert!(outcome.failed(1).contains("CAP_BPF"), "{outcome}");
}

#[test]
fn programs_before_6_2_show_the_same() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_old"));
    let namespace = lab.namespace("alone");
    let mut old = command();
    old.env("SOCKEYE_BPF", "5.10");
    let running = need!(Running::start_by(
        old,
        &format!("-n -N {} --format jsonl", namespace.name())
    ));
    let made = connect(&namespace, "transfer", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let open = only(&events, "open", "passive");
    assert_eq!(
        (&open["owner"]["pid"], &open["known_by"]),
        (&made["pid"], &"listener".into()),
        "{open:#}"
    );
    let close = only(&events, "close", "passive");
    assert_eq!(
        (&close["owner"]["pid"], &close["known_by"]),
        (&made["child"], &"accept".into()),
        "{close:#}"
    );
    assert_eq!(
        (&close["received_bytes"], &close["ended_how"]),
        (&100_000.into(), &"fin".into()),
        "{close:#}"
    );
}

#[test]
fn fin_of_an_older_connection_is_no_byte() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_half"));
    let namespace = lab.namespace("alone");
    let script = script();
    let arguments = [script.to_str().expect("UTF-8"), "half_closed", "127.0.0.1", "0"];
    let mut holder = namespace
        .command("python3", &arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ready = String::new();
    let stdout = holder.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut ready).expect("a line");
    let started = Running::start(&format!(
        "-n -N {} --format jsonl --since-start",
        namespace.name()
    ));
    let ended = started.map(Running::end);
    drop(holder.stdin.take());
    holder.wait().expect("it ends");
    let (outcome, _) = need!(ended);
    let (events, _) = events(&outcome);
    let present = only(&events, "present", "passive");
    assert_eq!(
        (&present["state"], &present["received_bytes"]),
        (&"close_wait".into(), &50.into()),
        "{present:#}"
    );
}

#[test]
fn one_signal_ends_it_while_its_output_is_not_read() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_blocked"));
    let namespace = lab.namespace("alone");
    let running = need!(Running::start(&format!("-n -N {}", namespace.name())));
    // More than a pipe holds.
    connect(&namespace, "many", "127.0.0.1", 0);
    connect(&namespace, "many", "127.0.0.1", 0);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    let Running { mut child, notes } = running;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        if begin.elapsed() > Duration::from_secs(20) {
            child.kill().expect("it runs");
            panic!("it still runs after {:?}", begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let notes = notes.join().expect("no panic");
    assert!(status.success(), "{status}: {notes}");
    assert!(
        notes.contains("has stopped to read") && notes.contains("opened"),
        "{notes}"
    );
    // What was read and not shown is lost.
    assert!(notes.contains(" were lost: ") && notes.contains(">="), "{notes}");
}

#[test]
fn udp_socket_opens_before_its_first_error() {
    let (events, made) = need!(watched(
        "ev_udp_order",
        "udp_refused",
        "127.0.0.1",
        "-u --kinds open,error"
    ));
    let port = &made["client_port"];
    let kinds: Vec<_> = events
        .iter()
        .filter(|event| event["local"]["port"] == *port)
        .map(|event| event["event"].as_str().expect("a word"))
        .collect();
    assert!(kinds.len() >= 2 && kinds[0] == "open", "{events:#?}");
}
