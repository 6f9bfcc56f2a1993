//! Analysis of logs: entries, counts and values of their lines.

use crate::block::{self, Part};
use crate::event::Event;
use crate::log_line::{self, Message, collapsed, message_of, plain};
use crate::lookup::Index;
use crate::messages::{LINE_LEN_MAX, MatchedLine, Messages};
use crate::statistics::{CounterGroup, Statistics};
use crate::unknown::{UnknownLine, UnknownLines};
use crate::{Entry, Placeholder, Severity};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Takes a log line by line and counts the dictionary's entries.
#[derive(Debug, Clone)]
pub struct Log<'d> {
    messages: Arc<Messages<'d>>,
    met: HashMap<*const Entry<'static>, EntryOccurrences<'d>>,
    /// Entry that a following "repeated" line refers to
    latest: Option<*const Entry<'static>>,
    /// Time of a message on a later line (`dmesg --json`)
    pending_time: Option<String>,
    /// The last line, if nothing matched it: the next one may be its rest
    partial: Option<Partial>,
    unknown: UnknownLines,
    statistics: Statistics<'d>,
    event: Option<Event<'d>>,
    count: Count,
}

/// Line counts of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Lines read
    pub lines: u64,
    /// Of these, lines with an entry
    pub known: u64,
    /// Of these, lines without a message: empty ones, lines about repeats, marks of the log itself
    pub empty: u64,
    /// Of these, lines without an entry that look like trouble
    pub trouble: u64,
    /// Of these, lines that belong to the message before them: traces, registers
    pub parts: u64,
    /// Of these, lines with counters
    pub counters: u64,
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
    /// The function in the trace that says most, of the first trace that has one
    pub trace: Option<Trace>,
    /// Of these, lines that belong to the event of another entry
    pub in_events: u64,
    /// Entries of the same event that came after it, in the order of occurrence
    pub followed_by: Vec<Follower<'d>>,
}

/// Where the kernel was when it printed a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Function of the kernel
    pub function: String,
    /// Module that has it
    pub module: Option<String>,
    /// What it does, as far as its name shows
    pub subsystem: Option<&'static str>,
}

/// An entry whose messages follow another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower<'d> {
    /// The entry
    pub entry: &'d Entry<'static>,
    /// Number of lines
    pub times: u64,
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

/// A line that nothing matched.
#[derive(Debug, Clone)]
struct Partial {
    text: String,
    times: u64,
    time: Option<String>,
    is_of_kernel: bool,
    is_quoted: bool,
    /// Lines that it consists of
    lines: u64,
}

impl<'d> Log<'d> {
    pub(crate) fn new(index: Index<'d>, messages: Messages<'d>) -> Self {
        Self {
            messages: Arc::new(messages),
            met: HashMap::new(),
            latest: None,
            pending_time: None,
            partial: None,
            unknown: UnknownLines::default(),
            statistics: Statistics::new(index),
            event: None,
            count: Count::default(),
        }
    }

    /// Keeps all lines without an entry, not only those that look like trouble.
    pub fn keep_unknown(&mut self) {
        self.unknown.keep_all();
    }

    /// Takes a line. Parts that are not UTF-8 match nothing.
    pub fn line(&mut self, line: &[u8]) {
        self.count.lines += 1;
        let line: Cow<'_, str> = String::from_utf8_lossy(&line[..line.len().min(LINE_LEN_MAX)]);
        // Two blanks before a key: the journal's fields that are no message, and the keys of `/dev/kmsg`.
        if is_field(&line) {
            self.count.empty += 1;
            return;
        }
        if self.statistics.line(&line) {
            self.flush();
            self.count.counters += 1;
            return;
        }
        let line = plain(&line);
        let outer = message_of(&line);
        if outer.has_only_time {
            self.pending_time = outer.time.map(str::to_owned);
            self.count.empty += 1;
            return;
        }
        let inner = match outer {
            Message { is_escaped: true, .. } => log_line::unescaped(outer.text),
            Message { is_bytes: true, .. } => log_line::text_of_bytes(outer.text),
            Message { tag: Some(tag), .. } => format!("{tag}: {}", outer.text),
            _ => {
                let is_bare = outer.time.is_none() && outer.program.is_none();
                self.message(&outer, is_bare.then_some(&line));
                return;
            }
        };
        let inner = plain(&inner);
        let mut message = message_of(&inner);
        let pending_time = self.pending_time.take();
        message.time = outer.time.or(pending_time.as_deref()).or(message.time);
        message.program = outer.program.or(message.program);
        self.message(&message, None);
    }

    /// Takes a message; `bare` is its whole line if it has neither time nor program.
    fn message(&mut self, message: &Message<'_>, bare: Option<&str>) {
        if message.text.is_empty() || log_line::is_mark(message.text) {
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
        if let Some(known) = self.matched(&collapsed(text), message) {
            self.flush();
            self.count.known += 1;
            self.add(&known, text, times, message.time);
            return;
        }
        if log_line::suppressed(text).is_some() {
            self.count.empty += 1;
            return;
        }
        if bare.is_some_and(|line| self.join(line, text, message.is_quoted)) || self.take_part(text) {
            return;
        }
        self.flush();
        self.latest = None;
        self.partial = Some(Partial {
            text: text.to_owned(),
            times,
            time: message.time.map(str::to_owned),
            is_of_kernel: message.is_of_kernel(),
            is_quoted: message.is_quoted,
            lines: 1,
        });
    }

    fn matched<'l>(&self, text: &'l str, message: &Message<'_>) -> Option<MatchedLine<'d, 'l>> {
        self.messages
            .match_line(text)
            .filter(|known| message.may_match(known.entry))
    }

