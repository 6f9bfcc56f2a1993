//! The tokenizer: words, operators and parentheses.
//!
//! `ss` needs a space around each; here only adjacent words need one. The extent of a word depends on
//! its position: `80)` after `dport =` is a value and a parenthesis, `unix:/a(b)` is one value.

use crate::expr::Compare;
use std::ops::Range;

/// A text and the position in it.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// A token where a condition or a connective is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Open,
    Close,
    And,
    Or,
    Not,
    Word(&'a str),
    /// An operator out of place
    Stray(&'a str),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Compare(Compare),
    Like,
    NotLike,
}

/// Which characters end a value, apart from space and a parenthesis that it did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// `&` and `|` end it, unless it begins with `unix:`.
    Host,
    /// No other character: names and paths.
    Name,
}

/// A value, with its backslashes resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

impl<'a> Lexer<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn slice(&self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }

    /// Returns the next token without consuming it.
    pub(crate) fn peek(&self) -> (Token<'a>, Range<usize>) {
        self.clone().next()
    }

    /// Consumes the next token.
    pub(crate) fn next(&mut self) -> (Token<'a>, Range<usize>) {
        self.skip_space();
        let start = self.at;
        let rest = &self.text[start..];
        let (token, len) = match rest.as_bytes() {
            [] => (Token::End, 0),
            [b'(', ..] => (Token::Open, 1),
            [b')', ..] => (Token::Close, 1),
            [b'&', b'&', ..] => (Token::And, 2),
            [b'&', ..] => (Token::And, 1),
            [b'|', b'|', ..] => (Token::Or, 2),
            [b'|', ..] => (Token::Or, 1),
            [b'!', b'=' | b'~', ..] => (Token::Stray(&rest[..2]), 2),
            [b'!', ..] => (Token::Not, 1),
            [b'=' | b'<' | b'>' | b'~', ..] => (Token::Stray(&rest[..1]), 1),
            _ => {
                let word = &rest[..word_len(rest)];
                let token = match word {
                    "and" => Token::And,
                    "or" => Token::Or,
                    "not" => Token::Not,
                    word => Token::Word(word),
                };
                (token, word.len())
            }
        };
        self.at += len;
        (token, start..self.at)
    }

    /// Consumes an operator, if one is next.
    pub(crate) fn operator(&mut self) -> Option<(Operator, Range<usize>)> {
        self.skip_space();
        let start = self.at;
        // Escaped for a shell although there is none: ss accepts it, and old scripts contain it.
        let escaped = matches!(&self.text.as_bytes()[start..], [b'\\', b'<' | b'>', ..]);
        let start = start + usize::from(escaped);
        let rest = &self.text[start..];
        let (operator, len) = match rest.as_bytes() {
            [b'=', b'=', ..] => (Operator::Compare(Compare::Equal), 2),
            [b'=', ..] => (Operator::Compare(Compare::Equal), 1),
            [b'!', b'=', ..] => (Operator::Compare(Compare::NotEqual), 2),
            [b'!', b'~', ..] => (Operator::NotLike, 2),
            [b'>', b'=', ..] => (Operator::Compare(Compare::GreaterOrEqual), 2),
            [b'>', ..] => (Operator::Compare(Compare::Greater), 1),
            [b'<', b'=', ..] => (Operator::Compare(Compare::LessOrEqual), 2),
            [b'<', ..] => (Operator::Compare(Compare::Less), 1),
            [b'~', ..] => (Operator::Like, 1),
            _ => {
                let word = &rest[..word_len(rest)];
                let operator = match word {
                    "eq" => Operator::Compare(Compare::Equal),
                    "ne" | "neq" => Operator::Compare(Compare::NotEqual),
                    "ge" | "geq" => Operator::Compare(Compare::GreaterOrEqual),
                    "le" | "leq" => Operator::Compare(Compare::LessOrEqual),
                    "gt" => Operator::Compare(Compare::Greater),
                    "lt" => Operator::Compare(Compare::Less),
                    _ => return None,
                };
                (operator, word.len())
            }
        };
        self.at += len;
        Some((operator, start..self.at))
    }

    /// Consumes a value; `None` if there is none.
    pub(crate) fn value(&mut self, kind: ValueKind) -> Option<Value> {
        self.skip_space();
        let start = self.at;
        let rest = &self.text[start..];
        let literal = kind == ValueKind::Name || rest.starts_with("unix:");
        if rest.starts_with('(') || (kind == ValueKind::Host && rest.starts_with(['=', '<', '>', '~'])) {
            return None;
        }
        let mut text = String::new();
        let mut open = 0_usize;
        let mut len = rest.len();
        let mut chars = rest.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => text.extend(chars.next().map(|(_, char)| char)),
                ')' if open == 0 => {
                    len = at;
                    break;
                }
                '&' | '|' if !literal => {
                    len = at;
                    break;
                }
                space if space.is_whitespace() => {
                    len = at;
                    break;
                }
                char => {
                    match char {
                        '(' => open += 1,
                        ')' => open -= 1,
                        _ => {}
                    }
                    text.push(char);
                }
            }
        }
        if text.is_empty() || is_operator_word(&rest[..len]) {
            return None;
        }
        self.at += len;
        Some(Value {
            text,
            span: start..self.at,
        })
    }

    /// Returns the extent of the next token, for an error about what was expected there.
    pub(crate) fn rest_of_word(&self) -> Range<usize> {
        let mut ahead = self.clone();
        let (token, span) = ahead.next();
        match token {
            // A word token may be part of a longer value.
            Token::Word(_) | Token::Not => {
                let rest = &self.text[span.start..];
                let len = rest
                    .find(|c: char| c.is_whitespace() || c == ')')
                    .unwrap_or(rest.len());
                span.start..span.start + len.max(1)
            }
            _ => span,
        }
    }

    /// Skips space and comments: from a `#` at the beginning of a token to the end of the line.
    fn skip_space(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }
}

