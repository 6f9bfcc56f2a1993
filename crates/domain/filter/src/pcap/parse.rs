//! The parser, by libpcap's grammar.

use super::Link;
use super::lexer::{Lexer, Token};
use super::primitive::{Carrier, Direction, Kind, Proto, Qualifiers};
use super::tree::{Comparison, Load, Node};
use crate::{ParseError, Resolve};
use sockeye_model::Protocol;
use std::net::IpAddr;
use std::ops::Range;

pub(super) type Parsed<T> = Result<T, ParseError>;

/// A parser. Conditions are generated in the order of the text, since `vlan` moves the offsets of everything after it.
pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) link: Link,
    /// Offset of the number of the next protocol; `None`: it is in the packet's metadata
    pub(super) type_at: Option<u32>,
    /// Offset of the payload of the link layer
    pub(super) payload: u32,
    /// Whether the next VLAN tag is in the packet's metadata
    pub(super) is_tag_offloaded: bool,
    /// Whether there was a `vlan`
    pub(super) looks_for_tags: bool,
    /// The header before the payload
    pub(super) carrier: Carrier,
    names: &'a dyn Resolve,
    depth: u32,
}

impl<'a> Parser<'a> {
    pub(super) const fn new(
        text: &'a str,
        link: Link,
        is_tag_offloaded: bool,
        names: &'a dyn Resolve,
    ) -> Self {
        let (type_at, payload) = match link {
            Link::Ethernet | Link::EthernetSocket => (Some(12), 14),
            Link::Raw => (None, 0),
            Link::Cooked => (Some(0), 20),
            Link::CookedSocket => (None, 0),
        };
        Self {
            lexer: Lexer::new(text),
            link,
            type_at,
            payload,
            is_tag_offloaded,
            looks_for_tags: false,
            carrier: Carrier::Link,
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
        Ok((Some(node), self.looks_for_tags))
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
            let before = self.lexer;
            let state = (
                self.type_at,
                self.payload,
                self.is_tag_offloaded,
                self.looks_for_tags,
                self.carrier,
            );
            match self.name(q) {
                Ok(node) if !self.continues_as_arithmetic() => return Ok((node, inherited)),
                Err(error) if !self.is_a_term(before) => return Err(error),
                _ => {
                    self.lexer = before;
                    (
                        self.type_at,
                        self.payload,
                        self.is_tag_offloaded,
                        self.looks_for_tags,
                        self.carrier,
                    ) = state;
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
                    return Ok((self.broadcast(Some(proto), span)?, None));
                }
                Token::Word("multicast") => {
                    let (_, span) = self.lexer.next();
                    return Ok((self.multicast(Some(proto), span)?, None));
                }
                Token::Word(word) if is_qualifier(word) => {}
                _ => {
                    let node = self.protocol(proto);
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
            "broadcast" => self.broadcast(None, span),
            "multicast" => self.multicast(None, span),
            "less" => {
                let most = self.number()?;
                Ok(Node::Test(Load::Len, u32::MAX, Comparison::Greater, most).not())
            }
            "greater" => {
                let least = self.number()?;
                Ok(Node::Test(Load::Len, u32::MAX, Comparison::GreaterOrEqual, least))
            }
            "inbound" | "outbound" => {
                let Some(load) = self.packet_type() else {
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
                match self.link {
                    Link::Cooked => Ok(Node::equal(Load::At(4, super::tree::Size::Word), index)),
                    Link::CookedSocket | Link::EthernetSocket => Ok(Node::equal(Load::Interface, index)),
                    _ => Err(self.expected_at(span, "something else: packets have no interface here")),
                }
            }
            "vlan" => {
                let id = self.optional_number(0xfff, "the number of a VLAN, up to 4095")?;
                self.vlan(id, span)
            }
            "mpls" => {
                let label = self.optional_number(0xf_ffff, "a label, up to 1048575")?;
                self.mpls(label, span)
            }
            "pppoed" => self.pppoe_discovery(span),
            "pppoes" => {
                let id = self.optional_number(0xffff, "the number of a session, up to 65535")?;
                self.pppoe_session(id, span)
            }
            word => {
                let mut error = self.unexpected(&Token::Word(word), span, BEGINNINGS);
                error.hint = match UNSUPPORTED.iter().find(|(words, _)| words.contains(&word)) {
                    Some((_, instead)) => Some(format!("tcpdump knows '{word}', this does not: {instead}")),
                    None => crate::error::nearest(word, KEYWORDS.iter().copied()),
                };
                Err(error)
            }
        }
    }

    /// Parses a name or number, several of them in parentheses, or `not` one.
    fn name(&mut self, q: Qualifiers) -> Parsed<Node> {
        self.nested(|parser| {
            let (token, span) = parser.lexer.next();
            match token {
                Token::Word("not") => Ok(parser.name(q)?.not()),
                Token::Symbol("(") => {
                    let mut node = parser.name(q)?;
                    loop {
                        let (token, span) = parser.lexer.next();
                        node = match token {
                            Token::Symbol(")") => return Ok(node),
                            Token::Word("and") => node.and(parser.name(q)?),
                            Token::Word("or") => node.or(parser.name(q)?),
                            token => return Err(parser.unexpected(&token, span, &["')'", "'and'", "'or'"])),
                        };
                    }
                }
                token => parser.named(q, &token, span),
            }
        })
    }

    fn named(&mut self, q: Qualifiers, token: &Token<'a>, span: Range<usize>) -> Parsed<Node> {
        let is_place = matches!(q.kind, Kind::Default | Kind::Host | Kind::Net);
        match (q.kind, token) {
            (_, Token::Mac(mac))
                if q.proto == Some(Proto::Link) && matches!(q.kind, Kind::Default | Kind::Host) =>
            {
                self.station(q.direction, *mac, span)
            }
            (_, Token::Mac(_)) => Err(self.unexpected(
                token,
                span,
                &["'ether' before an Ethernet address: ether host 02:00:00:00:00:01"],
            )),
            (_, Token::Dotted(value, parts)) if is_place => {
                let shift = 32 - 8 * parts;
                let mut mask = u32::MAX << shift;
                let address = value << shift;
                let (end, is_given) = self.mask(q, &mut mask, span.clone())?;
                if is_given && address & !mask != 0 {
                    return Err(self.expected_at(span.start..end, "a network without bits beyond its mask"));
                }
                self.network(q, address, mask, span)
            }
            (_, Token::Ipv6(ip)) if is_place => {
                let mut bits = 128;
                let mut end = span.end;
                if self.takes_symbol("/") {
                    let (length, length_span) = self.lexer.next();
                    bits = match length {
                        Token::Number(bits @ 0..=128) if q.kind == Kind::Net => bits,
                        _ if q.kind != Kind::Net => {
                            return Err(self.expected_at(
                                span.start..length_span.end,
                                "'net' before a network: net fd00::/8",
                            ));
                        }
                        _ => return Err(self.unexpected(&length, length_span, &["a length of 0 to 128"])),
                    };
                    end = length_span.end;
                }
                let beyond = u128::MAX.checked_shr(bits).unwrap_or(0);
                if ip.to_bits() & beyond != 0 {
                    return Err(self.expected_at(span.start..end, "a network without bits beyond its length"));
                }
                self.network6(q, *ip, bits, span)
            }
            (Kind::Net, Token::Number(number)) => {
                let (mut address, mut mask) = (*number, u32::MAX);
                while address != 0 && address & 0xff00_0000 == 0 {
                    address <<= 8;
                    mask <<= 8;
                }
                // `net 10/8`
                if self.lexer.peek().0 == Token::Symbol("/") {
                    self.mask(q, &mut mask, span.clone())?;
                }
                self.network(q, address, mask, span)
            }
            (Kind::Default | Kind::Host, Token::Number(number)) if *number > 0xffff => {
                self.network(q, *number, u32::MAX, span)
            }
            (Kind::Port | Kind::PortRange, Token::Number(port)) => {
                let numbers = self.port_protocols(q, &span)?;
                if *port > 0xffff {
                    return Err(self.unexpected(token, span, &["a port up to 65535"]));
                }
                Ok(self.ports(q.direction, numbers, (*port, *port)))
            }
            (Kind::Proto, Token::Number(number)) => self.numbered(q.proto, *number, span),
            (Kind::Proto, Token::Word(word) | Token::Name(word)) => {
                let number = self.protocol_number(q.proto, word);
                let number = number.ok_or_else(|| {
                    self.unexpected(token, span.clone(), &["the number or name of a protocol"])
                })?;
                self.numbered(q.proto, number, span)
            }
            (Kind::Port, Token::Word(word) | Token::Name(word)) => {
                let (port, numbers) = self.service(q, word, &span)?;
                Ok(self.ports(q.direction, numbers, (port, port)))
            }
            (Kind::PortRange, Token::Word(word) | Token::Name(word)) => {
                let numbers = self.port_protocols(q, &span)?;
                let ends = word.split_once('-').and_then(|(low, high)| {
                    let port = |text: &str| text.parse::<u16>().ok().map(u32::from);
                    Some((port(low)?, port(high)?))
                });
                let (low, high) =
                    ends.ok_or_else(|| self.unexpected(token, span, &["two ports, as in 8000-8080"]))?;
                Ok(self.ports(q.direction, numbers, (low.min(high), low.max(high))))
            }
            (Kind::Default | Kind::Host, Token::Word(word) | Token::Name(word))
                if !KEYWORDS.contains(word) || matches!(token, Token::Name(_)) =>
            {
                let addresses = self.names.host(word);
                let mut node: Option<Node> = None;
                for address in addresses {
                    let one = match address {
                        IpAddr::V4(ip) if q.proto != Some(Proto::Ip6) => {
                            self.network(q, ip.to_bits(), u32::MAX, span.clone())?
                        }
                        IpAddr::V6(ip) if q.proto.is_none_or(|proto| proto == Proto::Ip6) => {
                            self.network6(q, ip, 128, span.clone())?
                        }
                        _ => continue,
                    };
                    node = Some(match node {
                        Some(node) => node.or(one),
                        None => one,
                    });
                }
                node.ok_or_else(|| {
                    self.unexpected(
                        token,
                        span,
                        &["an address, or the name of a host that can be found"],
                    )
                })
            }
            (kind, _) => {
                let expected: &[&str] = match kind {
                    Kind::Default if q.proto.is_some() => &["host", "net", "port", "portrange", "an address"],
                    Kind::Default => &["host", "port", "net", "an address"],
                    Kind::Host if q.proto == Some(Proto::Link) => &["an Ethernet address"],
                    Kind::Host => &["an address", "the name of a host"],
                    Kind::Net => &["a network, as in 10.0.0.0/8"],
                    Kind::Port => &["a port", "the name of a service"],
                    Kind::PortRange => &["two ports, as in 8000-8080"],
                    Kind::Proto => &["the number or name of a protocol"],
                };
                Err(self.unexpected(token, span, expected))
            }
        }
    }

    /// Parses `/N` or `mask M` after an IPv4 address; returns its end, and whether there was one.
    fn mask(&mut self, q: Qualifiers, mask: &mut u32, span: Range<usize>) -> Parsed<(usize, bool)> {
        let is_slash = self.takes_symbol("/");
        if !is_slash && self.lexer.peek().0 != Token::Word("mask") {
            return Ok((span.end, false));
        }
        if !is_slash {
            self.lexer.next();
        }
        let (token, mask_span) = self.lexer.next();
        if q.kind != Kind::Net {
            return Err(self.expected_at(
                span.start..mask_span.end,
                "'net' before a network: net 10.0.0.0/8",
            ));
        }
        *mask = match token {
            Token::Number(bits @ 0..=32) if is_slash => u32::MAX.checked_shl(32 - bits).unwrap_or(0),
            Token::Dotted(value, parts) if !is_slash => value << (32 - 8 * parts),
            token => {
                let expected = if is_slash {
                    "a length of 0 to 32"
                } else {
                    "a mask, as in 255.255.0.0"
                };
                return Err(self.unexpected(&token, mask_span, &[expected]));
            }
        };
        Ok((mask_span.end, true))
    }

    fn port_protocols(&self, q: Qualifiers, span: &Range<usize>) -> Parsed<&'static [u32]> {
        match q.proto {
            None => Ok(&[6, 17, 132]),
            Some(Proto::Tcp) => Ok(&[6]),
            Some(Proto::Udp) => Ok(&[17]),
            Some(Proto::Sctp) => Ok(&[132]),
            Some(_) => Err(self.expected_at(span.clone(), "no port: tcp, udp and sctp have ports")),
        }
    }

    /// Finds the port of a service. A service that only one protocol has implies that protocol.
    fn service(&self, q: Qualifiers, word: &str, span: &Range<usize>) -> Parsed<(u32, &'static [u32])> {
        let numbers = self.port_protocols(q, span)?;
        let of = |protocol| self.names.service_of(protocol, word).map(u32::from);
        let found = match q.proto {
            Some(Proto::Udp) => of(Protocol::Udp).map(|port| (port, numbers)),
            Some(_) => of(Protocol::Tcp).map(|port| (port, numbers)),
            None => match (of(Protocol::Tcp), of(Protocol::Udp)) {
                (Some(tcp), Some(udp)) if tcp == udp => Some((tcp, numbers)),
                (Some(tcp), _) => Some((tcp, &[6][..])),
                (None, Some(udp)) => Some((udp, &[17][..])),
                (None, None) => None,
            },
        };
        found.ok_or_else(|| {
            self.unexpected(
                &Token::Word(word),
                span.clone(),
                &["a port", "the name of a service"],
            )
        })
    }

    fn protocol_number(&self, proto: Option<Proto>, word: &str) -> Option<u32> {
        if proto == Some(Proto::Link) {
            return Some(match word {
                "ip" => 0x0800,
                "ip6" => 0x86dd,
                "arp" => 0x0806,
                "rarp" => 0x8035,
                _ => return None,
            });
        }
        match Proto::of(word).and_then(Proto::number) {
            Some(number) => Some(number),
            None if word == "ipv6-icmp" => Some(58),
            None if word == "gre" => Some(47),
            None => self.names.service_of(Protocol::Raw, word).map(u32::from),
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
                Token::Word(word) => KEYWORDS.contains(&word),
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

fn is_qualifier(word: &str) -> bool {
    ["src", "dst", "host", "net", "port", "portrange", "proto"].contains(&word)
}

/// Whether a term may begin with this word.
fn is_beginning(word: &str) -> bool {
    word == "not" || is_qualifier(word) || Proto::of(word).is_some() || OTHERS.contains(&word)
}

/// What may stand at the beginning of a condition.
const BEGINNINGS: &[&str] = &["host", "net", "port", "tcp", "udp", "ip", "another condition"];

const OTHERS: &[&str] = &[
    "broadcast",
    "multicast",
    "less",
    "greater",
    "inbound",
    "outbound",
    "ifindex",
    "vlan",
    "mpls",
    "pppoed",
    "pppoes",
];

const KEYWORDS: &[&str] = &[
    "and",
    "or",
    "not",
    "src",
    "dst",
    "host",
    "net",
    "port",
    "portrange",
    "proto",
    "mask",
    "ether",
    "link",
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "igmp",
    "igrp",
    "pim",
    "vrrp",
    "carp",
    "ah",
    "esp",
    "broadcast",
    "multicast",
    "less",
    "greater",
    "inbound",
    "outbound",
    "ifindex",
    "vlan",
    "mpls",
    "pppoed",
    "pppoes",
    "len",
    "length",
];

/// Keywords of libpcap's language that are not supported, and what to write instead.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &["gateway"],
        "write 'ether host' with its Ethernet address, and 'not host' with its IP address",
    ),
    (
        &["protochain"],
        "'ip6 proto N' looks at the first header, ip6[40] at what lies behind it",
    ),
    (&["geneve"], "'udp port 6081' finds it from outside"),
    (&["vxlan"], "'udp port 4789' finds it from outside"),
    (
        &[
            "iso", "clnp", "esis", "es-is", "isis", "is-is", "stp", "ipx", "netbeui", "llc",
        ],
        "such frames hold a length up to 1500 where others hold a protocol: ether[12:2] <= 1500 finds all of them",
    ),
    (
        &["decnet", "atalk", "aarp", "lat", "sca", "moprc", "mopdl"],
        "'ether proto' with its number finds it",
    ),
    (
        &[
            "type",
            "subtype",
            "dir",
            "direction",
            "radio",
            "addr1",
            "addr2",
            "addr3",
            "addr4",
            "ra",
            "ta",
        ],
        "it is about frames of Wi-Fi, which are not captured here",
    ),
    (
        &[
            "ifname",
            "on",
            "action",
            "reason",
            "rnr",
            "rulenum",
            "rset",
            "ruleset",
            "srnr",
            "subrulenum",
        ],
        "it is about pf's log; an interface is chosen by -i, or by 'ifindex N'",
    ),
    (
        &[
            "vpi",
            "vci",
            "lane",
            "oamf4s",
            "oamf4e",
            "oamf4",
            "oam",
            "metac",
            "bcc",
            "connectmsg",
            "metaconnect",
            "sio",
            "opc",
            "dpc",
            "sls",
        ],
        "it is about ATM and SS7",
    ),
    (&["byte"], "proto[offset] does the same"),
];

const DEPTH_MAX: u32 = 100;
