//! The parser, by the grammar of `misc/ssfilter.y` with our extensions.
//!
//! ```text
//! filter  = [ states ] [ list ]          the leading states apply to the whole list
//! list    = expr { [ "and" | "or" ] expr }     from left to right: no precedence, as in ss
//! expr    = "(" list ")" | "not" expr | states | condition
//! states  = ( "state" | "exclude" ) NAME { ( "state" | "exclude" ) NAME }
//! ```

use crate::condition::{COMPARISONS, DEPTH_MAX, EQUALITY, Head, PATTERNS, Reader};
use crate::error::nearest;
use crate::expr::{Compare, Expr, FAMILIES, Ports, Side, TIMERS, Test, TextField};
use crate::field::Field;
use crate::host;
use crate::lexer::{Token, ValueKind};
use crate::{ParseError, PeerClass, Resolve, states, words};
use sockeye_model::{ProtocolSet, StateSet, WorkloadKind};
use std::ops::Range;

pub(crate) fn parse(text: &str, resolve: &dyn Resolve) -> Result<Expr, ParseError> {
    let reader = Reader::new(text);
    let mut parser = Parser { reader, resolve };
    let expr = parser.filter()?;
    match parser.reader.lexer.next() {
        (Token::End, _) => Ok(expr),
        (_, span) => Err(parser
            .reader
            .error(span, &["'and'", "'or'", "a condition", "the end"])),
    }
}

struct Parser<'a> {
    reader: Reader<'a>,
    resolve: &'a dyn Resolve,
}

impl<'a> Parser<'a> {
    fn filter(&mut self) -> Result<Expr, ParseError> {
        match self.reader.lexer.peek().0 {
            Token::End => return Ok(Expr::All),
            Token::Word("state" | "exclude" | "excl") => {}
            _ => return self.list(None),
        }
        let states = self.expr()?;
        match self.reader.lexer.peek().0 {
            Token::End => Ok(states),
            Token::And | Token::Or => self.list(Some(states)),
            _ => Ok(states.and(self.list(None)?)),
        }
    }

    fn list(&mut self, first: Option<Expr>) -> Result<Expr, ParseError> {
        let mut expr = match first {
            Some(first) => first,
            None => self.expr()?,
        };
        let mut depth = expr.depth();
        loop {
            let (token, span) = self.reader.lexer.peek();
            let is_and = match token {
                Token::Or => false,
                Token::And | Token::Word(_) | Token::Open | Token::Not => true,
                Token::Close | Token::End => return Ok(expr),
                Token::Stray(_) => {
                    return Err(self
                        .reader
                        .error(span, &["'and'", "'or'", "a condition", "the end"]));
                }
            };
            if matches!(token, Token::And | Token::Or) {
                self.reader.lexer.next();
            }
            let right = self.expr()?;
            let level = |expr: &Expr| match (expr, is_and) {
                (Expr::And(_), true) | (Expr::Or(_), false) => 0,
                _ => 1,
            };
            depth = (depth + level(&expr)).max(right.depth() + level(&right));
            if depth + self.reader.depth > DEPTH_MAX {
                return Err(self.reader.too_deep(span));
            }
            expr = if is_and { expr.and(right) } else { expr.or(right) };
        }
    }

    fn expr(&mut self) -> Result<Expr, ParseError> {
        let (token, span) = self.reader.lexer.next();
        match token {
            Token::Open => {
                self.reader.descend(&span)?;
                let inner = self.list(None)?;
                self.reader.depth -= 1;
                match self.reader.lexer.next() {
                    (Token::Close, _) => Ok(inner),
                    (_, span) => Err(self.reader.error(span, &["')'", "'and'", "'or'"])),
                }
            }
            Token::Not => {
                self.reader.descend(&span)?;
                let inner = self.expr()?;
                self.reader.depth -= 1;
                Ok(inner.not())
            }
            Token::Word(word) => self.condition(word, span),
            _ => Err(self.reader.error(span, &["a condition", "'('", "'not'"])),
        }
    }

