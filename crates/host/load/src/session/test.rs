//! A test at the server's end.

use super::channel::Channel;
use super::registry::{DataSocket, TestRegistry};
use super::{Error, Kind, Stop, Token};
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
    pub(super) token: Token,
    pub(super) arrivals: Receiver<(u16, DataSocket)>,
    pub(super) registry: &'a TestRegistry,
}

impl Test<'_> {
    /// Returns the token of its connections.
    pub(crate) const fn token(&self) -> Token {
        self.token
    }

    /// Accepts the test; the answer is the token and the fields of `more`, which has to be an object.
    pub(crate) fn accept(&mut self, more: Value) -> Result<(), Error> {
        let mut ok = match more {
            Value::Object(more) => more,
            _ => serde_json::Map::new(),
        };
        ok.insert("token".to_owned(), json!(self.token.to_string()));
        self.channel.send(&json!({"ok": ok}))
    }

    /// Refuses the test with a reason.
    pub(crate) fn refuse(&mut self, reason: &str) -> Result<(), Error> {
        self.channel
            .send(&json!({"error": reason, "version": super::VERSION}))
    }

    /// Waits for the next data socket, and returns it with its number.
    pub(crate) fn data(&self, timeout: Duration) -> Result<(u16, DataSocket), Error> {
        let until = Instant::now() + timeout;
        loop {
            self.stop.check()?;
            let left = until.saturating_duration_since(Instant::now());
            match self.arrivals.recv_timeout(left.min(TICK)) {
                Ok(arrived) => return Ok(arrived),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(_) => return Err(Error::Timeout("a connection for data", timeout)),
            }
        }
    }
}

impl Drop for Test<'_> {
    fn drop(&mut self) {
        self.registry.remove(self.token);
    }
}

const TICK: Duration = Duration::from_millis(50);
