//! What has to be known of a packet before its shard sees it: which shard that is, and what other packets say about it.

use crate::NameLookup;
use crate::lookups::Lookups;
use crate::shard::SHARDS;
use crate::tuple::Tuple;
use sockeye_wire::packet::{IcmpError, Notice, Segment, TcpFlags};
use std::hash::{Hash as _, Hasher};

/// Prepares segments for their shards, in the order of their capture.
#[derive(Debug, Default)]
pub struct Router {
    origin_ns: Option<u64>,
    lookups: Lookups,
}

impl Router {
    /// The shard of a segment, the same for both directions of its connection.
    #[must_use]
    #[inline]
    pub fn shard(segment: &Segment) -> usize {
        shard_of(&Tuple::of(segment).0)
    }

    /// The shard of the connection that an ICMP error is about.
    #[must_use]
    pub fn shard_of_error(error: &IcmpError) -> usize {
        shard_of(&Tuple::of_ends(error.source, error.destination).0)
    }

    /// Processes a packet that explains connections: a DNS answer belongs to those that follow it. An ICMP error is
    /// returned: its shard needs it.
    pub fn notice(&mut self, time_ns: u64, notice: Notice) -> Option<IcmpError> {
        match notice {
            Notice::Dns(message) => {
                self.lookups.add(time_ns, message);
                None
            }
            Notice::Icmp(error) => Some(error),
        }
    }

    /// Time of the first segment, which is this one at `time_ns` if there was none before.
    pub fn origin_ns(&mut self, time_ns: u64) -> u64 {
        *self.origin_ns.get_or_insert(time_ns)
    }

    /// A time as it is used: clamped so that arithmetic with times cannot overflow.
    #[must_use]
    #[inline]
    pub fn time_ns(origin_ns: u64, time_ns: u64) -> u64 {
        time_ns.clamp(
            origin_ns.saturating_sub(TIME_NS_MAX),
            origin_ns.saturating_add(TIME_NS_MAX),
        )
    }

    /// Whether [`Self::lookup`] can find anything.
    #[must_use]
    pub fn has_lookups(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// The name lookup that a SYN waited for.
    #[must_use]
    pub fn lookup(&self, time_ns: u64, segment: &Segment) -> Option<Box<NameLookup>> {
        if !segment.flags.has(TcpFlags::SYN) || segment.flags.has(TcpFlags::ACK) {
            return None;
        }
        self.lookups
            .before(time_ns, segment.source, segment.destination)
            .map(Box::new)
    }
}

fn shard_of(tuple: &Tuple) -> usize {
    let mut hasher = ShardHasher(0);
    tuple.hash(&mut hasher);
    hasher.finish() as usize % SHARDS
}

/// A hash that is the same in each run.
struct ShardHasher(u64);

impl ShardHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for ShardHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_u128(&mut self, word: u128) {
        self.mix(word as u64);
        self.mix((word >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        // The high bits depend on all of the input.
        self.0 >> 40
    }
}

/// Seventy years.
const TIME_NS_MAX: u64 = 1 << 61;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_addresses_are_spread_over_the_shards() {
        let mut counts = [0; SHARDS];
        for number in 0..16_000_u32 {
            let client = (
                std::net::Ipv4Addr::from(0x0a00_0000 + number / 100).into(),
                40_000 + (number % 100) as u16,
            );
            counts[shard_of(&Tuple::of_ends(client, ([192, 0, 2, 1].into(), 443)).0)] += 1;
        }
        assert!(
            counts.iter().all(|count| (700..1_300).contains(count)),
            "{counts:?}"
        );
    }
}
