//! Merges IP fragments into TCP segments, for `analyze` and `graph`. It keeps headers and lengths, never the data, and does not
//! detect overlaps.

use super::cursor::protocol::{GRE, IPV4, IPV6, TCP};
use super::{Fragment, Segment};
use core::net::IpAddr;

/// A table of fragmented TCP segments, and of segments in tunnels whose packets are fragmented. It keeps only their headers and lengths, not their data, and only the last
/// [`Self::PARTIALS_MAX`] that are not complete.
///
/// A segment is returned with the fragment that completes it, as in Wireshark. Overlaps are not detected: a fragment
/// that was captured twice may complete a segment of which another fragment is missing.
#[derive(Debug, Clone)]
pub struct Fragments {
    partials: [Option<Partial>; Self::PARTIALS_MAX],
    oldest: usize,
    incomplete: u64,
}

#[derive(Debug, Clone, Copy)]
struct Partial {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    id: u32,
    /// The segment of the first fragment, with the length of its TCP header
    segment: Option<(Segment, u32)>,
    /// Bytes of all received fragments
    received: u32,
    /// Total length, known from the last fragment
    len: Option<u32>,
}

impl Default for Fragments {
    fn default() -> Self {
        Self {
            partials: [None; Self::PARTIALS_MAX],
            oldest: 0,
            incomplete: 0,
        }
    }
}

impl Fragments {
    /// Most incomplete segments at once.
    pub const PARTIALS_MAX: usize = 64;

    /// Adds a fragment. Returns the segment if the fragment completes it.
    pub fn add(&mut self, fragment: &Fragment) -> Option<Segment> {
        let is_same = |partial: &Partial| {
            (partial.id, partial.protocol, partial.source, partial.destination)
                == (
                    fragment.id,
                    fragment.protocol,
                    fragment.source,
                    fragment.destination,
                )
        };
        let known = self
            .partials
            .iter()
            .position(|partial| partial.as_ref().is_some_and(is_same));
        // UDP is rarely a tunnel: only its first fragment begins an entry.
        let is_possible = fragment.segment.is_some() || matches!(fragment.protocol, TCP | IPV4 | IPV6 | GRE);
        let index = known.or_else(|| is_possible.then(|| self.begin(fragment)))?;
        let partial = self.partials.get_mut(index)?.as_mut()?;
        partial.received = partial.received.saturating_add(fragment.len);
        if let Some(segment) = fragment.segment {
            partial.segment = Some((segment, fragment.header_len));
        }
        if !fragment.has_more {
            partial.len = Some(fragment.offset.saturating_add(fragment.len));
        }
        let (mut segment, header_len) = partial.segment?;
        let len = partial.len.filter(|len| partial.received >= *len)?;
        if fragment.protocol == TCP {
            segment.payload_len = len.saturating_sub(header_len);
        }
        self.partials[index] = None;
        Some(segment)
    }

    /// Returns the number of segments with missing fragments.
    #[must_use]
    pub fn incomplete(&self) -> u64 {
        let partials = self.partials.iter().flatten();
        self.incomplete + partials.filter(|partial| partial.is_segment()).count() as u64
    }

    /// Adds an entry for a segment, if necessary in index of an older one. Returns its index.
    fn begin(&mut self, fragment: &Fragment) -> usize {
        let free = self.partials.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.oldest = (self.oldest + 1) % Self::PARTIALS_MAX;
            let oldest = self.partials[self.oldest].as_ref();
            self.incomplete += u64::from(oldest.is_some_and(Partial::is_segment));
            self.oldest
        });
        self.partials[index] = Some(Partial {
            source: fragment.source,
            destination: fragment.destination,
            protocol: fragment.protocol,
            id: fragment.id,
            segment: None,
            received: 0,
            len: None,
        });
        index
    }
}

impl Partial {
    /// Whether it is known to contain TCP; the rest of a tunnel's packet may be of another one.
    fn is_segment(&self) -> bool {
        self.protocol == TCP || self.segment.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Decoded, LinkType, decode};
    use alloc::vec::Vec;

    /// A fragment of a segment with a header of 20 bytes.
    fn part(id: u8, offset_units: u8, len: u8, has_more: bool) -> Fragment {
        let mut packet = Vec::from([
            0x45,
            0,
            0,
            20 + len,
            0,
            id,
            u8::from(has_more) << 5,
            offset_units,
            64,
            6,
            0,
            0,
        ]);
        packet.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend_from_slice(&[0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 2, 0, 0, 0, 0]);
        packet.resize(20 + usize::from(len), 0);
        match decode(LinkType::RAW, &packet, packet.len() as u32) {
            Ok(Decoded::Fragment(fragment)) => fragment,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn segment_is_returned_with_its_last_fragment() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let parts = [part(1, 0, 40, true), part(1, 5, 40, true), part(1, 10, 7, false)];
            let mut fragments = Fragments::default();
            assert_eq!(fragments.add(&parts[order[0]]), None);
            assert_eq!(fragments.add(&part(2, 0, 40, true)), None, "of another whole");
            assert_eq!(fragments.add(&parts[order[1]]), None);
            let whole = fragments.add(&parts[order[2]]).expect("complete");
            assert_eq!((whole.payload_len, whole.source_port), (67, 80));
            assert_eq!(fragments.incomplete(), 1);
        }
    }

    #[test]
    fn incomplete_packets_are_bounded() {
        let mut fragments = Fragments::default();
        for id in 0..200 {
            assert_eq!(fragments.add(&part(id, 0, 40, true)), None);
        }
        assert_eq!(fragments.incomplete(), 200);
        assert!(fragments.add(&part(199, 5, 8, false)).is_some());
        assert_eq!(fragments.add(&part(1, 5, 8, false)), None);
    }
}
