//! Matches lines of a log with the texts of the entries.

use crate::anchors::Anchors;
use crate::packed::Text;
use crate::pattern::Budget;
use crate::unknown::{is_bus_id, is_rdma_device};
use crate::{Entry, Placeholder, Severity, packed};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

/// The texts of all messages.
#[derive(Debug)]
pub(crate) struct Messages {
    /// Finds candidates for a line by a literal piece of each text.
    anchors: Anchors<'static>,
}

/// A log line with a known entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchedLine<'l> {
    /// Number of the entry
    pub(crate) number: usize,
    /// Place of its text in the entry
    pub(crate) wording: usize,
    /// How bad is what the line says
    pub(crate) severity: Severity,
    pub(crate) values: Vec<(Placeholder, &'l str)>,
}

/// The same with the places of the values, for a copy of the line.
#[derive(Debug, Clone)]
pub(crate) struct KeptMatch {
    number: usize,
    wording: usize,
    severity: Severity,
    values: Vec<(Placeholder, Range<usize>)>,
}

impl KeptMatch {
    /// With the values of a copy of the line.
    pub(crate) fn of<'l>(&self, line: &'l str) -> MatchedLine<'l> {
        let values = self.values.iter();
        MatchedLine {
            number: self.number,
            wording: self.wording,
            severity: self.severity,
            values: values
                .filter_map(|(place, range)| Some((*place, line.get(range.clone())?)))
                .collect(),
        }
    }
}

impl MatchedLine<'_> {
    /// For a copy of the line, of which the values are parts.
    pub(crate) fn kept(&self, line: &str) -> KeptMatch {
        let values = self.values.iter().map(|(place, value)| {
            let begin = (value.as_ptr().addr()).saturating_sub(line.as_ptr().addr());
            (*place, begin..begin + value.len())
        });
        KeptMatch {
            number: self.number,
            wording: self.wording,
            severity: self.severity,
            values: values.collect(),
        }
    }

    pub(crate) fn entry(&self) -> &'static Entry<'static> {
        packed::entry(self.number)
    }
}

impl Text {
    /// Whether it has digits, and a line that differs from this one in its numbers only may have it.
    fn may_begin_at(&self, line: &str) -> bool {
        let mut ends = self.text.bytes();
        let before = ends.position(|byte| byte == b'{' || byte.is_ascii_digit());
        before.is_some_and(|end| {
            line.starts_with(&self.text[..end]) && self.text[end..].bytes().any(|byte| byte.is_ascii_digit())
        })
    }
}

