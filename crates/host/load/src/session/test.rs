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
pub struct Test<'a> {
    /// Kind of test.
    pub kind: Kind,
    /// The client's parameters, not checked yet.
    pub parameters: Value,
    /// The control connection.
    pub channel: Channel,
    /// Local address of the control connection.
    pub local: SocketAddr,
    /// The client's address.
    pub client: SocketAddr,
    /// Set when the server ends.
    pub stop: Stop,
    pub(super) token: Token,
    pub(super) arrivals: Receiver<(u16, DataSocket)>,
    pub(super) registry: &'a TestRegistry,
}

impl Test<'_> {
    /// Returns the token of its connections.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Accepts the test; the answer is the token and the fields of `more`, which has to be an object.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn accept(&mut self, more: Value) -> Result<(), Error> {
        let mut ok = match more {
            Value::Object(more) => more,
            _ => serde_json::Map::new(),
        };
        ok.insert("token".to_owned(), json!(self.token.to_string()));
        self.channel.send(&json!({"ok": ok}))
    }

    /// Refuses the test with a reason.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn refuse(&mut self, reason: &str) -> Result<(), Error> {
        self.channel
            .send(&json!({"error": reason, "version": super::VERSION}))
    }

    /// Waits for the next data socket, and returns it with its number.
    ///
    /// # Errors
    /// If none comes within `timeout`.
    pub fn data(&self, timeout: Duration) -> Result<(u16, DataSocket), Error> {
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
