//! The file for node_exporter.

use super::exporter::Scrape;
use crate::fixtures::binary::{command, run};
use sockeye_lab::{Lab, need, program, wait_until};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn single_sample_has_no_totals_between_two() {
    let lab = need!(Lab::new("export-once"));
    let host = lab.namespace("host");
    let _server = lab
        .process("web-server")
        .in_namespace(&host)
        .tcp_listen("127.0.0.1:8080")
        .start();
    let path = lab.directory().join("sockeye.prom");
    let mut once = command();
    once.args(["export", "prometheus", "--once", "--textfile"])
        .arg(&path);
    host.run(|| run(&mut once)).succeeded();
    let scrape = Scrape::parse(&std::fs::read_to_string(&path).expect("the file"));
    scrape.check(&[(r#"sockeye_tcp_listeners{service="web-server"}"#, 1.0)]);
    for absent in [
        "sockeye_tcp_opened",
        "sockeye_tcp_opens",
        "sockeye_tcp_resets",
        "sockeye_dropped",
    ] {
        assert_eq!(scrape.names(absent), [""; 0]);
    }
}

#[test]
fn connect_without_an_answer_is_counted_as_its_state() {
    let lab = need!(Lab::new("export-syn-sent"));
    let host = lab.namespace("host");
    // There is no neighbour with this address, which takes the kernel three seconds to learn; with one that is known, packets vanish.
    host.ip("link add near type veth peer name far");
    host.ip("address add 10.88.0.1/24 dev near");
    host.ip("link set near up");
    host.ip("link set far up");
    host.ip("neighbour add 10.88.0.2 lladdr 02:00:00:00:00:01 dev near");
    let path = lab.directory().join("sockeye.prom");
    let address = "10.88.0.2:9".parse().expect("an address");
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_secs(8));
    std::thread::scope(|scope| {
        let waiting = [(); 3].map(|()| scope.spawn(|| host.run(connect)));
        wait_until("three connects wait", || {
            let mut once = command();
            once.args(["export", "prometheus", "--once", "--textfile"])
                .arg(&path);
            host.run(|| run(&mut once)).succeeded();
            let text = std::fs::read_to_string(&path).expect("the file");
            text.lines().any(|line| line.contains(r#"state="syn_sent"} 3"#))
        });
        for one in waiting {
            assert!(one.join().expect("no panic").is_err());
        }
    });
}

#[test]
fn file_that_node_exporter_does_not_read_is_refused() {
    let outcome = run(command().args(["export", "prometheus", "--once", "--textfile", "sockeye.txt"]));
    assert!(outcome.failed(2).contains(".prom"), "{outcome}");
}

#[test]
fn promtool_finds_nothing_wrong() {
    let promtool = need!(program("promtool"));
    let lab = need!(Lab::new("export-promtool"));
    let path = lab.directory().join("sockeye.prom");
    let mut once = command();
    once.args(["export", "prometheus", "--once", "--textfile"])
        .arg(&path);
    run(&mut once).succeeded();
    let file = std::fs::File::open(&path).expect("the file");
    let checked = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::from(file))
        .output();
    let checked = checked.expect("promtool starts");
    let text = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && text.is_empty(), "{text}");
}

#[test]
fn once_needs_a_file() {
    let outcome = run(command().args(["export", "prometheus", "--once"]));
    assert!(outcome.failed(2).contains("--textfile"), "{outcome}");
}