impl Messages {
    /// Those in the binary, which are indexed once.
    pub(crate) fn built_in() -> &'static Self {
        static MESSAGES: OnceLock<Messages> = OnceLock::new();
        MESSAGES.get_or_init(|| Self {
            anchors: packed::anchors(),
        })
    }

    fn text(&self, index: usize) -> &'static Text {
        packed::text(self.anchors.about(index).place)
    }

    /// The entry of a line and the values of its placeholders. `line` is what the kernel printed, without the
    /// log's prefix. The rest of a line longer than [`LINE_LEN_MAX`] is ignored.
    pub(crate) fn match_line<'l>(&self, line: &'l str) -> Option<MatchedLine<'l>> {
        let line = &line[..line.floor_char_boundary(LINE_LEN_MAX)];
        self.match_within(line, false, &mut Budget::for_line(line.len()))
    }

    /// The same for a line of a program: it has no message of the kernel.
    pub(crate) fn match_line_of_program<'l>(&self, line: &'l str) -> Option<MatchedLine<'l>> {
        let line = &line[..line.floor_char_boundary(LINE_LEN_MAX)];
        self.match_within(line, true, &mut Budget::for_line(line.len()))
    }

    /// The same as [`match_line`](Self::match_line), with what is known from lines that differ in their numbers only.
    pub(crate) fn match_line_like<'l>(
        &self,
        line: &'l str,
        outcomes: &mut Outcomes,
    ) -> Option<MatchedLine<'l>> {
        let line = &line[..line.floor_char_boundary(LINE_LEN_MAX)];
        let mut budget = Budget::for_line(line.len());
        let starts = Starts::of(line);
        let key = outcomes.write_form(line, starts.count);
        outcomes.latest = key;
        if let Some(outcome) = outcomes
            .by_key
            .get(&key)
            .filter(|outcome| *outcome.form == *outcomes.form)
        {
            let mut tries = outcome.tries.iter();
            let known = tries.find_map(|&(text, start)| {
                self.match_at(line, text.into(), starts.at[usize::from(start)], &mut budget)
            });
            if known.is_some() || !outcome.is_match {
                return known;
            }
        }
        let mut tries = Vec::new();
        let known = self.match_each(line, &starts, false, &mut budget, &mut tries);
        outcomes.add(key, tries, known.is_some());
        known
    }

    /// The same for a line whose end is cut off, which `less` and `journalctl` mark with `>` or an ellipsis.
    pub(crate) fn match_cut<'l>(&self, line: &'l str) -> Option<MatchedLine<'l>> {
        let beginning = CUT_MARKS.iter().find_map(|mark| line.strip_suffix(mark));
        self.match_beginning(beginning?)
    }

    /// The same for a line that terminals and web pages cut without a mark. It costs more than a match of a whole line.
    pub(crate) fn match_cut_without_mark<'l>(&self, line: &'l str) -> Option<MatchedLine<'l>> {
        (line.len() >= CUT_LINE_LEN_MIN)
            .then(|| self.match_beginning(line))
            .flatten()
    }

    /// The most specific text that begins as the line.
    fn match_beginning<'l>(&self, line: &'l str) -> Option<MatchedLine<'l>> {
        let line = &line[..line.floor_char_boundary(LINE_LEN_MAX)];
        let mut budget = Budget::for_line(line.len());
        let starts = Starts::of(line);
        self.anchors.candidates(line, false).iter().find_map(|candidate| {
            let text = self.text(candidate.text);
            let starts = starts.at[..starts.count].iter().copied();
            let mut starts = starts.filter(|&start| candidate.start.is_none_or(|only| only == start));
            let values =
                starts.find_map(|start| text.pattern().values_of_cut(&line[start..], &mut budget))?;
            Some(MatchedLine {
                number: text.entry(),
                wording: text.wording(),
                severity: self.anchors.about(candidate.text).severity,
                values,
            })
        })
    }

    fn match_within<'l>(
        &self,
        line: &'l str,
        is_of_program: bool,
        budget: &mut Budget,
    ) -> Option<MatchedLine<'l>> {
        self.match_each(line, &Starts::of(line), is_of_program, budget, &mut Vec::new())
    }

    /// Tries each text that the line may have. Adds to `tries` what must be tried again for a line that differs in its numbers only: the
    /// text that matches, and the more specific ones that have digits and do not.
    ///
    /// Drivers prefix their messages with name, bus and interface. The most specific text wins wherever it begins: that of a
    /// driver's family names the driver, that of one message begins after the prefix.
    fn match_each<'l>(
        &self,
        line: &'l str,
        starts: &Starts,
        is_of_program: bool,
        budget: &mut Budget,
        tries: &mut Vec<Try>,
    ) -> Option<MatchedLine<'l>> {
        let candidates = self.anchors.candidates(line, is_of_program);
        candidates.iter().find_map(|candidate| {
            let starts = (0_u8..).zip(&starts.at[..starts.count]);
            let mut starts = starts.filter(|(_, start)| candidate.start.is_none_or(|only| only == **start));
            starts.find_map(|(nth, &start)| {
                let known = self.match_at(line, candidate.text, start, budget);
                if known.is_some() || self.text(candidate.text).may_begin_at(&line[start..]) {
                    tries.push((u16::try_from(candidate.text).unwrap_or(u16::MAX), nth));
                }
                known
            })
        })
    }

    /// Tries a text at one place.
    fn match_at<'l>(
        &self,
        line: &'l str,
        text: usize,
        start: usize,
        budget: &mut Budget,
    ) -> Option<MatchedLine<'l>> {
        let severity = self.anchors.about(text).severity;
        let text = self.text(text);
        let mut values = text.pattern().values(&line[start..], budget)?;
        if !values.iter().any(|(place, _)| *place == Placeholder::Interface)
            && let Some(interface) = interface(&line[..start]).or_else(|| interface_of_head(&values))
        {
            values.insert(0, (Placeholder::Interface, interface));
        }
        Some(MatchedLine {
            number: text.entry(),
            wording: text.wording(),
            severity,
            values,
        })
    }
}

/// Which texts lines have that differ in their numbers only: most lines of a log are like ones before.
///
/// Placeholders take all digits alike, and a `0x` is kept, so that a text without digits matches all lines of one form or none.
/// Texts with digits are tried for each line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcomes {
    by_key: HashMap<u64, Outcome, BuildHasherDefault<Key>>,
    /// Form of the line: its number of starts, and its text with a mark for each run of digits
    form: Vec<u8>,
    /// Key of the form of the latest line
    latest: u64,
}

