//! A test at the server's end.

use super::channel::Channel;
use super::limits::ServerLimits;
use super::peer_text::{PEER_MESSAGE_MAX, peer_text};
use super::registry::{DataSocket, TestRegistry};
use super::secret::SessionKey;
use super::{Error, Kind, Preamble, Role, Stop, Token};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A test that a client requested, to be [accepted](Self::accept) or [refused](Self::refuse).
#[derive(Debug)]
pub(crate) struct Test<'a> {
    /// Kind of test.
    pub(crate) kind: Kind,
    /// The client's parameters, not checked yet.
    pub(crate) parameters: Value,
    /// The control connection.
    pub(crate) channel: Channel,
    /// Local address of the control connection.
    pub(crate) local: SocketAddr,
    /// The client's address.
    pub(crate) client: SocketAddr,
    /// Set when the server ends.
    pub(crate) stop: Stop,
    /// What its client can ask for.
    pub(crate) limits: ServerLimits,
    pub(super) token: Token,
    pub(super) key: SessionKey,
    pub(super) arrivals: Receiver<(u16, DataSocket)>,
    pub(super) registry: &'a TestRegistry,
}

impl Test<'_> {
    /// Returns the preamble of the test's data connection with this number.
    pub(crate) fn preamble(&self, number: u16) -> Preamble {
        self.key.preamble(Role::Data, self.token, number)
    }

    /// Reserves the streams of the test, each of which is a thread, and waits a moment for room.
    ///
    /// # Errors
    /// If too many are in use.
    pub(crate) fn reserve(&self, streams: usize) -> Result<(), Error> {
        self.registry.reserve(self.token, streams)
    }

    /// Accepts the test, of which `connections` data connections come. The answer is the token and the fields of `more`,
    /// which has to be an object.
    ///
    /// # Errors
    /// If the client is gone.
    pub(crate) fn accept(&mut self, more: Value, connections: usize) -> Result<(), Error> {
        self.registry.expect(self.token, connections);
        let mut ok = match more {
            Value::Object(more) => more,
            _ => serde_json::Map::new(),
        };
        ok.insert("token".to_owned(), json!(self.token.to_string()));
        ok.insert("proof".to_owned(), json!(self.key.server_proof(self.token)));
        self.channel.send(&json!({"ok": ok}))
    }

    /// Refuses the test, or ends it, with a reason.
    pub(crate) fn refuse(&mut self, reason: &str) -> Result<(), Error> {
        let reason = peer_text(reason, PEER_MESSAGE_MAX);
        self.channel
            .send(&json!({"error": reason, "version": super::VERSION}))
    }

    /// Waits for the next data socket, and returns it with its number.
    ///
    /// # Errors
    /// If none comes within `timeout`, or the test was evicted.
    pub(crate) fn data(&self, timeout: Duration) -> Result<(u16, DataSocket), Error> {
        let until = Instant::now() + timeout;
        loop {
            self.stop.check()?;
            let left = until.saturating_duration_since(Instant::now());
            match self.arrivals.recv_timeout(left.min(TICK)) {
                Ok(arrived) => return Ok(arrived),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Error::Timeout("a connection for data", timeout));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Evicted),
            }
        }
    }

    /// Records that the test runs: all its connections are there.
    ///
    /// # Errors
    /// If it was evicted meanwhile.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.registry.begin(self.token)
    }

    /// Records how many bytes have moved so far: a test that moves few makes room for others.
    pub(crate) fn progress(&self, moved: u64) {
        self.registry.progress(self.token, moved);
    }
}

impl Drop for Test<'_> {
    fn drop(&mut self) {
        self.registry.remove(self.token);
    }
}

const TICK: Duration = Duration::from_millis(50);
