//! What each talker transferred between two samples: the rows that are summed up over minutes.

use crate::identity::IdentityRef;
use crate::values::{BYTES_ACKED, BYTES_RECEIVED, RETRANS_SEGS, Values};
use foldhash::{HashMap, HashSet};
use sockeye_model::{Cookie, Inode, NetnsInode, Protocol, State, StateSet, WorkloadKind};
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

/// Counters of connections at the last sample, for differences. Samples are added socket by socket, and finished: each socket is summed up
/// at once, and no list of them is kept.
#[derive(Debug, Default)]
pub struct SumTable {
    /// The connections of the last sample, and of the one in hand.
    known: HashMap<ConnectionId, Known>,
    /// The keys of these connections, and some of earlier ones.
    keys: Keys,
    /// Whether there is a sample to compare with.
    has_before: bool,
    /// Where sockets listened in the last sample.
    listeners_before: HashSet<ListenerId>,
    sample: InHand,
    /// The number of the sample in hand.
    number: u32,
}

/// A connection that is there.
#[derive(Debug, Clone, Copy)]
struct Known {
    counters: Counters,
    /// The place of its key.
    key: u32,
    /// The number of the last sample that has it.
    sample: u32,
    /// Where it is in a group, and its inode; see [`SumTable::add_at`].
    place: u32,
    inode: u32,
}

/// Identifies a connection. Old kernels number cookies per namespace.
pub type ConnectionId = (Cookie, Option<NetnsInode>);

type ListenerId = (Option<NetnsInode>, u16);

/// What is known of the sample in hand.
#[derive(Debug, Default)]
struct InHand {
    /// The sums of the keys by their places; of keys beyond its end there are none.
    sums: Vec<Sums>,
    listeners: HashSet<ListenerId>,
    /// Connections without a cookie that have ended: whether they count is known when all others are.
    nameless: Vec<(u32, Counters)>,
    /// Whether connections that have not ended lack their cookies.
    lacks_cookies: bool,
    has_sockets: bool,
}

/// What connections are summed up by, each with a place.
#[derive(Debug, Default)]
struct Keys {
    places: HashMap<Key, u32>,
    owners: Texts,
    containers: Texts,
}

/// What connections are summed up by, with the places of texts and one; 0: none.
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
    fn list(&self) -> Vec<&[u8]> {
        let mut all: Vec<_> = self.places.iter().collect();
        all.sort_unstable_by_key(|(_, place)| **place);
        all.into_iter().map(|(text, _)| &**text).collect()
    }
}

/// Returns the text with this place and one.
fn text<'a>(all: &[&'a [u8]], place: u32) -> Option<&'a [u8]> {
    all.get((place as usize).checked_sub(1)?).copied()
}

impl Keys {
    /// Returns the place of a key.
    fn place(&mut self, key: Key) -> u32 {
        let next = self.places.len() as u32;
        *self.places.entry(key).or_insert(next)
    }
}

impl InHand {
    /// Returns the sums of a key.
    fn sums(&mut self, place: u32) -> &mut Sums {
        let place = place as usize;
        if place >= self.sums.len() {
            self.sums.resize(place + 1, Sums::default());
        }
        &mut self.sums[place]
    }
}

