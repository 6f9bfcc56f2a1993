//! The parser, by libpcap's grammar.

use super::Link;
use super::headers::{Headers, Refusal};
use super::keywords::{BEGINNINGS, hint, is_beginning, is_keyword, is_qualifier};
use super::lexer::{Lexer, Token};
use super::qualifiers::{Direction, Kind, Proto, Qualifiers};
use super::tree::{Comparison, Load, Node, Size};
use crate::{ParseError, Resolve};
use std::ops::Range;

pub(super) type Parsed<T> = Result<T, ParseError>;

/// A parser. Conditions are generated in the order of the text, since `vlan` moves the offsets of everything after it.
pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) headers: Headers,
    pub(super) names: &'a dyn Resolve,
    depth: u32,
}

impl<'a> Parser<'a> {
    pub(super) const fn new(
        text: &'a str,
        link: Link,
        is_tag_offloaded: bool,
        names: &'a dyn Resolve,
    ) -> Self {
        Self {
            lexer: Lexer::new(text),
            headers: Headers::new(link, is_tag_offloaded),
            names,
            depth: 0,
        }
    }

    /// Parses the whole text; returns also whether it contains `vlan`.
    pub(super) fn run(mut self) -> Parsed<(Option<Node>, bool)> {
        if self.lexer.peek().0 == Token::End {
            return Ok((None, false));
        }
        let (node, _) = self.expression(None)?;
        let (token, span) = self.lexer.peek();
        if token != Token::End {
            return Err(self.unexpected(&token, span, &["'and'", "'or'"]));
        }
        Ok((Some(node), self.headers.looks_for_tags))
    }

    /// Parses terms joined by `and` and `or`, which have equal precedence; returns also the qualifiers that the next term inherits.
    fn expression(&mut self, inherited: Option<Qualifiers>) -> Parsed<(Node, Option<Qualifiers>)> {
        self.nested(|parser| {
            let (mut node, mut inherited) = parser.term(inherited)?;
            loop {
                let (token, _) = parser.lexer.peek();
                let is_and = match token {
                    Token::Word("and") => true,
                    Token::Word("or") => false,
                    // Two conditions without a word between them are joined by `and`.
                    Token::Word(word) if is_beginning(word) => {
                        let (next, now) = parser.term(inherited)?;
                        (node, inherited) = (node.and(next), now);
                        continue;
                    }
                    _ => return Ok((node, inherited)),
                };
                parser.lexer.next();
                let (next, now) = parser.term_or_name(inherited)?;
                node = if is_and { node.and(next) } else { node.or(next) };
                inherited = now;
            }
        })
    }

    /// Parses a term after `and` or `or`: also a bare name or number, which inherits the qualifiers.
    fn term_or_name(&mut self, inherited: Option<Qualifiers>) -> Parsed<(Node, Option<Qualifiers>)> {
        if let Some(q) = inherited.filter(|_| !self.begins_with_keyword()) {
            let (before, headers) = (self.lexer, self.headers);
            match self.name(q) {
                Ok(node) if !self.continues_as_arithmetic() => return Ok((node, inherited)),
                Err(error) if !self.is_a_term(before) => return Err(error),
                _ => {
                    self.lexer = before;
                    self.headers = headers;
                }
            }
        }
        self.term(inherited)
    }

    fn term(&mut self, inherited: Option<Qualifiers>) -> Parsed<(Node, Option<Qualifiers>)> {
        self.nested(|parser| {
            let (token, span) = parser.lexer.peek();
            match token {
                Token::Word("not") => {
                    parser.lexer.next();
                    let (node, inherited) = parser.term_or_name(inherited)?;
                    Ok((node.not(), inherited))
                }
                Token::Symbol("(") => {
                    // An arithmetic expression in parentheses, or conditions?
                    let before = parser.lexer;
                    match parser.relation() {
                        Ok(node) => return Ok((node, None)),
                        Err(error) if parser.deep_inside(&error, before) => return Err(error),
                        Err(_) => parser.lexer = before,
                    }
                    parser.lexer.next();
                    let (node, _) = parser.expression(inherited)?;
                    parser.expect_symbol(")")?;
                    Ok((node, inherited))
                }
                Token::Number(_) | Token::Symbol("-") | Token::Word("len" | "length") => {
                    Ok((parser.relation()?, None))
                }
                Token::Word(word) => parser.primitive(word),
                token => Err(parser.unexpected(&token, span, BEGINNINGS)),
            }
        })
    }

