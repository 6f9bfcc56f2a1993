//! `SOCK_DESTROY` over `sock_diag`, for `sockeye kill` and `ss -K`. The cookie guards against closing
//! another socket that has the same addresses now.

use rustix::io::Errno;
use sockeye_model::{Cookie, Family, Protocol, Socket};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::inet_diag::{InetDiag, SocketId, attribute, destroy, destroy_exact};
use sockeye_wire::netlink::{Messages, NLMSG_ERROR};
use std::net::{IpAddr, Ipv6Addr};

/// Closes sockets of any process: their programs read `ECONNABORTED`, and their peers receive a reset.
///
/// It uses `SOCK_DESTROY` (Linux 4.5, `CONFIG_INET_DIAG_DESTROY`; UDP and RAW 4.6 and 4.10), which needs CAP_NET_ADMIN,
/// in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct SocketCloser {
    socket: NetlinkSocket,
    sequence: u32,
}

/// Result of closing a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The socket is closed.
    Closed,
    /// The socket did not exist any more, or is of a kind that the kernel does not close: a connection request,
    /// TIME_WAIT on old kernels, MPTCP.
    Skipped,
}

/// A socket to close, identified by its addresses and its cookie, which is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseTarget {
    id: SocketId,
    cookie: Cookie,
    protocol: u8,
    raw_protocol: u8,
}

impl CloseTarget {
    /// Returns `None` for a socket of a kind that the kernel does not close, or without a cookie to identify it.
    #[must_use]
    pub fn new(socket: &Socket) -> Option<Self> {
        let local_port = socket.local.port()?.0;
        let id = SocketId {
            family: match socket.family {
                Family::Inet => 2,
                Family::Inet6 => 10,
                _ => return None,
            },
            local_port,
            peer_port: socket.peer.port().map_or(0, |port| port.0),
            local: as_v6(socket.local.ip()?),
            peer: socket.peer.ip().map_or(Ipv6Addr::UNSPECIFIED, as_v6),
            interface: socket.interface.map_or(0, |index| index.0),
        };
        Some(Self {
            id,
            cookie: socket.cookie?,
            protocol: number(socket.protocol)?,
            raw_protocol: match socket.protocol {
                // The local port of a raw socket is its IP protocol.
                Protocol::Raw => u8::try_from(local_port).ok()?,
                _ => 0,
            },
        })
    }
}

impl SocketCloser {
    /// Opens a `sock_diag` connection.
    ///
    /// # Errors
    /// The errno of `socket(2)`.
    pub fn open() -> Result<Self, Errno> {
        Ok(Self {
            socket: NetlinkSocket::open()?,
            sequence: 0,
        })
    }

    /// Closes the socket of this protocol that `message` describes: the payload of its `sock_diag` message, which has
    /// the cookie that identifies it.
    ///
    /// # Errors
    /// The kernel's errno: `EPERM` without CAP_NET_ADMIN.
    pub fn close(&mut self, protocol: Protocol, message: Option<&[u8]>) -> Result<CloseOutcome, Errno> {
        let (Some(number), Some(message)) = (number(protocol), message) else {
            return Ok(CloseOutcome::Skipped);
        };
        let raw = if protocol == Protocol::Raw {
            raw_protocol(message)
        } else {
            0
        };
        self.sequence += 1;
        let Some(request) = destroy(message, number, raw, self.sequence) else {
            return Ok(CloseOutcome::Skipped);
        };
        self.socket.send(&request)?;
        match self.outcome()? {
            0 => Ok(CloseOutcome::Closed),
            code => match errno(code) {
                Errno::OPNOTSUPP | Errno::NOENT => Ok(CloseOutcome::Skipped),
                errno => Err(errno),
            },
        }
    }

