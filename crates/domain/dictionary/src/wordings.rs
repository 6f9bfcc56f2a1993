//! The different messages that one entry explains in a log: each is shown, as an entry of a family explains very different ones.

use crate::messages::MatchedLine;
use crate::{Placeholder, family};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// One of the different messages of an entry in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordingOccurrences {
    /// The first line, without the log's prefix
    pub line: String,
    /// Which of the entry's texts it has; `None`: none of them, the entry is that of the driver's family
    pub wording: Option<usize>,
    /// Number of lines, with those that the log omitted
    pub times: u64,
    /// Time of the first, as the log writes it
    pub first: Option<String>,
    /// Time of the last
    pub last: Option<String>,
}

/// What finds the wording of a line among those of its entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wordings {
    /// A key for each wording of the entry
    keys: Vec<u64>,
    /// That of the last line, if it is kept
    latest: Option<usize>,
}

impl Wordings {
    /// The place of a line's wording, which is added if it is new; `None`: there are too many. `free` are the bytes that may still be kept.
    pub(crate) fn nth(
        &mut self,
        key: u64,
        text: &str,
        wordings: &mut Vec<WordingOccurrences>,
        free: &mut usize,
    ) -> Option<usize> {
        self.latest = self.keys.iter().position(|&known| known == key);
        if self.latest.is_none() && self.keys.len() < WORDINGS_MAX && text.len() <= *free {
            *free -= text.len();
            self.latest = Some(self.keys.len());
            self.keys.push(key);
            wordings.push(WordingOccurrences {
                line: text.to_owned(),
                wording: None,
                times: 0,
                first: None,
                last: None,
            });
        }
        self.latest
    }

    /// Counts lines that the log has only as "repeated": they are like the last one.
    pub(crate) fn count_repeats(&self, times: u64, wordings: &mut [WordingOccurrences], left_out: &mut u64) {
        let counted = match self.latest {
            Some(latest) => &mut wordings[latest].times,
            None => left_out,
        };
        *counted = counted.saturating_add(times);
    }
}

impl WordingOccurrences {
    pub(crate) fn count(&mut self, known: &MatchedLine<'_>, times: u64, time: Option<&str>) {
        if self.times == 0 {
            self.wording = Some(known.wording).filter(|&wording| wording != family::NO_WORDING);
        }
        self.times = self.times.saturating_add(times);
        note_time(&mut self.first, &mut self.last, time);
    }
}

/// Notes the time of a line, if it has one, as that of the last, and of the first if there was none.
pub(crate) fn note_time(first: &mut Option<String>, last: &mut Option<String>, time: Option<&str>) {
    let Some(time) = time else { return };
    if first.is_none() {
        *first = Some(time.to_owned());
    }
    let last = last.get_or_insert_default();
    last.clear();
    last.push_str(time);
}

/// A key of what a line says, numbers and names aside: that of its text if the text has all its words, else of the words themselves.
pub(crate) fn key(forms: &RandomState, known: &MatchedLine<'_>, text: &str) -> u64 {
    let is_free = known.values.iter().any(|(place, _)| *place == Placeholder::Text);
    if known.wording != family::NO_WORDING && !is_free {
        return known.wording as u64;
    }
    let mut form = forms.build_hasher();
    known.wording.hash(&mut form);
    for word in text.split_ascii_whitespace() {
        let is_value = |(place, value): &(Placeholder, &str)| {
            *place != Placeholder::Text && word.len() <= value.len() + VALUE_MARKS_MAX && word.contains(value)
        };
        if word.bytes().any(|byte| byte.is_ascii_digit()) || known.values.iter().any(is_value) {
            form.write_u8(b'#');
        } else {
            form.write(word.as_bytes());
        }
        form.write_u8(b' ');
    }
    form.finish()
}

/// Different wordings kept per entry.
const WORDINGS_MAX: usize = 100;
/// Bytes of the lines of all of them.
pub(crate) const LEN_MAX: usize = 1 << 20;
/// Marks around a value in its word: `(eth0):`.
const VALUE_MARKS_MAX: usize = 4;
