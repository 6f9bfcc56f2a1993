use super::ExecFormat;
use super::outcome::Outcome;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::NetnsName;
use sockeye_output::harmless;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where all that run at once write to, one after the other.
#[derive(Debug)]
pub(super) struct Report {
    format: ExecFormat,
    is_over: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    stdout: stdout::Stdout,
    rows: usize,
    failed: Option<io::Error>,
}

/// Which output of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Report {
    pub(super) fn begin(format: ExecFormat) -> io::Result<Self> {
        let report = Self {
            format,
            is_over: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                stdout: stdout::open()?,
                rows: 0,
                failed: None,
            }),
        };
        if format == ExecFormat::Json {
            report.write(&mut report.lock(), b"[");
        }
        Ok(report)
    }

    pub(super) fn is_text(&self) -> bool {
        self.format == ExecFormat::Text
    }

    /// Whether nothing that would be written reaches anybody any more: the reader went away, or the disk is full.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whole lines of a program.
    pub(super) fn lines(&self, stream: Stream, lines: &[u8]) {
        let mut inner = self.lock();
        match stream {
            Stream::Stdout => self.write(&mut inner, lines),
            // That nobody reads it is no reason to fail.
            Stream::Stderr => drop(io::stderr().write_all(lines)),
        }
    }

    /// Something that went wrong on the way; to be kept for JSON if it is given back.
    #[must_use]
    pub(super) fn warning(&self, name: &NetnsName, warning: String) -> Option<String> {
        if !self.is_text() {
            return Some(warning);
        }
        let _turn = self.lock();
        say(name, &warning);
        None
    }

    /// One has come to its end.
    pub(super) fn done(&self, outcome: &Outcome<'_>) {
        let mut inner = self.lock();
        if self.is_text() {
            // That it was ended by the loss of its reader, which was ours, is no news.
            if let (false, Some(complaint)) = (self.is_over(), outcome.complaint()) {
                say(outcome.name, &complaint);
            }
            return;
        }
        let mut row = Vec::new();
        if self.format == ExecFormat::Json {
            row.extend_from_slice(if inner.rows == 0 { b"\n" } else { b",\n" });
        }
        outcome.push_json(&mut row);
        if self.format == ExecFormat::Jsonl {
            row.push(b'\n');
        }
        inner.rows += 1;
        self.write(&mut inner, &row);
    }

    /// Ends the document.
    pub(super) fn end(self) -> io::Result<()> {
        if self.format == ExecFormat::Json {
            let mut inner = self.lock();
            let end: &[u8] = if inner.rows == 0 { b"]\n" } else { b"\n]\n" };
            self.write(&mut inner, end);
        }
        let inner = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        inner.failed.map_or(Ok(()), Err)
    }

    fn write(&self, inner: &mut Inner, bytes: &[u8]) {
        if inner.failed.is_some() {
            return;
        }
        if let Err(error) = inner.stdout.write_all(bytes) {
            inner.failed = Some(error);
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn say(name: &NetnsName, text: &str) {
    let name = harmless(name.as_os_str().as_bytes());
    notes::say(&format!("sockeye: {name}: {text}\n"));
}

/// Makes whole lines, each behind a name, of the pieces in which a program writes.
#[derive(Debug)]
pub(super) struct Lines {
    /// With `: ` at its end.
    prefix: Vec<u8>,
    /// A line whose end has not come yet.
    begun: Vec<u8>,
}

impl Lines {
    pub(super) fn behind(name: &str) -> Self {
        Self {
            prefix: format!("{name}: ").into_bytes(),
            begun: Vec::new(),
        }
    }

    /// The lines that end in this piece; longer ones than [`LINE_MAX`] are cut.
    pub(super) fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            let mut rest = part;
            while self.begun.len() + rest.strip_suffix(b"\n").unwrap_or(rest).len() > LINE_MAX {
                let (head, tail) = rest.split_at(LINE_MAX - self.begun.len());
                self.begun.extend_from_slice(head);
                self.end_line(&mut out);
                rest = tail;
            }
            self.begun
                .extend_from_slice(rest.strip_suffix(b"\n").unwrap_or(rest));
            if rest.ends_with(b"\n") {
                self.end_line(&mut out);
            }
        }
        out
    }

    /// The last line, if it had no end.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.begun.is_empty() {
            self.end_line(&mut out);
        }
        out
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        out.append(&mut self.begun);
        out.push(b'\n');
    }
}

/// A longer line is printed as several.
const LINE_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], expected: &str) {
        let mut lines = Lines::behind("a");
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| lines.take(piece)).collect();
        out.extend(lines.end());
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn pieces_become_whole_lines() {
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
