//! Whose packets they are: the processes behind connections, looked for on a thread beside the capture.

use super::interface::{Interface, LOOPBACK_INDEX, Link};
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use sockeye_model::{Endpoint, Inode, Owner, Protocol, ProtocolSet, StateSet};
use sockeye_output::harmless;
use sockeye_source::owners::Owners;
use sockeye_source::{BpfEngine, Choice, Detail, Ends, Families, NetnsScope, Query, list};
use sockeye_sys::packet_ring::{Packet, PacketType, Packets};
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What the capture knows of owners.
#[derive(Debug)]
pub(super) struct Book {
    link: Link,
    board: Arc<Board>,
    wish: SyncSender<()>,
    table: Arc<Table>,
    generation: u32,
    /// By the hash of a connection, what was said of it; a later one takes the place of another.
    flows: Box<[Flow]>,
    hasher: RandomState,
    /// The last packet's connection, if there is nothing more to be said of it for now: most packets follow one of the
    /// same.
    settled: Option<Key>,
}

/// Where the thread beside leaves what it has found.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Counts the tables; 0: there is none yet.
    generation: AtomicU32,
    found: Mutex<Found>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Found {
    table: Arc<Table>,
    /// It has just looked, and will not do so again for a while.
    is_resting: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    hash: u64,
    /// When it was last looked for
    generation: u32,
    /// How often in vain
    misses: u8,
    /// Which text was written; 0: none
    said: u64,
}

/// Which sockets a namespace has, by their ends, and who holds them.
#[derive(Debug, Default)]
struct Table {
    connected: HashMap<(u8, End, End), Inode>,
    /// In order. Several may share an end (`SO_REUSEPORT`).
    bound: Vec<(u8, End, Inode)>,
    owners: Owners,
}

/// An address, IPv4 as IPv6 has it, and a port.
type End = (u128, u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    protocol: u8,
    source: End,
    destination: End,
}

impl Book {
    /// A book, and what the thread beside it has to be given.
    pub(super) fn open(interface: &Interface) -> (Self, Arc<Board>, Receiver<()>) {
        let board = Arc::new(Board::default());
        let (wish, wishes) = mpsc::sync_channel(1);
        let book = Self {
            link: interface.link,
            board: Arc::clone(&board),
            wish,
            table: Arc::default(),
            generation: 0,
            flows: vec![Flow::default(); FLOWS].into_boxed_slice(),
            hasher: RandomState::default(),
            settled: None,
        };
        (book, board, wishes)
    }

    /// Takes over what was found beside. If there is time, and a connection among these packets that nothing is known of, it
    /// is looked for first: who is asked only later may have ended.
    pub(super) fn prepare(&mut self, packets: Packets<'_>, has_time: bool) {
        self.renew();
        if has_time
            && packets.left() <= PREPARED_MAX
            && packets.into_iter().any(|packet| self.is_new(&packet))
        {
            let Ok(found) = self.board.found.lock() else {
                return;
            };
            if found.is_resting {
                return;
            }
            // If somebody looks already, it is what we wait for.
            let _ = self.wish.try_send(());
            let board = Arc::clone(&self.board);
            let waited = board
                .changed
                .wait_timeout_while(found, PATIENCE, |found| !found.is_resting);
            drop(waited);
            self.renew();
        }
    }

    fn renew(&mut self) {
        if self.board.generation.load(Ordering::Acquire) == self.generation {
            return;
        }
        if let Ok(found) = self.board.found.try_lock() {
            self.table = Arc::clone(&found.table);
            self.generation = self.board.generation.load(Ordering::Acquire);
            self.settled = None;
        }
    }

    fn is_new(&self, packet: &Packet<'_>) -> bool {
        Key::of(self.link, packet).is_some_and(|key| {
            let hash = self.hasher.hash_one(key);
            self.flows[hash as usize % FLOWS].hash != hash
        })
    }

    /// Forgets what was said: a new file has to say it again.
    pub(super) fn forget(&mut self) {
        self.flows.fill(Flow::default());
        self.settled = None;
    }

