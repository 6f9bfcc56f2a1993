//! Queueing disciplines.
//!
//! ```text
//! struct tcmsg { u8 family, pad; u16 pad; i32 ifindex; u32 handle, parent, info; }    20
//! TCA_KIND 1 "tbf"
//! TCA_STATS2 7 { TCA_STATS_BASIC 1: struct gnet_stats_basic { u64 bytes; u32 packets; }
//!                TCA_STATS_QUEUE 3: struct gnet_stats_queue { u32 qlen, backlog, drops, requeues, overlimits; }
//!                TCA_STATS_PKT64 8: u64 packets, if they do not fit into 32 bits; Linux 5.5 }
//! TCA_STATS 3: struct tc_stats { u64 bytes; u32 packets, drops, overlimits, bps, pps, qlen, backlog; }
//! ```
//! Source: `include/uapi/linux/rtnetlink.h`, `pkt_sched.h`, `gen_stats.h`, `net/core/gen_stats.c`.

use super::text;
use crate::bytes::{ne_i32, ne_u32, ne_u64, split_fixed};
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::vec::Vec;

/// A queueing discipline with its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qdisc<'a> {
    /// `tcm_ifindex`
    pub index: i32,
    /// `tcm_handle`
    pub handle: u32,
    /// `tcm_parent`
    pub parent: u32,
    /// `TCA_KIND`
    pub kind: &'a [u8],
    /// Counters; `None` if the message has none.
    pub stats: Option<QdiscStats>,
}

/// `TCA_STATS2`, else `TCA_STATS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the structs' names
pub struct QdiscStats {
    pub bytes: u64,
    pub packets: u64,
    pub drops: u32,
    pub overlimits: u32,
    /// Requeued packets; 0 from `TCA_STATS`, which does not have it
    pub requeues: u32,
    /// Packets waiting
    pub qlen: u32,
    /// Bytes waiting
    pub backlog: u32,
}

impl<'a> Qdisc<'a> {
    /// Parses the payload of an `RTM_NEWQDISC`.
    ///
    /// # Errors
    /// When it is shorter than `struct tcmsg`, or the envelope of an attribute is broken.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Error> {
        let (fixed, attributes) = split_fixed::<20>(payload, Layer::RouteQdisc)?;
        let mut qdisc = Self {
            index: ne_i32(fixed, 4).unwrap_or_default(),
            handle: ne_u32(fixed, 8).unwrap_or_default(),
            parent: ne_u32(fixed, 12).unwrap_or_default(),
            kind: &[],
            stats: None,
        };
        let (mut old, mut new) = (None, None);
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                TCA_KIND => qdisc.kind = text(attribute.payload),
                TCA_STATS => old = QdiscStats::parse_old(attribute.payload),
                TCA_STATS2 => new = QdiscStats::parse(attribute.payload),
                _ => {}
            }
        }
        qdisc.stats = new.or(old);
        Ok(qdisc)
    }

    /// Returns a request for the disciplines of all interfaces. Implicit children of classful ones are not reported.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        Request::dump(RTM_GETQDISC, sequence).payload(&[0; 20]).finish()
    }

    /// Returns a request for the classes of an interface's disciplines. They are reported in the same form; their parent is a class or a
    /// discipline.
    #[must_use]
    pub fn dump_classes(index: u32, sequence: u32) -> Vec<u8> {
        let mut fixed = [0; 20];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        Request::dump(RTM_GETTCLASS, sequence).payload(&fixed).finish()
    }
}

