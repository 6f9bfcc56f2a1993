//! What each talker transferred between two samples: the rows that are summed up over minutes.

use crate::identity::Identity;
use crate::values::Values;
use sockeye_model::{Cookie, NetnsInode, Protocol, State, StateSet, WorkloadKind};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

/// What is summed up together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SumKey {
    /// Network namespace; `None` if only one is recorded.
    pub netns: Option<NetnsInode>,
    /// Whether the peer connected to us.
    pub is_passive: bool,
    /// The peer's address, v4-mapped ones as IPv4.
    pub peer: IpAddr,
    /// The port of the service: ours if the peer connected to us.
    pub port: u16,
    /// Name of the first owner; `None` if there is none or it is unknown.
    pub owner: Option<String>,
    /// Name of the container.
    pub container: Option<String>,
}

/// Sums of the connections of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Bytes that the peers acknowledged.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Segments retransmitted.
    pub retrans_segs: u64,
    /// Connections that the sample before has not.
    pub opened: u64,
    /// Connections that only the sample before has.
    pub closed: u64,
    /// Connections that are there.
    pub connections: u64,
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.retrans_segs += other.retrans_segs;
        self.opened += other.opened;
        self.closed += other.closed;
        self.connections += other.connections;
    }
}

/// What connections are summed up by.
pub trait ConnectionKey: Clone + Eq + Hash {
    /// Returns the key of a TCP connection; `None` if it is not counted. `is_passive`: whether the peer connected to us.
    fn of(identity: &Identity, is_passive: bool) -> Option<Self>;
}

impl ConnectionKey for SumKey {
    fn of(identity: &Identity, is_passive: bool) -> Option<Self> {
        let ((_, local), (peer, port)) = identity.local.zip(identity.peer)?;
        Some(Self {
            netns: identity.netns,
            is_passive,
            peer: peer.to_canonical(),
            port: if is_passive { local.0 } else { port.0 },
            owner: identity.first_owner(),
            container: identity.workload(WorkloadKind::Container).map(str::to_owned),
        })
    }
}

/// Counters of connections at the last sample, for differences.
#[derive(Debug)]
pub struct SumTable<K = SumKey> {
    before: Option<Before<K>>,
}

impl<K> Default for SumTable<K> {
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

#[derive(Debug, Clone, Copy)]
struct Counters {
    sent: u64,
    received: u64,
    retrans: u64,
}

impl Counters {
    fn of(values: &Values) -> Self {
        let number = |name| values.number(name).unwrap_or(0);
        Self {
            sent: number("bytes_acked"),
            received: number("bytes_received"),
            retrans: number("total_retrans_segs"),
        }
    }
}

impl<K: ConnectionKey> SumTable<K> {
    /// Returns what the connections of a sample transferred since the one before. The first sample has nothing before it: it counts
    /// connections only. Of connections without a cookie those are summed up that have ended: the kernel creates a cookie when a socket
    /// is first listed, so that they were in no sample before. If those that are there have none either, this is not so.
    pub fn add<'a>(
        &mut self,
        sockets: impl Iterator<Item = (&'a Identity, &'a Values)> + Clone,
    ) -> HashMap<K, Sums> {
        self.add_visiting(sockets, &mut |_, _| {})
    }

    /// The same, and calls `visit` with each connection that is counted in the sample.
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
                sum.retrans_segs += since(counters.retrans, then.map(|then| then.retrans));
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

/// Whether a socket is a TCP connection that transfers data, or has ended since the sample before.
fn is_connection(identity: &Identity, values: &Values) -> bool {
    let is_counted = |state| state == State::Close || StateSet::FLOWS.contains(state);
    identity.protocol == Protocol::Tcp && !values.is_left_over() && values.state().is_some_and(is_counted)
}

fn has_ended(values: &Values) -> bool {
    values.state() == Some(State::Close)
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

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Entry, Port, Socket, TcpInfo};

