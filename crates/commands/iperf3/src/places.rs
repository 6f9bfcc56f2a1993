//! Which tests of a server are opening, and which one runs.
//!
//! One test runs at a time. It takes the place when all its streams are there, so a client that opens none keeps no other client
//! out. A test that is idle or slow, or whose time is over, makes room: while it opens, for a newer client at a limit; while it runs, for the
//! next test.

use super::message::State;
use super::protocol::COOKIE_LEN;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use sockeye_load::session::Pace;
use sockeye_load::session::limits::{AddressGroup, OPENING_IDLE, ROOM_TIMEOUT};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub(super) type Cookie = [u8; COOKIE_LEN];

/// The tests of a server.
#[derive(Debug, Default)]
pub(super) struct Places {
    tests: Mutex<Tests>,
}

#[derive(Debug, Default)]
struct Tests {
    /// In the order of their arrival.
    entries: Vec<Entry>,
    /// Number of the newest.
    number: u64,
    /// Addresses whose running tests made room, and when: their next ones are ended after a shorter silence.
    evicted: Vec<(AddressGroup, Instant)>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    cookie: Cookie,
    /// The control connection, to end an idle test.
    control: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    opened_at: Instant,
    /// When it opened, or its last stream came.
    active_at: Instant,
    /// What it moves; `None` if it does not run.
    pace: Option<Pace>,
    /// Whether its time is over, and its client has not ended it.
    is_overdue: bool,
    streams: Option<SyncSender<(u64, TcpStream)>>,
    datagrams: Option<SyncSender<UdpSocket>>,
}

/// The place of one test, given up when dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    places: &'a Places,
    number: u64,
}

