//! What a collector receives, decoded by OpenTelemetry's own messages, and what the exporter does with its answers.

use super::collector::{Collector, Exporter, attribute};
use crate::fixtures::binary::{command, run};
use sockeye_lab::{Lab, need};
use std::time::{Duration, Instant};

#[test]
fn request_is_what_opentelemetry_decodes() {
    let lab = need!(Lab::new("export-otlp"));
    let host = lab.namespace("host");
    let _server = lab
        .process("web-server")
        .in_namespace(&host)
        .tcp_listen("127.0.0.1:8080")
        .start();
    let headers = lab.directory().join("headers");
    std::fs::write(&headers, "Authorization: Bearer abc\n").expect("a file");
    let collector = Collector::start(&host);
    let file = headers.display().to_string();
    let _exporter = Exporter::start(
        &host,
        &collector.url(),
        &["--check-interval", "0", "--headers-file", &file],
    );
    let request = collector.take(|_| ("200 OK", Vec::new()));
    let head = &request.head;
    assert!(head.starts_with("POST /otlp/v1/metrics HTTP/1.1\r\n"), "{head}");
    for line in [
        "content-type: application/x-protobuf\r\n",
        "x-token: a secret\r\n",
        "authorization: Bearer abc\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let request = need!(request.decoded());
    let of_host = &request["resourceMetrics"][0];
    let attributes = &of_host["resource"]["attributes"];
    for (key, text) in [("k8s.pod.name", "web-1"), ("service.name", "sockeye")] {
        assert_eq!(attribute(attributes, key).as_deref(), Some(text), "{attributes}");
    }
    assert!(attribute(attributes, "host.arch").is_some(), "{attributes}");
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
    let mut services = listeners
        .iter()
        .map(|point| (attribute(&point["attributes"], "service"), &point["asInt"]));
    let of_server = services.find(|(service, _)| service.as_deref() == Some("web-server"));
    assert_eq!(of_server.expect("the listener").1, "1");
    assert!(metric("sockeye.tcp.rtt")["histogram"].is_object());
}

#[test]
fn findings_are_log_records_when_they_begin_and_are_over() {
    let lab = need!(Lab::new("export-otlp-findings"));
    let host = lab.namespace("host");
    let path = host.loopback();
    let full = path.full_accept_queue(4);
    let collector = Collector::start(&host);
    let _exporter = Exporter::start(&host, &collector.url(), &["--check-interval", "1"]);
    let mut full = Some(full);
    for change in ["began", "over"] {
        let record = loop {
            let logs = need!(collector.take_logs().decoded());
            let records = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"].clone();
            let of_queue = records.as_array().expect("records").iter().find(|record| {
                let of = |key| attribute(&record["attributes"], key);
                of("sockeye.rule").as_deref() == Some("accept-queue")
                    && of("sockeye.change").as_deref() == Some(change)
            });
            if let Some(record) = of_queue {
                break record.clone();
            }
        };
        assert_eq!(record["eventName"], "sockeye.finding", "{record}");
        let severity = &record["severityText"];
        assert_eq!(severity == "INFO", change == "over", "{record}");
        let body = record["body"]["stringValue"].as_str().expect("a text");
        assert!(body.contains("listener"), "{record}");
        assert!(
            attribute(&record["attributes"], "sockeye.waiting").is_some(),
            "{record}"
        );
        drop(full.take());
    }
}

#[test]
fn closed_connections_are_log_records_if_they_are_asked_for() {
    let lab = need!(Lab::new("export-otlp-closes"));
    let host = lab.namespace("host");
    let collector = Collector::start(&host);
    let words = ["--check-interval", "0", "--logs", "closes"];
    let _exporter = Exporter::start(&host, &collector.url(), &words);
    // It watches once there is a first sample.
    collector.take(|_| ("200 OK", Vec::new()));
    let (client, server) = host.run(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:8081").expect("a free port");
        let client = std::net::TcpStream::connect("127.0.0.1:8081").expect("a listener");
        let server = listener.accept().expect("a connection").0;
        drop(std::net::TcpStream::connect("127.0.0.1:1").expect_err("no listener"));
        (client, server)
    });
    let port = client.local_addr().expect("an address").port().to_string();
    drop((client, server));
    let (mut ended, mut failed) = (None, None);
    while ended.is_none() || failed.is_none() {
        let logs = need!(collector.take_logs().decoded());
        let records = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"].clone();
        for record in records.as_array().expect("records") {
            let of = |key| attribute(&record["attributes"], key);
            if of("network.local.port").as_deref() == Some(port.as_str()) {
                ended = Some(record.clone());
            }
            if of("network.peer.port").as_deref() == Some("1") {
                failed = Some(record.clone());
            }
        }
    }
    let (ended, failed) = (ended.expect("it ended"), failed.expect("it failed"));
    assert_eq!(ended["eventName"], "sockeye.connection.ended", "{ended}");
    let of = |key| attribute(&ended["attributes"], key);
    assert_eq!(
        of("network.peer.address").as_deref(),
        Some("127.0.0.1"),
        "{ended}"
    );
    assert_eq!(of("sockeye.end").as_deref(), Some("fin"), "{ended}");
    assert_eq!(of("process.pid"), Some(std::process::id().to_string()), "{ended}");
    assert_eq!(failed["eventName"], "sockeye.connection.failed", "{failed}");
    assert_eq!(failed["severityText"], "WARN", "{failed}");
}

