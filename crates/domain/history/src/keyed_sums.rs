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
    /// What decides about keys besides the connection.
    type Context;

    /// Returns the key of a TCP connection; `None` if it is not counted. `is_passive`: whether the peer connected to us.
    fn of(context: &Self::Context, identity: &Identity, is_passive: bool) -> Option<Self>;
}

/// Sums of the connections of a key, with connects that failed and what held connections back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionSums {
    /// What connections transferred.
    pub transferred: Sums,
    /// Connects that failed.
    pub failed: u64,
    /// Of these, those that the peer refused with a RST.
    pub refused: u64,
    /// What held connections back.
    pub limits: Limits,
}

/// How long connections had data to send, and what held them back meanwhile, in milliseconds. What a connection had between its last sample
/// and its end is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// With data to send or to be acknowledged.
    pub busy_ms: u64,
    /// Of this, limited by the receive window of the peer: it does not read as fast.
    pub rwnd_limited_ms: u64,
    /// Of this, limited by the send buffer of this end.
    pub sndbuf_limited_ms: u64,
}

impl std::ops::AddAssign for ConnectionSums {
    fn add_assign(&mut self, other: Self) {
        self.transferred += other.transferred;
        self.failed += other.failed;
        self.refused += other.refused;
        self.limits += other.limits;
    }
}

impl std::ops::AddAssign for Limits {
    fn add_assign(&mut self, other: Self) {
        self.busy_ms += other.busy_ms;
        self.rwnd_limited_ms += other.rwnd_limited_ms;
        self.sndbuf_limited_ms += other.sndbuf_limited_ms;
    }
}

impl Limits {
    /// Returns what was added to the counters of a connection since then; `None` before the first sample that has it.
    fn since(now: [u64; 3], then: Option<[u64; 3]>) -> Self {
        let then = then.unwrap_or_default();
        let more = |place: usize| now[place].saturating_sub(then[place]);
        Self {
            busy_ms: more(0),
            rwnd_limited_ms: more(1),
            sndbuf_limited_ms: more(2),
        }
    }
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
    connections: HashMap<ConnectionId, Known>,
    keys: Vec<K>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    counters: Counters,
    limits_ms: Option<[u64; 3]>,
    /// The place of its key.
    key: u32,
}

/// The keys of a sample, each with its sums and its place.
#[derive(Debug)]
struct Keys<K> {
    places: HashMap<K, u32>,
    sums: Vec<ConnectionSums>,
}

