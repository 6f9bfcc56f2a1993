//! Connections of which only SYNs were captured. A flood of SYNs makes millions: they are kept as the fields of these
//! segments, and become a `Flow` when anything else comes.

use crate::NameLookup;
use crate::tuple::Tuple;
use sockeye_wire::packet::{Segment, TcpFlags, TcpOptions, Timestamps};

/// Half-open connections, in the order in which they were last heard of.
#[derive(Debug)]
pub(crate) struct Openings {
    slab: Vec<Opening>,
    /// The first free entry; the others follow by `next`
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
}

/// A connection of which only SYNs were captured.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) tuple: Tuple,
    pub(crate) number: u32,
    previous: u32,
    next: u32,
    pub(crate) first: OpeningSegment,
    /// Boxed: most have one segment and no name lookup
    pub(crate) more: Option<Box<OpeningMore>>,
}

/// What few half-open connections have.
#[derive(Debug, Default)]
pub(crate) struct OpeningMore {
    pub(crate) lookup: Option<Box<NameLookup>>,
    /// Later segments
    pub(crate) segments: Vec<OpeningSegment>,
}

/// A SYN, or the answer to one, without data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpeningSegment {
    pub(crate) frame: u64,
    pub(crate) time_ns: u64,
    sequence: u32,
    acknowledgement: u32,
    clock: u32,
    echo: u32,
    window: u16,
    ip_id: u16,
    mss: u16,
    flags: u16,
    ttl: u8,
    ecn: u8,
    window_scale: u8,
    tunnels: u8,
    /// `HAS_...`, `IS_...`
    bits: u16,
}

impl Default for Openings {
    fn default() -> Self {
        Self {
            slab: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
        }
    }
}

impl Openings {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.slab.capacity() * size_of::<Opening>()
    }

    pub(crate) fn at(&self, index: u32) -> Option<&Opening> {
        self.slab.get(index as usize)
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Opening> {
        self.slab.get_mut(index as usize)
    }

    /// Index of the one that was silent for longest.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Index and number of each, in no order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let opening = self.slab.get(at as usize)?;
            let index = std::mem::replace(&mut at, opening.next);
            Some((index, opening.number))
        })
    }

    pub(crate) fn add(&mut self, tuple: Tuple, number: u32, first: OpeningSegment) -> u32 {
        let opening = Opening {
            tuple,
            number,
            previous: NONE,
            next: NONE,
            first,
            more: None,
        };
        let index = self.free;
        let index = match self.slab.get_mut(index as usize) {
            Some(entry) => {
                self.free = entry.next;
                *entry = opening;
                index
            }
            None => {
                self.slab.push(opening);
                (self.slab.len() - 1) as u32
            }
        };
        self.len += 1;
        self.append(index);
        index
    }

    /// Removes an entry and returns what it had.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Opening> {
        self.unlink(index);
        let free = std::mem::replace(&mut self.free, index);
        let entry = self.slab.get_mut(index as usize)?;
        self.len -= 1;
        let left = Opening {
            previous: NONE,
            next: free,
            more: None,
            ..*entry
        };
        Some(std::mem::replace(entry, left))
    }

    /// Adds a segment to an entry, which is now the newest.
    pub(crate) fn push(&mut self, index: u32, segment: OpeningSegment) {
        self.unlink(index);
        if let Some(opening) = self.slab.get_mut(index as usize) {
            let segments = &mut opening.more.get_or_insert_default().segments;
            segments.reserve_exact(1);
            segments.push(segment);
        }
        self.append(index);
    }

    fn append(&mut self, index: u32) {
        let last = std::mem::replace(&mut self.newest, index);
        match self.slab.get_mut(last as usize) {
            Some(last) => last.next = index,
            None => self.oldest = index,
        }
        if let Some(opening) = self.slab.get_mut(index as usize) {
            (opening.previous, opening.next) = (last, NONE);
        }
    }

    fn unlink(&mut self, index: u32) {
        let Some(opening) = self.slab.get(index as usize) else {
            return;
        };
        let (previous, next) = (opening.previous, opening.next);
        match self.slab.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.oldest = next,
        }
        match self.slab.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.newest = previous,
        }
    }
}

impl Opening {
    /// The end that sent the first segment.
    pub(crate) const fn client(&self) -> usize {
        self.first.from()
    }

