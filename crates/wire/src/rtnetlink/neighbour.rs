//! Neighbours and neighbour tables.
//!
//! ```text
//! struct ndmsg { u8 family, pad; u16 pad; i32 ifindex; u16 state; u8 flags, type; }    12
//! struct ndtmsg { u8 family, pad; u16 pad; }    4
//! NDA_DST 1: address    NDA_LLADDR 2: hardware address
//! NDTA_NAME 1 "arp_cache"      NDTA_THRESH3 4: u32
//! NDTA_CONFIG 5: struct ndt_config { u16 key_len, entry_size; u32 entries, last_flush, last_rand, hash_rnd, hash_mask,
//!                                    hash_chain_gc, proxy_qlen; }
//! NDTA_STATS 7: struct ndt_stats { u64 allocs, destroys, hash_grows, res_failed, lookups, hits, rcv_probes_mcast,
//!                                  rcv_probes_ucast, periodic_gc_runs, forced_gc_runs, table_fulls; }
//! ```
//! Source: `include/uapi/linux/neighbour.h`, `net/core/neighbour.c` (`neightbl_fill_info`).

use super::{ip, text};
use crate::bytes::{ne_u32, ne_u64, split_fixed};
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::vec::Vec;
use core::net::IpAddr;

/// A neighbour table, which all network namespaces share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourTable<'a> {
    /// `NDTA_NAME`: `arp_cache`, `ndisc_cache`
    pub name: &'a [u8],
    /// `ndtc_entries`; `None` if the message has the settings of one interface, which follow the table.
    pub entries: Option<u32>,
    /// `NDTA_THRESH3`: the most entries
    pub entries_max: Option<u32>,
    /// `ndts_table_fulls`; Linux 4.2
    pub table_fulls: Option<u64>,
}

impl<'a> NeighbourTable<'a> {
    /// Parses the payload of an `RTM_NEWNEIGHTBL`.
    ///
    /// # Errors
    /// When it is shorter than `struct ndtmsg`, or the envelope of an attribute is broken.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Error> {
        let (_, attributes) = split_fixed::<4>(payload, Layer::RouteNeighbourTable)?;
        let mut table = Self {
            name: &[],
            entries: None,
            entries_max: None,
            table_fulls: None,
        };
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                NDTA_NAME => table.name = text(attribute.payload),
                NDTA_THRESH3 => table.entries_max = attribute.u32(),
                NDTA_CONFIG => table.entries = ne_u32(attribute.payload, 4),
                NDTA_STATS => table.table_fulls = ne_u64(attribute.payload, 80),
                _ => {}
            }
        }
        Ok(table)
    }

    /// Returns a dump request for all of them.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        Request::dump(RTM_GETNEIGHTBL, sequence).payload(&[0; 4]).finish()
    }
}

/// A neighbour entry of a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// `AF_INET` or `AF_INET6`
    pub family: u8,
    /// Index of the interface
    pub index: i32,
    /// `NUD_*`
    pub state: u16,
    /// `NTF_*`
    pub flags: u8,
    /// `NDA_DST`; `None` for an entry of a bridge
    pub ip: Option<IpAddr>,
    /// `NDA_LLADDR`, if it is one of Ethernet
    pub link_address: Option<[u8; 6]>,
}

impl Neighbour {
    /// Parses the payload of an `RTM_NEWNEIGH`.
    ///
    /// # Errors
    /// When it is shorter than `struct ndmsg`.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let (fixed, attributes) = split_fixed::<12>(payload, Layer::RouteNeighbour)?;
        let of = |kind| {
            let mut all = Attributes::new(attributes).flatten();
            all.find(|attribute| attribute.kind == kind)
        };
        Ok(Self {
            ip: of(NDA_DST).and_then(|attribute| ip(attribute.payload)),
            link_address: of(NDA_LLADDR).and_then(|attribute| attribute.payload.try_into().ok()),
            family: fixed[0],
            index: i32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            state: u16::from_ne_bytes([fixed[8], fixed[9]]),
            flags: fixed[10],
        })
    }

    /// Whether it counts for the limit of its table: entries that are permanent or externally learned do not
    /// (`neigh_update_gc_list`, Linux 5.0). Entries of loopback do not count either, which only their interface shows.
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.state & NUD_PERMANENT == 0 && self.flags & NTF_EXT_LEARNED == 0
    }

    /// Whether the last attempts to find out its hardware address failed, or none was answered yet.
    #[must_use]
    pub const fn is_unanswered(&self) -> bool {
        self.state & (NUD_FAILED | NUD_INCOMPLETE) != 0
    }

    /// Whether its hardware address was set by hand or by a program, and is never asked for.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.state & NUD_PERMANENT != 0
    }

    /// Returns a dump request for all of them.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        Request::dump(RTM_GETNEIGH, sequence).payload(&[0; 12]).finish()
    }

    /// Returns a dump request for the forwarding tables of bridges: which port leads to which hardware address.
    #[must_use]
    pub fn forwarding_dump(sequence: u32) -> Vec<u8> {
        let mut message = [0; 12];
        message[0] = AF_BRIDGE;
        Request::dump(RTM_GETNEIGH, sequence).payload(&message).finish()
    }
}

