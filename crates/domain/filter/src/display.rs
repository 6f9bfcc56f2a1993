//! Display of an expression in its canonical form, which parses to the same tree.

use crate::expr::{Compare, Expr, FAMILIES, Host, Inet, Net, Ports, Side, TIMERS, Test, TextField};
use crate::lexer;
use crate::states;
use crate::{Filter, PeerClass};
use std::fmt::{self, Display as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

impl fmt::Display for Filter {
    /// Writes the whole expression on one line, with names replaced by numbers; nothing for the empty filter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expr() {
            Expr::All => Ok(()),
            expr => expr.fmt(f),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("src *"),
            Self::Test(test) => test.fmt(f),
            Self::And(all) => joined(f, all, " and "),
            Self::Or(any) => joined(f, any, " or "),
            Self::Not(inner) => {
                // The usual form is `sport != :80`.
                if let Self::Test(test) = &**inner
                    && test.fmt_compared(f, true)?
                {
                    return Ok(());
                }
                f.write_str("not ")?;
                operand(f, inner)
            }
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, operands: &[Expr], word: &str) -> fmt::Result {
    for (place, expr) in operands.iter().enumerate() {
        if place > 0 {
            f.write_str(word)?;
        }
        operand(f, expr)?;
    }
    Ok(())
}

fn operand(f: &mut fmt::Formatter<'_>, expr: &Expr) -> fmt::Result {
    match expr {
        Expr::And(_) | Expr::Or(_) => write!(f, "( {expr} )"),
        simple => simple.fmt(f),
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fmt_compared(f, false)? {
            return Ok(());
        }
        match self {
            Self::State(set) => {
                let names = states::names_of(*set);
                if names.is_empty() {
                    return f.write_str("exclude all");
                }
                for (place, name) in names.iter().enumerate() {
                    write!(f, "{}state {name}", if place > 0 { " " } else { "" })?;
                }
                Ok(())
            }
            Self::Autobound(_) => f.write_str("autobound"),
            Self::Number(field, compare, value) => {
                let unit = field.kind().unit();
                write!(f, "{} {} {value}{unit}", field.name(), compare.word())
            }
            Self::Text {
                field,
                negated,
                like,
                value,
            } => {
                let name = match field {
                    TextField::Owner => "owner",
                    TextField::Congestion => "congestion",
                    TextField::Ulp => "ulp",
                    TextField::Workload(kind) => kind.name(),
                };
                let operator = match (like, negated) {
                    (false, false) => "=",
                    (false, true) => "!=",
                    (true, false) => "~",
                    (true, true) => "!~",
                };
                write!(f, "{name} {operator} {}", Escaped(value))
            }
            Self::Peers(classes) => {
                let one = |class: &&PeerClass| class.bit() == *classes;
                let but_one = |class: &&PeerClass| class.bit() ^ 0b111 == *classes;
                if let Some(class) = PeerClass::ALL.iter().find(one) {
                    write!(f, "peers = {}", class.name())
                } else if let Some(class) = PeerClass::ALL.iter().find(but_one) {
                    write!(f, "peers != {}", class.name())
                } else if *classes == 0 {
                    f.write_str("peers = none")
                } else {
                    f.write_str("peers = all")
                }
            }
            // `fmt_compared` prints all others.
            _ => Ok(()),
        }
    }
}

impl Test {
    /// Prints a test with `=` or, negated, `!=`; prints nothing and returns `false` for other tests.
    fn fmt_compared(&self, f: &mut fmt::Formatter<'_>, negated: bool) -> Result<bool, fmt::Error> {
        let mut word = |word: &str| write!(f, "{word} {} ", if negated { "!=" } else { "=" });
        match self {
            Self::Port(side, ports) => return fmt_ports(f, *side, "", *ports, negated),
            Self::Host(Host {
                side,
                family,
                net: None,
                ports: Some(ports),
            }) => return fmt_ports(f, *side, prefix(*family), *ports, negated),
            Self::Host(host) => {
                word(host.side.host_word())?;
                f.write_str(prefix(host.family))?;
                match host.net {
                    None => f.write_char('*')?,
                    Some(Net::V4 { address, len }) => {
                        write!(f, "{}/{len}", Ipv4Addr::from_bits(address))?;
                    }
                    Some(Net::V6 { address, len }) => {
                        write!(f, "[{}/{len}]", Ipv6Addr::from_bits(address))?;
                    }
                }
                match host.ports {
                    None => {}
                    Some(Ports { low, high }) if low == high => write!(f, ":{low}")?,
                    Some(Ports { low, high }) => write!(f, ":{low}-{high}")?,
                }
            }
            Self::Unix { side, pattern } => {
                word(side.host_word())?;
                write!(f, "unix:{}", Escaped(pattern))?;
            }
            Self::Netlink { side, protocol, port } => {
                word(side.host_word())?;
                write!(f, "netlink:{}:{}", OrStar(*protocol), OrStar(*port))?;
            }
            Self::Packet {
                side,
                ethertype,
                interface,
            } => {
                word(side.host_word())?;
                write!(f, "link:{}:{}", OrStar(*ethertype), OrStar(*interface))?;
            }
            Self::Vsock { side, cid, port } => {
                word(side.host_word())?;
                write!(f, "vsock:{}:{}", OrStar(*cid), OrStar(*port))?;
            }
            Self::Device(index) => {
                word("dev")?;
                write!(f, "{index}")?;
            }
            Self::Fwmark { mark, mask } => {
                word("fwmark")?;
                write!(f, "{mark:#x}/{mask:#x}")?;
            }
            Self::Cgroup { path, .. } => {
                word("cgroup")?;
                write!(f, "{}", Escaped(path))?;
            }
            Self::Timer(kind) => {
                word("timer")?;
                let known = TIMERS.iter().find(|(_, known)| known == kind);
                f.write_str(known.map_or("off", |(name, _)| name))?;
            }
            Self::Protocol(protocols) => {
                word("proto")?;
                f.write_str(protocols.name().unwrap_or("all"))?;
            }
            Self::Family(family) => {
                word("family")?;
                let known = FAMILIES.iter().find(|(_, known)| known == family);
                f.write_str(known.map_or("inet", |(name, _)| name))?;
            }
            Self::State(_) | Self::Autobound(_) | Self::Number(..) | Self::Text { .. } | Self::Peers(_) => {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Prints a condition on ports; prints nothing and returns `false` if it needs more than one operator.
fn fmt_ports(
    f: &mut fmt::Formatter<'_>,
    side: Side,
    family: &str,
    ports: Ports,
    negated: bool,
) -> Result<bool, fmt::Error> {
    let side = side.port_word();
    let Ports { low, high } = ports;
    if negated && (low != high) {
        return if low == 0 || high == u16::MAX || low > high {
            Ok(false) // "not sport >= :80" must stay that
        } else {
            write!(f, "{side} != {family}:{low}-{high}").map(|()| true)
        };
    }
    match (low, high) {
        (low, high) if low > high => write!(f, "{side} > {family}:65535"),
        (low, high) if low == high => {
            let word = if negated {
                Compare::NotEqual
            } else {
                Compare::Equal
            };
            write!(f, "{side} {} {family}:{low}", word.word())
        }
        (low, u16::MAX) => write!(f, "{side} >= {family}:{low}"),
        (0, high) => write!(f, "{side} <= {family}:{high}"),
        (low, high) => write!(f, "{side} = {family}:{low}-{high}"),
    }?;
    Ok(true)
}

const fn prefix(family: Option<Inet>) -> &'static str {
    match family {
        None => "",
        Some(Inet::V4) => "inet:",
        Some(Inet::V6) => "inet6:",
    }
}

struct OrStar<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrStar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_char('*'),
        }
    }
}

/// A value with the backslashes that the lexer needs.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if lexer::is_operator_word(self.0) {
            f.write_char('\\')?;
        }
        for char in self.0.chars() {
            if char.is_whitespace() || matches!(char, '(' | ')' | '&' | '|' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(char)?;
        }
        Ok(())
    }
}
