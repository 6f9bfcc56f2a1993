//! Text that the other end chose, and files and pipes that are not what they seem.

use super::hostile_client::{HostileClient, mac, read_frame, timed, unhex};
use crate::fixtures::binary::serving::Serving;
use crate::fixtures::binary::{Outcome, assert_harmless, command, words};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    [
        &u32::try_from(text.len()).unwrap().to_be_bytes()[..],
        text.as_bytes(),
    ]
    .concat()
}

/// Lines of its own, colours, characters that hide others, and more than anybody reads.
fn evil() -> String {
    format!(
        "x\nsockeye: all tests passed\r\n\u{1b}[2J\u{202e}{}",
        "z".repeat(5000)
    )
}

#[track_caller]
fn assert_one_short_line(outcome: &Outcome) {
    let error = outcome.error();
    assert_harmless(&outcome.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(!error.contains('\u{202e}') && error.len() < 400, "{error}");
}

#[test]
fn server_cannot_forge_lines() {
    for step in 0..2 {
        for name in ["stream", "rr", "crr"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let outcome = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut client, _) = listener.accept().unwrap();
                    client.read_exact(&mut [0; 40]).unwrap();
                    if step == 1 {
                        let challenge = json!({"challenge": "00".repeat(16), "secret": false});
                        client.write_all(&frame(&challenge)).unwrap();
                        client.read_exact(&mut [0; 32]).unwrap();
                        let _ = read_frame(&mut client);
                    }
                    client
                        .write_all(&frame(&json!({"error": evil(), "version": 2})))
                        .unwrap();
                    let _ = client.read_to_end(&mut Vec::new());
                });
                words(&format!("bench {name} 127.0.0.1 -p {port} -d 1"))
            });
            assert_eq!(outcome.code, Some(1), "{outcome}");
            assert!(
                outcome.error().contains("the other end refused: x\\nsockeye"),
                "{outcome}"
            );
            assert_one_short_line(&outcome);
        }
    }
}

/// A server that accepts a test, and then answers with `then` until the client is gone.
fn accepting(listener: &TcpListener, then: &[u8], is_repeated: bool) {
    let (mut client, _) = listener.accept().unwrap();
    let mut first = [0; 40];
    client.read_exact(&mut first).unwrap();
    let nonce = "22".repeat(16);
    client
        .write_all(&frame(&json!({"challenge": nonce, "secret": false})))
        .unwrap();
    client.read_exact(&mut [0; 32]).unwrap();
    let _ = read_frame(&mut client);
    let key = mac(b"", &[b"session", &[2], &first[12..28], &unhex(&nonce)]);
    let token = "33".repeat(16);
    let own = mac(&key, &[b"server", &unhex(&token)]);
    let proof: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
    client
        .write_all(&frame(
            &json!({"ok": {"token": token, "proof": proof, "port": 1}}),
        ))
        .unwrap();
    let _ = client.write_all(then);
    while is_repeated && client.write_all(then).is_ok() {}
    let _ = client.read_to_end(&mut Vec::new());
}

#[test]
fn server_that_refuses_late_cannot_forge_lines() {
    for (what, messages) in [
        ("instead of being ready", vec![json!({"error": evil()})]),
        (
            "in the middle",
            vec![json!({"ready": true}), json!({"error": evil()})],
        ),
        (
            "at the end",
            vec![
                json!({"ready": true}),
                json!({"done": true}),
                json!({"end": {"program": evil(), "congestion": evil(),
                    "devices": [{"name": evil(), "queue": evil(), "numbers": {}}]}, "error": evil()}),
            ],
        ),
    ] {
        for format in ["", "--json"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let messages: Vec<u8> = messages.iter().flat_map(frame).collect();
            let outcome = std::thread::scope(|scope| {
                scope.spawn(|| accepting(&listener, &messages, false));
                words(&format!("bench stream 127.0.0.1 -p {port} -d 1 {format}"))
            });
            assert_eq!(outcome.code, Some(1), "{what}: {outcome}");
            assert_harmless(&outcome.stdout);
            assert_harmless(&outcome.stderr);
            let text = String::from_utf8_lossy(&outcome.stdout).into_owned() + outcome.error();
            assert!(
                !text.contains('\u{202e}') && !text.contains(&"z".repeat(300)),
                "{text}"
            );
            let forged = text.lines().any(|line| line.starts_with("sockeye: all tests"));
            assert!(!forged, "{what}: {text}");
        }
    }
}

