//! A collector of OpenTelemetry: it takes requests, and OpenTelemetry's own messages decode them.

use crate::fixtures::binary::{command, run};
use serde_json::Value;
use sockeye_lab::{Namespace, Skip, program};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// Decodes a request, and writes it as JSON.
const DECODE: &str = "
import sys
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as metrics
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest as logs
request = {'metrics': metrics, 'logs': logs}[sys.argv[1]]()
request.ParseFromString(sys.stdin.buffer.read())
print(MessageToJson(request))
";

/// A collector on a free port of a namespace.
pub(super) struct Collector(pub(super) TcpListener);

/// A request that it took.
pub(super) struct Request {
    /// The lines before the body.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Collector {
    pub(super) fn start(namespace: &Namespace) -> Self {
        Self(namespace.run(|| TcpListener::bind("127.0.0.1:0").expect("a port")))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/otlp", self.address())
    }

    /// Takes one request, and answers it: the status, with further lines of the head behind it, and the body.
    pub(super) fn take(&self, answer: impl FnOnce(&Request) -> (&'static str, Vec<u8>)) -> Request {
        let (stream, _) = self.0.accept().expect("a connection");
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
        let request = Request { head, body };
        let (status, body) = answer(&request);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let stream = stream.get_mut();
        stream.write_all(head.as_bytes()).expect("the exporter reads");
        stream.write_all(&body).expect("the exporter reads");
        request
    }

    /// Takes requests until one has log records.
    pub(super) fn take_logs(&self) -> Request {
        loop {
            let request = self.take(|_| ("200 OK", Vec::new()));
            if request.is_logs() {
                return request;
            }
        }
    }
}

impl Request {
    pub(super) fn is_logs(&self) -> bool {
        self.head.starts_with("POST /otlp/v1/logs ")
    }

    /// Decodes it by OpenTelemetry's messages.
    pub(super) fn decoded(&self) -> Result<Value, Skip> {
        let python = program("python3")?;
        let check = "import opentelemetry.proto.collector.logs.v1.logs_service_pb2";
        if run(Command::new(&python).args(["-c", check])).code != Some(0) {
            return Err(Skip::new("python3 has no opentelemetry-proto (scripts/peers)"));
        }
        let mut child = Command::new(python)
            .args(["-c", DECODE, if self.is_logs() { "logs" } else { "metrics" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(&self.body)
            .expect("python3 reads");
        let output = child.wait_with_output().expect("python3 ends");
        assert!(output.status.success());
        Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
    }
}

/// `sockeye export otlp` in a namespace; ended when dropped.
pub(super) struct Exporter(pub(super) Child);

impl Exporter {
    pub(super) fn start(namespace: &Namespace, url: &str, words: &[&str]) -> Self {
        let mut exporter = exporter(url);
        exporter.args(words);
        Self(namespace.run(|| exporter.spawn().expect("the program starts")))
    }

    /// Asserts that it notes this in one of its first lines. Other notes, as of processes that have ended, may be among them.
    #[track_caller]
    pub(super) fn check_notes(&mut self, expected: &[&str]) {
        let mut lines = BufReader::new(self.0.stderr.take().expect("a pipe")).lines();
        for text in expected {
            let mut others = Vec::new();
            let found = lines.by_ref().take(NOTES_MAX).any(|line| {
                others.push(line.expect("text"));
                others.last().is_some_and(|line| line.contains(text))
            });
            assert!(found, "{text}\n{others:#?}");
        }
    }
}

const NOTES_MAX: usize = 8;

/// Returns the command.
pub(super) fn exporter(url: &str) -> Command {
    let mut exporter = command();
    exporter
        .args(["export", "otlp", "--sample-interval", "0.5", "--endpoint", url])
        .env("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=web-1")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20secret")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    exporter
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns the attribute with a key, as text.
pub(super) fn attribute(attributes: &Value, key: &str) -> Option<String> {
    let mut all = attributes.as_array().into_iter().flatten();
    let value = &all.find(|one| one["key"] == key)?["value"];
    let text = value["stringValue"].as_str().or(value["intValue"].as_str());
    text.map(str::to_owned)
}
