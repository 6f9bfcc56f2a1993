//! Findings and ends of connections as log records of OTLP. Names are those of the semantic conventions where these have one; others
//! begin with `sockeye.` and end as in the JSON of `sockeye events` and `sockeye check`.

use super::messages::{AnyValue, KeyValue, LogRecord, LogsRequest, Resource, ResourceLogs, Scope, ScopeLogs};
use crate::sampling::{FindingChange, FindingEvent};
use prost::Message;
use sockeye_model::{ConnectionEnd, ConnectionEventKind, Direction, Process, Side};
use sockeye_output::text::harmless;
use sockeye_query::sampling::EndedConnection;
use sockeye_source::names::ProcessContainer;
use std::net::IpAddr;

/// Returns the bytes of a request. `resource`: attributes of the host.
pub(crate) fn logs_request(records: Vec<LogRecord>, resource: &[(String, String)], version: &str) -> Vec<u8> {
    let attributes = resource.iter().map(|(key, text)| KeyValue::new(key, text));
    let request = LogsRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(Resource {
                attributes: attributes.collect(),
            }),
            scope_logs: vec![ScopeLogs {
                scope: Some(Scope {
                    name: "sockeye".to_owned(),
                    version: version.to_owned(),
                }),
                records,
            }],
        }],
    };
    request.encode_to_vec()
}

/// Returns a finding that began, changed or is over.
pub(crate) fn finding_record(event: &FindingEvent, observed_ns: u64) -> LogRecord {
    let (finding, severity) = (&event.finding, event.finding.severity.name.as_str());
    let mut attributes = vec![
        KeyValue::new("sockeye.rule", &finding.rule),
        KeyValue::new("sockeye.severity", severity),
        KeyValue::new("sockeye.change", event.change.name()),
        KeyValue::new("sockeye.subject", &finding.subject),
        KeyValue::number("sockeye.sockets", finding.sockets),
    ];
    if let Some((pid, comm)) = &finding.owner {
        attributes.push(KeyValue::number("process.pid", pid.0.into()));
        attributes.push(KeyValue::new(
            "process.executable.name",
            &harmless(comm.as_bytes()),
        ));
    }
    if let Some(netns) = finding.netns {
        attributes.push(KeyValue::number("sockeye.netns_inode", netns.0.into()));
    }
    if let Some(example) = &finding.example {
        attributes.push(KeyValue::new("sockeye.example", example));
    }
    for (name, value) in &finding.facts {
        attributes.push(KeyValue::number(&format!("sockeye.{name}"), *value));
    }
    let remedies: Vec<_> = finding
        .remedies
        .iter()
        .map(|remedy| remedy.text.as_str())
        .collect();
    if !remedies.is_empty() {
        attributes.push(KeyValue::new("sockeye.remedies", &remedies.join("\n")));
    }
    let body = match event.change {
        FindingChange::Over => format!("{}: over: {}", finding.subject, finding.meaning),
        FindingChange::Began | FindingChange::Changed => format!("{}: {}", finding.subject, finding.meaning),
    };
    let number = match (event.change, severity) {
        (FindingChange::Over, _) | (_, "info" | "notice") => INFORMATION,
        (_, "critical") => ERROR,
        _ => WARNING,
    };
    record(
        "sockeye.finding",
        event.time_us,
        observed_ns,
        number,
        &body,
        attributes,
    )
}

/// Returns a connection that ended, or was not established.
pub(crate) fn ended_record(ended: &EndedConnection, observed_ns: u64) -> LogRecord {
    let event = &ended.event;
    let socket = &event.socket;
    let is_failed = event.kind == ConnectionEventKind::Fail;
    let mut attributes = vec![KeyValue::new("network.transport", "tcp")];
    if let Some(ip) = socket.local.ip() {
        let kind = match ip {
            IpAddr::V4(_) => "ipv4",
            IpAddr::V6(_) => "ipv6",
        };
        attributes.push(KeyValue::new("network.type", kind));
    }
    for (end, [address, port]) in [
        (&socket.local, ["network.local.address", "network.local.port"]),
        (&socket.peer, ["network.peer.address", "network.peer.port"]),
    ] {
        if let Some(ip) = end.ip() {
            attributes.push(KeyValue::new(address, &ip.to_string()));
        }
        if let Some(number) = end.port() {
            attributes.push(KeyValue::number(port, number.0.into()));
        }
    }
    let direction = event.direction.map(|direction| match direction {
        Direction::Active => "active",
        Direction::Passive => "passive",
    });
    let end = event.end.map(ConnectionEnd::name);
    let words = [
        ("sockeye.direction", direction),
        ("sockeye.end", end),
        ("sockeye.ended_by", event.ended_by.map(Side::name)),
    ];
    attributes.extend(
        words
            .into_iter()
            .filter_map(|(key, word)| Some(KeyValue::new(key, word?))),
    );
    if let Some(process) = event.owner.map(|owner| owner.process).or(event.closer) {
        push_process(&mut attributes, &process);
    }
    if let Some(container) = &ended.container {
        push_container(&mut attributes, container);
    }
    let info = socket.tcp_info.as_ref();
    let figures = [
        ("sockeye.setup_us", event.setup_us),
        ("sockeye.duration_us", event.duration_us),
        ("sockeye.sent_bytes", event.sent_bytes),
        ("sockeye.received_bytes", event.received_bytes),
        ("sockeye.rtt_us", info.and_then(|info| info.rtt_us).map(u64::from)),
        (
            "sockeye.retrans_segs",
            info.and_then(|info| info.total_retrans_segs).map(u64::from),
        ),
        ("sockeye.netns_inode", socket.netns.map(|netns| netns.0.into())),
    ];
    attributes.extend(
        figures
            .into_iter()
            .filter_map(|(key, number)| Some(KeyValue::number(key, number?))),
    );
    let what = if is_failed { "was not established" } else { "ended" };
    let mut body = format!("{} {what}", ends(ended));
    if let Some(end) = end {
        body.push_str(": ");
        body.push_str(end);
    }
    let is_orderly = matches!(event.end, None | Some(ConnectionEnd::Fin)) && !is_failed;
    let severity = if is_orderly { INFORMATION } else { WARNING };
    let name = if is_failed {
        "sockeye.connection.failed"
    } else {
        "sockeye.connection.ended"
    };
    record(name, ended.time_us, observed_ns, severity, &body, attributes)
}