    /// All segments.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &OpeningSegment> {
        let more = self.more.iter().flat_map(|more| &more.segments);
        std::iter::once(&self.first).chain(more)
    }

    /// Whether this segment can be kept here as well: a SYN that is repeated, or its answer.
    pub(crate) fn takes(&self, from: usize, segment: &Segment) -> bool {
        let has_space = self
            .more
            .as_ref()
            .is_none_or(|more| more.segments.len() < SEGMENTS_MAX);
        let is_answer = segment.flags.has(TcpFlags::ACK);
        has_space && can_be_kept(segment) && is_answer == (from != self.client())
    }

    /// Whether this segment is the answer to the only SYN so far, with nothing unusual.
    pub(crate) fn is_answer(&self, time_ns: u64, segment: &Segment) -> bool {
        self.more.as_ref().is_none_or(|more| more.segments.is_empty())
            && segment.flags.has(TcpFlags::ACK)
            && segment.acknowledgement == self.first.sequence.wrapping_add(1)
            && time_ns >= self.first.time_ns
    }

    /// Whether this SYN begins another connection, by the last number that its sender began with.
    pub(crate) fn is_reused_by(&self, from: usize, segment: &Segment) -> bool {
        let is_syn = segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::ACK);
        let of_sender = self.segments().filter(|kept| kept.from() == from);
        is_syn
            && of_sender
                .last()
                .is_some_and(|kept| kept.sequence != segment.sequence)
    }
}

impl OpeningSegment {
    /// The fields of a segment for which [`can_be_kept`] is true.
    pub(crate) fn new(frame: u64, time_ns: u64, from: usize, segment: &Segment, is_reused: bool) -> Self {
        let options = &segment.options;
        let stamps = options.timestamps;
        let bits = [
            (from == 1, IS_FROM_HIGHER),
            (is_reused, IS_REUSED),
            (stamps.is_some(), HAS_TIMESTAMPS),
            (segment.ip_id.is_some(), HAS_IP_ID),
            (options.mss.is_some(), HAS_MSS),
            (options.window_scale.is_some(), HAS_WINDOW_SCALE),
            (options.sack_permitted, IS_SACK_PERMITTED),
            (options.is_cut, IS_CUT),
            (segment.bad_checksum.is_some(), HAS_CHECKSUM),
            (segment.bad_checksum == Some(true), IS_CHECKSUM_BAD),
        ];
        Self {
            frame,
            time_ns,
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            clock: stamps.map_or(0, |stamps| stamps.value),
            echo: stamps.map_or(0, |stamps| stamps.echo),
            window: segment.window,
            ip_id: segment.ip_id.unwrap_or(0),
            mss: options.mss.unwrap_or(0),
            flags: segment.flags.0,
            ttl: segment.ttl,
            ecn: segment.ecn,
            window_scale: options.window_scale.unwrap_or(0),
            tunnels: segment.tunnels,
            bits: bits
                .iter()
                .filter(|(is_set, _)| *is_set)
                .fold(0, |bits, (_, bit)| bits | bit),
        }
    }

    pub(crate) const fn from(&self) -> usize {
        (self.bits & IS_FROM_HIGHER != 0) as usize
    }

    /// Whether an earlier connection used its ports.
    pub(crate) const fn is_reused(&self) -> bool {
        self.bits & IS_REUSED != 0
    }

    pub(crate) fn segment(&self, tuple: &Tuple) -> Segment {
        let (from, to) = (self.from(), 1 - self.from());
        let has = |bit: u16| self.bits & bit != 0;
        Segment {
            source: tuple.ips[from],
            source_port: tuple.ports[from],
            destination: tuple.ips[to],
            destination_port: tuple.ports[to],
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags: TcpFlags(self.flags),
            window: self.window,
            payload_len: 0,
            options: TcpOptions {
                mss: has(HAS_MSS).then_some(self.mss),
                window_scale: has(HAS_WINDOW_SCALE).then_some(self.window_scale),
                sack_permitted: has(IS_SACK_PERMITTED),
                timestamps: has(HAS_TIMESTAMPS).then_some(Timestamps {
                    value: self.clock,
                    echo: self.echo,
                }),
                is_cut: has(IS_CUT),
                ..TcpOptions::default()
            },
            ip_id: has(HAS_IP_ID).then_some(self.ip_id),
            ttl: self.ttl,
            ecn: self.ecn,
            bad_checksum: has(HAS_CHECKSUM).then_some(has(IS_CHECKSUM_BAD)),
            tunnels: self.tunnels,
            is_tls_handshake: false,
        }
    }
}

