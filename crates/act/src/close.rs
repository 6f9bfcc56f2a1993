use rustix::io::Errno;
use sockeye_model::Protocol;
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::inet_diag::{InetDiag, attribute, destroy};
use sockeye_wire::netlink::{Messages, NLMSG_ERROR};

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
        let number = match protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::UdpLite => 136,
            Protocol::Raw => 255,
            _ => return Ok(Fate::Spared),
        };
        let Some(message) = message else {
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
            code => match Errno::from_raw_os_error(code.saturating_neg().clamp(0, ERRNO_MAX)) {
                Errno::OPNOTSUPP | Errno::NOENT => Ok(Fate::Spared),
                errno => Err(errno),
            },
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

/// The IP protocol of a RAW socket.
fn raw_protocol(message: &[u8]) -> u8 {
    let wire = InetDiag::parse(message).ok();
    let mut attributes = wire.iter().flat_map(InetDiag::attributes).flatten();
    let found = attributes.find(|attribute| attribute.kind == attribute::PROTOCOL);
    found.and_then(|attribute| attribute.u8()).unwrap_or(0)
}

/// The kernel's own limit (`include/linux/err.h`).
const ERRNO_MAX: i32 = 4095;