    /// Closes many sockets. Returns the result for each, in the same order.
    ///
    /// An error is `ENOENT` if the socket is gone, or another one has its addresses now; `EOPNOTSUPP` if the kernel
    /// does not close this kind; `EPERM` if CAP_NET_ADMIN is missing in this network namespace.
    pub fn close_all(&mut self, sockets: &[CloseTarget]) -> Vec<Result<(), Errno>> {
        let mut outcomes = vec![Err(Errno::NOENT); sockets.len()];
        let mut left: Vec<usize> = (0..sockets.len()).collect();
        // Of several sockets at one address without a peer (SO_REUSEPORT) the kernel always finds the same one; after
        // that one is closed it finds the next. So `ENOENT` is retried as long as a round closes sockets.
        loop {
            for batch in left.chunks(BATCH) {
                self.close_batch(sockets, batch, &mut outcomes);
            }
            let closed = left.iter().filter(|&&index| outcomes[index].is_ok()).count();
            left.retain(|&index| sockets[index].id.peer_port == 0 && outcomes[index] == Err(Errno::NOENT));
            if left.is_empty() || closed == 0 {
                return outcomes;
            }
        }
    }

    /// Sends the requests for these sockets in one datagram, and reads the kernel's answer to each.
    fn close_batch(
        &mut self,
        sockets: &[CloseTarget],
        indexes: &[usize],
        outcomes: &mut [Result<(), Errno>],
    ) {
        let first = self.sequence.wrapping_add(1);
        let mut requests = Vec::with_capacity(indexes.len() * REQUEST_BYTES);
        for &index in indexes {
            self.sequence = self.sequence.wrapping_add(1);
            let CloseTarget {
                id,
                cookie,
                protocol,
                raw_protocol,
            } = sockets[index];
            requests.extend(destroy_exact(
                &id,
                cookie.0,
                protocol,
                raw_protocol,
                self.sequence,
            ));
        }
        let mut answered = vec![false; indexes.len()];
        let mut buffer = [0; 8192];
        let mut left = indexes.len();
        let sent = self.socket.send(&requests);
        while left > 0 {
            let received = match sent.and_then(|()| self.socket.receive(&mut buffer)) {
                Ok(received) => received,
                Err(errno) => {
                    for (&index, answered) in indexes.iter().zip(&answered) {
                        if !answered {
                            outcomes[index] = Err(errno);
                        }
                    }
                    return;
                }
            };
            for message in Messages::new(&buffer[..received.len]).flatten() {
                let nth = message.sequence.wrapping_sub(first) as usize;
                if message.kind != NLMSG_ERROR || answered.get(nth) != Some(&false) {
                    continue;
                }
                answered[nth] = true;
                left -= 1;
                outcomes[indexes[nth]] = match message.outcome() {
                    Ok(outcome) if outcome.code == 0 => Ok(()),
                    Ok(outcome) => Err(errno(outcome.code)),
                    Err(_) => Err(Errno::BADMSG),
                };
            }
        }
    }

    /// Receives the kernel's answer to the last request: 0 or a negative errno.
    fn outcome(&self) -> Result<i32, Errno> {
        let mut buffer = [0; 8192];
        loop {
            let received = self.socket.receive(&mut buffer)?;
            for message in Messages::new(&buffer[..received.len]).flatten() {
                if message.sequence == self.sequence && message.kind == NLMSG_ERROR {
                    return message
                        .outcome()
                        .map(|outcome| outcome.code)
                        .map_err(|_| Errno::BADMSG);
                }
            }
        }
    }
}

/// Returns the protocol number in `sock_diag` requests; `None` for protocols that it cannot close.
const fn number(protocol: Protocol) -> Option<u8> {
    match protocol {
        Protocol::Tcp => Some(6),
        Protocol::Udp => Some(17),
        Protocol::UdpLite => Some(136),
        Protocol::Raw => Some(255),
        _ => None,
    }
}

const fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn errno(code: i32) -> Errno {
    Errno::from_raw_os_error(code.saturating_neg().clamp(1, ERRNO_MAX))
}

/// Returns the IP protocol of a raw socket; 0 if unknown.
fn raw_protocol(message: &[u8]) -> u8 {
    let wire = InetDiag::parse(message).ok();
    let mut attributes = wire.iter().flat_map(InetDiag::attributes).flatten();
    let found = attributes.find(|attribute| attribute.kind == attribute::PROTOCOL);
    found.and_then(|attribute| attribute.u8()).unwrap_or(0)
}

/// Requests per datagram. Each answer takes about a kilobyte of kernel memory, and all must fit a receive buffer of 208
/// KiB.
const BATCH: usize = 64;
/// A header and `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 72;
/// The kernel's own limit (`include/linux/err.h`).
const ERRNO_MAX: i32 = 4095;
