//! Speed, duplex and offloads of interfaces, through ethtool's generic netlink (Linux 5.6).
//!
//! ```text
//! struct genlmsghdr { u8 cmd, version; u16 reserved; }    4
//! CTRL_CMD_GETFAMILY 3: CTRL_ATTR_FAMILY_NAME 2 "ethtool"; the answer has CTRL_ATTR_FAMILY_ID 1: u16
//! ETHTOOL_MSG_LINKMODES_GET 4: ETHTOOL_A_LINKMODES_HEADER 1 { ETHTOOL_A_HEADER_DEV_INDEX 1: u32,
//!                                                             ETHTOOL_A_HEADER_FLAGS 3: u32 }
//!                              ETHTOOL_A_LINKMODES_SPEED 5: u32    ETHTOOL_A_LINKMODES_DUPLEX 6: u8
//! ETHTOOL_MSG_FEATURES_GET 11: ETHTOOL_A_FEATURES_HEADER 1, as above
//!                              ETHTOOL_A_FEATURES_ACTIVE 4 { ETHTOOL_A_BITSET_BITS 3 {
//!                                  ETHTOOL_A_BITSET_BITS_BIT 1 { ETHTOOL_A_BITSET_BIT_NAME 2 "tx-udp-segmentation" } } }
//! ```
//! Source: `include/uapi/linux/genetlink.h`, `ethtool_netlink.h`, `ethtool.h`.

use crate::bytes::split_fixed;
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::vec::Vec;

/// Returns a generic netlink request for the id of ethtool's family.
#[must_use]
pub fn family_request(sequence: u32) -> Vec<u8> {
    let request = Request::one(GENL_ID_CTRL, sequence).payload(&[CTRL_CMD_GETFAMILY, 1, 0, 0]);
    let named = request.clone().attribute(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    named.unwrap_or(request).finish()
}

/// Parses the family's id from the payload of the answer; it is the same in every namespace until the host is
/// restarted.
/// `None` if the message has none.
///
/// # Errors
/// When it is shorter than `struct genlmsghdr`, or the envelope of an attribute is broken.
pub fn family(payload: &[u8]) -> Result<Option<u16>, Error> {
    let (_, attributes) = split_fixed::<4>(payload, Layer::GenericNetlink)?;
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        if attribute.kind == CTRL_ATTR_FAMILY_ID {
            return Ok(attribute.u16());
        }
    }
    Ok(None)
}

/// Speed and duplex of an interface's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkModes {
    /// `ETHTOOL_A_HEADER_DEV_INDEX`
    pub index: Option<u32>,
    /// `ETHTOOL_A_LINKMODES_SPEED` in Mbit/s; `u32::MAX` (`SPEED_UNKNOWN`) if the driver does not know it
    pub speed: Option<u32>,
    /// `ETHTOOL_A_LINKMODES_DUPLEX`: [`DUPLEX_HALF`], [`DUPLEX_FULL`], or 255 for unknown
    pub duplex: Option<u8>,
}

impl LinkModes {
    /// Returns a request for all interfaces, with the family's id. Interfaces without ethtool support are missing in
    /// the answer.
    #[must_use]
    pub fn dump(family: u16, sequence: u32) -> Vec<u8> {
        let mut flags = 8_u16.to_ne_bytes().to_vec();
        flags.extend(ETHTOOL_A_HEADER_FLAGS.to_ne_bytes());
        flags.extend(ETHTOOL_FLAG_COMPACT_BITSETS.to_ne_bytes());
        let request = Request::dump(family, sequence).payload(&[ETHTOOL_MSG_LINKMODES_GET, 1, 0, 0]);
        // Without the flag each link mode is sent with its name.
        let compact = request
            .clone()
            .attribute(NLA_F_NESTED | ETHTOOL_A_LINKMODES_HEADER, &flags);
        compact.unwrap_or(request).finish()
    }

    /// Parses the payload of an answer.
    ///
    /// # Errors
    /// When it is shorter than `struct genlmsghdr`, or the envelope of an attribute is broken.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let (_, attributes) = split_fixed::<4>(payload, Layer::GenericNetlink)?;
        let mut modes = Self::default();
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                ETHTOOL_A_LINKMODES_HEADER => {
                    let mut header = Attributes::new(attribute.payload).flatten();
                    let index = header.find(|attribute| attribute.kind == ETHTOOL_A_HEADER_DEV_INDEX);
                    modes.index = index.and_then(|index| index.u32());
                }
                ETHTOOL_A_LINKMODES_SPEED => modes.speed = attribute.u32(),
                ETHTOOL_A_LINKMODES_DUPLEX => modes.duplex = attribute.u8(),
                _ => {}
            }
        }
        Ok(modes)
    }
}

