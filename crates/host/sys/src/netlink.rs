//! A socket to the kernel's `sock_diag`, to its routing half, or to generic netlink.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send,
    socket_with, sockopt,
};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A `NETLINK_SOCK_DIAG` socket. It asks about the network namespace it was opened in, wherever its
/// user goes afterwards.
#[derive(Debug)]
pub struct DiagSocket {
    fd: OwnedFd,
}

/// What came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes of it in the buffer.
    pub len: usize,
    /// Whether it was longer than the buffer; the rest is lost.
    pub truncated: bool,
}

impl DiagSocket {
    /// Opens one in the calling thread's network namespace.
    ///
    /// # Errors
    /// The errno of `socket(2)`: `EPROTONOSUPPORT` where the kernel has no `sock_diag`, `EPERM` or
    /// `EACCES` where a sandbox forbids netlink.
    pub fn open() -> Result<Self, Errno> {
        Self::open_protocol(Some(netlink::SOCK_DIAG))
    }

    /// Opens one to `NETLINK_ROUTE` instead, which is dumped the same way.
    ///
    /// # Errors
    /// As [`DiagSocket::open`].
    pub fn open_route() -> Result<Self, Errno> {
        // NETLINK_ROUTE is 0, which is what no protocol means.
        Self::open_protocol(None)
    }

    /// Opens one to `NETLINK_GENERIC` instead, which is dumped the same way.
    ///
    /// # Errors
    /// As [`DiagSocket::open`].
    pub fn open_generic() -> Result<Self, Errno> {
        Self::open_protocol(Some(netlink::GENERIC))
    }

    fn open_protocol(protocol: Option<Protocol>) -> Result<Self, Errno> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        // The kernel answers at once or not at all; nothing of ours may hang on it for ever.
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(PATIENCE))?;
        // Older kernels give the errno alone, which is no reason to do without it.
        let _ = crate::extended_ack::request(fd.as_fd());
        Ok(Self { fd })
    }

    /// Opens one that is told of what happens, and waits for it as long as it takes. `groups` has a bit for each
    /// multicast group, the lowest for group 1.
    ///
    /// # Errors
    /// As [`DiagSocket::open`], and the errno of `bind(2)`: `EPERM` without CAP_NET_ADMIN.
    pub fn listen(groups: u32) -> Result<Self, Errno> {
        let socket = Self::open()?;
        bind(&socket.fd, &SocketAddrNetlink::new(0, groups))?;
        sockopt::set_socket_timeout(&socket.fd, sockopt::Timeout::Recv, None)?;
        Ok(socket)
    }

    /// Sends one request to the kernel.
    ///
    /// # Errors
    /// The errno of `send(2)`.
    pub fn send(&self, request: &[u8]) -> Result<(), Errno> {
        send(&self.fd, request, SendFlags::empty()).map(drop)
    }

    /// Receives one datagram of messages into `buffer`.
    ///
    /// # Errors
    /// The errno of `recv(2)`; `ENOBUFS` says that messages were lost, `EAGAIN` that none came for ten
    /// seconds.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        loop {
            match recv(&self.fd, &mut *buffer, RecvFlags::TRUNC) {
                Ok((len, whole)) => {
                    return Ok(Received {
                        len: len.min(whole),
                        truncated: whole > len,
                    });
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
