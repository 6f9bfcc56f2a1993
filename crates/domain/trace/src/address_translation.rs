//! Connections with translated addresses (NAT) between two captures.
//!
//! A path that changes the initial sequence numbers must change all later ones as well; so the numbers of
//! both ends, 64 random bits, identify a connection. The options of the SYN and its answer must be the same
//! too, except for the MSS, which routers lower. If the first capture has two such connections, neither is
//! taken; nor is one with addresses that occur in the first capture.

use crate::end_pair::EndPair;
use foldhash::{HashMap, HashSet};
use sockeye_wire::packet::{Segment, TcpFlags};

/// Handshakes of the first capture, and translations of the second.
#[derive(Debug, Default)]
pub(crate) struct TranslatedConnections {
    /// SYNs of the first capture without an answer yet
    syns: HashMap<EndPair, SynFingerprint>,
    /// By both initial sequence numbers; `None`: ambiguous
    handshakes: HashMap<(u32, u32), Option<Handshake>>,
    /// SYNs of the second capture without an answer yet
    waiting: HashMap<EndPair, Vec<HeldSegment>>,
    /// Ends in the second capture to ends in the first
    translations: HashMap<EndPair, EndPair>,
    /// Ends of connections that the first capture does not have
    unrelated: HashSet<EndPair>,
}

/// A segment of the second capture with a still unknown connection.
#[derive(Debug)]
pub(crate) struct HeldSegment {
    pub(crate) frame: u64,
    pub(crate) time_ns: u64,
    pub(crate) segment: Segment,
}

/// How to treat a segment of the second capture.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// Its ends in the first capture; the kept segments come before it
    As(EndPair, Vec<HeldSegment>),
    /// Kept until its connection is known.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handshake {
    /// Client to server
    ends: EndPair,
    offers: [SynFingerprint; 2],
}

/// Fields of a SYN that are the same at each capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SynFingerprint {
    sequence: u32,
    window_scale: Option<u8>,
    sack: bool,
    clock: Option<u32>,
}

impl TranslatedConnections {
    /// Adds a segment of the first capture.
    pub(crate) fn first(&mut self, ends: EndPair, segment: &Segment) {
        if !segment.flags.has(TcpFlags::SYN) {
            return;
        }
        let offer = SynFingerprint::of(segment);
        if !segment.flags.has(TcpFlags::ACK) {
            if self.syns.len() < SYNS_MAX {
                self.syns.insert(ends, offer);
            }
            return;
        }
        let client = ends.reversed();
        let Some(syn) = self.syns.get(&client).filter(|syn| syn.is_answered_by(segment)) else {
            return;
        };
        let handshake = Handshake {
            ends: client,
            offers: [*syn, offer],
        };
        let numbers = (syn.sequence, offer.sequence);
        if self.handshakes.len() < SYNS_MAX || self.handshakes.contains_key(&numbers) {
            let known = self.handshakes.entry(numbers).or_insert(Some(handshake));
            *known = known.filter(|known| known.ends == client);
        }
    }

    /// Looks up a segment of the second capture with ends that the first one does not have.
    pub(crate) fn second(
        &mut self,
        ends: EndPair,
        frame: u64,
        time_ns: u64,
        segment: &Segment,
    ) -> Resolution {
        if let Some(name) = self.translations.get(&ends) {
            return Resolution::As(*name, Vec::new());
        }
        if self.handshakes.is_empty() || self.unrelated.contains(&ends) {
            return Resolution::As(ends, Vec::new());
        }
        let has = |flag| segment.flags.has(flag);
        if has(TcpFlags::SYN) && !has(TcpFlags::ACK) && self.waiting.len() < SYNS_MAX {
            let held = self.waiting.entry(ends).or_default();
            if held.len() < HELD_MAX {
                held.push(HeldSegment {
                    frame,
                    time_ns,
                    segment: *segment,
                });
                return Resolution::Held;
            }
        }
        let client = if has(TcpFlags::SYN) && has(TcpFlags::ACK) {
            ends.reversed()
        } else {
            ends
        };
        let held = self.waiting.remove(&client).unwrap_or_default();
        let name = held
            .iter()
            .rev()
            .map(|held| SynFingerprint::of(&held.segment))
            .find(|syn| client != ends && syn.is_answered_by(segment))
            .and_then(|syn| self.name(syn, SynFingerprint::of(segment)));
        match name {
            Some(name) => {
                self.translations.insert(client, name);
                self.translations.insert(ends, name.reversed());
                Resolution::As(name.reversed(), held)
            }
            None => {
                if self.unrelated.len() < SYNS_MAX {
                    self.unrelated.extend([client, client.reversed()]);
                }
                Resolution::As(ends, held)
            }
        }
    }

    /// Segments that were kept to the end.
    pub(crate) fn rest(&mut self) -> Vec<HeldSegment> {
        let mut rest: Vec<HeldSegment> = self.waiting.drain().flat_map(|(_, held)| held).collect();
        rest.sort_by_key(|held| held.frame);
        rest
    }

    /// All translations: ends in the first capture and in the second.
    pub(crate) fn translations(&self) -> impl Iterator<Item = (EndPair, EndPair)> + '_ {
        self.translations.iter().map(|(second, first)| (*first, *second))
    }

    fn name(&self, syn: SynFingerprint, answer: SynFingerprint) -> Option<EndPair> {
        let handshake = (*self.handshakes.get(&(syn.sequence, answer.sequence))?)?;
        (handshake.offers == [syn, answer]).then_some(handshake.ends)
    }
}

impl SynFingerprint {
    fn of(segment: &Segment) -> Self {
        let options = &segment.options;
        Self {
            sequence: segment.sequence,
            window_scale: options.window_scale,
            sack: options.sack_permitted,
            clock: options.timestamps.map(|stamps| stamps.value),
        }
    }

    fn is_answered_by(&self, segment: &Segment) -> bool {
        segment.acknowledgement == self.sequence.wrapping_add(1)
    }
}

/// SYNs per capture that are kept.
const SYNS_MAX: usize = 200_000;

/// Segments of one connection that are kept.
const HELD_MAX: usize = 8;
