use rustix::io::Errno;
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};
use std::fmt;

/// A conversation with the kernel's routing half, one request at a time.
#[derive(Debug)]
pub(crate) struct Route {
    socket: DiagSocket,
    sequence: u32,
    buffer: Box<[u8; BUFFER_BYTES]>,
}

/// Why the kernel did not do it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its error.
    pub errno: Errno,
    /// Its own words, where it gave any.
    pub words: Option<Box<str>>,
}

impl Route {
    /// In the network namespace of the calling thread, wherever that goes afterwards.
    pub(crate) fn open() -> Result<Self, Refusal> {
        Ok(Self {
            socket: DiagSocket::open_route()?,
            sequence: 0,
            buffer: Box::new([0; BUFFER_BYTES]),
        })
    }

    /// Has something done. A request that cannot be laid out is one the kernel would find too long.
    pub(crate) fn act(&mut self, request: impl FnOnce(u32) -> Option<Vec<u8>>) -> Result<(), Refusal> {
        self.converse(request, |_, _| {})
    }

    /// Asks for one thing or for all, and hands the answers to `take`: kind of message, payload.
    pub(crate) fn ask(
        &mut self,
        request: impl FnOnce(u32) -> Option<Vec<u8>>,
        take: impl FnMut(u16, &[u8]),
    ) -> Result<(), Refusal> {
        self.converse(request, take)
    }

    fn converse(
        &mut self,
        request: impl FnOnce(u32) -> Option<Vec<u8>>,
        mut take: impl FnMut(u16, &[u8]),
    ) -> Result<(), Refusal> {
        self.sequence += 1;
        let request = request(self.sequence).ok_or(Errno::MSGSIZE)?;
        self.socket.send(&request)?;
        loop {
            let received = self.socket.receive(&mut self.buffer[..])?;
            if received.truncated {
                return Err(Errno::MSGSIZE.into());
            }
            for message in Messages::new(&self.buffer[..received.len]) {
                let message = message.map_err(|_| Errno::BADMSG)?;
                if message.sequence != self.sequence {
                    continue;
                }
                match message.kind {
                    NLMSG_ERROR | NLMSG_DONE => {
                        let outcome = message.outcome().map_err(|_| Errno::BADMSG)?;
                        if outcome.code == 0 {
                            return Ok(());
                        }
                        return Err(Refusal {
                            errno: Errno::from_raw_os_error(
                                outcome.code.saturating_neg().clamp(1, ERRNO_MAX),
                            ),
                            words: outcome.message.map(Into::into),
                        });
                    }
                    kind => {
                        take(kind, message.payload);
                        // The answer to a question for one thing comes alone, without an acknowledgement.
                        if message.flags & NLM_F_MULTI == 0 {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { errno, words: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.words {
            Some(words) => write!(f, "{} ({words})", self.errno),
            None => self.errno.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

/// The kernel fills at most 32 KiB of it.
const BUFFER_BYTES: usize = 32 * 1024;
/// `include/uapi/linux/netlink.h`: more of the same answer follow.
const NLM_F_MULTI: u16 = 2;
/// The kernel's own limit (`include/linux/err.h`).
const ERRNO_MAX: i32 = 4095;
