//! Captures of the kernel's TCP to draw graphs of, and what was drawn.

use super::road::{Plan, Road};
use serde_json::Value;
use sockeye_lab::{Impairment, Skip, Toward};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Three connections: 0 is small and clean, 1 big, loses much, and its receiver stalls; 2 is refused. Made once for all tests.
pub(crate) fn capture() -> Result<&'static [u8], Skip> {
    static MADE: OnceLock<Result<Vec<u8>, Skip>> = OnceLock::new();
    MADE.get_or_init(make).as_deref().map_err(Clone::clone)
}

fn make() -> Result<Vec<u8>, Skip> {
    let road = Road::new("graph", 3)?;
    let far = Impairment {
        delay: 10 * MS,
        ..Impairment::default()
    };
    let bad = Impairment {
        loss_permille: 15,
        late: 4 * MS,
        late_permille: 10,
        ..far
    };
    road.set_both(far);
    let capture = road.capture(Toward::Client)?;
    road.transfer(&Plan {
        bytes: 40_000,
        ..Plan::default()
    });
    road.set(Toward::Server, bad);
    road.transfer(&Plan {
        bytes: 2_000_000,
        receive_buffer: Some(65_536),
        stall: 1200 * MS,
        ..Plan::default()
    });
    road.set(Toward::Server, far);
    road.refused();
    Ok(std::fs::read(capture.stop()).unwrap())
}

/// A directory with the capture in it that goes away with its test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Self, Skip> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let bytes = capture()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sockeye-drawn-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.pcap"), bytes).unwrap();
        Ok(Self(folder))
    }

    /// Runs `graph` in it.
    pub(crate) fn graph(&self, words: &[&str]) -> Output {
        self.run(&[&["graph"], words].concat())
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sockeye"))
            .args(words)
            .current_dir(&self.0)
            .output()
            .unwrap()
    }

    /// What `graph` writes to its standard output.
    #[track_caller]
    pub(crate) fn drawn(&self, words: &[&str]) -> Vec<u8> {
        let out = self.graph(words);
        assert!(out.status.success(), "{words:?}: {}", said(&out));
        out.stdout
    }

    #[track_caller]
    pub(crate) fn text(&self, words: &[&str]) -> String {
        String::from_utf8(self.drawn(words)).unwrap()
    }

    /// As JSON, which follows its schema.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let value = serde_json::from_slice(&self.drawn(&[words, &["--format", "json"]].concat())).unwrap();
        follows_schema(&value);
        value
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Everything in it but the capture.
    pub(crate) fn others(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != "a.pcap")
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub(crate) fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[track_caller]
pub(crate) fn follows_schema(value: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let schema = jsonschema::JSONSchema::compile(&schema).unwrap();
    if let Err(errors) = schema.validate(value) {
        let errors: Vec<_> = errors
            .take(5)
            .map(|error| format!("{error} at {}", error.instance_path))
            .collect();
        panic!("{}", errors.join("\n"));
    }
}

/// How often each thing is to be drawn, by what `analyze --flags` and tshark say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) repeated: u64,
    pub(crate) out_of_order: u64,
    pub(crate) duplicate_acks: u64,
    pub(crate) zero_windows: u64,
}

impl Counts {
    /// Of one connection, both directions together.
    pub(crate) fn told(folder: &Folder, connection: &str) -> Self {
        let out = folder.run(&[
            "analyze", "a.pcap", "-c", connection, "--flags", "--format", "jsonl",
        ]);
        assert!(out.status.success(), "{}", said(&out));
        let mut counts = Self::default();
        for line in String::from_utf8(out.stdout).unwrap().lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let flags = value["flags"].as_array().cloned().unwrap_or_default();
            let has = |names: &[&str]| flags.iter().any(|flag| names.iter().any(|name| flag == name));
            // The worst that is said of a segment decides, as in the picture.
            if has(&AGAIN) {
                counts.repeated += 1;
            } else if has(&["out_of_order"]) {
                counts.out_of_order += 1;
            }
            counts.duplicate_acks += u64::from(has(&["duplicate_ack"]));
            counts.zero_windows += u64::from(has(&["zero_window"]));
        }
        counts
    }

    pub(crate) fn of_json(graph: &Value) -> Self {
        let mut counts = Self::default();
        let lists = |name: &str| -> Vec<Value> {
            let ways = graph["directions"].as_array().unwrap();
            ways.iter()
                .flat_map(|way| way[name].as_array().unwrap().clone())
                .collect()
        };
        for segment in lists("segments") {
            let flags = segment["flags"].as_array().cloned().unwrap_or_default();
            let has = |names: &[&str]| flags.iter().any(|flag| names.iter().any(|name| flag == name));
            if has(&AGAIN) {
                counts.repeated += 1;
            } else if has(&["out_of_order"]) {
                counts.out_of_order += 1;
            }
        }
        counts.duplicate_acks = lists("acks")
            .iter()
            .filter(|ack| ack["duplicate"] == true)
            .count() as u64;
        counts.zero_windows = lists("marks")
            .iter()
            .filter(|mark| mark["kind"] == "zero_window")
            .count() as u64;
        counts
    }
}

/// SACK blocks of a JSON graph.
pub(crate) fn sack_blocks(graph: &Value) -> u64 {
    let ways = graph["directions"].as_array().unwrap();
    ways.iter()
        .flat_map(|way| way["marks"].as_array().unwrap())
        .filter(|mark| mark["kind"] == "sack")
        .count() as u64
}

/// How many marks with this letter an SVG has, each with its count; the legend's sample is not one.
pub(crate) fn letters(svg: &str, classes: &[&str], letter: &str) -> u64 {
    let mut sum = 0;
    for class in classes {
        let mut of_class = 0_u64;
        for part in svg.split("<text class=\"").skip(1) {
            let text = part.split_once('>').unwrap().1.split_once('<').unwrap().0;
            if !part.starts_with(&format!("{class}\"")) {
                continue;
            }
            of_class += match text.split_once('×') {
                Some((sign, count)) if sign == letter => count.parse::<u64>().unwrap(),
                None if text == letter => 1,
                _ => 0,
            };
        }
        sum += of_class.saturating_sub(1);
    }
    sum
}

const AGAIN: [&str; 3] = ["retransmission", "fast_retransmission", "spurious_retransmission"];
const SCHEMA: &str = include_str!("../../../../../../docs/schema/graph.schema.json");
