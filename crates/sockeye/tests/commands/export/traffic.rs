//! Metrics of known traffic.

use super::exporter::Exporter;
use crate::fixtures::binary::{command, run};
use sockeye_lab::{Lab, Namespace, need};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// Opens connections one after the other, sends requests of so many bytes, reads the answer and closes: all are shorter than an
/// interval between samples.
fn short_connections(host: &Namespace, port: u16, connections: u32, request: usize, answer: usize) {
    host.run(|| {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        for _ in 0..connections {
            let mut client = TcpStream::connect(("127.0.0.1", port)).expect("a listener");
            let (mut server, _) = listener.accept().expect("a connection");
            client.write_all(&vec![1; request]).expect("sent");
            client.shutdown(Shutdown::Write).expect("the end of the request");
            let mut read = Vec::new();
            server.read_to_end(&mut read).expect("the request");
            server.write_all(&vec![2; answer]).expect("sent");
            drop(server);
            client.read_to_end(&mut read).expect("the answer");
        }
    });
}

#[test]
fn totals_are_exact_and_stay_when_connections_end() {
    let lab = need!(Lab::new("export-totals"));
    let host = lab.namespace("host");
    let exporter = Exporter::start(&host, &["--check-interval", "0"]);
    short_connections(&host, 8080, 20, 700, 30_000);
    let labels = r#"{direction="active",service="8080"}"#;
    let opened = format!("sockeye_tcp_opened_connections_total{labels}");
    let closed = format!("sockeye_tcp_closed_connections_total{labels}");
    let scrape = exporter.wait("20 connections", |scrape| {
        scrape.value(&opened) == Some(20.0) && scrape.value(&closed) == Some(20.0)
    });
    scrape.check(&[
        (&format!("sockeye_tcp_sent_bytes_total{labels}"), 14_000.0),
        (&format!("sockeye_tcp_received_bytes_total{labels}"), 600_000.0),
        ("sockeye_exporter_losses_total{kind=\"events\"}", 0.0),
    ]);
    // The kernel counts the connections of the test, too.
    assert!(
        scrape.value("sockeye_tcp_opens_total{direction=\"active\"}") >= Some(20.0),
        "{scrape:#?}"
    );
    short_connections(&host, 8080, 5, 1, 1);
    let scrape = exporter.wait("25 connections", |scrape| scrape.value(&closed) == Some(25.0));
    scrape.check(&[(&format!("sockeye_tcp_sent_bytes_total{labels}"), 14_005.0)]);
}

