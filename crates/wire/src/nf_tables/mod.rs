//! Packet filter rules of nf_tables, which `nft` and `iptables-nft` set.
//!
//! ```text
//! struct nfgenmsg { u8 family; u8 version; be16 res_id; }                                          4
//! NFTA_CHAIN_TABLE 1, NAME 3, HOOK 4 { HOOKNUM 1, PRIORITY 2 }, POLICY 5, TYPE 7, COUNTERS 8
//! NFTA_RULE_TABLE 1, CHAIN 2, HANDLE 3, EXPRESSIONS 4 { LIST_ELEM 1 { EXPR_NAME 1, EXPR_DATA 2 { ... } } }
//! NFTA_SET_ELEM_LIST_TABLE 1, SET 2, ELEMENTS 3 { LIST_ELEM 1 { KEY 1, DATA 2, FLAGS 3, KEY_END 10 } }
//! ```
//! Numbers are in network order. Source: `include/uapi/linux/netfilter/nf_tables.h`, `nfnetlink.h`, `netfilter.h`.

mod chain;
mod element;
mod expression;
mod rule;

pub use chain::{Chain, Hook};
pub use element::{Element, Elements};
pub use expression::{Base, Expression, MetaKey, Operator, Verdict};
pub use rule::Rule;

use crate::netlink::Attribute;
use alloc::string::String;
use core::fmt;

/// The packets that a table sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family(pub u8);

impl Family {
    /// IPv4 and IPv6
    pub const INET: Self = Self(1);
    /// IPv4
    pub const IP: Self = Self(2);
    /// IPv6
    pub const IP6: Self = Self(10);
    /// ARP
    pub const ARP: Self = Self(3);
    /// What comes in and goes out over single interfaces
    pub const NETDEV: Self = Self(5);
    /// What a bridge passes on from one of its ports to another
    pub const BRIDGE: Self = Self(7);
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "inet",
            2 => "ip",
            3 => "arp",
            5 => "netdev",
            7 => "bridge",
            10 => "ip6",
            number => return write!(f, "{number}"),
        })
    }
}

/// The fixed part of a request: `struct nfgenmsg`.
const fn header(family: Family) -> [u8; 4] {
    [family.0, 0, 0, 0]
}

/// A name, without the zero at its end.
fn name(attribute: &Attribute<'_>) -> String {
    String::from_utf8_lossy(crate::rtnetlink::text(attribute.payload)).into_owned()
}

fn be_u64(attribute: &Attribute<'_>) -> Option<u64> {
    Some(u64::from_be_bytes(*attribute.payload.first_chunk()?))
}

fn be_u32(attribute: &Attribute<'_>) -> Option<u32> {
    crate::bytes::be_u32(attribute.payload, 0)
}

const FIXED_LEN: usize = 4;
const SUBSYSTEM: u16 = 10 << 8;

#[cfg(test)]
mod testing {
    use alloc::vec::Vec;

    pub(super) use crate::rtnetlink::build::attribute;

    /// `struct nfgenmsg` and attributes.
    pub(super) fn message(family: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        [&[family, 0, 0, 0][..], &attributes.concat()].concat()
    }
}