/// Index of a text to try, and of the start in the line. The table of texts has two bytes for an index.
type Try = (u16, u8);

#[derive(Debug, Clone)]
struct Outcome {
    form: Box<[u8]>,
    tries: Box<[Try]>,
    is_match: bool,
    /// Whether no word of its lines says trouble; `None`: was not asked
    has_no_words: Option<bool>,
}

impl Outcomes {
    /// Writes the form of a line, and returns its key.
    fn write_form(&mut self, line: &str, starts: usize) -> u64 {
        self.form.clear();
        self.form.resize(line.len() + 1, 0);
        let form = self.form.as_mut_slice();
        form[0] = u8::try_from(starts).unwrap_or(u8::MAX);
        let mut len = 1;
        let mut was_digit = false;
        // Whether the run of digits before is `0`.
        let mut is_zero = false;
        for &byte in line.as_bytes() {
            let is_digit = byte.is_ascii_digit();
            len -= usize::from(is_digit & was_digit);
            form[len] = if is_digit { DIGITS } else { byte };
            if is_zero & (byte == b'x') {
                form[len - 1] = b'0';
            }
            len += 1;
            is_zero = (byte == b'0') & !was_digit;
            was_digit = is_digit;
        }
        self.form.truncate(len);
        let (eights, rest) = self.form.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let words = eights.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
        words.fold(0, |key, word| {
            (key ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        })
    }

    /// Whether the latest line has no word of trouble, which `ask` finds out for the first line of its form.
    pub(crate) fn latest_has_no_words(&mut self, ask: impl FnOnce() -> bool) -> bool {
        match self.by_key.get_mut(&self.latest) {
            Some(outcome) => *outcome.has_no_words.get_or_insert_with(ask),
            None => ask(),
        }
    }

    fn add(&mut self, key: u64, tries: Vec<Try>, is_match: bool) {
        if self.by_key.len() >= OUTCOMES_MAX {
            self.by_key.clear();
        }
        let outcome = Outcome {
            form: self.form.as_slice().into(),
            tries: tries.into(),
            is_match,
            has_no_words: None,
        };
        self.by_key.insert(key, outcome);
    }
}

/// Passes a key on: it is a hash already.
#[derive(Debug, Clone, Default)]
struct Key(u64);

impl Hasher for Key {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// Offsets where a message may begin: the start of the line, and after each colon near it.
struct Starts {
    at: [usize; PREFIXES_MAX + MARKS_MAX + 1],
    count: usize,
}

impl Starts {
    fn of(line: &str) -> Self {
        let mut starts = Self {
            at: [0; PREFIXES_MAX + MARKS_MAX + 1],
            count: 1,
        };
        let mut marked = behind_program(line);
        while starts.count <= MARKS_MAX
            && let Some(rest) = behind_mark(marked)
        {
            starts.at[starts.count] = line.len() - rest.len();
            starts.count += 1;
            marked = rest;
        }
        let head = &line.as_bytes()[..line.len().min(PREFIX_LEN_MAX)];
        let behind = head.windows(2).enumerate().filter(|(_, pair)| *pair == b": ");
        for (at, _) in behind.take(PREFIXES_MAX) {
            starts.at[starts.count] = at + 2;
            starts.count += 1;
        }
        starts
    }
}

/// The line behind `sshd[812]: `, if it begins so: a log without times.
fn behind_program(line: &str) -> &str {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let name = line.bytes().take(PROGRAM_LEN_MAX).take_while(is_name).count();
    let Some(behind) = line[name..].strip_prefix('[').filter(|_| name > 0) else {
        return line;
    };
    let pid = behind.bytes().take_while(u8::is_ascii_digit).count();
    match behind[pid..].strip_prefix("]: ") {
        Some(text) if pid > 0 => text.trim_start(),
        _ => line,
    }
}

/// The rest of a line behind a mark that programs and some drivers put before each message: level (`<warn> `), time
/// (`[1763640000.1234] `) or part (`[modem0] `, `[cfg80211][wlan] `).
fn behind_mark(line: &str) -> Option<&str> {
    if matches!(line.as_bytes().first()?, b'0'..=b'9' | b'(') {
        return behind_mark_of_thread(line);
    }
    let end = match line.as_bytes().first()? {
        b'<' => '>',
        b'[' => ']',
        _ => return None,
    };
    let (mark, rest) = line[1..].split_once(end)?;
    let is_mark =
        (1..=MARK_LEN_MAX).contains(&mark.len()) && mark.bytes().all(|byte| byte.is_ascii_graphic());
    // `[3263]: <warn> `: logread on OpenWrt, without the name of the program
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let text = rest.trim_start_matches(' ');
    (is_mark && (text.len() < rest.len() || rest.starts_with('['))).then_some(text)
}

/// The rest of a line behind the thread and part of strongSwan (`12[IKE] `), or the day, time and process of HAProxy (`049/164958 `,
/// `(33386) : `).
fn behind_mark_of_thread(line: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = line.strip_prefix('(') {
        let (process, rest) = rest.split_once(") : ")?;
        return is_number(process).then_some(rest);
    }
    let (word, rest) = line.split_once(' ')?;
    let is_day_and_time = || {
        let (day, time) = word.split_once('/')?;
        (day.len() == 3 && time.len() == 6 && is_number(day) && is_number(time)).then_some(())
    };
    let is_thread_and_part = || {
        let (thread, part) = word.strip_suffix(']')?.split_once('[')?;
        let is_part = part.starts_with(|first: char| first.is_ascii_uppercase())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        (thread.len() == 2 && is_number(thread) && is_part).then_some(())
    };
    is_day_and_time().or_else(is_thread_and_part)?;
    Some(rest.trim_start())
}

/// The last word of `e1000e 0000:00:1f.6 eth0: `, if it may be an interface.
pub(crate) fn interface(prefix: &str) -> Option<&str> {
    let words = prefix.strip_suffix(": ")?;
    // `(unnamed net_device) (uninitialized)`, `eth0 (uninitialized)`: the name is not given yet, or stands before.
    let words = words.strip_suffix(" (uninitialized)").unwrap_or(words);
    let last = words.rsplit([' ', '(']).next()?;
    let is_bus =
        last.contains(':') || last.contains('.') && last.bytes().next()?.is_ascii_digit() || is_bus_id(last);
    let is_name = (1..16).contains(&last.len())
        && !last.ends_with(')')
        && last.bytes().all(|byte| byte.is_ascii_graphic());
    // The radio of a wireless driver, which may have several interfaces.
    let is_radio = last
        .strip_prefix("phy")
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    (is_name && !is_bus && !is_radio && !is_rdma_device(last) && words.contains(' ')).then_some(last)
}

/// The interface of `mlx5_core {text}: ` and its kin, where `{text}` is `0000:01:00.0 eth0`.
fn interface_of_head<'l>(values: &[(Placeholder, &'l str)]) -> Option<&'l str> {
    let (Placeholder::Text, head) = values.first()? else {
        return None;
    };
    let (device, interface) = head.split_once(' ')?;
    let interface = interface.strip_suffix(" (uninitialized)").unwrap_or(interface);
    let is_name = (1..16).contains(&interface.len())
        && interface
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b':' && byte != b'(');
    (is_name && !is_rdma_device(interface) && is_bus_id(device)).then_some(interface)
}

