//! Analysis of logs: entries, counts and values of their lines.

use crate::blanks::collapsed;
use crate::block::{self, Part};
use crate::error_text;
use crate::event::{Events, Role};
use crate::family;
use crate::line_reader::{self, Guess, LineReader, ReadLine};
use crate::log_line::{self, Message, message_of, plain};
use crate::messages::{KeptMatch, LINE_LEN_MAX, MatchedLine, Messages};
use crate::statistics::{CounterGroup, Statistics};
use crate::unknown::{UnknownLine, UnknownLines};
use crate::wordings::{self, WordingOccurrences, Wordings};
use crate::{Entry, Placeholder, Severity};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::hash::RandomState;

/// Takes a log line by line and counts the dictionary's entries.
#[derive(Debug, Clone)]
pub struct Log {
    reader: LineReader,
    /// In the order of occurrence
    met: Vec<Met>,
    /// Index in `met` of each entry, by number; grows with the numbers that occur
    met_by_number: Vec<Option<u16>>,
    /// Index of the entry that a following "repeated" line refers to
    latest: Option<usize>,
    /// Time of a message on a later line (`dmesg --json`)
    pending_time: Option<String>,
    /// The last line, if nothing matched it (`has_partial`): the next one may be its rest
    partial: Partial,
    has_partial: bool,
    /// Whether the last line is `------------[ cut here ]------------`
    is_cut: bool,
    unknown: UnknownLines,
    statistics: Statistics,
    events: Events,
    count: Count,
    /// Makes keys of the words of messages that no log can predict
    forms: RandomState,
    /// Bytes of lines that may still be kept in [`EntryOccurrences::wordings`]
    wordings_free: usize,
}

/// An entry that occurs, with what finds its values and its part in an event fast.
#[derive(Debug, Clone)]
struct Met {
    occurrences: EntryOccurrences,
    role: Role,
    /// A key for each of its values
    keys: Vec<u64>,
    wordings: Wordings,
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
pub struct EntryOccurrences {
    /// The entry
    pub entry: &'static Entry<'static>,
    /// The highest severity of what its lines say
    pub severity: Severity,
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
    /// Which of the entry's texts the last line has
    pub wording: usize,
    /// The different messages that the entry explains here, numbers aside, in the order of occurrence
    pub wordings: Vec<WordingOccurrences>,
    /// Lines whose wording is not kept: there were too many different ones
    pub wordings_left_out: u64,
    /// Lines that no text of the entry has, with those that the log omitted: only their driver was read, and that they are trouble
    pub times_unread: u64,
    /// The function in the trace that says most, of the first trace that has one
    pub trace: Option<Trace>,
    /// Of these, lines that belong to the event of another entry
    pub in_events: u64,
    /// Entries of the same event that came after it, in the order of occurrence
    pub followed_by: Vec<Follower>,
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
pub struct Follower {
    /// The entry
    pub entry: &'static Entry<'static>,
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
#[derive(Debug, Clone, Default)]
struct Partial {
    text: String,
    times: u64,
    /// Empty: the log has none
    time: String,
    is_of_kernel: bool,
    /// What its reader guessed
    guess: Guess<KeptMatch>,
    /// Lines that it consists of
    lines: u64,
    /// Whether the line before is `------------[ cut here ]------------`
    is_after_cut: bool,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            reader: LineReader::new(false),
            met: Vec::new(),
            met_by_number: Vec::new(),
            latest: None,
            pending_time: None,
            partial: Partial::default(),
            has_partial: false,
            is_cut: false,
            unknown: UnknownLines::default(),
            statistics: Statistics::new(),
            events: Events::default(),
            count: Count::default(),
            forms: RandomState::new(),
            wordings_free: wordings::LEN_MAX,
        }
    }

    /// Keeps all lines without an entry, not only those that look like trouble.
    pub fn keep_unknown(&mut self) {
        self.unknown.keep_all();
        self.reader.keep_unknown();
    }

    /// Takes a line. Parts that are not UTF-8 match nothing.
    pub fn line(&mut self, line: &[u8]) {
        let line = self.reader.read(line);
        self.take(line);
    }

