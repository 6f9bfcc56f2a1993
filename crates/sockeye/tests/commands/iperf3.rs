//! Ours and the real iperf3, each as either end, in namespaces of their own.

use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, holds_within, need, program, wait_for, wait_until};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");

/// Tests as they are typed; rates so low that a busy machine keeps up.
const CASES: [&str; 7] = [
    "127.0.0.1 -b 40M",
    "127.0.0.1 -b 40M -R",
    "::1 -b 40M --bidir",
    "127.0.0.1 -b 10M -P 4",
    "127.0.0.1 -u -b 10M",
    "::1 -u -b 10M -R -P 2",
    "127.0.0.1 -u -b 10M --bidir",
];

#[test]
fn documents_have_the_keys_of_iperf3() {
    let (lab, _) = need!(here("i3_shape"));
    let (real, ours) = (lab.namespace("real"), lab.namespace("ours"));
    let servers = [&real, &ours].map(|place| Server::start(place, "iperf3", "-s"));
    for case in CASES {
        // Both at once, each in its own namespace: half the time.
        let theirs = start(&real, "iperf3", &format!("-c {case} -t 1 -J"));
        let mine = start(
            &ours,
            SOCKEYE,
            &format!("bench stream --iperf3 {case} -t 1 --json"),
        );
        let (theirs, mine) = (document(theirs), document(mine));
        let (theirs, mine) = (shape(&theirs), shape(&mine));
        let missing: Vec<_> = theirs.difference(&mine).collect();
        let more: Vec<_> = mine.difference(&theirs).collect();
        assert!(
            missing.is_empty() && more.is_empty(),
            "{case}: missing {missing:?}, more {more:?}"
        );
    }
    drop(servers);
}

#[test]
fn client_and_iperf3_server_count_the_same() {
    let (lab, _) = need!(here("i3_client"));
    let place = lab.namespace("a");
    for case in CASES
        .iter()
        .chain(&["127.0.0.1 -n 5M", "::1 -n 5M -R", "127.0.0.1 -k 20 -l 64Ki"])
    {
        let server = Server::start(&place, "iperf3", "-s -1 -J");
        let before = loopback_bytes(&place);
        let time = if case.contains(" -n ") || case.contains(" -k ") {
            ""
        } else {
            "-t 1"
        };
        let outcome = document(start(
            &place,
            SOCKEYE,
            &format!("bench stream --iperf3 {case} {time} --json"),
        ));
        let passed = loopback_bytes(&place) - before;
        let theirs: Value = serde_json::from_str(&server.end()).unwrap();
        let (ours, theirs) = (&outcome["end"], &theirs["end"]);
        let (mut carried, mut sent) = (0, 0);
        for (key, their_key) in sums(case) {
            let number = |end: &Value, key: &str| {
                end[key]["bytes"]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{case}: {key}"))
            };
            let bytes = number(ours, key);
            assert!(bytes > 0, "{case}: {key} is 0");
            if !their_key.is_empty() {
                let counted = number(theirs, their_key);
                assert_eq!(bytes, counted, "{case}: {key}");
            }
            if key.starts_with("sum_received") {
                carried += bytes;
            } else {
                sent += bytes;
            }
        }
        // Headers and the control connection are little compared with it. What a full receive buffer threw away passed, too.
        assert!(passed >= carried, "{case}: {carried} received, {passed} passed");
        assert!(
            passed as f64 <= carried.max(sent) as f64 * 1.1 + 100_000.0,
            "{case}: {sent} sent, {carried} received, {passed} passed"
        );
        if case.contains("-n 5M") {
            // Exactly what was asked for, up to a block. The server of iperf3 ends the test when the client does, and does not
            // count what it has not read.
            assert!(
                (5_000_000..5_000_000 + 400_000).contains(&sent) && carried <= sent,
                "{case}: {sent} sent, {carried} received"
            );
        }
    }
}

