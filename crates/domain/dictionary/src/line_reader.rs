//! What a line of a log says by itself, without the lines before it. Most of the work for a log is here, so that several threads can do
//! it for different lines; [`Log`](crate::Log) then takes the lines in their order.

use crate::blanks::collapsed;
use crate::block;
use crate::error_text::has_error;
use crate::family;
use crate::log_line::{self, Message, message_of, plain};
use crate::messages::{LINE_LEN_MAX, MatchedLine, Messages, Outcomes};
use crate::unknown::{has_errno, has_trouble_word, looks_like_trouble};
use std::borrow::Cow;

/// Reads lines one by one, in any order.
#[derive(Debug, Clone)]
pub struct LineReader {
    messages: &'static Messages,
    outcomes: Outcomes,
    /// Whether the text of lines is needed that nothing matches
    keeps_unknown: bool,
}

/// A line that a [`LineReader`] read.
#[derive(Debug, Clone)]
pub struct ReadLine<'l> {
    /// The line as it was
    pub(crate) bytes: &'l [u8],
    /// `None`: the line has more than one form at a time, or is about other lines; [`Log`](crate::Log) reads it itself
    pub(crate) message: Option<ReadMessage<'l>>,
}

/// A message with its entry.
#[derive(Debug, Clone)]
pub(crate) struct ReadMessage<'l> {
    /// The whole line, with blanks at its ends
    pub(crate) line: &'l str,
    /// The same without what terminals add
    pub(crate) plain: &'l str,
    pub(crate) message: Message<'l>,
    /// Text of the message, without a note on repeats, and their number
    pub(crate) text: &'l str,
    pub(crate) times: u64,
    pub(crate) known: Option<MatchedLine<'l>>,
    pub(crate) guess: Guess<MatchedLine<'l>>,
}

/// What a line says that no text of a message has.
#[derive(Debug, Clone, Default)]
pub(crate) enum Guess<M> {
    #[default]
    NotAsked,
    /// No word and no number of it is one of trouble or of an error
    Quiet,
    /// What its driver's family or its beginning says
    Said(Option<M>),
}

impl<M> Guess<M> {
    pub(crate) fn map<K>(self, keep: impl FnOnce(M) -> K) -> Guess<K> {
        match self {
            Self::NotAsked => Guess::NotAsked,
            Self::Quiet => Guess::Quiet,
            Self::Said(said) => Guess::Said(said.map(keep)),
        }
    }
}

impl LineReader {
    pub(crate) fn new(keeps_unknown: bool) -> Self {
        Self {
            messages: Messages::built_in(),
            outcomes: Outcomes::default(),
            keeps_unknown,
        }
    }

    pub(crate) fn keep_unknown(&mut self) {
        self.keeps_unknown = true;
    }