#[derive(Debug, Clone, Copy, Default)]
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
    /// Adds a socket to the sample in hand. Which side opened a connection is known by the listeners that come before it, as in the
    /// kernel's tables, and those of the last sample.
    pub fn add(&mut self, identity: &IdentityRef<'_>, values: &Values) {
        self.add_at(identity, values, u32::MAX);
    }

    /// As [`Self::add`], and remembers the place of a connection in a group, which [`Self::add_unchanged`] returns.
    pub fn add_at(&mut self, identity: &IdentityRef<'_>, values: &Values, place: u32) {
        self.begin();
        let sample = &mut self.sample;
        if values.state() == Some(State::Listen) {
            sample
                .listeners
                .extend(identity.local.map(|(_, port)| (identity.netns, port.0)));
        }
        if !is_connection(identity.protocol, values) {
            return;
        }
        let has_ended = has_ended(values);
        sample.lacks_cookies |= identity.cookie.is_none() && !has_ended;
        let Some(((_, local_port), (peer, peer_port))) = identity.local.zip(identity.peer) else {
            return;
        };
        let listener = (identity.netns, local_port.0);
        let is_passive = sample.listeners.contains(&listener) || self.listeners_before.contains(&listener);
        let owner = identity.owners.and_then(|owners| owners.first());
        let container = identity.workloads.name(WorkloadKind::Container);
        let key = Key {
            netns: identity.netns,
            is_passive,
            peer: peer.to_canonical(),
            port: if is_passive { local_port.0 } else { peer_port.0 },
            owner: self
                .keys
                .owners
                .place(owner.map(|owner| owner.process.comm.as_bytes())),
            container: self.keys.containers.place(container.map(str::as_bytes)),
        };
        let key = self.keys.place(key);
        let counters = Counters::of(values);
        let Some(id) = identity.connection() else {
            if has_ended {
                sample.nameless.push((key, counters));
            }
            return;
        };
        let now = Known {
            counters,
            key,
            sample: self.number,
            place,
            inode: identity.inode.map_or(0, |inode| inode.0),
        };
        let then = if has_ended {
            self.known.remove(&id)
        } else {
            self.known.insert(id, now)
        };
        // One that the walk has met twice is one connection.
        let is_again = then.is_some_and(|then| then.sample == self.number);
        let sum = sample.sums(key);
        sum.connections += u64::from(!has_ended && !is_again);
        sum.closed += u64::from(has_ended);
        if self.has_before {
            sum.add_since(counters, then.map(|then| then.counters));
        }
    }

    /// Adds a connection again, to which nothing has happened since the last sample. `add`: adds what that sample has at its place in the
    /// group, if that is right; its inode comes second. Returns whether it was added: not if the last sample does not have it, or one of
    /// these is unknown.
    pub fn add_unchanged(&mut self, id: &ConnectionId, add: impl FnOnce(u32, Inode) -> bool) -> bool {
        self.begin();
        let Some(known) = self.known.get_mut(id) else {
            return false;
        };
        if known.sample == self.number {
            return true;
        }
        if known.place == u32::MAX || known.inode == 0 || !add(known.place, Inode(known.inode)) {
            return false;
        }
        known.sample = self.number;
        self.sample.sums(known.key).connections += 1;
        true
    }

    /// Whether the sample in hand has a connection that has not ended.
    #[must_use]
    pub fn has(&self, id: &ConnectionId) -> bool {
        let known = self.known.get(id);
        self.sample.has_sockets && known.is_some_and(|known| known.sample == self.number)
    }

    /// Begins a sample, unless that was done.
    pub fn begin(&mut self) {
        if !std::mem::replace(&mut self.sample.has_sockets, true) {
            self.number += 1;
        }
    }

    /// Returns what the connections of the sample in hand transferred since the one before. The first sample has nothing before it: it
    /// counts connections only. Of connections without a cookie those are summed up that have ended: the kernel creates a cookie when a
    /// socket is first listed, so that they were in no sample before. If those that are there have none either, this is not so.
    pub fn finish(&mut self) -> Vec<(SumKey, Sums)> {
        self.begin();
        let mut sample = std::mem::take(&mut self.sample);
        let (number, has_before) = (self.number, self.has_before);
        if !sample.lacks_cookies {
            for (key, counters) in std::mem::take(&mut sample.nameless) {
                let sum = sample.sums(key);
                sum.closed += 1;
                if has_before {
                    sum.add_since(counters, None);
                }
            }
        }
        self.known.retain(|_, connection| {
            let is_there = connection.sample == number;
            if !is_there && has_before {
                sample.sums(connection.key).closed += 1;
            }
            is_there
        });
        // Many connections have ended: their room is given back.
        if self.known.capacity() / 4 > self.known.len() {
            self.known.shrink_to_fit();
        }
        let (owners, containers) = (self.keys.owners.list(), self.keys.containers.list());
        let of_keys = self.keys.places.iter().filter_map(|(key, place)| {
            let sums = sample.sums.get(*place as usize)?;
            let key = || SumKey {
                netns: key.netns,
                is_passive: key.is_passive,
                peer: key.peer,
                port: key.port,
                owner: text(&owners, key.owner).map(lossy),
                container: text(&containers, key.container).map(lossy),
            };
            (*sums != Sums::default()).then(|| (key(), *sums))
        });
        let of_keys: Vec<_> = of_keys.collect();
        self.has_before = true;
        self.listeners_before = sample.listeners;
        if self.keys.places.len() > of_keys.len() * 2 + KEYS_MIN {
            self.forget_keys();
        }
        of_keys
    }

    /// Forgets the keys that no connection has.
    fn forget_keys(&mut self) {
        let before = std::mem::take(&mut self.keys);
        let (owners, containers) = (before.owners.list(), before.containers.list());
        let mut all: Vec<Option<Key>> = vec![None; before.places.len()];
        for (key, place) in &before.places {
            all[*place as usize] = Some(*key);
        }
        for connection in self.known.values_mut() {
            let Some(key) = all.get(connection.key as usize).copied().flatten() else {
                continue;
            };
            let owner = self.keys.owners.place(text(&owners, key.owner));
            let container = self.keys.containers.place(text(&containers, key.container));
            connection.key = self.keys.place(Key {
                owner,
                container,
                ..key
            });
        }
    }

    /// Forgets the sample in hand, which is not finished. If it has begun, the next one is compared with none.
    pub fn discard(&mut self) {
        if std::mem::take(&mut self.sample).has_sockets {
            self.forget();
        }
    }

    /// Forgets the last sample: after a gap that no difference may span.
    pub fn forget(&mut self) {
        self.has_before = false;
        self.known.clear();
        self.keys = Keys::default();
        self.listeners_before.clear();
    }
}

