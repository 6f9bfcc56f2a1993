//! Netlink sockets: `sock_diag`, route, generic and netfilter netlink.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send,
    socket_with, sockopt,
};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A connection to a netlink family. It stays in the network namespace that it was opened in, even if the calling
/// thread moves to another one.
#[derive(Debug)]
pub struct NetlinkSocket {
    fd: OwnedFd,
}

/// The size of a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Number of bytes in the buffer.
    pub len: usize,
    /// Whether the datagram was longer than the buffer; the rest is lost.
    pub truncated: bool,
}

impl NetlinkSocket {
    /// Opens a `NETLINK_SOCK_DIAG` socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// The errno of `socket(2)`: `EPROTONOSUPPORT` where the kernel has no `sock_diag`, `EPERM` or
    /// `EACCES` where a sandbox forbids netlink.
    pub fn open() -> Result<Self, Errno> {
        Self::open_protocol(Some(netlink::SOCK_DIAG))
    }

    /// Opens a `NETLINK_ROUTE` socket.
    ///
    /// # Errors
    /// As [`NetlinkSocket::open`].
    pub fn open_route() -> Result<Self, Errno> {
        // NETLINK_ROUTE is 0, the default protocol.
        Self::open_protocol(None)
    }

    /// Opens a `NETLINK_GENERIC` socket.
    ///
    /// # Errors
    /// As [`NetlinkSocket::open`].
    pub fn open_generic() -> Result<Self, Errno> {
        Self::open_protocol(Some(netlink::GENERIC))
    }

    /// Opens a `NETLINK_NETFILTER` socket.
    ///
    /// # Errors
    /// As [`NetlinkSocket::open`].
    pub fn open_netfilter() -> Result<Self, Errno> {
        Self::open_protocol(Some(netlink::NETFILTER))
    }

    fn open_protocol(protocol: Option<Protocol>) -> Result<Self, Errno> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        // The kernel answers at once or not at all: a timeout keeps a missing answer from blocking us for ever.
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(RECEIVE_TIMEOUT))?;
        // Older kernels send the errno alone, which is enough to work with.
        let _ = crate::extended_ack::request(fd.as_fd());
        Ok(Self { fd })
    }

    /// Opens a `NETLINK_SOCK_DIAG` socket that receives notifications and waits for them without a timeout. Bit 0 of
    /// `groups` is multicast group 1, bit 1 is group 2, and so on.
    ///
    /// # Errors
    /// As [`NetlinkSocket::open`], and the errno of `bind(2)`: `EPERM` without CAP_NET_ADMIN.
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
    /// The errno of `recv(2)`; `ENOBUFS` means that messages were lost, `EAGAIN` that none arrived within ten
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

const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);
