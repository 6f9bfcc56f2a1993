//! Accepts connections and datagrams on one thread, until they are tests or parts of one.
//!
//! ```text
//! accepted --8 bytes--> protocol known --preamble--> challenged --proof, request--> complete --room--> admitted
//!                          |                 \--data of a test--> delivered
//!                          \--iperf3's cookie--> complete, or a stream of its test
//! ```
//!
//! Nothing before the admission has a thread, and nothing is polled: epoll reports what is ready. All steps together
//! have one [deadline](super::limits::HANDSHAKE_TIMEOUT), and at the [limits](super::limits) the oldest connection
//! leaves. After its admission, a test has a thread of its own.

use super::channel::Channel;
use super::connection::{Complete, Connection, Next, Stage};
use super::guesses::Guesses;
use super::limits::{
    AddressGroup, FOREIGN_TESTS_MAX, HANDSHAKE_TIMEOUT, ROOM_TIMEOUT, TESTS_PER_ADDRESS_MAX,
};
use super::nonce::random;
use super::pending_udp::{Datagram, PendingUdp, connect_to};
use super::refusals::{Reason, Refusals};
use super::registry::NewTest;
use super::secret::SessionKey;
use super::server::{Handler, Server};
use super::test::Test;
use super::waiting::Waiting;
use super::{Error, Kind, PREAMBLE_LEN, Preamble, Role, Stop, Token};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

impl Server {
    /// Serves until the handler has enough, or `stop` is set. Returns when all tests have ended.
    ///
    /// # Errors
    /// If waiting for connections fails.
    pub(crate) fn run(&self, handler: &dyn Handler, stop: &Stop) -> Result<(), Error> {
        raise_descriptor_limit();
        std::thread::scope(|scope| {
            let served = Acceptor::new(self, handler, stop).and_then(|mut acceptor| acceptor.run(scope));
            stop.set();
            served
        })
    }
}

/// Raises the limit of open files as far as is allowed: each stream and each waiting connection is one.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Without it there is room for less, and what waits longest makes room.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// What has been accepted and is not admitted yet.
pub(super) struct Acceptor<'a> {
    server: &'a Server,
    handler: &'a dyn Handler,
    stop: &'a Stop,
    epoll: OwnedFd,
    waiting: Waiting<Connection>,
    /// UDP sockets whose clients have to confirm their address.
    pending_udp: BTreeMap<u64, PendingUdp>,
    /// Number of the newest connection or UDP socket.
    number: u64,
    /// One reference is held by each thread of another tool's test.
    foreign_tests: Arc<()>,
    /// Whether a connection waits for room.
    has_complete: bool,
    /// Whether a proof waits to be compared.
    has_parked: bool,
    /// When proofs that wait were looked at last.
    compared_at: Instant,
    guesses: Guesses,
    /// Whether the oldest of the proofs that wait is compared next, else the newest.
    is_turn_of_oldest: bool,
    /// Whether accepting waits until descriptors are free.
    is_paused: bool,
    refusals: Refusals,
}

impl<'a> Acceptor<'a> {
    pub(super) fn new(server: &'a Server, handler: &'a dyn Handler, stop: &'a Stop) -> Result<Self, Error> {
        let failed = |errno| Error::System("epoll", errno);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        if let Ok(udp) = &server.udp {
            epoll::add(
                &epoll,
                udp,
                epoll::EventData::new_u64(DATAGRAMS),
                epoll::EventFlags::IN,
            )
            .map_err(failed)?;
        }
        let acceptor = Self {
            server,
            handler,
            stop,
            epoll,
            waiting: Waiting::new(),
            pending_udp: BTreeMap::new(),
            number: DATAGRAMS,
            foreign_tests: Arc::new(()),
            has_complete: false,
            has_parked: false,
            compared_at: Instant::now(),
            guesses: Guesses::default(),
            is_turn_of_oldest: false,
            is_paused: false,
            refusals: Refusals::default(),
        };
        acceptor.watch(&server.listener, LISTENER)?;
        Ok(acceptor)
    }

