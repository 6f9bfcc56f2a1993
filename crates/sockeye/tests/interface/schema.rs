//! The output of the binary follows the schemas in docs/schema.

use crate::fixtures::live::{linked, sockeye};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::{Value, json};
use sockeye_lab::{Lab, LabSocket, Namespace, Pair, Process, Skip, SocketOptions, UnixKind, need};
use sockeye_verdict::Rule;
use std::collections::BTreeSet;
use std::time::Duration;

const SOCKETS: &str = include_str!("../../../../docs/schema/sockets.schema.json");
const FLOWS: &str = include_str!("../../../../docs/schema/flows.schema.json");
const CHECK: &str = include_str!("../../../../docs/schema/check.schema.json");

const KEEPALIVE: &str = include_str!("../../../../docs/schema/keepalive.schema.json");
const ACTIONS: &str = include_str!("../../../../docs/schema/actions.schema.json");

/// A namespace with sockets of every kind.
struct Rich {
    namespace: Namespace,
    _pairs: Vec<Pair>,
    _specimens: Vec<LabSocket>,
    _processes: Vec<Process>,
    lab: Lab,
}

impl Rich {
    fn new(purpose: &str) -> Result<Self, Skip> {
        let (lab, client, _server, link) = linked(purpose)?;
        let plain = SocketOptions::new();
        let odd = b"odd\n\x1b[1m\xff \"name\"";
        let mut lab_sockets = vec![
            client.tcp_listener("[::]:0", &plain),
            client.tcp_listener("0.0.0.0:0", &SocketOptions::new().device("lo").mark(7)),
            client.tcp_bound("127.0.0.1:0", &plain),
            client.udp_bound("[::1]:0", &plain),
            client.raw(1, false),
            client.raw(58, true),
            client.packet(3),
            client.packet(0x88cc),
            client.netlink(0),
            client.netlink(15),
            client.unix_bound(UnixKind::Stream, &lab.unix_abstract(odd)),
            client.unix_bound(UnixKind::Datagram, &lab.unix_path(odd)),
            link.net_path().time_wait(),
            link.net_path6().syn_sent(),
        ];
        lab_sockets.extend(client.udp_lite_bound("127.0.0.1:0", &plain));
        let mut pairs = vec![
            client.loopback_mapped().unread(99),
            client.loopback6().zero_window(),
            client.loopback().keepalive(Duration::from_secs(600)),
            link.net_path_link_local().established(),
            link.net_path().retransmitting(10),
            link.net_path().half_closed(),
            link.net_path().closing(),
            client.loopback().udp_connected(),
            client.unix_pair(UnixKind::Seqpacket),
        ];
        pairs.extend(client.loopback().mptcp());
        for name in ["bbr", "cubic"] {
            if sockeye_lab::congestion_control(name).is_ok() {
                let options = SocketOptions::new().congestion(name);
                pairs.push(client.loopback().with_client(options).established());
            }
        }
        let processes = vec![
            lab.process("odd \"\n\x1b]\\comm")
                .in_namespace(&client)
                .user(65534, 65534)
                .tcp_pair("127.0.0.1:0")
                .start(),
        ];
        Ok(Self {
            namespace: client,
            _pairs: pairs,
            _specimens: lab_sockets,
            _processes: processes,
            lab,
        })
    }
}

fn compiled(schema: &Value) -> JSONSchema {
    JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(schema)
        .unwrap()
}

/// Validators of a whole document, of a row, and of the summary that may end JSON lines.
struct Schema {
    whole: JSONSchema,
    line: JSONSchema,
    row: JSONSchema,
    summary: JSONSchema,
}

