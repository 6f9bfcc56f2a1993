//! Packet comments that name the owners of connections. A thread looks the owners up while the capture runs.

use super::interface::{Interface, LOOPBACK_INDEX, Link};
use super::privileges;
use super::socket_table::{PacketKey, SocketTable};
use foldhash::fast::RandomState;
use sockeye_source::BpfEngine;
use sockeye_sys::packet_ring::{Packet, PacketType, Packets};
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Writes the comments of packets: the owners of a connection, once per file and whenever they change.
#[derive(Debug)]
pub(super) struct OwnerComments {
    link: Link,
    lookup: Arc<Lookup>,
    requests: SyncSender<()>,
    table: Arc<SocketTable>,
    generation: u32,
    /// Comments so far, by the hash of a connection; a later one replaces another with the same index.
    flows: Box<[Flow]>,
    hasher: RandomState,
    /// Connection of the last packet, which needs no comment for now: most packets follow one of the same connection.
    settled: Option<PacketKey>,
}

/// State that the lookup thread shares with the capture.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Number of tables so far; 0 before the first.
    generation: AtomicU32,
    result: Mutex<LookupResult>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LookupResult {
    table: Arc<SocketTable>,
    /// Whether the thread pauses after a lookup.
    is_resting: bool,
}

/// Comments of a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Hash of the connection; 0 if there is none.
    hash: u64,
    /// Generation of the table at the last lookup.
    generation: u32,
    /// Number of lookups without success.
    misses: u8,
    /// Hash of the last comment; 0 if there is none.
    comment: u64,
}

impl OwnerComments {
    /// Creates the comments of a capture, and what [`run_lookups`] needs.
    pub(super) fn new(interface: &Interface) -> (Self, Arc<Lookup>, Receiver<()>) {
        let lookup = Arc::new(Lookup::default());
        let (requests, receiver) = mpsc::sync_channel(1);
        let comments = Self {
            link: interface.link,
            lookup: Arc::clone(&lookup),
            requests,
            table: Arc::default(),
            generation: 0,
            flows: vec![Flow::default(); FLOWS].into_boxed_slice(),
            hasher: RandomState::default(),
            settled: None,
        };
        (comments, lookup, receiver)
    }

    /// Takes over the result of the last lookup. If there is time and one of these packets is of a new connection, requests
    /// a lookup and waits for it: later the owner may have ended.
    pub(super) fn prepare(&mut self, packets: Packets<'_>, has_time: bool) {
        self.update();
        if has_time
            && packets.left() <= PREPARED_MAX
            && packets.into_iter().any(|packet| self.is_new(&packet))
        {
            let Ok(result) = self.lookup.result.lock() else {
                return;
            };
            if result.is_resting {
                return;
            }
            // If the channel is full, a lookup is requested already.
            let _ = self.requests.try_send(());
            let lookup = Arc::clone(&self.lookup);
            let waited = lookup
                .changed
                .wait_timeout_while(result, WAIT_MAX, |result| !result.is_resting);
            drop(waited);
            self.update();
        }
    }

    fn update(&mut self) {
        if self.lookup.generation.load(Ordering::Acquire) == self.generation {
            return;
        }
        if let Ok(result) = self.lookup.result.try_lock() {
            self.table = Arc::clone(&result.table);
            self.generation = self.lookup.generation.load(Ordering::Acquire);
            self.settled = None;
        }
    }

    fn is_new(&self, packet: &Packet<'_>) -> bool {
        PacketKey::of(self.link, packet).is_some_and(|key| {
            let hash = self.hasher.hash_one(key);
            self.flows[hash as usize % FLOWS].hash != hash
        })
    }

    /// Forgets all comments: a new file needs them again.
    pub(super) fn forget(&mut self) {
        self.flows.fill(Flow::default());
        self.settled = None;
    }

    /// Returns the comment of a packet; `None` if the owners of its connection are unknown or already in the file.
    #[inline]
    pub(super) fn comment(&mut self, packet: &Packet<'_>) -> Option<String> {
        let key = PacketKey::of(self.link, packet)?;
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
            // If the channel is full, a lookup is requested already.
            let _ = self.requests.try_send(());
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
        let comment = self.hasher.hash_one(&text) | 1;
        (std::mem::replace(&mut flow.comment, comment) != comment).then_some(text)
    }
}

/// Looks owners up on request, until the other end of the channel is dropped.
pub(super) fn run_lookups(interface: &Interface, lookup: &Lookup, requests: &Receiver<()>) {
    let engine = BpfEngine::default();
    let mut generation = 0_u32;
    let mut is_confined = false;
    loop {
        let begun = Instant::now();
        let table = SocketTable::read(&engine, interface);
        if !is_confined {
            // The sources are open now.
            privileges::keep_for_lookups(interface.is_elsewhere());
            is_confined = true;
        }
        // A lookup must not take much of the capture's time.
        let pause = (begun.elapsed() * PAUSE_FACTOR).max(PAUSE_MIN);
        let until = Instant::now() + pause;
        if let Ok(mut result) = lookup.result.lock() {
            result.is_resting = true;
            if let Some(table) = table {
                result.table = Arc::new(table);
                // `u32::MAX` marks a flow without a lookup.
                generation = (generation + 1) % u32::MAX;
                lookup.generation.store(generation, Ordering::Release);
            }
        }
        lookup.changed.notify_all();
        let mut is_requested = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // A request waits until the pause ends, the end of the capture does not.
            match requests.recv_timeout(left.min(POLL_INTERVAL)) {
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(()) => is_requested = true,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        if let Ok(mut result) = lookup.result.lock() {
            result.is_resting = false;
        }
        if !is_requested && requests.recv().is_err() {
            return;
        }
    }
}

/// Limit for connections with remembered comments; those of others may be repeated.
const FLOWS: usize = 1 << 17;
/// Limit for lookups of a connection without success.
const MISSES_MAX: u8 = 5;
/// The lookup thread pauses for this many times the duration of a lookup.
const PAUSE_FACTOR: u32 = 19;
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Time until the thread notices the end of the capture.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Limit for the time that packets wait for a lookup. It takes some milliseconds, more on a busy machine; the ring keeps what arrives
/// meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Packets of a block above which no lookup is awaited: a busy interface leaves no time for it.
const PREPARED_MAX: u32 = 1000;
