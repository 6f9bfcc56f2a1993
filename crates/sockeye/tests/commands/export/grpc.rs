//! A collector that speaks gRPC, which is Google's own.

use super::collector::{Exporter, attribute};
use crate::fixtures::binary::run;
use crate::fixtures::tls::Authority;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const COLLECTOR: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/commands/export/grpc_collector.py"
);

/// The collector; ended when dropped.
struct Collector {
    child: Child,
    lines: BufReader<ChildStdout>,
    port: u16,
}

impl Collector {
    fn start(namespace: &Namespace, identity: &[&Path]) -> Result<Self, Skip> {
        let python = program("python3")?;
        let check = "import grpc, opentelemetry.proto.collector.logs.v1.logs_service_pb2";
        if run(Command::new(&python).args(["-c", check])).code != Some(0) {
            return Err(Skip::new(
                "python3 has no grpcio and opentelemetry-proto (scripts/peers)",
            ));
        }
        let mut collector = Command::new(python);
        collector
            .arg(COLLECTOR)
            .args(identity)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = namespace.run(|| collector.spawn().expect("python3 starts"));
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut port = String::new();
        lines.read_line(&mut port).expect("a line");
        Ok(Self {
            child,
            lines,
            port: port.trim().parse().expect("a port"),
        })
    }

    fn take(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn collector_takes_metrics_and_log_records_by_grpc() {
    let lab = need!(Lab::new("export-grpc"));
    let host = lab.namespace("host");
    let path = host.loopback();
    let _full = path.full_accept_queue(4);
    let mut collector = need!(Collector::start(&host, &[]));
    let url = format!("http://127.0.0.1:{}", collector.port);
    let words = ["--protocol", "grpc", "--check-interval", "1"];
    let mut exporter = Exporter::start(&host, &url, &words);
    let (mut metrics, mut logs) = (0, 0);
    // The first one is sent again.
    while metrics < 2 || logs < 1 {
        let taken = collector.take();
        assert_eq!(taken["token"], "a secret", "{taken}");
        if taken["request"]["resourceMetrics"].is_array() {
            metrics += 1;
        } else {
            logs += 1;
            let of_host = &taken["request"]["resourceLogs"][0];
            let resource = &of_host["resource"]["attributes"];
            assert_eq!(
                attribute(resource, "k8s.pod.name").as_deref(),
                Some("web-1"),
                "{taken}"
            );
        }
    }
    exporter.check_notes(&[
        "the collector answered UNAVAILABLE: busy: 100 %",
        "are taken again",
    ]);
}

#[test]
fn grpc_goes_through_tls_to_a_server_that_is_trusted() {
    let lab = need!(Lab::new("export-grpc-tls"));
    let host = lab.namespace("host");
    let (ours, other) = (
        need!(Authority::make("grpc-ours")),
        need!(Authority::make("grpc-other")),
    );
    let server = ours.sign("server", "127.0.0.1");
    let mut collector = need!(Collector::start(&host, &[&server.certificate, &server.key]));
    let url = format!("https://127.0.0.1:{}", collector.port);
    let words = |authority: &Authority| {
        let file = authority.certificate().display().to_string();
        ["--protocol", "grpc", "--check-interval", "0", "--tls-ca", &file].map(str::to_owned)
    };
    let start = |authority: &Authority| {
        let words = words(authority);
        Exporter::start(&host, &url, &words.each_ref().map(String::as_str))
    };
    start(&other).check_notes(&["signed by no authority that is trusted"]);
    let _exporter = start(&ours);
    assert!(collector.take()["request"]["resourceMetrics"].is_array());
}