    /// Parses a term that begins with a keyword.
    fn primitive(&mut self, word: &'a str) -> Parsed<(Node, Option<Qualifiers>)> {
        let before = self.lexer;
        let (_, span) = self.lexer.next();
        let proto = Proto::of(word);
        if let Some(proto) = proto {
            match self.lexer.peek().0 {
                Token::Symbol("[") => {
                    self.lexer = before;
                    return Ok((self.relation()?, None));
                }
                Token::Word("broadcast") => {
                    let (_, span) = self.lexer.next();
                    return Ok((self.allowed(span, self.headers.broadcast(Some(proto)))?, None));
                }
                Token::Word("multicast") => {
                    let (_, span) = self.lexer.next();
                    return Ok((self.allowed(span, self.headers.multicast(Some(proto)))?, None));
                }
                Token::Word(word) if is_qualifier(word) => {}
                _ => {
                    let node = self.headers.protocol(proto);
                    let (token, next) = self.lexer.peek();
                    let node = node.ok_or_else(|| {
                        self.unexpected(
                            &token,
                            next,
                            &["host", "src", "dst", "proto", "broadcast", "multicast"],
                        )
                    })?;
                    return Ok((node, None));
                }
            }
        } else if !is_qualifier(word) {
            return Ok((self.other(word, span)?, None));
        } else {
            self.lexer = before;
        }
        let direction = self.direction();
        let kind = match self.lexer.peek().0 {
            Token::Word("host") => Kind::Host,
            Token::Word("net") => Kind::Net,
            Token::Word("port") => Kind::Port,
            Token::Word("portrange") => Kind::PortRange,
            Token::Word("proto") if direction.is_none() => Kind::Proto,
            _ => Kind::Default,
        };
        if kind != Kind::Default {
            self.lexer.next();
        }
        let q = Qualifiers {
            proto,
            direction,
            kind,
        };
        Ok((self.name(q)?, Some(q)))
    }

    fn direction(&mut self) -> Option<Direction> {
        let word = |parser: &Self| match parser.lexer.peek().0 {
            Token::Word(word) => word,
            _ => "",
        };
        let (first, other) = match word(self) {
            "src" => (Direction::Source, "dst"),
            "dst" => (Direction::Destination, "src"),
            _ => return None,
        };
        self.lexer.next();
        let before = self.lexer;
        let both = match word(self) {
            "or" => Direction::Either,
            "and" => Direction::Both,
            _ => return Some(first),
        };
        self.lexer.next();
        if word(self) == other {
            self.lexer.next();
            return Some(both);
        }
        self.lexer = before;
        Some(first)
    }

    /// Parses a condition without a name after it.
    fn other(&mut self, word: &'a str, span: Range<usize>) -> Parsed<Node> {
        match word {
            "broadcast" => self.allowed(span, self.headers.broadcast(None)),
            "multicast" => self.allowed(span, self.headers.multicast(None)),
            "less" => {
                let most = self.number()?;
                Ok(Node::Test(Load::Len, u32::MAX, Comparison::Greater, most).not())
            }
            "greater" => {
                let least = self.number()?;
                Ok(Node::Test(Load::Len, u32::MAX, Comparison::GreaterOrEqual, least))
            }
            "inbound" | "outbound" => {
                let Some(load) = self.headers.packet_type() else {
                    return Err(self.expected_at(span, "something else: packets have no direction here"));
                };
                let is_outgoing = Node::equal(load, super::PACKET_OUTGOING);
                Ok(if word == "outbound" {
                    is_outgoing
                } else {
                    is_outgoing.not()
                })
            }
            "ifindex" => {
                let index = self.number()?;
                match self.headers.link {
                    Link::Cooked => Ok(Node::equal(Load::At(4, Size::Word), index)),
                    Link::CookedSocket | Link::EthernetSocket => Ok(Node::equal(Load::Interface, index)),
                    _ => Err(self.expected_at(span, "something else: packets have no interface here")),
                }
            }
            "vlan" => {
                let id = self.optional_number(0xfff, "the number of a VLAN, up to 4095")?;
                let node = self.headers.vlan(id);
                self.allowed(span, node)
            }
            "mpls" => {
                let label = self.optional_number(0xf_ffff, "a label, up to 1048575")?;
                let node = self.headers.mpls(label);
                self.allowed(span, node)
            }
            "pppoed" => self.allowed(span, self.headers.pppoe_discovery()),
            "pppoes" => {
                let id = self.optional_number(0xffff, "the number of a session, up to 65535")?;
                let node = self.headers.pppoe_session(id);
                self.allowed(span, node)
            }
            word => {
                let mut error = self.unexpected(&Token::Word(word), span, BEGINNINGS);
                error.hint = hint(word);
                Err(error)
            }
        }
    }

    fn number(&mut self) -> Parsed<u32> {
        match self.lexer.next() {
            (Token::Number(number), _) => Ok(number),
            (token, span) => Err(self.unexpected(&token, span, &["a number"])),
        }
    }