impl<K: ConnectionKey> Keys<K> {
    fn place(&mut self, key: K) -> u32 {
        let next = self.sums.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.sums.push(ConnectionSums::default());
        }
        place
    }

    fn at(&mut self, place: u32) -> &mut ConnectionSums {
        &mut self.sums[place as usize]
    }

    /// Returns the keys by their places, and each with its sums.
    fn finish(self) -> (Vec<K>, HashMap<K, ConnectionSums>) {
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
        context: &K::Context,
        sockets: impl Iterator<Item = (&'a Identity, &'a Values)> + Clone,
        visit: &mut dyn FnMut(&K, &Values),
    ) -> HashMap<K, ConnectionSums> {
        let listeners = Listeners::of(sockets.clone());
        let lacks_cookies = sockets.clone().any(|(identity, values)| {
            identity.cookie.is_none() && is_connection(identity.protocol, values) && !has_ended(values)
        });
        let mut before = self.before.take();
        let mut now = HashMap::new();
        let mut keys = Keys {
            places: HashMap::new(),
            sums: Vec::new(),
        };
        for (identity, values) in sockets {
            if let Some((failed, refused)) = values.failures() {
                // Those of the first sample are older than what is summed up.
                let key = before.as_ref().and_then(|_| K::of(context, identity, false));
                if let Some(key) = key {
                    let place = keys.place(key);
                    let sum = keys.at(place);
                    sum.failed += failed;
                    sum.refused += refused;
                }
                continue;
            }
            let has_ended = has_ended(values);
            let id = identity.cookie.map(|cookie| (identity.netns, cookie));
            if id.is_none() && (lacks_cookies || !has_ended) {
                continue;
            }
            let Some((is_passive, key)) = listeners.key_of(context, identity, values) else {
                continue;
            };
            visit(&key, values);
            let (counters, limits_ms) = (Counters::of(values), values.limits_ms());
            let place = keys.place(key);
            let ConnectionSums {
                transferred: sum,
                limits,
                ..
            } = keys.at(place);
            sum.connections += u64::from(!has_ended);
            if let Some(before) = &mut before {
                let then = id.and_then(|id| before.connections.remove(&id));
                sum.opened += u64::from(then.is_none());
                // One whose sample before lacks them is older than that.
                let then_ms = then.map(|then| then.limits_ms);
                if let Some(now) = limits_ms.filter(|_| then_ms != Some(None)) {
                    *limits += Limits::since(now, then_ms.flatten());
                }
                // The kernel counts the SYN that opened a connection as a byte that the peer acknowledged.
                let syn_bytes = u64::from(!is_passive && then.is_none());
                let since = |now: u64, then: Option<u64>| now.saturating_sub(then.unwrap_or(0));
                let then = then.map(|then| then.counters);
                sum.sent_bytes += since(counters.sent, then.map(|then| then.sent)).saturating_sub(syn_bytes);
                sum.received_bytes += since(counters.received, then.map(|then| then.received));
                sum.retrans_segs += since(counters.retrans.into(), then.map(|then| then.retrans.into()));
            }
            if has_ended {
                sum.closed += 1;
            } else if let Some(id) = id {
                let known = Known {
                    counters,
                    limits_ms,
                    key: place,
                };
                now.insert(id, known);
            }
        }
        if let Some(before) = before {
            for known in before.connections.into_values() {
                let place = keys.place(before.keys[known.key as usize].clone());
                keys.at(place).transferred.closed += 1;
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

    /// Returns whether the peer opened a TCP connection, and its key; `None` for other sockets.
    fn key_of<K: ConnectionKey>(
        &self,
        context: &K::Context,
        identity: &Identity,
        values: &Values,
    ) -> Option<(bool, K)> {
        if !is_connection(identity.protocol, values) {
            return None;
        }
        let (_, port) = identity.local?;
        let is_passive = self.0.contains(&(identity.netns, port.0));
        Some((is_passive, K::of(context, identity, is_passive)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Entry, Port, Protocol, Socket, TcpInfo};

    impl ConnectionKey for bool {
        type Context = ();

        fn of((): &(), _identity: &Identity, is_passive: bool) -> Option<Self> {
            Some(is_passive)
        }
    }

    fn socket(cookie: u64, state: State, local: u16, peer: u16, acked: u64) -> (Identity, Values) {
        let mut socket = Socket::new(Protocol::Tcp, state);
        socket.cookie = Some(Cookie(cookie));
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(local));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(peer));
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(acked),
            ..TcpInfo::default()
        });
        let identity = Identity::of(&Entry::new(&socket), &mut |_| None);
        (identity, Values::of(&socket, 0))
    }

    #[test]
    fn syn_of_a_client_is_no_byte() {
        let mut sums = KeyedSums::default();
        let mut add = |sockets: &[(Identity, Values)]| {
            let sockets = sockets.iter().map(|(identity, values)| (identity, values));
            let sums = sums.add_visiting(&(), sockets, &mut |_: &bool, _| {});
            [false, true].map(|is_passive| sums.get(&is_passive).map_or(0, |of| of.transferred.sent_bytes))
        };
        let listener = || socket(1, State::Listen, 80, 0, 0);
        let old = |acked| socket(2, State::Established, 40_000, 443, acked);
        let opened = |acked| socket(3, State::Established, 40_001, 443, acked);
        let accepted = |acked| socket(4, State::Established, 80, 50_000, acked);
        let silent = || socket(5, State::Established, 40_002, 443, 1);
        assert_eq!(add(&[listener(), old(101)]), [0, 0]);
        // That of a connection whose sample before has it is in both.
        assert_eq!(
            add(&[listener(), old(111), opened(9), accepted(20), silent()]),
            [18, 20]
        );
        assert_eq!(
            add(&[listener(), old(111), opened(17), accepted(25), silent()]),
            [8, 5]
        );
        // Nor is it of one that has ended before a sample had it.
        let ended = socket(6, State::Close, 40_003, 443, 9);
        assert_eq!(add(&[listener(), ended]), [8, 0]);
    }
}
