//! What a filter asks of a packet.

/// A condition. Both sides of `And` and `Or` are asked in their order, the second only if it matters.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Always(bool),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// What is loaded, masked, compared with a number
    Test(Load, u32, Comparison, u32),
    /// Two sums
    Relation(Sum, Comparison, Sum),
}

/// How numbers are compared, without a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    /// Has bits in common with
    Meets,
}

/// How much is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
}

/// A number that a packet holds, or that is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// From its beginning
    At(u32, Size),
    /// Behind the IPv4 header that begins at the first
    Behind(u32, u32, Size),
    /// Its length
    Len,
    /// What follows the link layer
    Protocol,
    /// `PACKET_*`
    Passage,
    /// The interface's index
    Interface,
    /// 1 if a VLAN tag was taken off
    TagIsBeside,
    /// That tag
    Tag,
}

/// Arithmetic, in 32 bits without a sign.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sum {
    Number(u32),
    Len,
    /// Size, and from where: the start, and the sum that is added
    Load(Size, Base, Box<Sum>),
    Negative(Box<Sum>),
    Both(Operation, Box<Sum>, Box<Sum>),
}

/// From where an offset counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    At(u32),
    /// Behind the IPv4 header that begins there
    Behind(u32),
}

/// What is done with two numbers.
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

    /// Without bits to compare nothing is looked at.
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
