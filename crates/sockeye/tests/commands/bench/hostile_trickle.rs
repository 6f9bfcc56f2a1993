//! Tests that move a few bytes now and then, so that they are never idle: they keep no honest client out of `bench serve`, and
//! honest tests at speed keep their place.

use super::hostile_client::{HostileClient, connect_from, processor_share};
use super::hostile_load::{SOON_S, assert_served, iperf3, serving};
use crate::fixtures::binary::{SOCKEYE, clean, ended};
use sockeye_lab::{need, program};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The server receives one stream, for an hour.
const HOUR: &str = r#"{"kind": "stream", "parameters": {"direction": "receive", "streams": 1, "time_us": 3600000000,
    "transport": "tcp"}}"#;
/// One connection with requests of a byte.
const REQUESTS: &str = r#"{"kind": "rr", "parameters": {"transport": "tcp", "request": 1, "response": 1,
    "connections": 1}}"#;

type Tests = Mutex<Vec<(HostileClient, Vec<TcpStream>)>>;

/// Runs `act` while tests from these addresses move a byte, and send a message, several times a second.
fn while_trickling(server: SocketAddr, request: &str, from: &[Ipv4Addr], act: impl FnOnce(&Tests)) {
    let tests: Vec<_> = from
        .iter()
        .filter_map(|&from| HostileClient::running(from, server, request, [0]).ok())
        .collect();
    assert!(tests.len() >= 30, "{} tests run", tests.len());
    let (tests, is_over) = (Mutex::new(tests), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for (client, streams) in tests.lock().unwrap().iter_mut() {
                    client.send(r#"{"x": 1}"#);
                    let _ = streams[0].write_all(b"x");
                }
                std::thread::sleep(Duration::from_millis(400));
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&tests)));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

fn addresses(count: u8, of: u8) -> Vec<Ipv4Addr> {
    (0..count)
        .map(|at| Ipv4Addr::new(127, 0, 0, 10 + at % of))
        .collect()
}

#[test]
fn trickling_tests_keep_no_client_out() {
    let own = vec![Ipv4Addr::LOCALHOST; 32];
    for request in [HOUR, REQUESTS] {
        for (what, from) in [
            ("two addresses", addresses(64, 2)),
            ("many addresses", addresses(64, 60)),
            ("the address of the client", own.clone()),
        ] {
            let (serving, server) = serving("");
            while_trickling(server, request, &from, |_| {
                std::thread::sleep(Duration::from_millis(1200));
                let used = processor_share(&serving.child, Duration::from_secs(2));
                println!("{what}: {:.1} % of a core", used * 100.0);
                assert!(used <= 0.10, "{what}: {used} of a core");
                assert_served(&serving);
            });
        }
    }
}

/// Streams that come one by one keep a test from being idle, too.
#[test]
fn tests_that_open_slowly_keep_no_client_out() {
    let (serving, server) = serving("");
    let request = r#"{"kind": "rr", "parameters": {"transport": "tcp", "request": 1, "response": 1, "connections": 100}}"#;
    let mut opening: Vec<HostileClient> = (0..64)
        .map(|at| {
            let from = Ipv4Addr::new(127, 0, 0, 10 + at % 2);
            let mut client = HostileClient::greet(connect_from(from, server), b"");
            client.request(request);
            let answer = client.answer();
            let token = answer["ok"]["token"].as_str().expect("a token");
            client.token = super::hostile_client::unhex(token);
            client
        })
        .collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut kept = Vec::new();
            for number in 0..100 {
                for client in &mut opening {
                    let mut stream = connect_from(Ipv4Addr::new(127, 0, 0, 9), server);
                    let _ = stream.write_all(&client.data(1, number));
                    kept.push(stream);
                }
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(150));
            }
        });
        std::thread::sleep(Duration::from_millis(5500));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_served(&serving)));
        is_over.store(true, Ordering::Relaxed);
        outcome.expect("honest clients are served");
    });
}

fn start(line: &str) -> Child {
    let mut command = Command::new(SOCKEYE);
    clean(&mut command);
    command
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the client starts")
}

#[test]
fn honest_tests_at_speed_keep_their_place() {
    let (serving, server) = serving("");
    let port = serving.port;
    let honest = [
        format!("bench stream 127.0.0.1 -p {port} -d 9 -b 8M"),
        format!("bench stream 127.0.0.1 -p {port} -d 9 -b 8M -R"),
        format!("bench stream 127.0.0.1 -p {port} -d 9 -b 8M -u"),
        format!("bench rr 127.0.0.1 -p {port} -d 9 --rate 500"),
    ];
    let honest = honest.map(|line| (start(&line), line));
    std::thread::sleep(Duration::from_millis(500));
    while_trickling(server, HOUR, &addresses(60, 60), |tests| {
        // More of them than there are places, again and again; the older ones make room.
        for round in 0..5 {
            for from in [addresses(40, 2), vec![Ipv4Addr::LOCALHOST; 30]].concat() {
                let more = HostileClient::running(from, server, HOUR, [0]);
                tests.lock().unwrap().extend(more);
            }
            println!("round {round}");
            std::thread::sleep(Duration::from_millis(1100));
        }
        for (child, line) in honest {
            let outcome = ended(child);
            assert_eq!(outcome.code, Some(0), "{line}: {outcome}");
        }
    });
}

