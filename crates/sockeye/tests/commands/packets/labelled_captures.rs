//! `sockeye analyze` on captures of known causes, made by `captures/make.py`: each finds its cause and no other, and no sentence
//! is long. `graph` shows the same figures.

use super::analysis::analyze_json;
use super::schema;
use crate::fixtures::binary;
use serde_json::Value;
use sockeye_lab::{need, program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder with the captures and their labels, removed at the end of the test.
struct Captures(PathBuf);

impl Captures {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sockeye-labels-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let captures = Self(folder);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/make.py");
        let made = Command::new("python3")
            .arg("-B")
            .arg(script)
            .arg(&captures.0)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        captures
    }

    fn labels(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.0.join("labels.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn file(&self, name: &str) -> String {
        self.0.join(format!("{name}.pcap")).to_str().unwrap().to_owned()
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_capture_finds_its_cause_and_no_other() {
    need!(program("python3"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/judge.py");
    let judged = Command::new("python3")
        .arg("-B")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_sockeye"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&judged.stdout);
    assert!(
        judged.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&judged.stderr)
    );
}

#[test]
fn sentences_have_at_most_thirty_words() {
    need!(program("python3"));
    let captures = Captures::new();
    let mut counted = 0;
    for label in captures.labels() {
        let name = label["name"].as_str().unwrap();
        let document = analyze_json(&[&captures.file(name)]);
        for connection in document["connections"].as_array().unwrap() {
            let verdict = connection["verdict"].as_str().unwrap();
            for sentence in verdict.split(". ") {
                let words = sentence.split_whitespace().count();
                assert!((2..=30).contains(&words), "{name}: {words} words: {sentence}");
                counted += 1;
            }
            assert!(verdict.ends_with('.'), "{name}: {verdict}");
        }
    }
    assert!(counted > 150, "{counted}");
}

#[test]
fn graph_has_the_figures_of_the_analysis() {
    need!(program("python3"));
    let captures = Captures::new();
    let graph_schema = schema::load(schema::GRAPH);
    for name in [
        "random_loss_after_capture",
        "random_loss_before_capture",
        "bufferbloat",
        "slow_client_reads",
        "reordering",
        "lost_acknowledgements",
        "no_handshake",
    ] {
        let file = captures.file(name);
        let connection = &analyze_json(&[&file])["connections"][0];
        let outcome = binary::sockeye(&[
            "graph",
            &file,
            "--format",
            "json",
            "--direction",
            "both",
            "-o",
            "-",
        ]);
        let graph = outcome.json();
        schema::assert_valid(&graph_schema, &graph);
        let directions = graph["directions"].as_array().unwrap();
        for (number, direction) in ["forward", "backward"].into_iter().enumerate() {
            let most = |list: &str, key: &str| {
                let points = directions[number][list].as_array().unwrap();
                points
                    .iter()
                    .map(|point| point[key].as_u64().unwrap())
                    .max()
                    .unwrap_or(0)
            };
            let side = &connection[direction];
            let flight = side["in_flight_max_bytes"].as_u64().unwrap();
            assert_eq!(most("in_flight", "bytes"), flight, "{name} {direction}");
            let rtt_ns = side["rtt"]["max_ns"].as_u64().unwrap_or(0);
            assert_eq!(most("rtt", "rtt_ns"), rtt_ns, "{name} {direction}");
        }
        let outcome = binary::sockeye(&[
            "graph",
            &file,
            "--format",
            "svg",
            "--direction",
            "both",
            "-o",
            "-",
        ]);
        let segments = connection["forward"]["packets"].as_u64().unwrap();
        let digits = segments.to_string();
        let shown = match digits.len() {
            0..=3 => digits,
            len => format!("{},{}", &digits[..len - 3], &digits[len - 3..]),
        };
        assert!(
            outcome.ok().contains(&format!("{shown} segments")),
            "{name}: {shown}"
        );
    }
}

/// Who sends packets chooses the names in them.
#[test]
fn names_in_captures_are_escaped() {
    need!(program("python3"));
    let captures = Captures::new();
    let file = captures.file("slow_name_lookup");
    let mut bytes = std::fs::read(&file).unwrap();
    let mut replaced = 0;
    for at in 0..bytes.len() - 4 {
        if &bytes[at..at + 4] == b"shop" {
            bytes[at..at + 4].copy_from_slice(b"\x1b[2J");
            replaced += 1;
        }
    }
    assert!(replaced >= 2, "the query and its answer have the name");
    std::fs::write(&file, bytes).unwrap();
    for words in [
        &["analyze", &file][..],
        &["analyze", "-v", &file],
        &["analyze", "--format", "json", &file],
        &["analyze", "--format", "csv", &file],
    ] {
        let outcome = binary::sockeye(words);
        outcome.ok();
        binary::assert_harmless(outcome.ok().replace('\r', "").as_bytes());
        binary::assert_harmless(&outcome.stderr);
    }
    let outcome = binary::sockeye(&["analyze", &file]);
    assert!(outcome.ok().contains("name lookup of api."), "{outcome}");
}
