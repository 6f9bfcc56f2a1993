//! A connection from its first byte until it asks for a test, or is a part of one.

use super::channel::frame;
use super::limits::{HANDSHAKE_TIMEOUT, REQUEST_MAX};
use super::nonce::random;
use super::refusals::Reason;
use super::secret::{PROOF_LEN, SessionKey, hex};
use super::server::{Handler, Server};
use super::{Error, Kind, PREAMBLE_LEN, Preamble, Role};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// A connection before its admission.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) stream: TcpStream,
    pub(super) from: SocketAddr,
    /// What it has sent in its stage, at most what the stage needs.
    pub(super) bytes: Vec<u8>,
    pub(super) stage: Stage,
    /// Whether its proof waits to be compared, since its address has tried many wrong secrets.
    pub(super) is_parked: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Its protocol and its preamble are read.
    Preamble,
    /// Its proof and its request are read.
    Request(SessionKey),
    /// All is read; a limit did not allow its test.
    Complete(Complete, Instant),
}

/// What a test begins with.
#[derive(Debug, Clone)]
pub(super) enum Complete {
    Test(SessionKey, Kind, Value),
    Iperf3,
}

/// What a connection does next.
pub(super) enum Next {
    Wait,
    /// Its proof is compared later.
    Park,
    Complete(Complete),
    /// It is over, because of a refusal or in silence.
    Close(Option<(Reason, Error)>),
    /// It is a data connection.
    Deliver,
    /// It is a stream of an iperf3 test.
    Iperf3Stream,
    /// It is a client of iperf3, which cannot know the secret.
    RefuseIperf3,
}

impl Connection {
    /// Reads what its stage needs, and goes on to the next stage when that is complete. A proof is compared only if
    /// `may_prove`.
    pub(super) fn advance(&mut self, server: &Server, handler: &dyn Handler, may_prove: bool) -> Next {
        if self.is_parked || matches!(self.stage, Stage::Complete(..)) {
            // What was asked for had no room yet, and the client is gone.
            return Next::Close(None);
        }
        loop {
            let needed = match self.needed(handler) {
                Ok(needed) => needed,
                Err(error) => return Next::Close(Some((Reason::Foreign, error))),
            };
            if self.bytes.len() < needed {
                match self.read(needed) {
                    Ok(true) => continue,
                    Ok(false) => return Next::Wait,
                    // Port scanners and health checks are not logged.
                    Err(Error::Disconnected(None)) if self.bytes.is_empty() => return Next::Close(None),
                    Err(error) => return Next::Close(Some((Reason::Foreign, error))),
                }
            }
            match self.complete(server, handler, may_prove) {
                Ok(Next::Wait) => {}
                Ok(next) => return next,
                Err((reason, error)) => return Next::Close(Some((reason, error))),
            }
        }
    }

    /// Returns how many bytes its stage needs at least, as far as is known from those that came.
    fn needed(&self, handler: &dyn Handler) -> Result<usize, Error> {
        match &self.stage {
            Stage::Preamble => {
                let Some(first) = self.bytes.first_chunk::<FIRST_LEN>() else {
                    return Ok(FIRST_LEN);
                };
                if is_iperf3_cookie(first) {
                    Ok(handler.iperf3_first_len().max(FIRST_LEN))
                } else if handler.only_iperf3() {
                    Err(Error::NotIperf3)
                } else if Preamble::is_prefix(first) {
                    Ok(PREAMBLE_LEN)
                } else {
                    Err(Error::ForeignClient(first.to_vec()))
                }
            }
            Stage::Request(_) => request_needs(&self.bytes),
            Stage::Complete(..) => Ok(0),
        }
    }

