//! Sums of connections by a key of the caller's choice, from whole samples: [`crate::SumTable`] takes them socket by socket, and has the key
//! of the store's own sums.

use crate::identity::Identity;
use crate::sums::{Counters, Sums, has_ended, is_connection};
use crate::values::Values;
use sockeye_model::{Cookie, NetnsInode, State};
use std::collections::HashMap;
use std::hash::Hash;

/// What connections are summed up by.
pub trait ConnectionKey: Clone + Eq + Hash {
    /// Returns the key of a TCP connection; `None` if it is not counted. `is_passive`: whether the peer connected to us.
    fn of(identity: &Identity, is_passive: bool) -> Option<Self>;
}

/// Counters of connections at the last sample, for differences.
#[derive(Debug)]
pub struct KeyedSums<K> {
    before: Option<Before<K>>,
}

impl<K> Default for KeyedSums<K> {
    fn default() -> Self {
        Self { before: None }
    }
}

/// The connections of a sample. Each has the place of its key, which many of them share.
#[derive(Debug)]
struct Before<K> {
    connections: HashMap<ConnectionId, (Counters, u32)>,
    keys: Vec<K>,
}

/// The keys of a sample, each with its sums and its place.
#[derive(Debug)]
struct Keys<K> {
    places: HashMap<K, u32>,
    sums: Vec<Sums>,
}

impl<K: ConnectionKey> Keys<K> {
    fn place(&mut self, key: K) -> u32 {
        let next = self.sums.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.sums.push(Sums::default());
        }
        place
    }

    fn at(&mut self, place: u32) -> &mut Sums {
        &mut self.sums[place as usize]
    }

    /// Returns the keys by their places, and each with its sums.
    fn finish(self) -> (Vec<K>, HashMap<K, Sums>) {
        let sums = &self.sums;
        let mut keys: Vec<_> = self.places.iter().collect();
        keys.sort_unstable_by_key(|(_, place)| **place);
        let keys = keys.into_iter().map(|(key, _)| key.clone()).collect();
        let of_place = |(key, place): (K, u32)| (key, sums[place as usize]);
        (keys, self.places.into_iter().map(of_place).collect())
    }
}

/// Old kernels number cookies per namespace.
type ConnectionId = (Option<NetnsInode>, Cookie);

impl<K: ConnectionKey> KeyedSums<K> {
    /// Returns what the connections of a sample transferred since the one before. The first sample has nothing before it: it counts
    /// connections only. Of connections without a cookie those are summed up that have ended: the kernel creates a cookie when a socket
    /// is first listed, so that they were in no sample before. If those that are there have none either, this is not so.
    ///
    /// `visit` is called with each connection that is counted in the sample.
    pub fn add_visiting<'a>(
        &mut self,
        sockets: impl Iterator<Item = (&'a Identity, &'a Values)> + Clone,
        visit: &mut dyn FnMut(&K, &Values),
    ) -> HashMap<K, Sums> {
        let listeners = Listeners::of(sockets.clone());
        let lacks_cookies = sockets.clone().any(|(identity, values)| {
            identity.cookie.is_none() && is_connection(identity, values) && !has_ended(values)
        });
        let mut before = self.before.take();
        let mut now = HashMap::new();
        let mut keys = Keys {
            places: HashMap::new(),
            sums: Vec::new(),
        };
        for (identity, values) in sockets {
            let has_ended = has_ended(values);
            let id = identity.cookie.map(|cookie| (identity.netns, cookie));
            if id.is_none() && (lacks_cookies || !has_ended) {
                continue;
            }
            let Some(key) = listeners.key_of(identity, values) else {
                continue;
            };
            visit(&key, values);
            let counters = Counters::of(values);
            let place = keys.place(key);
            let sum = keys.at(place);
            sum.connections += u64::from(!has_ended);
            if let Some(before) = &mut before {
                let then = id.and_then(|id| before.connections.remove(&id));
                sum.opened += u64::from(then.is_none());
                let since = |now: u64, then: Option<u64>| now.saturating_sub(then.unwrap_or(0));
                let then = then.map(|(counters, _)| counters);
                sum.sent_bytes += since(counters.sent, then.map(|then| then.sent));
                sum.received_bytes += since(counters.received, then.map(|then| then.received));
                sum.retrans_segs += since(counters.retrans.into(), then.map(|then| then.retrans.into()));
            }
            if has_ended {
                sum.closed += 1;
            } else if let Some(id) = id {
                now.insert(id, (counters, place));
            }
        }
        if let Some(before) = before {
            for (_, place) in before.connections.into_values() {
                let place = keys.place(before.keys[place as usize].clone());
                keys.at(place).closed += 1;
            }
        }
        let (keys, sums) = keys.finish();
        self.before = Some(Before {
            connections: now,
            keys,
        });
        sums
    }

    /// Forgets the last sample: after a gap that no difference may span.
    pub fn forget(&mut self) {
        self.before = None;
    }
}

/// Ports that something listens on, which decide the direction.
struct Listeners(std::collections::HashSet<(Option<NetnsInode>, u16)>);

impl Listeners {
    fn of<'a>(sockets: impl Iterator<Item = (&'a Identity, &'a Values)>) -> Self {
        let listeners = sockets.filter(|(_, values)| values.state() == Some(State::Listen));
        Self(
            listeners
                .filter_map(|(identity, _)| Some((identity.netns, identity.local?.1.0)))
                .collect(),
        )
    }

    /// Returns the key of a TCP connection; `None` for other sockets.
    fn key_of<K: ConnectionKey>(&self, identity: &Identity, values: &Values) -> Option<K> {
        if !is_connection(identity, values) {
            return None;
        }
        let (_, port) = identity.local?;
        K::of(identity, self.0.contains(&(identity.netns, port.0)))
    }
}
