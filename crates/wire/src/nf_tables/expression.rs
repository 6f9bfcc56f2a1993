//! Expressions: what a rule compares and does.

use super::{be_u32, be_u64, name};
use crate::Error;
use crate::netlink::{Attribute, Attributes};
use alloc::string::String;
use alloc::vec::Vec;

/// A step of a rule. Steps exchange values through registers, which are 16 bytes (numbers 1 to 4), or 4 bytes of the same
/// memory (8 to 23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// Copies bytes of the packet into a register
    Payload {
        /// What the offset counts from
        base: Base,
        /// First byte
        offset: u32,
        /// Number of bytes
        len: u32,
        /// The register
        register: u32,
    },
    /// Copies a property of the packet that is not in its bytes into a register
    Meta {
        /// Which one
        key: MetaKey,
        /// The register
        register: u32,
    },
    /// Copies the state of the tracked connection into a register, as a bit set
    ConnectionState {
        /// The register
        register: u32,
    },
    /// `register = (source & mask) ^ xor`
    Bitwise {
        /// Where the value is
        source: u32,
        /// Where the result comes
        register: u32,
        /// Bits that are kept
        mask: Vec<u8>,
        /// Bits that are inverted then
        xor: Vec<u8>,
    },
    /// Ends the rule if the comparison fails
    Compare {
        /// The register
        register: u32,
        /// How to compare
        operator: Operator,
        /// What to compare with
        value: Vec<u8>,
    },
    /// Ends the rule if the value is not within the range
    Range {
        /// The register
        register: u32,
        /// Whether the rule ends if it is within
        is_inverted: bool,
        /// Lowest value
        from: Vec<u8>,
        /// Highest value
        to: Vec<u8>,
    },
    /// Ends the rule if the value is not in the set
    Lookup {
        /// The register
        register: u32,
        /// Name of the set
        set: String,
        /// Whether the rule ends if it is in the set
        is_inverted: bool,
        /// Whether the set maps values to others or to verdicts
        is_map: bool,
        /// Whether it maps them to verdicts
        decides: bool,
    },
    /// Ends the rule if no port is among these: `-m multiport` of iptables (`xt_multiport`)
    Ports {
        /// Whether the source port is compared
        source: bool,
        /// Whether the destination port is compared
        destination: bool,
        /// Ranges of ports, with their ends
        ranges: Vec<(u16, u16)>,
        /// Whether the rule ends if one is among them
        is_inverted: bool,
    },
    /// Counts packets
    Counter {
        /// Packets so far
        packets: u64,
    },
    /// Decides about the packet
    Verdict(Verdict),
    /// Drops the packet and sends an ICMP error or a TCP reset
    Reject,
    /// Does something that decides about no packet: it writes a log, a mark, a counter of another kind
    Effect,
    /// Another one, which may end the rule or decide
    Other(String),
}

/// What an offset counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The IP header
    Network,
    /// The TCP, UDP or ICMP header
    Transport,
    /// Another header
    Other,
}

/// A property of a packet that is not in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaKey {
    /// Ethertype
    Protocol,
    /// Firewall mark
    Mark,
    /// Index of the device that it came from
    InputIndex,
    /// Index of the device that it goes to
    OutputIndex,
    /// Name of the device that it came from
    InputName,
    /// Name of the device that it goes to
    OutputName,
    /// User of the socket
    User,
    /// `NFPROTO_IPV4` 2 or `NFPROTO_IPV6` 10
    Family,
    /// Protocol in IP
    L4Protocol,
    /// Another one
    Other,
}

/// How a value is compared. Values are byte strings: the first byte is the most significant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say all
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The next chain has it
    Accept,
    /// It is dropped
    Drop,
    /// Another chain is asked, and this one goes on if that does not decide
    Jump(String),
    /// Another chain is asked instead of this one
    Goto(String),
    /// The chain that jumped here goes on
    Return,
    /// The next rule has it
    Continue,
    /// A program gets it, or another outcome
    Other,
}

impl Expression {
    /// Parses an element of `NFTA_RULE_EXPRESSIONS`.
    pub(super) fn parse(nest: &[u8]) -> Result<Self, Error> {
        let (mut kind, mut data) = (String::new(), &[][..]);
        for part in Attributes::new(nest) {
            let part = part?;
            match part.kind {
                NFTA_EXPR_NAME => kind = name(&part),
                NFTA_EXPR_DATA => data = part.payload,
                _ => {}
            }
        }
        let parts = Parts::parse(data)?;
        let parsed = match &*kind {
            "payload" => parts.payload(),
            "meta" => parts.meta(),
            "ct" => parts.connection(),
            "bitwise" => parts.bitwise()?,
            "cmp" => parts.compare()?,
            "range" => parts.range()?,
            "lookup" => parts.lookup(),
            "counter" => parts
                .of(2)
                .and_then(be_u64)
                .map(|packets| Self::Counter { packets }),
            "immediate" => parts.immediate()?,
            "reject" => Some(Self::Reject),
            "match" => parts.match_of_iptables(),
            "target" => parts.target_of_iptables(),
            "log" | "notrack" | "objref" | "last" | "flow_offload" => Some(Self::Effect),
            _ => None,
        };
        Ok(parsed.unwrap_or(Self::Other(kind)))
    }
}

