//! Analysis of logs: entries, counts and values of their lines.

use crate::log_line::{self, message_of};
use crate::messages::{LINE_LEN_MAX, MatchedLine, Messages};
use crate::{Entry, Placeholder, Severity};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Takes a log line by line and counts the dictionary's entries.
#[derive(Debug, Clone)]
pub struct Log<'d> {
    messages: Messages<'d>,
    met: HashMap<*const Entry<'static>, EntryOccurrences<'d>>,
    /// Entry that a following "repeated" line refers to
    latest: Option<*const Entry<'static>>,
    count: Count,
}

/// Line counts of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Lines read
    pub lines: u64,
    /// Of these, lines with an entry
    pub known: u64,
    /// Of these, empty lines and lines about repeats
    pub empty: u64,
}

/// An entry that occurs in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryOccurrences<'d> {
    /// The entry
    pub entry: &'d Entry<'static>,
    /// Number of lines, with those that the log omitted
    pub times: u64,
    /// Of these, lines that the log omitted
    pub left_out: u64,
    /// Time of the first, as the log writes it
    pub first: Option<String>,
    /// Time of the last
    pub last: Option<String>,
    /// Distinct values of its placeholders, in the order of occurrence
    pub values: Vec<Value>,
    /// Distinct values that did not fit
    pub values_left_out: u64,
    /// The last line, without the log's prefix
    pub line: String,
}

/// A value of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The placeholder
    pub place: Placeholder,
    /// The value as printed
    pub text: String,
    /// Number of lines with it
    pub times: u64,
}

impl<'d> Log<'d> {
    pub(crate) fn new(messages: Messages<'d>) -> Self {
        Self {
            messages,
            met: HashMap::new(),
            latest: None,
            count: Count::default(),
        }
    }

    /// Takes a line. Parts that are not UTF-8 match nothing.
    pub fn line(&mut self, line: &[u8]) {
        self.count.lines += 1;
        let line: Cow<'_, str> = String::from_utf8_lossy(&line[..line.len().min(LINE_LEN_MAX)]);
        let mut message = message_of(&line);
        let unescaped;
        if message.is_escaped {
            unescaped = log_line::unescaped(message.text);
            message.text = &unescaped;
        }
        if message.text.is_empty() {
            self.count.empty += 1;
            return;
        }
        if let Some(times) = log_line::repeats(message.text) {
            self.count.empty += 1;
            if let Some(met) = self.latest.and_then(|latest| self.met.get_mut(&latest)) {
                met.times = met.times.saturating_add(times);
                met.left_out = met.left_out.saturating_add(times);
            }
            return;
        }
        let (text, times) = log_line::repeated(message.text);
        let Some(known) = self
            .messages
            .match_line(text)
            .filter(|known| message.may_match(known.entry))
        else {
            if log_line::suppressed(text).is_none() {
                self.latest = None;
            } else {
                self.count.empty += 1;
            }
            return;
        };
        self.count.known += 1;
        let entry = std::ptr::from_ref(known.entry);
        self.latest = Some(entry);
        let met = self.met.entry(entry).or_insert_with(|| EntryOccurrences {
            entry: known.entry,
            times: 0,
            left_out: 0,
            first: None,
            last: None,
            values: Vec::new(),
            values_left_out: 0,
            line: String::new(),
        });
        met.count_match(&known, text, times, message.time);
    }

    /// Line counts so far.
    #[must_use]
    pub fn count(&self) -> Count {
        self.count
    }

    /// The entries that occurred: by severity, then by number.
    #[must_use]
    pub fn met(&self) -> Vec<&EntryOccurrences<'d>> {
        let mut met: Vec<_> = self.met.values().collect();
        met.sort_by_key(|met| {
            let severity = met.entry.severity.unwrap_or(Severity::Info);
            (Reverse(severity), Reverse(met.times), met.entry.name.as_ref())
        });
        met
    }
}

impl EntryOccurrences<'_> {
    fn count_match(&mut self, known: &MatchedLine<'_, '_>, text: &str, times: u64, time: Option<&str>) {
        self.times = self.times.saturating_add(times);
        self.left_out = self.left_out.saturating_add(times.saturating_sub(1));
        if let Some(time) = time {
            if self.first.is_none() {
                self.first = Some(time.to_owned());
            }
            let last = self.last.get_or_insert_default();
            last.clear();
            last.push_str(time);
        }
        self.line.clear();
        self.line.push_str(text);
        for (place, value) in &known.values {
            let is_it = |known: &&mut Value| known.place == *place && known.text == *value;
            if let Some(known) = self.values.iter_mut().find(is_it) {
                known.times += 1;
            } else if self.values.len() < VALUES_MAX {
                self.values.push(Value {
                    place: *place,
                    text: (*value).to_owned(),
                    times: 1,
                });
            } else {
                self.values_left_out += 1;
            }
        }
    }
}

/// Distinct values kept per entry.
const VALUES_MAX: usize = 64;
