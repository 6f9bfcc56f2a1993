//! The parser (`ssfilter.y`), with a model of bison's stack: what overflows in `ss` is an error here.

use super::host::{self, Reader};
use super::lex::Lexer;
use super::number;
use super::tree::{Expr, Host, Join, Test};
use super::{Context, Filter, ParseError};
use crate::Resolve;
use crate::expr::{Compare, Side};
use sockeye_model::CgroupId;

pub(super) fn parse(
    words: &[String],
    file: Option<&str>,
    context: &Context,
    resolve: &dyn Resolve,
) -> Result<Filter, ParseError> {
    let mut parser = Parser {
        lexer: Lexer::new(words, file),
        reader: Reader::new(context, resolve),
        resolve,
        keyword: None,
        text: None,
        before: None,
        symbols: 0,
    };
    Ok(Filter {
        tree: parser.applet()?,
        family: parser.reader.confined_to(),
    })
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    reader: Reader<'a>,
    resolve: &'a dyn Resolve,
    /// `tok_type`: the last keyword, which decides how a word is parsed.
    keyword: Option<Keyword>,
    /// The current token,
    text: Option<String>,
    /// and the one before.
    before: Option<String>,
    /// Number of symbols on bison's stack
    symbols: usize,
}

#[derive(Debug)]
enum Token {
    Open,
    Close,
    Not,
    Join(Join),
    Keyword(Keyword),
    Compare(Compare),
    Word(Word),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Host(Side),
    Port(Side),
    Device,
    Mark,
    Cgroup,
    Autobound,
}

/// A word, parsed according to its keyword.
#[derive(Debug)]
enum Word {
    Host(Host),
    Other(Test),
}

/// The part of a parenthesis, or of the whole filter, that was parsed so far.
#[derive(Default)]
struct List {
    /// `None` if empty
    tree: Option<Tree>,
    /// Connective before the next value; `None` if none was written
    join: Option<Join>,
    /// Number of `not`s before the next value
    nots: usize,
}

struct Tree {
    expr: Expr,
    depth: usize,
}

