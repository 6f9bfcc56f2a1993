//! What each talker transferred between two samples: the rows that are summed up over minutes.

use crate::identity::Identity;
use crate::values::{BYTES_ACKED, BYTES_RECEIVED, RETRANS_SEGS, Values};
use sockeye_model::{Cookie, NetnsInode, Protocol, State, StateSet, WorkloadKind};
use std::collections::{HashMap, HashSet};
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

/// Counters of connections at the last sample, for differences. Samples are added socket by socket, and finished: of a socket in hand
/// it keeps what its sums need.
#[derive(Debug, Default)]
pub struct SumTable {
    /// Connections of the last sample. `None`: there is none to compare with.
    before: Option<Before>,
    sample: InHand,
    /// The number of the sample in hand.
    number: u32,
}

/// The connections of a sample. Each has the place of its key, which many of them share.
#[derive(Debug, Default)]
struct Before {
    connections: HashMap<ConnectionId, Known>,
    keys: Vec<SumKey>,
}

/// A connection that was there at the last sample.
#[derive(Debug, Clone, Copy)]
struct Known {
    counters: Counters,
    /// The place of its key in that sample.
    key: u32,
    /// The number of that sample.
    sample: u32,
}

/// Old kernels number cookies per namespace.
type ConnectionId = (u64, Option<NetnsInode>);

/// What the sockets of a sample add to its sums. Which side opened a connection is known when all listeners are.
#[derive(Debug, Default)]
struct InHand {
    connections: Vec<Seen>,
    listeners: HashSet<(Option<NetnsInode>, u16)>,
    owners: Texts,
    containers: Texts,
    /// Whether connections that have not ended lack their cookies.
    lacks_cookies: bool,
}

/// A connection in the sample in hand.
#[derive(Debug)]
struct Seen {
    cookie: Option<Cookie>,
    counters: Counters,
    peer: IpAddr,
    netns: Option<NetnsInode>,
    /// Places of texts and one; 0: none.
    owner: u32,
    container: u32,
    local_port: u16,
    peer_port: u16,
    has_ended: bool,
}

/// What connections are summed up by, with the places of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    netns: Option<NetnsInode>,
    is_passive: bool,
    peer: IpAddr,
    port: u16,
    owner: u32,
    container: u32,
}

/// Texts that many connections share.
#[derive(Debug, Default)]
struct Texts {
    places: HashMap<Box<[u8]>, u32>,
}

impl Texts {
    /// Returns the place of a text and one; of none 0.
    fn place(&mut self, text: Option<&[u8]>) -> u32 {
        let Some(text) = text else {
            return 0;
        };
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.places.len() as u32 + 1;
        self.places.insert(text.into(), place);
        place
    }

    /// Returns the texts by their places.
    fn list(self) -> Vec<String> {
        let mut all: Vec<_> = self.places.into_iter().collect();
        all.sort_unstable_by_key(|(_, place)| *place);
        let text = |(text, _): (Box<[u8]>, u32)| String::from_utf8_lossy(&text).into_owned();
        all.into_iter().map(text).collect()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) retrans: u32,
}

impl Counters {
    pub(crate) fn of(values: &Values) -> Self {
        let number = |place| values.at(place).unwrap_or(0);
        Self {
            sent: number(BYTES_ACKED),
            received: number(BYTES_RECEIVED),
            retrans: u32::try_from(number(RETRANS_SEGS)).unwrap_or(u32::MAX),
        }
    }
}

impl SumTable {
    /// Adds a socket to the sample in hand.
    pub fn add(&mut self, identity: &Identity, values: &Values) {
        let sample = &mut self.sample;
        if values.state() == Some(State::Listen) {
            sample
                .listeners
                .extend(identity.local.map(|(_, port)| (identity.netns, port.0)));
        }
        if !is_connection(identity, values) {
            return;
        }
        let has_ended = has_ended(values);
        sample.lacks_cookies |= identity.cookie.is_none() && !has_ended;
        let Some(((_, local_port), (peer, peer_port))) = identity.local.zip(identity.peer) else {
            return;
        };
        let owner = identity.owners.as_ref().and_then(|owners| owners.first());
        let container = identity.workload(WorkloadKind::Container);
        sample.connections.push(Seen {
            cookie: identity.cookie,
            counters: Counters::of(values),
            peer: peer.to_canonical(),
            netns: identity.netns,
            owner: sample
                .owners
                .place(owner.map(|owner| owner.process.comm.as_bytes())),
            container: sample.containers.place(container.map(str::as_bytes)),
            local_port: local_port.0,
            peer_port: peer_port.0,
            has_ended,
        });
    }

