//! Logs: what their lines say, how often.

mod prefix;

use crate::dictionary::{Known, Messages};
use crate::{Entry, Placeholder, Severity};
pub(crate) use prefix::message_of;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Reads a log line by line, and says which entries its lines are.
#[derive(Debug)]
pub struct Log<'d> {
    messages: Messages<'d>,
    met: HashMap<*const Entry<'static>, Met<'d>>,
    /// Whose repeats are told by the lines that follow
    latest: Option<*const Entry<'static>>,
    count: Count,
}

/// Lines of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Read
    pub lines: u64,
    /// Of which the dictionary knows what they are
    pub known: u64,
    /// Empty, or only about how a log repeats itself
    pub empty: u64,
}

/// An entry that a log has lines of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Met<'d> {
    /// Which
    pub entry: &'d Entry<'static>,
    /// Lines, and those that the log says it left out
    pub times: u64,
    /// Of these, the ones left out
    pub left_out: u64,
    /// When the first was, as the log writes it
    pub first: Option<String>,
    /// When the latest was
    pub last: Option<String>,
    /// What stood at the places of its text, in the order in which it came
    pub values: Vec<Value>,
    /// Different values that there was no room for
    pub values_left_out: u64,
    /// The latest line of it, without what the log puts in front
    pub line: String,
}

/// What stood at a place of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// What it is
    pub place: Placeholder,
    /// As it was printed
    pub text: String,
    /// In how many lines
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

    /// Takes a line. What is not UTF-8 in it matches nothing; all else is read.
    pub fn line(&mut self, line: &[u8]) {
        self.count.lines += 1;
        let line: Cow<'_, str> = String::from_utf8_lossy(&line[..line.len().min(LINE_LEN_MAX)]);
        let mut message = message_of(&line);
        let unescaped;
        if message.is_escaped {
            unescaped = prefix::unescaped(message.text);
            message.text = &unescaped;
        }
        if message.text.is_empty() {
            self.count.empty += 1;
            return;
        }
        if let Some(times) = prefix::repeats(message.text) {
            self.count.empty += 1;
            if let Some(met) = self.latest.and_then(|latest| self.met.get_mut(&latest)) {
                met.times = met.times.saturating_add(times);
                met.left_out = met.left_out.saturating_add(times);
            }
            return;
        }
        let (text, times) = prefix::repeated(message.text);
        let Some(known) = self
            .messages
            .know(text)
            .filter(|known| message.may_be(known.entry))
        else {
            if prefix::suppressed(text).is_none() {
                self.latest = None;
            } else {
                self.count.empty += 1;
            }
            return;
        };
        self.count.known += 1;
        let entry = std::ptr::from_ref(known.entry);
        self.latest = Some(entry);
        let met = self.met.entry(entry).or_insert_with(|| Met {
            entry: known.entry,
            times: 0,
            left_out: 0,
            first: None,
            last: None,
            values: Vec::new(),
            values_left_out: 0,
            line: String::new(),
        });
        met.note(&known, text, times, message.time);
    }

    /// How many lines there were.
    #[must_use]
    pub fn count(&self) -> Count {
        self.count
    }

    /// What was met: the worst first, of these what came most often.
    #[must_use]
    pub fn met(&self) -> Vec<&Met<'d>> {
        let mut met: Vec<_> = self.met.values().collect();
        met.sort_by_key(|met| {
            let severity = met.entry.severity.unwrap_or(Severity::Info);
            (Reverse(severity), Reverse(met.times), met.entry.name.as_ref())
        });
        met
    }
}

impl Met<'_> {
    fn note(&mut self, known: &Known<'_, '_>, text: &str, times: u64, time: Option<&str>) {
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

/// The rest of a longer line is not looked at.
const LINE_LEN_MAX: usize = 4_096;
/// Different values kept of each entry.
const VALUES_MAX: usize = 64;
