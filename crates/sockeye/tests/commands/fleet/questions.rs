//! The answers of `fleet` about two hosts.

use super::{Connection, FROM_WEB, Fleet, SENT_SAMPLES, TO_DATABASE};
use crate::fixtures::envelope::rows;
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::Value;
use sockeye_lab::{Skip, need};

const SCHEMA: &str = include_str!("../../../../../docs/schema/fleet.schema.json");

impl Fleet {
    /// Returns the rows of an answer, which the schema describes.
    #[track_caller]
    pub(super) fn rows(&self, words: &str) -> Vec<Value> {
        let document = self.ask(&format!("{words} --format json"));
        assert_eq!(document.code, Some(0), "{words}: {document}");
        let schema = JSONSchema::options()
            .with_draft(Draft::Draft202012)
            .compile(&schema_file::load(SCHEMA))
            .expect("a schema");
        let document: Value = serde_json::from_slice(&document.stdout).expect("JSON");
        if let Err(errors) = schema.validate(&document) {
            panic!(
                "{words}: {:?}",
                errors.map(|error| error.to_string()).collect::<Vec<_>>()
            );
        }
        let outcome = self.ask(&format!("{words} --format jsonl"));
        assert_eq!(outcome.code, Some(0), "{words}: {outcome}");
        rows(&String::from_utf8_lossy(&outcome.stdout))
    }

    /// Sends what both hosts have.
    fn filled(test: &str) -> Result<Self, Skip> {
        Self::new(test).map(Self::sent)
    }

    fn sent(self) -> Self {
        self.send(&self.web);
        self.send(&self.db);
        self
    }
}

/// Returns values of each row.
pub(super) fn values(rows: &[Value], names: &[&str]) -> Vec<Vec<String>> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    rows.iter()
        .map(|row| names.iter().map(|name| text(&row[*name])).collect())
        .collect()
}

#[test]
fn hosts_are_listed_with_what_they_sent() {
    let fleet = need!(Fleet::filled("hosts"));
    let hosts = fleet.rows("hosts --since 1h");
    let shown = values(
        &hosts,
        &[
            "name",
            "recorder_version",
            "boots",
            "samples",
            "flows_seen",
            "gap_count",
        ],
    );
    assert_eq!(
        shown,
        [
            ["db1", "0.1.0", "1", "70", "2", "0"],
            ["web1", "0.1.0", "1", "70", "2", "0"]
        ]
    );
}

#[test]
fn edge_has_what_both_ends_saw() {
    let fleet = need!(Fleet::filled("who"));
    for since in ["28m", "1h", "99d"] {
        let edges = fleet.rows(&format!("who --port 5432 --since {since}"));
        assert_eq!(edges.len(), 1, "{since}: {edges:?}");
        let edge = &edges[0];
        let ends = [
            "client_host",
            "client_service",
            "client_ip",
            "server_host",
            "server_service",
            "server_ip",
        ];
        assert_eq!(
            values(&edges, &ends),
            [["web1", "webshop", "10.0.0.1", "db1", "postgres", "10.0.0.2"]]
        );
        assert_eq!(edge["seen_by"], "both");
        assert_eq!(edge["request_bytes"], 1_000 * SENT_SAMPLES);
        assert_eq!(edge["response_bytes"], 5_000 * SENT_SAMPLES);
        assert_eq!(edge["connections_max"], 1);
        assert_eq!(edge["client_rtt_us_mean"], 900);
        assert_eq!(edge["server_rtt_us_mean"], 844);
        assert_eq!(edge["client_retrans_segs"], SENT_SAMPLES);
        assert_eq!(edge["server_retrans_segs"], 2 * SENT_SAMPLES);
    }
    // One end sends nothing: it is called so, and not guessed.
    let telnet = fleet.rows("who --port 23");
    assert_eq!(
        values(
            &telnet,
            &["client_ip", "server_host", "seen_by", "response_bytes"]
        ),
        [["192.0.2.9", "db1", "server", &(10 * SENT_SAMPLES).to_string()]]
    );
    assert!(telnet[0].get("client_host").is_none());
}

#[test]
fn filters_choose_edges() {
    let fleet = need!(Fleet::filled("filters"));
    for (filter, ports) in [
        ("server = 10.0.0.0/24", &["5432", "23"][..]),
        ("not client = 10.0.0.0/8 and port != 6379", &["23"]),
        ("host = web1", &["5432", "6379"]),
        ("service = postgres or service = other", &["5432"]),
        ("client_service = webshop and not ( port = 6379 )", &["5432"]),
    ] {
        let edges = fleet.rows(&format!("who {filter}"));
        let found: Vec<_> = values(&edges, &["port"]).concat();
        assert_eq!(found, ports, "{filter}");
    }
    let outcome = fleet.ask("who dport = 1");
    assert!(outcome.failed(2).contains("`dport` is not known"), "{outcome}");
}

