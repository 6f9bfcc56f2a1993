//! The control connection of a test: states, and texts of JSON with their length before them.

use super::message::State;
use super::refusal::Refusal;
use super::sockets::{Woken, await_readable};
use super::trouble::Trouble;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde_json::Value;
use sockeye_load::session::Stop;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A control connection, from either end.
#[derive(Debug)]
pub(crate) struct Control<'a> {
    stream: TcpStream,
    stop: &'a Stop,
}

impl<'a> Control<'a> {
    pub(crate) fn new(stream: TcpStream, stop: &'a Stop) -> Result<Self, Trouble> {
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(PATIENCE))
        };
        set().map_err(|error| Trouble::of_connection(&error))?;
        Ok(Self { stream, stop })
    }

    pub(crate) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    pub(crate) const fn stop(&self) -> &'a Stop {
        self.stop
    }

    /// Our address of it, and theirs.
    pub(crate) fn addresses(&self) -> Result<(SocketAddr, SocketAddr), Trouble> {
        let both = || Ok((self.stream.local_addr()?, self.stream.peer_addr()?));
        both().map_err(|error| Trouble::of_connection(&error))
    }

    /// Without waiting: whatever comes later, this was said.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Trouble> {
        (&self.stream)
            .write_all(bytes)
            .map_err(|error| Trouble::of_connection(&error))
    }

    pub(crate) fn send_state(&self, state: State) -> Result<(), Trouble> {
        self.send(&[state.byte()])
    }

    pub(crate) fn send_json(&self, said: &Value) -> Result<(), Trouble> {
        let text = said.to_string();
        let len = u32::try_from(text.len()).map_err(|_| Trouble::Nonsense("a text of 4 GiB".to_owned()))?;
        let mut bytes = len.to_be_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        self.send(&bytes)
    }

    /// The server says why it will not.
    pub(crate) fn send_refusal(&self, refusal: Refusal, errno: Option<Errno>) -> Result<(), Trouble> {
        let mut bytes = vec![State::ServerError.byte()];
        bytes.extend_from_slice(&refusal.0.to_be_bytes());
        bytes.extend_from_slice(&errno.map_or(0, Errno::raw_os_error).to_be_bytes());
        self.send(&bytes)
    }

    /// The next state. What ends a test is an error here, so that nobody forgets it.
    pub(crate) fn receive_state(&self, what: &'static str, patience: Duration) -> Result<State, Trouble> {
        let mut byte = [0];
        self.receive(&mut byte, what, patience)?;
        match State::from_byte(byte[0]) {
            State::AccessDenied => Err(Trouble::Busy),
            State::ServerTerminate => Err(Trouble::ServerTerminated),
            State::ClientTerminate => Err(Trouble::ClientTerminated),
            State::ServerError => Err(self.receive_refusal()),
            State::Unknown(code) => Err(Trouble::Nonsense(format!(
                "it went to a state {code} that does not exist"
            ))),
            state => Ok(state),
        }
    }

    pub(crate) fn expect(
        &self,
        expected: State,
        what: &'static str,
        patience: Duration,
    ) -> Result<(), Trouble> {
        let state = self.receive_state(what, patience)?;
        if state == expected {
            Ok(())
        } else {
            Err(Trouble::Nonsense(format!(
                "it went to the state {state:?} while {what} was expected"
            )))
        }
    }

    /// Two numbers; where a user is wanted, servers leave out the second.
    fn receive_refusal(&self) -> Trouble {
        let mut code = [0; 4];
        if let Err(trouble) = self.receive(&mut code, "the server's reason", PATIENCE) {
            return trouble;
        }
        let mut errno = [0; 4];
        let errno = self
            .receive(&mut errno, "the server's errno", SHORT_PATIENCE)
            .ok()
            .map(|()| i32::from_be_bytes(errno))
            .filter(|errno| (1..ERRNO_MAX).contains(errno));
        Trouble::Rejected(
            Refusal(i32::from_be_bytes(code)),
            errno.map(Errno::from_raw_os_error),
        )
    }

    pub(crate) fn receive_json(&self, what: &'static str) -> Result<Value, Trouble> {
        let mut len = [0; 4];
        self.receive(&mut len, what, PATIENCE)?;
        let len = u32::from_be_bytes(len);
        if len > TEXT_MAX {
            return Err(Trouble::Nonsense(format!(
                "a text of {len} bytes (at most {TEXT_MAX})"
            )));
        }
        let mut text = vec![0; len as usize];
        self.receive(&mut text, what, PATIENCE)?;
        serde_json::from_slice(&text).map_err(|error| Trouble::Nonsense(error.to_string()))
    }

    /// As many bytes as there is room for, within `patience`.
    pub(crate) fn receive(
        &self,
        room: &mut [u8],
        what: &'static str,
        patience: Duration,
    ) -> Result<(), Trouble> {
        let until = Instant::now() + patience;
        let mut filled = 0;
        while filled < room.len() {
            match await_readable(&self.stream, self.stop, until)? {
                Woken::Stopped => return Err(Trouble::Stopped),
                Woken::Late => return Err(Trouble::Silent(what, patience)),
                Woken::Readable => {}
            }
            match recv(&self.stream, &mut room[filled..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(Trouble::Gone(None)),
                Ok((_, len)) => filled += len,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(Trouble::Gone(Some(errno))),
            }
        }
        Ok(())
    }
}

/// For an answer that needs no work but the way there and back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// For what may as well be left out.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);
/// Of a text. Results of 256 streams have some 40 KiB.
const TEXT_MAX: u32 = 64 * 1024;
const ERRNO_MAX: i32 = 4096;
