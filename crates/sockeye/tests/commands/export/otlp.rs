//! What a collector receives, decoded by OpenTelemetry's own messages.

use crate::fixtures::binary::{command, run};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// Decodes a request, and writes it as JSON.
const DECODE: &str = "
import sys
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as Request
request = Request()
request.ParseFromString(sys.stdin.buffer.read())
print(MessageToJson(request))
";

/// `sockeye export otlp` in a namespace; ended when dropped.
struct Exporter(Child);

impl Exporter {
    fn start(namespace: &Namespace, collector: SocketAddr) -> Self {
        let mut exporter = command();
        exporter
            .args([
                "export",
                "otlp",
                "--sample-interval",
                "0.5",
                "--check-interval",
                "0",
                "--endpoint",
            ])
            .arg(format!("http://{collector}/otlp"))
            .env("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=web-1")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20secret")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Self(namespace.run(|| exporter.spawn().expect("the program starts")))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Takes one request, and answers it. Returns its head and body.
fn take_request(collector: &TcpListener, status: &str) -> (String, Vec<u8>) {
    let (stream, _) = collector.accept().expect("a connection");
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).expect("a head") > 0, "{head}");
    }
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut body = vec![0; length.expect("a length")];
    stream.read_exact(&mut body).expect("a body");
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbusy\n");
    stream
        .get_mut()
        .write_all(answer.as_bytes())
        .expect("the exporter reads");
    (head, body)
}

/// Decodes a request by OpenTelemetry's messages.
fn decoded(body: &[u8]) -> Result<Value, Skip> {
    let python = program("python3")?;
    let check = "import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2";
    if run(Command::new(&python).args(["-c", check])).code != Some(0) {
        return Err(Skip::new("python3 has no opentelemetry-proto (scripts/peers)"));
    }
    let mut child = Command::new(python)
        .args(["-c", DECODE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(body)
        .expect("python3 reads");
    let output = child.wait_with_output().expect("python3 ends");
    assert!(output.status.success());
    Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn has_attribute(attributes: &Value, key: &str, text: &str) -> bool {
    let mut all = attributes.as_array().into_iter().flatten();
    all.any(|one| one["key"] == key && one["value"]["stringValue"] == text)
}

#[test]
fn request_is_what_opentelemetry_decodes() {
    let lab = need!(Lab::new("export-otlp"));
    let host = lab.namespace("host");
    let _server = lab
        .process("web-server")
        .in_namespace(&host)
        .tcp_listen("127.0.0.1:8080")
        .start();
    let collector = host.run(|| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let _exporter = Exporter::start(&host, collector.local_addr().expect("an address"));
    let (head, body) = take_request(&collector, "200 OK");
    assert!(head.starts_with("POST /otlp/v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf\r\n"),
        "{head}"
    );
    assert!(head.contains("x-token: a secret\r\n"), "{head}");
    let request = need!(decoded(&body));
    let of_host = &request["resourceMetrics"][0];
    let attributes = &of_host["resource"]["attributes"];
    assert!(has_attribute(attributes, "k8s.pod.name", "web-1"), "{attributes}");
    assert!(
        has_attribute(attributes, "service.name", "sockeye"),
        "{attributes}"
    );
    let metrics = of_host["scopeMetrics"][0]["metrics"].as_array().expect("metrics");
    let metric = |name: &str| {
        metrics
            .iter()
            .find(|metric| metric["name"] == name)
            .expect("a metric")
    };
    let connections = &metric("system.network.connection.count")["sum"];
    assert_eq!(
        connections["aggregationTemporality"],
        "AGGREGATION_TEMPORALITY_CUMULATIVE"
    );
    let listeners = metric("sockeye.tcp.listeners")["gauge"]["dataPoints"]
        .as_array()
        .expect("points");
    let of_server = listeners
        .iter()
        .find(|point| has_attribute(&point["attributes"], "service", "web-server"));
    assert_eq!(of_server.expect("the listener")["asInt"], "1");
    assert!(metric("sockeye.tcp.rtt")["histogram"].is_object());
}

#[test]
fn collector_that_refuses_is_named_once_and_tried_again() {
    let lab = need!(Lab::new("export-otlp-busy"));
    let host = lab.namespace("host");
    let collector = host.run(|| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let mut exporter = Exporter::start(&host, collector.local_addr().expect("an address"));
    for status in ["503 Busy", "503 Busy", "200 OK", "200 OK"] {
        take_request(&collector, status);
    }
    let notes = BufReader::new(exporter.0.stderr.take().expect("a pipe")).lines();
    let notes: Vec<String> = notes.map(|line| line.expect("text")).take(3).collect();
    assert!(
        notes[1].contains("the collector answered 503 Service Unavailable: busy"),
        "{notes:?}"
    );
    assert!(notes[2].contains("metrics are taken again"), "{notes:?}");
}

#[test]
fn endpoint_is_an_http_url() {
    for (url, reason) in [("https://127.0.0.1:4318", "TLS"), ("127.0.0.1:4318", "http://")] {
        let outcome = run(command().args(["export", "otlp", "--endpoint", url]));
        assert!(outcome.failed(2).contains(reason), "{outcome}");
    }
}
