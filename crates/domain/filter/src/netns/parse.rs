//! ```text
//! list    = expr { [ "and" | "or" ] expr }     from left to right
//! expr    = "(" list ")" | "not" expr | condition
//! ```

use super::{Connective, Expr, Filter, NumberField, Test, TextField};
use crate::ParseError;
use crate::condition::{COMPARISONS, PATTERNS, Reader};
use crate::error::nearest;
use crate::lexer::{Token, ValueKind};
use crate::units::Quantity;
use sockeye_model::is_name_of;
use std::ops::Range;

/// Parses an expression about network namespaces. An empty one matches everything.
///
/// # Errors
/// The position of the first error in syntax, and what was expected there.
pub fn parse(text: &str) -> Result<Filter, ParseError> {
    let mut parser = Parser(Reader::new(text));
    if parser.0.lexer.peek().0 == Token::End {
        return Ok(Filter::default());
    }
    let expr = parser.list()?;
    match parser.0.lexer.next() {
        (Token::End, _) => Ok(Filter { expr: Some(expr) }),
        (_, span) => Err(parser.0.error(span, &["'and'", "'or'", "a condition", "the end"])),
    }
}

struct Parser<'a>(Reader<'a>);

impl<'a> Parser<'a> {
    fn list(&mut self) -> Result<Expr, ParseError> {
        let first = self.expr()?;
        let mut rest = Vec::new();
        loop {
            let (token, span) = self.0.lexer.peek();
            let connective = match token {
                Token::Or => Connective::Or,
                Token::And | Token::Word(_) | Token::Open | Token::Not => Connective::And,
                Token::Close | Token::End => break,
                Token::Stray(_) => {
                    return Err(self.0.error(span, &["'and'", "'or'", "a condition", "the end"]));
                }
            };
            if matches!(token, Token::And | Token::Or) {
                self.0.lexer.next();
            }
            rest.push((connective, self.expr()?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Expr::List(Box::new(first), rest)
        })
    }

    fn expr(&mut self) -> Result<Expr, ParseError> {
        let (token, span) = self.0.lexer.next();
        match token {
            Token::Open => {
                self.0.descend(&span)?;
                let inner = self.list()?;
                self.0.depth -= 1;
                match self.0.lexer.next() {
                    (Token::Close, _) => Ok(inner),
                    (_, span) => Err(self.0.error(span, &["')'", "'and'", "'or'"])),
                }
            }
            Token::Not => {
                self.0.descend(&span)?;
                let inner = self.expr()?;
                self.0.depth -= 1;
                Ok(Expr::Not(Box::new(inner)))
            }
            Token::Word(word) => self.condition(word, span).map(Expr::Test),
            _ => Err(self.0.error(span, &["a condition", "'('", "'not'"])),
        }
    }

    fn condition(&mut self, word: &'a str, span: Range<usize>) -> Result<Test, ParseError> {
        match word {
            "leaked" => return Ok(Test::Leaked),
            "named" => return Ok(Test::Named),
            "own" => return Ok(Test::Own),
            "name" => return self.text(word, TextField::Name),
            "container" => return self.text(word, TextField::Container),
            _ => {}
        }
        match NUMBERS.iter().find(|(name, ..)| is_name_of(word, name)) {
            Some(&(_, field, kind)) => self.number(word, field, kind),
            None => {
                let mut error = self
                    .0
                    .error(span, &["a condition (name, pids, sockets, age, leaked, ...)"]);
                error.hint = nearest(word, words());
                Err(error)
            }
        }
    }

    fn text(&mut self, word: &'a str, field: TextField) -> Result<Test, ParseError> {
        let head = self.0.head(word, &PATTERNS)?;
        let value = self.0.value(&head, ValueKind::Name, "a name")?;
        Ok(Test::Text {
            field,
            negated: head.is_negated(),
            like: head.is_like(),
            value: value.text.into(),
        })
    }

    fn number(&mut self, word: &'a str, field: NumberField, kind: Quantity) -> Result<Test, ParseError> {
        let expected = match kind {
            Quantity::Time => "a time with a unit (30s, 10m, 2h, 3d)",
            kind => kind.description(),
        };
        let head = self.0.head(word, &COMPARISONS)?;
        let value = self.0.value(&head, ValueKind::Name, expected)?;
        match kind.parse(&value.text) {
            Some(number) => Ok(Test::Number(field, head.compare(), number)),
            None => Err(self.0.no_number(&head, &value, kind, expected)),
        }
    }
}

/// Returns the words of a filter about namespaces, for completion.
pub fn words() -> impl Iterator<Item = &'static str> {
    let numbers = NUMBERS.iter().map(|&(name, ..)| name);
    WORDS.iter().copied().chain(numbers)
}

const NUMBERS: &[(&str, NumberField, Quantity)] = &[
    ("netns_inode", NumberField::Inode, Quantity::Id),
    ("inode", NumberField::Inode, Quantity::Id),
    ("id", NumberField::Id, Quantity::Id),
    ("nsid", NumberField::Id, Quantity::Id),
    ("pids", NumberField::Processes, Quantity::Count),
    ("processes", NumberField::Processes, Quantity::Count),
    ("threads", NumberField::Threads, Quantity::Count),
    ("sockets", NumberField::Sockets, Quantity::Count),
    ("interfaces", NumberField::Interfaces, Quantity::Count),
    ("ifaces", NumberField::Interfaces, Quantity::Count),
    ("age_s", NumberField::Age, Quantity::Time),
];

/// Words that begin a condition, apart from [`NUMBERS`].
const WORDS: &[&str] = &["name", "container", "leaked", "named", "own", "not", "and", "or"];
