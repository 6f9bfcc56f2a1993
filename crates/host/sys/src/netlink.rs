//! Netlink sockets: `sock_diag`, route, generic and netfilter netlink.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send,
    socket_with, sockopt,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    /// As [`NetlinkSocket::open`], and the errno of `bind(2)`: `EPERM` where the kernel lets only CAP_NET_ADMIN join.
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

    /// Receives one datagram that is there already; `None` if there is none.
    ///
    /// # Errors
    /// The errno of `recv(2)`; `ENOBUFS` means that messages were lost.
    pub fn receive_now(&self, buffer: &mut [u8]) -> Result<Option<Received>, Errno> {
        match recv(&self.fd, &mut *buffer, RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
            Ok((len, whole)) => Ok(Some(Received {
                len: len.min(whole),
                truncated: whole > len,
            })),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Makes the receive buffer larger, as far as the kernel allows.
    ///
    /// # Errors
    /// The errno of `setsockopt(2)`.
    pub fn set_receive_buffer(&self, bytes: usize) -> Result<(), Errno> {
        // Beyond net.core.rmem_max, which needs CAP_NET_ADMIN.
        let forced = sockopt::set_socket_recv_buffer_size_force(&self.fd, bytes);
        forced.or_else(|_| sockopt::set_socket_recv_buffer_size(&self.fd, bytes))
    }

    /// Returns how many messages found no space in the receive buffer (`SO_MEMINFO`, Linux 4.12).
    ///
    /// # Errors
    /// The errno of `getsockopt(2)`.
    pub fn dropped(&self) -> Result<u32, Errno> {
        let mut numbers = [0; 4 * (MEMINFO_DROPS + 1)];
        let len = crate::socket_option::read(&self.fd, libc::SOL_SOCKET, SO_MEMINFO, &mut numbers)?;
        let drops = numbers[..len].chunks_exact(4).nth(MEMINFO_DROPS);
        let drops = drops.and_then(|drops| drops.try_into().ok());
        drops.map(u32::from_ne_bytes).ok_or(Errno::NOPROTOOPT)
    }
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `SO_MEMINFO`, an array of numbers.
const SO_MEMINFO: libc::c_int = 55;
/// `SK_MEMINFO_DROPS`, the index of the number of drops.
const MEMINFO_DROPS: usize = 8;

const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);
