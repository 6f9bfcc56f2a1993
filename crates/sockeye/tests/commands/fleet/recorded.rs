//! A real recorder and a real connection.

use super::{Engine, Folder, Process};
use crate::fixtures::binary::{command, run};
use rustix::net::{AddressFamily, SocketType};
use sockeye_lab::{Skip, need, wait_within};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

/// A server with the tables, and a recorder of this host.
struct Recording {
    folder: Folder,
    engine: Engine,
    _recorder: Process,
}

impl Recording {
    fn new(test: &str) -> Result<Self, Skip> {
        let folder = Folder::new(test);
        let engine = Engine::start(&folder.0)?;
        let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &engine.url()]));
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let recorder = start(&folder, &["record", "--interval", "0.5", "--check-interval", "0"]);
        let store = folder.0.join("record.db");
        wait_within(Duration::from_secs(60), "a store with samples", || {
            let outcome = run(command().args(["history", "list", "--store"]).arg(&store));
            (outcome.code == Some(0) && outcome.stdout.len() > 100).then_some(())
        });
        Ok(Self {
            folder,
            engine,
            _recorder: recorder,
        })
    }

    /// Starts to send.
    fn export(&self) -> Process {
        let url = self.engine.url();
        start(
            &self.folder,
            &["export", "clickhouse", "--send-interval", "5", "--url", &url],
        )
    }
}

/// Starts a command with the store in a folder.
fn start(folder: &Folder, words: &[&str]) -> Process {
    let mut command = command();
    command.args(words).arg("--store").arg(folder.0.join("record.db"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process(command.spawn().expect("the program starts"))
}

#[test]
fn failed_connects_are_counted_with_their_place() {
    let recording = need!(Recording::new("failed"));
    // A port on which nothing listens, and one at which nothing answers: its queue is full.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let refused = closed.local_addr().expect("an address").port();
    drop(closed);
    for _ in 0..7 {
        TcpStream::connect(("127.0.0.1", refused)).expect_err("nothing listens");
    }
    let unanswered = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    rustix::net::bind(&unanswered, &any).expect("a port");
    rustix::net::listen(&unanswered, 0).expect("it listens");
    let unanswered = TcpListener::from(unanswered);
    let address = unanswered.local_addr().expect("an address");
    let waiting = TcpStream::connect(address).expect("there is room for one");
    let timeout = Duration::from_secs(1);
    for _ in 0..3 {
        TcpStream::connect_timeout(&address, timeout).expect_err("there is no room");
    }
    let _exporter = recording.export();
    let failed = |port: u16| {
        format!("SELECT sum(failed), sum(refused) FROM flows WHERE port = {port} AND side = 'client'")
    };
    wait_within(Duration::from_secs(90), "the failed connects", || {
        let found = [refused, address.port()].map(|port| recording.engine.query(&failed(port)));
        (found == ["7\t7", "3\t0"]).then_some(())
    });
    let rolled_up = recording
        .engine
        .query(&failed(refused).replace("FROM flows", "FROM flows_1h"));
    assert_eq!(rolled_up, "7\t7");
    drop(waiting);
}

#[test]
fn window_that_holds_a_sender_back_is_measured() {
    let recording = need!(Recording::new("limits"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (server, _) = listener.accept().expect("a connection");
    let writer = std::thread::spawn(move || {
        let mut server = server;
        // Much more than buffers have.
        let outcome = server.write_all(&vec![0; 30_000_000]);
        drop(outcome);
    });
    // It reads, and so slowly that its window is closed nearly always.
    let mut part = vec![0; 100_000];
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(100));
        client.read_exact(&mut part).expect("it is sent");
    }
    let _exporter = recording.export();
    let limits = format!(
        "SELECT sum(busy_ms), sum(rwnd_limited_ms), sum(sndbuf_limited_ms) FROM flows WHERE port = {port} AND side = 'server'"
    );
    wait_within(Duration::from_secs(90), "the limits", || {
        let found = recording.engine.query(&limits);
        let numbers: Vec<u64> = found
            .split('\t')
            .filter_map(|number| number.parse().ok())
            .collect();
        let &[busy_ms, rwnd_limited_ms, _] = numbers.as_slice() else {
            return None;
        };
        (busy_ms > 2_000 && rwnd_limited_ms * 2 > busy_ms && rwnd_limited_ms <= busy_ms).then_some(())
    });
    let blamed = run(command().args([
        "fleet",
        "blame",
        &port.to_string(),
        "--url",
        &recording.engine.url(),
        "--format",
        "csv",
    ]));
    let text = String::from_utf8_lossy(&blamed.stdout).into_owned();
    assert!(
        text.contains("the window of the client held the server back"),
        "{text}"
    );
    drop(client);
    writer.join().expect("it ends");
}

#[test]
fn bytes_of_a_recorded_connection_are_those_that_were_sent() {
    let recording = need!(Recording::new("recorded"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // Listed at least once before it sends.
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (mut server, _) = listener.accept().expect("a connection");
    std::thread::sleep(Duration::from_secs(2));
    let mut answer = vec![0; 700_000];
    client.write_all(&answer[..300]).expect("it reads");
    server.read_exact(&mut answer[..300]).expect("a request");
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; 700_000];
        client.read_exact(&mut received).expect("an answer");
        client
    });
    server.write_all(&answer).expect("it reads");
    let _client = reader.join().expect("it ends");
    let _exporter = recording.export();
    let sums = "SELECT side, sum(sent_bytes), sum(received_bytes), sum(opened), max(connections) FROM flows";
    let sums = format!("{sums} WHERE port = {port} GROUP BY side ORDER BY side");
    // Without the SYN that was acknowledged, which the kernel counts.
    let expected = "client\t300\t700000\t1\t1\nserver\t700000\t300\t1\t1";
    wait_within(Duration::from_secs(90), "the bytes", || {
        (recording.engine.query(&sums) == expected).then_some(())
    });
}
