//! The tests of a server, and the streams that they may have.

use super::limits::{
    AddressGroup, OPENING_IDLE, OPENING_MAX, ROOM_TIMEOUT, STREAMS_MAX, STREAMS_PER_ADDRESS_MAX,
    STREAMS_PER_TEST, TESTS_MAX, TESTS_PER_ADDRESS_MAX,
};
use super::pace::Pace;
use super::secret::SessionKey;
use super::{Error, Preamble, Token};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The tests that were admitted, from their admission until their thread has ended.
#[derive(Debug, Default)]
pub(super) struct TestRegistry {
    state: Mutex<State>,
    /// Notified when streams are released.
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tests: HashMap<Token, AdmittedTest>,
    /// Streams beyond those that each test has. They outlive the entry of an evicted test until its threads have ended.
    reservations: HashMap<Token, Reservation>,
}

/// A test that has a place.
#[derive(Debug)]
struct AdmittedTest {
    group: AddressGroup,
    /// Address of its client.
    client: IpAddr,
    /// Local address of its control connection.
    local: SocketAddr,
    key: SessionKey,
    /// The control connection, to end an idle test.
    control: TcpStream,
    arrivals: Sender<(u16, DataSocket)>,
    /// Data connections that may come; 0 until its parameters are accepted.
    expected: usize,
    /// Numbers of those that came.
    numbers: HashSet<u16>,
    admitted_at: Instant,
    /// When it was admitted, or its last data connection came.
    active_at: Instant,
    /// What it moves; `None` until it begins.
    pace: Option<Pace>,
}

#[derive(Debug)]
struct Reservation {
    group: AddressGroup,
    streams: usize,
    /// Its test was evicted, and ends.
    is_leaving: bool,
}

/// A test to be admitted.
#[derive(Debug)]
pub(super) struct NewTest<'a> {
    pub(super) token: Token,
    /// Address of its client.
    pub(super) client: IpAddr,
    pub(super) control: &'a TcpStream,
    pub(super) key: &'a SessionKey,
}

impl TestRegistry {
    /// Admits a test; an idle or slow one makes room for it. `None` if there is no room now.
    ///
    /// # Errors
    /// If the connection is gone.
    pub(super) fn insert(&self, new: &NewTest<'_>) -> Result<Option<Receiver<(u16, DataSocket)>>, Error> {
        let now = Instant::now();
        let group = AddressGroup::of(new.client);
        let mut state = self.state();
        let of_group = state.tests.values().filter(|test| test.group == group).count();
        let has_room = if of_group >= TESTS_PER_ADDRESS_MAX {
            state.evict_slowest(now, |_, test| (test.group == group).then_some(1))
        } else if state.tests.len() >= TESTS_MAX {
            state.evict_slowest(now, |_, _| Some(1))
        } else {
            true
        };
        if !has_room {
            return Ok(None);
        }
        let gone = |error: std::io::Error| Error::of_connection(&error);
        let (arrivals, receiver) = channel();
        let test = AdmittedTest {
            group,
            client: new.client,
            local: new.control.local_addr().map_err(gone)?,
            key: new.key.clone(),
            control: new.control.try_clone().map_err(gone)?,
            arrivals,
            expected: 0,
            numbers: HashSet::new(),
            admitted_at: now,
            active_at: now,
            pace: None,
        };
        state.tests.insert(new.token, test);
        Ok(Some(receiver))
    }

    /// Forgets a test that has ended.
    pub(super) fn remove(&self, token: Token) {
        let mut state = self.state();
        state.tests.remove(&token);
        state.reservations.remove(&token);
        drop(state);
        self.released.notify_all();
    }