#[test]
fn collector_that_refuses_is_named_once_and_tried_again() {
    let lab = need!(Lab::new("export-otlp-busy"));
    let host = lab.namespace("host");
    let collector = Collector::start(&host);
    let mut exporter = Exporter::start(&host, &collector.url(), &["--check-interval", "0"]);
    for status in ["503 Busy", "503 Busy", "200 OK", "200 OK"] {
        let body = if status == "200 OK" { "" } else { "busy\n" };
        collector.take(|_| (status, body.as_bytes().to_vec()));
    }
    exporter.check_notes(&[
        "the collector answered 503 Service Unavailable: busy; trying again",
        "metrics are taken again",
    ]);
}

#[test]
fn collector_is_left_alone_as_long_as_it_asks() {
    let lab = need!(Lab::new("export-otlp-after"));
    let host = lab.namespace("host");
    let collector = Collector::start(&host);
    let _exporter = Exporter::start(&host, &collector.url(), &["--check-interval", "0"]);
    collector.take(|_| ("429 Too Many Requests\r\nRetry-After: 4", Vec::new()));
    // Without that it would come after a second.
    let refused = Instant::now();
    collector.take(|_| ("200 OK", Vec::new()));
    assert!(
        refused.elapsed() > Duration::from_secs(3),
        "{:?}",
        refused.elapsed()
    );
}

#[test]
fn log_records_are_sent_again_until_they_are_taken_or_refused() {
    let lab = need!(Lab::new("export-otlp-logs"));
    let host = lab.namespace("host");
    let path = host.loopback();
    let _full = path.full_accept_queue(4);
    let collector = Collector::start(&host);
    let mut exporter = Exporter::start(&host, &collector.url(), &["--check-interval", "1"]);
    let mut logs = Vec::new();
    // Field 1, with two records that were left out, and why.
    let partial = [&[10, 9, 8, 2, 18, 5][..], b"noisy"].concat();
    for answer in [("503 Busy", Vec::new()), ("200 OK", partial)] {
        let taken = loop {
            let answer = answer.clone();
            let taken = collector.take(|request| {
                if request.is_logs() {
                    answer
                } else {
                    ("200 OK", Vec::new())
                }
            });
            if taken.is_logs() {
                break taken;
            }
        };
        logs.push(taken.body);
    }
    assert_eq!(logs[0], logs[1]);
    exporter.check_notes(&["/v1/logs: the collector left out 2: noisy"]);
    // What was left out is counted.
    let lost = loop {
        let taken = collector.take(|_| ("200 OK", Vec::new()));
        if taken.is_logs() {
            continue;
        }
        let metrics = need!(taken.decoded());
        let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].clone();
        let mut all = metrics.as_array().expect("metrics").iter();
        let losses = all.find(|metric| metric["name"] == "sockeye.exporter.losses");
        let points = losses.expect("a metric")["sum"]["dataPoints"].clone();
        let mut points = points.as_array().expect("points").iter();
        let lost =
            points.find(|point| attribute(&point["attributes"], "kind").as_deref() == Some("log_records"));
        let lost = lost.expect("a point")["asInt"].as_str().map(str::to_owned);
        if lost.as_deref() != Some("0") {
            break lost;
        }
    };
    let records = lost.expect("a number").parse::<u64>().expect("a number");
    assert!((1..=2).contains(&records), "{records}");
}

#[test]
fn endpoint_is_an_http_url() {
    for (url, reason) in [
        ("ftp://127.0.0.1:4318", "https://"),
        ("127.0.0.1:4318", "http://"),
    ] {
        let outcome = run(command().args(["export", "otlp", "--endpoint", url]));
        assert!(outcome.failed(2).contains(reason), "{outcome}");
        let outcome = run(command()
            .args(["export", "otlp"])
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", url));
        assert!(
            outcome.failed(2).contains("OTEL_EXPORTER_OTLP_ENDPOINT"),
            "{outcome}"
        );
    }
}
