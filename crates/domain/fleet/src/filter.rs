//! Conditions about edges: `port = 5432 and ( server = 10.0.0.0/8 or host = db1 )`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    tree: Node,
    /// Texts of the user, which are parameters of the statement.
    texts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Port(u16),
    /// The ends that may be in the range.
    Address(&'static [&'static str], Ipv6Addr, Ipv6Addr),
    /// The columns of edges that may have the text with this number.
    Text(&'static [&'static str], usize),
}

/// Why a text is no condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError(String);

impl Filter {
    /// Parses a condition.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace("!=", " != ");
        let spaced = spaced.replace('=', " = ").replace("! =", "!=");
        let mut parser = Parser {
            words: spaced.split_whitespace().collect(),
            at: 0,
            depth: 0,
            texts: Vec::new(),
        };
        let tree = parser.alternatives()?;
        match parser.next() {
            None => Ok(Self {
                tree,
                texts: parser.texts,
            }),
            Some(word) => Err(FilterError(format!("`{word}` is not expected here"))),
        }
    }

    /// Returns the condition that the server has this service or, if it is a number, that the server has this port.
    #[must_use]
    pub fn of_service(service: &str) -> Self {
        match service.parse() {
            Ok(port) => Self {
                tree: Node::Port(port),
                texts: Vec::new(),
            },
            Err(_) => Self {
                tree: Node::Text(&["server_services"], 0),
                texts: vec![service.to_owned()],
            },
        }
    }

    /// Whether it concerns addresses and ports alone, so that it is the same for both ends.
    pub(crate) fn is_of_key(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns it as a condition about rows `f`.
    pub(crate) fn sql_of_rows(&self) -> String {
        self.tree.sql("f.")
    }

    /// Returns it as a condition about edges.
    pub(crate) fn sql_of_edges(&self) -> String {
        self.tree.sql("")
    }

    /// Returns the parameters of the statement.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        NAMES.into_iter().zip(self.texts.iter().cloned()).collect()
    }
}

impl Node {
    fn sql(&self, of: &str) -> String {
        match self {
            Self::And(left, right) => format!("({} AND {})", left.sql(of), right.sql(of)),
            Self::Or(left, right) => format!("({} OR {})", left.sql(of), right.sql(of)),
            Self::Not(node) => format!("NOT {}", node.sql(of)),
            Self::Port(port) => format!("{of}port = {port}"),
            Self::Address(columns, first, last) => any(columns, |column| {
                format!("{of}{column} BETWEEN toIPv6('{first}') AND toIPv6('{last}')")
            }),
            Self::Text(columns, number) => any(columns, |column| {
                let name = NAMES[*number];
                match column {
                    // An end may have several.
                    "client_services" | "server_services" => format!("has({column}, {{{name}:String}})"),
                    _ => format!("{column} = {{{name}:String}}"),
                }
            }),
        }
    }
}

fn any(columns: &[&str], condition: impl Fn(&str) -> String) -> String {
    let all: Vec<_> = columns.iter().map(|column| condition(column)).collect();
    format!("({})", all.join(" OR "))
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    depth: usize,
    texts: Vec<String>,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    fn skip(&mut self, words: &[&str]) -> bool {
        let is_next = self.words.get(self.at).is_some_and(|word| words.contains(word));
        self.at += usize::from(is_next);
        is_next
    }

    fn alternatives(&mut self) -> Result<Node, FilterError> {
        let mut left = self.conjunction()?;
        while self.skip(&["or", "||"]) {
            left = Node::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Node, FilterError> {
        let mut left = self.condition()?;
        while self.skip(&["and", "&&"]) {
            left = Node::And(Box::new(left), Box::new(self.condition()?));
        }
        Ok(left)
    }

    fn condition(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(FilterError("it is too deep".to_owned()));
        }
        let node = self.nested();
        self.depth -= 1;
        node
    }

    fn nested(&mut self) -> Result<Node, FilterError> {
        if self.skip(&["not", "!"]) {
            return Ok(Node::Not(Box::new(self.condition()?)));
        }
        if self.skip(&["("]) {
            let node = self.alternatives()?;
            return if self.skip(&[")"]) {
                Ok(node)
            } else {
                Err(FilterError("a ) is missing".to_owned()))
            };
        }
        let expected = || {
            FilterError(format!(
                "expected a condition, such as port = 443; words: {WORDS}"
            ))
        };
        let name = self.next().ok_or_else(expected)?;
        let is_equal = match self.next() {
            Some("=" | "==") => true,
            Some("!=") => false,
            _ => return Err(FilterError(format!("expected = or != behind `{name}`"))),
        };
        let value = self
            .next()
            .ok_or_else(|| FilterError(format!("expected a value behind `{name}`")))?;
        let node = match name {
            "port" => {
                let port = value.trim_start_matches(':').parse();
                Node::Port(port.map_err(|_| FilterError(format!("`{value}` is no port")))?)
            }
            "client" => address(&["client"], value)?,
            "server" => address(&["server"], value)?,
            "address" => address(&["client", "server"], value)?,
            "host" => self.text(&["client_host", "server_host"], value)?,
            "service" => self.text(&["client_services", "server_services"], value)?,
            "client_service" => self.text(&["client_services"], value)?,
            "server_service" => self.text(&["server_services"], value)?,
            _ => return Err(FilterError(format!("`{name}` is not known; words: {WORDS}"))),
        };
        Ok(if is_equal { node } else { Node::Not(Box::new(node)) })
    }

    fn text(&mut self, columns: &'static [&'static str], value: &str) -> Result<Node, FilterError> {
        if self.texts.len() == NAMES.len() {
            return Err(FilterError(format!("it has more than {} names", NAMES.len())));
        }
        self.texts.push(value.to_owned());
        Ok(Node::Text(columns, self.texts.len() - 1))
    }
}