/// `RTM_NEWNEIGH`: the answer to [`Neighbour::dump`]
pub const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const AF_BRIDGE: u8 = 7;
const NUD_INCOMPLETE: u16 = 0x01;
const NUD_FAILED: u16 = 0x20;
const NUD_PERMANENT: u16 = 0x80;
const NTF_EXT_LEARNED: u8 = 0x10;
/// `RTM_NEWNEIGHTBL`: the answer to [`NeighbourTable::dump`]
pub const RTM_NEWNEIGHTBL: u16 = 64;
const RTM_GETNEIGHTBL: u16 = 66;
const NDTA_NAME: u16 = 1;
const NDTA_THRESH3: u16 = 4;
const NDTA_CONFIG: u16 = 5;
const NDTA_STATS: u16 = 7;

#[cfg(test)]
mod tests {
    use super::super::build::attribute;
    use super::*;

    // Its bytes are those of a little-endian kernel.
    #[cfg(target_endian = "little")]
    #[test]
    fn neighbour_is_parsed() {
        let mut bytes = alloc::vec![2, 0, 0, 0];
        bytes.extend(7_i32.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        bytes.extend([0, 1]);
        let neighbour = Neighbour::parse(&bytes).unwrap();
        assert_eq!((neighbour.family, neighbour.index, neighbour.state), (2, 7, 2));
        assert!(neighbour.is_limited() && !neighbour.is_unanswered());
        assert_eq!(neighbour.ip, None);
        let mut failed = bytes.clone();
        failed[8] = 0x20;
        failed.extend(attribute(NDA_DST, &[10, 0, 0, 9]));
        failed.extend(attribute(NDA_LLADDR, &[2, 0, 0, 0, 0, 9]));
        let failed = Neighbour::parse(&failed).unwrap();
        assert_eq!(failed.ip, Some([10, 0, 0, 9].into()));
        assert_eq!(failed.link_address, Some([2, 0, 0, 0, 0, 9]));
        assert!(failed.is_unanswered());
        let by_hand = Neighbour {
            state: 0x80,
            ..neighbour
        };
        let learned = Neighbour {
            flags: 0x10,
            ..neighbour
        };
        assert!(!by_hand.is_limited() && !learned.is_limited());
        assert!(Neighbour::parse(&bytes[..11]).is_err());
    }

    #[test]
    fn table_without_statistics_is_parsed() {
        let mut config = alloc::vec![4, 0, 0, 1];
        config.extend(
            [17_u32, 0, 0, 0, 0, 0, 0]
                .iter()
                .flat_map(|word| word.to_ne_bytes()),
        );
        let stats: Vec<u8> = (1..=11_u64).flat_map(u64::to_ne_bytes).collect();
        let mut bytes = alloc::vec![2, 0, 0, 0];
        bytes.extend(attribute(NDTA_NAME, b"arp_cache\0"));
        bytes.extend(attribute(NDTA_THRESH3, &1024_u32.to_ne_bytes()));
        bytes.extend(attribute(NDTA_CONFIG, &config));
        bytes.extend(attribute(NDTA_STATS, &stats));
        let table = NeighbourTable::parse(&bytes).unwrap();
        assert_eq!((table.name, table.entries), (&b"arp_cache"[..], Some(17)));
        assert_eq!((table.entries_max, table.table_fulls), (Some(1024), Some(11)));
        assert!(NeighbourTable::parse(&[0; 3]).is_err());
        // An older kernel, then one interface's settings.
        let mut bytes = alloc::vec![2, 0, 0, 0];
        bytes.extend(attribute(NDTA_STATS, &stats[..80]));
        let table = NeighbourTable::parse(&bytes).unwrap();
        assert_eq!((table.entries, table.table_fulls), (None, None));
    }
}
