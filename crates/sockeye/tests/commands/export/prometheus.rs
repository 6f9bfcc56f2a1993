//! The real Prometheus scrapes the exporter; its alert rules and the queries of the dashboard have data.

use super::exporter::Exporter;
use crate::fixtures::binary::{command, run};
use crate::fixtures::http::Answer;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program, wait_within};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Rules and dashboard.
const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/fleet");
const PORT: u16 = 9090;

/// A running Prometheus; ended when dropped.
struct Prometheus {
    child: Child,
    namespace: Namespace,
}

impl Prometheus {
    /// Starts it in a namespace; it scrapes an exporter there each half second.
    fn start(program: &Path, lab: &Lab, namespace: &Namespace, exporter: &Exporter) -> Self {
        let file = lab.directory().join("prometheus.yml");
        let configuration = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}}\n\
             rule_files: ['{FLEET}/alerts.yml']\n\
             scrape_configs:\n- job_name: sockeye\n  static_configs: [{{targets: ['{}']}}]\n",
            exporter.address
        );
        std::fs::write(&file, configuration).expect("the configuration");
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                lab.directory().join("tsdb").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{PORT}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = namespace.run(|| command.spawn().expect("Prometheus starts"));
        Self {
            child,
            namespace: namespace.clone(),
        }
    }

    /// Returns the data of an answer; `None` while there is none.
    fn data(&self, path: &str) -> Option<Value> {
        let mut stream = self
            .namespace
            .run(|| TcpStream::connect(("127.0.0.1", PORT)))
            .ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let answer = Answer::parse(&text);
        assert!(![400, 422].contains(&answer.status), "{path}: {}", answer.body);
        let document: Value = serde_json::from_str(&answer.body).ok()?;
        Some(document["data"].clone())
    }

    /// Returns the results of a query.
    fn query(&self, query: &str) -> Vec<Value> {
        let data = self.data(&format!("/api/v1/query?query={}", percent_encoded(query)));
        let results = data.and_then(|data| data["result"].as_array().cloned());
        results.unwrap_or_default()
    }

    /// Waits until a query has results.
    #[track_caller]
    fn wait(&self, query: &str) {
        wait_within(Duration::from_secs(60), format!("results of {query}"), || {
            (!self.query(query).is_empty()).then_some(())
        });
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes all");
        }
        encoded
    })
}

/// Returns the queries of the dashboard, as Grafana sends them.
fn dashboard_queries() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(FLEET).join("dashboard.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries = targets.map(|target| {
        let query = target["expr"].as_str().expect("a query");
        query
            .replace("$instance", ".*")
            .replace("$service", ".*")
            .replace("$__rate_interval", "1m")
    });
    queries.collect()
}

/// A connection that is refused, one that is reset, and one with data.
fn make_traffic(host: &Namespace) {
    host.run(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:8081").expect("a free port");
        drop(TcpStream::connect("127.0.0.1:1").expect_err("no listener"));
        let mut client = TcpStream::connect("127.0.0.1:8081").expect("a listener");
        let (server, _) = listener.accept().expect("a connection");
        client.write_all(&[1; 100]).expect("sent");
        // Its data was not read: it ends with a RST.
        server.peek(&mut [0; 100]).expect("data");
        drop(server);
        drop(client.read(&mut [0]).expect_err("a RST"));
    });
}

#[test]
fn dashboard_and_rules_have_data_in_the_real_prometheus() {
    let binary = need!(program("prometheus"));
    let lab = need!(Lab::new("export-prometheus"));
    let host = lab.namespace("host");
    let path = host.loopback();
    let store = lab.directory().join("record.db").display().to_string();
    let recorded = host.run(|| run(command().args(["record", "--once", "--store", &store])));
    assert_eq!(recorded.code, Some(0), "{recorded}");
    let exporter = Exporter::start(&host, &["--check-interval", "1", "--store", &store]);
    let _full = path.full_accept_queue(4);
    let _busy = path.established();
    make_traffic(&host);
    let prometheus = Prometheus::start(&binary, &lab, &host, &exporter);
    prometheus.wait("up == 1");
    // Totals that begin to exist have to change once more for a rate.
    make_traffic(&host);
    for query in dashboard_queries() {
        prometheus.wait(&query);
    }
    let rules = prometheus.data("/api/v1/rules").expect("rules");
    let groups = rules["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 1);
    for rule in groups[0]["rules"].as_array().expect("rules") {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    prometheus.wait(r#"ALERTS{alertname="SockeyeAcceptQueueFull"}"#);
}

#[test]
fn promtool_accepts_the_rules() {
    let promtool = need!(program("promtool"));
    let checked = Command::new(promtool)
        .args(["check", "rules", &format!("{FLEET}/alerts.yml")])
        .output()
        .expect("promtool starts");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}
