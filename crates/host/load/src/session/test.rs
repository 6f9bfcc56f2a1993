//! A test, as the server's end of it sees it.

use super::channel::Channel;
use super::server::Desk;
use super::{Kind, Stop, Token, Trouble};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What a client asked for. It is to be [accepted](Self::accept) or [refused](Self::refuse).
#[derive(Debug)]
pub struct Test<'a> {
    /// Of what kind
    pub kind: Kind,
    /// What the client said about it; nothing in it has been looked at
    pub parameters: Value,
    /// For what is said about it
    pub channel: Channel,
    /// Our address
    pub local: SocketAddr,
    /// The client's
    pub client: SocketAddr,
    /// Set when the server ends
    pub stop: Stop,
    pub(super) token: Token,
    pub(super) arrivals: Receiver<(u16, Data)>,
    pub(super) desk: &'a Desk,
}

/// What carries a test's data.
#[derive(Debug)]
pub enum Data {
    /// A connection, whose preamble has been read
    Tcp(TcpStream),
    /// A socket that is connected to the client's
    Udp(UdpSocket),
}

impl Test<'_> {
    /// By what its connections are known.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Takes it; `more` is told along with the token, and has to be an object.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn accept(&mut self, more: Value) -> Result<(), Trouble> {
        let mut ok = match more {
            Value::Object(more) => more,
            _ => serde_json::Map::new(),
        };
        ok.insert("token".to_owned(), json!(self.token.to_string()));
        self.channel.send(&json!({"ok": ok}))
    }

    /// Does not take it, and says why.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn refuse(&mut self, why: &str) -> Result<(), Trouble> {
        self.channel
            .send(&json!({"error": why, "version": super::VERSION}))
    }

    /// The next connection or socket for the data, with its number, if it comes within `patience`.
    ///
    /// # Errors
    /// When it does not.
    pub fn data(&self, patience: Duration) -> Result<(u16, Data), Trouble> {
        let until = Instant::now() + patience;
        loop {
            self.stop.check()?;
            let left = until.saturating_duration_since(Instant::now());
            match self.arrivals.recv_timeout(left.min(TICK)) {
                Ok(arrived) => return Ok(arrived),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(_) => return Err(Trouble::Silent("a connection for data", patience)),
            }
        }
    }
}

impl Drop for Test<'_> {
    fn drop(&mut self) {
        self.desk.forget(self.token);
    }
}

const TICK: Duration = Duration::from_millis(50);