impl Parser<'_> {
    /// Parses the start symbol, without recursion: open parentheses are on a stack.
    fn applet(&mut self) -> Result<Option<Expr>, ParseError> {
        let (mut list, mut outer) = (List::default(), Vec::new());
        let mut token = self.next()?;
        if token.is_none() {
            return Ok(None);
        }
        loop {
            // 1. The beginning of a value.
            let mut value = match token {
                Some(Token::Not) => {
                    self.push()?;
                    list.nots += 1;
                    token = self.next()?;
                    continue;
                }
                Some(Token::Open) => {
                    self.push()?;
                    outer.push(std::mem::take(&mut list));
                    token = self.next()?;
                    continue;
                }
                Some(Token::Keyword(keyword)) => self.condition(keyword)?,
                _ => return Err(self.unexpected("a condition")),
            };
            // 2. Its end, and perhaps that of what contains it.
            token = loop {
                self.add(&mut list, value)?;
                match self.next()? {
                    None if outer.is_empty() => return Ok(list.tree.map(|tree| tree.expr)),
                    Some(Token::Close) if !outer.is_empty() => {
                        self.push()?;
                        self.symbols -= 2; // '(' list ')' -> value
                    }
                    Some(Token::Join(join)) => {
                        self.push()?;
                        list.join = Some(join);
                        break self.next()?;
                    }
                    next @ Some(Token::Open | Token::Not | Token::Keyword(_)) => break next,
                    _ if outer.is_empty() => return Err(self.unexpected("'and', 'or' or another condition")),
                    _ => return Err(self.unexpected("')', 'and', 'or' or another condition")),
                }
                // The end of a parenthesis, which is never empty and always inside something.
                match (list.tree.take(), outer.pop()) {
                    (Some(tree), Some(around)) => (value, list) = (tree, around),
                    _ => return Err(self.unexpected("a condition")),
                }
            };
        }
    }

    fn add(&mut self, list: &mut List, value: Tree) -> Result<(), ParseError> {
        let Tree { mut expr, mut depth } = value;
        self.symbols -= list.nots;
        if std::mem::take(&mut list.nots) % 2 == 1 {
            depth = if matches!(expr, Expr::Not(_)) {
                depth - 1
            } else {
                depth + 1
            };
            expr = expr.not();
        }
        let tree = match list.tree.take() {
            None => Tree { expr, depth },
            Some(before) => {
                let join = list.join.take();
                self.symbols -= if join.is_some() { 2 } else { 1 };
                let join = join.unwrap_or(Join::And);
                let inner = before.depth - usize::from(matches!(before.expr, Expr::List(..)));
                Tree {
                    expr: before.expr.joined(join, expr),
                    depth: 1 + inner.max(depth),
                }
            }
        };
        if tree.depth > DEPTH_MAX {
            return Err(ParseError::TooDeep);
        }
        list.tree = Some(tree);
        Ok(())
    }

    /// Parses a condition after its keyword.
    fn condition(&mut self, keyword: Keyword) -> Result<Tree, ParseError> {
        self.push()?;
        if keyword == Keyword::Autobound {
            let ports = self.resolve.ephemeral_ports();
            return Ok(Tree::of(Expr::Test(Test::Autobound(ports))));
        }
        let mut token = self.next()?;
        self.push()?; // "nothing" is a symbol as well
        let compare = match token {
            Some(Token::Compare(compare)) if keyword.can_be(compare) => {
                token = self.next()?;
                compare
            }
            _ => Compare::Equal,
        };
        let Some(Token::Word(word)) = token else {
            return Err(self.unexpected(keyword.value()));
        };
        self.push()?;
        self.symbols -= 2; // keyword, operator, word -> value
        Ok(Tree::of(word.compared(keyword, compare)))
    }

    fn next(&mut self) -> Result<Option<Token>, ParseError> {
        self.before = self.text.take();
        let Some(text) = self.lexer.token()? else {
            return Ok(None);
        };
        let token = match text.as_str() {
            "!" | "not" => Token::Not,
            "&" | "&&" | "and" => Token::Join(Join::And),
            "|" | "||" | "or" => Token::Join(Join::Or),
            "(" => Token::Open,
            ")" => Token::Close,
            "dst" => self.keyword(Keyword::Host(Side::Destination)),
            "src" => self.keyword(Keyword::Host(Side::Source)),
            "dport" => self.keyword(Keyword::Port(Side::Destination)),
            "sport" => self.keyword(Keyword::Port(Side::Source)),
            "dev" => self.keyword(Keyword::Device),
            "fwmark" => self.keyword(Keyword::Mark),
            "cgroup" => self.keyword(Keyword::Cgroup),
            "autobound" => self.keyword(Keyword::Autobound),
            ">=" | "ge" | "geq" => Token::Compare(Compare::GreaterOrEqual),
            "<=" | "le" | "leq" => Token::Compare(Compare::LessOrEqual),
            "!=" | "ne" | "neq" => Token::Compare(Compare::NotEqual),
            "=" | "==" | "eq" => Token::Compare(Compare::Equal),
            ">" | "gt" => Token::Compare(Compare::Greater),
            "<" | "lt" => Token::Compare(Compare::Less),
            word => Token::Word(self.word(word)?),
        };
        self.text = Some(text);
        Ok(Some(token))
    }

    fn keyword(&mut self, keyword: Keyword) -> Token {
        self.keyword = Some(keyword);
        Token::Keyword(keyword)
    }

    /// Parses a word. Errors in it come before the check whether a word is allowed here.
    fn word(&mut self, word: &str) -> Result<Word, ParseError> {
        let test = match self.keyword {
            Some(Keyword::Device) => {
                device(word, self.resolve).ok_or_else(|| ParseError::Device(word.into()))
            }
            Some(Keyword::Mark) => mark(word).ok_or_else(|| ParseError::Mark(word.into())),
            Some(Keyword::Cgroup) => {
                cgroup(word, self.resolve).ok_or_else(|| ParseError::Cgroup(word.into()))
            }
            keyword => {
                let is_port = matches!(keyword, Some(Keyword::Port(_)));
                let host = self.reader.read(word, is_port);
                return host.map(Word::Host).map_err(|error| ParseError::Host {
                    word: word.into(),
                    error,
                });
            }
        };
        test.map(Word::Other)
    }

    /// Pushes a symbol on bison's stack.
    fn push(&mut self) -> Result<(), ParseError> {
        self.symbols += 1;
        if self.symbols < SYMBOLS_MAX {
            Ok(())
        } else {
            Err(ParseError::TooDeep)
        }
    }

    fn unexpected(&mut self, expected: &'static str) -> ParseError {
        ParseError::Syntax {
            expected,
            after: self.before.take(),
            found: self.text.take(),
        }
    }
}