/// The attributes of an expression by their number.
struct Parts<'a>([Option<Attribute<'a>>; PARTS_MAX]);

impl<'a> Parts<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, Error> {
        let mut parts = [None; PARTS_MAX];
        for part in Attributes::new(data) {
            let part = part?;
            if let Some(place) = parts.get_mut(usize::from(part.kind)) {
                *place = Some(part);
            }
        }
        Ok(Self(parts))
    }

    fn of(&self, kind: usize) -> Option<&Attribute<'a>> {
        self.0.get(kind)?.as_ref()
    }

    fn number(&self, kind: usize) -> Option<u32> {
        self.of(kind).and_then(be_u32)
    }

    /// A value in a nested `NFTA_DATA_VALUE`.
    fn value(&self, kind: usize) -> Result<Option<Vec<u8>>, Error> {
        self.of(kind).map(|part| value(part.payload)).transpose()
    }

    fn payload(&self) -> Option<Expression> {
        let Some(register) = self.number(1) else {
            return self.number(5).map(|_| Expression::Effect); // NFTA_PAYLOAD_SREG: it is written
        };
        Some(Expression::Payload {
            base: match self.number(2)? {
                1 => Base::Network,
                2 => Base::Transport,
                _ => Base::Other,
            },
            offset: self.number(3)?,
            len: self.number(4)?,
            register,
        })
    }

    fn meta(&self) -> Option<Expression> {
        let Some(register) = self.number(1) else {
            return self.number(3).map(|_| Expression::Effect); // NFTA_META_SREG: it is set
        };
        Some(Expression::Meta {
            key: match self.number(2)? {
                1 => MetaKey::Protocol,
                3 => MetaKey::Mark,
                4 => MetaKey::InputIndex,
                5 => MetaKey::OutputIndex,
                6 => MetaKey::InputName,
                7 => MetaKey::OutputName,
                10 => MetaKey::User,
                15 => MetaKey::Family,
                16 => MetaKey::L4Protocol,
                _ => MetaKey::Other,
            },
            register,
        })
    }

    fn connection(&self) -> Option<Expression> {
        let Some(register) = self.number(1) else {
            return self.number(4).map(|_| Expression::Effect); // NFTA_CT_SREG: it is set
        };
        (self.number(2)? == NFT_CT_STATE).then_some(Expression::ConnectionState { register })
    }

    fn bitwise(&self) -> Result<Option<Expression>, Error> {
        let (mask, xor) = (self.value(4)?, self.value(5)?);
        // NFTA_BITWISE_OP: a shift is not parsed.
        if self.number(6).unwrap_or_default() != 0 {
            return Ok(None);
        }
        let parsed = || {
            Some(Expression::Bitwise {
                source: self.number(1)?,
                register: self.number(2)?,
                mask: mask?,
                xor: xor?,
            })
        };
        Ok(parsed())
    }

    fn compare(&self) -> Result<Option<Expression>, Error> {
        let value = self.value(3)?;
        let parsed = || {
            Some(Expression::Compare {
                register: self.number(1)?,
                operator: match self.number(2)? {
                    0 => Operator::Equal,
                    1 => Operator::NotEqual,
                    2 => Operator::Less,
                    3 => Operator::LessOrEqual,
                    4 => Operator::Greater,
                    5 => Operator::GreaterOrEqual,
                    _ => return None,
                },
                value: value?,
            })
        };
        Ok(parsed())
    }

    fn range(&self) -> Result<Option<Expression>, Error> {
        let (from, to) = (self.value(3)?, self.value(4)?);
        let parsed = || {
            Some(Expression::Range {
                register: self.number(1)?,
                is_inverted: self.number(2)? == 1,
                from: from?,
                to: to?,
            })
        };
        Ok(parsed())
    }

    fn lookup(&self) -> Option<Expression> {
        Some(Expression::Lookup {
            set: name(self.of(1)?),
            register: self.number(2)?,
            is_map: self.of(3).is_some(),
            decides: self.number(3) == Some(NFT_REG_VERDICT),
            is_inverted: self.number(5).unwrap_or_default() & 1 != 0,
        })
    }

    /// What `iptables-nft` has no expression of nf_tables for: `NFTA_MATCH_NAME`, `NFTA_MATCH_REV`, `NFTA_MATCH_INFO`.
    fn match_of_iptables(&self) -> Option<Expression> {
        match (&*name(self.of(1)?), self.number(2)) {
            // It matches always.
            ("comment", _) => Some(Expression::Effect),
            ("multiport", Some(1)) => ports(self.of(3)?.payload),
            _ => None,
        }
    }

    /// The same for what a rule does: `NFTA_TARGET_NAME`.
    fn target_of_iptables(&self) -> Option<Expression> {
        let name = name(self.of(1)?);
        match &*name {
            "REJECT" => Some(Expression::Reject),
            name if CONTINUE.contains(&name) => Some(Expression::Effect),
            _ => None,
        }
    }

    fn immediate(&self) -> Result<Option<Expression>, Error> {
        if self.number(1) != Some(NFT_REG_VERDICT) {
            return Ok(Some(Expression::Effect)); // a value for what is set next
        }
        let Some(data) = self.of(2) else { return Ok(None) };
        Ok(verdict(data.payload)?.map(Expression::Verdict))
    }
}