    /// A reader for a thread that reads lines for [`take`](Self::take).
    #[must_use]
    pub fn reader(&self) -> LineReader {
        LineReader::new(self.unknown.keeps_all())
    }

    /// Takes a line that was read.
    pub fn take(&mut self, line: ReadLine<'_>) {
        self.count.lines += 1;
        let Some(read) = line.message else {
            self.take_unread(line.bytes);
            return;
        };
        // No tool writes its counters behind a time and the name of a program.
        let is_of_log = read.message.time.is_some() && read.message.program.is_some();
        if !(is_of_log && self.statistics.is_idle()) && self.statistics.line(read.line) {
            self.flush();
            self.count.counters += 1;
            return;
        }
        let is_bare = read.message.time.is_none() && read.message.program.is_none();
        let bare = is_bare.then_some(read.plain);
        if let Some(guess) =
            self.take_message(&read.message, read.text, read.times, read.known.as_ref(), bare)
        {
            *guess = read.guess.map(|known| known.kept(read.text));
        }
    }

    fn take_unread(&mut self, line: &[u8]) {
        let line = &line[..line.len().min(LINE_LEN_MAX)];
        let line = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        // Two blanks before a key: the journal's fields that are no message, and the keys of `/dev/kmsg`.
        if log_line::is_field(&line) {
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
            self.flush();
            self.count.empty += 1;
            if let Some(latest) = self.latest {
                self.met[latest].count_repeats(times);
            }
            return;
        }
        let (text, times) = log_line::repeated(message.text);
        let collapsed = collapsed(text);
        let known = self.reader.matched(message, &collapsed);
        self.take_message(message, text, times, known.as_ref(), bare);
    }

    /// Takes a message that is not about other lines. If nothing matched it, and it waits for the next line, returns where a guess of its
    /// reader can be kept.
    fn take_message(
        &mut self,
        message: &Message<'_>,
        text: &str,
        times: u64,
        known: Option<&MatchedLine<'_>>,
        bare: Option<&str>,
    ) -> Option<&mut Guess<KeptMatch>> {
        let is_after_cut = std::mem::take(&mut self.is_cut);
        // A frame of a trace is a part of what came before it.
        if let Some(known) = known
            && (self.latest.is_none() || !is_frame(known))
        {
            let said = self.take_said(text);
            self.flush();
            self.count.known += 1;
            self.add(known, text, times, message.time);
            if let (Some(said), Some(latest)) = (said, self.latest) {
                self.met[latest].add_value(Placeholder::Text, &said);
            }
            return None;
        }
        let is_of_kernel = message.is_of_kernel();
        if log_line::suppressed(text).is_some() {
            self.count.empty += 1;
            return None;
        }
        if bare.is_some_and(|line| self.join(line, text, message.is_quoted))
            || is_of_kernel && self.take_part(text, message.time)
        {
            return None;
        }
        self.flush();
        self.latest = None;
        // What programs print is their business, unless they name an error of the network.
        if !is_of_kernel && !self.unknown.keeps_all() && !error_text::has_error(text) {
            return None;
        }
        self.has_partial = true;
        let partial = &mut self.partial;
        partial.text.clear();
        partial.text.push_str(text);
        partial.times = times;
        partial.time.clear();
        partial.time.push_str(message.time.unwrap_or_default());
        partial.is_of_kernel = is_of_kernel;
        partial.lines = 1;
        partial.is_after_cut = is_after_cut;
        partial.guess = Guess::NotAsked;
        Some(&mut partial.guess)
    }

    /// Takes what a failed check of the kernel says, which stands between `cut here` and the head of the warning.
    fn take_said(&mut self, head: &str) -> Option<String> {
        if !self.has_partial || !self.partial.is_after_cut || !head.starts_with("WARNING: ") {
            return None;
        }
        self.has_partial = false;
        self.count.parts += self.partial.lines;
        Some(std::mem::take(&mut self.partial.text))
    }