impl Tree {
    const fn of(expr: Expr) -> Self {
        Self { expr, depth: 1 }
    }
}

impl Keyword {
    const fn can_be(self, compare: Compare) -> bool {
        match self {
            Self::Host(_) => matches!(compare, Compare::Equal),
            Self::Port(_) => true,
            Self::Device | Self::Mark | Self::Cgroup => {
                matches!(compare, Compare::Equal | Compare::NotEqual)
            }
            Self::Autobound => false,
        }
    }

    /// Returns what has to follow the keyword.
    const fn value(self) -> &'static str {
        match self {
            Self::Host(_) => "an address",
            Self::Port(_) => "a port",
            Self::Device => "an interface",
            Self::Mark => "a mark",
            Self::Cgroup => "the path of a cgroup",
            Self::Autobound => "nothing",
        }
    }
}

impl Word {
    fn compared(self, keyword: Keyword, compare: Compare) -> Expr {
        let (side, host) = match (self, keyword) {
            (Self::Other(test), _) => {
                let test = Expr::Test(test);
                return if compare.is_negated() { test.not() } else { test };
            }
            (Self::Host(host), Keyword::Host(side) | Keyword::Port(side)) => (side, host),
            // A host word is only parsed after these two keywords; the side does not matter.
            (Self::Host(host), _) => (Side::Source, host),
        };
        let port = host.port();
        match compare {
            Compare::Equal => Expr::Test(Test::Host(side, host)),
            Compare::NotEqual => Expr::Test(Test::Host(side, host)).not(),
            Compare::GreaterOrEqual => Expr::Test(Test::PortAtLeast(side, port)),
            Compare::LessOrEqual => Expr::Test(Test::PortAtMost(side, port)),
            Compare::Greater => Expr::Test(Test::PortAtMost(side, port)).not(),
            Compare::Less => Expr::Test(Test::PortAtLeast(side, port)).not(),
        }
    }
}

/// Parses as `parse_devcond()`.
fn device(word: &str, resolve: &dyn Resolve) -> Option<Test> {
    let named = host::interface_index(word, resolve).filter(|&index| index != 0);
    named.or_else(|| number::unsigned(word)).map(Test::Device)
}

/// Parses as `parse_markmask()`, which ignores trailing text.
fn mark(word: &str) -> Option<Test> {
    let (mark, rest) = number::scan(word)?;
    let mask = if word.contains('/') {
        number::scan(rest.strip_prefix('/')?)?.0
    } else {
        u32::MAX
    };
    Some(Test::Mark { mark, mask })
}

/// Parses as `parse_cgroupcond()`.
fn cgroup(word: &str, resolve: &dyn Resolve) -> Option<Test> {
    let id = resolve.cgroup(word).filter(|&id| id != CgroupId(0))?;
    let path = word.into();
    Some(Test::Cgroup { id, path })
}

/// bison's `YYMAXDEPTH` is 10,000 states, one of which exists before any symbol.
const SYMBOLS_MAX: usize = 9_999;

/// Maximum depth of a tree, for everything that recurses over it.
pub(super) const DEPTH_MAX: usize = crate::condition::DEPTH_MAX;

#[cfg(test)]
mod tests;
