//! Events of destroyed sockets: the kernel reports each TCP and UDP socket that it frees (Linux 4.5). Anybody may listen in his own
//! network namespace: `NL_CFG_F_NONROOT_RECV` in net/core/sock_diag.c.

use rustix::io::Errno;
use sockeye_model::{Protocol, Socket, State};
use sockeye_sys::netlink::{NetlinkSocket, Received};
use sockeye_wire::inet_diag::{InetDiag, SOCK_DIAG_BY_FAMILY, attribute};
use sockeye_wire::netlink::Messages;

/// A multicast group of events, `SKNLGRP_INET*_DESTROY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it all
pub enum Group {
    Tcp4 = 1,
    Udp4 = 2,
    Tcp6 = 3,
    Udp6 = 4,
}

/// A subscription to the events of the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct DestroyEvents {
    socket: NetlinkSocket,
    buffer: Vec<u8>,
    event: Socket,
}

impl DestroyEvents {
    /// Subscribes to the groups.
    ///
    /// # Errors
    /// The errno of `socket(2)` or `bind(2)`.
    pub fn open(groups: &[Group]) -> Result<Self, Errno> {
        let bits = groups
            .iter()
            .fold(0, |bits, group| bits | 1 << (*group as u32 - 1));
        Ok(Self {
            socket: NetlinkSocket::listen(bits)?,
            buffer: vec![0; BUFFER_LEN],
            event: Socket::new(Protocol::Tcp, State::Close),
        })
    }

    /// Waits for the next events and passes each socket to `take`, with the payload of its message. Returns how many times
    /// events were lost (`ENOBUFS`, truncated or malformed messages).
    ///
    /// # Errors
    /// The errno of `recv(2)`.
    pub fn next(&mut self, take: &mut dyn FnMut(&Socket, &[u8])) -> Result<u64, Errno> {
        let received = match self.socket.receive(&mut self.buffer) {
            Ok(received) => received,
            Err(Errno::NOBUFS) => return Ok(1),
            Err(errno) => return Err(errno),
        };
        Ok(self.pass(received, take))
    }

    /// As [`Self::next`], without waiting; `None` if there is no event. Events that were lost since the last call count as one.
    ///
    /// # Errors
    /// The errno of `recv(2)`.
    pub fn next_now(&mut self, take: &mut dyn FnMut(&Socket, &[u8])) -> Result<Option<u64>, Errno> {
        match self.socket.receive_now(&mut self.buffer) {
            Ok(received) => Ok(received.map(|received| self.pass(received, take))),
            Err(Errno::NOBUFS) => Ok(Some(1)),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the socket of the events.
    pub(crate) const fn socket(&self) -> &NetlinkSocket {
        &self.socket
    }

    /// Passes the sockets of a datagram, and returns how many could not be read.
    fn pass(&mut self, received: Received, take: &mut dyn FnMut(&Socket, &[u8])) -> u64 {
        let mut lost = u64::from(received.truncated);
        for message in Messages::new(&self.buffer[..received.len]) {
            let Ok(message) = message else {
                lost += 1;
                break;
            };
            let wire = InetDiag::parse(message.payload).ok();
            let Some(wire) = wire.filter(|_| message.kind == SOCK_DIAG_BY_FAMILY) else {
                continue;
            };
            match self.event.read_inet_diag(&wire, protocol(&wire)) {
                Ok(()) => take(&self.event, message.payload),
                Err(_) => lost += 1,
            }
        }
        lost
    }
}

/// The protocol attribute of the message; TCP if it is missing.
fn protocol(wire: &InetDiag<'_>) -> Protocol {
    let mut attributes = wire.attributes().flatten();
    match attributes
        .find(|attribute| attribute.kind == attribute::PROTOCOL)
        .and_then(|attribute| attribute.u8())
    {
        Some(UDP) => Protocol::Udp,
        _ => Protocol::Tcp,
    }
}

const UDP: u8 = 17;
const BUFFER_LEN: usize = 32 * 1024;