    /// Parses an optional number after `vlan` and the like.
    fn optional_number(&mut self, most: u32, expected: &str) -> Parsed<Option<u32>> {
        if !matches!(self.lexer.peek().0, Token::Number(_) | Token::Symbol("(")) {
            return Ok(None);
        }
        match self.number_in_parentheses()? {
            (number, _) if number <= most => Ok(Some(number)),
            (_, span) => Err(self.expected_at(span, expected)),
        }
    }

    fn number_in_parentheses(&mut self) -> Parsed<(u32, Range<usize>)> {
        let mut open = 0;
        while self.takes_symbol("(") {
            open += 1;
        }
        let (_, span) = self.lexer.peek();
        let number = self.number()?;
        for _ in 0..open {
            self.expect_symbol(")")?;
        }
        Ok((number, span))
    }

    /// Whether a keyword follows, after `not` and parentheses only.
    fn begins_with_keyword(&self) -> bool {
        let mut lexer = self.lexer;
        loop {
            return match lexer.next().0 {
                Token::Symbol("(") | Token::Word("not") => continue,
                Token::Word(word) => is_keyword(word),
                _ => false,
            };
        }
    }

    /// Whether the supposed name is the beginning of an arithmetic expression.
    fn continues_as_arithmetic(&self) -> bool {
        matches!(self.lexer.peek().0, Token::Symbol(symbol) if !matches!(symbol, "(" | ")" | "]"))
    }

    /// Whether a term may begin here.
    fn is_a_term(&self, mut lexer: Lexer<'a>) -> bool {
        loop {
            return match lexer.next().0 {
                Token::Symbol("(") | Token::Word("not") => continue,
                Token::Symbol("-") => true,
                Token::Word(word) => is_beginning(word) || word == "len" || word == "length",
                Token::Number(_) => true,
                _ => false,
            };
        }
    }

    /// Whether an error is inside an arithmetic expression, and not the result of taking something else for one.
    fn deep_inside(&self, error: &ParseError, mut lexer: Lexer<'a>) -> bool {
        // `(tcp[`
        loop {
            return match lexer.next().0 {
                Token::Symbol("(") => continue,
                Token::Word(word) if Proto::of(word).is_some() => {
                    let is_load = lexer.next().0 == Token::Symbol("[");
                    // After a whole relation anything may follow.
                    is_load && error.span.start < self.relation_end(lexer)
                }
                _ => false,
            };
        }
    }

    /// Returns the end of the open bracket.
    fn relation_end(&self, mut lexer: Lexer<'a>) -> usize {
        let mut open = 1;
        loop {
            let (token, span) = lexer.next();
            match token {
                Token::Symbol("[") => open += 1,
                Token::Symbol("]") => open -= 1,
                Token::End => return usize::MAX,
                _ => {}
            }
            if open == 0 {
                return span.end;
            }
        }
    }

    pub(super) fn takes_symbol(&mut self, symbol: &str) -> bool {
        let is_it = matches!(self.lexer.peek().0, Token::Symbol(found) if found == symbol);
        if is_it {
            self.lexer.next();
        }
        is_it
    }

    pub(super) fn expect_symbol(&mut self, symbol: &str) -> Parsed<()> {
        if self.takes_symbol(symbol) {
            return Ok(());
        }
        let (token, span) = self.lexer.peek();
        Err(self.unexpected(&token, span, &[&format!("'{symbol}'")]))
    }

    /// Runs a nested parser, up to a depth that the stack allows.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub(super) fn too_deep(&self) -> ParseError {
        self.error_here("fewer conditions within each other")
    }

    /// Creates an error at the current position.
    pub(super) fn error_here(&self, expected: &str) -> ParseError {
        let (_, span) = self.lexer.peek();
        self.expected_at(span, expected)
    }

    /// Returns the test, or an error if it makes no sense for the headers here.
    pub(super) fn allowed(&self, span: Range<usize>, test: Result<Node, Refusal>) -> Parsed<Node> {
        test.map_err(|expected| self.expected_at(span, expected))
    }

    pub(super) fn expected_at(&self, span: Range<usize>, expected: &str) -> ParseError {
        let found = self.lexer.text.get(span.clone()).filter(|text| !text.is_empty());
        ParseError {
            found: found.map(str::to_owned),
            span,
            expected: vec![expected.to_owned()],
            after: None,
            hint: None,
        }
    }

    pub(super) fn unexpected(&self, token: &Token<'_>, span: Range<usize>, expected: &[&str]) -> ParseError {
        let before = self.lexer.text.get(..span.start).unwrap_or_default();
        let after = before.split_ascii_whitespace().next_back();
        ParseError {
            found: (*token != Token::End)
                .then(|| self.lexer.text.get(span.clone()).unwrap_or_default().to_owned()),
            span,
            expected: expected.iter().map(|&text| text.to_owned()).collect(),
            after: after.map(str::to_owned),
            hint: None,
        }
    }
}

const DEPTH_MAX: u32 = 100;