#[test]
fn queues_states_and_owners_of_a_listener_are_shown() {
    let lab = need!(Lab::new("export-queues"));
    let host = lab.namespace("host");
    let _server = lab
        .process("web-server")
        .in_namespace(&host)
        .tcp_listen("127.0.0.1:8080")
        .start();
    let exporter = Exporter::start(&host, &["--check-interval", "0"]);
    let clients: Vec<_> = host.run(|| {
        let connect = || TcpStream::connect("127.0.0.1:8080").expect("a listener");
        (0..3).map(|_| connect()).collect()
    });
    clients[0].shutdown(Shutdown::Write).expect("it is connected");
    let waiting = r#"sockeye_tcp_accept_queue_connections{service="web-server"}"#;
    let scrape = exporter.wait("the queue", |scrape| {
        let close_wait =
            r#"sockeye_tcp_connections{direction="passive",service="web-server",state="close_wait"}"#;
        scrape.value(waiting) == Some(3.0) && scrape.value(close_wait) == Some(1.0)
    });
    scrape.check(&[
        (r#"sockeye_tcp_listeners{service="web-server"}"#, 1.0),
        (
            r#"sockeye_tcp_connections{direction="passive",service="web-server",state="established"}"#,
            2.0,
        ),
        (
            r#"sockeye_tcp_connections{direction="active",service="8080",state="established"}"#,
            2.0,
        ),
        (
            r#"sockeye_tcp_connections{direction="active",service="8080",state="fin_wait_2"}"#,
            1.0,
        ),
        (r#"sockeye_exporter_source_available{source="owners"}"#, 1.0),
    ]);
}

#[test]
fn recorder_is_among_the_metrics_where_it_has_a_store() {
    let lab = need!(Lab::new("export-recorder"));
    let host = lab.namespace("host");
    let store = lab.directory().join("record.db").display().to_string();
    let words = ["--check-interval", "0", "--store", &store];
    let available = r#"sockeye_exporter_source_available{source="recorder"}"#;
    {
        let exporter = Exporter::start(&host, &words);
        let scrape = exporter.scrape();
        scrape.check(&[(available, 0.0)]);
        assert_eq!(scrape.names("sockeye_recorder"), [""; 0]);
    }
    let outcome = host.run(|| run(command().args(["record", "--once", "--store", &store])));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let exporter = Exporter::start(&host, &words);
    let scrape = exporter.scrape();
    scrape.check(&[(available, 1.0)]);
    let last = scrape.value("sockeye_recorder_last_sample_timestamp_seconds");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let age = now.expect("after 1970").as_secs_f64() - last.expect("a time");
    assert!((0.0..300.0).contains(&age), "{age}");
    assert!(
        scrape.value("sockeye_recorder_store_bytes") > Some(0.0),
        "{scrape:#?}"
    );
}

#[test]
fn services_beyond_the_bound_are_in_other() {
    let lab = need!(Lab::new("export-services"));
    let host = lab.namespace("host");
    let mut servers = Vec::new();
    for number in 0..5 {
        let local = format!("127.0.0.1:{}", 8080 + number);
        let server = lab.process(format!("server-{number}")).in_namespace(&host);
        servers.push(server.tcp_listen(&local).start());
    }
    let exporter = Exporter::start(&host, &["--services", "2", "--check-interval", "0"]);
    // The exporter listens after its first sample.
    let scrape = exporter.wait("all listeners", |scrape| {
        scrape.value(r#"sockeye_tcp_listeners{service="other"}"#) == Some(4.0)
    });
    let names = scrape.names("sockeye_tcp_listeners{");
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(
        scrape.value("sockeye_exporter_folded_services") >= Some(4.0),
        "{scrape:#?}"
    );
}

#[test]
fn no_label_has_an_address_or_a_pid() {
    let lab = need!(Lab::new("export-labels"));
    let host = lab.namespace("host");
    let exporter = Exporter::start(&host, &["--check-interval", "0"]);
    short_connections(&host, 8080, 3, 1, 1);
    let opened = r#"sockeye_tcp_opened_connections_total{direction="active",service="8080"}"#;
    let scrape = exporter.wait("the connections", |scrape| scrape.value(opened) == Some(3.0));
    for name in scrape.names("") {
        assert!(!name.contains("127.0.0"), "{name}");
        let numbers = name
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse::<u32>().ok());
        for number in numbers {
            assert!(
                !(32_768..=60_999).contains(&number) || name.contains("le="),
                "{name}"
            );
        }
    }
}

#[test]
fn what_the_source_does_not_have_is_absent() {
    let lab = need!(Lab::new("export-procfs"));
    let host = lab.namespace("host");
    let _server = lab
        .process("web-server")
        .in_namespace(&host)
        .tcp_listen("127.0.0.1:8080")
        .start();
    let exporter = Exporter::start(&host, &["--check-interval", "0", "--source", "procfs"]);
    let scrape = exporter.wait("two samples", |scrape| {
        scrape.value("sockeye_exporter_samples_total") >= Some(2.0)
    });
    scrape.check(&[
        (r#"sockeye_tcp_listeners{service="web-server"}"#, 1.0),
        (r#"sockeye_exporter_source_available{source="resets"}"#, 0.0),
    ]);
    for absent in ["sockeye_tcp_sent", "sockeye_tcp_rtt", "sockeye_tcp_resets"] {
        assert_eq!(scrape.names(absent), [""; 0]);
    }
}