impl Places {
    /// Adds a test that opens. At a limit, the one that has been idle longest leaves.
    pub(super) fn open(
        &self,
        cookie: Cookie,
        control: TcpStream,
        (local, peer): (SocketAddr, SocketAddr),
    ) -> Place<'_> {
        let mut tests = self.tests();
        let group = AddressGroup::of(peer.ip());
        let is_opening = |entry: &Entry| entry.pace.is_none();
        let now = Instant::now();
        let is_own = |entry: &Entry| is_opening(entry) && AddressGroup::of(entry.peer.ip()) == group;
        let count = |is_counted: &dyn Fn(&Entry) -> bool| {
            tests.entries.iter().filter(|entry| is_counted(entry)).count()
        };
        if count(&is_own) >= OPENING_PER_ADDRESS_MAX {
            tests.evict_idlest(is_own);
        } else if count(&is_opening) >= OPENING_MAX {
            tests.evict_idlest(is_opening);
        }
        tests.number += 1;
        let number = tests.number;
        tests.entries.push(Entry {
            number,
            cookie,
            control,
            local,
            peer,
            opened_at: now,
            active_at: now,
            pace: None,
            is_overdue: false,
            streams: None,
            datagrams: None,
        });
        Place { places: self, number }
    }

    /// Returns whether a test with this cookie expects streams.
    pub(super) fn expects_stream(&self, cookie: &[u8]) -> bool {
        let tests = self.tests();
        tests
            .entries
            .iter()
            .any(|entry| entry.cookie == cookie && entry.streams.is_some())
    }

    /// Passes a stream to the test with this cookie. Surplus streams are closed.
    pub(super) fn add_stream(&self, number: u64, cookie: &[u8], stream: TcpStream) {
        let mut tests = self.tests();
        let entry = tests.entries.iter_mut().find(|entry| entry.cookie == cookie);
        if let Some(entry) = entry
            && let Some(streams) = &entry.streams
            && streams.try_send((number, stream)).is_ok()
        {
            entry.is_active();
        }
    }

    /// Returns the local address of the test that expects datagrams from this address.
    pub(super) fn expects_datagrams(&self, from: SocketAddr) -> Option<SocketAddr> {
        let tests = self.tests();
        let mut newest_first = tests.entries.iter().rev();
        newest_first
            .find(|entry| entry.is_expecting(from))
            .map(|entry| entry.local)
    }

    /// Passes the socket of a UDP stream to its test.
    pub(super) fn add_datagrams(&self, from: SocketAddr, socket: UdpSocket) {
        let mut tests = self.tests();
        let mut newest_first = tests.entries.iter_mut().rev();
        if let Some(entry) = newest_first.find(|entry| entry.is_expecting(from))
            && let Some(datagrams) = &entry.datagrams
            && datagrams.try_send(socket).is_ok()
        {
            entry.is_active();
        }
    }

    fn tests(&self) -> MutexGuard<'_, Tests> {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a moment until `is_in_the_way` holds for no test; idle ones are ended. Returns whether there is none.
    fn await_none(&self, is_in_the_way: impl Fn(&Entry) -> bool) -> bool {
        let until = Instant::now() + ROOM_TIMEOUT;
        loop {
            let mut tests = self.tests();
            let Some(other) = tests.entries.iter().find(|entry| is_in_the_way(entry)) else {
                return true;
            };
            if other.is_idle() || tests.is_repeated(other) {
                let number = other.number;
                tests.evict(number);
                continue;
            }
            drop(tests);
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Place<'_> {
    /// Waits a moment until no test runs, since a test ends a little later here than at its client. Returns whether there
    /// is none.
    pub(super) fn becomes_free(&self) -> bool {
        self.places.await_none(|entry| entry.pace.is_some())
    }

    /// Lets `count` TCP streams come.
    pub(super) fn expect_streams(&self, count: usize) -> Receiver<(u64, TcpStream)> {
        let (sender, receiver) = sync_channel(count);
        self.with(|entry| {
            entry.streams = Some(sender);
            entry.is_active();
        });
        receiver
    }

    /// Lets `count` UDP streams come; `None` if another test of the same address is opening. Nothing else identifies the
    /// datagrams of two tests apart.
    pub(super) fn expect_datagrams(&self, count: usize) -> Option<Receiver<UdpSocket>> {
        let ip = self.with(|entry| entry.peer.ip())?;
        let is_other =
            |entry: &Entry| entry.number != self.number && entry.datagrams.is_some() && entry.peer.ip() == ip;
        if !self.places.await_none(is_other) {
            return None;
        }
        let (sender, receiver) = sync_channel(count);
        self.with(|entry| {
            entry.datagrams = Some(sender);
            entry.is_active();
        })?;
        Some(receiver)
    }

    /// Takes the place of the running test; false if another one has it, or this one was evicted.
    pub(super) fn begin(&self) -> bool {
        self.becomes_free();
        let mut tests = self.places.tests();
        if tests.entries.iter().any(|entry| entry.pace.is_some()) {
            return false;
        }
        let Some(entry) = tests.entry(self.number) else {
            return false;
        };
        (entry.pace, entry.datagrams) = (Some(Pace::new(Instant::now())), None);
        true
    }

    /// Records how many bytes have moved.
    pub(super) fn progress(&self, moved: u64) {
        self.with(|entry| {
            if let Some(pace) = &mut entry.pace {
                pace.record(moved, Instant::now());
            }
        });
    }

    /// Notes that its time is over: it makes room for the next test.
    pub(super) fn set_overdue(&self) {
        self.with(|entry| entry.is_overdue = true);
    }

    /// Lets the next test begin: what is left is the exchange of results.
    pub(super) fn has_moved_all(&self) {
        self.with(|entry| {
            entry.pace = None;
            entry.streams = None;
            entry.active_at = Instant::now();
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.places.tests().entry(self.number).map(act)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut tests = self.places.tests();
        tests.entries.retain(|entry| entry.number != self.number);
    }
}

impl Tests {
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    fn evict_idlest(&mut self, is_candidate: impl Fn(&Entry) -> bool) {
        let candidates = self.entries.iter().filter(|entry| is_candidate(entry));
        if let Some(number) = candidates.min_by_key(|entry| entry.active_at).map(|it| it.number) {
            self.evict(number);
        }
    }

    /// Ends a test: its thread wakes up, since its control connection is closed.
    fn evict(&mut self, number: u64) {
        if let Some(at) = self.entries.iter().position(|entry| entry.number == number) {
            let entry = self.entries.remove(at);
            if entry.pace.is_some() {
                self.note_evicted(&entry);
            }
            let state = [State::ServerTerminate.byte()];
            // A client that is gone needs no reason.
            let _ = send(&entry.control, &state, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            let _ = shutdown(&entry.control, Shutdown::Both);
        }
    }

    fn note_evicted(&mut self, entry: &Entry) {
        let group = AddressGroup::of(entry.peer.ip());
        self.evicted
            .retain(|evicted| evicted.0 != group && is_remembered(evicted));
        if self.evicted.len() == EVICTED_MAX {
            self.evicted.remove(0);
        }
        self.evicted.push((group, Instant::now()));
    }

    /// Whether a test moves nothing now, and is of an address whose last one made room. What fits into the buffers of a stalled stream would
    /// keep it for seconds, and the next one again.
    fn is_repeated(&self, entry: &Entry) -> bool {
        let (now, group) = (Instant::now(), AddressGroup::of(entry.peer.ip()));
        let stalls = |pace: &Pace| pace.still_for(now) >= REPEATED_STALL;
        let is_known = |evicted: &(AddressGroup, Instant)| evicted.0 == group && is_remembered(evicted);
        entry.pace.as_ref().is_some_and(stalls) && self.evicted.iter().any(is_known)
    }
}

/// Whether it is not long ago that a test of this address made room.
fn is_remembered((_, at): &(AddressGroup, Instant)) -> bool {
    at.elapsed() < EVICTED_KEPT
}

impl Entry {
    fn is_active(&mut self) {
        self.active_at = Instant::now();
    }

    fn is_idle(&self) -> bool {
        let now = Instant::now();
        let since = |at| now.saturating_duration_since(at);
        match &self.pace {
            Some(pace) => {
                self.is_overdue
                    || pace.is_slow(now, 1)
                    || pace.silence(now).is_some_and(|time| time >= FIRST_BYTE_IDLE)
            }
            None => since(self.active_at) >= OPENING_IDLE || since(self.opened_at) >= OPENING_LONG,
        }
    }

    fn is_expecting(&self, from: SocketAddr) -> bool {
        self.datagrams.is_some() && self.peer.ip() == from.ip().to_canonical()
    }
}

/// How long it is remembered that a test of an address made room.
const EVICTED_KEPT: Duration = Duration::from_secs(60);
/// Most addresses of which it is remembered.
const EVICTED_MAX: usize = 64;
/// A further test of such an address makes room when it has moved nothing for this long.
const REPEATED_STALL: Duration = Duration::from_millis(250);
/// Most tests whose streams are not all there.
const OPENING_MAX: usize = 16;
/// Most of them per address.
const OPENING_PER_ADDRESS_MAX: usize = 8;
/// A running test that has not moved a byte is idle after this time.
const FIRST_BYTE_IDLE: Duration = Duration::from_millis(500);
/// A test whose streams come one by one keeps others waiting for no longer than this.
const OPENING_LONG: Duration = Duration::from_millis(600);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