/// Parses `struct xt_multiport_v1` (`include/uapi/linux/netfilter/xt_multiport.h`): which port, number of entries, 15 ports in the order of the
/// host, 15 marks that a port begins a range, and whether it is inverted. `None` if it is too short or odd.
fn ports(info: &[u8]) -> Option<Expression> {
    let (which, count) = (*info.first()?, usize::from(*info.get(1)?));
    let is_inverted = *info.get(PORTS_INVERTED)? != 0;
    let port = |at: usize| {
        let bytes = info.get(2 + 2 * at..)?.first_chunk()?;
        Some(u16::from_ne_bytes(*bytes))
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < count.min(PORTS_MAX) {
        let first = port(at)?;
        let begins_range = *info.get(PORTS_RANGES + at)? != 0;
        if begins_range {
            at += 1;
        }
        ranges.push((first, port(at)?));
        at += 1;
    }
    Some(Expression::Ports {
        source: matches!(which, 0 | 2),
        destination: matches!(which, 1 | 2),
        ranges,
        is_inverted,
    })
    .filter(|_| which <= 2)
}

impl Verdict {
    fn parse(nest: &[u8]) -> Result<Self, Error> {
        let (mut code, mut chain) = (None, String::new());
        for part in Attributes::new(nest) {
            let part = part?;
            match part.kind {
                NFTA_VERDICT_CODE => code = be_u32(&part).map(u32::cast_signed),
                NFTA_VERDICT_CHAIN => chain = name(&part),
                _ => {}
            }
        }
        Ok(match code {
            Some(0) => Self::Drop,
            Some(1) => Self::Accept,
            Some(-1) => Self::Continue,
            Some(-3) => Self::Jump(chain),
            Some(-4) => Self::Goto(chain),
            Some(-5) => Self::Return,
            _ => Self::Other,
        })
    }
}

/// The decision in a nested `NFTA_DATA_VERDICT`; `None` without one.
pub(super) fn verdict(nest: &[u8]) -> Result<Option<Verdict>, Error> {
    for part in Attributes::new(nest) {
        let part = part?;
        if part.kind == NFTA_DATA_VERDICT {
            return Verdict::parse(part.payload).map(Some);
        }
    }
    Ok(None)
}

/// The value in a nested `NFTA_DATA_VALUE`; empty without one.
pub(super) fn value(nest: &[u8]) -> Result<Vec<u8>, Error> {
    for part in Attributes::new(nest) {
        let part = part?;
        if part.kind == NFTA_DATA_VALUE {
            return Ok(part.payload.to_vec());
        }
    }
    Ok(Vec::new())
}

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NFT_REG_VERDICT: u32 = 0;
const NFT_CT_STATE: u32 = 0;
/// Targets of iptables after which the next rule has the packet (`XT_CONTINUE`).
const CONTINUE: [&str; 19] = [
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "DSCP",
    "ECN",
    "HL",
    "HMARK",
    "IDLETIMER",
    "LED",
    "LOG",
    "MARK",
    "NFLOG",
    "RATEEST",
    "SECMARK",
    "TOS",
    "TRACE",
    "TTL",
];
/// `XT_MULTI_PORTS`
const PORTS_MAX: usize = 15;
/// Where `pflags` and `invert` of `struct xt_multiport_v1` are.
const PORTS_RANGES: usize = 32;
const PORTS_INVERTED: usize = 47;
/// More than the highest attribute number of the expressions that are parsed.
const PARTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_multiport_are_single_ones_and_ranges() {
        let mut info = [0; 48];
        (info[0], info[1], info[47]) = (1, 3, 1);
        for (at, port) in [4015_u16, 5000, 5010].into_iter().enumerate() {
            info[2 + 2 * at..4 + 2 * at].copy_from_slice(&port.to_ne_bytes());
        }
        info[PORTS_RANGES + 1] = 1;
        let expected = Expression::Ports {
            source: false,
            destination: true,
            ranges: Vec::from([(4015, 4015), (5000, 5010)]),
            is_inverted: true,
        };
        assert_eq!(ports(&info), Some(expected));
        assert_eq!(ports(&info[..47]), None);
        assert_eq!(ports(&[]), None);
        info[0] = 3;
        assert_eq!(ports(&info), None);
        // A range without an end.
        (info[0], info[1]) = (0, 15);
        info[PORTS_RANGES..PORTS_INVERTED].fill(1);
        assert!(ports(&info).is_some());
    }
}