    /// Reads up to `needed` bytes in all; false if there are no more for now.
    fn read(&mut self, needed: usize) -> Result<bool, Error> {
        let mut buffer = [0; 1024];
        let len = (needed - self.bytes.len()).min(buffer.len());
        match recv(&self.stream, &mut buffer[..len], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(Error::Disconnected(None)),
            Ok((read, _)) => {
                self.bytes.extend_from_slice(&buffer[..read]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(Error::Disconnected(Some(errno))),
        }
    }

    /// Goes on from a stage whose bytes are complete.
    fn complete(
        &mut self,
        server: &Server,
        handler: &dyn Handler,
        may_prove: bool,
    ) -> Result<Next, (Reason, Error)> {
        match &self.stage {
            Stage::Preamble if is_iperf3_cookie(&self.bytes) => Ok(match server.secret {
                Some(_) => Next::RefuseIperf3,
                None if handler.has_iperf3_test(&self.bytes) => Next::Iperf3Stream,
                None => Next::Complete(Complete::Iperf3),
            }),
            Stage::Preamble => self.complete_preamble(server),
            Stage::Request(_) if server.secret.is_some() && !may_prove => {
                self.is_parked = true;
                Ok(Next::Park)
            }
            Stage::Request(key) => {
                let key = key.clone();
                self.complete_request(server, key)
            }
            Stage::Complete(..) => Ok(Next::Close(None)),
        }
    }

    fn complete_preamble(&mut self, server: &Server) -> Result<Next, (Reason, Error)> {
        let foreign = |error| (Reason::Foreign, error);
        let invalid = || foreign(Error::Malformed("its preamble".to_owned()));
        let preamble = Preamble::parse(&self.bytes);
        if let Some(Err(error)) = preamble.map(|preamble| preamble.check_version()) {
            self.send_refusal(&error);
            return Err((Reason::Version, error));
        }
        let preamble = preamble.ok_or_else(invalid)?;
        match preamble.role {
            Role::Control => {}
            Role::Data => return Ok(Next::Deliver),
            _ => return Err(invalid()),
        }
        let nonce = random().map_err(foreign)?;
        let challenge = json!({"challenge": hex(&nonce), "secret": server.secret.is_some()});
        self.send(&challenge).map_err(foreign)?;
        let key = SessionKey::new(server.secret.as_ref(), &preamble.token.0, &nonce);
        self.stage = Stage::Request(key);
        self.bytes.clear();
        Ok(Next::Wait)
    }

    fn complete_request(&mut self, server: &Server, key: SessionKey) -> Result<Next, (Reason, Error)> {
        let (proof, request) = (&self.bytes[..PROOF_LEN], &self.bytes[REQUEST_HEAD_LEN..]);
        if !key.is_client_proof(request, proof) {
            let error = match server.secret {
                Some(_) => Error::WrongSecret,
                None => Error::Malformed("its proof".to_owned()),
            };
            self.send_refusal(&error);
            return Err((Reason::Secret, error));
        }
        let (kind, parameters) = parse_request(request).map_err(|error| {
            self.send_refusal(&error);
            (Reason::Foreign, error)
        })?;
        self.bytes = Vec::new();
        Ok(Next::Complete(Complete::Test(key, kind, parameters)))
    }

    /// Sends a message without waiting: the buffer of a new connection has room.
    fn send(&self, message: &Value) -> Result<(), Error> {
        let bytes = frame(message)?;
        match send(&self.stream, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(len) if len == bytes.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(Error::Disconnected(Some(Errno::NOBUFS))),
            Err(errno) => Err(Error::Disconnected(Some(errno))),
        }
    }

    pub(super) fn send_refusal(&self, error: &Error) {
        // It may be gone.
        let _ = self.send(&json!({"error": error.to_string(), "version": super::VERSION}));
    }

    /// Returns the error of a connection whose time is over.
    pub(super) fn late(&self) -> Error {
        match (&self.stage, self.bytes.is_empty()) {
            (Stage::Preamble, false) => Error::ForeignClient(self.bytes.clone()),
            (Stage::Preamble, true) => Error::Timeout("its first bytes", HANDSHAKE_TIMEOUT),
            _ => Error::Timeout("its request", HANDSHAKE_TIMEOUT),
        }
    }
}

/// Returns how many bytes a proof and its request need at least, as far as is known from those that came.
///
/// # Errors
/// If the request is longer than [`REQUEST_MAX`].
pub(super) fn request_needs(bytes: &[u8]) -> Result<usize, Error> {
    let head = bytes.get(PROOF_LEN..REQUEST_HEAD_LEN);
    let Some(head) = head.and_then(|head| head.first_chunk::<4>()) else {
        return Ok(REQUEST_HEAD_LEN);
    };
    let len = u32::from_be_bytes(*head) as usize;
    if len > REQUEST_MAX {
        return Err(Error::Malformed(format!("a request of {len} bytes")));
    }
    Ok(REQUEST_HEAD_LEN + len)
}

/// Parses the text of a request: the kind of test, and its parameters, which are not checked yet.
///
/// # Errors
/// If it is no JSON, or no such kind exists.
pub(super) fn parse_request(text: &[u8]) -> Result<(Kind, Value), Error> {
    let mut request: Value =
        serde_json::from_slice(text).map_err(|error| Error::Malformed(error.to_string()))?;
    let Some(kind) = request["kind"].as_str().and_then(Kind::from_name) else {
        let known = Kind::ALL.map(Kind::name).join(", ");
        return Err(Error::Malformed(format!(
            "no such kind of test; there are {known}"
        )));
    };
    let parameters = request.get_mut("parameters").map(Value::take);
    Ok((kind, parameters.unwrap_or_default()))
}

/// A cookie of iperf3 is 36 of these characters and a NUL.
pub(super) fn is_iperf3_cookie(first: &[u8]) -> bool {
    let first = &first[..first.len().min(FIRST_LEN)];
    first
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(byte))
}

/// Bytes that distinguish the protocols.
const FIRST_LEN: usize = 8;
/// A proof, and the length of the request.
pub(super) const REQUEST_HEAD_LEN: usize = PROOF_LEN + 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iperf3_cookies_are_recognized() {
        assert!(is_iperf3_cookie(b"abcd2345"));
        assert!(!is_iperf3_cookie(b"sockeye\n"));
        assert!(!is_iperf3_cookie(b"GET / HT"));
        assert!(!is_iperf3_cookie(b"abcd1890"));
    }
}
