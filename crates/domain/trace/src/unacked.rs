//! What one side sent and the other has not acknowledged yet.

use crate::sequence::{after, not_after};
use std::collections::VecDeque;

/// Transmissions that wait for their acknowledgement, in the order of their capture; a segment that was sent twice is in
/// it twice, as in tshark's list.
///
/// As long as sequence numbers only grow, an acknowledgement takes transmissions off the front. After retransmissions all
/// are looked at, but only when an acknowledgement gets past the lowest of them.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    list: VecDeque<Transmission>,
    /// Whether each ends after the one before it
    is_disordered: bool,
    /// Lowest and highest sequence number relative to the side's first, as unsigned numbers: tshark's way, which makes
    /// nonsense of data across 2^32 of them
    lowest: u32,
    highest: u32,
    /// Whether one of them lies across the side's first number, so that it is neither low nor high
    is_across: bool,
}

/// One captured segment that takes sequence space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub(crate) time_ns: u64,
    pub(crate) frame: u64,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The sender's clock, as far as there is one
    pub(crate) clock: u32,
    pub(crate) ip_id: u16,
    /// Segments of the same train before it, and [`Transmission::AGAIN`]
    pub(crate) train: u16,
}

impl Transmission {
    /// A retransmission, or something of it was sent again: its acknowledgement measures no round trip.
    pub(crate) const AGAIN: u16 = 1 << 15;

    /// The place of a segment in a train that took so long that its beginning was gone from any queue.
    pub(crate) const ENDLESS: u16 = Self::AGAIN - 1;

    /// Segments of the same train before it.
    pub(crate) const fn position(&self) -> u16 {
        self.train & !Self::AGAIN
    }
}

/// What an acknowledgement did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// The oldest transmission that ends exactly there: frame and time
    pub(crate) exactly: Option<(u64, u64)>,
    /// When the newest of those that it covers was sent, if that was sent once only
    pub(crate) newest_ns: Option<u64>,
    /// The longest way into a train that one of them was, of those that were sent once only
    pub(crate) farthest: u16,
    /// How many transmissions it took off
    pub(crate) removed: usize,
}

impl Unacked {
    /// How many transmissions wait.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Memory outside the value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Transmission>()
    }

    /// The one that waits for longest.
    pub(crate) fn oldest(&self) -> Option<&Transmission> {
        self.list.front()
    }

    /// One more.
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

    /// From the lowest to the highest sequence number that waits.
    pub(crate) fn in_flight(&self) -> Option<u32> {
        (!self.list.is_empty()).then(|| self.highest.wrapping_sub(self.lowest))
    }

    /// The earliest transmission that overlaps this range.
    pub(crate) fn covering(&self, start: u32, end: u32) -> Option<&Transmission> {
        self.list
            .iter()
            .find(|sent| after(end, sent.start) && after(sent.end, start))
    }

    /// Marks what overlaps this range as sent more than once.
    pub(crate) fn sent_again(&mut self, start: u32, end: u32) {
        for sent in &mut self.list {
            if after(end, sent.start) && after(sent.end, start) {
                sent.train |= Transmission::AGAIN;
            }
        }
    }

    /// Takes off what this acknowledges, whole or in part.
    pub(crate) fn acknowledge(&mut self, ack: u32, base: u32) -> Acknowledged {
        let Some(first) = self.list.front() else {
            return Acknowledged::default();
        };
        let (low, high) = (base.wrapping_add(self.lowest), base.wrapping_add(self.highest));
        let (span, distance) = (high.wrapping_sub(low), ack.wrapping_sub(low) as i32);
        let is_compact = span < NEAR && self.lowest <= self.highest && !self.is_across;
        if is_compact && distance <= 0 && distance > -(NEAR as i32) {
            return Acknowledged::default();
        }
        // Each may come after the one before it, and all of them together go round.
        let is_plain = !self.is_disordered && is_compact && ack.wrapping_sub(first.start) < NEAR;
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
        // Relative to the first, numbers go round as well: then the highest is not that of the last.
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

    /// Looks again at which numbers are lowest and highest, relative to `base`.
    pub(crate) fn measure(&mut self, base: u32) {
        (self.lowest, self.highest, self.is_across) = (u32::MAX, 0, false);
        for sent in &self.list {
            self.lowest = self.lowest.min(sent.start.wrapping_sub(base));
            self.highest = self.highest.max(sent.end.wrapping_sub(base));
            self.is_across |= sent.start.wrapping_sub(base) > sent.end.wrapping_sub(base);
        }
    }

    /// Gives memory back that a burst took; idle connections keep almost none.
    fn shrink(&mut self) {
        let spare = self.list.capacity();
        if self.list.is_empty() && spare > 4 {
            self.list = VecDeque::new();
        } else if spare > ROOMY && self.list.len() < spare / 8 {
            self.list.shrink_to(spare / 4);
        }
    }
}

impl Acknowledged {
    fn take(&mut self, sent: &Transmission, ack: u32) {
        self.removed += 1;
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

/// Sequence numbers nearer than this have one order.
const NEAR: u32 = 1 << 30;

/// Room for so many transmissions is not given back.
const ROOMY: usize = 64;
