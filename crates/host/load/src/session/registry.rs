//! The tests of a server, and the streams that they may have.

use super::limits::{
    AddressGroup, OPENING_IDLE, ROOM_TIMEOUT, RUNNING_IDLE, STREAMS_MAX, STREAMS_PER_ADDRESS_MAX,
    STREAMS_PER_TEST, TESTS_MAX, TESTS_PER_ADDRESS_MAX,
};
use super::secret::SessionKey;
use super::{Error, Preamble, Token};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use serde_json::json;
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
    is_running: bool,
    /// What has moved, in any unit, and since when it did not change.
    progress: u64,
    active_at: Instant,
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
    /// Admits a test; an idle one makes room for it. `None` if there is no room now.
    ///
    /// # Errors
    /// If the connection is gone.
    pub(super) fn insert(&self, new: &NewTest<'_>) -> Result<Option<Receiver<(u16, DataSocket)>>, Error> {
        let now = Instant::now();
        let group = AddressGroup::of(new.client);
        let mut state = self.state();
        let of_group = state.tests.values().filter(|test| test.group == group).count();
        let has_room = if of_group >= TESTS_PER_ADDRESS_MAX {
            state.evict_idle(now, |_, test| test.group == group)
        } else if state.tests.len() >= TESTS_MAX {
            let busiest = state.busiest(|test| (test.group, 1));
            state.evict_idle(now, |_, test| Some(test.group) == busiest)
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
            is_running: false,
            progress: 0,
            active_at: now,
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

    /// Reserves the streams of a test, and waits a moment for idle tests to make room.
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
                state.evict_idle_streams(now, token, Some(group));
            } else if staying + wanted > STREAMS_MAX {
                let busiest = state.busiest_in_streams();
                state.evict_idle_streams(now, token, busiest);
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
        test.is_running = true;
        test.active_at = Instant::now();
        Ok(())
    }

    /// Records what has moved, in any unit.
    pub(super) fn progress(&self, token: Token, moved: u64) {
        if let Some(test) = self.state().tests.get_mut(&token)
            && test.progress != moved
        {
            test.progress = moved;
            test.active_at = Instant::now();
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

    /// Returns the address with the largest sum.
    fn busiest(&self, weight: impl Fn(&AdmittedTest) -> (AddressGroup, usize)) -> Option<AddressGroup> {
        busiest(self.tests.values().map(weight))
    }

    fn busiest_in_streams(&self) -> Option<AddressGroup> {
        let staying = self.reservations.values().filter(|it| !it.is_leaving);
        busiest(staying.map(|reservation| (reservation.group, reservation.streams)))
    }

    fn evict_idle_streams(&mut self, now: Instant, but: Token, group: Option<AddressGroup>) {
        let holders: HashSet<Token> = self.reservations.keys().copied().collect();
        self.evict_idle(now, |token, test| {
            token != but && Some(test.group) == group && holders.contains(&token)
        });
    }

    /// Ends the test that has been idle longest of those that are; false if none is.
    fn evict_idle(&mut self, now: Instant, is_candidate: impl Fn(Token, &AdmittedTest) -> bool) -> bool {
        let idle = self.tests.iter().filter_map(|(&token, test)| {
            let idle = test.idle(now)?;
            is_candidate(token, test).then_some((idle, token))
        });
        let Some((_, token)) = idle.max_by_key(|&(idle, _)| idle) else {
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
    /// Returns how long nothing moved; `None` if that is too short to matter.
    fn idle(&self, now: Instant) -> Option<Duration> {
        let limit = if self.is_running {
            RUNNING_IDLE
        } else {
            OPENING_IDLE
        };
        Some(now.saturating_duration_since(self.active_at)).filter(|&idle| idle >= limit)
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

fn busiest(weights: impl Iterator<Item = (AddressGroup, usize)>) -> Option<AddressGroup> {
    let mut sums = HashMap::new();
    for (group, weight) in weights {
        *sums.entry(group).or_insert(0) += weight;
    }
    sums.into_iter()
        .max_by_key(|&(_, sum)| sum)
        .map(|(group, _)| group)
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
            let long_ago = Instant::now().checked_sub(RUNNING_IDLE * 2).unwrap();
            self.registry.state().tests.get_mut(&token).unwrap().active_at = long_ago;
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