fn address(columns: &'static [&'static str], value: &str) -> Result<Node, FilterError> {
    let invalid = || FilterError(format!("`{value}` is no address, such as 10.0.0.0/8"));
    let (ip, bits) = match value.split_once('/') {
        Some((ip, bits)) => (ip, Some(bits.parse::<u32>().map_err(|_| invalid())?)),
        None => (value, None),
    };
    let ip: IpAddr = ip.parse().map_err(|_| invalid())?;
    let (ip, bits) = match ip {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped(), bits.unwrap_or(32) + 96),
        IpAddr::V6(ip) => (ip, bits.unwrap_or(128)),
    };
    let rest = 128_u32.checked_sub(bits).ok_or_else(invalid)?;
    let hosts = if rest == 0 { 0 } else { u128::MAX >> bits };
    let first = u128::from(ip) & !hosts;
    Ok(Node::Address(
        columns,
        Ipv6Addr::from(first),
        Ipv6Addr::from(first | hosts),
    ))
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FilterError {}

/// Names of parameters.
const NAMES: [&str; 16] = [
    "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "f13", "f14", "f15",
];

const WORDS: &str = "port, client, server, address, host, service, client_service, server_service";

/// Parentheses and `not` within each other.
const DEPTH_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, sql: &str, is_of_key: bool) {
        let filter = Filter::parse(text).unwrap();
        assert_eq!(filter.sql_of_edges(), sql);
        assert_eq!(filter.is_of_key(), is_of_key);
    }

    #[test]
    fn conditions_become_sql() {
        check("port = :443", "port = 443", true);
        check(
            "client=10.1.0.0/16",
            "(client BETWEEN toIPv6('::ffff:10.1.0.0') AND toIPv6('::ffff:10.1.255.255'))",
            true,
        );
        check(
            "address != 2001:db8::1",
            "NOT (client BETWEEN toIPv6('2001:db8::1') AND toIPv6('2001:db8::1') OR server BETWEEN toIPv6('2001:db8::1') AND toIPv6('2001:db8::1'))",
            true,
        );
        check(
            "not (port = 1 or port = 2) and host = web1",
            "(NOT (port = 1 OR port = 2) AND (client_host = {f0:String} OR server_host = {f0:String}))",
            false,
        );
    }

    #[test]
    fn text_of_the_user_is_a_parameter() {
        let filter = Filter::parse("service = x'y").unwrap();
        assert!(!filter.sql_of_edges().contains("x'y"));
        assert_eq!(filter.parameters(), [("f0", "x'y".to_owned())]);
    }

    #[test]
    fn what_is_no_condition_is_an_error() {
        for (text, what) in [
            ("", "expected a condition"),
            ("port", "expected ="),
            ("port =", "expected a value"),
            ("port = x", "no port"),
            ("server = 10.0.0.0/33", "no address"),
            ("(port = 1", "a ) is missing"),
            ("port = 1 port = 2", "not expected here"),
            ("dport = 1", "not known"),
            (&"not ".repeat(99), "too deep"),
            (&"(".repeat(99), "too deep"),
        ] {
            let error = Filter::parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