impl Sums {
    /// Adds what a connection transferred since the sample before; without one since it was opened.
    fn add_since(&mut self, now: Counters, then: Option<Counters>) {
        self.opened += u64::from(then.is_none());
        let then = then.unwrap_or_default();
        self.sent_bytes += now.sent.saturating_sub(then.sent);
        self.received_bytes += now.received.saturating_sub(then.received);
        self.retrans_segs += u64::from(now.retrans.saturating_sub(then.retrans));
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// So many keys without a connection are kept.
const KEYS_MIN: usize = 1_000;

/// Whether a socket is a TCP connection that transfers data, or has ended since the sample before.
pub(crate) fn is_connection(protocol: Protocol, values: &Values) -> bool {
    let is_counted = |state| state == State::Close || StateSet::FLOWS.contains(state);
    protocol == Protocol::Tcp
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
    use crate::Identity;
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
            table.add(&identity.borrowed(), values);
        }
        let mut sums = table.finish();
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
        table.add(&twice[0].0.borrowed(), &twice[0].1);
        // One that is not finished is compared with none, nor is the next.
        table.discard();
        let only = Sums {
            connections: 1,
            ..Sums::default()
        };
        assert_eq!(add(&mut table, &twice[..1]), [(false, 443, only)]);
        // One that was not begun changes nothing.
        table.discard();
        let gone = Sums {
            closed: 1,
            ..Sums::default()
        };
        assert_eq!(add(&mut table, &[]), [(false, 443, gone)]);
    }

    #[test]
    fn unchanged_connection_counts_and_transfers_nothing() {
        let mut table = SumTable::default();
        let (mut identity, values) = socket(1, State::Established, 50_000, 443, 100);
        identity.inode = Some(Inode(7));
        table.add_at(&identity.borrowed(), &values, 3);
        table.finish();
        let id = (Cookie(1), None);
        let mut asked = Vec::new();
        for _ in 0..2 {
            // It is met twice.
            assert!(table.add_unchanged(&id, |place, inode| {
                asked.push((place, inode));
                true
            }));
            assert!(table.has(&id));
            assert!(table.add_unchanged(&id, |_, _| unreachable!()));
            assert!(!table.add_unchanged(&(Cookie(2), None), |_, _| true));
            let only = Sums {
                connections: 1,
                ..Sums::default()
            };
            assert_eq!(
                table
                    .finish()
                    .into_iter()
                    .map(|(_, sums)| sums)
                    .collect::<Vec<_>>(),
                [only]
            );
        }
        assert_eq!(asked, [(3, Inode(7)); 2]);
        // It has transferred, and its place is not known any more.
        let more = socket(1, State::Established, 50_000, 443, 150);
        assert_eq!(add(&mut table, &[more])[0].2.sent_bytes, 50);
        assert!(!table.add_unchanged(&id, |_, _| true));
        assert_eq!(add(&mut table, &[])[0].2.closed, 1);
    }

    #[test]
    fn keys_without_a_connection_are_forgotten() {
        let mut table = SumTable::default();
        let stays = socket(1, State::Established, 50_000, 443, 100);
        for round in 0..3_u16 {
            let mut sample = vec![stays.clone()];
            sample.extend((0..2_000).map(|port| {
                let cookie = 10 + u64::from(round) * 2_000 + u64::from(port);
                socket(
                    cookie,
                    State::Established,
                    50_001,
                    1_000 + round * 2_000 + port,
                    1,
                )
            }));
            add(&mut table, &sample);
        }
        let sums = add(&mut table, std::slice::from_ref(&stays));
        assert_eq!(sums.len(), 2_001);
        let left = add(&mut table, std::slice::from_ref(&stays));
        let only = Sums {
            connections: 1,
            ..Sums::default()
        };
        assert_eq!(left, [(false, 443, only)]);
        assert_eq!(table.keys.places.len(), 1);
    }

    #[test]
    fn direction_is_known_by_listeners_before_it_and_of_the_last_sample() {
        let mut table = SumTable::default();
        let listener = socket(9, State::Listen, 443, 0, 0);
        let connection = socket(1, State::Established, 443, 50_000, 100);
        let directions = |sums: Vec<(bool, u16, Sums)>| {
            sums.into_iter()
                .map(|(is_passive, ..)| is_passive)
                .collect::<Vec<_>>()
        };
        let first = [listener.clone(), connection.clone()];
        assert_eq!(directions(add(&mut table, &first)), [true]);
        // It was started again: it comes later.
        let second = [connection.clone(), listener];
        assert_eq!(directions(add(&mut table, &second)), [true]);
        assert_eq!(
            directions(add(&mut table, std::slice::from_ref(&connection))),
            [true]
        );
        // Without it the connection goes on under another key.
        assert_eq!(directions(add(&mut table, &[connection])), [false]);
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
