//! Every machine-readable output: it follows the schema that its `type` names, and the programs that people load it into read it.

use super::folder;
use crate::fixtures::binary::{command, run, words_in};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::{Value, json};
use sockeye_lab::{Lab, Namespace, SocketOptions, need, program};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCHEMAS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interface/records.py");

/// Names of outputs and the words that write them; `@` is the folder of sample captures.
const OUTPUTS: &[(&str, &str)] = &[
    ("sockets-all", "sockets -a -e -o -m -i -p -n"),
    ("sockets-none", "sockets -tn dport = :1"),
    ("flows", "flows -n -i -p -s"),
    ("flows-watch", "flows -n -w 0.05 --count 3"),
    ("top-flows", "top -n --once -w 0.05"),
    ("top-devices", "top -n --view devices --once -w 0.05"),
    ("top-drops", "top -n --view drops --once -w 0.05"),
    ("top-findings", "top -n --view findings --once -w 0.05"),
    ("top-processes", "top -n --view processes --once -w 0.05"),
    ("top-sockets", "top -n --view sockets --once -w 0.05"),
    ("check", "check --set no-keepalive.idle=1ms --severity info"),
    ("check-watch", "check -w 0.05 --count 2 --severity info"),
    ("check-rules", "check --list"),
    ("keepalive", "keepalive list -n"),
    ("keepalive-summary", "keepalive list -n --summary"),
    ("keepalive-set", "keepalive set -n --dry-run state established"),
    ("kill", "kill -n --dry-run state established"),
    ("ns-list", "ns list"),
    ("analyze", "analyze @/slow.pcapng"),
    ("analyze-flags", "analyze --flags @/slow.pcapng"),
    ("analyze-two", "analyze @/sender.pcapng @/receiver.pcapng"),
    ("explain", "explain CLOSE_WAIT"),
    ("explain-nothing", "explain zzzzz"),
    ("explain-list", "explain --list states"),
    ("explain-log", "explain -f @/kern.log"),
    ("bench-sources", "bench sources -A tcp --repeats 2"),
    ("bench-memory", "bench memory --sizes 4K -d 0.01"),
    ("prof", "prof -- sleep 0.2"),
];

/// The same without CSV.
const DOCUMENTS: &[(&str, &str)] = &[
    ("doctor", "doctor"),
    ("ns-pids", "ns pids NETNS"),
    ("ns-exec", "ns exec NETNS echo here"),
    ("keepalive-attached", "keepalive attached"),
];

/// Removes a folder at the end.
struct Outputs(PathBuf);

