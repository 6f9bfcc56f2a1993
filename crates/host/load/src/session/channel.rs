//! Frames of JSON over a connection; every wait has a timeout.

use super::Error;
use super::limits::{MESSAGES_BURST, MESSAGES_PER_S};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A control connection after its preamble.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    received: Frames,
    /// Limit of the work that the other end causes; `None` if there is none.
    budget: Option<Budget>,
}

impl Channel {
    /// Wraps this connection.
    pub(crate) fn new(stream: TcpStream) -> Result<Self, Error> {
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(WRITE_TIMEOUT))
        };
        set().map_err(|error| Error::of_connection(&error))?;
        Ok(Self {
            stream,
            received: Frames::default(),
            budget: None,
        })
    }

    /// Limits the messages of the other end to those that a test needs.
    pub(super) fn limited(mut self) -> Self {
        self.budget = Some(Budget {
            left: MESSAGES_BURST,
            at: Instant::now(),
        });
        self
    }

    /// Returns the local and the peer address.
    pub(crate) fn addresses(&self) -> Result<(SocketAddr, SocketAddr), Error> {
        let both = || Ok((self.stream.local_addr()?, self.stream.peer_addr()?));
        both().map_err(|error: io::Error| Error::of_connection(&error))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the other end is gone, or does not read.
    pub(crate) fn send(&mut self, message: &Value) -> Result<(), Error> {
        self.send_bytes(&frame(message)?)
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.write_all(bytes).map_err(|error| {
            if is_timeout(&error) {
                Error::Timeout("room to write", WRITE_TIMEOUT)
            } else {
                Error::of_connection(&error)
            }
        })
    }

    /// Receives the next message. `what` describes the expected message for the error.
    pub(crate) fn receive(&mut self, what: &'static str, timeout: Duration) -> Result<Value, Error> {
        self.poll(timeout)?.ok_or(Error::Timeout(what, timeout))
    }

    /// Receives the next message; `None` if none comes within `timeout`. An incomplete one is kept for the next call.
    pub(crate) fn poll(&mut self, timeout: Duration) -> Result<Option<Value>, Error> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(message) = self.received.take()? {
                self.spend(1.0)?;
                return Ok(Some(message));
            }
            // 0 would mean no timeout.
            let left = until.saturating_duration_since(Instant::now()).max(TICK);
            let mut buffer = [0; 4096];
            let set = self.stream.set_read_timeout(Some(left));
            match set.and_then(|()| self.stream.read(&mut buffer)) {
                Ok(0) => return Err(Error::Disconnected(None)),
                Ok(len) => {
                    self.received.extend(&buffer[..len]);
                    self.spend(1.0 + len as f64 / buffer.len() as f64)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(Error::of_connection(&error)),
            }
            if Instant::now() >= until {
                return self.received.take();
            }
        }
    }

    /// Takes units of work from the budget.
    fn spend(&mut self, units: f64) -> Result<(), Error> {
        let budget = self.budget.as_mut();
        if budget.is_none_or(|budget| budget.take(units, Instant::now())) {
            Ok(())
        } else {
            Err(Error::Flood)
        }
    }

    /// Returns whether the incomplete frame begins with this byte.
    pub(super) fn pending_starts_with(&self, byte: u8) -> bool {
        self.received.pending.first() == Some(&byte)
    }
}

/// Units of work that may be done now.
#[derive(Debug)]
struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    fn take(&mut self, units: f64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + passed * MESSAGES_PER_S).min(MESSAGES_BURST) - units;
        self.left >= 0.0
    }
}

/// Received bytes, and the messages in them.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Bytes that are not a complete frame yet.
    pending: Vec<u8>,
}

impl Frames {
    /// Adds received bytes. Messages have to be taken before more are added, or the bytes have no bound.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that wait to be a complete frame.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Removes a complete frame; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::ForeignServer`] if the length is above the limit, [`Error::Malformed`] if the text is no JSON.
    pub(super) fn take(&mut self) -> Result<Option<Value>, Error> {
        let Some((head, rest)) = self.pending.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*head);
        if len > FRAME_MAX {
            return Err(Error::ForeignServer(self.pending.clone()));
        }
        let len = len as usize;
        let Some(text) = rest.get(..len) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(text).map_err(|error| Error::Malformed(error.to_string()))?;
        self.pending.drain(..4 + len);
        Ok(Some(message))
    }
}

/// Returns the bytes of a message: its length, and its text.
pub(super) fn frame(message: &Value) -> Result<Vec<u8>, Error> {
    let text = message.to_string();
    let len = u32::try_from(text.len()).ok().filter(|&len| len <= FRAME_MAX);
    let len = len.ok_or_else(|| Error::Malformed(format!("a frame of {} bytes", text.len())))?;
    let mut frame = len.to_be_bytes().to_vec();
    frame.extend_from_slice(text.as_bytes());
    Ok(frame)
}

/// Returns whether the error is a timeout of the socket.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Longest message, in bytes.
pub(super) const FRAME_MAX: u32 = 64 * 1024;
/// Messages are short: a peer that reads none for this long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
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
    fn frames_in_pieces_are_reassembled() {
        let (mut channel, mut there) = pair();
        let tick = Duration::from_millis(20);
        there.write_all(&[0, 0, 0, 7, b'{', b'"']).unwrap();
        assert_eq!(channel.poll(tick).unwrap(), None);
        there.write_all(b"a\":1}\0\0\0\x04true\0").unwrap();
        assert_eq!(channel.poll(tick).unwrap(), Some(json!({"a": 1})));
        assert_eq!(channel.poll(tick).unwrap(), Some(json!(true)));
        assert!(matches!(
            channel.receive("more", tick),
            Err(Error::Timeout("more", _))
        ));
        drop(there);
        assert!(matches!(channel.poll(tick), Err(Error::Disconnected(_))));
    }

    #[test]
    fn flood_of_messages_is_an_error() {
        let (channel, mut there) = pair();
        let mut channel = channel.limited();
        let tick = Duration::from_millis(20);
        // Heartbeats at ten times the usual rate are none.
        let mut budget = Budget {
            left: MESSAGES_BURST,
            at: Instant::now(),
        };
        let begun = budget.at;
        assert!((1..1000).all(|step| budget.take(2.0, begun + tick * step)));
        for bytes in [&b"\0\0\0\x02{}"[..], b"\0"] {
            let _ = there.write_all(&bytes.repeat(4096 / bytes.len()));
        }
        let error = loop {
            match channel.poll(tick) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Flood), "{error}");
    }

    #[test]
    fn invalid_frames_are_errors() {
        for bytes in [&b"HTTP/1.1 400 Bad Request"[..], b"\0\0\0\x01{", &[0xff; 9]] {
            let (mut channel, mut there) = pair();
            there.write_all(bytes).unwrap();
            let error = channel.poll(Duration::from_secs(5)).unwrap_err();
            assert!(
                matches!(error, Error::ForeignServer(_) | Error::Malformed(_)),
                "{error}"
            );
        }
        let (mut channel, _there) = pair();
        assert!(channel.send(&json!("x".repeat(70_000))).is_err());
    }
}
