//! Transmissions of one side that are not acknowledged yet.

use crate::sequence::{after, not_after};
use std::collections::VecDeque;

/// Unacknowledged transmissions in the order of their capture; a retransmitted segment is in it twice, as in
/// tshark's list.
///
/// While sequence numbers only grow, an acknowledgement removes transmissions from the front. After
/// retransmissions all are examined, but only when an acknowledgement passes the lowest of them.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    list: VecDeque<Transmission>,
    /// Whether a transmission does not end after the one before it
    is_disordered: bool,
    /// Lowest and highest sequence number relative to the side's first, as unsigned numbers. tshark does the
    /// same, which is wrong for data across 2^32
    lowest: u32,
    highest: u32,
    /// Whether a transmission crosses the side's first number, so that it is neither low nor high
    is_across: bool,
}

/// One captured segment that takes sequence space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub(crate) time_ns: u64,
    pub(crate) frame: u64,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The sender's timestamp; 0 if none
    pub(crate) clock: u32,
    pub(crate) ip_id: u16,
    /// Earlier segments of the same train, and [`Transmission::AGAIN`]
    pub(crate) train: u16,
}

impl Transmission {
    /// Marks a segment that was sent more than once: its acknowledgement measures no round trip.
    pub(crate) const AGAIN: u16 = 1 << 15;

    /// Position in a train so long that its beginning has left any queue.
    pub(crate) const ENDLESS: u16 = Self::AGAIN - 1;

    /// Earlier segments of the same train.
    pub(crate) const fn position(&self) -> u16 {
        self.train & !Self::AGAIN
    }
}

/// Result of an acknowledgement.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Frame and time of the oldest transmission that ends exactly there
    pub(crate) exactly: Option<(u64, u64)>,
    /// Transmission time of the newest covered segment, if it was sent once
    pub(crate) newest_ns: Option<u64>,
    /// Farthest position in a train of the covered segments that were sent once
    pub(crate) farthest: u16,
    /// Length of the longest covered segment
    pub(crate) longest: u32,
    /// Number of removed transmissions
    pub(crate) removed: usize,
}

