//! Who may connect, and what hostile clients can do.

use super::exporter::Exporter;
use crate::fixtures::binary::{command, run};
use sockeye_lab::{Lab, need, wait_for};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

#[test]
fn others_connect_only_if_that_is_said() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9977"] {
        let outcome = run(command().args(["export", "prometheus", "--listen", address]));
        let text = outcome.failed(2);
        assert!(text.contains("--allow-remote"), "{text}");
    }
}

/// A unit of the packages is not started again after this status: see `units`.
#[test]
fn second_exporter_on_an_address_ends_with_2() {
    let lab = need!(Lab::new("export-second"));
    let host = lab.namespace("host");
    let exporter = Exporter::start(&host, &[]);
    let listen = exporter.address.to_string();
    let words = ["export", "prometheus", "-n", "--listen", &listen];
    let outcome = host.run(|| run(command().args(words)));
    let text = outcome.failed(2);
    assert!(text.contains(&listen) && text.contains("in use"), "{text}");
    assert_eq!(exporter.end(), Some(0));
}

#[test]
fn client_gets_the_form_that_it_asks_for() {
    let lab = need!(Lab::new("export-form"));
    let exporter = Exporter::start(&lab.namespace("host"), &[]);
    let open = exporter.get("/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(
        open.head
            .contains("content-type: application/openmetrics-text; version=1.0.0")
    );
    assert!(open.body.ends_with("# EOF\n"), "{}", open.body);
    let text = exporter.get("/metrics", "");
    assert_eq!(
        text.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(!text.body.contains("# EOF"), "{}", text.body);
    assert_eq!(exporter.get("/other", "").status, 404);
    let post = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(exporter.send(post).status, 405);
    assert_eq!(exporter.end(), Some(0));
}

#[test]
fn web_page_with_a_name_of_its_own_reads_nothing() {
    let lab = need!(Lab::new("export-host"));
    let exporter = Exporter::start(&lab.namespace("host"), &["--allow-host", "proxy.example"]);
    let status = |host: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = exporter.send(&request);
        assert!(
            answer.status == 200 || !answer.body.contains("sockeye_"),
            "{answer:?}"
        );
        answer.status
    };
    assert_eq!(status("evil.example:9977"), 421);
    assert_eq!(status("127.0.0.1.evil.example"), 421);
    assert_eq!(status("127.0.0.1:9977"), 200);
    assert_eq!(status("proxy.example"), 200);
    assert_eq!(exporter.end(), Some(0));
}

/// Clients that send half a head, or read nothing: samples go on, and others get their answer.
#[test]
fn idle_clients_slow_neither_samples_nor_others() {
    let lab = need!(Lab::new("export-idle"));
    let exporter = Exporter::start(&lab.namespace("host"), &[]);
    let mut idle: Vec<_> = (0..100).map(|_| exporter.connect()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET / HT").expect("the kernel takes it");
    }
    let samples = |exporter: &Exporter| exporter.scrape().value("sockeye_exporter_samples_total");
    let before = samples(&exporter);
    exporter.wait("further samples", |scrape| {
        scrape.value("sockeye_exporter_samples_total") > before.map(|count| count + 2.0)
    });
    let mut ended = Vec::new();
    drop(idle[0].read_to_end(&mut ended));
    assert!(!String::from_utf8_lossy(&ended).contains(" 200 "));
}

#[test]
fn unix_socket_without_listener_is_replaced_and_removed_at_the_end() {
    let lab = need!(Lab::new("export-unix"));
    let host = lab.namespace("host");
    let path = lab.directory().join("metrics.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that is left over"));
    let mut exporter = command();
    exporter
        .args([
            "export",
            "prometheus",
            "--listen",
            &format!("unix:{}", path.display()),
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let mut child = host.run(|| exporter.spawn().expect("the program starts"));
    let mut stream = wait_for("the exporter to listen", || UnixStream::connect(&path).ok());
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("the exporter reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("sockeye_exporter_build_info"), "{text}");
    let second = host.run(|| run(command().args(exporter.get_args())));
    assert!(second.failed(2).contains("--listen unix:"), "{second}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(!path.exists());
}
