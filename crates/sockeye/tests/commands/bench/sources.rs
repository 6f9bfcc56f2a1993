//! `sockeye bench sources`, and what all benchmarks have in common: how they report, and how they fail.

use crate::fixtures::binary::wait_for_sigint_handler;
use crate::fixtures::envelope;
use crate::fixtures::live::{SOCKEYE, attempt, sockeye};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, SocketOptions, need};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const SCHEMA: &str = include_str!("../../../../../docs/schema/bench.schema.json");

/// A document, which follows its schema.
#[track_caller]
fn document(text: &str) -> Value {
    let schema = schema_file::load(SCHEMA);
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .unwrap();
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(schema.is_valid(&value), "{text}");
    value
}

/// The rows of these sockets' sources.
fn rows<'a>(document: &'a Value, protocol: &str) -> Vec<&'a Value> {
    let all = document["sources"].as_array().unwrap();
    all.iter().filter(|row| row["protocol"] == protocol).collect()
}

fn codes(document: &Value) -> Vec<&str> {
    let all = document["sentences"].as_array().unwrap();
    all.iter()
        .filter_map(|sentence| sentence["code"].as_str())
        .collect()
}

/// A file that is gone when the test is over.
struct Picture(PathBuf);

impl Picture {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("sockeye-bench-{}-{name}", std::process::id())))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn empty(purpose: &str) -> Result<(Lab, Namespace), sockeye_lab::Skip> {
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("a");
    Ok((lab, namespace))
}

#[test]
fn every_source_lists_the_same_sockets() {
    let (_lab, namespace) = need!(empty("bench_sources"));
    let plain = SocketOptions::new();
    let listeners: Vec<_> = (0..5)
        .map(|_| namespace.tcp_listener("0.0.0.0:0", &plain))
        .collect();
    let listener6 = namespace.tcp_listener("[::]:0", &plain);
    let pair = namespace.loopback().established();
    let udp = namespace.udp_bound("127.0.0.1:0", &plain);
    let report = document(&sockeye(
        &namespace,
        &["bench", "sources", "--json", "--repeats", "3"],
    ));
    // A pair is two ends and the listener it came from.
    let tcp = rows(&report, "tcp");
    let working: Vec<_> = tcp.iter().filter(|row| row["works"] == true).collect();
    for name in ["floor", "one-pass", "diag-v2", "procfs"] {
        assert!(
            working.iter().any(|row| row["source"] == name),
            "no {name}: {report}"
        );
    }
    let counts: Vec<_> = working
        .iter()
        .map(|row| row["sockets"].as_u64().unwrap())
        .collect();
    assert!(
        counts.iter().all(|count| *count == counts[0] && *count >= 8),
        "{report}"
    );
    for row in &working {
        assert_eq!(row["repeats"], 3, "{row}");
        let [least, median, most] =
            ["ns_min", "ns", "ns_max"].map(|key| row[key].as_f64().unwrap_or_default());
        assert!(0.0 < least && least <= median && median <= most, "{row}");
        let each = median / row["sockets"].as_f64().unwrap();
        assert!(
            (row["ns_per_socket"].as_f64().unwrap() / each - 1.0).abs() < 1e-9,
            "{row}"
        );
    }
    assert_eq!(tcp[0]["source"], "floor");
    assert_eq!(tcp[0]["ratio_to_floor"], 1);
    for row in tcp.iter().filter(|row| row["works"] == false) {
        assert!(!row["reason"].as_str().unwrap().is_empty(), "{row}");
        assert!(row.get("ns").is_none() && row.get("sockets").is_none(), "{row}");
    }
    assert!(
        rows(&report, "udp")
            .iter()
            .all(|row| row["works"] == false || row["sockets"] == 1),
        "{report}"
    );
    assert!(codes(&report).contains(&"small-table"), "{report}");
    assert!(report["noise"]["processors"].as_u64().unwrap() > 0);
    drop((listeners, listener6, pair, udp));
}