    /// What is to be said of this packet: whose it is, if that was not said of its connection before.
    #[inline]
    pub(super) fn comment(&mut self, packet: &Packet<'_>) -> Option<String> {
        let key = Key::of(self.link, packet)?;
        if self.settled == Some(key) {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let flow = &mut self.flows[hash as usize % FLOWS];
        if flow.hash != hash {
            *flow = Flow {
                hash,
                generation: u32::MAX,
                ..Flow::default()
            };
        }
        self.settled = Some(key);
        if flow.generation == self.generation || flow.misses >= MISSES_MAX {
            return None;
        }
        flow.generation = self.generation;
        let is_outgoing = packet.packet_type == PacketType::OUTGOING;
        let is_within = packet.interface == LOOPBACK_INDEX;
        let table = &self.table;
        let sender =
            (is_outgoing || is_within).then(|| table.owners(key.protocol, key.source, key.destination));
        let receiver = (!is_outgoing).then(|| table.owners(key.protocol, key.destination, key.source));
        let (sender, receiver) = (sender.flatten(), receiver.flatten());
        if sender.is_none() && receiver.is_none() || is_within && (sender.is_none() || receiver.is_none()) {
            flow.misses += 1;
            // If somebody looks already, there is no need to say it twice.
            let _ = self.wish.try_send(());
        }
        let mut text = String::new();
        if let Some(sender) = sender {
            let _ = write!(text, "sent by {sender}");
        }
        if let Some(receiver) = receiver {
            let _ = write!(text, "{}for {receiver}", if text.is_empty() { "" } else { ", " });
        }
        if text.is_empty() {
            return None;
        }
        let said = self.hasher.hash_one(&text) | 1;
        (std::mem::replace(&mut flow.said, said) != said).then_some(text)
    }
}

/// Looks for owners when somebody wishes it, until nobody can any more.
pub(super) fn look(interface: &Interface, board: &Board, wishes: &Receiver<()>) {
    let engine = BpfEngine::default();
    let mut generation = 0_u32;
    loop {
        let begun = Instant::now();
        let table = Table::read(&engine, interface);
        // Most of the time is the capture's.
        let pause = (begun.elapsed() * SHARE).max(PAUSE_MIN);
        let until = Instant::now() + pause;
        if let Ok(mut found) = board.found.lock() {
            found.is_resting = true;
            if let Some(table) = table {
                found.table = Arc::new(table);
                // The highest means that it was never looked for.
                generation = (generation + 1) % u32::MAX;
                board.generation.store(generation, Ordering::Release);
            }
        }
        board.changed.notify_all();
        let mut is_wished = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // Wishes are kept for later, but whoever has gone is noticed at once.
            match wishes.recv_timeout(left.min(NOTICE)) {
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(()) => is_wished = true,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        if let Ok(mut found) = board.found.lock() {
            found.is_resting = false;
        }
        if !is_wished && wishes.recv().is_err() {
            return;
        }
    }
}

impl Table {
    fn read(engine: &BpfEngine, interface: &Interface) -> Option<Self> {
        let (owners, _) = Owners::find(engine, Choice::Auto).ok()?;
        match interface.places.iter().next().flatten() {
            None => Self::list(engine, owners, NetnsScope::Own),
            Some(namespace) => interface
                .places
                .open(namespace, |scope| {
                    Self::list(engine, owners, NetnsScope::One(scope))
                })
                .ok()?,
        }
    }

    fn list(engine: &BpfEngine, owners: Owners, scope: NetnsScope<'_>) -> Option<Self> {
        let query = Query {
            protocols: ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]),
            families: Families::BOTH,
            states: StateSet::ALL,
            detail: Detail::INODE,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: Choice::Auto,
            scope,
        };
        let (mut connected, mut bound) = (HashMap::new(), Vec::new());
        let answer = list(engine, &query, &mut |socket, _| {
            if let Some(inode) = socket.inode
                && let Some(local) = end(&socket.local)
            {
                let protocol = if socket.protocol == Protocol::Udp {
                    UDP
                } else {
                    TCP
                };
                match end(&socket.peer).filter(|(_, port)| *port != 0) {
                    Some(peer) => {
                        connected.insert((protocol, local, peer), inode);
                    }
                    None => bound.push((protocol, local, inode)),
                }
            }
            ControlFlow::Continue(())
        });
        bound.sort_unstable();
        answer.ok().map(|_| Self {
            connected,
            bound,
            owners,
        })
    }

    /// Who holds the socket with this end and that peer, or listens there.
    fn owners(&self, protocol: u8, local: End, peer: End) -> Option<String> {
        self.first_held(protocol, local, peer, &|inodes| {
            names(inodes.flat_map(|inode| self.owners.of(inode)))
        })
    }

    /// What is known of the sockets that are most likely the ones.
    fn first_held<T>(
        &self,
        protocol: u8,
        local: End,
        peer: End,
        known: &dyn Fn(&mut dyn Iterator<Item = Inode>) -> Option<T>,
    ) -> Option<T> {
        let connected = self.connected.get(&(protocol, local, peer)).copied();
        connected
            .and_then(|inode| known(&mut std::iter::once(inode)))
            .or_else(|| {
                let ends = [local.0, u128::from(Ipv6Addr::UNSPECIFIED), V4_MAPPED];
                ends.into_iter().find_map(|ip| {
                    let sought = (protocol, (ip, local.1));
                    let key = |&(protocol, end, _): &(u8, End, Inode)| (protocol, end);
                    let begin = self.bound.partition_point(|one| key(one) < sought);
                    let those = self.bound[begin..].iter().take_while(|one| key(one) == sought);
                    known(&mut those.map(|(.., inode)| *inode))
                })
            })
    }
}