/// Messages without end do not keep a client waiting.
#[test]
fn server_that_never_stops_talking_keeps_no_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let flood = frame(&json!({"x": 1})).repeat(1000);
    let (outcome, seconds) = std::thread::scope(|scope| {
        scope.spawn(|| accepting(&listener, &flood, true));
        timed(|| words(&format!("bench rr 127.0.0.1 -p {port} -d 1 --timeout 1")))
    });
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(seconds < 8.0, "{seconds} s");
}

#[test]
fn log_has_short_and_harmless_lines() {
    let mut serving = Serving::new(None, "-p 0 -B 127.0.0.1");
    let server = SocketAddr::from(([127, 0, 0, 1], serving.port));
    let requests = [
        json!({"kind": "rr", "parameters": {"transport": "tcp", "request": 1, "response": 1, "connections": 1,
            "processor": format!("\u{9b}2J{}", evil())}}),
        json!({"kind": "stream", "parameters": {"direction": "send", "streams": 1, "time_us": 1, "transport": "tcp",
            "congestion": &evil()[..3000]}}),
        json!({"kind": "stream", "parameters": {"direction": &evil()[..3000], "streams": 1, "time_us": 1,
            "transport": "tcp"}}),
        json!({"kind": "stream", "parameters": {"direction": "send", "streams": 1, "time_us": 1,
            "transport": &evil()[..3000]}}),
        json!({"kind": &evil()[..3000], "parameters": {}}),
    ];
    for request in requests {
        let text = request.to_string();
        let text = if text.len() > 4000 {
            text.replace(&"z".repeat(2500), "")
        } else {
            text
        };
        let mut client = HostileClient::greet(TcpStream::connect(server).unwrap(), b"");
        client.request(&text);
        let answer = client.answer();
        let error = answer["error"].as_str().expect("a refusal");
        assert!(error.chars().count() <= 200, "{error}");
        assert!(
            !error.contains(['\n', '\u{202e}', '\u{9b}', '\u{1b}']),
            "{error:?}"
        );
    }
    let log = serving.end();
    assert_harmless(log.as_bytes());
    assert!(!log.contains('\u{202e}'), "{log}");
    let longest = log.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(420), "{longest:?}: {log}");
    assert!(
        !log.lines().any(|line| line.starts_with("sockeye: all tests")),
        "{log}"
    );
}

#[test]
fn secret_that_is_no_file_is_refused_at_once() {
    let folder = std::env::temp_dir().join(format!("sockeye-{}-fifo", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let fifo = folder.join("fifo");
    let made = Command::new("mkfifo")
        .args(["-m", "600"])
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let outcomes: Vec<_> = [
        fifo.display().to_string(),
        folder.display().to_string(),
        "/dev/zero".to_owned(),
    ]
    .into_iter()
    .flat_map(|file| {
        [
            "serve -p 0 -B 127.0.0.1",
            "stream 127.0.0.1",
            "rr 127.0.0.1",
            "crr 127.0.0.1",
        ]
        .map(|line| {
            format!(
                "timeout -s KILL 5 {} bench {line} --secret-file {file}",
                crate::fixtures::binary::SOCKEYE
            )
        })
    })
    .map(|line| {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        (crate::fixtures::binary::run(&mut command), line)
    })
    .collect();
    std::fs::remove_dir_all(&folder).unwrap();
    for (outcome, line) in outcomes {
        assert!(
            outcome.failed(1).contains("not a regular file"),
            "{line}: {outcome}"
        );
    }
}

#[test]
fn lost_lines_of_the_log_are_reported() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let line = format!("bench serve -B 127.0.0.1 -p {port}");
    let mut child = command()
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert!(first.contains("No space left on device"), "{first}");
    // It serves all the same.
    let outcome = words(&format!("bench rr 127.0.0.1 -p {port} -c 9"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(code, Some(1), "{rest}");
    assert_eq!(rest.lines().count(), 1, "{rest}");
    assert!(rest.contains("3 lines of the log could not be written"), "{rest}");
}

/// A reader that has gone does not matter.
#[test]
fn log_without_a_reader_is_no_failure() {
    let mut serving = Serving::new(None, "-p 0 -B 127.0.0.1");
    let outcome = words(&format!("bench rr 127.0.0.1 -p {} -c 9", serving.port));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    // The log's reader is dropped, and another pipe takes its place.
    let mut other = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    serving.stdout = BufReader::new(other.stdout.take().unwrap());
    other.wait().unwrap();
    let outcome = words(&format!("bench rr 127.0.0.1 -p {} -c 9", serving.port));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let pid = rustix::process::Pid::from_child(&serving.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (status, seconds) = timed(|| serving.child.wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(seconds < 5.0, "{seconds} s");
}