#[test]
fn connections_of_a_time_are_those_that_were_there() {
    let fleet = need!(Fleet::filled("at"));
    let at = |seconds: i64| {
        let at_s = (fleet.begin_ms / 1_000).cast_signed() + seconds;
        let now_s = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_secs();
        let rows = fleet.rows(&format!("at -{}s", now_s.cast_signed() - at_s));
        let mut ports: Vec<_> = values(&rows, &["port"]).concat();
        ports.sort();
        ports
    };
    assert_eq!(at(400), ["23", "5432", "6379"]);
    assert_eq!(at(-100), [""; 0]);
}

#[test]
fn map_has_services_and_addresses_of_what_sends_nothing() {
    let fleet = need!(Fleet::filled("map"));
    let services = fleet.rows("map");
    let names = [
        "client_service",
        "server_service",
        "port",
        "pairs",
        "pairs_of_both",
    ];
    assert_eq!(
        values(&services, &names),
        [
            ["webshop", "postgres", "5432", "1", "1"],
            ["192.0.2.9", "telnetd", "23", "1", "0"],
            ["webshop", "127.0.0.1", "6379", "1", "0"],
        ]
    );
    assert_eq!(services[0]["request_bytes"], 1_000 * SENT_SAMPLES);
    assert_eq!(services[0]["rtt_us_mean"], 900);
    let svg = fleet.folder.0.join("map.svg");
    fleet.rows(&format!("map --svg {}", svg.display()));
    let picture = std::fs::read_to_string(svg).expect("a picture");
    for text in ["<svg", "postgres", "port 5432", "192.0.2.9"] {
        assert!(picture.contains(text), "{text}");
    }
}

#[test]
fn findings_of_all_hosts_are_listed() {
    let fleet = need!(Fleet::filled("findings"));
    let findings = fleet.rows("findings --since 1h");
    let names = ["on_host", "severity", "rule", "state", "evidence"];
    assert_eq!(
        values(&findings, &names),
        [
            ["db1", "critical", "accept-queue", "ended", "waiting=7"],
            ["web1", "critical", "accept-queue", "ended", "waiting=7"],
        ]
    );
    assert_eq!(fleet.rows("findings --host web1 --rule accept-queue").len(), 1);
    assert_eq!(fleet.rows("findings --rule other").len(), 0);
}

/// Asserts what makes the database slow, with one connection and this many that wait to be accepted.
#[track_caller]
fn check_blame(fleet: Result<Fleet, Skip>, cause: &str, evidence: &str) {
    let fleet = need!(fleet).sent();
    for service in ["postgres", "5432"] {
        let edges = fleet.rows(&format!("blame {service}"));
        assert_eq!(edges.len(), 1, "{edges:?}");
        assert_eq!(edges[0]["cause"], cause, "{edges:?}");
        let found = edges[0]["evidence"].as_str().expect("a text");
        assert!(found.contains(evidence), "{found}");
        assert_eq!(edges[0]["client_host"], "web1");
    }
    let note = fleet.ask("blame postgres").stderr;
    let note = String::from_utf8_lossy(&note);
    assert!(note.contains(&format!("{cause} 1")), "{note}");
}

/// The connection to the database as both ends see it, without retransmissions.
const CALM: (Connection, Connection) = (
    Connection {
        retrans: 0,
        ..TO_DATABASE
    },
    Connection {
        retrans: 0,
        ..FROM_WEB
    },
);

#[test]
fn blame_names_the_network_that_loses_segments() {
    let fleet = Fleet::of("network", &[TO_DATABASE], &[(5_432, 0)], &[CALM.1]);
    check_blame(fleet, "network", "the client retransmitted 69 segments");
}

#[test]
fn blame_names_the_server_that_does_not_accept() {
    let fleet = Fleet::of("server", &[CALM.0], &[(5_432, 100)], &[CALM.1]);
    check_blame(fleet, "server", "100 connections wait to be accepted, 128 may");
}

#[test]
fn blame_names_the_client_that_does_not_read() {
    let client = Connection {
        unread: 100_000,
        ..CALM.0
    };
    let fleet = Fleet::of("client", &[client], &[(5_432, 0)], &[CALM.1]);
    check_blame(fleet, "client", "the client had 100000 bytes unread");
}

#[test]
fn blame_finds_nothing_where_nothing_is() {
    let fleet = Fleet::of("calm", &[CALM.0], &[(5_432, 3)], &[CALM.1]);
    check_blame(fleet, "none", "");
}