    /// Reserves the streams of a test, and waits a moment for idle or slow tests to make room.
    ///
    /// # Errors
    /// If there is no room, or the test itself was evicted.
    pub(super) fn reserve(&self, token: Token, streams: usize) -> Result<(), Error> {
        let wanted = streams.saturating_sub(STREAMS_PER_TEST);
        let until = Instant::now() + ROOM_TIMEOUT;
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let group = state.tests.get(&token).ok_or(Error::Evicted)?.group;
            if wanted == 0 {
                return Ok(());
            }
            let is_own = |reservation: &&Reservation| reservation.group == group;
            let own: usize = state.streams(is_own);
            let all = state.streams(|_| true);
            if own + wanted <= STREAMS_PER_ADDRESS_MAX && all + wanted <= STREAMS_MAX {
                let reservation = Reservation {
                    group,
                    streams: wanted,
                    is_leaving: false,
                };
                state.reservations.insert(token, reservation);
                return Ok(());
            }
            if now >= until {
                return Err(Error::Full("streams", STREAMS_PER_ADDRESS_MAX));
            }
            // What leaves already is waited for.
            let staying_own = state.streams(|it| is_own(it) && !it.is_leaving);
            let staying = state.streams(|it| !it.is_leaving);
            if staying_own + wanted > STREAMS_PER_ADDRESS_MAX {
                state.evict_slowest_streams(now, token, Some(group));
            } else if staying + wanted > STREAMS_MAX {
                state.evict_slowest_streams(now, token, None);
            }
            let left = until.saturating_duration_since(now).min(TICK);
            let waited = self.released.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets `count` data connections come.
    pub(super) fn expect(&self, token: Token, count: usize) {
        if let Some(test) = self.state().tests.get_mut(&token) {
            test.expected = count;
            test.active_at = Instant::now();
        }
    }

    /// Records that the test has begun.
    ///
    /// # Errors
    /// If it was evicted meanwhile.
    pub(super) fn begin(&self, token: Token) -> Result<(), Error> {
        let mut state = self.state();
        let test = state.tests.get_mut(&token).ok_or(Error::Evicted)?;
        test.pace = Some(Pace::new(Instant::now()));
        Ok(())
    }

    /// Records how many bytes have moved.
    pub(super) fn progress(&self, token: Token, moved: u64) {
        if let Some(test) = self.state().tests.get_mut(&token)
            && let Some(pace) = &mut test.pace
        {
            pace.record(moved, Instant::now());
        }
    }

    /// Passes a data connection to its test.
    ///
    /// # Errors
    /// If there is no such test, or it expects no such connection.
    pub(super) fn deliver(&self, preamble: Preamble, stream: TcpStream) -> Result<(), Error> {
        let mut state = self.state();
        let test = state.expecting(preamble)?;
        test.send(preamble.number, DataSocket::Tcp(stream))
    }

    /// Returns the local address and the key of the test that this first datagram belongs to, if it comes from the
    /// address of the test's client and the test expects it.
    pub(super) fn expects_datagrams(
        &self,
        preamble: Preamble,
        from: IpAddr,
    ) -> Result<(SocketAddr, SessionKey), Error> {
        let mut state = self.state();
        let known = state.tests.get(&preamble.token);
        if known.is_some_and(|test| test.client != from.to_canonical()) {
            return Err(Error::Malformed(
                "a datagram for the test of another address".to_owned(),
            ));
        }
        let test = state.expecting(preamble)?;
        Ok((test.local, test.key.clone()))
    }

    /// Passes a UDP socket, whose client was confirmed, to its test.
    ///
    /// # Errors
    /// If the test is gone.
    pub(super) fn deliver_datagrams(
        &self,
        token: Token,
        number: u16,
        socket: UdpSocket,
    ) -> Result<(), Error> {
        let mut state = self.state();
        let test = state.tests.get_mut(&token).ok_or_else(unknown_test)?;
        test.send(number, DataSocket::Udp(socket))
    }

    /// Lets a data connection with this number come again.
    pub(super) fn forget_number(&self, token: Token, number: u16) {
        if let Some(test) = self.state().tests.get_mut(&token) {
            test.numbers.remove(&number);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the test that expects this data connection, and counts the connection.
    fn expecting(&mut self, preamble: Preamble) -> Result<&mut AdmittedTest, Error> {
        let Preamble {
            role,
            number,
            token,
            tag,
            ..
        } = preamble;
        let test = self.tests.get_mut(&token).ok_or_else(unknown_test)?;
        if !test.key.is_data_tag(role, number, token, &tag) {
            return Err(Error::Malformed("data without proof for a test".to_owned()));
        }
        if test.numbers.len() >= test.expected || !test.numbers.insert(number) {
            return Err(Error::Malformed("a data connection too many".to_owned()));
        }
        Ok(test)
    }

    fn streams<'a>(&'a self, is_counted: impl Fn(&&'a Reservation) -> bool) -> usize {
        let counted = self.reservations.values().filter(is_counted);
        counted.map(|reservation| reservation.streams).sum()
    }

    /// Ends a test that needs further streams, of this address or of any.
    fn evict_slowest_streams(&mut self, now: Instant, but: Token, group: Option<AddressGroup>) {
        let holders: HashMap<Token, usize> = self
            .reservations
            .iter()
            .map(|(&token, it)| (token, it.streams))
            .collect();
        self.evict_slowest(now, |token, test| {
            let is_asked = token != but && group.is_none_or(|group| test.group == group);
            let streams = *holders.get(&token).filter(|_| is_asked)?;
            // Each test has the first ones anyway.
            Some(1 + (streams / STREAMS_PER_TEST) as u64)
        });
    }

    /// Ends the slowest test of those that are idle or slow; false if none is. `places` returns how many shares of the
    /// limit a test has; `None` if it is not to be ended.
    fn evict_slowest(&mut self, now: Instant, places: impl Fn(Token, &AdmittedTest) -> Option<u64>) -> bool {
        let mut of_group: HashMap<AddressGroup, usize> = HashMap::new();
        for test in self.tests.values() {
            *of_group.entry(test.group).or_default() += 1;
        }
        let slow = self.tests.iter().filter_map(|(&token, test)| {
            let rate = test.slow_rate(now, places(token, test)?)?;
            // Of those that are about as slow, one of the address that has the most, and of these the oldest.
            let magnitude = u64::BITS - rate.leading_zeros();
            let rank = (magnitude, Reverse(of_group[&test.group]), test.admitted_at);
            Some((rank, token))
        });
        let Some((_, token)) = slow.min_by_key(|&(rank, _)| rank) else {
            return false;
        };
        if let Some(test) = self.tests.remove(&token) {
            test.end();
        }
        if let Some(reservation) = self.reservations.get_mut(&token) {
            reservation.is_leaving = true;
        }
        true
    }
}

impl AdmittedTest {
    /// Returns the rate of a test that is too slow for the `places` that it has, in bytes per second; `None` if it is fast
    /// enough, or too young to be judged.
    fn slow_rate(&self, now: Instant, places: u64) -> Option<u64> {
        if let Some(pace) = &self.pace {
            return pace.is_slow(now, places).then(|| pace.rate(now));
        }
        let since = |at| now.saturating_duration_since(at);
        let is_idle = since(self.active_at) >= OPENING_IDLE || since(self.admitted_at) >= OPENING_MAX;
        // The longer it opens, the slower it counts; each stream that has come counts for it.
        let opened = OPENING_BYTES * (1 + self.numbers.len()) as f64;
        is_idle.then(|| (opened / since(self.admitted_at).as_secs_f64()) as u64)
    }

    fn send(&mut self, number: u16, data: DataSocket) -> Result<(), Error> {
        self.active_at = Instant::now();
        self.arrivals.send((number, data)).map_err(|_| unknown_test())
    }

    /// Sends the reason to the client, and wakes up the thread of the test, which ends then.
    fn end(self) {
        let text = json!({"error": Error::Evicted.to_string(), "version": super::VERSION}).to_string();
        let mut frame = (text.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(text.as_bytes());
        let _ = send(&self.control, &frame, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let _ = shutdown(&self.control, Shutdown::Both);
    }
}

fn unknown_test() -> Error {
    Error::Malformed("data for an unknown test".to_owned())
}

/// A socket that carries a test's data.
#[derive(Debug)]
pub(crate) enum DataSocket {
    /// A connection; its preamble has been read.
    Tcp(TcpStream),
    /// A socket that is connected to the client's.
    Udp(UdpSocket),
}

const TICK: Duration = Duration::from_millis(50);
/// Bytes that a test counts for while it opens, and for each of its streams.
const OPENING_BYTES: f64 = 4096.0;

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;
    use std::net::TcpListener;

    /// A registry, and connections for its tests.
    struct Fixture {
        registry: TestRegistry,
        listener: TcpListener,
        key: SessionKey,
        /// The ends of the clients.
        clients: Vec<TcpStream>,
        arrivals: Vec<Receiver<(u16, DataSocket)>>,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                registry: TestRegistry::default(),
                listener: TcpListener::bind("127.0.0.1:0").unwrap(),
                key: SessionKey::new(None, &[1; 16], &[2; 16]),
                clients: Vec::new(),
                arrivals: Vec::new(),
            }
        }

        fn connection(&mut self) -> TcpStream {
            let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            self.clients.push(client);
            self.listener.accept().unwrap().0
        }

        /// Admits a test of this client; `None` if there is no room.
        fn admit(&mut self, last: u8) -> Option<Token> {
            let (control, token) = (self.connection(), Token::random().unwrap());
            let new = NewTest {
                token,
                client: IpAddr::from([10, 0, 0, last]),
                control: &control,
                key: &self.key,
            };
            let arrivals = self.registry.insert(&new).unwrap()?;
            self.arrivals.push(arrivals);
            Some(token)
        }

        /// Lets a test look idle.
        fn age(&self, token: Token) {
            let long_ago = Instant::now().checked_sub(OPENING_MAX * 2).unwrap();
            let mut state = self.registry.state();
            let test = state.tests.get_mut(&token).unwrap();
            test.active_at = long_ago;
            test.pace = test.pace.map(|_| Pace::new(long_ago));
        }
    }

    #[test]
    fn idle_test_of_the_same_address_makes_room() {
        let mut fixture = Fixture::new();
        let tokens: Vec<Token> = (0..TESTS_PER_ADDRESS_MAX)
            .map(|_| fixture.admit(1).unwrap())
            .collect();
        assert_eq!(fixture.admit(1), None);
        assert!(fixture.admit(2).is_some());
        fixture.age(tokens[5]);
        assert!(fixture.admit(1).is_some());
        assert!(matches!(fixture.registry.begin(tokens[5]), Err(Error::Evicted)));
        assert!(matches!(
            fixture.registry.reserve(tokens[5], 1),
            Err(Error::Evicted)
        ));
        assert!(fixture.registry.begin(tokens[4]).is_ok());
        assert_eq!(fixture.admit(1), None);
    }

    #[test]
    fn slowest_test_makes_room_and_a_fast_one_stays() {
        let mut fixture = Fixture::new();
        let long_ago = Instant::now().checked_sub(OPENING_MAX).unwrap();
        let begun = |fixture: &mut Fixture, last: u8, moved: u64| {
            let token = fixture.admit(last)?;
            fixture.registry.begin(token).unwrap();
            fixture.registry.state().tests.get_mut(&token).unwrap().pace = Some(Pace::new(long_ago));
            fixture.registry.progress(token, moved);
            Some(token)
        };
        // One address has three fast tests; 61 others trickle, from an address each, which is less per address.
        let fast: Vec<Token> = (0..3).map(|_| begun(&mut fixture, 1, 1 << 30).unwrap()).collect();
        let slow: Vec<Token> = (0..61)
            .map(|at| begun(&mut fixture, 10 + at, 100_000).unwrap())
            .collect();
        fixture.registry.progress(slow[7], 200_000);
        let trickling = slow[30];
        let trickle = Pace::new(long_ago);
        fixture.registry.state().tests.get_mut(&trickling).unwrap().pace = Some(trickle);
        assert!(
            begun(&mut fixture, 1, 1 << 30).is_some(),
            "an address in use gets one more"
        );
        let is_there = |fixture: &Fixture, token| fixture.registry.state().tests.contains_key(&token);
        assert!(!is_there(&fixture, trickling), "the slowest leaves first");
        for last in 100..160 {
            assert!(begun(&mut fixture, last, 1 << 30).is_some());
        }
        assert!(fast.iter().all(|&token| is_there(&fixture, token)));
        assert!(!slow.iter().any(|&token| is_there(&fixture, token)));
    }

    #[test]
    fn opening_by_single_streams_ends() {
        let mut fixture = Fixture::new();
        let tokens: Vec<Token> = (0..TESTS_PER_ADDRESS_MAX)
            .map(|_| fixture.admit(1).unwrap())
            .collect();
        let long_ago = Instant::now().checked_sub(OPENING_MAX).unwrap();
        fixture
            .registry
            .state()
            .tests
            .get_mut(&tokens[9])
            .unwrap()
            .admitted_at = long_ago;
        assert!(fixture.admit(1).is_some(), "it has been opening for too long");
        assert!(matches!(fixture.registry.begin(tokens[9]), Err(Error::Evicted)));
    }

    #[test]
    fn small_tests_have_streams_when_the_common_ones_are_taken() {
        let mut fixture = Fixture::new();
        let [large, small, next] = [0; 3].map(|_| fixture.admit(1).unwrap());
        fixture
            .registry
            .reserve(large, STREAMS_PER_ADDRESS_MAX + STREAMS_PER_TEST)
            .unwrap();
        fixture.registry.begin(large).unwrap();
        fixture.registry.reserve(small, STREAMS_PER_TEST).unwrap();
        assert!(matches!(
            fixture.registry.reserve(next, STREAMS_PER_TEST + 1),
            Err(Error::Full("streams", _))
        ));
        // Of another address, as many as are left in all.
        let other = fixture.admit(2).unwrap();
        let left = STREAMS_MAX - STREAMS_PER_ADDRESS_MAX + STREAMS_PER_TEST;
        fixture.registry.reserve(other, left).unwrap();
        // An idle one leaves, and its streams are free when its thread has ended.
        fixture.age(large);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while fixture.registry.begin(large).is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                fixture.registry.remove(large);
            });
            fixture.registry.reserve(next, STREAMS_PER_TEST + 1).unwrap();
        });
    }

    #[test]
    fn data_connections_need_proof_and_come_once() {
        let mut fixture = Fixture::new();
        let token = fixture.admit(1).unwrap();
        let preamble = |number| SessionKey::new(None, &[1; 16], &[2; 16]).preamble(Role::Data, token, number);
        let stream = fixture.connection();
        let deliver = |preamble| fixture.registry.deliver(preamble, stream.try_clone().unwrap());
        assert!(deliver(preamble(0)).is_err(), "none is expected");
        fixture.registry.expect(token, 2);
        assert!(deliver(preamble(7)).is_ok());
        assert!(deliver(preamble(7)).is_err(), "the same again");
        let forged = Preamble {
            tag: [0; 12],
            ..preamble(8)
        };
        assert!(deliver(forged).is_err());
        assert!(deliver(preamble(8)).is_ok());
        assert!(deliver(preamble(9)).is_err(), "one too many");
        assert_eq!(fixture.arrivals[0].try_iter().count(), 2);
    }

    #[test]
    fn datagrams_of_another_address_are_not_expected() {
        let mut fixture = Fixture::new();
        let token = fixture.admit(1).unwrap();
        fixture.registry.expect(token, 1);
        let hello = fixture.key.preamble(Role::Datagram, token, 0);
        let from = |last| IpAddr::from([10, 0, 0, last]);
        assert!(fixture.registry.expects_datagrams(hello, from(2)).is_err());
        assert!(fixture.registry.expects_datagrams(hello, from(1)).is_ok());
        assert!(fixture.registry.expects_datagrams(hello, from(1)).is_err());
        fixture.registry.forget_number(token, 0);
        let mapped: std::net::Ipv6Addr = "::ffff:10.0.0.1".parse().unwrap();
        assert!(
            fixture
                .registry
                .expects_datagrams(hello, IpAddr::V6(mapped))
                .is_ok()
        );
    }
}
