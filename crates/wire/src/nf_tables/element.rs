//! Elements of sets.

use super::{FIXED_LEN, Family, SUBSYSTEM, Verdict, be_u32, header};
use crate::bytes::split_fixed;
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::vec::Vec;

/// Some elements of a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Elements(pub Vec<Element>);

/// An element of a set, or a limit of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The value; of a range its first one
    pub key: Vec<u8>,
    /// The last value of a range of concatenated values; `None` for others
    pub key_end: Option<Vec<u8>>,
    /// Whether a range ended before this value
    pub ends_range: bool,
    /// Whether everything that is in no other element matches
    pub is_catch_all: bool,
    /// What a map to verdicts decides about it
    pub verdict: Option<Verdict>,
}

impl Elements {
    /// Parses the payload of an [`NFT_MSG_NEWSETELEM`](Self::MESSAGE).
    ///
    /// # Errors
    /// When it is shorter than `struct nfgenmsg`, or an attribute's header is broken.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let (_, attributes) = split_fixed::<FIXED_LEN>(payload, Layer::NfTables)?;
        let mut elements = Vec::new();
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            if attribute.kind == NFTA_SET_ELEM_LIST_ELEMENTS {
                for element in Attributes::new(attribute.payload) {
                    elements.push(Element::parse(element?.payload)?);
                }
            }
        }
        Ok(Self(elements))
    }

    /// Returns a request for all elements of a set; `None` if a name is too long.
    #[must_use]
    pub fn dump(family: Family, table: &str, set: &str, sequence: u32) -> Option<Vec<u8>> {
        let ended = |name: &str| [name.as_bytes(), &[0]].concat();
        let request = Request::dump(SUBSYSTEM | NFT_MSG_GETSETELEM, sequence)
            .payload(&header(family))
            .attribute(NFTA_SET_ELEM_LIST_TABLE, &ended(table))?
            .attribute(NFTA_SET_ELEM_LIST_SET, &ended(set))?;
        Some(request.finish())
    }

    /// `NFT_MSG_NEWSETELEM`: the answer to [`dump`](Self::dump)
    pub const MESSAGE: u16 = SUBSYSTEM | 12;
}

impl Element {
    fn parse(nest: &[u8]) -> Result<Self, Error> {
        let mut element = Self {
            key: Vec::new(),
            key_end: None,
            ends_range: false,
            is_catch_all: false,
            verdict: None,
        };
        for part in Attributes::new(nest) {
            let part = part?;
            match part.kind {
                NFTA_SET_ELEM_KEY => element.key = super::expression::value(part.payload)?,
                NFTA_SET_ELEM_KEY_END => {
                    element.key_end = Some(super::expression::value(part.payload)?);
                }
                NFTA_SET_ELEM_DATA => element.verdict = super::expression::verdict(part.payload)?,
                NFTA_SET_ELEM_FLAGS => {
                    let flags = be_u32(&part).unwrap_or_default();
                    element.ends_range = flags & NFT_SET_ELEM_INTERVAL_END != 0;
                    element.is_catch_all = flags & NFT_SET_ELEM_CATCHALL != 0;
                }
                _ => {}
            }
        }
        Ok(element)
    }
}

const NFT_MSG_GETSETELEM: u16 = 13;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_FLAGS: u16 = 3;
const NFTA_SET_ELEM_KEY_END: u16 = 10;
const NFT_SET_ELEM_INTERVAL_END: u32 = 1;
const NFT_SET_ELEM_CATCHALL: u32 = 2;

#[cfg(test)]
mod tests {
    use super::super::testing::{attribute, message};
    use super::*;

    #[test]
    fn elements_are_parsed() {
        let key = |bytes: &[u8]| attribute(NFTA_SET_ELEM_KEY, &attribute(1, bytes));
        let flags = attribute(NFTA_SET_ELEM_FLAGS, &1_u32.to_be_bytes());
        let code = attribute(1, &0_u32.to_be_bytes());
        let drop = attribute(NFTA_SET_ELEM_DATA, &attribute(2, &code));
        let list = [
            attribute(1, &[key(&[0, 80]), drop].concat()),
            attribute(1, &[key(&[0, 81]), flags].concat()),
        ];
        let bytes = message(1, &[attribute(NFTA_SET_ELEM_LIST_ELEMENTS, &list.concat())]);
        let Elements(elements) = Elements::parse(&bytes).unwrap();
        assert_eq!(elements[0].key, [0, 80]);
        assert_eq!(
            (&elements[0].verdict, &elements[1].verdict),
            (&Some(Verdict::Drop), &None)
        );
        assert_eq!((elements[0].ends_range, elements[1].ends_range), (false, true));
        assert!(Elements::parse(&[0; 3]).is_err());
        assert!(Elements::dump(Family::IP, &"x".repeat(70_000), "s", 1).is_none());
    }
}
