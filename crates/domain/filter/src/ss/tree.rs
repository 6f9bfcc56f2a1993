//! The syntax tree of a filter.

use crate::expr::Side;
use crate::ss::Filter;
use sockeye_model::{CgroupId, Family};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// An expression (`struct ssfilter`).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Test(Test),
    Not(Box<Self>),
    /// A list, evaluated from left to right: `a or b and c` is `(a or b) and c`.
    List(Box<Self>, Vec<(Join, Self)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    And,
    Or,
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    Host(Side, Host),
    PortAtLeast(Side, i64),
    PortAtMost(Side, i64),
    Device(u32),
    Mark { mark: u32, mask: u32 },
    Cgroup { id: CgroupId, path: Box<str> },
    Autobound(RangeInclusive<u16>),
}

/// The condition on an endpoint (`struct aafilter`).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Host {
    /// A pattern for the name
    Unix(Box<str>),
    Address {
        /// -1: any port
        port: i64,
        /// Prefixes, any of which matches; the first is the one that the kernel gets.
        first: Prefix,
        others: Vec<Prefix>,
    },
}

/// An address prefix (`inet_prefix`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    /// `None` without an address
    pub(super) family: Option<Family>,
    /// Address in network byte order
    pub(super) bytes: [u8; 16],
    /// Length in bits; 0: any address
    pub(super) bits: u8,
}

impl Expr {
    /// Negates; a double negation is removed.
    pub(super) fn not(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Appends an expression. A list that continues equals one in parentheses before another value.
    pub(super) fn joined(self, join: Join, other: Self) -> Self {
        match self {
            Self::List(first, mut others) => {
                others.push((join, other));
                Self::List(first, others)
            }
            first => Self::List(Box::new(first), vec![(join, other)]),
        }
    }

    /// Calls `visit` with each test in it.
    pub(super) fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Test)) {
        match self {
            Self::Test(test) => visit(test),
            Self::Not(inner) => inner.visit(visit),
            Self::List(first, others) => {
                first.visit(visit);
                others.iter().for_each(|(_, other)| other.visit(visit));
            }
        }
    }
}

impl Host {
    pub(super) const fn port(&self) -> i64 {
        match self {
            Self::Unix(_) => ANY_PORT,
            Self::Address { port, .. } => *port,
        }
    }
}

impl Prefix {
    pub(super) const NONE: Self = Self::any(None);

    pub(super) const fn any(family: Option<Family>) -> Self {
        Self {
            family,
            bytes: [0; 16],
            bits: 0,
        }
    }

    pub(super) fn v4(address: Ipv4Addr, bits: u8) -> Self {
        Self {
            family: Some(Family::Inet),
            bytes: padded(address.octets()),
            bits,
        }
    }

    pub(super) const fn v6(address: Ipv6Addr, bits: u8) -> Self {
        Self {
            family: Some(Family::Inet6),
            bytes: address.octets(),
            bits,
        }
    }

    /// A number in the first word of an address, where families without addresses store their fields.
    pub(super) fn number(family: Family, number: u32) -> Self {
        Self {
            family: Some(family),
            bytes: padded(number.to_ne_bytes()),
            bits: 32,
        }
    }
}

/// An address with these first four bytes, the others 0.
pub(super) fn padded(first: [u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&first);
    bytes
}

pub(super) const ANY_PORT: i64 = -1;

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.as_ref().map_or(Ok(()), |tree| tree.fmt(f))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(test) => test.fmt(f),
            Self::Not(inner) => write!(f, "not {inner}"),
            Self::List(first, others) => {
                write!(f, "{}{first}", "(".repeat(others.len()))?;
                for (join, other) in others {
                    let join = match join {
                        Join::And => "and",
                        Join::Or => "or",
                    };
                    write!(f, " {join} {other})")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(side, host) => write!(f, "{} {host}", side.host_word()),
            Self::PortAtLeast(side, port) => write!(f, "{} >= {port}", side.port_word()),
            Self::PortAtMost(side, port) => write!(f, "{} <= {port}", side.port_word()),
            Self::Device(index) => write!(f, "dev {index}"),
            Self::Mark { mark, mask } => write!(f, "fwmark {mark:#x}/{mask:#x}"),
            Self::Cgroup { id, path } => write!(f, "cgroup {path}={id}"),
            Self::Autobound(_) => f.write_str("autobound"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(pattern) => write!(f, "unix:{pattern}"),
            Self::Address { port, first, others } => {
                first.fmt(f)?;
                for other in others {
                    write!(f, ",{other}")?;
                }
                match *port {
                    ANY_PORT => Ok(()),
                    port => write!(f, ":{port}"),
                }
            }
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.bytes;
        let bits = self.bits;
        match self.family {
            None => f.write_str("*"),
            Some(Family::Inet) => write!(f, "{}/{bits}", Ipv4Addr::new(a, b, c, d)),
            Some(Family::Inet6) => write!(f, "[{}/{bits}]", Ipv6Addr::from(self.bytes)),
            Some(family) => {
                let number = u32::from_ne_bytes([a, b, c, d]);
                write!(f, "{family:?}={number}/{bits}")
            }
        }
    }
}
