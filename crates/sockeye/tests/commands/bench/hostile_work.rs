//! Requests that cost a client little and want much of `bench serve`: the server does a bounded amount of work for them.

use super::hostile_client::{HostileClient, connect_from, processor_share};
use super::hostile_load::{assert_served, serving};
use crate::fixtures::binary::serving::Serving;
use crate::fixtures::binary::words;
use sockeye_lab::{need, program};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);

#[track_caller]
fn assert_cheap(serving: &Serving, what: &str) {
    let used = processor_share(&serving.child, Duration::from_secs(2));
    println!("{what}: {:.1} % of a core", used * 100.0);
    assert!(used <= 0.10, "{what}: {used} of a core");
    assert_served(serving);
}

fn rr(connections: u16, transport: &str) -> String {
    format!(
        r#"{{"kind": "rr", "parameters": {{"transport": "{transport}", "request": 64, "response": 64,
        "connections": {connections}, "busy_poll": true}}}}"#
    )
}

#[test]
fn client_cannot_let_threads_spin() {
    let (serving, server) = serving("");
    let (client, streams) = HostileClient::running(ATTACKER, server, &rr(64, "tcp"), 0..64).expect("it runs");
    std::thread::sleep(Duration::from_millis(200));
    assert_cheap(&serving, "64 idle connections that ask for busy polling");
    drop((client, streams));
    // An honest client learns that its server waits in the usual way.
    let busy_poll = |serving: &Serving, flags: &str| {
        let port = serving.port;
        let outcome = words(&format!(
            "bench rr 127.0.0.1 -p {port} -c 100 --busy-poll --json {flags}"
        ));
        outcome.json()["settings"]["server_busy_poll"].clone()
    };
    assert_eq!(busy_poll(&serving, ""), false);
    assert_eq!(busy_poll(&serving, "-u"), false);
    let allowing = Serving::new(None, "-p 0 -B 127.0.0.1 --allow-busy-poll");
    assert_eq!(busy_poll(&allowing, ""), true);
    let file = std::env::temp_dir().join(format!("sockeye-{}-spin", std::process::id()));
    std::fs::write(&file, "a secret").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.display().to_string();
    let trusting = Serving::new(None, &format!("-p 0 -B 127.0.0.1 --secret-file {file}"));
    let polls = busy_poll(&trusting, &format!("--secret-file {file}"));
    std::fs::remove_file(file).unwrap();
    assert_eq!(polls, true);
}

#[test]
fn streams_that_are_never_read_cost_little() {
    let (serving, server) = serving("");
    let request = |length: &str| {
        format!(
            r#"{{"kind": "stream", "parameters": {{"direction": "send", "streams": 128, "time_us": 3600000000,
            "transport": "tcp", "rate": 1000000000, "length": {length}}}}}"#
        )
    };
    for length in ["1", "1023"] {
        let answer = HostileClient::running(ATTACKER, server, &request(length), []).err();
        let error = answer.expect("short writes are refused")["error"].to_string();
        assert!(error.contains("1024 bytes at least"), "{error}");
    }
    let mut attackers = Vec::new();
    for last in 0..6 {
        let from = Ipv4Addr::new(127, 0, 0, 10 + last);
        let numbers = (0..128).map(|number| number | 0x8000);
        let running = HostileClient::running(from, server, &request("1024"), numbers);
        attackers.push(running.expect("it runs"));
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for (client, _) in &mut attackers {
                    client.send(r#"{"x": 1}"#);
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        // Until the buffers are full.
        std::thread::sleep(Duration::from_secs(5));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_cheap(&serving, "768 streams that are never read");
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.expect("it costs little");
    });
}

/// Of iperf3's clients too: writes of a byte, and streams that are never read.
#[test]
fn iperf3_streams_that_are_never_read_cost_little() {
    let (serving, server) = serving("");
    let parameters = br#"{"tcp": true, "reverse": true, "parallel": 128, "time": 3600, "len": 1}"#;
    let len = u32::try_from(parameters.len()).unwrap().to_be_bytes();
    let cookie = [&[b'q'; 36][..], &[0]].concat();
    let mut control = connect_from(ATTACKER, server);
    control
        .write_all(&[&cookie[..], &len, parameters].concat())
        .unwrap();
    let mut states = [0; 2];
    control.read_exact(&mut states).unwrap();
    assert_eq!(states, [9, 10]);
    let mut streams = Vec::new();
    for _ in 0..128 {
        let mut stream = connect_from(ATTACKER, server);
        stream.write_all(&cookie).unwrap();
        streams.push(stream);
    }
    control.read_exact(&mut states).unwrap();
    assert_eq!(states, [1, 2], "the test runs");
    std::thread::sleep(Duration::from_secs(5));
    assert_cheap(&serving, "128 streams of iperf3 that are never read");
    // Messages without end finish the test.
    let begun = std::time::Instant::now();
    while control.write_all(&[2; 64]).is_ok() {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the server still takes them"
        );
    }
}

#[test]
fn messages_without_end_finish_the_test() {
    let (serving, server) = serving("");
    let stream = r#"{"kind": "stream", "parameters": {"direction": "receive", "streams": 1, "time_us": 60000000,
        "transport": "tcp"}}"#;
    for (what, request, bytes) in [
        (
            "messages of rr",
            rr(1, "tcp").as_str(),
            &b"\0\0\0\x07{\"x\":1}"[..],
        ),
        ("messages of stream", stream, b"\0\0\0\x07{\"x\":1}"),
        (
            "one long message after the other",
            stream,
            &[&b"\0\0\x40\x00\""[..], &[b'x'; 16382], b"\""].concat(),
        ),
    ] {
        let (client, _streams) = HostileClient::running(ATTACKER, server, request, [0]).expect("it runs");
        let is_over = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let control = client.control.try_clone().unwrap();
            let flood = scope.spawn(|| {
                let bytes = bytes.repeat(1 + 5_000 / bytes.len());
                let mut control = control;
                while !is_over.load(Ordering::Relaxed) {
                    if control.write_all(&bytes).is_err() {
                        return true;
                    }
                }
                false
            });
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_cheap(&serving, what)));
            is_over.store(true, Ordering::Relaxed);
            let _ = client.control.shutdown(std::net::Shutdown::Both);
            outcome.expect("it costs little");
            flood.join().unwrap()
        });
        assert!(ended, "{what}: the server still takes them");
    }
}

