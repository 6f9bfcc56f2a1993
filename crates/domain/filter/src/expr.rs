//! The syntax tree of an expression.

use crate::field::Field;
use sockeye_model::{CgroupId, Family, ProtocolSet, StateSet, TimerKind, WorkloadKind};
use std::net::{Ipv4Addr, Ipv6Addr};

/// An expression. `And` and `Or` have at least two operands, none of their own kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// Matches everything: the empty filter, `src *`
    All,
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Test(Test),
}

/// A single condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    State(StateSet),
    /// `sport`, `dport` without a family
    Port(Side, Ports),
    Host(Host),
    Unix {
        side: Side,
        pattern: Box<str>,
    },
    Netlink {
        side: Side,
        protocol: Option<u8>,
        port: Option<u32>,
    },
    Packet {
        side: Side,
        ethertype: Option<u16>,
        interface: Option<u32>,
    },
    /// Accepted but never true: no source of ours lists vsock.
    Vsock {
        side: Side,
        cid: Option<u32>,
        port: Option<u32>,
    },
    Autobound(Ports),
    /// Interface index; 0: bound to none
    Device(u32),
    Fwmark {
        mark: u32,
        mask: u32,
    },
    Cgroup {
        id: CgroupId,
        path: Box<str>,
    },
    Number(Field, Compare, u64),
    Text {
        field: TextField,
        negated: bool,
        /// Whether the value is a pattern
        like: bool,
        value: Box<str>,
    },
    /// `None`: no running timer
    Timer(Option<TimerKind>),
    Protocol(ProtocolSet),
    Family(Family),
    /// Bits of [`crate::PeerClass`]
    Peers(u8),
}

/// A condition on address, port or both of an IP endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Host {
    pub(crate) side: Side,
    /// Family of a prefix `inet:` or `inet6:`
    pub(crate) family: Option<Inet>,
    pub(crate) net: Option<Net>,
    pub(crate) ports: Option<Ports>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inet {
    V4,
    V6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

/// An address prefix; the other bits are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Net {
    V4 { address: u32, len: u8 },
    V6 { address: u128, len: u8 },
}

/// Ports from `low` to `high`; an empty range is 1 to 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) low: u16,
    pub(crate) high: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextField {
    Owner,
    Congestion,
    /// The protocol layered upon TCP
    Ulp,
    /// Its container, unit or executable
    Workload(WorkloadKind),
}

impl Expr {
    /// Joins both by `and`, flattened.
    pub(crate) fn and(self, other: Self) -> Self {
        let mut all = match self {
            Self::And(all) => all,
            one => vec![one],
        };
        match other {
            Self::And(more) => all.extend(more),
            one => all.push(one),
        }
        Self::And(all)
    }

    /// Joins both by `or`, flattened.
    pub(crate) fn or(self, other: Self) -> Self {
        let mut any = match self {
            Self::Or(any) => any,
            one => vec![one],
        };
        match other {
            Self::Or(more) => any.extend(more),
            one => any.push(one),
        }
        Self::Or(any)
    }

    #[allow(clippy::should_implement_trait)] // it is no operator here
    pub(crate) fn not(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// Returns the levels of nesting; a single test has one.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::All | Self::Test(_) => 1,
            Self::Not(inner) => 1 + inner.depth(),
            Self::And(inner) | Self::Or(inner) => 1 + inner.iter().map(Self::depth).max().unwrap_or(0),
        }
    }

    /// Calls `visit` with each test in it.
    pub(crate) fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Test)) {
        match self {
            Self::All => {}
            Self::Test(test) => visit(test),
            Self::Not(inner) => inner.visit(visit),
            Self::And(inner) | Self::Or(inner) => inner.iter().for_each(|inner| inner.visit(visit)),
        }
    }
}

impl From<Inet> for Family {
    fn from(inet: Inet) -> Self {
        match inet {
            Inet::V4 => Self::Inet,
            Inet::V6 => Self::Inet6,
        }
    }
}

impl Net {
    pub(crate) fn v4(address: Ipv4Addr, len: u8) -> Self {
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        Self::V4 {
            address: address.to_bits() & mask,
            len,
        }
    }

    pub(crate) fn v6(address: Ipv6Addr, len: u8) -> Self {
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Self::V6 {
            address: address.to_bits() & mask,
            len,
        }
    }
}

impl Ports {
    pub(crate) const NONE: Self = Self { low: 1, high: 0 };

    pub(crate) const fn one(port: u16) -> Self {
        Self {
            low: port,
            high: port,
        }
    }

    pub(crate) const fn contains(self, port: u16) -> bool {
        self.low <= port && port <= self.high
    }
}

impl Side {
    pub(crate) const fn host_word(self) -> &'static str {
        match self {
            Self::Source => "src",
            Self::Destination => "dst",
        }
    }

    pub(crate) const fn port_word(self) -> &'static str {
        match self {
            Self::Source => "sport",
            Self::Destination => "dport",
        }
    }
}

impl Compare {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Whether none of several values may match, instead of at least one.
    pub(crate) const fn is_negated(self) -> bool {
        matches!(self, Self::NotEqual)
    }

    /// Returns the comparison for each of several values.
    pub(crate) const fn positive(self) -> Self {
        match self {
            Self::NotEqual => Self::Equal,
            other => other,
        }
    }

    #[inline]
    pub(crate) const fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// Names after `family =`; the first of a family is printed. 40 is `AF_VSOCK`.
pub(crate) const FAMILIES: &[(&str, Family)] = &[
    ("inet", Family::Inet),
    ("inet6", Family::Inet6),
    ("unix", Family::Unix),
    ("packet", Family::Packet),
    ("link", Family::Packet),
    ("netlink", Family::Netlink),
    ("vsock", Family::Unknown(40)),
];

/// Names after `timer =`; the first of a kind is printed.
pub(crate) const TIMERS: &[(&str, Option<TimerKind>)] = &[
    ("off", None),
    ("none", None),
    ("on", Some(TimerKind::Retransmission)),
    ("keepalive", Some(TimerKind::Keepalive)),
    ("timewait", Some(TimerKind::TimeWait)),
    ("persist", Some(TimerKind::ZeroWindowProbe)),
    ("probe", Some(TimerKind::ZeroWindowProbe)),
];