#[test]
fn test_that_makes_room_learns_why() {
    let (serving, server) = serving("");
    let from = vec![Ipv4Addr::LOCALHOST; 31];
    let line = format!("bench rr 127.0.0.1 -p {} -d 60 --rate 1", serving.port);
    let slow = start(&line);
    std::thread::sleep(Duration::from_millis(1500));
    while_trickling(server, REQUESTS, &from, |tests| {
        let mut slow = slow;
        // A newer one is faster than that of the honest client.
        for _ in 0..40 {
            for (client, streams) in tests.lock().unwrap().iter_mut() {
                client.send(r#"{"x": 1}"#);
                let _ = streams[0].write_all(b"xxxxxxxxxxxxxxxx");
            }
            let more = HostileClient::running(Ipv4Addr::LOCALHOST, server, REQUESTS, [0]);
            tests.lock().unwrap().extend(more);
            if slow.try_wait().expect("our child").is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = slow.kill();
        let outcome = ended(slow);
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned() + outcome.error();
        assert!(
            text.contains("it was idle or slow while others needed its place"),
            "{outcome}"
        );
    });
}

/// iperf3's clients have one place.
#[test]
fn trickling_client_of_iperf3_keeps_no_client_out() {
    need!(program("iperf3"));
    let (serving, server) = serving("");
    let parameters = br#"{"tcp": true, "parallel": 1, "time": 3600}"#;
    let len = u32::try_from(parameters.len()).unwrap().to_be_bytes();
    let cookie = [&[b'q'; 36][..], &[0]].concat();
    for flags in ["", "-R", "-u -b 80M"] {
        let from = Ipv4Addr::new(127, 0, 0, 10);
        let mut control = connect_from(from, server);
        control.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        control
            .write_all(&[&cookie[..], &len, parameters].concat())
            .unwrap();
        let mut states = [0; 2];
        control.read_exact(&mut states).unwrap();
        assert_eq!(states, [9, 10]);
        let mut stream = connect_from(from, server);
        stream.write_all(&cookie).unwrap();
        control.read_exact(&mut states).unwrap();
        assert_eq!(states, [1, 2], "the test runs");
        for _ in 0..15 {
            stream.write_all(b"x").unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        let (outcome, seconds) = iperf3(&serving, flags);
        assert_eq!(outcome.code, Some(0), "{flags}: {outcome}");
        println!("{flags}: {seconds:.2} s");
        assert!(seconds < SOON_S + 0.5, "{flags}: {seconds} s");
    }
    // A slow one stays while no other client waits, and one at speed stays anyway.
    let mut command = Command::new("iperf3");
    let port = serving.port.to_string();
    command.args(["-c", "127.0.0.1", "-t", "3", "-b", "1M", "-p", &port]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let honest = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1300));
    let (outcome, _) = iperf3(&serving, "");
    assert_eq!(outcome.code, Some(1), "{outcome}");
    let outcome = ended(honest);
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

#[test]
fn longest_test_has_a_limit() {
    let (serving, server) = serving("--time-limit 2");
    let port = serving.port;
    for (line, code) in [
        (format!("bench stream 127.0.0.1 -p {port} -d 3"), 1),
        (format!("bench rr 127.0.0.1 -p {port} -d 3"), 1),
        (format!("bench crr 127.0.0.1 -p {port} -d 3"), 1),
        (format!("bench rr 127.0.0.1 -p {port} -d 2"), 0),
        (format!("bench stream 127.0.0.1 -p {port} -d 2 -R"), 0),
    ] {
        let outcome = crate::fixtures::binary::words(&line);
        assert_eq!(outcome.code, Some(code), "{line}: {outcome}");
        assert_eq!(
            outcome.error().contains("a test may take 2 s"),
            code == 1,
            "{line}: {outcome}"
        );
    }
    // A test whose client does not say how long it takes ends, too.
    let bytes = r#"{"kind": "stream", "parameters": {"direction": "receive", "streams": 1, "bytes": 1000000000000,
        "transport": "tcp"}}"#;
    for request in [bytes, REQUESTS] {
        let (mut client, mut streams) =
            HostileClient::running(Ipv4Addr::LOCALHOST, server, request, [0]).expect("it runs");
        let mut error = None;
        for _ in 0..40 {
            client.send(r#"{"x": 1}"#);
            let _ = streams[0].write_all(b"x");
            client
                .control
                .set_read_timeout(Some(Duration::from_millis(200)))
                .unwrap();
            error = error.or_else(|| client.answer()["error"].as_str().map(str::to_owned));
        }
        let error = error.expect("the test ends");
        assert!(error.contains("--time-limit"), "{error}");
    }
    // Without a secret an hour is the limit.
    let (_open, server) = self::serving("");
    let day = HOUR.replace("3600000000", "3600000001");
    let answer = HostileClient::running(Ipv4Addr::LOCALHOST, server, &day, [0]).err();
    let error = answer.expect("it is refused")["error"].to_string();
    assert!(error.contains("3600 s"), "{error}");
}
