//! Servers that ask a client for more streams than it offered: a client starts the threads that its own command line asks
//! for, and no others.

use super::hostile_client::{read_frame, threads};
use crate::fixtures::binary::{SOCKEYE, clean, serving::Serving};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Threads of a client with two streams: one each, and some for itself.
const THREADS_MAX: usize = 8;

fn client(line: &str) -> Child {
    let mut command = Command::new(SOCKEYE);
    clean(&mut command);
    command
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("the client starts")
}

/// Returns the highest number of threads until the client ends, or is ended after some seconds.
fn most_threads(mut child: Child) -> usize {
    let mut most = 0;
    for _ in 0..400 {
        if child.try_wait().expect("it is our child").is_some() {
            return most;
        }
        most = most.max(threads(&child));
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    most
}

/// Between client and server: repeats each message of the server many times, and adds counts that the client did not ask
/// for. Returns the number of connections that the client made.
fn exaggerate(listener: &TcpListener, server: SocketAddr) -> usize {
    let mut count = 0;
    while let Ok((mut from_client, _)) = listener.accept() {
        let mut preamble = [0; 40];
        let read = from_client.read_exact(&mut preamble);
        if read.is_err() {
            // The test's own connection: the client has ended.
            return count;
        }
        count += 1;
        let mut to_server = TcpStream::connect(server).expect("the server accepts");
        to_server.write_all(&preamble).expect("loopback works");
        let (mut client, mut reading) = (from_client.try_clone().unwrap(), to_server.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Write);
        });
        let is_control = preamble[9] == 0;
        thread::spawn(move || {
            if is_control {
                while let Some(message) = read_frame(&mut reading) {
                    if forward(&mut client, message).is_err() {
                        break;
                    }
                }
            } else {
                let _ = std::io::copy(&mut reading, &mut client);
            }
            let _ = client.shutdown(Shutdown::Both);
        });
    }
    count
}

fn forward(client: &mut TcpStream, mut message: Value) -> std::io::Result<()> {
    for key in ["streams", "connections", "threads", "count"] {
        // Its own report of the streams is a list: the client reads it at the end.
        if message[key].is_null() {
            message[key] = json!(100_000);
        }
        if let Some(accepted) = message["ok"].as_object_mut() {
            accepted.insert(key.to_owned(), json!(100_000));
        }
    }
    let text = message.to_string();
    let repeats = if message["ready"] == true { 1000 } else { 1 };
    for _ in 0..repeats {
        client.write_all(&u32::try_from(text.len()).expect("short").to_be_bytes())?;
        client.write_all(text.as_bytes())?;
    }
    Ok(())
}

#[test]
fn bench_client_starts_only_its_own_streams() {
    let serving = Serving::new(None, "-p 0 -B 127.0.0.1");
    let server = SocketAddr::from(([127, 0, 0, 1], serving.port));
    for line in ["stream -P 2 -d 1", "rr -P 2 -d 1"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let between = listener.local_addr().expect("it is bound");
        let proxy = thread::spawn(move || exaggerate(&listener, server));
        let (name, flags) = line.split_once(' ').expect("a command");
        let most = most_threads(client(&format!(
            "bench {name} 127.0.0.1 -p {} {flags}",
            between.port()
        )));
        drop(TcpStream::connect(between));
        let connections = proxy.join().expect("the proxy ends");
        assert!((2..=THREADS_MAX).contains(&most), "{line}: {most} threads");
        assert!(
            (3..=THREADS_MAX).contains(&connections),
            "{line}: {connections} connections"
        );
    }
}

/// A server of iperf3 that asks for parameters, streams and the start in this order; then it goes on.
fn iperf3_server(listener: &TcpListener, states: &[&[u8]]) {
    let (mut control, _) = listener.accept().expect("a client");
    let _ = control.set_read_timeout(Some(Duration::from_secs(2)));
    let mut streams = Vec::new();
    let mut cookie = [0; 37];
    control.read_exact(&mut cookie).expect("a cookie");
    for step in states {
        if control.write_all(step).is_err() {
            return;
        }
        // What the client answers does not matter, only that it has come.
        let _ = control.read(&mut [0; 4096]);
        listener.set_nonblocking(true).expect("a listener");
        // Streams are accepted as long as the client makes them: more than it said would be seen as threads.
        for _ in 0..20 {
            match listener.accept() {
                Ok((stream, _)) => streams.push(stream),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

#[test]
fn iperf3_client_starts_only_its_own_streams() {
    const PARAM_EXCHANGE: u8 = 9;
    const CREATE_STREAMS: u8 = 10;
    const TEST_START: u8 = 1;
    const TEST_RUNNING: u8 = 2;
    const EXCHANGE_RESULTS: u8 = 13;
    let streams = "{\"id\":1,\"bytes\":1},".repeat(3_000);
    let results = format!("{{\"cpu_util_total\":0,\"streams\":[{streams}{{}}]}}");
    let results = [
        &u32::try_from(results.len()).unwrap().to_be_bytes()[..],
        results.as_bytes(),
    ]
    .concat();
    let create_again = [CREATE_STREAMS; 10_000];
    let cases: [&[&[u8]]; 3] = [
        &[&[PARAM_EXCHANGE], &create_again],
        &[
            &[PARAM_EXCHANGE],
            &[CREATE_STREAMS],
            &[TEST_START, TEST_RUNNING],
            &create_again,
        ],
        &[
            &[PARAM_EXCHANGE],
            &[CREATE_STREAMS],
            &[TEST_START, TEST_RUNNING],
            &[EXCHANGE_RESULTS],
            &results,
        ],
    ];
    for case in cases {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let most = thread::scope(|scope| {
            scope.spawn(|| iperf3_server(&listener, case));
            most_threads(client(&format!(
                "bench stream --iperf3 127.0.0.1 -p {port} -P 2 -d 1"
            )))
        });
        assert!((1..=THREADS_MAX).contains(&most), "{most} threads");
    }
}