    /// Takes a line as the rest of the one before, which a terminal or a mail program wrapped.
    fn join(&mut self, line: &str, text: &str, is_quoted: bool) -> bool {
        if !self.has_partial {
            return false;
        }
        let partial = std::mem::take(&mut self.partial);
        // `>` may be a part of the message, behind that of the quotation, too.
        let unquoted = line.strip_prefix('>').map_or(line, str::trim_start);
        let rests = [text, line, unquoted];
        let rests = if is_quoted { &rests[..] } else { &rests[..1] };
        if partial.lines < WRAPPED_LINES_MAX && partial.is_of_kernel {
            for (rest, between) in rests.iter().flat_map(|rest| [(rest, " "), (rest, "")]) {
                let joined = format!("{}{between}{rest}", partial.text);
                let (text, times) = log_line::repeated(&joined);
                if let Some(known) = Messages::built_in().match_line(&collapsed(text)) {
                    self.has_partial = false;
                    self.count.known += partial.lines + 1;
                    self.add(&known, text, times, some(&partial.time));
                    return true;
                }
            }
        }
        self.partial = partial;
        false
    }

    fn add(&mut self, known: &MatchedLine<'_>, text: &str, times: u64, time: Option<&str>) {
        let nth = match self.nth_met(known.number) {
            Some(nth) => nth,
            None => {
                let len = self.met_by_number.len().max(known.number + 1);
                self.met_by_number.resize(len, None);
                self.met_by_number[known.number] = u16::try_from(self.met.len()).ok();
                self.met.push(Met::new(known.entry()));
                self.met.len() - 1
            }
        };
        self.latest = Some(nth);
        let met = &mut self.met[nth];
        met.count_match(known, text, times, time);
        if known.wording == family::NO_WORDING {
            let unread = &mut met.occurrences.times_unread;
            *unread = unread.saturating_add(times);
        }
        let key = wordings::key(&self.forms, known, text);
        let wordings = &mut met.wordings;
        if let Some(nth) = wordings.nth(key, text, &mut met.occurrences.wordings, &mut self.wordings_free) {
            let wording = &mut met.occurrences.wordings[nth];
            wording.count(known, times, time);
        } else {
            let left_out = &mut met.occurrences.wordings_left_out;
            *left_out = left_out.saturating_add(times);
        }
        if let Some(frame) = block::frame_in_head(text) {
            met.occurrences.take_frame(frame);
        }
        self.add_to_event(nth, known, text, times, time);
    }

    /// Index in `met` of the entry with this number.
    fn nth_met(&self, number: usize) -> Option<usize> {
        self.met_by_number.get(number).copied().flatten().map(usize::from)
    }

    fn add_to_event(
        &mut self,
        nth: usize,
        known: &MatchedLine<'_>,
        text: &str,
        times: u64,
        time: Option<&str>,
    ) {
        let role = self.met[nth].role;
        let head = self.events.take(known, role, text, time);
        let Some(head) = head.and_then(|number| self.nth_met(number)) else {
            return;
        };
        let met = &mut self.met[nth].occurrences;
        met.in_events = met.in_events.saturating_add(times);
        let entry = met.entry;
        let followers = &mut self.met[head].occurrences.followed_by;
        let mut known = followers.iter_mut();
        match known.find(|follower| std::ptr::eq(follower.entry, entry)) {
            Some(follower) => follower.times = follower.times.saturating_add(times),
            None => followers.push(Follower { entry, times }),
        }
    }

    /// Takes a line as a part of the message before it.
    fn take_part(&mut self, text: &str, time: Option<&str>) -> bool {
        let Some(part) = block::part(text) else {
            return false;
        };
        self.flush();
        self.is_cut = text == CUT;
        let Part::Frame(frame) = part else {
            self.count.parts += 1;
            return true;
        };
        if let Some(latest) = self.latest {
            self.count.parts += 1;
            self.met[latest].occurrences.take_frame(frame);
            return true;
        }
        // A trace whose head is missing.
        let Some(trace) = family::trace(text) else {
            return false;
        };
        self.count.known += 1;
        self.add(&trace, text, 1, time);
        true
    }