    fn condition(&mut self, word: &'a str, span: Range<usize>) -> Result<Expr, ParseError> {
        match word {
            "state" | "exclude" | "excl" => self.states(word),
            "src" | "local" => self.host(word, Side::Source),
            "dst" | "peer" => self.host(word, Side::Destination),
            "sport" | "local_port" => self.port(word, Side::Source),
            "dport" | "peer_port" => self.port(word, Side::Destination),
            "autobound" => {
                let ports = self.resolve.ephemeral_ports();
                let (low, high) = (*ports.start(), *ports.end());
                let ports = if low <= high {
                    Ports { low, high }
                } else {
                    Ports::NONE
                };
                Ok(Expr::Test(Test::Autobound(ports)))
            }
            "dev" | "interface" => self.equal(word, host::DEVICE, |resolve, text| {
                host::device(text, resolve).map(Test::Device)
            }),
            "fwmark" => self.equal(word, "a mark, or a mark and a mask (0x1/0xff)", |_, text| {
                let (mark, mask) = match text.split_once('/') {
                    Some((mark, mask)) => (host::signed(mark)?, host::signed(mask)?),
                    None => (host::signed(text)?, u32::MAX),
                };
                Some(Test::Fwmark { mark, mask })
            }),
            "cgroup" => self.equal(word, "the path of a cgroup v2", |resolve, text| {
                let id = resolve.cgroup(text)?;
                Some(Test::Cgroup {
                    id,
                    path: text.into(),
                })
            }),
            "proto" | "protocol" | "netid" => {
                let names = ProtocolSet::NAMES.iter().map(|(name, _)| *name);
                self.named(word, "a protocol (tcp, udp, unix, ...)", names, |text| {
                    ProtocolSet::from_name(text).map(Test::Protocol)
                })
            }
            "family" => {
                let names = FAMILIES.iter().map(|&(name, _)| name);
                self.named(word, "a family (inet, inet6, unix, ...)", names, |text| {
                    let found = FAMILIES.iter().find(|(name, _)| *name == text);
                    found.map(|&(_, family)| Test::Family(family))
                })
            }
            "timer" => {
                let names = TIMERS.iter().map(|&(name, _)| name);
                self.named(
                    word,
                    "a timer (on, keepalive, timewait, persist, off)",
                    names,
                    |text| {
                        let found = TIMERS.iter().find(|(name, _)| *name == text);
                        found.map(|&(_, kind)| Test::Timer(kind))
                    },
                )
            }
            "peers" => self.peers(word),
            "owner" | "owners" => self.text(word, TextField::Owner),
            "congestion" | "cong" => self.text(word, TextField::Congestion),
            "ulp" => self.text(word, TextField::Ulp),
            "container" => self.text(word, TextField::Workload(WorkloadKind::Container)),
            "unit" => self.text(word, TextField::Workload(WorkloadKind::Unit)),
            "exe" => self.text(word, TextField::Workload(WorkloadKind::Exe)),
            _ => match Field::named(word) {
                Some(field) => self.number(word, field),
                None => Err(self.unknown_word(word, span)),
            },
        }
    }

    /// Parses consecutive states, united and excluded as in `ss`.
    fn states(&mut self, first: &'a str) -> Result<Expr, ParseError> {
        let mut word = first;
        let mut set: Option<StateSet> = None;
        loop {
            let head = self.reader.head(word, &EQUALITY)?;
            let names = || states::NAMES.iter().map(|&(name, _)| name);
            let value = self.reader.value(&head, ValueKind::Host, "the name of a state")?;
            let named = states::named(&value.text).ok_or_else(|| {
                let mut error = self.reader.not_found(&head, &value, "the name of a state");
                error.hint = nearest(&value.text.replace('_', "-"), names());
                error
            })?;
            let added = (word == "state") != head.is_negated();
            set = Some(match set {
                None if added => named,
                Some(set) if added => set.or(named),
                // As in ss, excluded from the states of -a: bound sockets must be requested explicitly.
                None => StateSet::ALL.and(named.complement()),
                Some(set) => set.and(named.complement()),
            });
            match self.reader.lexer.peek().0 {
                Token::Word(next @ ("state" | "exclude" | "excl")) => {
                    self.reader.lexer.next();
                    word = next;
                }
                _ => return Ok(Expr::Test(Test::State(set.unwrap_or(StateSet::EMPTY)))),
            }
        }
    }

