//! `sockeye check --watch`, sample by sample.

use super::{is_of, names, remedies};
use crate::fixtures::binary::command;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A check that goes on until it is dropped.
pub(crate) struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    pub(crate) fn start(namespace: &Namespace, words: &str) -> Self {
        let mut command = command();
        command
            .args(["check", "--format", "jsonl", "--netns", namespace.name()])
            .args(["--watch", "0.2", "--count", "1000"])
            .args(words.split_whitespace());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// What the next sample found.
    #[track_caller]
    pub(crate) fn next(&self) -> Vec<Value> {
        let mut found = Vec::new();
        loop {
            let line = self.lines.recv_timeout(DEADLINE).expect("another line in time");
            let value: Value = serde_json::from_str(&line).unwrap();
            if value.get("summary").is_some() {
                return found;
            }
            found.push(value);
        }
    }

    /// Nothing is found; then this is done; then nothing but these is found, in one sample or in several; then nothing
    /// again. Returns each finding as it was printed first.
    #[track_caller]
    pub(crate) fn moved(
        &self,
        lab: &Lab,
        namespace: &Namespace,
        act: impl FnOnce(),
        expected: &[&str],
    ) -> Vec<Value> {
        let before = self.next();
        assert!(before.is_empty(), "before anything was done: {before:#?}");
        act();
        let begun = Instant::now();
        let mut seen: Vec<Value> = Vec::new();
        loop {
            let sample = self.next();
            let is_quiet = sample.is_empty();
            for finding in sample {
                if !names(&seen).contains(&names(std::slice::from_ref(&finding))[0]) {
                    seen.push(finding);
                }
            }
            let is_over = is_quiet && !seen.is_empty();
            if is_over || begun.elapsed() > DEADLINE {
                let mut found = names(&seen);
                found.sort_unstable();
                assert_eq!(found, expected, "{}", Value::from(seen.clone()));
                assert!(is_over, "it does not end: {seen:#?}");
                break;
            }
        }
        for finding in &seen {
            is_of(finding, namespace);
            remedies::rehearse(lab, namespace, finding);
        }
        seen
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Others use the machine, too.
const DEADLINE: Duration = Duration::from_secs(40);
