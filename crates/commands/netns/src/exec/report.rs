//! The output of several programs at the same time.

use super::outcome::Outcome;
use crate::args::TextFormat;
use crate::output::json_rows::{JsonRows, RowNames};
use crate::output::names::clean_name;
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::NetnsName;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Standard output and standard error, shared by all programs.
#[derive(Debug)]
pub(super) struct Report {
    is_text: bool,
    is_closed: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    stdout: stdout::Stdout,
    rows: JsonRows,
    /// Programs that ended, and of these the ones that failed or were not started.
    ended: u64,
    failed: u64,
    error: Option<io::Error>,
}

/// An output stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Report {
    pub(super) fn begin(format: TextFormat) -> io::Result<Self> {
        let report = Self {
            is_text: format == TextFormat::Text,
            is_closed: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                stdout: stdout::open()?,
                rows: JsonRows::new(format, NAMES),
                ended: 0,
                failed: 0,
                error: None,
            }),
        };
        let mut inner = report.lock();
        if !report.is_text {
            let mut begin = Vec::new();
            inner.rows.begin(&mut begin, &envelope::now());
            report.write(&mut inner, &begin);
        }
        drop(inner);
        Ok(report)
    }

    pub(super) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Returns whether standard output failed: its reader has gone, or the disk is full.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Writes complete lines of a program.
    pub(super) fn lines(&self, stream: Stream, lines: &[u8]) {
        let mut inner = self.lock();
        match stream {
            Stream::Stdout => self.write(&mut inner, lines),
            // A closed stderr is no failure.
            Stream::Stderr => drop(io::stderr().write_all(lines)),
        }
    }

    /// Prints a warning, or returns it for the JSON object of the program.
    #[must_use]
    pub(super) fn warning(&self, name: &NetnsName, warning: String) -> Option<String> {
        if !self.is_text {
            return Some(warning);
        }
        let _lock = self.lock();
        say(name, &warning);
        None
    }

    /// Reports the outcome of a program.
    pub(super) fn done(&self, outcome: &Outcome<'_>) {
        let mut inner = self.lock();
        if self.is_text {
            // Without a reader of our output, the program was ended by that.
            if let (false, Some(failure)) = (self.is_closed(), outcome.failure()) {
                say(outcome.name, &failure);
            }
            return;
        }
        let mut row = Vec::new();
        inner.ended += 1;
        inner.failed += u64::from(outcome.failure().is_some());
        inner
            .rows
            .push(&mut row, &envelope::now(), |object| outcome.push_fields(object));
        self.write(&mut inner, &row);
    }

    /// Ends the document.
    pub(super) fn end(self) -> io::Result<()> {
        let mut inner = self.lock();
        if !self.is_text {
            let mut end = Vec::new();
            inner.rows.end(&mut end, &envelope::now(), |summary| {
                summary.number("programs", Some(inner.ended));
                summary.number("programs_failed", Some(inner.failed));
            });
            self.write(&mut inner, &end);
        }
        inner.error.take().map_or(Ok(()), Err)
    }

    fn write(&self, inner: &mut Inner, bytes: &[u8]) {
        if inner.error.is_some() {
            return;
        }
        if let Err(error) = inner.stdout.write_all(bytes) {
            inner.error = Some(error);
            self.is_closed.store(true, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn say(name: &NetnsName, text: &str) {
    notes::say(&format!("sockeye: {}: {text}\n", clean_name(name)));
}

/// Splits the output of a program into lines with a prefix.
#[derive(Debug)]
pub(super) struct Lines {
    /// Ends with `: `.
    prefix: Vec<u8>,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
}

impl Lines {
    pub(super) fn after(name: &str) -> Self {
        Self {
            prefix: format!("{name}: ").into_bytes(),
            partial: Vec::new(),
        }
    }

    /// Returns the lines that end in `bytes`; lines longer than [`LINE_MAX`] are split.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let mut rest = part;
            while self.partial.len() + rest.strip_suffix(b"\n").unwrap_or(rest).len() > LINE_MAX {
                let (head, tail) = rest.split_at(LINE_MAX - self.partial.len());
                self.partial.extend_from_slice(head);
                self.end_line(&mut out);
                rest = tail;
            }
            self.partial
                .extend_from_slice(rest.strip_suffix(b"\n").unwrap_or(rest));
            if rest.ends_with(b"\n") {
                self.end_line(&mut out);
            }
        }
        out
    }

    /// Returns the last line, if it is not complete.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.partial.is_empty() {
            self.end_line(&mut out);
        }
        out
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        out.append(&mut self.partial);
        out.push(b'\n');
    }
}

const NAMES: RowNames = RowNames {
    document: "ns_exec",
    key: "outcomes",
    row: "ns_exec_outcome",
};
/// Most bytes of a line; longer ones are printed as several.
const LINE_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], expected: &str) {
        let mut lines = Lines::after("a");
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
        out.extend(lines.end());
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn lines_are_joined_across_reads_and_split_at_the_limit() {
        check(&[], "");
        check(&[b"one\ntwo\n"], "a: one\na: two\n");
        check(&[b"on", b"e\ntw", b"o"], "a: one\na: two\n");
        check(&[b"\n", b"", b"\n\nx"], "a: \na: \na: \na: x\n");
        let long = vec![b'x'; LINE_MAX];
        let full = String::from_utf8(long.clone()).unwrap();
        check(&[&long, b"\n"], &format!("a: {full}\n"));
        check(&[&long, b"y\n"], &format!("a: {full}\na: y\n"));
        check(
            &[b"y", &long, &long, b"z"],
            &format!("a: y{}\na: {full}\na: xz\n", &full[1..]),
        );
    }
}