    fn host(&mut self, word: &'a str, side: Side) -> Result<Expr, ParseError> {
        let head = self.reader.head(word, &EQUALITY)?;
        let value = self.reader.value(&head, ValueKind::Host, "an address")?;
        let condition = host::parse(&value.text, side, false, self.resolve)
            .map_err(|expected| self.reader.not_found(&head, &value, expected))?;
        Ok(negated_if(&head, condition.into_expr(side)))
    }

    fn port(&mut self, word: &'a str, side: Side) -> Result<Expr, ParseError> {
        let head = self.reader.head(word, &COMPARISONS)?;
        let value = self.reader.value(&head, ValueKind::Host, "a port")?;
        let mut condition = host::parse(&value.text, side, true, self.resolve)
            .map_err(|expected| self.reader.not_found(&head, &value, expected))?;
        let compare = head.compare();
        if !matches!(compare, Compare::Equal | Compare::NotEqual) {
            // Only a single port can be compared by order, not "any port" or a range.
            let host::Condition::Inet {
                ports: Some(ports), ..
            } = &mut condition
            else {
                return Err(self.reader.not_found(&head, &value, "a port"));
            };
            if ports.low != ports.high {
                return Err(self.reader.not_found(&head, &value, "a single port"));
            }
            let port = ports.low;
            *ports = match compare {
                Compare::GreaterOrEqual => Ports {
                    low: port,
                    high: u16::MAX,
                },
                Compare::LessOrEqual => Ports { low: 0, high: port },
                Compare::Greater => port
                    .checked_add(1)
                    .map_or(Ports::NONE, |low| Ports { low, high: u16::MAX }),
                _ => port
                    .checked_sub(1)
                    .map_or(Ports::NONE, |high| Ports { low: 0, high }),
            };
        }
        Ok(negated_if(&head, condition.into_expr(side)))
    }

    /// Parses a condition that allows `=` and `!=`, which is `not` `=`.
    fn equal(
        &mut self,
        word: &'a str,
        expected: &'static str,
        read: impl Fn(&dyn Resolve, &str) -> Option<Test>,
    ) -> Result<Expr, ParseError> {
        let head = self.reader.head(word, &EQUALITY)?;
        let value = self.reader.value(&head, ValueKind::Name, expected)?;
        let test =
            read(self.resolve, &value.text).ok_or_else(|| self.reader.not_found(&head, &value, expected))?;
        Ok(negated_if(&head, Expr::Test(test)))
    }

    /// Parses a condition as [`Self::equal`] does, with suggestions from `names`.
    fn named(
        &mut self,
        word: &'a str,
        expected: &'static str,
        names: impl Iterator<Item = &'static str>,
        read: impl Fn(&str) -> Option<Test>,
    ) -> Result<Expr, ParseError> {
        let ahead = self.reader.lexer.clone();
        self.equal(word, expected, |_, text| read(text))
            .map_err(|mut error| {
                let name = ahead.slice(error.span.clone());
                error.hint = error.hint.or_else(|| nearest(name, names));
                error
            })
    }

    fn peers(&mut self, word: &'a str) -> Result<Expr, ParseError> {
        const EXPECTED: &str = "'public', 'private' or 'loopback'";
        let head = self.reader.head(word, &EQUALITY)?;
        let value = self.reader.value(&head, ValueKind::Name, EXPECTED)?;
        let mut classes = match (
            &*value.text,
            PeerClass::ALL.iter().find(|class| class.name() == value.text),
        ) {
            (_, Some(class)) => class.bit(),
            ("all", None) => ALL_CLASSES,
            ("none", None) => 0,
            _ => return Err(self.reader.not_found(&head, &value, EXPECTED)),
        };
        if head.is_negated() {
            classes ^= ALL_CLASSES;
        }
        Ok(Expr::Test(Test::Peers(classes)))
    }

    fn text(&mut self, word: &'a str, field: TextField) -> Result<Expr, ParseError> {
        let head = self.reader.head(word, &PATTERNS)?;
        let value = self.reader.value(&head, ValueKind::Name, "a name")?;
        Ok(Expr::Test(Test::Text {
            field,
            negated: head.is_negated(),
            like: head.is_like(),
            value: value.text.into(),
        }))
    }

