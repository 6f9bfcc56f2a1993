//! Frames of JSON over a connection, each wait with an end.

use super::Trouble;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A control connection after its preamble.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    /// The beginning of a frame whose rest has not come yet.
    begun: Vec<u8>,
}

impl Channel {
    /// Over this connection.
    ///
    /// # Errors
    /// When its options cannot be set.
    pub fn new(stream: TcpStream) -> Result<Self, Trouble> {
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(WRITE_PATIENCE))
        };
        set().map_err(|error| Trouble::of_connection(&error))?;
        Ok(Self {
            stream,
            begun: Vec::new(),
        })
    }

    /// The connection itself.
    #[must_use]
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Our address of it, and theirs.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn addresses(&self) -> Result<(SocketAddr, SocketAddr), Trouble> {
        let both = || Ok((self.stream.local_addr()?, self.stream.peer_addr()?));
        both().map_err(|error: io::Error| Trouble::of_connection(&error))
    }

    /// Says this.
    ///
    /// # Errors
    /// When the other end is gone, or takes nothing any more.
    pub fn send(&mut self, message: &Value) -> Result<(), Trouble> {
        let text = message.to_string();
        let len = u32::try_from(text.len()).ok().filter(|&len| len <= FRAME_MAX);
        let len = len.ok_or_else(|| Trouble::Nonsense(format!("a frame of {} bytes", text.len())))?;
        let mut frame = len.to_be_bytes().to_vec();
        frame.extend_from_slice(text.as_bytes());
        self.send_bytes(&frame)
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.stream.write_all(bytes).map_err(|error| {
            if is_timeout(&error) {
                Trouble::Silent("room to write", WRITE_PATIENCE)
            } else {
                Trouble::of_connection(&error)
            }
        })
    }

    /// The next message, which has to come within `patience`; `what` it is expected to be.
    ///
    /// # Errors
    /// When it does not, or the other end is gone or talks rubbish.
    pub fn receive(&mut self, what: &'static str, patience: Duration) -> Result<Value, Trouble> {
        self.poll(patience)?.ok_or(Trouble::Silent(what, patience))
    }

    /// The next message, if one comes within `patience`. What has come of one is kept for the next call.
    ///
    /// # Errors
    /// When the other end is gone or talks rubbish.
    pub fn poll(&mut self, patience: Duration) -> Result<Option<Value>, Trouble> {
        let until = Instant::now() + patience;
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            // The kernel takes 0 for no end.
            let left = until.saturating_duration_since(Instant::now()).max(TICK);
            let mut room = [0; 4096];
            let set = self.stream.set_read_timeout(Some(left));
            match set.and_then(|()| self.stream.read(&mut room)) {
                Ok(0) => return Err(Trouble::Gone(None)),
                Ok(len) => self.begun.extend_from_slice(&room[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(Trouble::of_connection(&error)),
            }
            if Instant::now() >= until {
                return self.take();
            }
        }
    }

    /// Whether what has come of a frame so far begins with this.
    pub(super) fn begun_with(&self, byte: u8) -> bool {
        self.begun.first() == Some(&byte)
    }

    /// A whole frame, if there is one.
    fn take(&mut self) -> Result<Option<Value>, Trouble> {
        let Some((head, rest)) = self.begun.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*head);
        if len > FRAME_MAX {
            return Err(Trouble::Foreign(self.begun.clone()));
        }
        let len = len as usize;
        let Some(text) = rest.get(..len) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(text).map_err(|error| Trouble::Nonsense(error.to_string()))?;
        self.begun.drain(..4 + len);
        Ok(Some(message))
    }
}

/// Whether this only means that time is up.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// No message is longer.
const FRAME_MAX: u32 = 64 * 1024;
/// Messages are short: whoever takes none for so long is gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::net::TcpListener;

    fn pair() -> (Channel, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (here, _) = listener.accept().unwrap();
        (Channel::new(here).unwrap(), there)
    }

    #[test]
    fn frames_in_pieces() {
        let (mut channel, mut there) = pair();
        let tick = Duration::from_millis(20);
        there.write_all(&[0, 0, 0, 7, b'{', b'"']).unwrap();
        assert_eq!(channel.poll(tick).unwrap(), None);
        there.write_all(b"a\":1}\0\0\0\x04true\0").unwrap();
        assert_eq!(channel.poll(tick).unwrap(), Some(json!({"a": 1})));
        assert_eq!(channel.poll(tick).unwrap(), Some(json!(true)));
        assert!(matches!(
            channel.receive("more", tick),
            Err(Trouble::Silent("more", _))
        ));
        drop(there);
        assert!(matches!(channel.poll(tick), Err(Trouble::Gone(_))));
    }

    #[test]
    fn rubbish_is_an_error() {
        for bytes in [&b"HTTP/1.1 400 Bad Request"[..], b"\0\0\0\x01{", &[0xff; 9]] {
            let (mut channel, mut there) = pair();
            there.write_all(bytes).unwrap();
            let error = channel.poll(Duration::from_secs(5)).unwrap_err();
            assert!(
                matches!(error, Trouble::Foreign(_) | Trouble::Nonsense(_)),
                "{error}"
            );
        }
        let (mut channel, _there) = pair();
        assert!(channel.send(&json!("x".repeat(70_000))).is_err());
    }
}