#[test]
fn sockets_option_creates_its_own_load() {
    let (_lab, namespace) = need!(empty("bench_sources_load"));
    let picture = Picture::new("load.svg");
    let words = [
        "bench",
        "sources",
        "--sockets",
        "1200,300",
        "--repeats",
        "2",
        "--json",
        "-o",
        picture.name(),
    ];
    let report = document(&sockeye(&namespace, &words));
    let tcp = rows(&report, "tcp");
    assert_eq!(
        tcp.len(),
        report["sources"].as_array().unwrap().len(),
        "no other protocols: {report}"
    );
    for (source, row) in tcp.iter().map(|row| (row["source"].as_str().unwrap(), row)) {
        let sockets: Vec<_> = tcp
            .iter()
            .filter(|row| row["source"] == source && row["works"] == true)
            .map(|row| row["sockets"].as_u64().unwrap())
            .collect();
        assert!(
            row["works"] == false || sockets == [301, 1201],
            "{source}: {report}"
        );
    }
    assert!(
        codes(&report).contains(&"fastest") && !codes(&report).contains(&"small-table"),
        "{report}"
    );
    let svg = std::fs::read_to_string(&picture.0).unwrap();
    for text in [
        ">procfs</text>",
        ">floor</text>",
        ">sockets in the table</text>",
        "Time to list one TCP socket",
    ] {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    // It was elsewhere, and it is gone.
    let left = sockeye(&namespace, &["sockets", "-ta", "--format", "csv", "--no-header"]);
    assert_eq!(left, "");
}

#[test]
fn table_and_csv_have_the_same_rows() {
    let (_lab, namespace) = need!(empty("bench_sources_report"));
    let words = ["bench", "sources", "-A", "tcp,udp", "--repeats", "3"];
    let table = sockeye(&namespace, &words);
    assert!(
        table.starts_with("sources: this network namespace, 3 repeats\n"),
        "{table}"
    );
    assert!(
        table.contains("to floor") && table.contains("\nnoise: "),
        "{table}"
    );
    assert!(!table.contains("unix"), "{table}");
    let csv = sockeye(&namespace, &[&words[..], &["--format", "csv"]].concat());
    assert!(
        csv.starts_with("time,host,protocol,source,sockets,ns,spread_permille,"),
        "{csv}"
    );
    let bare = sockeye(
        &namespace,
        &[&words[..], &["--format", "csv", "--no-header"]].concat(),
    );
    assert!(
        envelope::without_time(&bare).starts_with("tcp,floor,0,"),
        "{bare}"
    );
    let lines = sockeye(&namespace, &[&words[..], &["--format", "jsonl"]].concat());
    let rows = envelope::rows(&lines);
    assert!(rows.iter().all(|row| row["table"] == "sources"), "{lines}");
    let last = lines.lines().last().unwrap();
    assert!(last.contains(",\"summary\":{\"bench\":\"sources\""), "{last}");
}

#[test]
fn wrong_options_are_reported_before_measuring() {
    let (_lab, namespace) = need!(empty("bench_sources_wrong"));
    for (words, code, text) in [
        (&["--sockets", "4000000"][..], 2, "ulimit -n"),
        (&["--sockets", "0"], 2, "--sockets"),
        (&["-A", "dccp"], 2, "dccp"),
        (&["-o", "-"], 2, "needs a file"),
        (&["-o", "/tmp/chart.pdf"], 2, "name must end in .svg or .png"),
        (
            &["-o", "/nosuch/chart.svg"],
            1,
            "there is no directory \"/nosuch\"",
        ),
        (&["--json", "--format", "csv"], 2, "cannot be used with"),
    ] {
        // More repeats than there is time for.
        let words = [&["bench", "sources", "--repeats", "100000"], words].concat();
        let output = attempt(&namespace, &words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        assert!(error.contains(text), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn interrupt_leaves_a_partial_report() {
    let (_lab, namespace) = need!(empty("bench_sources_interrupted"));
    let picture = Picture::new("interrupted.png");
    let words = [
        "bench",
        "sources",
        "-A",
        "tcp",
        "--repeats",
        "100000",
        "--json",
        "-o",
        picture.name(),
    ];
    let child = namespace
        .command(SOCKEYE, &words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    wait_for_sigint_handler(child.id());
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report = document(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(report["partial"]["code"], "interrupted", "{report}");
    assert_eq!(rows(&report, "tcp")[0]["source"], "floor");
    assert!(std::fs::read(&picture.0).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn closed_output_exits_0() {
    let (_lab, namespace) = need!(empty("bench_sources_pipe"));
    let mut child = namespace
        .command(SOCKEYE, &["bench", "sources", "-A", "tcp", "--repeats", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let errors: Vec<_> = BufReader::new(child.stderr.take().unwrap()).lines().collect();
    assert!(child.wait().unwrap().success(), "{errors:?}");
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn unprivileged_run_reports_missing_sources() {
    let (lab, namespace) = need!(empty("bench_sources_rights"));
    let binary = lab.copy_for_all_users(std::path::Path::new(SOCKEYE));
    let unprivileged = |words: &[&str]| {
        let mut command = Command::new(&binary);
        command
            .args(["bench", "sources"])
            .args(words)
            .uid(65534)
            .gid(65534);
        namespace.run(|| command.output().unwrap())
    };
    let output = unprivileged(&["--json", "-A", "tcp", "--repeats", "1"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let report = document(std::str::from_utf8(&output.stdout).unwrap());
    let bpf = rows(&report, "tcp")
        .into_iter()
        .find(|row| row["source"] == "bpf")
        .unwrap();
    assert_eq!(bpf["works"], false, "{report}");
    assert!(bpf["reason"].as_str().unwrap().contains("CAP_BPF"), "{bpf}");
    let procfs = rows(&report, "tcp")
        .into_iter()
        .find(|row| row["source"] == "procfs")
        .unwrap();
    assert_eq!(procfs["works"], true, "{report}");
    let output = unprivileged(&["--sockets", "100"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("run as root") && output.stdout.is_empty(),
        "{error}"
    );
}
