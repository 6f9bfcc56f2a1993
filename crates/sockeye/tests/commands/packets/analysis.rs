//! The output of `sockeye analyze` for one connection, compared with what is known of it: the counters of the path, the times
//! that the sender's kernel measured, and tshark's flags.

use super::impaired_path::SenderTimes;
use super::schema;
use crate::fixtures::binary;
use serde_json::Value;
use sockeye_lab::{PathCounters, program};
use sockeye_trace::Flag;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::Command;

/// The analysis of the only connection of a capture.
pub(crate) struct Analysis {
    /// The connection as `analyze --format json` prints it.
    pub(crate) connection: Value,
    /// The capture.
    pub(crate) file: String,
    /// Counters of the path toward the server, if the caller sets them.
    pub(crate) counters: PathCounters,
    /// Times of the sender's kernel, if the caller sets them.
    pub(crate) sender_times: SenderTimes,
}

/// What an assertion prints: the whole document has thousands of lines.
impl fmt::Debug for Analysis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Analysis");
        fields.field("verdict", &self.verdict());
        for direction in ["forward", "backward"] {
            for key in ["limited_by", "judgements"] {
                let value = &self.connection[direction][key];
                fields.field(&format!("{direction} {key}"), &format_args!("{value}"));
            }
        }
        fields
            .field("file", &self.file)
            .field("counters", &self.counters)
            .field("sender_times", &self.sender_times)
            .finish()
    }
}

impl Analysis {
    /// Analyzes a capture file.
    #[track_caller]
    pub(crate) fn of(file: &str) -> Self {
        let document = analyze_json(&[file]);
        Self {
            connection: document["connections"][0].clone(),
            file: file.to_owned(),
            counters: PathCounters::default(),
            sender_times: SenderTimes::default(),
        }
    }

