//! Segments that IP cut up, told as one.

use super::{Fragment, Segment};
use core::net::IpAddr;

/// Adds up the fragments of TCP segments. Only what tells how long the whole is, is kept, and only of the last
/// [`Self::WHOLES_MAX`] that are not complete.
///
/// A segment is told with the fragment that completes it, as Wireshark does. Whether fragments overlap is not looked at: one
/// that was captured twice may complete a whole of which another is missing.
#[derive(Debug, Clone)]
pub struct Fragments {
    wholes: [Option<Whole>; Self::WHOLES_MAX],
    oldest: usize,
    incomplete: u64,
}

#[derive(Debug, Clone, Copy)]
struct Whole {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// Out of the first fragment, with how much of that is TCP's header
    segment: Option<(Segment, u32)>,
    /// Bytes of all that came
    came: u32,
    /// Out of the last one
    len: Option<u32>,
}

impl Default for Fragments {
    fn default() -> Self {
        Self {
            wholes: [None; Self::WHOLES_MAX],
            oldest: 0,
            incomplete: 0,
        }
    }
}

impl Fragments {
    /// So many segments may be in pieces at once.
    pub const WHOLES_MAX: usize = 64;

    /// One more fragment; the whole segment, if that completes one.
    pub fn add(&mut self, fragment: &Fragment) -> Option<Segment> {
        if fragment.protocol != TCP {
            return None;
        }
        let is_same = |whole: &Whole| {
            (whole.id, whole.source, whole.destination)
                == (fragment.id, fragment.source, fragment.destination)
        };
        let known = self
            .wholes
            .iter()
            .position(|whole| whole.as_ref().is_some_and(is_same));
        let place = known.unwrap_or_else(|| self.begin(fragment));
        let whole = self.wholes.get_mut(place)?.as_mut()?;
        whole.came = whole.came.saturating_add(fragment.len);
        if let Some(segment) = fragment.segment {
            whole.segment = Some((segment, fragment.len.saturating_sub(segment.payload_len)));
        }
        if !fragment.has_more {
            whole.len = Some(fragment.offset.saturating_add(fragment.len));
        }
        let (mut segment, header_len) = whole.segment?;
        let len = whole.len.filter(|len| whole.came >= *len)?;
        segment.payload_len = len.saturating_sub(header_len);
        self.wholes[place] = None;
        Some(segment)
    }

    /// Segments that were given up, since fragments of them did not come.
    #[must_use]
    pub fn incomplete(&self) -> u64 {
        self.incomplete + self.wholes.iter().flatten().count() as u64
    }

    /// Makes room for another; says where.
    fn begin(&mut self, fragment: &Fragment) -> usize {
        let free = self.wholes.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.incomplete += 1;
            self.oldest = (self.oldest + 1) % Self::WHOLES_MAX;
            self.oldest
        });
        self.wholes[place] = Some(Whole {
            source: fragment.source,
            destination: fragment.destination,
            id: fragment.id,
            segment: None,
            came: 0,
            len: None,
        });
        place
    }
}

/// `IPPROTO_TCP`
const TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Decoded, LinkType, decode};
    use alloc::vec::Vec;

    /// A part of a segment with a header of 20 bytes.
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
    fn told_with_the_one_that_completes_it() {
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
    fn room_is_bounded() {
        let mut fragments = Fragments::default();
        for id in 0..200 {
            assert_eq!(fragments.add(&part(id, 0, 40, true)), None);
        }
        assert_eq!(fragments.incomplete(), 200);
        assert!(fragments.add(&part(199, 5, 8, false)).is_some());
        assert_eq!(fragments.add(&part(1, 5, 8, false)), None);
    }
}
