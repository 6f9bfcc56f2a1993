//! `sockeye flows -w`: connections that open and close between two samples.

use crate::fixtures::binary::{SOCKEYE, command};
use crate::fixtures::processes::words_unprivileged;
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sockeye_lab::{Lab, Namespace, Skip, need};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Stdio};
use std::thread::JoinHandle;

const SENT: u64 = 100;
const RECEIVED: u64 = 250;

/// A running `sockeye flows -w` of which the first sample was read.
pub(super) struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
    notes: JoinHandle<String>,
}

/// The later samples, each with its rows.
pub(super) type Samples = Vec<(Value, Vec<Value>)>;

impl Watching {
    pub(super) fn start(namespace: &Namespace, line: &str) -> Self {
        namespace.run(|| Self::start_here(line))
    }

    fn start_here(line: &str) -> Self {
        let mut command = command();
        command
            .args(line.split_whitespace())
            .args(["--format", "jsonl"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stderr = child.stderr.take().expect("a pipe");
        let notes = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut first = String::new();
        while !first.contains("\"summary\"") {
            first.clear();
            assert_ne!(lines.read_line(&mut first).expect("a line"), 0, "no sample");
        }
        Self { child, lines, notes }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub(super) fn ended(mut self) -> (Samples, String) {
        let schema = schema_file::load(include_str!("../../../../../docs/schema/flows.schema.json"));
        let schema = json!({"$ref": "#/$defs/line", "$defs": schema["$defs"]});
        let schema = JSONSchema::options()
            .with_draft(Draft::Draft202012)
            .compile(&schema)
            .expect("a schema");
        let (mut samples, mut rows) = (Samples::new(), Vec::new());
        for line in self.lines.by_ref().lines() {
            let value: Value = serde_json::from_str(&line.expect("UTF-8")).expect("JSON");
            assert!(schema.is_valid(&value), "{value:#}");
            match value.get("summary") {
                Some(summary) => {
                    samples.push((summary["connections"].clone(), std::mem::take(&mut rows)));
                }
                None => rows.push(value),
            }
        }
        assert!(self.child.wait().expect("it ends").success());
        (samples, self.notes.join().expect("no panic"))
    }
}

/// Makes connections one after the other; each lives for less than a millisecond.
fn short_connections(namespace: &Namespace, count: u64) {
    namespace.run(|| {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        for _ in 0..count {
            let mut client = TcpStream::connect(address).unwrap();
            let (mut accepted, _) = server.accept().unwrap();
            client.write_all(&[0; SENT as usize]).unwrap();
            accepted.read_exact(&mut [0; SENT as usize]).unwrap();
            accepted.write_all(&[0; RECEIVED as usize]).unwrap();
            client.read_exact(&mut [0; RECEIVED as usize]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(accepted.read(&mut [0]).unwrap(), 0);
        }
    });
}

/// Returns what a rate counted in all samples, in the flows of one direction. Every connection opened and closed: how many did so gives
/// the length of each interval, which is known to the millisecond otherwise.
fn counted(samples: &Samples, direction: &str, name: &str) -> f64 {
    let of_sample = |(connections, rows): &(Value, Vec<Value>)| {
        let millis = connections["interval_ms"].as_f64().expect("a number");
        let rate = |name: &str| -> f64 {
            let of_row = |row: &Value| {
                // A flow whose connections are all in TIME_WAIT has none.
                let Some(rates) = row.get("rates") else {
                    return 0.0;
                };
                rates[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"))
            };
            let rows = rows.iter().filter(|row| row["direction"] == direction);
            rows.map(of_row).sum()
        };
        let closed = rate("closed_per_s");
        if closed == 0.0 {
            return 0.0;
        }
        let seconds = (closed * millis / 1000.0).round() / closed;
        rate(name) * seconds
    };
    samples.iter().map(of_sample).sum()
}

fn alone(purpose: &str) -> Result<(Lab, Namespace), Skip> {
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("alone");
    Ok((lab, namespace))
}

#[test]
fn connections_between_two_samples_are_all_counted() {
    const COUNT: u64 = 500;
    let (_lab, namespace) = need!(alone("fb_all"));
    let by_name = format!("flows -n -w 1 -c 3 --group-by port -N {}", namespace.name());
    for line in ["flows -n -w 1 -c 3", &by_name] {
        let watching = Watching::start(&namespace, line);
        short_connections(&namespace, COUNT);
        let (samples, notes) = watching.ended();
        if notes.contains("CAP_BPF") {
            return Skip::new(notes).print();
        }
        assert_eq!(samples.len(), 2, "{samples:#?}");
        let sum = |name: &str| -> u64 {
            samples
                .iter()
                .map(|(connections, _)| connections[name].as_u64().expect("a number"))
                .sum()
        };
        assert_eq!((sum("unseen"), sum("lost_events")), (0, 0));
        // A sample may have one of the connections.
        assert!(
            (2 * COUNT - 8..=2 * COUNT).contains(&sum("short")),
            "{samples:#?}"
        );
        for (direction, sent, received) in [("active", SENT, RECEIVED), ("passive", RECEIVED, SENT)] {
            let is = |name: &str, expected: u64| {
                let counted = counted(&samples, direction, name);
                assert!(
                    (counted - expected as f64).abs() < 0.01,
                    "{direction} {name}: {counted}, not {expected}: {samples:#?}"
                );
            };
            is("opened_per_s", COUNT);
            is("closed_per_s", COUNT);
            is("sent_bytes_per_s", COUNT * sent);
            is("received_bytes_per_s", COUNT * received);
        }
    }
}

/// Also what opens while a sample is read is in one interval, and in one only.
#[test]
fn opens_of_all_samples_add_up() {
    let (_lab, namespace) = need!(alone("fb_sum"));
    let watching = Watching::start(&namespace, "flows -n -w 0.05 -c 400");
    for _ in 0..40 {
        short_connections(&namespace, 50);
    }
    let mut opened = [0, 0];
    // Two samples more than are needed: they must add nothing.
    let mut later = 0;
    let mut watching = watching;
    for line in watching.lines.by_ref().lines() {
        let value: Value = serde_json::from_str(&line.expect("UTF-8")).expect("JSON");
        let connections = &value["summary"]["connections"];
        for (sum, key) in opened.iter_mut().zip(["active_opens", "passive_opens"]) {
            *sum += connections[key].as_u64().unwrap_or(0);
        }
        later += u64::from(connections.is_object() && opened.iter().all(|sum| *sum >= 2000));
        if later > 2 {
            break;
        }
    }
    watching.signal(Signal::KILL);
    watching.child.wait().expect("it ends");
    watching.notes.join().expect("no panic");
    assert_eq!(opened, [2000, 2000]);
}

#[test]
fn counters_go_on_when_a_namespace_is_gone() {
    let (_lab, stays) = need!(alone("fb_gone"));
    let mut goes = stays.command("unshare", &["--net", "sh", "-c", "echo ready; read line"]);
    let goes = goes.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut goes = goes.spawn().expect("unshare");
    let mut line = String::new();
    let stdout = goes.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    // The namespace of the tests can be one that cannot be entered from another.
    let watching = Watching::start_here("flows -n -w 1 -c 2 -N all");
    drop(goes.stdin.take());
    goes.wait().expect("it ends");
    short_connections(&stays, 50);
    let (samples, _) = watching.ended();
    let connections = &samples[0].0;
    assert!(
        connections["active_opens"].as_u64() >= Some(50),
        "other namespaces count too: {connections}"
    );
}

#[test]
fn short_connections_belong_to_their_process() {
    let (_lab, namespace) = need!(alone("fb_process"));
    need!(sockeye_lab::program("python3"));
    let watching = Watching::start(
        &namespace,
        "flows -n -w 1 -c 3 --group-by process owner = python3",
    );
    let code = "import socket
server = socket.create_server(('127.0.0.1', 0))
for _ in range(20):
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    client.close()
    accepted.close()
";
    namespace.output("python3", &["-c", code]);
    let (samples, notes) = watching.ended();
    if notes.contains("CAP_BPF") {
        return Skip::new(notes).print();
    }
    let rows: Vec<&Value> = samples.iter().flat_map(|(_, rows)| rows).collect();
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row["process"]["comm"] == "python3"),
        "{samples:#?}"
    );
    for direction in ["active", "passive"] {
        assert!((counted(&samples, direction, "closed_per_s") - 20.0).abs() < 0.01);
    }
}

#[test]
fn lost_events_make_rates_unknown() {
    let (_lab, namespace) = need!(alone("fb_lost"));
    let watching = Watching::start(&namespace, "flows -n -w 2 -c 2");
    watching.signal(Signal::STOP);
    // More than the ring of 4 MiB holds.
    short_connections(&namespace, 12_000);
    watching.signal(Signal::CONT);
    let (samples, notes) = watching.ended();
    if notes.contains("CAP_BPF") {
        return Skip::new(notes).print();
    }
    let (connections, rows) = &samples[0];
    let number = |name: &str| connections[name].as_u64().expect("a number");
    assert!(number("lost_events") > 1000, "{connections}");
    assert_eq!(number("short") + number("lost_events"), 24_000, "{connections}");
    assert!(
        rows.iter().all(|row| row["rates"].get("closed_per_s").is_none()),
        "{rows:#?}"
    );
    assert!(notes.contains("events lost: Opened/s"), "{notes}");
}

#[test]
fn without_events_a_note_says_what_is_not_seen() {
    let (lab, namespace) = need!(alone("fb_without"));
    let watching = Watching::start(&namespace, "flows -n -w 1 -c 2 --source diag");
    short_connections(&namespace, 50);
    let (samples, notes) = watching.ended();
    assert!(
        notes.contains("connections that open and close between two samples are not seen")
            && notes.contains("--source"),
        "{notes}"
    );
    let (connections, rows) = &samples[0];
    assert!(
        connections["unseen"].as_u64().is_some_and(|unseen| unseen >= 98),
        "{connections}"
    );
    assert!(connections.get("short").is_none() && connections.get("lost_events").is_none());
    assert!(
        rows.iter().all(|row| row["rates"].get("opened_per_s").is_none()),
        "{rows:#?}"
    );

    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let outcome = words_unprivileged(&namespace, &binary, "flows -n -w 0.1 -c 2");
    let note = outcome.error();
    assert!(
        note.contains("connections that open and close between two samples are not seen")
            && note.contains("CAP_BPF"),
        "{outcome}"
    );
}
