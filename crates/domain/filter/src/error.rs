//! Parse errors: their position, what was found and what was expected.

use sockeye_model::nearest_name;
use std::fmt::{self, Write as _};
use std::ops::Range;

/// An error in a filter expression.
///
/// Its display form is one line; [`ParseError::render`] adds the expression with a caret. Both are safe to print,
/// whatever the expression contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Position, in bytes of the text.
    pub span: Range<usize>,
    /// The text there; `None` at the end.
    pub found: Option<String>,
    /// The alternatives that were expected: `a port`, `')'`.
    pub expected: Vec<String>,
    /// The text before it, where that helps.
    pub after: Option<String>,
    /// A suggestion.
    pub hint: Option<String>,
}

impl ParseError {
    /// Returns the message, the expression and a caret, as three lines that each end with a newline; of a long expression
    /// only the part around the error.
    #[must_use]
    pub fn render(&self, text: &str) -> String {
        let mut out = format!("sockeye: filter: {self}\n");
        let start = floor(text, self.span.start);
        let end = floor(text, self.span.end).max(start);
        let before = text[..start].chars().count();
        let skipped = before.saturating_sub(WINDOW_BEFORE);
        let _ = write!(out, "  {}", if skipped > 0 { "..." } else { "" });
        let from = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
        let mut shown = text[from..].chars();
        out.extend(shown.by_ref().take(WINDOW).map(harmless));
        let whole = shown.next().is_none();
        let _ = writeln!(out, "{}", if whole { "" } else { "..." });
        let column = before - skipped + if skipped > 0 { 3 } else { 0 };
        let carets = text[start..end]
            .chars()
            .count()
            .clamp(1, WINDOW - (before - skipped));
        let _ = writeln!(out, "  {:column$}{}", "", "^".repeat(carets));
        out
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected ")?;
        for (place, what) in self.expected.iter().enumerate() {
            match place {
                0 => {}
                last if last + 1 == self.expected.len() => f.write_str(" or ")?,
                _ => f.write_str(", ")?,
            }
            f.write_str(what)?;
        }
        if let Some(after) = &self.after {
            write!(f, " after '{}'", Quoted(after))?;
        }
        match &self.found {
            Some(found) => write!(f, ", found '{}'", Quoted(found))?,
            None => f.write_str(", found the end of the expression")?,
        }
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}

/// Returns a suggestion if `word` may be a typo of one among `known`: `did you mean 'eth0'?`
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest_name(word, known).map(|known| format!("did you mean '{known}'?"))
}

/// Text from the user, escaped for a terminal.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for char in chars.by_ref().take(QUOTED_MAX) {
            f.write_char(harmless(char))?;
        }
        if chars.next().is_some() {
            f.write_str("...")?;
        }
        Ok(())
    }
}

/// Replaces a character that could move the cursor, change the terminal, reverse or hide text. Always one column.
fn harmless(char: char) -> char {
    match char {
        '\t' | '\n' | '\r' => ' ',
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => '?',
        control if control.is_control() => '?',
        harmless => harmless,
    }
}

/// Returns the last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

const WINDOW_BEFORE: usize = 50;
const WINDOW: usize = 90;
const QUOTED_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(span: Range<usize>) -> ParseError {
        ParseError {
            span,
            found: Some("\u{1b}[31mx\u{202e}".into()),
            expected: vec!["a port".into(), "'*'".into(), "a service".into()],
            after: Some("=".into()),
            hint: None,
        }
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(
            error(8..20).render("dport = \u{1b}[31mx\u{202e}\n\ty"),
            "sockeye: filter: expected a port, '*' or a service after '=', found '?[31mx?'\n\
             \x20 dport = ?[31mx?  y\n\
             \x20         ^^^^^^^^^^\n"
        );
    }

    #[test]
    fn long_text_is_shown_around_the_error() {
        let text = format!("{}é)", "sport = 80 or ".repeat(5000));
        let rendered = error(70_002..70_003).render(&text);
        let lines: Vec<_> = rendered.lines().collect();
        assert!(
            lines[1].starts_with("  ...") && lines[1].chars().count() < 120,
            "{rendered}"
        );
        let column = lines[2].find('^').unwrap();
        assert_eq!(lines[1].chars().nth(column), Some(')'), "{rendered}");
    }

    #[test]
    fn any_span_renders_without_panic() {
        let text = "é".repeat(100);
        for start in 0..210 {
            for end in [0, start, start + 1, start + 300] {
                assert_eq!(error(start..end).render(&text).lines().count(), 3);
            }
        }
    }
}
