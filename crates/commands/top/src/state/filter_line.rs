//! The line in which a filter is typed: editing, completion, and its error.

use super::key::Key;
use sockeye_filter::{ParseError, Resolve, parse, words};

/// A filter that is being typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FilterLine {
    pub(crate) text: String,
    /// Place of the cursor, in bytes.
    pub(crate) cursor: usize,
    /// Words that the last completion could not choose between.
    pub(crate) candidates: Vec<&'static str>,
    /// What is wrong; `None` if it is right, or empty.
    pub(crate) error: Option<ParseError>,
}

impl FilterLine {
    /// Begins with a filter. `names` are those that it may have.
    pub(crate) fn new(text: &str, names: &dyn Resolve) -> Self {
        Self {
            error: parse(text, names).err(),
            text: text.to_owned(),
            cursor: text.len(),
            candidates: Vec::new(),
        }
    }

    /// Changes the line by a key that is not Enter or Escape.
    pub(crate) fn press(&mut self, key: Key, names: &dyn Resolve) {
        self.candidates.clear();
        match key {
            Key::Char(character) if self.text.len() < LENGTH_MAX => {
                self.text.insert(self.cursor, character);
                self.cursor += character.len_utf8();
            }
            Key::Backspace => {
                if let Some(before) = self.before() {
                    self.text.remove(before);
                    self.cursor = before;
                }
            }
            Key::Delete if self.cursor < self.text.len() => {
                self.text.remove(self.cursor);
            }
            Key::Left => self.cursor = self.before().unwrap_or(0),
            Key::Right => {
                let next = self.text[self.cursor..].chars().next();
                self.cursor += next.map_or(0, char::len_utf8);
            }
            Key::Home | Key::Control('a') => self.cursor = 0,
            Key::End | Key::Control('e') => self.cursor = self.text.len(),
            Key::Control('u') => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            Key::Control('w') => {
                let kept = self.text[..self.cursor].trim_end();
                let start = kept.rfind(' ').map_or(0, |space| space + 1);
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            Key::Tab => self.complete(),
            _ => {}
        }
        self.error = parse(&self.text, names).err();
    }

    fn before(&self) -> Option<usize> {
        self.text[..self.cursor]
            .char_indices()
            .next_back()
            .map(|(at, _)| at)
    }

    /// Completes the word at the cursor as far as it is certain.
    fn complete(&mut self) {
        let before = &self.text[..self.cursor];
        let start = before.rfind([' ', '(', ')', '!']).map_or(0, |at| at + 1);
        let (typed, words_before) = (&before[start..], &before[..start]);
        let last = words_before.split_whitespace().next_back().unwrap_or_default();
        let known: Vec<&'static str> = match last {
            "state" | "exclude" => words::states().collect(),
            _ => words::conditions()
                .map(|word| word.name)
                .chain(words::operators().iter().copied())
                .collect(),
        };
        let fitting: Vec<&'static str> = known.into_iter().filter(|word| word.starts_with(typed)).collect();
        let Some(common) = common_start(&fitting) else {
            return;
        };
        let mut more = common[typed.len()..].to_owned();
        if fitting.len() == 1 {
            more.push(' ');
        }
        self.text.insert_str(self.cursor, &more);
        self.cursor += more.len();
        if fitting.len() > 1 {
            self.candidates = fitting;
        }
    }
}

/// Returns the longest text that all words begin with.
fn common_start<'a>(words: &[&'a str]) -> Option<&'a str> {
    let (first, rest) = words.split_first()?;
    let same = |word: &&str| {
        first
            .bytes()
            .zip(word.bytes())
            .take_while(|(a, b)| a == b)
            .count()
    };
    let length = rest.iter().map(same).min().unwrap_or(first.len());
    first.get(..length)
}

/// Longer filters are not typed.
const LENGTH_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fixtures::Services;

    fn typed(text: &str) -> FilterLine {
        let mut line = FilterLine::default();
        for character in text.chars() {
            let key = if character == '\t' {
                Key::Tab
            } else {
                Key::Char(character)
            };
            line.press(key, &Services);
        }
        line
    }

    #[test]
    fn error_is_at_its_place() {
        let error = |text| typed(text).error.map(|error| error.span);
        assert_eq!(error(""), None);
        assert_eq!(error("dport = :https and owner = nginx"), None);
        assert_eq!(error("dport = )"), Some(8..9));
        assert_eq!(error("dport = :htttp"), Some(8..14));
        assert_eq!(error("uid = nosuch"), Some(6..12));
        assert_eq!(error("dev eth7"), Some(4..8));
    }

    #[test]
    fn tab_completes_words_and_states() {
        assert_eq!(typed("fwm\t").text, "fwmark ");
        assert_eq!(typed("state close-w\t").text, "state close-wait ");
        let line = typed("state syn\t");
        assert!(line.candidates.contains(&"syn-sent"), "{line:?}");
        assert_eq!(typed("xyzzy\t").text, "xyzzy");
    }

    #[test]
    fn editing_keeps_the_cursor_at_characters() {
        let mut line = FilterLine::new("a\u{e9}b", &Services);
        for key in [Key::Left, Key::Left, Key::Backspace] {
            line.press(key, &Services);
        }
        assert_eq!((line.text.as_str(), line.cursor), ("\u{e9}b", 0));
        for key in [Key::Right, Key::Char('x'), Key::Delete, Key::Delete, Key::Right] {
            line.press(key, &Services);
        }
        assert_eq!((line.text.as_str(), line.cursor), ("\u{e9}x", 3));
        line.press(Key::Control('w'), &Services);
        assert_eq!(line.text, "");
    }
}