/// Whether [`OpeningSegment`] has all fields of this segment.
pub(crate) fn can_be_kept(segment: &Segment) -> bool {
    segment.flags.has(TcpFlags::SYN)
        && !segment.flags.has(TcpFlags::FIN.or(TcpFlags::RST))
        && segment.payload_len == 0
        && !segment.is_tls_handshake
        && segment.options.sack.as_slice().is_empty()
}

const NONE: u32 = u32::MAX;
/// More of one connection are kept as a [`Flow`](crate::flow::Flow).
const SEGMENTS_MAX: usize = 12;
const IS_FROM_HIGHER: u16 = 1;
const HAS_TIMESTAMPS: u16 = 1 << 1;
const HAS_IP_ID: u16 = 1 << 2;
const HAS_MSS: u16 = 1 << 3;
const HAS_WINDOW_SCALE: u16 = 1 << 4;
const IS_SACK_PERMITTED: u16 = 1 << 5;
const IS_CUT: u16 = 1 << 6;
const HAS_CHECKSUM: u16 = 1 << 7;
const IS_CHECKSUM_BAD: u16 = 1 << 8;
const IS_REUSED: u16 = 1 << 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_fits_into_its_share_of_memory() {
        // The index adds 21 bytes at most, numbers 8: 150 in all.
        assert!(size_of::<Opening>() <= 112, "{}", size_of::<Opening>());
    }

    #[test]
    fn kept_segment_is_the_same() {
        let segment = Segment {
            source: [10, 0, 0, 9].into(),
            source_port: 40_000,
            destination: [10, 0, 0, 2].into(),
            destination_port: 443,
            sequence: 7,
            acknowledgement: 8,
            flags: TcpFlags::SYN.or(TcpFlags::ECE),
            window: 64_000,
            payload_len: 0,
            options: TcpOptions {
                mss: Some(0),
                window_scale: Some(0),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 1, echo: 0 }),
                is_cut: true,
                ..TcpOptions::default()
            },
            ip_id: Some(0),
            ttl: 64,
            ecn: 1,
            bad_checksum: Some(false),
            tunnels: 2,
            is_tls_handshake: false,
        };
        let plain = Segment {
            options: TcpOptions::default(),
            ip_id: None,
            bad_checksum: None,
            ..segment
        };
        for segment in [segment, plain] {
            let (tuple, from) = Tuple::of(&segment);
            let kept = OpeningSegment::new(1, 2, from, &segment, true);
            assert_eq!((kept.from(), kept.segment(&tuple)), (from, segment));
            assert!(kept.is_reused());
        }
    }

    #[test]
    fn oldest_is_the_one_without_news() {
        let segment = OpeningSegment {
            frame: 0,
            time_ns: 0,
            sequence: 0,
            acknowledgement: 0,
            clock: 0,
            echo: 0,
            window: 0,
            ip_id: 0,
            mss: 0,
            flags: 0,
            ttl: 0,
            ecn: 0,
            window_scale: 0,
            tunnels: 0,
            bits: 0,
        };
        let (tuple, _) = Tuple::of_ends(([1, 2, 3, 4].into(), 1), ([1, 2, 3, 4].into(), 2));
        let mut openings = Openings::default();
        let indices = [0, 1, 2].map(|number| openings.add(tuple, number, segment));
        openings.push(indices[0], segment);
        assert_eq!(openings.oldest(), Some(indices[1]));
        assert_eq!(openings.remove(indices[1]).map(|opening| opening.number), Some(1));
        assert_eq!(openings.add(tuple, 3, segment), indices[1]);
        let numbers: Vec<u32> = openings.numbers().map(|(_, number)| number).collect();
        assert_eq!((openings.len(), numbers), (3, vec![2, 0, 3]));
        for index in [indices[2], indices[0], indices[1]] {
            openings.remove(index);
        }
        assert_eq!((openings.len(), openings.oldest()), (0, None));
    }
}
