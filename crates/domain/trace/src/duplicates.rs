//! Detection of identical packets.

use sockeye_wire::packet::{Segment, TcpFlags};

/// The last packets of one direction.
#[derive(Debug, Default)]
pub(crate) struct DuplicateFinder {
    last: Option<Recent>,
    recent: Vec<Recent>,
    next: u8,
    /// Newest IP identification and sender's timestamp
    newest: Option<(u16, u32)>,
}

/// Origin of a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DuplicateOrigin {
    Capture,
    Network,
    /// Capture or network: captures duplicate all packets, networks few
    Either,
}

/// A recently captured segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recent {
    time_ns: u64,
    sequence: u32,
    acknowledgement: u32,
    len: u32,
    clock: u32,
    ip_id: u16,
    window: u16,
    flags: u16,
    ttl: u8,
}

impl DuplicateFinder {
    /// Whether the identical packet was captured shortly before; if not, it is remembered.
    pub(crate) fn find(&mut self, now_ns: u64, segment: &Segment) -> Option<DuplicateOrigin> {
        let this = Recent::of(now_ns, segment);
        let duplicate = self
            .last
            .iter()
            .chain(&self.recent)
            .find(|recent| recent.is_same(&this));
        if let Some(duplicate) = duplicate {
            let since_ns = now_ns.saturating_sub(duplicate.time_ns);
            let is_numbered = this.ip_id != 0;
            let is_distinct_by_clock = takes_space(segment) && this.clock != 0;
            if since_ns <= CAPTURED_TWICE_NS && (is_numbered || is_distinct_by_clock) {
                // Only a capture before and behind a router shows two TTLs.
                let is_passed_on = duplicate.ttl != this.ttl;
                return Some(if is_passed_on {
                    DuplicateOrigin::Capture
                } else {
                    DuplicateOrigin::Either
                });
            }
            if is_numbered && since_ns <= DELIVERED_TWICE_NS {
                return Some(DuplicateOrigin::Network);
            }
        }
        if this.ip_id != 0 {
            let is_newer = |newest: u16| (this.ip_id.wrapping_sub(newest) as i16) > 0;
            if self.newest.is_none_or(|(newest, _)| is_newer(newest)) {
                self.newest = Some((this.ip_id, this.clock));
            }
        }
        // Duplicate acknowledgements are usually adjacent.
        if let Some(last) = self.last.replace(this).filter(Recent::takes_space) {
            if self.recent.len() < RECENT {
                self.recent.push(last);
            } else {
                self.recent[usize::from(self.next) % RECENT] = last;
                self.next = (self.next + 1) % RECENT as u8;
            }
        }
        None
    }

    /// Whether it is older than earlier segments by its IP identification and timestamp: no retransmission.
    pub(crate) fn is_old(&self, segment: &Segment) -> bool {
        let (Some((newest, clock)), Some(id)) = (self.newest, segment.ip_id.filter(|id| *id != 0)) else {
            return false;
        };
        let behind = newest.wrapping_sub(id) as i16;
        let is_clock_old = segment
            .options
            .timestamps
            .is_some_and(|stamps| (clock.wrapping_sub(stamps.value) as i32) >= 0);
        // The current segment may be the newest itself, or have come before it.
        (1..NEAR_IDS).contains(&behind) && is_clock_old
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.recent.capacity() * size_of::<Recent>()
    }
}

impl Recent {
    pub(crate) fn of(time_ns: u64, segment: &Segment) -> Self {
        Self {
            time_ns,
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            len: segment.payload_len,
            clock: segment.options.timestamps.map_or(0, |stamps| stamps.value),
            ip_id: segment.ip_id.unwrap_or(0),
            window: segment.window,
            flags: segment.flags.0,
            ttl: segment.ttl,
        }
    }

    /// Whether it is the identical packet, possibly before and behind a router.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.sequence == other.sequence
            && self.acknowledgement == other.acknowledgement
            && self.ip_id == other.ip_id
            && self.len == other.len
            && self.clock == other.clock
            && self.window == other.window
            && self.flags == other.flags
            && self.ttl.abs_diff(other.ttl) <= HOPS
    }

    /// Whether it takes sequence space.
    const fn takes_space(&self) -> bool {
        self.len > 0 || TcpFlags(self.flags).has(TcpFlags::SYN.or(TcpFlags::FIN))
    }

    /// Whether both are at most `most_ns` apart.
    pub(crate) fn is_within(&self, most_ns: u64, other: &Self) -> bool {
        self.time_ns.abs_diff(other.time_ns) <= most_ns
    }

    /// Whether a retransmission would look different.
    pub(crate) fn is_distinguishable(&self) -> bool {
        self.ip_id != 0 || self.clock != 0 && self.len > 0
    }
}

/// Whether it takes sequence space.
pub(crate) fn takes_space(segment: &Segment) -> bool {
    segment.payload_len > 0 || segment.flags.has(TcpFlags::SYN.or(TcpFlags::FIN))
}

/// Packets of one direction that are compared with the next.
const RECENT: usize = 4;

/// A capture on two devices has both copies within this time.
const CAPTURED_TWICE_NS: u64 = 100_000;

/// A network delivers both copies within this time.
const DELIVERED_TWICE_NS: u64 = 2_000_000_000;

/// IP identifications closer than this are of the same counter.
pub(crate) const NEAR_IDS: i16 = 4_096;

/// Largest difference of TTLs between two capture points.
const HOPS: u8 = 2;