    /// Takes a line as the rest of the one before, which a terminal or a mail program wrapped.
    fn join(&mut self, line: &str, text: &str, is_quoted: bool) -> bool {
        let Some(partial) = self.partial.take() else {
            return false;
        };
        // `>` is a part of the message where the line before is not quoted.
        let rest = if is_quoted && !partial.is_quoted {
            line
        } else {
            text
        };
        if partial.lines < WRAPPED_LINES_MAX && partial.is_of_kernel {
            for between in [" ", ""] {
                let joined = format!("{}{between}{rest}", partial.text);
                let (text, times) = log_line::repeated(&joined);
                if let Some(known) = self.matched(&collapsed(text), &Message::default()) {
                    self.count.known += partial.lines + 1;
                    self.add(&known, text, times, partial.time.as_deref());
                    return true;
                }
            }
        }
        self.partial = Some(partial);
        false
    }

    fn add(&mut self, known: &MatchedLine<'d, '_>, text: &str, times: u64, time: Option<&str>) {
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
            trace: None,
            in_events: 0,
            followed_by: Vec::new(),
        });
        met.count_match(known, text, times, time);
        if let Some(frame) = block::frame_in_head(text) {
            met.take_frame(frame);
        }
        self.add_to_event(known, times, time);
    }

    fn add_to_event(&mut self, known: &MatchedLine<'d, '_>, times: u64, time: Option<&str>) {
        let is_part = self
            .event
            .as_mut()
            .is_some_and(|event| event.is_followed_by(known, time));
        if !is_part {
            if let Some(event) = Event::begun_by(known, time) {
                self.event = Some(event);
            }
            return;
        }
        if let Some(met) = self.met.get_mut(&std::ptr::from_ref(known.entry)) {
            met.in_events = met.in_events.saturating_add(times);
        }
        let head = self.event.as_ref().map(|event| std::ptr::from_ref(event.entry));
        if let Some(head) = head.and_then(|head| self.met.get_mut(&head)) {
            match head
                .followed_by
                .iter_mut()
                .find(|follower| std::ptr::eq(follower.entry, known.entry))
            {
                Some(follower) => follower.times = follower.times.saturating_add(times),
                None => head.followed_by.push(Follower {
                    entry: known.entry,
                    times,
                }),
            }
        }
    }

    /// Takes a line as a part of the message before it.
    fn take_part(&mut self, text: &str) -> bool {
        let Some(part) = block::part(text) else {
            return false;
        };
        self.flush();
        self.count.parts += 1;
        if let Part::Frame(frame) = part
            && let Some(met) = self.latest.and_then(|latest| self.met.get_mut(&latest))
        {
            met.take_frame(frame);
        }
        true
    }

    /// Gives up on the rest of the last line.
    fn flush(&mut self) {
        if let Some(partial) = self.partial.take() {
            let is_trouble = self.unknown.add(
                &partial.text,
                partial.times,
                partial.time.as_deref(),
                partial.is_of_kernel,
            );
            self.count.trouble += u64::from(is_trouble);
        }
    }

    /// Ends the log: no line follows.
    pub fn finish(&mut self) {
        self.flush();
    }

    /// Line counts so far; the last line is counted when the next one is read, or by [`finish`](Self::finish).
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

    /// Lines without an entry that look like trouble: network drivers first, then by number. All of them after
    /// [`keep_unknown`](Self::keep_unknown).
    #[must_use]
    pub fn unknown(&self) -> Vec<&UnknownLine> {
        self.unknown.sorted()
    }

    /// Counters that are not zero: the worst first, of these the largest. Neutral ones without an entry are left out.
    #[must_use]
    pub fn counters(&self) -> Vec<&CounterGroup<'d>> {
        self.statistics.sorted()
    }

    /// Counters that are zero.
    #[must_use]
    pub fn counters_zero(&self) -> u64 {
        self.statistics.zero()
    }

    /// Counters that are not zero and have no entry, whose names do not look like loss.
    #[must_use]
    pub fn counters_other(&self) -> u64 {
        self.statistics.other()
    }

    /// Lines whose text is not kept: more different ones came than [`unknown`](Self::unknown) can have.
    #[must_use]
    pub fn unknown_left_out(&self) -> u64 {
        self.unknown.left_out()
    }
}

/// Whether this is a field of a record that is not its message: ` SUBSYSTEM=net` of `/dev/kmsg`, `    _TRANSPORT=kernel` of the journal.
fn is_field(line: &str) -> bool {
    let Some(rest) = line.strip_prefix(' ') else {
        return false;
    };
    let key = rest.trim_start().split('=').next().unwrap_or("");
    key.len() < rest.trim_start().len()
        && key.len() > 2
        && key != "MESSAGE"
        && key
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && key.bytes().any(|byte| byte.is_ascii_uppercase())
}

impl EntryOccurrences<'_> {
    /// Takes a function of a trace; the first one with a known subsystem counts, else the first that says anything.
    fn take_frame(&mut self, frame: block::Frame<'_>) {
        let has_subsystem = |trace: &Trace| trace.subsystem.is_some() || trace.module.is_some();
        let is_better = self.trace.as_ref().is_none_or(|trace| !has_subsystem(trace));
        let trace = Trace {
            function: frame.function.to_owned(),
            module: frame.module.map(str::to_owned),
            subsystem: frame.subsystem(),
        };
        if is_better && frame.is_telling() && (self.trace.is_none() || has_subsystem(&trace)) {
            self.trace = Some(trace);
        }
    }

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
            // Names of one kind have one length: the last byte differs most often, and costs no call.
            let last = value.as_bytes().last();
            let is_it = |known: &&mut Value| {
                known.text.as_bytes().last() == last && known.place == *place && known.text == *value
            };
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
/// Lines that one message may be wrapped to.
const WRAPPED_LINES_MAX: u64 = 2;