impl Schema {
    fn new(text: &str, row: &str) -> Self {
        let schema = schema_file::load(text);
        let part =
            |name: &str| compiled(&json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]}));
        Self {
            whole: compiled(&schema),
            line: part("line"),
            row: part(row),
            summary: part("summary_line"),
        }
    }

    #[track_caller]
    fn check_document(&self, text: &str) -> Value {
        follows(&self.whole, text)
    }

    #[track_caller]
    fn check_lines(&self, text: &str) -> Vec<Value> {
        let (rows, last) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
        follows(&self.summary, last);
        for line in text.lines() {
            follows(&self.line, line);
        }
        // Each sample of a repeated listing has a summary.
        let is_row = |line: &&str| !line.contains("_summary\",\"schema_version");
        rows.lines()
            .filter(is_row)
            .map(|line| follows(&self.row, line))
            .collect()
    }
}

#[track_caller]
fn follows(validator: &JSONSchema, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let errors = validator.validate(&value).err().into_iter().flatten();
    let errors: Vec<String> = errors
        .map(|error| format!("{error} at {}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    value
}

#[test]
fn sockets_follow_their_schema() {
    let rich = need!(Rich::new("schema_sockets"));
    let schema = Schema::new(SOCKETS, "socket");
    let name = rich.namespace.name().to_owned();
    let everything = ["sockets", "-A", "all", "-a", "-e", "-o", "-m", "-i", "-p"];
    for added in [
        &["--source", "auto"][..],
        &["--source", "procfs"],
        &["-n", "--netns", &name],
        &["state", "all"],
    ] {
        let ask = |format| {
            let words = [&everything[..], &["--format", format], added].concat();
            sockeye(&rich.namespace, &words)
        };
        // Requests and dying sockets have timers: one may go between two listings.
        let lines = (0..5).find_map(|_| {
            let document = schema.check_document(&ask("json"));
            let lines = schema.check_lines(&ask("jsonl"));
            (document["sockets"].as_array().unwrap().len() == lines.len()).then_some(lines)
        });
        let lines = lines.unwrap_or_else(|| panic!("{added:?}: never as many in both formats"));
        // An empty list would follow the schema, too.
        let kinds: BTreeSet<&str> = lines.iter().filter_map(|row| row["netid"].as_str()).collect();
        for kind in ["tcp", "udp", "raw", "u_str", "u_dgr", "u_seq", "p_raw", "nl"] {
            assert!(kinds.contains(kind), "no {kind} {added:?}");
        }
    }
    let words = ["sockets", "-tux0", "-aeomip", "--source", "diag-v2", "--format"];
    let text = sockeye(&rich.namespace, &[&words[..], &["json"]].concat());
    assert!(
        !schema.check_document(&text)["sockets"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn flows_follow_their_schema() {
    let rich = need!(Rich::new("schema_flows"));
    let schema = Schema::new(FLOWS, "flow");
    let mine = rich.namespace.name().to_owned();
    assert!(mine.starts_with(rich.lab.name()));
    for added in [
        &["-p", "-i", "-s"][..],
        &["-n", "--netns", &mine],
        &["-u", "-p"],
        &["--group-by", "port", "-i"],
        &["--group-by", "process", "-p"],
        &["--group-by", "uid"],
        &["--group-by", "netns", "--netns", "all"],
        &["--group-by", "prefix/8,48"],
        &["--source", "procfs", "-p", "-i"],
    ] {
        let ask = |format| sockeye(&rich.namespace, &[&["flows", "--format", format], added].concat());
        let document = schema.check_document(&ask("json"));
        assert!(!document["flows"].as_array().unwrap().is_empty(), "{added:?}");
        assert!(!schema.check_lines(&ask("jsonl")).is_empty(), "{added:?}");
    }
    // Rates: the second sample's.
    let watched = sockeye(
        &rich.namespace,
        &["flows", "-n", "-w", "0.05", "--count", "2", "--format", "jsonl"],
    );
    let rows = schema.check_lines(&watched);
    assert!(rows.iter().any(|row| row["rates"].is_object()), "{watched}");
}

#[test]
fn findings_follow_their_schema() {
    let rich = need!(Rich::new("schema_check"));
    let schema = Schema::new(CHECK, "finding");
    let mine = rich.namespace.name().to_owned();
    // Thresholds so low that there are many findings.
    let low = [
        "no-keepalive.idle=1ms",
        "keepalive-late.after=1ms",
        "peer-silent.retransmissions=1",
        "zero-window.for=1ms",
        "close-wait.age=1ms",
        "unread.for=1ms",
        "queue-length.packets=1000000",
        "counters.count=1",
        "open-files.share=0.1%",
        "conntrack.share=0%",
        "tcp-memory.share=0%",
    ];
    let settings: Vec<&str> = low.iter().flat_map(|setting| ["--set", setting]).collect();
    for added in [
        &[][..],
        &["-n", "--netns", &mine],
        &["--netns", "all"],
        &["--watch", "0.05", "--count", "1", "--severity", "info"],
        &["--source", "procfs"],
        &["state", "established"],
    ] {
        let ask = |format| {
            let words = [&["check", "--format", format][..], &settings, added].concat();
            sockeye(&rich.namespace, &words)
        };
        let document = schema.check_document(&ask("json"));
        assert!(!document["findings"].as_array().unwrap().is_empty(), "{added:?}");
        let lines = ask("jsonl");
        assert!(!schema.check_lines(&lines).is_empty(), "{added:?}");
    }
    let rules: Value =
        serde_json::from_str::<Value>(CHECK).unwrap()["$defs"]["finding"]["properties"]["rule"]["enum"]
            .clone();
    let known: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(rules, json!(known));
}

#[test]
fn keepalive_follows_its_schema() {
    let rich = need!(Rich::new("schema_keepalive"));
    let (rows, owners) = (
        Schema::new(KEEPALIVE, "socket"),
        Schema::new(KEEPALIVE, "owner_summary"),
    );
    let mine = rich.namespace.name().to_owned();
    for added in [
        &["state", "all"][..],
        &["-n"],
        &["-N", &mine],
        &["-N", "all"],
        &["--source", "procfs"],
    ] {
        let ask = |words: &[&str]| sockeye(&rich.namespace, &[&["keepalive", "list"], words, added].concat());
        let document = rows.check_document(&ask(&["--format", "json"]));
        let listed = document["sockets"].as_array().unwrap();
        assert!(
            listed.iter().any(|row| row["time_s"] == 600),
            "{added:?}: {document}"
        );
        assert!(
            !rows.check_lines(&ask(&["--format", "jsonl"])).is_empty(),
            "{added:?}"
        );
        let document = owners.check_document(&ask(&["--format", "json", "--summary"]));
        assert!(!document["owners"].as_array().unwrap().is_empty(), "{added:?}");
        assert!(
            !owners
                .check_lines(&ask(&["--format", "jsonl", "--summary"]))
                .is_empty()
        );
    }
}

#[test]
fn actions_follow_their_schema() {
    let rich = need!(Rich::new("schema_deeds"));
    let schema = Schema::new(ACTIONS, "socket");
    for (command, outcomes) in [
        (&["keepalive", "set", "--dry-run"][..], &["untried"][..]),
        (&["keepalive", "set", "-y"], &["set"]),
        (&["keepalive", "unset", "-y"], &["unset"]),
        (&["kill", "--dry-run"], &["untried", "left_out"]),
        (&["kill", "-y"], &["closed", "left_out"]),
    ] {
        for format in ["json", "jsonl"] {
            let words = [command, &["--format", format, "state", "established"]].concat();
            let text = sockeye(&rich.namespace, &words);
            let rows = match format {
                "json" => schema.check_document(&text)["sockets"]
                    .as_array()
                    .unwrap()
                    .clone(),
                _ => schema.check_lines(&text),
            };
            let found: BTreeSet<&str> = rows.iter().filter_map(|row| row["outcome"].as_str()).collect();
            for outcome in outcomes {
                // The second run finds no socket to close.
                let is_over = *outcome == "closed" && format == "jsonl";
                assert!(
                    is_over || found.contains(outcome),
                    "no {outcome}: {words:?}: {text}"
                );
            }
        }
    }
}