    /// Reads a line.
    pub fn read<'l>(&mut self, line: &'l [u8]) -> ReadLine<'l> {
        ReadLine {
            bytes: line,
            message: self.message(line),
        }
    }

    fn message<'l>(&mut self, line: &'l [u8]) -> Option<ReadMessage<'l>> {
        let line = std::str::from_utf8(&line[..line.len().min(LINE_LEN_MAX)]).ok()?;
        let Cow::Borrowed(plain) = plain(line) else {
            return None;
        };
        let outer = message_of(plain);
        if outer.is_bytes || outer.tag.is_some() || outer.has_only_time || log_line::is_field(line) {
            return None;
        }
        let message = if outer.is_escaped {
            // Without a time of its own it may have that of a line before.
            outer.time?;
            if outer.text.contains('\\') {
                return self.escaped(line, plain, &outer);
            }
            within(&outer, message_of(outer.text))
        } else {
            outer
        };
        if is_about_lines(message.text) {
            return None;
        }
        let (text, times) = log_line::repeated(message.text);
        let collapsed = collapsed(text);
        let is_form_known = matches!(collapsed, Cow::Borrowed(_)) && message.is_of_kernel();
        let known = match collapsed {
            Cow::Borrowed(collapsed) => self.matched(&message, collapsed),
            // What an entry says of it would borrow from the copy.
            Cow::Owned(collapsed) if self.matched(&message, &collapsed).is_some() => return None,
            Cow::Owned(_) => None,
        };
        // Parts of a block are seldom asked for.
        let is_guessed = known.is_none() && message.is_of_kernel() && block::part(text).is_none();
        let guess = match is_guessed {
            false => Guess::NotAsked,
            true => self.guess(text, is_form_known),
        };
        Some(ReadMessage {
            guess,
            line,
            plain,
            message,
            text,
            times,
            known,
        })
    }

    /// What a line of the kernel says that no text of a message has. Lines of one form have the same words, so these are looked for once.
    fn guess<'l>(&mut self, text: &'l str, is_form_known: bool) -> Guess<MatchedLine<'l>> {
        let has_no_words = || !(has_trouble_word(text) || family::is_refusal(text) || has_error(text));
        let is_quiet = match is_form_known {
            true => self.outcomes.latest_has_no_words(has_no_words),
            false => has_no_words(),
        };
        if is_quiet && !has_errno(text) {
            return match self.messages.match_cut(text) {
                None => Guess::Quiet,
                known => Guess::Said(known),
            };
        }
        Guess::Said(guess(self.messages, text))
    }

    /// Reads a message with escapes. Those of programs without an entry have no text: it is needed for nothing.
    fn escaped<'l>(&mut self, line: &'l str, plain: &'l str, outer: &Message<'l>) -> Option<ReadMessage<'l>> {
        // Without a program it is the kernel's.
        outer.program?;
        let copy = log_line::unescaped(outer.text);
        let copy = log_line::plain(&copy);
        let inner = within(outer, message_of(&copy));
        if self.keeps_unknown || inner.is_of_kernel() || is_about_lines(inner.text) || has_error(inner.text) {
            return None;
        }
        let (text, times) = log_line::repeated(inner.text);
        if log_line::suppressed(text).is_some() || self.matched(&inner, &collapsed(text)).is_some() {
            return None;
        }
        Some(ReadMessage {
            line,
            plain,
            message: *outer,
            text: "",
            times,
            known: None,
            guess: Guess::NotAsked,
        })
    }

    /// The entry of a message, whose text has no runs of blanks.
    pub(crate) fn matched<'l>(&mut self, message: &Message<'_>, text: &'l str) -> Option<MatchedLine<'l>> {
        if message.is_of_kernel() {
            self.messages.match_line_like(text, &mut self.outcomes)
        } else {
            self.messages.match_line_of_program(text)
        }
    }
}

/// What a line of the kernel says that no text of a message has as a whole.
pub(crate) fn guess<'l>(messages: &Messages, text: &'l str) -> Option<MatchedLine<'l>> {
    messages.match_cut(text).or_else(|| {
        let is_trouble = looks_like_trouble(text);
        let known = family::matched(text, is_trouble);
        match is_trouble {
            true => known.or_else(|| messages.match_cut_without_mark(text)),
            false => known,
        }
    })
}

/// The message in a string of an object, with what the object has about it.
fn within<'l>(outer: &Message<'l>, mut message: Message<'l>) -> Message<'l> {
    message.time = outer.time.or(message.time);
    message.program = outer.program.or(message.program);
    message
}

/// Whether the text is no message of its own.
fn is_about_lines(text: &str) -> bool {
    text.is_empty() || log_line::is_mark(text) || log_line::repeats(text).is_some()
}

#[cfg(test)]
mod tests {
    use crate::Log;

    /// Lines of one form have their words looked for once, their numbers each time.
    #[test]
    fn error_number_is_found_behind_a_line_of_its_form_without_one() {
        let unknown = |lines: &[&str]| {
            let mut log = Log::new();
            for line in lines {
                log.line(line.as_bytes());
            }
            log.finish();
            let lines: Vec<String> = log.unknown().iter().map(|known| known.line.clone()).collect();
            lines
        };
        let (calm, trouble) = ("[1.5] frob: level -999", "[2.5] frob: level -110");
        assert_eq!(unknown(&[calm]), [] as [&str; 0]);
        for lines in [
            &[calm, trouble][..],
            &[trouble, calm],
            &[calm, trouble, calm, calm],
        ] {
            assert_eq!(unknown(lines), ["frob: level -110"], "{lines:?}");
        }
        let (calm, trouble) = ("[1.5] frob 7: 0 errors", "[2.5] frob 7: 5 errors");
        for lines in [&[calm, trouble][..], &[trouble, calm]] {
            assert_eq!(unknown(lines), ["frob 7: 5 errors"], "{lines:?}");
        }
    }
}