/// Whether `word` is a connective, which must be escaped as a value.
pub(crate) fn is_operator_word(word: &str) -> bool {
    matches!(word, "and" | "or" | "not" | "&" | "&&" | "|" | "||" | "!")
}

fn word_len(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || "()!&|=<>~".contains(c))
        .unwrap_or(text.len())
}

impl Operator {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Compare(compare) => compare.word(),
            Self::Like => "~",
            Self::NotLike => "!~",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_extent_depends_on_kind() {
        for (text, kind, expected) in [
            (":443) and", ValueKind::Host, Some(":443")),
            ("  80&&x", ValueKind::Host, Some("80")),
            ("unix:/a(b)&c) d", ValueKind::Host, Some("unix:/a(b)&c")),
            ("a\\ b\\)c d", ValueKind::Name, Some("a b)c")),
            ("a|b", ValueKind::Name, Some("a|b")),
            ("and x", ValueKind::Name, None),
            ("\\and x", ValueKind::Name, Some("and")),
            ("(x)", ValueKind::Name, None),
            (")", ValueKind::Host, None),
            ("= 80", ValueKind::Host, None),
            ("", ValueKind::Host, None),
            ("\\", ValueKind::Host, None),
            ("# all of it\n 5", ValueKind::Host, Some("5")),
        ] {
            let found = Lexer::new(text).value(kind);
            assert_eq!(
                found.as_ref().map(|value| value.text.as_str()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn words_need_no_space_around_symbols() {
        let mut lexer = Lexer::new("!(dport&&or|not");
        let mut tokens = Vec::new();
        loop {
            match lexer.next().0 {
                Token::End => break,
                token => tokens.push(token),
            }
        }
        use Token::{And, Not, Open, Or, Word};
        assert_eq!(tokens, [Not, Open, Word("dport"), And, Or, Or, Not]);
    }
}
