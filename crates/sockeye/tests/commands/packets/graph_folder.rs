//! A capture with three connections, a folder that contains it, and the figures that its graphs must have.

use super::impaired_path::{ImpairedPath, MS, TransferPlan, delay};
use super::schema;
use crate::fixtures::binary::{self, Outcome};
use serde_json::Value;
use sockeye_lab::{Impairment, Skip, Toward};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A capture of three connections, made once per process. Connection 0 is small and without losses, 1 is large, with losses and a
/// stalled receiver, 2 is refused.
pub(crate) fn capture() -> Result<&'static [u8], Skip> {
    static CAPTURE: OnceLock<Result<Vec<u8>, Skip>> = OnceLock::new();
    CAPTURE.get_or_init(make).as_deref().map_err(Clone::clone)
}

fn make() -> Result<Vec<u8>, Skip> {
    let path = ImpairedPath::with("graph", 3, delay(10), delay(10))?;
    let capture = path.capture(Toward::Client)?;
    path.transfer(&TransferPlan::of(40_000));
    let lossy = Impairment {
        loss_permille: 15,
        late: 4 * MS,
        late_permille: 10,
        ..delay(10)
    };
    path.set(Toward::Server, lossy);
    path.transfer(&TransferPlan {
        receive_buffer: Some(65_536),
        stall: 1200 * MS,
        ..TransferPlan::of(2_000_000)
    });
    path.set(Toward::Server, delay(10));
    path.connect_to_closed_port();
    Ok(std::fs::read(capture.stop()).unwrap())
}

/// A temporary folder with the capture as `a.pcap`, removed at the end of the test.
pub(crate) struct GraphFolder(pub(crate) PathBuf);

impl GraphFolder {
    pub(crate) fn new() -> Result<Self, Skip> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let bytes = capture()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sockeye-graph-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.pcap"), bytes).unwrap();
        Ok(Self(folder))
    }

    /// `sockeye` with this folder as its working directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary::command();
        command.args(arguments).current_dir(&self.0);
        command
    }

    /// Runs `sockeye graph` in the folder.
    #[track_caller]
    pub(crate) fn graph(&self, arguments: &[&str]) -> Outcome {
        binary::run(self.command(&["graph"]).args(arguments))
    }

    /// Returns the bytes that `graph` writes to its standard output.
    #[track_caller]
    pub(crate) fn graph_bytes(&self, arguments: &[&str]) -> Vec<u8> {
        let outcome = self.graph(arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome}");
        outcome.stdout
    }

    /// Returns the text that `graph` writes to its standard output.
    #[track_caller]
    pub(crate) fn graph_text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.graph_bytes(arguments)).unwrap()
    }

    /// Returns the document of `graph --format json`, which follows its schema.
    #[track_caller]
    pub(crate) fn graph_json(&self, arguments: &[&str]) -> Value {
        let document = self.graph(&[arguments, &["--format", "json"]].concat()).json();
        schema::assert_valid(&schema::load(schema::GRAPH), &document);
        document
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names of all files except the capture, sorted.
    pub(crate) fn other_files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != "a.pcap")
            .collect();
        names.sort();
        names
    }
}

impl Drop for GraphFolder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Number of segments with each kind of mark in a graph, both directions together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MarkCounts {
    pub(crate) retransmissions: u64,
    pub(crate) out_of_order: u64,
    pub(crate) duplicate_acks: u64,
    pub(crate) zero_windows: u64,
}

impl MarkCounts {
    /// Counts for a connection according to `analyze --flags`.
    #[track_caller]
    pub(crate) fn of_analysis(folder: &GraphFolder, connection: &str) -> Self {
        let outcome = binary::run(&mut folder.command(&[
            "analyze",
            "a.pcap",
            "--connection",
            connection,
            "--flags",
            "--format",
            "jsonl",
        ]));
        let mut counts = Self::default();
        for line in outcome.ok().lines() {
            let segment: Value = serde_json::from_str(line).unwrap();
            counts.add_segment(&segment);
            counts.duplicate_acks += u64::from(has_flag(&segment, &["duplicate_ack"]));
            counts.zero_windows += u64::from(has_flag(&segment, &["zero_window"]));
        }
        counts
    }

    /// Counts in the document of `graph --format json`.
    pub(crate) fn of_graph(graph: &Value) -> Self {
        let mut counts = Self::default();
        for direction in graph["directions"].as_array().unwrap() {
            for segment in direction["segments"].as_array().unwrap() {
                counts.add_segment(segment);
            }
            let acks = direction["acks"].as_array().unwrap();
            counts.duplicate_acks += acks.iter().filter(|ack| ack["duplicate"] == true).count() as u64;
        }
        counts.zero_windows = marks_of_kind(graph, "zero_window");
        counts
    }

    /// Counts one segment. As in the graph, a retransmission is not also marked as out of order.
    fn add_segment(&mut self, segment: &Value) {
        if has_flag(segment, &RETRANSMISSIONS) {
            self.retransmissions += 1;
        } else if has_flag(segment, &["out_of_order"]) {
            self.out_of_order += 1;
        }
    }
}

/// Whether a segment has any of these flags.
fn has_flag(segment: &Value, names: &[&str]) -> bool {
    let mut flags = segment["flags"].as_array().into_iter().flatten();
    flags.any(|flag| names.iter().any(|name| flag == name))
}

/// Number of marks of this kind in the document of `graph --format json`.
pub(crate) fn marks_of_kind(graph: &Value, kind: &str) -> u64 {
    let directions = graph["directions"].as_array().unwrap();
    directions
        .iter()
        .flat_map(|direction| direction["marks"].as_array().unwrap())
        .filter(|mark| mark["kind"] == kind)
        .count() as u64
}

/// Number of segments that an SVG marks with this letter, in text of these classes. A mark such as `R×3` counts three times; the
/// sample in the legend does not count.
pub(crate) fn svg_marks(svg: &str, classes: &[&str], letter: &str) -> u64 {
    let mut sum = 0;
    for class in classes {
        let mut of_class = 0_u64;
        for element in svg.split("<text class=\"").skip(1) {
            let text = element.split_once('>').unwrap().1.split_once('<').unwrap().0;
            if !element.starts_with(&format!("{class}\"")) {
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

const RETRANSMISSIONS: [&str; 3] = ["retransmission", "fast_retransmission", "spurious_retransmission"];
