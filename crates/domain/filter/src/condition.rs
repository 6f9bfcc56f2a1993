//! The text of a condition: its word, operator and value, and where errors are.

use crate::ParseError;
use crate::expr::Compare;
use crate::lexer::{Lexer, Operator, Value, ValueKind};
use crate::units::Quantity;
use std::ops::Range;

/// Reads conditions, to a bounded depth of nesting.
pub(crate) struct Reader<'a> {
    pub(crate) lexer: Lexer<'a>,
    /// Number of open parentheses and `not`s
    pub(crate) depth: usize,
}

/// The word of a condition and its operator, if there is one: the text before a value.
pub(crate) struct Head<'a> {
    word: &'a str,
    operator: Option<(Operator, Range<usize>)>,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            lexer: Lexer::new(text),
            depth: 0,
        }
    }

    /// Parses the operator after a condition's word, if there is one; it has to be one of `allowed`.
    pub(crate) fn head(&mut self, word: &'a str, allowed: &[Operator]) -> Result<Head<'a>, ParseError> {
        match self.lexer.operator() {
            Some((operator, span)) if !allowed.contains(&operator) => {
                let mut error = self.error(span, &[]);
                let words = allowed.iter().map(|operator| format!("'{}'", operator.word()));
                error.expected = words.collect();
                error.after = Some(word.to_owned());
                Err(error)
            }
            operator => Ok(Head { word, operator }),
        }
    }

    pub(crate) fn value(
        &mut self,
        head: &Head<'_>,
        kind: ValueKind,
        expected: &str,
    ) -> Result<Value, ParseError> {
        self.lexer
            .value(kind)
            .ok_or_else(|| self.error_after(head, self.lexer.rest_of_word(), expected))
    }

    /// Creates the error of a value that is not what was expected.
    pub(crate) fn not_found(&self, head: &Head<'_>, value: &Value, expected: &str) -> ParseError {
        self.error_after(head, value.span.clone(), expected)
    }

    /// Creates the error of a value that is no number of this kind.
    pub(crate) fn no_number(
        &self,
        head: &Head<'_>,
        value: &Value,
        kind: Quantity,
        expected: &str,
    ) -> ParseError {
        let mut error = self.not_found(head, value, expected);
        let lacks_unit =
            matches!(kind, Quantity::Time | Quantity::Rate) && Quantity::Count.parse(&value.text).is_some();
        error.hint = lacks_unit.then(|| "which unit?".into());
        error
    }

    fn error_after(&self, head: &Head<'_>, span: Range<usize>, expected: &str) -> ParseError {
        let operator = head.operator.as_ref();
        let after = operator.map_or(head.word, |(_, span)| self.lexer.slice(span.clone()));
        ParseError {
            after: Some(after.to_owned()),
            ..self.error(span, &[expected])
        }
    }

    pub(crate) fn error(&self, span: Range<usize>, expected: &[&str]) -> ParseError {
        let found = self.lexer.slice(span.clone());
        ParseError {
            span,
            found: (!found.is_empty()).then(|| found.to_owned()),
            expected: expected.iter().map(|&what| what.to_owned()).collect(),
            after: None,
            hint: None,
        }
    }

    pub(crate) fn descend(&mut self, span: &Range<usize>) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.too_deep(span.clone()));
        }
        Ok(())
    }

    pub(crate) fn too_deep(&self, span: Range<usize>) -> ParseError {
        self.error(span, &[&format!("at most {DEPTH_MAX} levels of nesting")])
    }
}

impl Head<'_> {
    /// Returns the operator; `=` may be left out.
    pub(crate) fn operator(&self) -> Operator {
        self.operator
            .as_ref()
            .map_or(Operator::Compare(Compare::Equal), |(operator, _)| *operator)
    }

    /// Whether the operator is `!=` or `!~`.
    pub(crate) fn is_negated(&self) -> bool {
        matches!(
            self.operator(),
            Operator::Compare(Compare::NotEqual) | Operator::NotLike
        )
    }

    /// Whether the operator is `~` or `!~`.
    pub(crate) fn is_like(&self) -> bool {
        matches!(self.operator(), Operator::Like | Operator::NotLike)
    }

    /// Returns the comparison with a number.
    pub(crate) fn compare(&self) -> Compare {
        match self.operator() {
            Operator::Compare(compare) => compare,
            Operator::Like | Operator::NotLike => Compare::Equal,
        }
    }
}

/// Maximum nesting of an expression; a change between `and` and `or` is a level too.
pub(crate) const DEPTH_MAX: usize = 200;

/// `=` and `!=`
pub(crate) const EQUALITY: [Operator; 2] = [
    Operator::Compare(Compare::Equal),
    Operator::Compare(Compare::NotEqual),
];

/// Equality, and comparison with a pattern
pub(crate) const PATTERNS: [Operator; 4] = [
    Operator::Compare(Compare::Equal),
    Operator::Compare(Compare::NotEqual),
    Operator::Like,
    Operator::NotLike,
];

pub(crate) const COMPARISONS: [Operator; 6] = [
    Operator::Compare(Compare::Equal),
    Operator::Compare(Compare::NotEqual),
    Operator::Compare(Compare::Less),
    Operator::Compare(Compare::LessOrEqual),
    Operator::Compare(Compare::Greater),
    Operator::Compare(Compare::GreaterOrEqual),
];
