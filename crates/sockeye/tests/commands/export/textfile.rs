//! The file for node_exporter.

use super::exporter::Scrape;
use crate::fixtures::binary::{command, run};
use sockeye_lab::{Lab, need, program};
use std::process::{Command, Stdio};

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
