//! rtnetlink requests that change the host or ask about it. `netns` (links, `lo`, nsids) and `interfaces` use
//! it. The socket belongs to the network namespace of the thread that opened it.

use rustix::io::Errno;
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};
use std::fmt;

/// A `NETLINK_ROUTE` connection for one request at a time.
#[derive(Debug)]
pub(crate) struct Route {
    socket: NetlinkSocket,
    sequence: u32,
    buffer: Box<[u8; BUFFER_BYTES]>,
}

/// The kernel's answer to a request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError {
    /// The error.
    pub errno: Errno,
    /// The kernel's message (extended ack), if it sent one.
    pub message: Option<Box<str>>,
}

impl Route {
    /// Opens a connection to the calling thread's current network namespace. It stays there if the thread moves.
    pub(crate) fn open() -> Result<Self, RouteError> {
        Ok(Self {
            socket: NetlinkSocket::open_route()?,
            sequence: 0,
            buffer: Box::new([0; BUFFER_BYTES]),
        })
    }

    /// Sends a request that changes something. A request that cannot be encoded is too long: `EMSGSIZE`.
    pub(crate) fn act(&mut self, request: impl FnOnce(u32) -> Option<Vec<u8>>) -> Result<(), RouteError> {
        self.exchange(request, |_, _| {})
    }

    /// Sends a query for one object or a dump, and calls `take` with the type and payload of each answer.
    pub(crate) fn ask(
        &mut self,
        request: impl FnOnce(u32) -> Option<Vec<u8>>,
        take: impl FnMut(u16, &[u8]),
    ) -> Result<(), RouteError> {
        self.exchange(request, take)
    }

    fn exchange(
        &mut self,
        request: impl FnOnce(u32) -> Option<Vec<u8>>,
        mut take: impl FnMut(u16, &[u8]),
    ) -> Result<(), RouteError> {
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
                        return Err(RouteError {
                            errno: Errno::from_raw_os_error(
                                outcome.code.saturating_neg().clamp(1, ERRNO_MAX),
                            ),
                            message: outcome.message.map(Into::into),
                        });
                    }
                    kind => {
                        take(kind, message.payload);
                        // A query for one object is answered by one message, without an acknowledgement.
                        if message.flags & NLM_F_MULTI == 0 {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

impl From<Errno> for RouteError {
    fn from(errno: Errno) -> Self {
        Self { errno, message: None }
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Some(message) => write!(f, "{} ({message})", self.errno),
            None => self.errno.fmt(f),
        }
    }
}

impl std::error::Error for RouteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

/// The kernel fills at most 32 KiB of it.
const BUFFER_BYTES: usize = 32 * 1024;
/// `include/uapi/linux/netlink.h`: the message is part of a multi-part answer.
const NLM_F_MULTI: u16 = 2;
/// The kernel's own limit (`include/linux/err.h`).
const ERRNO_MAX: i32 = 4095;
