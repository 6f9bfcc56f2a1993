//! A real recorder and a real connection.

use super::{Engine, Folder, Process};
use crate::fixtures::binary::{command, run};
use sockeye_lab::{need, wait_within};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn bytes_of_a_recorded_connection_are_those_that_were_sent() {
    let folder = Folder::new("recorded");
    let engine = need!(Engine::start(&folder.0));
    let url = engine.url();
    let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &url]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let store = folder.0.join("record.db");
    let start = |words: &[&str]| {
        let mut command = command();
        command.args(words).arg("--store").arg(&store);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Process(command.spawn().expect("the program starts"))
    };
    let _recorder = start(&["record", "--interval", "0.5", "--check-interval", "0"]);
    wait_within(Duration::from_secs(60), "a store with samples", || {
        let outcome = run(command().args(["history", "list", "--store"]).arg(&store));
        (outcome.code == Some(0) && outcome.stdout.len() > 100).then_some(())
    });
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
    let _exporter = start(&["export", "clickhouse", "--send-interval", "5", "--url", &url]);
    let sums = "SELECT side, sum(sent_bytes), sum(received_bytes), sum(opened), max(connections) FROM flows";
    let sums = format!("{sums} WHERE port = {port} GROUP BY side ORDER BY side");
    // The kernel counts the SYN that was acknowledged.
    let expected = "client\t301\t700000\t1\t1\nserver\t700000\t300\t1\t1";
    wait_within(Duration::from_secs(90), "the bytes", || {
        (engine.query(&sums) == expected).then_some(())
    });
}