    pub(super) fn run<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) -> Result<(), Error>
    where
        'a: 'scope,
    {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.stop.is_set() && !self.handler.is_enough() {
            events.clear();
            let tick = if self.has_complete || self.has_parked {
                ROOM_TICK
            } else {
                TICK
            };
            let tick = Timespec::try_from(tick).map_err(|_| Error::System("epoll", Errno::INVAL))?;
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&tick)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::System("epoll", errno)),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    DATAGRAMS => self.receive_datagrams(),
                    number if self.pending_udp.contains_key(&number) => self.read_pending_udp(number),
                    number => self.advance(scope, number),
                }
            }
            self.keep_deadlines();
            self.compare_parked(scope);
            self.admit_complete(scope);
        }
        if let Some(line) = self.refusals.summary(Instant::now(), true) {
            self.handler.say(&line);
        }
        Ok(())
    }

    fn watch(&self, source: impl AsFd, number: u64) -> Result<(), Error> {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.epoll, source, data, epoll::EventFlags::IN)
            .map_err(|errno| Error::System("epoll", errno))
    }

    fn refuse(&mut self, reason: Reason, from: SocketAddr, why: &dyn std::fmt::Display) {
        if self.refusals.count(reason, Instant::now()) {
            self.handler.say(&format!("{}: {why}", canonical(from)));
        }
    }

    /// Accepts what waits, up to a number: datagrams and connections shall have their turn too.
    fn accept(&mut self) {
        for _ in 0..BATCH {
            let accepted = accept_with(
                &self.server.listener,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            );
            let stream = match accepted {
                Ok(socket) => TcpStream::from(socket),
                Err(Errno::AGAIN) => return,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                    self.make_room(errno);
                    return;
                }
                // It is gone already.
                Err(_) => continue,
            };
            let Ok(from) = stream.peer_addr() else { continue };
            self.number += 1;
            let number = self.number;
            if self.watch(&stream, number).is_err() {
                continue;
            }
            let connection = Connection {
                number,
                stream,
                from,
                bytes: Vec::new(),
                stage: Stage::Preamble,
                is_parked: false,
            };
            let group = AddressGroup::of(from.ip());
            if let Some(evicted) = self.waiting.insert(number, group, Instant::now(), connection) {
                self.refuse(Reason::Evicted, evicted.from, &EVICTED);
            }
        }
    }

    /// Descriptors have run out: what has waited longest makes room.
    fn make_room(&mut self, errno: Errno) {
        if let Some(evicted) = self.waiting.evict() {
            self.refuse(Reason::Evicted, evicted.from, &EVICTED);
            return;
        }
        self.handler
            .say(&Error::System("accept a connection", errno).to_string());
        // Until the next tick, since the listener stays readable.
        self.is_paused = epoll::delete(&self.epoll, &self.server.listener).is_ok();
    }

    /// Reads what a connection has sent, and does what follows from it.
    fn advance<'scope>(&mut self, scope: &'scope Scope<'scope, '_>, number: u64)
    where
        'a: 'scope,
    {
        let (server, handler) = (self.server, self.handler);
        let Some(connection) = self.waiting.get_mut(number) else {
            return;
        };
        let group = AddressGroup::of(connection.from.ip());
        let may_prove = self.guesses.allows(group, Instant::now());
        match connection.advance(server, handler, may_prove) {
            Next::Park => {
                self.has_parked = true;
                let data = epoll::EventData::new_u64(number);
                let _ = epoll::modify(&self.epoll, &connection.stream, data, epoll::EventFlags::empty());
            }
            Next::Wait => {
                if !matches!(connection.stage, Stage::Preamble) {
                    self.waiting.has_spoken(number);
                }
            }
            Next::Complete(complete) => {
                connection.stage = Stage::Complete(complete, Instant::now());
                if !self.admit(scope, number) {
                    // The rest of what it sends is not read here.
                    self.has_complete = true;
                    let data = epoll::EventData::new_u64(number);
                    if let Some(connection) = self.waiting.get_mut(number) {
                        let _ =
                            epoll::modify(&self.epoll, &connection.stream, data, epoll::EventFlags::empty());
                    }
                }
            }
            Next::Close(why) => {
                let from = connection.from;
                self.waiting.remove(number);
                if let Some((reason, error)) = why {
                    if matches!(error, Error::WrongSecret) {
                        self.guesses.fail(group, Instant::now());
                    }
                    self.refuse(reason, from, &error);
                }
            }
            next => {
                if let Some(connection) = self.waiting.remove(number) {
                    self.hand_over(next, connection);
                }
            }
        }
    }

    /// Passes a connection to the test that it belongs to, or refuses it.
    fn hand_over(&mut self, next: Next, connection: Connection) {
        let (number, from) = (connection.number, connection.from);
        let first = connection.bytes.clone();
        let Ok(stream) = self.release(connection) else {
            return;
        };
        match next {
            Next::Iperf3Stream => self.handler.iperf3_stream(number, &first, stream),
            Next::RefuseIperf3 => {
                self.handler.refuse_iperf3(stream);
                self.refuse(Reason::Secret, from, &Error::NoSecretInIperf3);
            }
            _ => {
                let delivered = Preamble::parse(&first).map(|it| self.server.registry.deliver(it, stream));
                if let Some(Err(error)) = delivered {
                    self.refuse(Reason::Data, from, &error);
                }
            }
        }
    }

    /// Returns the stream of a connection that waits no more.
    fn release(&self, connection: Connection) -> Result<TcpStream, Error> {
        let stream = connection.stream;
        let _ = epoll::delete(&self.epoll, &stream);
        let gone = |error: std::io::Error| Error::of_connection(&error);
        stream.set_nonblocking(false).map_err(gone)?;
        Ok(stream)
    }

    /// Starts the test of a connection; false if a limit does not allow it now.
    fn admit<'scope>(&mut self, scope: &'scope Scope<'scope, '_>, number: u64) -> bool
    where
        'a: 'scope,
    {
        let Some(connection) = self.waiting.get_mut(number) else {
            return true;
        };
        let Stage::Complete(complete, _) = &connection.stage else {
            return true;
        };
        let from = connection.from;
        let started = match complete.clone() {
            Complete::Iperf3 => {
                if Arc::strong_count(&self.foreign_tests) > FOREIGN_TESTS_MAX {
                    return false;
                }
                let Some(connection) = self.waiting.remove(number) else {
                    return true;
                };
                self.start_iperf3(scope, connection)
            }
            Complete::Test(key, kind, parameters) => {
                let admitted = Token::random().and_then(|token| {
                    let new = NewTest {
                        token,
                        client: from.ip().to_canonical(),
                        control: &connection.stream,
                        key: &key,
                    };
                    Ok((token, self.server.registry.insert(&new)?))
                });
                match admitted {
                    Ok((_, None)) => return false,
                    Ok((token, Some(arrivals))) => {
                        let Some(connection) = self.waiting.remove(number) else {
                            return true;
                        };
                        let admitted = Admitted {
                            token,
                            key,
                            kind,
                            parameters,
                            arrivals,
                        };
                        let started = self.start(scope, connection, admitted);
                        if started.is_err() {
                            self.server.registry.remove(token);
                        }
                        started
                    }
                    Err(error) => {
                        self.waiting.remove(number);
                        Err(error)
                    }
                }
            }
        };
        if let Err(error) = started {
            self.handler.say(&format!("{}: {error}", canonical(from)));
        }
        true
    }

    fn start<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        connection: Connection,
        admitted: Admitted,
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        let client = canonical(connection.from);
        let stream = self.release(connection)?;
        let local = stream
            .local_addr()
            .map_err(|error| Error::of_connection(&error))?;
        let channel = Channel::new(stream)?.limited();
        let (server, handler, stop) = (self.server, self.handler, self.stop.clone());
        let work = move || {
            handler.test(Test {
                kind: admitted.kind,
                parameters: admitted.parameters,
                channel,
                local,
                client,
                stop,
                limits: server.limits,
                token: admitted.token,
                key: admitted.key,
                arrivals: admitted.arrivals,
                registry: &server.registry,
            });
        };
        let spawned = Builder::new().name("test".to_owned()).spawn_scoped(scope, work);
        spawned.map(drop).map_err(|error| thread_error(&error))
    }

    fn start_iperf3<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        connection: Connection,
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        let first = connection.bytes.clone();
        let stream = self.release(connection)?;
        let (handler, stop, running) = (self.handler, self.stop, Arc::clone(&self.foreign_tests));
        let work = move || {
            let _running = running;
            handler.iperf3_test(&first, stream, stop);
        };
        let spawned = Builder::new().name("iperf3".to_owned()).spawn_scoped(scope, work);
        spawned.map(drop).map_err(|error| thread_error(&error))
    }

    /// Compares proofs that wait, as many as their addresses may have compared now: the oldest and the newest first in turns. An
    /// honest client is older than the guesses of a program that waits for each answer, and newer than those of one that does
    /// not.
    fn compare_parked<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        let now = Instant::now();
        if !self.has_parked || now.saturating_duration_since(self.compared_at) < ROOM_TICK {
            return;
        }
        (self.has_parked, self.compared_at) = (false, now);
        let mut parked = self.waiting.newest_first(|connection| connection.is_parked);
        let is_turn_of_oldest = self.is_turn_of_oldest;
        if is_turn_of_oldest {
            parked.reverse();
        }
        for number in parked {
            let Some(connection) = self.waiting.get_mut(number) else {
                continue;
            };
            if self.guesses.allows(AddressGroup::of(connection.from.ip()), now) {
                connection.is_parked = false;
                self.is_turn_of_oldest = !is_turn_of_oldest;
                self.advance(scope, number);
            } else {
                self.has_parked = true;
            }
        }
    }

    /// Tries again to admit what waits for room: the newest first, since an attack is older than it.
    fn admit_complete<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        if !self.has_complete {
            return;
        }
        let is_complete = |connection: &Connection| matches!(connection.stage, Stage::Complete(..));
        let now = Instant::now();
        let mut is_full = [false; 2];
        self.has_complete = false;
        for number in self.waiting.newest_first(is_complete) {
            let Some(connection) = self.waiting.get_mut(number) else {
                continue;
            };
            let Stage::Complete(complete, since) = &connection.stage else {
                continue;
            };
            let is_foreign = matches!(complete, Complete::Iperf3);
            let is_late = now.saturating_duration_since(*since) >= ROOM_TIMEOUT;
            if !is_full[usize::from(is_foreign)] && self.admit(scope, number) {
                continue;
            }
            is_full[usize::from(is_foreign)] = is_foreign;
            if !is_late {
                self.has_complete = true;
                continue;
            }
            if let Some(connection) = self.waiting.remove(number) {
                let error = Error::Full("tests", TESTS_PER_ADDRESS_MAX);
                if !is_foreign {
                    connection.send_refusal(&error);
                }
                self.refuse(Reason::Full, connection.from, &error);
            }
        }
    }

    fn keep_deadlines(&mut self) {
        let now = Instant::now();
        while let Some(late) = self.waiting.expired(now) {
            let error = late.late();
            self.refuse(Reason::TimedOut, late.from, &error);
        }
        while let Some(pending) = self.pending_udp.first_entry() {
            if now.saturating_duration_since(pending.get().since) < HANDSHAKE_TIMEOUT {
                break;
            }
            let pending = pending.remove();
            let registry = &self.server.registry;
            registry.forget_number(pending.hello.token, pending.hello.number);
        }
        if self.is_paused {
            self.is_paused = self.watch(&self.server.listener, LISTENER).is_err();
        }
        if let Some(line) = self.refusals.summary(now, false) {
            self.handler.say(&line);
        }
    }

    /// Handles the first datagrams of clients.
    fn receive_datagrams(&mut self) {
        let Ok(udp) = &self.server.udp else { return };
        let mut buffer = [0; DATAGRAM_MAX];
        for _ in 0..BATCH {
            let Ok((len, from)) = udp.recv_from(&mut buffer) else {
                return;
            };
            // Between its creation and its connection, a socket also receives what is for others.
            let mut received = VecDeque::from([(buffer[..len].to_vec(), from)]);
            while let Some((bytes, from)) = received.pop_front() {
                match self.receive_datagram(&bytes, from) {
                    Ok(others) => received.extend(others),
                    Err(error) => self.refuse(Reason::Data, from, &error),
                }
            }
        }
    }

    /// Creates the socket for a first datagram that is expected. Returns datagrams of other clients that it received.
    fn receive_datagram(&mut self, bytes: &[u8], from: SocketAddr) -> Result<Vec<Datagram>, Error> {
        if let Some(local) = self.handler.expects_iperf3_datagram(bytes, from) {
            let (socket, others) = connect_to(local, self.server.address.port(), canonical(from))?;
            self.handler.iperf3_datagrams(from, socket);
            return Ok(others);
        }
        let Some(hello) = Preamble::parse(bytes) else {
            // Silence is the answer to what is none of ours.
            return Ok(Vec::new());
        };
        if hello.role != Role::Datagram || bytes.len() != PREAMBLE_LEN || hello.check_version().is_err() {
            return Ok(Vec::new());
        }
        let (local, key) = self.server.registry.expects_datagrams(hello, from.ip())?;
        let (socket, others) = connect_to(local, self.server.address.port(), from)?;
        self.number += 1;
        self.watch(&socket, self.number)?;
        let pending = PendingUdp {
            socket,
            hello,
            key,
            nonce: random()?,
            since: Instant::now(),
        };
        pending.send_welcome();
        self.pending_udp.insert(self.number, pending);
        Ok(others)
    }

    /// Reads the confirmation of a UDP client.
    fn read_pending_udp(&mut self, number: u64) {
        let Some(pending) = self.pending_udp.get(&number) else {
            return;
        };
        if !pending.is_confirmed() {
            return;
        }
        let Some(pending) = self.pending_udp.remove(&number) else {
            return;
        };
        let _ = epoll::delete(&self.epoll, &pending.socket);
        let (token, number) = (pending.hello.token, pending.hello.number);
        if pending.socket.set_nonblocking(false).is_ok() {
            let _ = pending.socket.send(&pending.hello.ready().emit());
            // The test may be over.
            let registry = &self.server.registry;
            let _ = registry.deliver_datagrams(token, number, pending.socket);
        }
    }
}

/// A test that has a place in the registry.
struct Admitted {
    token: Token,
    key: SessionKey,
    kind: Kind,
    parameters: Value,
    arrivals: std::sync::mpsc::Receiver<(u16, super::DataSocket)>,
}

fn thread_error(error: &std::io::Error) -> Error {
    Error::System(
        "start a thread",
        Errno::from_io_error(error).unwrap_or(Errno::AGAIN),
    )
}

/// The sockets are IPv6; IPv4 clients are shown with their IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        address => address,
    }
}

/// Numbers of the sockets that are always there; those of others are higher.
const LISTENER: u64 = 0;
const DATAGRAMS: u64 = 1;
/// First datagrams are shorter, those of iperf3 as well.
const DATAGRAM_MAX: usize = 2048;
/// Connections or datagrams that are taken at once.
const BATCH: usize = 64;
const EVENTS_MAX: usize = 128;
/// Interval between two checks of the stop flag and the deadlines.
const TICK: Duration = Duration::from_millis(100);
/// Interval between two tries to admit what waits for room.
const ROOM_TICK: Duration = Duration::from_millis(20);
const EVICTED: &str = "closed before its request was complete: newer connections needed the place";