    /// Gives up on the rest of the last line.
    fn flush(&mut self) {
        if !self.has_partial {
            return;
        }
        self.has_partial = false;
        let partial = std::mem::take(&mut self.partial);
        let Partial {
            text,
            times,
            time,
            is_of_kernel,
            guess,
            ..
        } = &partial;
        let known = match guess {
            Guess::Quiet if !self.unknown.keeps_all() => {
                self.partial = partial;
                return;
            }
            Guess::Quiet => None,
            Guess::Said(known) => known.as_ref().map(|known| known.of(text)),
            Guess::NotAsked if *is_of_kernel => line_reader::guess(Messages::built_in(), text),
            Guess::NotAsked => None,
        };
        if let Some(known) = known.or_else(|| error_text::matched(text)) {
            self.count.known += 1;
            self.add(&known, text, *times, some(time));
        } else {
            let is_trouble = self.unknown.add(text, *times, some(time), *is_of_kernel);
            self.count.trouble += u64::from(is_trouble);
        }
        // Its buffers are used again.
        self.partial = partial;
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
    pub fn met(&self) -> Vec<&EntryOccurrences> {
        let mut met: Vec<_> = self.met.iter().map(|met| &met.occurrences).collect();
        met.sort_by_key(|met| (Reverse(met.severity), Reverse(met.times), met.entry.name.as_ref()));
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
    pub fn counters(&self) -> Vec<&CounterGroup> {
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

impl EntryOccurrences {
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
}

impl Met {
    fn new(entry: &'static Entry<'static>) -> Self {
        Self {
            occurrences: EntryOccurrences {
                entry,
                severity: Severity::Info,
                times: 0,
                left_out: 0,
                first: None,
                last: None,
                values: Vec::new(),
                values_left_out: 0,
                line: String::new(),
                wording: 0,
                wordings: Vec::new(),
                wordings_left_out: 0,
                times_unread: 0,
                trace: None,
                in_events: 0,
                followed_by: Vec::new(),
            },
            role: Role::of(entry),
            keys: Vec::new(),
            wordings: Wordings::default(),
        }
    }

    /// Counts a line that the log has only as "repeated": it is like the last one.
    fn count_repeats(&mut self, times: u64) {
        let met = &mut self.occurrences;
        met.times = met.times.saturating_add(times);
        met.left_out = met.left_out.saturating_add(times);
        if met.wording == family::NO_WORDING {
            met.times_unread = met.times_unread.saturating_add(times);
        }
        self.wordings
            .count_repeats(times, &mut met.wordings, &mut met.wordings_left_out);
    }

    fn count_match(&mut self, known: &MatchedLine<'_>, text: &str, times: u64, time: Option<&str>) {
        let met = &mut self.occurrences;
        met.severity = met.severity.max(known.severity);
        met.times = met.times.saturating_add(times);
        met.left_out = met.left_out.saturating_add(times.saturating_sub(1));
        wordings::note_time(&mut met.first, &mut met.last, time);
        met.line.clear();
        met.line.push_str(text);
        met.wording = known.wording;
        for &(place, value) in &known.values {
            self.add_value(place, value);
        }
    }

    fn add_value(&mut self, place: Placeholder, value: &str) {
        let met = &mut self.occurrences;
        let key = key(place, value);
        let mut same = (0..self.keys.len()).filter(|&nth| self.keys[nth] == key);
        let is_it = |&nth: &usize| met.values[nth].place == place && met.values[nth].text == value;
        if let Some(nth) = same.find(is_it) {
            met.values[nth].times += 1;
        } else if met.values.len() < VALUES_MAX {
            self.keys.push(key);
            met.values.push(Value {
                place,
                text: value.to_owned(),
                times: 1,
            });
        } else {
            met.values_left_out += 1;
        }
    }
}

/// Whether the line is a frame of a trace, which has an entry only if the head of the trace is missing.
fn is_frame(known: &MatchedLine<'_>) -> bool {
    known.entry().name == "kernel-trace"
}

/// A key of a value: most lines have other values than those that are kept, and comparing numbers costs no call.
fn key(place: Placeholder, value: &str) -> u64 {
    let bytes = value.as_bytes();
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = eights.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.fold(bytes.len() as u64 * 8 + place as u64, |hash, word| {
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// `None` for an empty text.
fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Distinct values kept per entry.
const VALUES_MAX: usize = 64;
/// Lines that one message may be wrapped to.
const WRAPPED_LINES_MAX: u64 = 2;

/// The mark before a warning.
const CUT: &str = "------------[ cut here ]------------";