impl Unacked {
    /// Number of transmissions.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Transmission>()
    }

    /// The oldest transmission.
    pub(crate) fn oldest(&self) -> Option<&Transmission> {
        self.list.front()
    }

    /// Adds a transmission.
    pub(crate) fn push(&mut self, sent: Transmission, base: u32) {
        let (start, end) = (sent.start.wrapping_sub(base), sent.end.wrapping_sub(base));
        match self.list.back() {
            None => {
                (self.lowest, self.highest) = (start, end);
                (self.is_disordered, self.is_across) = (false, false);
            }
            Some(last) => {
                self.is_disordered |= !after(sent.end, last.end) || !not_after(last.start, sent.start);
                self.lowest = self.lowest.min(start);
                self.highest = self.highest.max(end);
            }
        }
        self.is_across |= start > end;
        self.list.push_back(sent);
    }

    /// Distance from the lowest to the highest unacknowledged sequence number.
    pub(crate) fn in_flight(&self) -> Option<u32> {
        (!self.list.is_empty()).then(|| self.highest.wrapping_sub(self.lowest))
    }

    /// The earliest transmission that overlaps this range.
    pub(crate) fn covering(&self, start: u32, end: u32) -> Option<&Transmission> {
        self.list
            .iter()
            .find(|sent| after(end, sent.start) && after(sent.end, start))
    }

    /// Marks transmissions that overlap this range as sent more than once.
    pub(crate) fn sent_again(&mut self, start: u32, end: u32) {
        for sent in &mut self.list {
            if after(end, sent.start) && after(sent.end, start) {
                sent.train |= Transmission::AGAIN;
            }
        }
    }

    /// Removes what this acknowledges, in whole or in part.
    pub(crate) fn acknowledge(&mut self, ack: u32, base: u32) -> Acknowledged {
        let Some(first) = self.list.front() else {
            return Acknowledged::default();
        };
        let (low, high) = (base.wrapping_add(self.lowest), base.wrapping_add(self.highest));
        let (span, distance) = (high.wrapping_sub(low), ack.wrapping_sub(low) as i32);
        let is_compact = span < COMPARABLE && self.lowest <= self.highest && !self.is_across;
        if is_compact && distance <= 0 && distance > -(COMPARABLE as i32) {
            return Acknowledged::default();
        }
        // Each may end after the one before it although all of them together wrap.
        let is_plain = !self.is_disordered && is_compact && ack.wrapping_sub(first.start) < COMPARABLE;
        if is_plain {
            self.take_front(ack, base)
        } else {
            self.take_any(ack, base)
        }
    }

    fn take_front(&mut self, ack: u32, base: u32) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        while let Some(sent) = self.list.front() {
            if after(sent.end, ack) {
                break;
            }
            acknowledged.take(sent, ack);
            self.list.pop_front();
        }
        for sent in &mut self.list {
            if !after(ack, sent.start) {
                break;
            }
            sent.start = ack;
        }
        // Relative numbers wrap as well: then the highest is not that of the last.
        if let Some((first, last)) = self.list.front().zip(self.list.back()) {
            if last.end.wrapping_sub(base) < first.start.wrapping_sub(base) {
                self.measure(base);
            } else {
                self.lowest = first.start.wrapping_sub(base);
                self.highest = last.end.wrapping_sub(base);
            }
        }
        self.shrink();
        acknowledged
    }

    fn take_any(&mut self, ack: u32, base: u32) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        self.list.retain_mut(|sent| {
            if ack != sent.end && after(sent.end, ack) {
                if after(ack, sent.start) {
                    sent.start = ack;
                }
                return true;
            }
            acknowledged.take(sent, ack);
            false
        });
        if acknowledged.removed > 0 {
            let ends = self.list.iter().zip(self.list.iter().skip(1));
            self.is_disordered = ends
                .into_iter()
                .any(|(one, next)| !after(next.end, one.end) || !not_after(one.start, next.start));
        }
        self.measure(base);
        self.shrink();
        acknowledged
    }

    /// Recomputes the lowest and highest number, relative to `base`.
    pub(crate) fn measure(&mut self, base: u32) {
        (self.lowest, self.highest, self.is_across) = (u32::MAX, 0, false);
        for sent in &self.list {
            self.lowest = self.lowest.min(sent.start.wrapping_sub(base));
            self.highest = self.highest.max(sent.end.wrapping_sub(base));
            self.is_across |= sent.start.wrapping_sub(base) > sent.end.wrapping_sub(base);
        }
    }

    /// Returns memory after a burst; idle connections keep almost none.
    fn shrink(&mut self) {
        let spare = self.list.capacity();
        if self.list.is_empty() && spare > 4 {
            self.list = VecDeque::new();
        } else if spare > KEPT_CAPACITY && self.list.len() < spare / 8 {
            self.list.shrink_to(spare / 4);
        }
    }
}

impl Acknowledged {
    fn take(&mut self, sent: &Transmission, ack: u32) {
        self.removed += 1;
        self.longest = self.longest.max(sent.end.wrapping_sub(sent.start));
        if sent.end == ack && self.exactly.is_none() {
            self.exactly = Some((sent.frame, sent.time_ns));
        }
        let is_once = sent.train & Transmission::AGAIN == 0;
        self.newest_ns = is_once.then_some(sent.time_ns);
        if is_once && sent.position() != Transmission::ENDLESS {
            self.farthest = self.farthest.max(sent.position());
        }
    }
}

/// Sequence numbers closer than this have a unique order.
const COMPARABLE: u32 = 1 << 30;

/// Capacity that is kept.
const KEPT_CAPACITY: usize = 64;
