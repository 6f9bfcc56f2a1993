//! The details of a connection as lines: facts folded to the width of the screen, then its numbers in columns.

use super::sample::Details;
use sockeye_output::text::display_width;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A label, which is empty on further lines of the same text, and a part of its text.
    Text {
        label: &'static str,
        text: String,
        kind: TextKind,
    },
    /// Numbers of [`Details::numbers`] by their index, one in each column.
    Numbers(Vec<usize>),
    Blank,
    /// The connection has ended, and this is what was known last.
    Ended,
}

/// What a text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    Fact,
    /// What holds the connection back.
    Limit,
}

/// Returns the lines of details on a screen of this width. `is_there`: whether its connection is. `mark` ends a line in the middle of a word that is wider than the screen.
pub(crate) fn lines(details: &Details, is_there: bool, width: u16, mark: char) -> Vec<Line> {
    let width = usize::from(width);
    let mut lines = Vec::new();
    lines.extend((!is_there).then_some(Line::Ended));
    let facts = details
        .facts
        .iter()
        .map(|(label, text)| (*label, &**text, TextKind::Fact));
    let limit =
        Some(("held back by", &*details.limit, TextKind::Limit)).filter(|(_, text, _)| !text.is_empty());
    for (label, text, kind) in facts.chain(limit) {
        let folded = fold(text, width.saturating_sub(LABEL_WIDTH).max(TEXT_WIDTH_MIN), mark);
        for (nth, text) in folded.into_iter().enumerate() {
            let label = if nth == 0 { label } else { "" };
            lines.push(Line::Text { label, text, kind });
        }
    }
    let known: Vec<usize> = (0..details.numbers.len())
        .filter(|index| details.numbers[*index].1.is_some())
        .collect();
    if !known.is_empty() {
        lines.push(Line::Blank);
    }
    let columns = (width / COLUMN_WIDTH_MIN).max(1);
    lines.extend(known.chunks(columns).map(|row| Line::Numbers(row.to_vec())));
    lines
}

/// Breaks a text between words, and words that are wider than the line. A broken word, such as an address, has a mark at the end of each line
/// but its last: no part of it can be taken for the whole.
fn fold(text: &str, width: usize, mark: char) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    let mut gap = 0;
    for word in text.split(' ') {
        if word.is_empty() {
            gap += 1;
            continue;
        }
        let length = display_width(word.as_bytes());
        if used > 0 && used + gap + length > width {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            push(&mut lines, &" ".repeat(gap));
            used += gap;
        }
        let mut left = length;
        for character in word.chars() {
            if used + 1 == width && left > 1 {
                push(&mut lines, mark.encode_utf8(&mut [0; 4]));
                lines.push(String::new());
                used = 0;
            }
            push(&mut lines, character.encode_utf8(&mut [0; 4]));
            used += 1;
            left -= 1;
        }
        gap = 1;
    }
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

/// Width of the labels of facts.
pub(crate) const LABEL_WIDTH: usize = 14;
/// Name, value, and a graph of some characters.
pub(crate) const COLUMN_WIDTH_MIN: usize = 40;
/// On a narrower screen texts are cut.
const TEXT_WIDTH_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, expected: &[&str]) {
        assert_eq!(fold(text, width, '~'), expected);
    }

    #[test]
    fn texts_break_between_words_and_addresses_with_a_mark() {
        check(
            "udp  ESTAB  10.25.0.1:51735  10.25.0.1:5302",
            26,
            &["udp  ESTAB", "10.25.0.1:51735", "10.25.0.1:5302"],
        );
        check(
            "udp  ESTAB  10.25.0.1:51735",
            80,
            &["udp  ESTAB  10.25.0.1:51735"],
        );
        check(
            "tcp [2001:db8::1234:5678]:43124 x",
            12,
            &["tcp", "[2001:db8::~", "1234:5678]:~", "43124 x"],
        );
        check("12345678", 8, &["12345678"]);
        check("", 8, &[""]);
    }
}