impl Drop for Outputs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Outputs {
    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("write an output");
    }

    /// Writes the output of a command in each format.
    fn write_formats(&self, namespace: &Namespace, name: &str, line: &str, formats: &[&str]) {
        for format in formats {
            let line = line.replace('@', SAMPLES).replace("NETNS", namespace.name());
            // Options stand before the command that `ns exec` and `prof` run.
            let option = format!("--format {format}");
            let line = match (line.split_once(" -- "), line.split_once(" echo ")) {
                (Some((head, tail)), _) => format!("{head} {option} -- {tail}"),
                (_, Some((head, tail))) => {
                    let (head, netns) = head.rsplit_once(' ').expect("a namespace");
                    format!("{head} {option} {netns} echo {tail}")
                }
                _ => match line.split_once(" state ").or_else(|| line.split_once(" dport ")) {
                    Some((head, _)) => format!("{head} {option}{}", &line[head.len()..]),
                    None => format!("{line} {option}"),
                },
            };
            let outcome = words_in(namespace, &line);
            outcome.no_panic();
            assert!(!outcome.stdout.is_empty(), "{line}: {outcome}");
            self.write(&format!("{name}.{format}"), &outcome.stdout);
        }
    }

    /// Checks each document and each line against the schema that its `type` names.
    fn check_schemas(&self) {
        let mut types: BTreeMap<String, u32> = BTreeMap::new();
        let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
        let mut validators: BTreeMap<(String, bool), JSONSchema> = BTreeMap::new();
        for entry in fs::read_dir(&self.0).expect("the folder") {
            let path = entry.expect("a file").path();
            let extension = path
                .extension()
                .and_then(|text| text.to_str())
                .unwrap_or_default();
            let is_lines = extension == "jsonl";
            if !is_lines && extension != "json" {
                continue;
            }
            let text = fs::read_to_string(&path).expect("an output");
            let last = text.lines().last().expect("a line");
            // A repeated listing has several documents, each of several lines.
            let documents: Vec<Value> = serde_json::Deserializer::from_str(&text)
                .into_iter()
                .collect::<Result<_, _>>()
                .unwrap_or_else(|error| panic!("{path:?}: {error}"));
            let whole: Value = match serde_json::from_str(last) {
                Ok(last) if is_lines => last,
                _ => documents[0].clone(),
            };
            let kind = whole["type"].as_str().expect("a type");
            let name = kind.strip_suffix("_summary").unwrap_or(kind).replace('_', "-");
            let schema = schemas.entry(name.clone()).or_insert_with(|| {
                let file = Path::new(SCHEMAS).join(format!("{name}.schema.json"));
                schema_file::load(
                    &fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}")),
                )
            });
            let is_line = is_lines && name != "doctor";
            let validator = validators.entry((name, is_line)).or_insert_with(|| {
                let part = json!({"$ref": "#/$defs/line", "$defs": schema["$defs"]});
                let schema = if is_line { &part } else { &*schema };
                JSONSchema::options()
                    .with_draft(Draft::Draft202012)
                    .compile(schema)
                    .expect("a schema")
            });
            for document in &documents {
                let errors = validator.validate(document).err().into_iter().flatten();
                let errors: Vec<String> = errors
                    .map(|error| format!("{error} at {}", error.instance_path))
                    .collect();
                assert!(errors.is_empty(), "{path:?}: {errors:#?}\n{document}");
                *types
                    .entry(document["type"].as_str().expect("a type").to_owned())
                    .or_default() += 1;
            }
        }
        // Each kind of row was there, so that none goes unchecked.
        for kind in [
            "action",
            "check_rule",
            "connection",
            "finding",
            "flow",
            "keepalive_owner",
            "keepalive_socket",
            "namespace",
            "ns_exec_outcome",
            "path_direction",
            "segment",
            "socket",
        ] {
            assert!(types.contains_key(kind), "no {kind}: {types:?}");
        }
    }
}

#[test]
fn every_output_follows_the_schema_of_its_type_and_is_read_by_other_programs() {
    let lab = need!(Lab::new("records"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let outputs = Outputs(folder("records"));
    let options = SocketOptions::new();
    let listener = here.tcp_listener("127.0.0.1:0", &options);
    let quiet = here.loopback().unread(300);
    let read = here.loopback().unread(500);
    let sample = |name: &str| {
        for format in ["json", "jsonl", "csv"] {
            let outcome = words_in(
                &here,
                &format!("sockets -tan -i state established --format {format}"),
            );
            outputs.write(&format!("{name}.{format}"), outcome.ok().as_bytes());
        }
    };
    sample("before");
    let mut buffer = [0; 200];
    read.server
        .socket()
        .read_exact(&mut buffer)
        .expect("what is unread");
    sample("after");
    outputs.write(
        "read",
        format!("{{\"{}\":200}}", read.server.cookie.expect("a cookie")).as_bytes(),
    );
    for (name, line) in OUTPUTS {
        outputs.write_formats(&here, name, line, &["json", "jsonl", "csv"]);
    }
    for (name, line) in DOCUMENTS {
        outputs.write_formats(&here, name, line, &["json", "jsonl"]);
    }
    let graph = outputs.0.join("graph.json");
    let mut drawn = command();
    drawn
        .args(["graph", &format!("{SAMPLES}/slow.pcapng"), "-o"])
        .arg(&graph);
    run(&mut drawn).ok();
    drop((listener, quiet));
    outputs.check_schemas();

    need!(program("python3"));
    need!(program("jq"));
    let mut programs = vec!["jq", "sqlite3"];
    for module in ["pandas", "duckdb", "chdb"] {
        let found =
            format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)");
        let is_there = Command::new("python3").args(["-c", &found]).status();
        if is_there.is_ok_and(|status| status.success()) {
            programs.push(module);
        } else {
            sockeye_lab::Skip::new(format!("python3 has no module {module}: it reads nothing")).print();
        }
    }
    let mut python = Command::new("python3");
    python.arg("-B").arg(SCRIPT).arg(&outputs.0).args(&programs);
    let outcome = run(&mut python);
    assert_eq!(
        outcome.ok(),
        format!("read by {}\n", programs.join(" ")),
        "{outcome}"
    );
}