impl QdiscStats {
    /// Parses `TCA_STATS2`; `None` without the two parts that every discipline has.
    fn parse(nest: &[u8]) -> Option<Self> {
        let (mut basic, mut queue, mut packets) = (&[][..], &[][..], None);
        for attribute in Attributes::new(nest).flatten() {
            match attribute.kind {
                TCA_STATS_BASIC => basic = attribute.payload,
                TCA_STATS_QUEUE => queue = attribute.payload,
                TCA_STATS_PKT64 => packets = attribute.u64(),
                _ => {}
            }
        }
        Some(Self {
            bytes: ne_u64(basic, 0)?,
            packets: packets.or_else(|| ne_u32(basic, 8).map(u64::from))?,
            qlen: ne_u32(queue, 0)?,
            backlog: ne_u32(queue, 4)?,
            drops: ne_u32(queue, 8)?,
            requeues: ne_u32(queue, 12)?,
            overlimits: ne_u32(queue, 16)?,
        })
    }

    fn parse_old(stats: &[u8]) -> Option<Self> {
        Some(Self {
            bytes: ne_u64(stats, 0)?,
            packets: ne_u32(stats, 8)?.into(),
            drops: ne_u32(stats, 12)?,
            overlimits: ne_u32(stats, 16)?,
            requeues: 0,
            qlen: ne_u32(stats, 28)?,
            backlog: ne_u32(stats, 32)?,
        })
    }
}

/// `RTM_NEWQDISC`: the answer to [`Qdisc::dump`]
pub const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// `RTM_NEWTCLASS`: the answer to [`Qdisc::dump_classes`]
pub const RTM_NEWTCLASS: u16 = 40;
const RTM_GETTCLASS: u16 = 42;
const TCA_KIND: u16 = 1;
const TCA_STATS: u16 = 3;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;

#[cfg(test)]
mod tests {
    use super::super::build::attribute;
    use super::*;

    fn message(stats: &[u8]) -> Vec<u8> {
        let mut bytes = alloc::vec![0, 0, 0, 0];
        for word in [5_u32, 0x8001_0000, 0xffff_ffff, 1] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(attribute(TCA_KIND, b"tbf\0"));
        bytes.extend_from_slice(stats);
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn both_kinds_of_statistics_are_parsed() {
        let basic = [100_u64.to_ne_bytes().to_vec(), words(&[2, 0])].concat();
        let nest = [
            attribute(TCA_STATS_BASIC, &basic),
            attribute(TCA_STATS_QUEUE, &words(&[3, 300, 4, 5, 6])),
        ]
        .concat();
        let old = [100_u64.to_ne_bytes().to_vec(), words(&[2, 4, 6, 0, 0, 3, 300, 0])].concat();
        let expected = QdiscStats {
            bytes: 100,
            packets: 2,
            drops: 4,
            overlimits: 6,
            requeues: 5,
            qlen: 3,
            backlog: 300,
        };
        let bytes = message(&attribute(TCA_STATS2, &nest));
        let qdisc = Qdisc::parse(&bytes).unwrap();
        assert_eq!((qdisc.index, qdisc.kind), (5, &b"tbf"[..]));
        assert_eq!((qdisc.handle, qdisc.parent), (0x8001_0000, 0xffff_ffff));
        assert_eq!(qdisc.stats, Some(expected));
        let bytes = message(&attribute(TCA_STATS, &old));
        assert_eq!(
            Qdisc::parse(&bytes).unwrap().stats,
            Some(QdiscStats {
                requeues: 0,
                ..expected
            })
        );
        let more = [
            nest.clone(),
            attribute(TCA_STATS_PKT64, &(1_u64 << 40).to_ne_bytes()),
        ]
        .concat();
        let bytes = message(&attribute(TCA_STATS2, &more));
        assert_eq!(Qdisc::parse(&bytes).unwrap().stats.unwrap().packets, 1 << 40);
    }

    #[test]
    fn truncated_messages_are_errors() {
        assert!(Qdisc::parse(&[0; 19]).is_err());
        let bytes = message(&attribute(TCA_STATS2, &attribute(TCA_STATS_BASIC, &[1; 11])));
        assert_eq!(Qdisc::parse(&bytes).unwrap().stats, None);
        let bytes = message(&[40, 0, 7, 0]);
        assert!(Qdisc::parse(&bytes).is_err());
    }
}