    /// The text of a key of the connection; empty if it is absent.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.connection[key].as_str().unwrap_or_default()
    }

    pub(crate) fn verdict(&self) -> &str {
        self.text("verdict")
    }

    /// The number at a JSON pointer.
    #[track_caller]
    pub(crate) fn number(&self, pointer: &str) -> u64 {
        self.connection
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("no {pointer} in {self:?}"))
    }

    /// What limited the transfer from the client to the server.
    pub(crate) fn limit(&self) -> &str {
        self.connection["forward"]["limited_by"]["limit"]
            .as_str()
            .unwrap_or_default()
    }

    /// A counter of `judgements`, of the segments that the client sent.
    #[track_caller]
    pub(crate) fn judgement(&self, name: &str) -> u64 {
        self.number(&format!("/forward/judgements/{name}"))
    }

    pub(crate) fn has_event(&self, kind: &str) -> bool {
        let events = self.connection["events"].as_array().unwrap();
        events.iter().any(|event| event["kind"] == kind)
    }

    #[track_caller]
    pub(crate) fn assert_verdict_contains(&self, words: &str) {
        assert!(self.verdict().contains(words), "no {words:?} in {self:?}");
    }

    #[track_caller]
    pub(crate) fn assert_verdict_lacks(&self, words: &str) {
        assert!(!self.verdict().contains(words), "{words:?} in {self:?}");
    }

    #[track_caller]
    pub(crate) fn assert_limit(&self, limit: &str) {
        assert_eq!(self.limit(), limit, "{self:?}");
    }

    #[track_caller]
    pub(crate) fn assert_ending(&self, ending: &str) {
        assert_eq!(self.text("ending"), ending, "{self:?}");
    }

    /// Asserts that these counters of `judgements` are 0 in both directions.
    #[track_caller]
    pub(crate) fn assert_none(&self, judgements: &[&str]) {
        for name in judgements {
            for direction in ["forward", "backward"] {
                let count = self.number(&format!("/{direction}/judgements/{name}"));
                assert_eq!(count, 0, "{name} {direction}: {self:?}");
            }
        }
    }

    /// Asserts that a counter of `judgements` differs from the true count by at most this many percent, or by 2.
    #[track_caller]
    pub(crate) fn assert_judgement(&self, name: &str, expected: u64, percent: u64) {
        let found = self.judgement(name);
        let tolerance = (expected * percent / 100).max(2);
        assert!(
            found.abs_diff(expected) <= tolerance,
            "{name}: {found}, expected {expected}: {self:?}"
        );
    }

    /// Asserts that the shares of time differ from those of the sender's kernel by at most 5 percent of the total.
    #[track_caller]
    pub(crate) fn assert_shares_match_kernel(&self) {
        let shares = &self.connection["forward"]["shares_ns"];
        let ms = |name: &str| shares[name].as_f64().unwrap_or(0.0) / 1e6;
        let total: f64 = shares
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_f64)
            .sum::<f64>()
            / 1e6;
        let kernel = self.sender_times;
        let pairs = [
            ("receiver_window", ms("receiver_window"), kernel.rwnd_limited_ms),
            ("send_buffer", ms("send_buffer"), kernel.sndbuf_limited_ms),
            (
                "busy",
                self.number("/forward/busy_ns") as f64 / 1e6,
                kernel.busy_ms,
            ),
        ];
        let mut line = format!("{}:", self.file);
        for (name, ours, theirs) in pairs {
            line.push_str(&format!(
                " {name} {:.1}/{:.1}%",
                ours * 100.0 / total,
                theirs * 100.0 / total
            ));
        }
        eprintln!("{line} (ours/kernel's)");
        for (name, ours, theirs) in pairs {
            let difference = (ours - theirs).abs() * 100.0 / total;
            assert!(
                difference <= 5.0,
                "{name}: {ours:.0} ms, {theirs:.0} ms in the kernel, of {total:.0}: {self:?}"
            );
        }
    }

    /// Asserts that `analyze --flags` and tshark flag the same frames; at most one of a thousand may differ.
    #[track_caller]
    pub(crate) fn assert_flags_match_tshark(&self) {
        let Ok(tshark) = program("tshark") else {
            eprintln!("not compared with tshark, which is not installed");
            return;
        };
        let version = Command::new(&tshark).arg("--version").output().unwrap();
        let version = String::from_utf8_lossy(&version.stdout);
        let mut command = Command::new(&tshark);
        command.args([
            "-n",
            "-r",
            &self.file,
            "-Y",
            "tcp",
            "-T",
            "fields",
            "-e",
            "frame.number",
        ]);
        for flag in Flag::ALL {
            command.arg("-e").arg(format!("tcp.analysis.{}", flag.name()));
        }
        let output = command.output().unwrap();
        let mut theirs: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        let mut frames = 0_u64;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let mut fields = line.split('\t');
            let frame = fields.next().unwrap().parse().unwrap();
            frames += 1;
            let mut flags: BTreeSet<String> = Flag::ALL
                .into_iter()
                .zip(fields)
                .filter(|(_, value)| !value.is_empty())
                .map(|(flag, _)| flag.name().to_owned())
                .collect();
            // tshark flags these as retransmissions too.
            if flags.contains("fast_retransmission") || flags.contains("spurious_retransmission") {
                flags.remove("retransmission");
            }
            if !flags.is_empty() {
                theirs.insert(frame, flags);
            }
        }
        let outcome = binary::sockeye(&["analyze", &self.file, "--flags", "--format", "jsonl"]);
        let mut ours: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for line in outcome.ok().lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let Some(frame) = value["frame"].as_u64() else {
                continue;
            };
            let flags = value["flags"].as_array().unwrap();
            let flags = flags
                .iter()
                .map(|flag| flag.as_str().unwrap().to_owned())
                .collect();
            ours.insert(frame, flags);
        }
        let flagged: BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
        let differences: Vec<String> = flagged
            .into_iter()
            .filter(|frame| ours.get(frame) != theirs.get(frame))
            .map(|frame| {
                format!(
                    "{frame}: ours {:?}, tshark's {:?}",
                    ours.get(&frame),
                    theirs.get(&frame)
                )
            })
            .collect();
        eprintln!(
            "{}: {} frames, {} flagged, {} differ from {}",
            self.file,
            frames,
            theirs.len(),
            differences.len(),
            version.lines().next().unwrap_or_default()
        );
        assert!(
            differences.len() as u64 * 1000 <= frames,
            "{}",
            differences.join("\n")
        );
    }
}

/// Runs `analyze` with these arguments and `--format json`; the document follows its schema.
#[track_caller]
pub(crate) fn analyze_json(arguments: &[&str]) -> Value {
    let outcome = binary::sockeye(&[&["analyze", "--format", "json"], arguments].concat());
    let document = outcome.json();
    schema::assert_valid(&schema::load(schema::ANALYZE), &document);
    document
}
