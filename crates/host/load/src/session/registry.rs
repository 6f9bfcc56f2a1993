//! The running tests of a server, and the limits of connections.

use super::{Error, Preamble, Token};
use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};

/// The running tests, and the number of open connections.
#[derive(Debug, Default)]
pub(super) struct TestRegistry {
    tests: Mutex<HashMap<Token, RunningTest>>,
    connections: AtomicUsize,
}

/// A running test.
#[derive(Debug)]
struct RunningTest {
    /// Local address of its control connection.
    local: SocketAddr,
    arrivals: SyncSender<(u16, DataSocket)>,
    /// Numbers of its UDP sockets.
    udp_numbers: HashSet<u16>,
}

impl TestRegistry {
    pub(super) fn insert(
        &self,
        token: Token,
        local: SocketAddr,
        arrivals: SyncSender<(u16, DataSocket)>,
    ) -> bool {
        let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = tests.len() < TESTS_MAX;
        if has_room {
            let test = RunningTest {
                local,
                arrivals,
                udp_numbers: HashSet::new(),
            };
            tests.insert(token, test);
        }
        has_room
    }

    pub(super) fn remove(&self, token: Token) {
        let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        tests.remove(&token);
    }

    /// Returns the local address of the test if UDP socket `number` is new.
    pub(super) fn admit(&self, token: Token, number: u16) -> Option<SocketAddr> {
        let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        let test = tests.get_mut(&token)?;
        (test.udp_numbers.len() < ARRIVALS_MAX && test.udp_numbers.insert(number)).then_some(test.local)
    }

    pub(super) fn deliver(&self, preamble: Preamble, data: DataSocket) -> Result<(), Error> {
        let tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        let test = tests
            .get(&preamble.token)
            .ok_or_else(|| Error::Malformed("data for an unknown test".to_owned()))?;
        test.arrivals
            .try_send((preamble.number, data))
            .map_err(|_| Error::Malformed("too many data connections".to_owned()))
    }

    pub(super) fn connection_slot(&self) -> Option<ConnectionSlot<'_>> {
        let slot = ConnectionSlot(&self.connections);
        let taken = self.connections.fetch_add(1, Ordering::Relaxed);
        (taken < CONNECTIONS_MAX).then_some(slot)
    }
}

/// Counts one open connection while it exists.
pub(super) struct ConnectionSlot<'a>(&'a AtomicUsize);

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A socket that carries a test's data.
#[derive(Debug)]
pub(crate) enum DataSocket {
    /// A connection; its preamble has been read.
    Tcp(TcpStream),
    /// A socket that is connected to the client's.
    Udp(UdpSocket),
}

/// Most open connections.
pub(super) const CONNECTIONS_MAX: usize = 1024;
/// Most tests at once.
pub(super) const TESTS_MAX: usize = 64;
/// Most data connections of one test that wait to be accepted by it.
pub(super) const ARRIVALS_MAX: usize = 1024;