/// Marks of a line whose end is cut off. An ellipsis is three dots by then.
const CUT_MARKS: [&str; 2] = [">", "..."];
/// A shorter line is not cut off without a mark.
const CUT_LINE_LEN_MIN: usize = 60;
/// Limit for a line in bytes; the kernel prints no line that is half as long.
pub(crate) const LINE_LEN_MAX: usize = 4_096;
/// Longer ones are no prefixes.
const PREFIX_LEN_MAX: usize = 80;
/// `bonding: bond0: (slave eth1): ` has three.
const PREFIXES_MAX: usize = 4;
/// `[3263]: <wrn> [1763640000.1234] [modem0] ` has four.
const MARKS_MAX: usize = 4;
/// Longer ones are no programs.
const PROGRAM_LEN_MAX: usize = 48;
/// Longer ones are no marks.
const MARK_LEN_MAX: usize = 32;
/// Mark for a run of digits: no byte of a text.
const DIGITS: u8 = 0xff;
/// Forms of lines that are kept: about a megabyte.
const OUTCOMES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dictionary;

    #[test]
    fn texts_begin_behind_threads_and_processes() {
        let starts = |line: &str| {
            let starts = Starts::of(line);
            let texts: Vec<String> = starts.at[..starts.count]
                .iter()
                .map(|&at| line[at..].to_owned())
                .collect();
            texts
        };
        for line in [
            "12[IKE] text",
            "12[IKE1] <C1|3> text",
            "[WARNING] 049/164958 (33386) : text",
            "[WARNING] (33386) : text",
            "ModemManager[812]: <wrn> [modem0] text",
        ] {
            assert!(starts(line).contains(&"text".to_owned()), "{line}");
        }
        for line in ["12[ike] text", "1234 text", "49/164958 text"] {
            assert!(!starts(line).contains(&"text".to_owned()), "{line}");
        }
    }

    /// Each example after others that differ in their numbers, and with other numbers.
    #[test]
    fn lines_of_one_form_have_the_outcome_of_each_alone() {
        let messages = Messages::built_in();
        let mut outcomes = Outcomes::default();
        let mut matches = 0;
        for example in crate::files::examples().flat_map(|(_, examples)| examples) {
            let with_digits = |digits: &dyn Fn(char) -> String| -> String {
                example
                    .chars()
                    .map(|character| match character {
                        '0'..='9' => digits(character),
                        _ => character.to_string(),
                    })
                    .collect()
            };
            for line in [
                with_digits(&|_| "7".to_owned()),
                with_digits(&|digit| digit.to_string()),
                with_digits(&|digit| if digit == '0' { "5" } else { "0" }.to_owned()),
                with_digits(&|digit| format!("{digit}1")),
                example.replace("0x", "x"),
                format!("e1000e 0000:00:1f.6 eth0: {example}"),
                format!("e1000e 0000:00:1f.6 eth00000000000000000000000000000000000000000000000: {example}"),
            ] {
                let alone = messages.match_line(&line);
                matches += u32::from(alone.is_some());
                assert_eq!(messages.match_line_like(&line, &mut outcomes), alone, "{line}");
                assert_eq!(
                    messages.match_line_like(&line, &mut outcomes),
                    alone,
                    "again: {line}"
                );
            }
        }
        assert!(matches > 10_000, "{matches}");
    }

    #[test]
    fn interface_behind_a_driver_is_that_of_the_message() {
        let messages = Messages::built_in();
        let check = |line: &str, expected: Option<&str>| {
            let known = messages.match_line(line).unwrap();
            let mut values = known.values.iter();
            let found = values.find(|(place, _)| *place == Placeholder::Interface);
            assert_eq!(found.map(|(_, interface)| *interface), expected, "{line}");
        };
        check(
            "mlx5_core 0000:01:00.0 ens2f0: LRO is incompatible with XDP",
            Some("ens2f0"),
        );
        check("mlx5_core 0000:01:00.0: Missing something", None);
        check("mlx5_core 0000:01:00.0 eth3: Failed to create it", Some("eth3"));
        check("e1000e 0000:00:1f.6 eno1: NIC Link is Down", Some("eno1"));
    }

    /// Returns the share of its budget that a line needs.
    fn share_spent(messages: &Messages, line: &str) -> f64 {
        let whole = Budget::for_line(line.len()).left();
        let mut budget = Budget::for_line(line.len());
        messages.match_within(line, false, &mut budget);
        1.0 - budget.left() as f64 / whole as f64
    }

    #[test]
    fn budget_is_four_times_what_real_lines_need() {
        let messages = Messages::built_in();
        let examples = crate::files::examples().flat_map(|(_, examples)| examples);
        let mut most = 0.0_f64;
        for example in examples {
            for prefix in ["", "e1000e 0000:00:1f.6 eth0: ", "a: b: c: d: "] {
                most = most.max(share_spent(messages, &format!("{prefix}{example}")));
            }
        }
        assert!((0.001..0.25).contains(&most), "{most}");
    }

    /// Each text again with all its pieces but the last, as often as they fit: the most that its placeholders can try.
    #[test]
    fn work_for_hostile_line_is_bounded() {
        let dictionary = Dictionary::new();
        let messages = Messages::built_in();
        let mut spends_all = 0;
        for text in dictionary.entries().flat_map(|entry| &entry.texts) {
            let pieces: Vec<&str> = text.split(['{', '}']).step_by(2).collect();
            let [first, inner @ .., _] = &pieces[..] else {
                continue;
            };
            let longest = pieces.iter().max_by_key(|piece| piece.len()).unwrap_or(first);
            let repeated: String = inner.iter().map(|piece| format!("0{piece}")).collect();
            let count = LINE_LEN_MAX / (repeated.len() + 2);
            let line = format!(
                "{first}{}\u{1}{longest}\u{1}",
                format!("{repeated}0 ").repeat(count)
            );
            spends_all += u32::from(share_spent(messages, &line) > 0.99);
        }
        // Without the limit the lines of these texts would take far longer.
        assert!(spends_all > 0);
    }
}
