//! The syntax tree of a packet filter.

/// A condition. Both sides of `And` and `Or` are tested in this order, the second only if needed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Always(bool),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// Loads, masks and compares with a number
    Test(Load, u32, Comparison, u32),
    /// Compares two arithmetic expressions
    Relation(Arithmetic, Comparison, Arithmetic),
}

/// An unsigned comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    /// Has common bits with
    Intersects,
}

/// The size of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
}

/// A field of a packet or of its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// At this offset
    At(u32, Size),
    /// At the second offset after the IPv4 header that begins at the first
    AfterIp4Header(u32, u32, Size),
    /// Length of the packet
    Len,
    /// Type of the link layer's payload
    Protocol,
    /// Packet type (`PACKET_*`)
    PacketType,
    /// Index of the interface
    Interface,
    /// 1 if the kernel removed a VLAN tag
    VlanTagPresent,
    /// The removed VLAN tag
    VlanTag,
}

/// An arithmetic expression on unsigned 32-bit numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arithmetic {
    Number(u32),
    Len,
    /// A load of this size at a base plus an offset
    Load(Size, Base, Box<Arithmetic>),
    Negative(Box<Arithmetic>),
    Both(Operation, Box<Arithmetic>, Box<Arithmetic>),
}

/// The base of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    At(u32),
    /// The end of the IPv4 header that begins here
    AfterIp4Header(u32),
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Differ,
    ShiftLeft,
    ShiftRight,
}

impl Node {
    pub(super) const fn equal(load: Load, value: u32) -> Self {
        Self::Test(load, u32::MAX, Comparison::Equal, value)
    }

    /// Tests masked bits; an empty mask needs no load.
    pub(super) fn masked(load: Load, mask: u32, value: u32) -> Self {
        match mask {
            0 => Self::Always(value == 0),
            mask => Self::Test(load, mask, Comparison::Equal, value),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Always(true), other) => other,
            (Self::Always(false), _) => Self::Always(false),
            (node, Self::Always(true)) => node,
            (node, other) => Self::And(Box::new(node), Box::new(other)),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Always(false), other) => other,
            (Self::Always(true), _) => Self::Always(true),
            (node, Self::Always(false)) => node,
            (node, other) => Self::Or(Box::new(node), Box::new(other)),
        }
    }

    pub(super) fn not(self) -> Self {
        match self {
            Self::Always(is) => Self::Always(!is),
            Self::Not(node) => *node,
            node => Self::Not(Box::new(node)),
        }
    }
}
