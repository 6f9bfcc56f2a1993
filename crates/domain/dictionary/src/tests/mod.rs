//! Tests of the whole dictionary, against itself and against the running kernel.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod drivers;
mod entries;
mod events;
mod forms;
mod kernel;
mod kernel_source;
mod log_lines;
mod own_entries;
mod program_lines;
mod sizes;
mod source_readings;
mod speed;
mod trial_readings;

use sockeye_dictionary::{Dictionary, Severity};

/// Checks that each line alone is one message with this entry and severity.
#[track_caller]
fn check_lines(lines: &[(&str, &str, Severity)]) {
    let empty = Dictionary::new().log();
    for &(line, entry, severity) in lines {
        let mut log = empty.clone();
        log.line(line.as_bytes());
        log.finish();
        let found = log.met();
        let found: Vec<_> = found
            .iter()
            .map(|met| (met.entry.name.as_ref(), met.severity))
            .collect();
        assert_eq!(found, [(entry, severity)], "{line}");
    }
}
