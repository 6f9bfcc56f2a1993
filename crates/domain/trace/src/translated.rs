//! Connections that are called otherwise in the second of two captures, as addresses were translated between them.
//!
//! No path changes the initial sequence numbers of both ends without changing each later number as well, and so they tell
//! which connection it is: 64 bits that are chosen at random. What the SYN and its answer offer has to be the same too, but
//! for the MSS, which routers lower. If the first capture has two connections like that, none of them is taken; neither is
//! one whose own addresses the first capture knows.

use crate::pairing::Ends;
use foldhash::{HashMap, HashSet};
use sockeye_wire::packet::{Segment, TcpFlags};

/// Handshakes of the first capture, and names of the second.
#[derive(Debug, Default)]
pub(crate) struct Translated {
    /// SYNs of the first capture without an answer yet
    syns: HashMap<Ends, Offer>,
    /// By both initial sequence numbers; `None`: several
    handshakes: HashMap<(u32, u32), Option<Handshake>>,
    /// SYNs of the second capture that wait for their answer
    waiting: HashMap<Ends, Vec<Held>>,
    /// What the first capture calls them
    names: HashMap<Ends, Ends>,
    strangers: HashSet<Ends>,
}

/// A segment of the second capture that waits until it is known which connection it is of.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) frame: u64,
    pub(crate) time_ns: u64,
    pub(crate) segment: Segment,
}

/// What to do with a segment of the second capture.
#[derive(Debug)]
pub(crate) enum Known {
    /// It is called so in the first capture; what was held before it comes first
    As(Ends, Vec<Held>),
    /// It is kept until more is known.
    Waits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handshake {
    /// Client to server
    ends: Ends,
    offers: [Offer; 2],
}

/// What a SYN says that is the same wherever it is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offer {
    sequence: u32,
    window_scale: Option<u8>,
    sack: bool,
    clock: Option<u32>,
}

impl Translated {
    /// A segment of the first capture.
    pub(crate) fn first(&mut self, ends: Ends, segment: &Segment) {
        if !segment.flags.has(TcpFlags::SYN) {
            return;
        }
        let offer = Offer::of(segment);
        if !segment.flags.has(TcpFlags::ACK) {
            if self.syns.len() < SYNS_MAX {
                self.syns.insert(ends, offer);
            }
            return;
        }
        let client = ends.turned();
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

    /// A segment of the second capture between ends that the first one does not know.
    pub(crate) fn second(&mut self, ends: Ends, frame: u64, time_ns: u64, segment: &Segment) -> Known {
        if let Some(name) = self.names.get(&ends) {
            return Known::As(*name, Vec::new());
        }
        if self.handshakes.is_empty() || self.strangers.contains(&ends) {
            return Known::As(ends, Vec::new());
        }
        let has = |flag| segment.flags.has(flag);
        if has(TcpFlags::SYN) && !has(TcpFlags::ACK) && self.waiting.len() < SYNS_MAX {
            let held = self.waiting.entry(ends).or_default();
            if held.len() < HELD_MAX {
                held.push(Held {
                    frame,
                    time_ns,
                    segment: *segment,
                });
                return Known::Waits;
            }
        }
        let client = if has(TcpFlags::SYN) && has(TcpFlags::ACK) {
            ends.turned()
        } else {
            ends
        };
        let held = self.waiting.remove(&client).unwrap_or_default();
        let name = held
            .iter()
            .rev()
            .map(|held| Offer::of(&held.segment))
            .find(|syn| client != ends && syn.is_answered_by(segment))
            .and_then(|syn| self.name(syn, Offer::of(segment)));
        match name {
            Some(name) => {
                self.names.insert(client, name);
                self.names.insert(ends, name.turned());
                Known::As(name.turned(), held)
            }
            None => {
                if self.strangers.len() < SYNS_MAX {
                    self.strangers.extend([client, client.turned()]);
                }
                Known::As(ends, held)
            }
        }
    }

    /// What was held to the end.
    pub(crate) fn rest(&mut self) -> Vec<Held> {
        let mut rest: Vec<Held> = self.waiting.drain().flat_map(|(_, held)| held).collect();
        rest.sort_by_key(|held| held.frame);
        rest
    }

    /// What the second capture calls these ends of the first one, where that is something else.
    pub(crate) fn names(&self) -> impl Iterator<Item = (Ends, Ends)> + '_ {
        self.names.iter().map(|(second, first)| (*first, *second))
    }

    fn name(&self, syn: Offer, answer: Offer) -> Option<Ends> {
        let handshake = (*self.handshakes.get(&(syn.sequence, answer.sequence))?)?;
        (handshake.offers == [syn, answer]).then_some(handshake.ends)
    }
}

impl Offer {
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

/// Handshakes of a capture that are looked at.
const SYNS_MAX: usize = 200_000;

/// SYNs of one connection that wait for their answer.
const HELD_MAX: usize = 8;
