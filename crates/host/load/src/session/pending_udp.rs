//! UDP sockets of a test whose client has to prove that it receives what is sent to its address.
//!
//! ```text
//! client  first datagram: token, tag      from the address of the control connection, or it is ignored
//! server  welcome: nonce                  as long as the first datagram, once for each
//! client  confirmation: tag over nonce
//! server  ready
//! ```
//!
//! A client that writes another source address into the first datagram does not see the nonce, so the server never sends more
//! to an address than came from it.

use super::client::system;
use super::secret::SessionKey;
use super::server::datagram_socket;
use super::{Error, PREAMBLE_LEN, Preamble, Role, TAG_LEN};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

/// A socket that is connected to a client that has to confirm its address.
#[derive(Debug)]
pub(super) struct PendingUdp {
    pub(super) socket: UdpSocket,
    /// The first datagram.
    pub(super) hello: Preamble,
    pub(super) key: SessionKey,
    pub(super) nonce: [u8; TAG_LEN],
    pub(super) since: Instant,
}

impl PendingUdp {
    pub(super) fn send_welcome(&self) {
        // It may be lost as well; the client repeats its datagram.
        let _ = self.socket.send(&self.hello.welcome(self.nonce).emit());
    }

    /// Reads datagrams without waiting: answers first ones that are repeated, and returns whether a confirmation came.
    pub(super) fn is_confirmed(&self) -> bool {
        let mut buffer = [0; PREAMBLE_LEN + 1];
        for _ in 0..DATAGRAMS_AT_ONCE {
            let Ok(len) = self.socket.recv(&mut buffer) else {
                return false;
            };
            let Some(preamble) = Preamble::parse(&buffer[..len]) else {
                continue;
            };
            let Preamble { number, token, .. } = self.hello;
            if preamble == self.hello {
                self.send_welcome();
            } else if preamble.role == Role::Confirm
                && (preamble.number, preamble.token) == (number, token)
                && self.key.is_confirm_tag(number, token, &self.nonce, &preamble.tag)
            {
                return true;
            }
        }
        false
    }
}

/// The bytes of a datagram, and where it came from.
pub(super) type Datagram = (Vec<u8>, SocketAddr);

/// Creates a socket on the server's port that is connected to `from`; the kernel prefers it for that client then. Returns
/// also what the socket received from others before it was connected.
pub(super) fn connect_to(
    local: SocketAddr,
    port: u16,
    from: SocketAddr,
) -> Result<(UdpSocket, Vec<Datagram>), Error> {
    // A link-local address keeps its scope.
    let mut own = local;
    own.set_port(port);
    let socket = datagram_socket(own, false)?;
    socket
        .connect(from)
        .map_err(|error: io::Error| system("connect a UDP socket", &error))?;
    let mut others = Vec::new();
    let mut buffer = [0; PREAMBLE_LEN];
    for _ in 0..DATAGRAMS_AT_ONCE {
        let Ok((len, sender)) = socket.peek_from(&mut buffer) else {
            break;
        };
        if sender == from {
            break;
        }
        others.push((buffer[..len].to_vec(), sender));
        let _ = socket.recv(&mut buffer);
    }
    Ok((socket, others))
}

const DATAGRAMS_AT_ONCE: usize = 64;