#[test]
fn server_works_with_the_iperf3_client() {
    let (lab, _) = need!(here("i3_server"));
    let place = lab.namespace("a");
    let server = Server::start(&place, SOCKEYE, "bench serve --iperf3");
    for case in CASES.iter().chain(&["127.0.0.1 -n 5M", "::1 -n 5M -R"]) {
        let before = loopback_bytes(&place);
        let time = if case.contains(" -n ") { "" } else { "-t 1" };
        let outcome = document(start(&place, "iperf3", &format!("-c {case} {time} -J")));
        let passed = loopback_bytes(&place) - before;
        assert_eq!(outcome["error"], Value::Null, "{case}");
        let sum = |prefix: &str| -> u64 {
            sums(case)
                .iter()
                .filter(|(key, _)| key.starts_with(prefix))
                .map(|(key, _)| outcome["end"][key]["bytes"].as_u64().unwrap())
                .sum()
        };
        let (carried, sent) = (sum("sum_received"), sum("sum_sent"));
        assert!(
            carried > 0 && passed >= carried,
            "{case}: {carried} received, {passed} passed"
        );
        assert!(
            passed as f64 <= carried.max(sent) as f64 * 1.1 + 100_000.0,
            "{case}: {sent} sent, {carried} received, {passed} passed"
        );
        assert!(
            outcome["end"]["cpu_utilization_percent"]["remote_total"].as_f64() > Some(0.0),
            "{case}"
        );
    }
    // What we cannot do, it says in its own words.
    let output = start(&place, "iperf3", "-c 127.0.0.1 -t 1 -w 500M")
        .wait_with_output()
        .unwrap();
    assert!(
        text(&output).contains("socket buffer size not set correctly"),
        "{}",
        text(&output)
    );
    // Rubbish does not disturb it.
    for rubbish in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &[b'a'; 41],
        b"abcdefghijklmnopqrstuvwxyz2345672345\0\0\0\0\x01{",
    ] {
        place.run(|| {
            let mut socket = std::net::TcpStream::connect("127.0.0.1:5201").unwrap();
            socket.write_all(rubbish).unwrap();
        });
    }
    // One at a time.
    let first = start(&place, "iperf3", "-c 127.0.0.1 -t 9 -b 1M");
    wait_for("the test to run", || (place.tcp_rows().len() > 4).then_some(()));
    let second = start(&place, "iperf3", "-c 127.0.0.1 -t 1")
        .wait_with_output()
        .unwrap();
    assert!(
        text(&second).contains("the server is busy running a test"),
        "{}",
        text(&second)
    );
    // A client that vanishes leaves the place to the next.
    drop(Killed(first));
    wait_for("the server to be free", || {
        let output = start(&place, "iperf3", "-c 127.0.0.1 -n 1M")
            .wait_with_output()
            .unwrap();
        output.status.success().then_some(())
    });
    // The end of the server ends the test, and the client reports it.
    let before = loopback_bytes(&place);
    let last = start(&place, "iperf3", "-c 127.0.0.1 -t 9 -b 1M");
    // Sockets of earlier tests may still be there: only data shows that this one runs.
    wait_for("the test to run", || {
        (loopback_bytes(&place) - before > 150_000).then_some(())
    });
    let log = server.end();
    let output = last.wait_with_output().unwrap();
    assert!(
        text(&output).contains("the server has terminated"),
        "{}",
        text(&output)
    );
    assert!(log.contains("not to its end: interrupted"), "{log}");
}

#[test]
fn client_reports_why_a_test_did_not_begin() {
    let (lab, _) = need!(here("i3_faults"));
    let place = lab.namespace("a");
    let check = |words: &str, expected: &str| {
        let line = format!("bench stream --iperf3 127.0.0.1 {words}");
        let output = start(&place, SOCKEYE, &line).wait_with_output().unwrap();
        let outcome = text(&output);
        assert!(outcome.contains(expected), "{line}: {outcome}");
        output.status.code()
    };
    assert_eq!(
        check("-t 1", "connection refused; is `iperf3 -s` running there"),
        Some(1)
    );
    assert_eq!(check("-t 0.5", "whole seconds"), Some(2));
    // Another listener on the port.
    place.run(|| {
        for (reply, expected) in [
            (
                &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
                "does not speak iperf3's protocol",
            ),
            (&[0xff], "the server is busy running a test"),
            (&[0xfe, 0, 0, 0, 142], "wants a user and a password"),
            (
                &[0xfe, 0, 0, 0, 27, 0, 0, 0, 0],
                "refused: the rate is above the server's limit",
            ),
            (
                &[9, 10, 0xfe, 0, 0, 3, 0xe7, 0, 0, 0, 13],
                "iperf3's error 999 (Permission denied",
            ),
            (&[11], "the server ended the test"),
            (&[], "closed the control connection"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:5201").unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let (mut socket, _) = listener.accept().unwrap();
                    let mut cookie = [0; 37];
                    socket.read_exact(&mut cookie).unwrap();
                    socket.write_all(reply).unwrap();
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                    let _ = socket.read_to_end(&mut Vec::new());
                });
                check("-t 1", expected);
            });
        }
    });
}

