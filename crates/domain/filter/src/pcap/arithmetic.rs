//! Arithmetic expressions: `proto[offset:size]`, numbers and operators.

use super::lexer::Token;
use super::parse::{Parsed, Parser};
use super::qualifiers::Proto;
use super::tree::{Arithmetic, Comparison, Node, Operation, Size};

/// An arithmetic expression, and the condition under which it may be evaluated.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) sum: Arithmetic,
    guard: Node,
}

/// An operator on the stack, to be applied.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Minus,
    Both(Operation, Option<u8>),
}

impl Parser<'_> {
    /// Parses `expression relation expression`.
    pub(super) fn relation(&mut self) -> Parsed<Node> {
        let left = self.arithmetic()?;
        let (token, span) = self.lexer.next();
        let Token::Symbol(symbol) = token else {
            return Err(self.unexpected(&token, span, &["'='", "'!='", "'<'", "'>'"]));
        };
        let (comparison, negated) = match symbol {
            ">" => (Comparison::Greater, false),
            ">=" => (Comparison::GreaterOrEqual, false),
            "=" => (Comparison::Equal, false),
            "<=" => (Comparison::Greater, true),
            "<" => (Comparison::GreaterOrEqual, true),
            "!=" => (Comparison::Equal, true),
            _ => return Err(self.unexpected(&token, span, &["'='", "'!='", "'<'", "'>'"])),
        };
        let right = self.arithmetic()?;
        let relation = Node::Relation(left.sum, comparison, right.sum);
        let relation = if negated { relation.not() } else { relation };
        Ok(left.guard.and(right.guard).and(relation))
    }

    /// Parses an expression. Precedence as in libpcap's grammar: `|`, `&`, shifts, `+ -`, `* /`; `%` and `^` have none, and so bind what follows.
    fn arithmetic(&mut self) -> Parsed<Guarded> {
        self.nested(|parser| {
            let mut values: Vec<Guarded> = Vec::new();
            let mut waiting: Vec<Pending> = Vec::new();
            loop {
                while parser.takes_symbol("-") {
                    waiting.push(Pending::Minus);
                    if waiting.len() > PENDING_MAX {
                        return Err(parser.too_deep());
                    }
                }
                let value = parser.value()?;
                values.push(value);
                let (token, _) = parser.lexer.peek();
                let Some((operation, rank)) = operation(&token) else {
                    break;
                };
                while let Some(top) = waiting.last()
                    && let (Some(above), Some(rank)) = (top.rank(), rank)
                    && above >= rank
                {
                    waiting
                        .pop()
                        .map_or(Ok(()), |top| parser.apply(top, &mut values))?;
                }
                parser.lexer.next();
                waiting.push(Pending::Both(operation, rank));
                if waiting.len() > PENDING_MAX {
                    return Err(parser.too_deep());
                }
            }
            while let Some(top) = waiting.pop() {
                parser.apply(top, &mut values)?;
            }
            let (token, span) = parser.lexer.peek();
            values
                .pop()
                .ok_or_else(|| parser.unexpected(&token, span, &["a number"]))
        })
    }

    fn apply(&self, what: Pending, values: &mut Vec<Guarded>) -> Parsed<()> {
        let Some(second) = values.pop() else { return Ok(()) };
        let made = match what {
            Pending::Minus => Guarded {
                sum: match second.sum {
                    Arithmetic::Number(number) => Arithmetic::Number(number.wrapping_neg()),
                    sum => Arithmetic::Negative(Box::new(sum)),
                },
                guard: second.guard,
            },
            Pending::Both(operation, _) => {
                let Some(first) = values.pop() else { return Ok(()) };
                let is_number = |number| matches!(second.sum, Arithmetic::Number(found) if found == number);
                let divides = matches!(operation, Operation::Divide | Operation::Remainder);
                if divides && is_number(0) {
                    return Err(self.error_here("a number that is not 0 to divide by"));
                }
                let shifts = matches!(operation, Operation::ShiftLeft | Operation::ShiftRight);
                if shifts && matches!(second.sum, Arithmetic::Number(32..)) {
                    return Err(self.error_here("a shift by at most 31 bits"));
                }
                // libpcap keeps only the condition of the first operand; this keeps the same result.
                let guard = first.guard;
                let sum = match (&first.sum, &second.sum) {
                    (Arithmetic::Number(a), Arithmetic::Number(b)) => {
                        Arithmetic::Number(operation.of(*a, *b))
                    }
                    _ => Arithmetic::Both(operation, Box::new(first.sum), Box::new(second.sum)),
                };
                Guarded { sum, guard }
            }
        };
        values.push(made);
        Ok(())
    }

    fn value(&mut self) -> Parsed<Guarded> {
        let (token, span) = self.lexer.next();
        let free = |sum| Guarded {
            sum,
            guard: Node::Always(true),
        };
        match token {
            Token::Number(number) => Ok(free(Arithmetic::Number(number))),
            Token::Word("len" | "length") => Ok(free(Arithmetic::Len)),
            Token::Symbol("(") => {
                let sum = self.arithmetic()?;
                self.expect_symbol(")")?;
                Ok(sum)
            }
            Token::Word(word) if let Some(proto) = Proto::of(word) => {
                self.expect_symbol("[")?;
                let index = self.arithmetic()?;
                let mut size = Size::Byte;
                if self.takes_symbol(":") {
                    let (token, span) = self.lexer.next();
                    let found = match token {
                        Token::Number(bytes) => Size::of(bytes),
                        _ => None,
                    };
                    size = found.ok_or_else(|| self.unexpected(&token, span, &["1", "2", "4"]))?;
                }
                self.expect_symbol("]")?;
                let (base, guard) = self.headers.base(proto, index.guard).ok_or_else(|| {
                    self.unexpected(
                        &Token::Word(word),
                        span,
                        &["a protocol with bytes that a filter can read on this link"],
                    )
                })?;
                let sum = Arithmetic::Load(size, base, Box::new(index.sum));
                Ok(Guarded { sum, guard })
            }
            token => Err(self.unexpected(&token, span, &["a number", "len", "PROTOCOL[...]", "'('"])),
        }
    }
}

impl Pending {
    const fn rank(self) -> Option<u8> {
        match self {
            Self::Minus => Some(6),
            Self::Both(_, rank) => rank,
        }
    }
}

fn operation(token: &Token<'_>) -> Option<(Operation, Option<u8>)> {
    let Token::Symbol(symbol) = token else { return None };
    Some(match *symbol {
        "|" => (Operation::Or, Some(1)),
        "&" => (Operation::And, Some(2)),
        "<<" => (Operation::ShiftLeft, Some(3)),
        ">>" => (Operation::ShiftRight, Some(3)),
        "+" => (Operation::Add, Some(4)),
        "-" => (Operation::Subtract, Some(4)),
        "*" => (Operation::Multiply, Some(5)),
        "/" => (Operation::Divide, Some(5)),
        "%" => (Operation::Remainder, None),
        "^" => (Operation::Differ, None),
        _ => return None,
    })
}

impl Operation {
    fn of(self, a: u32, b: u32) -> u32 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide => a.checked_div(b).unwrap_or(0),
            Self::Remainder => a.checked_rem(b).unwrap_or(0),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Differ => a ^ b,
            Self::ShiftLeft => a.checked_shl(b).unwrap_or(0),
            Self::ShiftRight => a.checked_shr(b).unwrap_or(0),
        }
    }
}

const PENDING_MAX: usize = 100;