impl Key {
    /// Of a TCP or UDP packet that is none of the later fragments.
    #[inline]
    fn of(link: Link, packet: &Packet<'_>) -> Option<Self> {
        let bytes = packet.bytes;
        let bytes = match link {
            Link::Raw | Link::Cooked => bytes,
            Link::Ethernet => {
                let mut behind = 14;
                for _ in 0..TAGS_MAX {
                    match bytes.get(behind - 2..behind)? {
                        [0x81, 0x00] | [0x88, 0xa8] => behind += 4,
                        _ => break,
                    }
                }
                bytes.get(behind..)?
            }
        };
        let short = |at: usize| -> Option<u16> { Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)) };
        match bytes.first()? >> 4 {
            4 => {
                let protocol = *bytes.get(9)?;
                if !matches!(protocol, TCP | UDP) || short(6)? & 0x1fff != 0 {
                    return None;
                }
                let ip = |at: usize| -> Option<u128> {
                    let v4 = u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
                    Some(V4_MAPPED | u128::from(v4))
                };
                let behind = usize::from(bytes[0] & 15) * 4;
                Some(Self {
                    protocol,
                    source: (ip(12)?, short(behind)?),
                    destination: (ip(16)?, short(behind + 2)?),
                })
            }
            6 => {
                let protocol = *bytes.get(6)?;
                if !matches!(protocol, TCP | UDP) {
                    return None;
                }
                let ip = |at: usize| -> Option<u128> {
                    Some(u128::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
                };
                Some(Self {
                    protocol,
                    source: (ip(8)?, short(40)?),
                    destination: (ip(24)?, short(42)?),
                })
            }
            _ => None,
        }
    }
}

fn end(endpoint: &Endpoint) -> Option<End> {
    let ip = match endpoint.ip()? {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    Some((ip.to_bits(), endpoint.port()?.0))
}

/// `nginx(25014), nginx(25015)`; `None`: nobody.
fn names<'a>(owners: impl Iterator<Item = &'a Owner>) -> Option<String> {
    let mut text = String::new();
    let mut last = None;
    let mut count = 0;
    for owner in owners {
        let process = owner.process;
        // A process may hold a socket by several descriptors.
        if last.replace(process.pid) == Some(process.pid) {
            continue;
        }
        if count == NAMES_MAX {
            text.push_str(", ...");
            break;
        }
        let comma = if count == 0 { "" } else { ", " };
        let _ = write!(
            text,
            "{comma}{}({})",
            harmless(process.comm.as_bytes()),
            process.pid
        );
        count += 1;
    }
    (count > 0).then_some(text)
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// `::ffff:0.0.0.0`
const V4_MAPPED: u128 = 0xffff_0000_0000;
/// So many connections are remembered; of others it may be said again whose they are.
const FLOWS: usize = 1 << 17;
/// VLAN tags of a packet that are looked behind.
const TAGS_MAX: usize = 2;
/// So often a connection is looked for in vain.
const MISSES_MAX: u8 = 5;
/// So many processes of one socket are named.
const NAMES_MAX: usize = 3;
/// After a look so many times its duration nothing is done.
const SHARE: u32 = 19;
const PAUSE_MIN: Duration = Duration::from_millis(50);
const NOTICE: Duration = Duration::from_millis(20);
/// So long packets wait at most until somebody has looked whose they are.
const PATIENCE: Duration = Duration::from_millis(50);
/// Only where there are no more: a busy interface leaves no time to wait.
const PREPARED_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_before_listeners_and_these_by_address() {
        let ip = |text: &str| match text.parse().unwrap() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let (local, peer) = ((ip("10.0.0.1"), 80), (ip("10.0.0.2"), 5000));
        let mut table = Table::default();
        // Nobody holds the fifth.
        let check = |table: &Table, protocol, local, peer, expected: &[u32]| {
            let found = table.first_held(protocol, local, peer, &|inodes| {
                let held: Vec<_> = inodes.map(|inode| inode.0).filter(|inode| *inode != 5).collect();
                (!held.is_empty()).then_some(held)
            });
            assert_eq!(found.unwrap_or_default(), expected);
        };
        check(&table, TCP, local, peer, &[]);
        table.bound.push((TCP, (ip("::"), 80), Inode(1)));
        check(&table, TCP, local, peer, &[1]);
        table.bound.push((TCP, local, Inode(3)));
        table.bound.push((TCP, local, Inode(2)));
        table.bound.sort_unstable();
        check(&table, TCP, local, peer, &[2, 3]);
        table.connected.insert((TCP, local, peer), Inode(4));
        check(&table, TCP, local, peer, &[4]);
        table.connected.insert((TCP, local, peer), Inode(5));
        check(&table, TCP, local, peer, &[2, 3]);
        check(&table, UDP, local, peer, &[]);
        check(&table, TCP, peer, local, &[]);
    }
}