/// Many requests in one packet, with short answers that are never read.
#[test]
fn requests_that_come_at_once_are_answered_at_once() {
    let (serving, server) = serving("");
    let request = r#"{"kind": "rr", "parameters": {"transport": "tcp", "request": 1, "response": 1, "connections": 1}}"#;
    let (_client, mut streams) = HostileClient::running(ATTACKER, server, request, [0]).expect("it runs");
    let before = super::hostile_client::processor_time(&serving.child);
    let mut stream = streams.remove(0);
    let mut reader = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = 4_000_000_usize;
            let mut buffer = vec![0; 1 << 16];
            while left > 0 {
                left -= reader.read(&mut buffer).expect("an answer").min(left);
            }
        });
        stream.write_all(&vec![0; 4_000_000]).unwrap();
    });
    let used = super::hostile_client::processor_time(&serving.child) - before;
    println!("4,000,000 requests: {used} s of processor time");
    // One write for each would take seconds.
    assert!(used < 0.5, "{used} s");
}

#[test]
fn guesses_of_the_secret_have_a_limit() {
    let file = std::env::temp_dir().join(format!("sockeye-{}-guess", std::process::id()));
    std::fs::write(&file, "the right one").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (serving, server) = serving(&format!("--secret-file {}", file.display()));
    let (guesses, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let request = r#"{"kind": "rr", "parameters": {"transport": "tcp", "request": 1, "response": 1, "connections": 1}}"#;
    let (seconds, served) = std::thread::scope(|scope| {
        // One of the addresses is that of the honest client.
        for last in [1, 1, 10, 11, 12] {
            let (guesses, is_over) = (&guesses, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let from = Ipv4Addr::new(127, 0, 0, last);
                    let mut client = HostileClient::greet(connect_from(from, server), b"a wrong one");
                    client.request(request);
                    let answer = client.answer();
                    assert!(answer["ok"].is_null(), "{answer}");
                    if answer["error"].is_string() {
                        guesses.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let begun = std::time::Instant::now();
        let used = processor_share(&serving.child, Duration::from_secs(2));
        println!("{:.1} % of a core", used * 100.0);
        let served: Vec<_> = (0..5)
            .map(|_| {
                let line = format!(
                    "bench rr 127.0.0.1 -p {} -c 9 --secret-file {}",
                    serving.port,
                    file.display()
                );
                super::hostile_client::timed(|| words(&line))
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(used <= 0.10, "{used} of a core");
        (begun.elapsed().as_secs_f64() + 0.5, served)
    });
    std::fs::remove_file(&file).unwrap();
    let guesses = f64::from(guesses.load(Ordering::Relaxed));
    println!("{guesses} guesses in {seconds:.1} s");
    // Twenty at once and ten a second, of four addresses; the last answers came a little later.
    assert!(
        guesses <= 4.0 * (21.0 + 10.0 * (seconds + 1.0)),
        "{guesses} in {seconds} s"
    );
    for (outcome, seconds) in &served {
        assert_eq!(outcome.code, Some(0), "{outcome}");
        println!("served after {seconds:.2} s");
    }
    assert!(served.iter().any(|(_, seconds)| *seconds < 1.0));
}

/// Another user of the server's host cannot share its ports.
#[test]
fn port_is_not_shared_with_other_users() {
    const BIND: &str = r"
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            made = socket.socket(family, kind)
            made.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                made.bind((address, int(sys.argv[1])))
                if kind == socket.SOCK_STREAM:
                    made.listen()
                print('bound', option, address, kind)
            except OSError:
                pass
            made.close()
";
    let python = need!(program("python3"));
    for flags in ["-p 0", "-p 0 -B 127.0.0.1"] {
        let serving = Serving::new(None, flags);
        let server = SocketAddr::from(([127, 0, 0, 1], serving.port));
        // Also while a test has UDP sockets on that port.
        let (_client, _streams) =
            HostileClient::running(ATTACKER, server, &rr(1, "tcp"), [0]).expect("it runs");
        let mut stream = Command::new(crate::fixtures::binary::SOCKEYE);
        let line = format!("bench rr 127.0.0.1 -p {} -u -d 2", serving.port);
        stream.args(line.split_whitespace());
        let mut honest = stream.stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let outcome =
            crate::fixtures::binary::run(Command::new(&python).args(["-c", BIND, &serving.port.to_string()]));
        let code = honest.wait().unwrap().code();
        assert_eq!(outcome.quiet(), "", "{flags}");
        assert_eq!(code, Some(0), "{flags}");
        // Clients of UDP one after the other, and several at once, are served.
        for line in [
            "rr -u -c 100 -P 8",
            "stream -u -b 8M -n 100K -P 4",
            "stream -u -b 8M -n 100K -R -P 4",
        ] {
            let (command, flags) = line.split_once(' ').unwrap();
            let outcome = words(&format!("bench {command} 127.0.0.1 -p {} {flags}", serving.port));
            assert_eq!(outcome.code, Some(0), "{line}: {outcome}");
        }
    }
}