    fn socket(cookie: u64, state: State, local: u16, peer: u16, bytes: u64) -> (Identity, Values) {
        let mut socket = Socket::new(Protocol::Tcp, state);
        socket.cookie = Some(Cookie(cookie));
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(local));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(peer));
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(bytes),
            ..TcpInfo::default()
        });
        let identity = Identity::of(&Entry::new(&socket), &mut |_| None);
        (identity, Values::of(&socket, 0))
    }

    fn add(table: &mut SumTable, sockets: &[(Identity, Values)]) -> Vec<(bool, u16, Sums)> {
        let sums = table.add(sockets.iter().map(|(identity, values)| (identity, values)));
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| a.0.cmp(&b.0));
        sums.into_iter()
            .map(|(key, sums)| (key.is_passive, key.port, sums))
            .collect()
    }

    #[test]
    fn differences_count_and_short_connections_too() {
        let mut table: SumTable = SumTable::default();
        let established = State::Established;
        let listener = socket(9, State::Listen, 443, 0, 0);
        let first = [
            listener.clone(),
            socket(1, established, 443, 50_000, 100),
            socket(2, established, 50_001, 5432, 7),
        ];
        let only = Sums {
            connections: 1,
            ..Sums::default()
        };
        assert_eq!(add(&mut table, &first), [(false, 5432, only), (true, 443, only)]);
        // One goes on, one is gone, one lived between the samples.
        let second = [
            listener,
            socket(1, established, 443, 50_000, 150),
            socket(3, State::Close, 443, 50_002, 30),
        ];
        let gone = Sums {
            closed: 1,
            ..Sums::default()
        };
        let served = Sums {
            sent_bytes: 80,
            opened: 1,
            closed: 1,
            connections: 1,
            ..Sums::default()
        };
        assert_eq!(
            add(&mut table, &second),
            [(false, 5432, gone), (true, 443, served)]
        );
        table.forget();
        assert_eq!(add(&mut table, &second)[0].2.sent_bytes, 0);
    }

    /// A socket in a state in which the kernel has no tcp_info of it.
    fn left_over(cookie: u64, state: State, local: u16, peer: u16) -> (Identity, Values) {
        let (identity, _) = socket(cookie, state, local, peer, 0);
        (identity, Values::of(&Socket::new(Protocol::Tcp, state), 0))
    }

    #[test]
    fn bytes_before_time_wait_count_once() {
        for state in [State::TimeWait, State::FinWait2] {
            let mut table: SumTable = SumTable::default();
            let mut all = Sums::default();
            let ended = left_over(1, state, 50_000, 443);
            for sample in [
                vec![socket(1, State::Established, 50_000, 443, 0)],
                vec![socket(1, State::Established, 50_000, 443, 1_000)],
                vec![ended.clone(), socket(1, State::Close, 50_000, 443, 5_000)],
                vec![ended],
                vec![],
            ] {
                for (_, _, sums) in add(&mut table, &sample) {
                    all += sums;
                }
            }
            let expected = Sums {
                sent_bytes: 5_000,
                closed: 1,
                connections: 2,
                ..Sums::default()
            };
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn what_is_no_connection_has_no_sums() {
        let mut table: SumTable = SumTable::default();
        for _ in 0..2 {
            let sample = [
                left_over(1, State::TimeWait, 443, 50_000),
                left_over(2, State::SynRecv, 443, 50_001),
                left_over(3, State::NewSynRecv, 443, 50_002),
            ];
            assert_eq!(add(&mut table, &sample), []);
        }
    }

    #[test]
    fn ended_connection_that_was_never_listed_has_no_cookie_and_counts() {
        let mut short = socket(1, State::Close, 50_000, 443, 30);
        short.0.cookie = None;
        let mut table: SumTable = SumTable::default();
        add(&mut table, &[]);
        let expected = Sums {
            sent_bytes: 30,
            opened: 1,
            closed: 1,
            ..Sums::default()
        };
        assert_eq!(
            add(&mut table, std::slice::from_ref(&short)),
            [(false, 443, expected)]
        );
        // Without cookies it may have been in the sample before.
        let mut listed = socket(2, State::Established, 50_001, 80, 9);
        listed.0.cookie = None;
        assert_eq!(add(&mut table, &[short, listed]), []);
    }
}