#[test]
fn interrupted_test_has_a_partial_report() {
    let (lab, _) = need!(here("i3_partial"));
    for who in ["server", "client"] {
        let place = lab.namespace(who);
        let server = Server::start(&place, "iperf3", "-s");
        let line = "bench stream --iperf3 127.0.0.1 -b 20M -t 20 -i 0.2 --json";
        let client = start(&place, SOCKEYE, line);
        wait_until("the stream to move", || loopback_bytes(&place) > 2_000_000);
        if who == "server" {
            drop(server);
        } else {
            rustix::process::kill_process(
                rustix::process::Pid::from_child(&client),
                rustix::process::Signal::INT,
            )
            .unwrap();
        }
        let output = client.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{who}: {}", text(&output));
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            outcome["end"]["sum_sent"]["bytes"].as_u64() > Some(500_000),
            "{who}: {outcome}"
        );
        assert!(outcome["error"].is_string(), "{who}: {outcome}");
    }
}

/// A lab, if the real iperf3 is here.
fn here(name: &str) -> Result<(Lab, std::path::PathBuf), Skip> {
    let iperf3 = program("iperf3")?;
    Ok((Lab::new(name)?, iperf3))
}

fn start(place: &Namespace, program: &str, line: &str) -> Child {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    place.run(move || command.spawn()).unwrap()
}

#[track_caller]
fn document(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Sums that a client reports, and the key of an iperf3 server for its own count.
fn sums(case: &str) -> Vec<(&'static str, &'static str)> {
    if case.contains("--bidir") {
        vec![
            ("sum_sent", ""),
            ("sum_received", "sum_received"),
            ("sum_sent_bidir_reverse", "sum_sent_bidir_reverse"),
            ("sum_received_bidir_reverse", ""),
        ]
    } else if case.contains("-R") {
        vec![("sum_sent", "sum_sent"), ("sum_received", "")]
    } else {
        vec![("sum_sent", ""), ("sum_received", "sum_received")]
    }
}

/// Each name in it with the kind of its value; all elements of an array together.
fn shape(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    walk(value, &format!("{path}.{key}"), found);
                }
            }
            Value::Array(values) => {
                for value in values {
                    walk(value, &format!("{path}[]"), found);
                }
            }
            Value::Number(_) => drop(found.insert(format!("{path} number"))),
            Value::String(_) => drop(found.insert(format!("{path} text"))),
            Value::Bool(_) => drop(found.insert(format!("{path} yes or no"))),
            Value::Null => drop(found.insert(format!("{path} null"))),
        }
    }
    let mut found = BTreeSet::new();
    walk(value, "", &mut found);
    found
}

/// What the loopback device received.
fn loopback_bytes(place: &Namespace) -> u64 {
    let text = place.proc_net("dev");
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("lo:"))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A server, which ends with the value.
struct Server(Killed);

impl Server {
    fn start(place: &Namespace, program: &str, line: &str) -> Self {
        let child = start(place, program, line);
        wait_until("the server to listen", || {
            let text = place.proc_net("tcp6") + &place.proc_net("tcp");
            text.lines()
                .any(|line| line.contains(":1451 ") && line.contains(" 0A "))
        });
        Self(Killed(child))
    }

    /// Asks it to end, and gives what it wrote.
    fn end(mut self) -> String {
        let child = &mut self.0.0;
        let pid = rustix::process::Pid::from_child(child);
        // One that served once has ended, or does within a moment.
        let moment = std::time::Duration::from_millis(300);
        wait_until("the server to end", || {
            let has_ended = holds_within(moment, || child.try_wait().unwrap().is_some());
            if !has_ended {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            has_ended
        });
        let mut outcome = String::new();
        child.stdout.take().unwrap().read_to_string(&mut outcome).unwrap();
        outcome
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