    fn number(&mut self, word: &'a str, field: Field) -> Result<Expr, ParseError> {
        let expected = match field {
            Field::Uid => "a user's number or name",
            Field::Netns => "the inode or name of a network namespace",
            field => field.kind().description(),
        };
        let head = self.reader.head(word, &COMPARISONS)?;
        let value = self.reader.value(&head, ValueKind::Name, expected)?;
        let number = field.kind().parse(&value.text);
        let numbers: Vec<u64> = match field {
            Field::Netns if !number.is_some_and(|number| is_netns_inode(&value.text, number)) => {
                let labelled = self.resolve.netns(&value.text);
                let labelled: Vec<u64> = labelled.into_iter().map(|netns| netns.0.into()).collect();
                if labelled.is_empty() {
                    number.into_iter().collect()
                } else {
                    labelled
                }
            }
            Field::Uid => {
                let named = || self.resolve.user(&value.text).map(|uid| uid.0.into());
                number.or_else(named).into_iter().collect()
            }
            _ => number.into_iter().collect(),
        };
        let compare = head.compare();
        let tests = numbers
            .into_iter()
            .map(|number| Expr::Test(Test::Number(field, compare, number)));
        // `!=` several numbers means none of them.
        let all = if head.is_negated() { Expr::and } else { Expr::or };
        tests
            .reduce(all)
            .ok_or_else(|| self.reader.no_number(&head, &value, field.kind(), expected))
    }

    fn unknown_word(&self, word: &str, span: Range<usize>) -> ParseError {
        let mut error = self
            .reader
            .error(span, &["a condition (state, src, dport, owner, ...)"]);
        let fields = Field::ALL.iter().map(|&(name, ..)| name);
        error.hint = if let Some(hint) = self.port_hint(word) {
            Some(hint)
        } else if let Some(condition) = words::condition_for(word) {
            Some(format!("did you mean '{condition}'?"))
        } else if let Some(port) = port_of(word) {
            // After -p a number is often meant as a process.
            let pid = if word.starts_with(':') {
                String::new()
            } else {
                format!(" or 'pid = {port}'")
            };
            Some(format!(
                "did you mean '( sport = :{port} or dport = :{port} )'{pid}?"
            ))
        } else if word.parse::<u32>().is_ok() {
            Some(format!("did you mean 'pid = {word}'?"))
        } else if ["process", "program", "command", "comm", "app"].contains(&word) {
            Some("did you mean 'owner'?".to_owned())
        } else if self.resolve.is_column(word) {
            Some(format!("'{word}' is a column, but no word of filters"))
        } else {
            nearest(word, WORDS.split(' ').chain(fields)).or_else(|| {
                let is_name = word.len() <= NAME_BYTES_MAX
                    && word
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
                is_name.then(|| format!("did you mean 'owner = {word}'?"))
            })
        };
        error
    }

    /// The hint for `port 80`, `port = 80` and `port = :80`.
    fn port_hint(&self, word: &str) -> Option<String> {
        if !["port", "ports"].contains(&word) {
            return None;
        }
        let mut ahead = self.reader.lexer.clone();
        ahead.operator();
        let port = match ahead.next().0 {
            Token::Word(value) => port_of(value),
            _ => None,
        };
        Some(match port {
            Some(port) => format!("did you mean '( sport = :{port} or dport = :{port} )'?"),
            None => "did you mean 'sport' or 'dport'?".to_owned(),
        })
    }
}

/// The port of `80` and `:80`.
fn port_of(word: &str) -> Option<u16> {
    word.strip_prefix(':').unwrap_or(word).parse().ok()
}

fn negated_if(head: &Head<'_>, expr: Expr) -> Expr {
    if head.is_negated() { expr.not() } else { expr }
}

/// Whether a number is certainly no name: a container may have the name `101`, and twelve digits of an id may all be decimal.
/// The kernel numbers namespaces from `PROC_DYNAMIC_FIRST` (`include/linux/proc_fs.h`).
fn is_netns_inode(text: &str, number: u64) -> bool {
    text.len() < 12 && number >= 0xf000_0000
}

/// A longer word is no name of a process.
const NAME_BYTES_MAX: usize = 64;

const ALL_CLASSES: u8 = PeerClass::Public.bit() | PeerClass::Private.bit() | PeerClass::Loopback.bit();

/// Words that begin a condition, separated by blanks, apart from the names of [`Field`]s.
pub(crate) const WORDS: &str = "state exclude src dst sport dport dev interface fwmark cgroup autobound owner congestion timer \
    proto family peers not and or";
