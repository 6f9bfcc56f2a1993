use rustix::io::Errno;
use sockeye_model::{Cookie, Family, Protocol, Socket};
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::inet_diag::{InetDiag, SocketId, attribute, destroy, destroy_exact};
use sockeye_wire::netlink::{Messages, NLMSG_ERROR};
use std::net::{IpAddr, Ipv6Addr};

/// Closes sockets of others, whoever holds them: their programs read `ECONNABORTED`, their peers a reset.
///
/// By `SOCK_DESTROY` (Linux 4.5, `CONFIG_INET_DIAG_DESTROY`; UDP and RAW 4.6 and 4.10), for CAP_NET_ADMIN, in the network
/// namespace of the thread that opened it.
#[derive(Debug)]
pub struct Closer {
    socket: DiagSocket,
    sequence: u32,
}

/// What became of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is closed.
    Closed,
    /// It had gone already, or is of a kind that the kernel does not close: a listener's request, TIME_WAIT on old
    /// kernels, MPTCP.
    Spared,
}

/// A socket to be closed, by its addresses, and by its cookie, which no other will ever have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condemned {
    id: SocketId,
    cookie: Cookie,
    protocol: u8,
    raw_protocol: u8,
}

impl Condemned {
    /// `None`: of a kind that the kernel does not close, or without a cookie, so that nobody could say which one is meant.
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
                // What it listens to stands where others have their port.
                Protocol::Raw => u8::try_from(local_port).ok()?,
                _ => 0,
            },
        })
    }
}

impl Closer {
    /// Opens a way to the kernel.
    ///
    /// # Errors
    /// The errno of `socket(2)`.
    pub fn open() -> Result<Self, Errno> {
        Ok(Self {
            socket: DiagSocket::open()?,
            sequence: 0,
        })
    }

    /// Closes the socket of this protocol that `message` is about: the payload of what `sock_diag` said of it, whose
    /// cookie makes sure that it is no other by now.
    ///
    /// # Errors
    /// The kernel's errno: `EPERM` without CAP_NET_ADMIN.
    pub fn close(&mut self, protocol: Protocol, message: Option<&[u8]>) -> Result<Fate, Errno> {
        let (Some(number), Some(message)) = (number(protocol), message) else {
            return Ok(Fate::Spared);
        };
        let raw = if protocol == Protocol::Raw {
            raw_protocol(message)
        } else {
            0
        };
        self.sequence += 1;
        let Some(request) = destroy(message, number, raw, self.sequence) else {
            return Ok(Fate::Spared);
        };
        self.socket.send(&request)?;
        match self.outcome()? {
            0 => Ok(Fate::Closed),
            code => match errno(code) {
                Errno::OPNOTSUPP | Errno::NOENT => Ok(Fate::Spared),
                errno => Err(errno),
            },
        }
    }

    /// Closes many, and tells of each whether it is closed, in their order.
    ///
    /// Of what could not be closed the kernel says `ENOENT`: it has gone, or another one has its addresses by now;
    /// `EOPNOTSUPP`: it closes none of this kind; `EPERM`: CAP_NET_ADMIN is missing in this network namespace.
    pub fn close_all(&mut self, sockets: &[Condemned]) -> Vec<Result<(), Errno>> {
        let mut outcomes = vec![Err(Errno::NOENT); sockets.len()];
        let mut left: Vec<usize> = (0..sockets.len()).collect();
        // Of several at one address without a peer (SO_REUSEPORT) the kernel looks up one, the same each time: once that
        // is closed the next comes up. So what it took for another is tried again as long as that helps.
        loop {
            for batch in left.chunks(BATCH) {
                self.close_batch(sockets, batch, &mut outcomes);
            }
            let closed = left.iter().filter(|&&place| outcomes[place].is_ok()).count();
            left.retain(|&place| sockets[place].id.peer_port == 0 && outcomes[place] == Err(Errno::NOENT));
            if left.is_empty() || closed == 0 {
                return outcomes;
            }
        }
    }

    /// Sends the requests for these in one datagram, and reads what the kernel says of each.
    fn close_batch(&mut self, sockets: &[Condemned], places: &[usize], outcomes: &mut [Result<(), Errno>]) {
        let first = self.sequence.wrapping_add(1);
        let mut requests = Vec::with_capacity(places.len() * REQUEST_BYTES);
        for &place in places {
            self.sequence = self.sequence.wrapping_add(1);
            let Condemned {
                id,
                cookie,
                protocol,
                raw_protocol,
            } = sockets[place];
            requests.extend(destroy_exact(
                &id,
                cookie.0,
                protocol,
                raw_protocol,
                self.sequence,
            ));
        }
        let mut answered = vec![false; places.len()];
        let mut buffer = [0; 8192];
        let mut left = places.len();
        let sent = self.socket.send(&requests);
        while left > 0 {
            let received = match sent.and_then(|()| self.socket.receive(&mut buffer)) {
                Ok(received) => received,
                Err(errno) => {
                    for (&place, answered) in places.iter().zip(&answered) {
                        if !answered {
                            outcomes[place] = Err(errno);
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
                outcomes[places[nth]] = match message.outcome() {
                    Ok(outcome) if outcome.code == 0 => Ok(()),
                    Ok(outcome) => Err(errno(outcome.code)),
                    Err(_) => Err(Errno::BADMSG),
                };
            }
        }
    }

    /// The kernel acknowledges each request, in order.
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

/// As `sock_diag` numbers what it can close.
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
    Errno::from_raw_os_error(code.saturating_neg().clamp(0, ERRNO_MAX))
}

/// The IP protocol of a RAW socket.
fn raw_protocol(message: &[u8]) -> u8 {
    let wire = InetDiag::parse(message).ok();
    let mut attributes = wire.iter().flat_map(InetDiag::attributes).flatten();
    let found = attributes.find(|attribute| attribute.kind == attribute::PROTOCOL);
    found.and_then(|attribute| attribute.u8()).unwrap_or(0)
}

/// Each is acknowledged by a message of about a kilobyte of kernel memory, and together they must fit a receive buffer of
/// 208 KiB.
const BATCH: usize = 64;
/// A header and `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 72;
/// The kernel's own limit (`include/linux/err.h`).
const ERRNO_MAX: i32 = 4095;