    /// Returns what the connections of the sample in hand transferred since the one before. The first sample has nothing before it: it
    /// counts connections only. Of connections without a cookie those are summed up that have ended: the kernel creates a cookie when a
    /// socket is first listed, so that they were in no sample before. If those that are there have none either, this is not so.
    pub fn finish(&mut self) -> HashMap<SumKey, Sums> {
        let InHand {
            connections,
            listeners,
            owners,
            containers,
            lacks_cookies,
        } = std::mem::take(&mut self.sample);
        self.number += 1;
        let number = self.number;
        let is_compared = self.before.is_some();
        let Before {
            connections: mut known,
            keys: keys_before,
        } = self.before.take().unwrap_or_default();
        let (mut places, mut sums): (HashMap<Key, u32>, Vec<Sums>) = <_>::default();
        for seen in connections {
            let id = seen.cookie.map(|cookie| (cookie.0, seen.netns));
            if id.is_none() && (lacks_cookies || !seen.has_ended) {
                continue;
            }
            let next = sums.len() as u32;
            let place = *places.entry(seen.key(&listeners)).or_insert(next);
            if place == next {
                sums.push(Sums::default());
            }
            let sum = &mut sums[place as usize];
            let now = Known {
                counters: seen.counters,
                key: place,
                sample: number,
            };
            let then = match id {
                None => None,
                Some(id) if seen.has_ended => known.remove(&id),
                Some(id) => known.insert(id, now),
            };
            // One that the walk has met twice is one connection.
            let is_again = then.is_some_and(|then| then.sample == number);
            sum.connections += u64::from(!seen.has_ended && !is_again);
            sum.closed += u64::from(seen.has_ended);
            if is_compared {
                sum.opened += u64::from(then.is_none());
                let (now, then) = (seen.counters, then.map(|then| then.counters));
                sum.sent_bytes += now.sent.saturating_sub(then.map_or(0, |then| then.sent));
                sum.received_bytes += now.received.saturating_sub(then.map_or(0, |then| then.received));
                let retrans = now.retrans.saturating_sub(then.map_or(0, |then| then.retrans));
                sum.retrans_segs += u64::from(retrans);
            }
        }
        let mut keys: Vec<Option<SumKey>> = vec![None; sums.len()];
        let (owners, containers) = (owners.list(), containers.list());
        for (key, place) in places {
            keys[place as usize] = Some(key.with(&owners, &containers));
        }
        let mut keys: Vec<SumKey> = keys.into_iter().flatten().collect();
        let mut by_key: HashMap<SumKey, Sums> = keys.iter().cloned().zip(sums).collect();
        known.retain(|_, connection| {
            let is_there = connection.sample == number;
            if !is_there && let Some(key) = keys_before.get(connection.key as usize) {
                by_key.entry(key.clone()).or_default().closed += 1;
            }
            is_there
        });
        // Many connections have ended: their room is given back.
        if known.capacity() / 4 > known.len() {
            known.shrink_to_fit();
        }
        keys.shrink_to_fit();
        self.before = Some(Before {
            connections: known,
            keys,
        });
        by_key
    }

    /// Forgets the sample in hand: it is not finished.
    pub fn discard(&mut self) {
        self.sample = InHand::default();
    }

    /// Forgets the last sample: after a gap that no difference may span.
    pub fn forget(&mut self) {
        self.before = None;
    }
}

impl Seen {
    fn key(&self, listeners: &HashSet<(Option<NetnsInode>, u16)>) -> Key {
        let is_passive = listeners.contains(&(self.netns, self.local_port));
        Key {
            netns: self.netns,
            is_passive,
            peer: self.peer,
            port: if is_passive {
                self.local_port
            } else {
                self.peer_port
            },
            owner: self.owner,
            container: self.container,
        }
    }
}

impl Key {
    fn with(self, owners: &[String], containers: &[String]) -> SumKey {
        let text = |all: &[String], place: u32| all.get((place as usize).checked_sub(1)?).cloned();
        SumKey {
            netns: self.netns,
            is_passive: self.is_passive,
            peer: self.peer,
            port: self.port,
            owner: text(owners, self.owner),
            container: text(containers, self.container),
        }
    }
}

/// Whether a socket is a TCP connection that transfers data, or has ended since the sample before.
pub(crate) fn is_connection(identity: &Identity, values: &Values) -> bool {
    let is_counted = |state| state == State::Close || StateSet::FLOWS.contains(state);
    identity.protocol == Protocol::Tcp
        && !values.is_left_over()
        && values.failures().is_none()
        && values.state().is_some_and(is_counted)
}

pub(crate) fn has_ended(values: &Values) -> bool {
    values.state() == Some(State::Close)
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
        for (identity, values) in sockets {
            table.add(identity, values);
        }
        let mut sums: Vec<_> = table.finish().into_iter().collect();
        sums.sort_by(|a, b| a.0.cmp(&b.0));
        sums.into_iter()
            .map(|(key, sums)| (key.is_passive, key.port, sums))
            .collect()
    }

    #[test]
    fn connection_that_is_met_twice_is_one() {
        let mut table = SumTable::default();
        add(&mut table, &[socket(1, State::Established, 50_000, 443, 100)]);
        let twice = [150, 170].map(|bytes| socket(1, State::Established, 50_000, 443, bytes));
        let expected = Sums {
            sent_bytes: 70,
            connections: 1,
            ..Sums::default()
        };
        assert_eq!(add(&mut table, &twice), [(false, 443, expected)]);
        table.add(&twice[0].0, &twice[0].1);
        table.discard();
        let gone = Sums {
            closed: 1,
            ..Sums::default()
        };
        assert_eq!(add(&mut table, &[]), [(false, 443, gone)]);
    }

    #[test]
    fn differences_count_and_short_connections_too() {
        let mut table = SumTable::default();
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
            let mut table = SumTable::default();
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
        let mut table = SumTable::default();
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
        let mut table = SumTable::default();
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