/// Returns the two ends of a connection: from the client to the server.
fn ends(ended: &EndedConnection) -> String {
    let socket = &ended.event.socket;
    let text = |end: &sockeye_model::Endpoint| match (end.ip(), end.port()) {
        (Some(IpAddr::V6(ip)), Some(port)) => format!("[{ip}]:{}", port.0),
        (Some(ip), Some(port)) => format!("{ip}:{}", port.0),
        _ => "unknown".to_owned(),
    };
    let (client, server) = match ended.event.direction {
        Some(Direction::Passive) => (&socket.peer, &socket.local),
        _ => (&socket.local, &socket.peer),
    };
    format!("{} to {}", text(client), text(server))
}

fn push_process(attributes: &mut Vec<KeyValue>, process: &Process) {
    attributes.push(KeyValue::number("process.pid", process.pid.0.into()));
    let name = harmless(process.comm.as_bytes());
    if !name.is_empty() {
        attributes.push(KeyValue::new("process.executable.name", &name));
    }
}

/// Adds the container: its id, if runtimes named it by one.
fn push_container(attributes: &mut Vec<KeyValue>, found: &ProcessContainer) {
    let name = harmless(found.container.name());
    let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let key = if is_id { "container.id" } else { "container.name" };
    attributes.push(KeyValue::new(key, &name));
    attributes.push(KeyValue::new(
        "container.runtime.name",
        found.container.runtime.name(),
    ));
    if let Some(pod) = &found.pod {
        attributes.push(KeyValue::new("k8s.pod.uid", &harmless(pod.as_bytes())));
    }
}

fn record(
    name: &str,
    time_us: u64,
    observed_ns: u64,
    severity: i32,
    body: &str,
    attributes: Vec<KeyValue>,
) -> LogRecord {
    let severity_text = match severity {
        ERROR => "ERROR",
        WARNING => "WARN",
        _ => "INFO",
    };
    LogRecord {
        time_ns: time_us.saturating_mul(1_000),
        observed_ns,
        severity,
        severity_text: severity_text.to_owned(),
        body: Some(AnyValue::text(body)),
        attributes,
        event_name: name.to_owned(),
    }
}

/// `SEVERITY_NUMBER_INFO`, `_WARN`, `_ERROR`
const INFORMATION: i32 = 9;
const WARNING: i32 = 13;
const ERROR: i32 = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::finding;
    use sockeye_model::{ConnectionEvent, Container, Endpoint, Port, Protocol, Socket, State};

    #[track_caller]
    fn check(record: &LogRecord, expected: &[KeyValue]) {
        for one in expected {
            assert!(record.attributes.contains(one), "{one:?}\n{record:#?}");
        }
    }

    #[test]
    fn finding_has_its_evidence_and_how_bad_it_is() {
        for (severity, change, number) in [
            ("critical", FindingChange::Began, ERROR),
            ("warning", FindingChange::Began, WARNING),
            ("notice", FindingChange::Began, INFORMATION),
            ("critical", FindingChange::Over, INFORMATION),
        ] {
            let event = FindingEvent {
                finding: finding("listener 127.0.0.1:80", severity),
                change,
                time_us: 3,
            };
            let record = finding_record(&event, 9);
            assert_eq!(
                (record.severity, record.time_ns, record.observed_ns),
                (number, 3_000, 9)
            );
            check(
                &record,
                &[
                    KeyValue::new("sockeye.rule", "accept-queue"),
                    KeyValue::new("sockeye.change", change.name()),
                    KeyValue::number("sockeye.waiting", 5),
                ],
            );
        }
    }

    #[test]
    fn end_of_a_connection_has_ends_cause_and_container() {
        let mut socket = Socket::new(Protocol::Tcp, State::Close);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(443));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(50_000));
        let mut event = ConnectionEvent::new(ConnectionEventKind::Close, 0, socket);
        event.direction = Some(Direction::Passive);
        event.end = Some(ConnectionEnd::ResetReceived);
        event.sent_bytes = Some(7);
        let id = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";
        let ended = EndedConnection {
            event,
            time_us: 3,
            container: Some(ProcessContainer {
                container: Container::from_cgroup(format!("/docker/{id}").as_bytes()).unwrap(),
                pod: None,
            }),
        };
        let record = ended_record(&ended, 9);
        assert_eq!(record.severity, WARNING);
        let body = AnyValue::text("10.0.0.2:50000 to 10.0.0.1:443 ended: reset-received");
        assert_eq!(record.body, Some(body));
        check(
            &record,
            &[
                KeyValue::new("network.local.address", "10.0.0.1"),
                KeyValue::number("network.peer.port", 50_000),
                KeyValue::number("sockeye.sent_bytes", 7),
                KeyValue::new("container.id", id),
            ],
        );
    }
}
