//! Names and numbers after the qualifiers: addresses, networks, ports, protocols.

use super::keywords::is_keyword;
use super::lexer::Token;
use super::parse::{Parsed, Parser};
use super::qualifiers::{Kind, Proto, Qualifiers};
use super::tree::Node;
use sockeye_model::Protocol;
use std::net::IpAddr;
use std::ops::Range;

impl<'a> Parser<'a> {
    /// Parses a name or number, several of them in parentheses, or `not` one.
    pub(super) fn name(&mut self, q: Qualifiers) -> Parsed<Node> {
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
                self.allowed(span, self.headers.station(q.direction, *mac))
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
                self.allowed(span, self.headers.network(q, address, mask))
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
                self.allowed(span, self.headers.network6(q, *ip, bits))
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
                self.allowed(span, self.headers.network(q, address, mask))
            }
            (Kind::Default | Kind::Host, Token::Number(number)) if *number > 0xffff => {
                self.allowed(span, self.headers.network(q, *number, u32::MAX))
            }
            (Kind::Port | Kind::PortRange, Token::Number(port)) => {
                let numbers = self.port_protocols(q, &span)?;
                if *port > 0xffff {
                    return Err(self.unexpected(token, span, &["a port up to 65535"]));
                }
                Ok(self.headers.ports(q.direction, numbers, (*port, *port)))
            }
            (Kind::Proto, Token::Number(number)) => {
                self.allowed(span, self.headers.numbered(q.proto, *number))
            }
            (Kind::Proto, Token::Word(word) | Token::Name(word)) => {
                let number = self.protocol_number(q.proto, word);
                let number = number.ok_or_else(|| {
                    self.unexpected(token, span.clone(), &["the number or name of a protocol"])
                })?;
                self.allowed(span, self.headers.numbered(q.proto, number))
            }
            (Kind::Port, Token::Word(word) | Token::Name(word)) => {
                let (port, numbers) = self.service(q, word, &span)?;
                Ok(self.headers.ports(q.direction, numbers, (port, port)))
            }
            (Kind::PortRange, Token::Word(word) | Token::Name(word)) => {
                let numbers = self.port_protocols(q, &span)?;
                let ends = word.split_once('-').and_then(|(low, high)| {
                    let port = |text: &str| text.parse::<u16>().ok().map(u32::from);
                    Some((port(low)?, port(high)?))
                });
                let (low, high) =
                    ends.ok_or_else(|| self.unexpected(token, span, &["two ports, as in 8000-8080"]))?;
                Ok(self
                    .headers
                    .ports(q.direction, numbers, (low.min(high), low.max(high))))
            }
            (Kind::Default | Kind::Host, Token::Word(word) | Token::Name(word))
                if !is_keyword(word) || matches!(token, Token::Name(_)) =>
            {
                let mut any: Option<Node> = None;
                for address in self.names.host(word) {
                    let one = match address {
                        IpAddr::V4(ip) if q.proto != Some(Proto::Ip6) => {
                            self.headers.network(q, ip.to_bits(), u32::MAX)
                        }
                        IpAddr::V6(ip) if q.proto.is_none_or(|proto| proto == Proto::Ip6) => {
                            self.headers.network6(q, ip, 128)
                        }
                        _ => continue,
                    };
                    let one = self.allowed(span.clone(), one)?;
                    any = Some(match any {
                        Some(any) => any.or(one),
                        None => one,
                    });
                }
                let expected = "an address, or the name of a host that can be found";
                any.ok_or_else(|| self.unexpected(token, span, &[expected]))
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
}
