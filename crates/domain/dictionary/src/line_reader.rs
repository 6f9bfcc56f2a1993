//! What a line of a log says by itself, without the lines before it. Most of the work for a log is here, so that several threads can do
//! it for different lines; [`Log`](crate::Log) then takes the lines in their order.

use crate::blanks::collapsed;
use crate::log_line::{self, Message, message_of, plain};
use crate::messages::{LINE_LEN_MAX, MatchedLine, Messages, Outcomes};
use std::borrow::Cow;

/// Reads lines one by one, in any order.
#[derive(Debug, Clone)]
pub struct LineReader {
    messages: &'static Messages,
    outcomes: Outcomes,
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
}

impl LineReader {
    pub(crate) fn new() -> Self {
        Self {
            messages: Messages::built_in(),
            outcomes: Outcomes::default(),
        }
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
        let message = message_of(plain);
        let is_nested = message.is_escaped || message.is_bytes || message.tag.is_some();
        let is_about_lines = message.has_only_time
            || message.text.is_empty()
            || log_line::is_field(line)
            || log_line::is_mark(message.text)
            || log_line::repeats(message.text).is_some();
        if is_nested || is_about_lines {
            return None;
        }
        let (text, times) = log_line::repeated(message.text);
        let Cow::Borrowed(collapsed) = collapsed(text) else {
            return None;
        };
        Some(ReadMessage {
            line,
            plain,
            message,
            text,
            times,
            known: self.matched(&message, collapsed),
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
