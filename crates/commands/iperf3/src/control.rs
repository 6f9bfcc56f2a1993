//! The control connection of a test: states of one byte, and JSON texts after their length.

use super::error::Error;
use super::message::State;
use super::refusal::Refusal;
use super::socket::{Woken, await_readable};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde_json::Value;
use sockeye_load::session::{Error as SessionError, Stop};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A control connection of either end.
#[derive(Debug)]
pub(crate) struct Control<'a> {
    stream: TcpStream,
    stop: &'a Stop,
}

impl<'a> Control<'a> {
    pub(crate) fn new(stream: TcpStream, stop: &'a Stop) -> Result<Self, Error> {
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(TIMEOUT))
        };
        set().map_err(|error| SessionError::of_connection(&error))?;
        Ok(Self { stream, stop })
    }

    pub(crate) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) const fn stop(&self) -> &'a Stop {
        self.stop
    }

    /// Returns the local and the peer address.
    pub(crate) fn addresses(&self) -> Result<(SocketAddr, SocketAddr), Error> {
        let both = || Ok((self.stream.local_addr()?, self.stream.peer_addr()?));
        both().map_err(|error: std::io::Error| SessionError::of_connection(&error).into())
    }

    /// Sends bytes.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        (&self.stream)
            .write_all(bytes)
            .map_err(|error| SessionError::of_connection(&error).into())
    }

    pub(crate) fn send_state(&self, state: State) -> Result<(), Error> {
        self.send(&[state.byte()])
    }

    pub(crate) fn send_json(&self, json: &Value) -> Result<(), Error> {
        let text = json.to_string();
        let len = u32::try_from(text.len()).map_err(|_| Error::malformed("a text of 4 GiB".to_owned()))?;
        let mut bytes = len.to_be_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        self.send(&bytes)
    }

    /// Sends the refusal of a server.
    pub(crate) fn send_refusal(&self, refusal: Refusal, errno: Option<Errno>) -> Result<(), Error> {
        let mut bytes = vec![State::ServerError.byte()];
        bytes.extend_from_slice(&refusal.0.to_be_bytes());
        bytes.extend_from_slice(&errno.map_or(0, Errno::raw_os_error).to_be_bytes());
        self.send(&bytes)
    }

    /// Receives the next state. States that end a test are errors.
    pub(crate) fn receive_state(&self, what: &'static str, timeout: Duration) -> Result<State, Error> {
        let mut byte = [0];
        self.receive(&mut byte, what, timeout)?;
        match State::from_byte(byte[0]) {
            State::AccessDenied => Err(Error::Busy),
            State::ServerTerminate => Err(Error::ServerTerminated),
            State::ClientTerminate => Err(Error::ClientTerminated),
            State::ServerError => Err(self.receive_refusal()),
            State::Unknown(code) => Err(Error::malformed(format!(
                "it went to a state {code} that does not exist"
            ))),
            state => Ok(state),
        }
    }

    pub(crate) fn expect(&self, expected: State, what: &'static str, timeout: Duration) -> Result<(), Error> {
        let state = self.receive_state(what, timeout)?;
        if state == expected {
            Ok(())
        } else {
            Err(Error::malformed(format!(
                "it went to the state {state:?} while {what} was expected"
            )))
        }
    }

    /// Receives a refusal of two numbers. Servers that require a user omit the second.
    fn receive_refusal(&self) -> Error {
        let mut code = [0; 4];
        if let Err(error) = self.receive(&mut code, "the server's reason", TIMEOUT) {
            return error;
        }
        let mut errno = [0; 4];
        let errno = self
            .receive(&mut errno, "the server's errno", SHORT_TIMEOUT)
            .ok()
            .map(|()| i32::from_be_bytes(errno))
            .filter(|errno| (1..ERRNO_MAX).contains(errno));
        Error::Rejected(
            Refusal(i32::from_be_bytes(code)),
            errno.map(Errno::from_raw_os_error),
        )
    }

    pub(crate) fn receive_json(&self, what: &'static str) -> Result<Value, Error> {
        let mut len = [0; 4];
        self.receive(&mut len, what, TIMEOUT)?;
        let len = u32::from_be_bytes(len);
        if len > TEXT_MAX {
            return Err(Error::malformed(format!(
                "a text of {len} bytes (at most {TEXT_MAX})"
            )));
        }
        let mut text = vec![0; len as usize];
        self.receive(&mut text, what, TIMEOUT)?;
        serde_json::from_slice(&text).map_err(|error| Error::malformed(error.to_string()))
    }

    /// Fills the buffer within `timeout`.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        what: &'static str,
        timeout: Duration,
    ) -> Result<(), Error> {
        let until = Instant::now() + timeout;
        let mut filled = 0;
        while filled < buffer.len() {
            match await_readable(&self.stream, self.stop, until)? {
                Woken::Stopped => return Err(SessionError::Interrupted.into()),
                Woken::TimedOut => return Err(SessionError::Timeout(what, timeout).into()),
                Woken::Readable => {}
            }
            match recv(&self.stream, &mut buffer[filled..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(SessionError::Disconnected(None).into()),
                Ok((_, len)) => filled += len,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(SessionError::Disconnected(Some(errno)).into()),
            }
        }
        Ok(())
    }
}

/// Timeout of an answer that needs no work.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an optional field.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest text, in bytes. Results of 256 streams have about 40 KiB.
const TEXT_MAX: u32 = 64 * 1024;
const ERRNO_MAX: i32 = 4096;
