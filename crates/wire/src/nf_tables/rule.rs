//! Rules.

use super::{Expression, FIXED_LEN, Family, SUBSYSTEM, be_u64, header, name};
use crate::bytes::split_fixed;
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::string::String;
use alloc::vec::Vec;

/// A rule of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The packets that its table sees
    pub family: Family,
    /// Its table
    pub table: String,
    /// Its chain
    pub chain: String,
    /// Its number, as `nft -a list ruleset` shows it
    pub handle: u64,
    /// What it compares and does, in order; the first comparison that fails ends it
    pub expressions: Vec<Expression>,
}

impl Rule {
    /// Parses the payload of an [`NFT_MSG_NEWRULE`](Self::MESSAGE).
    ///
    /// # Errors
    /// When it is shorter than `struct nfgenmsg`, or an attribute's header is broken.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let (fixed, attributes) = split_fixed::<FIXED_LEN>(payload, Layer::NfTables)?;
        let mut rule = Self {
            family: Family(fixed[0]),
            table: String::new(),
            chain: String::new(),
            handle: 0,
            expressions: Vec::new(),
        };
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                NFTA_RULE_TABLE => rule.table = name(&attribute),
                NFTA_RULE_CHAIN => rule.chain = name(&attribute),
                NFTA_RULE_HANDLE => rule.handle = be_u64(&attribute).unwrap_or_default(),
                NFTA_RULE_EXPRESSIONS => {
                    for expression in Attributes::new(attribute.payload) {
                        rule.expressions.push(Expression::parse(expression?.payload)?);
                    }
                }
                _ => {}
            }
        }
        Ok(rule)
    }

    /// Returns a request for all rules, in the order of their chains.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        let request = Request::dump(SUBSYSTEM | NFT_MSG_GETRULE, sequence);
        request.payload(&header(Family(0))).finish()
    }

    /// `NFT_MSG_NEWRULE`: the answer to [`dump`](Self::dump)
    pub const MESSAGE: u16 = SUBSYSTEM | 6;
}

const NFT_MSG_GETRULE: u16 = 7;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_RULE_EXPRESSIONS: u16 = 4;

#[cfg(test)]
mod tests {
    use super::super::testing::{attribute, message};
    use super::super::{Base, Operator, Verdict};
    use super::*;
    use alloc::vec;

    fn expression(name: &[u8], data: &[Vec<u8>]) -> Vec<u8> {
        attribute(1, &[attribute(1, name), attribute(2, &data.concat())].concat())
    }

    fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_be_bytes())
    }

    /// `tcp dport 5000 counter drop`, without the comparison of the protocol
    fn drop_port() -> Vec<u8> {
        let verdict = attribute(2, &attribute(2, &number(1, 0)));
        let expressions = [
            expression(
                b"payload\0",
                &[number(1, 1), number(2, 2), number(3, 2), number(4, 2)],
            ),
            expression(
                b"cmp\0",
                &[
                    number(1, 1),
                    number(2, 0),
                    attribute(3, &attribute(1, &[0x13, 0x88])),
                ],
            ),
            expression(
                b"counter\0",
                &[
                    attribute(1, &300_u64.to_be_bytes()),
                    attribute(2, &5_u64.to_be_bytes()),
                ],
            ),
            expression(b"immediate\0", &[number(1, 0), verdict]),
        ];
        message(
            2,
            &[
                attribute(NFTA_RULE_TABLE, b"filter\0"),
                attribute(NFTA_RULE_CHAIN, b"out\0"),
                attribute(NFTA_RULE_HANDLE, &12_u64.to_be_bytes()),
                attribute(NFTA_RULE_EXPRESSIONS, &expressions.concat()),
            ],
        )
    }

    #[test]
    fn rules_are_parsed() {
        let rule = Rule::parse(&drop_port()).unwrap();
        assert_eq!((rule.family, rule.handle), (Family::IP, 12));
        assert_eq!((&*rule.table, &*rule.chain), ("filter", "out"));
        let expected = vec![
            Expression::Payload {
                base: Base::Transport,
                offset: 2,
                len: 2,
                register: 1,
            },
            Expression::Compare {
                register: 1,
                operator: Operator::Equal,
                value: vec![0x13, 0x88],
            },
            Expression::Counter { packets: 5 },
            Expression::Verdict(Verdict::Drop),
        ];
        assert_eq!(rule.expressions, expected);
    }

    #[test]
    fn each_truncation_is_an_error_or_a_shorter_rule() {
        let bytes = drop_port();
        for len in 0..bytes.len() {
            if let Ok(rule) = Rule::parse(&bytes[..len]) {
                assert!(rule.expressions.is_empty(), "{len}");
            }
        }
    }
}
