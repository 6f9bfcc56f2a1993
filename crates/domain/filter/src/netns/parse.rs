//! ```text
//! list    = expr { [ "and" | "or" ] expr }     from left to right
//! expr    = "(" list ")" | "not" expr | condition
//! ```

use super::{Connective, Expr, Filter, NumberField, Test, TextField};
use crate::ParseError;
use crate::error::nearest;
use crate::expr::Compare;
use crate::lexer::{Lexer, Operator, Token, Value, ValueKind};
use crate::parse::{COMPARISONS, DEPTH_MAX};
use crate::units::Quantity;
use std::ops::Range;

/// Parses an expression about network namespaces. An empty one matches everything.
///
/// # Errors
/// The position of the first error in syntax, and what was expected there.
pub fn parse(text: &str) -> Result<Filter, ParseError> {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        depth: 0,
    };
    if parser.lexer.peek().0 == Token::End {
        return Ok(Filter::default());
    }
    let expr = parser.list()?;
    match parser.lexer.next() {
        (Token::End, _) => Ok(Filter { expr: Some(expr) }),
        (_, span) => Err(parser.error(span, &["'and'", "'or'", "a condition", "the end"])),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Number of open parentheses and `not`s
    depth: usize,
}

impl<'a> Parser<'a> {
    fn list(&mut self) -> Result<Expr, ParseError> {
        let first = self.expr()?;
        let mut rest = Vec::new();
        loop {
            let (token, span) = self.lexer.peek();
            let connective = match token {
                Token::Or => Connective::Or,
                Token::And | Token::Word(_) | Token::Open | Token::Not => Connective::And,
                Token::Close | Token::End => break,
                Token::Stray(_) => return Err(self.error(span, &["'and'", "'or'", "a condition", "the end"])),
            };
            if matches!(token, Token::And | Token::Or) {
                self.lexer.next();
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
        let (token, span) = self.lexer.next();
        match token {
            Token::Open => {
                self.descend(&span)?;
                let inner = self.list()?;
                self.depth -= 1;
                match self.lexer.next() {
                    (Token::Close, _) => Ok(inner),
                    (_, span) => Err(self.error(span, &["')'", "'and'", "'or'"])),
                }
            }
            Token::Not => {
                self.descend(&span)?;
                let inner = self.expr()?;
                self.depth -= 1;
                Ok(Expr::Not(Box::new(inner)))
            }
            Token::Word(word) => self.condition(word, span).map(Expr::Test),
            _ => Err(self.error(span, &["a condition", "'('", "'not'"])),
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
        match NUMBERS.iter().find(|(name, ..)| *name == word) {
            Some(&(_, field, kind)) => self.number(word, field, kind),
            None => {
                let mut error = self.error(span, &["a condition (name, pids, sockets, age, leaked, ...)"]);
                let numbers = NUMBERS.iter().map(|(name, ..)| *name);
                error.hint = nearest(word, WORDS.iter().copied().chain(numbers));
                Err(error)
            }
        }
    }

    fn text(&mut self, word: &str, field: TextField) -> Result<Test, ParseError> {
        use Operator::{Equal, Like, NotEqual, NotLike};
        let operator = self.operator(word, &[Equal, NotEqual, Like, NotLike])?;
        let value = self.value(word, operator.as_ref(), "a name")?;
        let operator = operator.map_or(Equal, |(operator, _)| operator);
        Ok(Test::Text {
            field,
            negated: matches!(operator, NotEqual | NotLike),
            like: matches!(operator, Like | NotLike),
            value: value.text.into(),
        })
    }

    fn number(&mut self, word: &str, field: NumberField, kind: Quantity) -> Result<Test, ParseError> {
        let expected = match kind {
            Quantity::Time => "a time with a unit (30s, 10m, 2h, 3d)",
            kind => kind.description(),
        };
        let operator = self.operator(word, &COMPARISONS)?;
        let value = self.value(word, operator.as_ref(), expected)?;
        let Some(number) = kind.parse(&value.text) else {
            let mut error = self.error(value.span, &[expected]);
            error.after = Some(self.after(word, operator.as_ref()));
            let lacks_unit = kind == Quantity::Time && Quantity::Count.parse(&value.text).is_some();
            error.hint = lacks_unit.then(|| "which unit?".into());
            return Err(error);
        };
        let compare = match operator.map_or(Operator::Equal, |(operator, _)| operator) {
            Operator::Equal | Operator::Like | Operator::NotLike => Compare::Equal,
            Operator::NotEqual => Compare::NotEqual,
            Operator::Less => Compare::Less,
            Operator::LessOrEqual => Compare::LessOrEqual,
            Operator::Greater => Compare::Greater,
            Operator::GreaterOrEqual => Compare::GreaterOrEqual,
        };
        Ok(Test::Number(field, compare, number))
    }

    /// Parses the operator after a condition's word, if there is one; it has to be one of `allowed`.
    fn operator(
        &mut self,
        word: &str,
        allowed: &[Operator],
    ) -> Result<Option<(Operator, Range<usize>)>, ParseError> {
        match self.lexer.operator() {
            Some((operator, span)) if !allowed.contains(&operator) => {
                let mut error = self.error(span, &[]);
                let words = allowed.iter().map(|operator| format!("'{}'", operator.word()));
                error.expected = words.collect();
                error.after = Some(word.to_owned());
                Err(error)
            }
            operator => Ok(operator),
        }
    }

    fn value(
        &mut self,
        word: &str,
        operator: Option<&(Operator, Range<usize>)>,
        expected: &str,
    ) -> Result<Value, ParseError> {
        if let Some(value) = self.lexer.value(ValueKind::Name) {
            return Ok(value);
        }
        let mut error = self.error(self.lexer.rest_of_word(), &[expected]);
        error.after = Some(self.after(word, operator));
        Err(error)
    }

    fn after(&self, word: &str, operator: Option<&(Operator, Range<usize>)>) -> String {
        operator
            .map_or(word, |(_, span)| self.lexer.slice(span.clone()))
            .to_owned()
    }

    fn error(&self, span: Range<usize>, expected: &[&str]) -> ParseError {
        let found = self.lexer.slice(span.clone());
        ParseError {
            span,
            found: (!found.is_empty()).then(|| found.to_owned()),
            expected: expected.iter().map(|&what| what.to_owned()).collect(),
            after: None,
            hint: None,
        }
    }

    fn descend(&mut self, span: &Range<usize>) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let mut error = self.error(span.clone(), &[]);
            error.expected = vec![format!("at most {DEPTH_MAX} levels of nesting")];
            return Err(error);
        }
        Ok(())
    }
}

const NUMBERS: &[(&str, NumberField, Quantity)] = &[
    ("inode", NumberField::Inode, Quantity::Id),
    ("id", NumberField::Id, Quantity::Id),
    ("nsid", NumberField::Id, Quantity::Id),
    ("pids", NumberField::Processes, Quantity::Count),
    ("processes", NumberField::Processes, Quantity::Count),
    ("threads", NumberField::Threads, Quantity::Count),
    ("sockets", NumberField::Sockets, Quantity::Count),
    ("interfaces", NumberField::Interfaces, Quantity::Count),
    ("ifaces", NumberField::Interfaces, Quantity::Count),
    ("age", NumberField::Age, Quantity::Time),
];

/// Words that begin a condition, apart from [`NUMBERS`].
const WORDS: &[&str] = &["name", "container", "leaked", "named", "own", "not", "and", "or"];