/// Returns a request for the features of the interface with this index, with names, with the family's id.
#[must_use]
pub fn features_request(family: u16, index: u32, sequence: u32) -> Vec<u8> {
    let mut header = 8_u16.to_ne_bytes().to_vec();
    header.extend(ETHTOOL_A_HEADER_DEV_INDEX.to_ne_bytes());
    header.extend(index.to_ne_bytes());
    let request = Request::one(family, sequence).payload(&[ETHTOOL_MSG_FEATURES_GET, 1, 0, 0]);
    let about = request
        .clone()
        .attribute(NLA_F_NESTED | ETHTOOL_A_FEATURES_HEADER, &header);
    about.unwrap_or(request).finish()
}

/// Parses the names of the enabled features from the payload of the answer.
///
/// # Errors
/// When it is shorter than `struct genlmsghdr`, or the envelope of an attribute is broken.
pub fn active_features(payload: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let (_, attributes) = split_fixed::<4>(payload, Layer::GenericNetlink)?;
    let mut names = Vec::new();
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        if attribute.kind != ETHTOOL_A_FEATURES_ACTIVE {
            continue;
        }
        let bitset = Attributes::new(attribute.payload).flatten();
        let bits = bitset.filter(|attribute| attribute.kind == ETHTOOL_A_BITSET_BITS);
        for bit in bits.flat_map(|bits| Attributes::new(bits.payload).flatten()) {
            let mut parts = Attributes::new(bit.payload).flatten();
            let name = parts.find(|part| part.kind == ETHTOOL_A_BITSET_BIT_NAME);
            names.extend(name.map(|name| name.payload.strip_suffix(&[0]).unwrap_or(name.payload)));
        }
    }
    Ok(names)
}

/// One end sends at a time
pub const DUPLEX_HALF: u8 = 0;
/// Both ends send at once
pub const DUPLEX_FULL: u8 = 1;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_LINKMODES_GET: u8 = 4;
const ETHTOOL_A_LINKMODES_HEADER: u16 = 1;
const ETHTOOL_A_LINKMODES_SPEED: u16 = 5;
const ETHTOOL_A_LINKMODES_DUPLEX: u16 = 6;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_FLAG_COMPACT_BITSETS: u32 = 1;
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Messages;
    use crate::rtnetlink::build::attribute;

    #[test]
    fn family_is_requested_by_name() {
        let request = family_request(3);
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.sequence), (16, 3));
        let expected = [&[3, 1, 0, 0][..], &attribute(2, b"ethtool\0")].concat();
        assert_eq!(message.payload, expected);
        let answer = [
            &[1, 2, 0, 0][..],
            &attribute(2, b"ethtool\0"),
            &attribute(1, &[21, 0]),
        ]
        .concat();
        assert_eq!(family(&answer), Ok(Some(u16::from_ne_bytes([21, 0]))));
        assert_eq!(family(&[1, 2, 0, 0]), Ok(None));
        assert!(family(&[1, 2]).is_err());
    }

    #[test]
    fn speed_and_duplex_are_parsed() {
        let header = [attribute(1, &7_u32.to_ne_bytes()), attribute(2, b"tap0\0")].concat();
        let answer = [
            &[4, 1, 0, 0][..],
            &attribute(NLA_F_NESTED | 1, &header),
            &attribute(2, &[0]),
            &attribute(5, &10_u32.to_ne_bytes()),
            &attribute(6, &[0]),
        ]
        .concat();
        let expected = LinkModes {
            index: Some(7),
            speed: Some(10),
            duplex: Some(DUPLEX_HALF),
        };
        assert_eq!(LinkModes::parse(&answer), Ok(expected));
        assert_eq!(LinkModes::parse(&[4, 1, 0, 0]), Ok(LinkModes::default()));
        assert!(LinkModes::parse(&answer[..answer.len() - 4]).is_err());
        let request = LinkModes::dump(21, 1);
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.payload.len()), (21, 4 + 12));
    }

    #[test]
    fn active_features_are_listed_by_name() {
        let bit = |name: &[u8]| {
            attribute(
                NLA_F_NESTED | 1,
                &[attribute(1, &[7, 0, 0, 0]), attribute(2, name)].concat(),
            )
        };
        let bits = [bit(b"tx-tcp-segmentation\0"), bit(b"rx-gro\0")].concat();
        let nest = |kind: u16, inner: &[u8]| attribute(NLA_F_NESTED | kind, inner);
        let bitset = [attribute(1, &[]), nest(3, &bits)].concat();
        let other = nest(3, &bit(b"wanted\0"));
        let answer = [&[11, 1, 0, 0][..], &nest(3, &other), &nest(4, &bitset)].concat();
        assert_eq!(
            active_features(&answer).unwrap(),
            [&b"tx-tcp-segmentation"[..], b"rx-gro"]
        );
        assert!(active_features(&[11, 1, 0, 0]).unwrap().is_empty());
        assert!(active_features(&[11]).is_err());
        assert!(active_features(&answer[..answer.len() - 4]).is_err());
        let request = features_request(21, 7, 1);
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.payload.len()), (21, 4 + 12));
    }
}
