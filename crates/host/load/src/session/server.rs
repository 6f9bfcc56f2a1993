//! The server's end of a session: its sockets.

use super::client::system;
use super::limits::ServerLimits;
use super::registry::TestRegistry;
use super::secret::Secret;
use super::test::Test;
use super::{Error, Stop};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Listens on a TCP port and the same UDP port, and passes tests to a [`Handler`].
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) listener: TcpListener,
    /// Receives the first datagrams; an error if UDP is not available.
    pub(super) udp: Result<UdpSocket, Error>,
    pub(super) address: SocketAddr,
    pub(super) registry: TestRegistry,
    /// What clients have to know.
    pub(super) secret: Option<Secret>,
    pub(super) limits: ServerLimits,
}

/// Handles the tests and connections of a [`Server`].
pub(crate) trait Handler: Sync {
    /// Runs a test that a client requested.
    fn test(&self, test: Test<'_>);
    /// Returns the length of the first bytes of iperf3's connections, which identify their test.
    fn iperf3_first_len(&self) -> usize;
    /// Returns whether an iperf3 test with these first bytes expects streams.
    fn has_iperf3_test(&self, first: &[u8]) -> bool;
    /// Takes connection `number` as a stream of the iperf3 test with these first bytes.
    fn iperf3_stream(&self, number: u64, first: &[u8], connection: TcpStream);
    /// Runs the test of a new iperf3 client.
    fn iperf3_test(&self, first: &[u8], connection: TcpStream, stop: &Stop);
    /// Refuses an iperf3 client, since that protocol has no place for the secret.
    fn refuse_iperf3(&self, connection: TcpStream);
    /// Returns the local address of the iperf3 test that expects this datagram.
    fn expects_iperf3_datagram(&self, bytes: &[u8], from: SocketAddr) -> Option<SocketAddr>;
    /// Takes a UDP socket that is connected to a client of iperf3, whose first datagram was expected.
    fn iperf3_datagrams(&self, from: SocketAddr, socket: UdpSocket);
    /// Returns whether the server shall end; called after each test.
    fn is_enough(&self) -> bool;
    /// Returns whether only iperf3's protocol is served.
    fn only_iperf3(&self) -> bool;
    /// Logs a line.
    fn say(&self, line: &str);
}

impl Server {
    /// Listens on `address`, or on all addresses of a family, or of both.
    ///
    /// # Errors
    /// If the port is in use, the address is not one of this host, and so on.
    pub(crate) fn bind(
        address: Option<IpAddr>,
        is_v6: Option<bool>,
        port: u16,
        secret: Option<Secret>,
        limits: ServerLimits,
    ) -> Result<Self, Error> {
        let ip = address.unwrap_or(match is_v6 {
            Some(false) => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        });
        let only_v6 = is_v6 == Some(true);
        let listener = match listen(SocketAddr::new(ip, port), only_v6) {
            // Hosts without IPv6.
            Err(Error::System(_, Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
                if address.is_none() && is_v6.is_none() =>
            {
                listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), false)?
            }
            other => other?,
        };
        let address = listener
            .local_addr()
            .map_err(|error| system("ask for the address of a socket", &error))?;
        Ok(Self {
            listener,
            udp: datagram_socket(address, only_v6),
            address,
            registry: TestRegistry::default(),
            secret,
            limits,
        })
    }

    /// Returns the address that it listens on.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns why UDP is not available; `None` if it is.
    pub(crate) fn udp_error(&self) -> Option<&Error> {
        self.udp.as_ref().err()
    }
}

fn listen(address: SocketAddr, only_v6: bool) -> Result<TcpListener, Error> {
    let failed = |operation| move |errno: Errno| Error::System(operation, errno);
    let socket = socket_for(address, SocketType::STREAM, only_v6)?;
    rustix::net::bind(&socket, &address).map_err(failed("listen on this address and port of TCP"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listen on this address and port of TCP"))?;
    Ok(TcpListener::from(socket))
}

/// Several sockets share the port: the kernel prefers connected ones for their peers. Unlike `SO_REUSEADDR`, which lets every
/// user of the host share it and take its datagrams, `SO_REUSEPORT` is for sockets of one user.
pub(super) fn datagram_socket(address: SocketAddr, only_v6: bool) -> Result<UdpSocket, Error> {
    let socket = socket_for(address, SocketType::DGRAM, only_v6)?;
    rustix::net::bind(&socket, &address)
        .map_err(|errno| Error::System("listen on this address and port of UDP", errno))?;
    Ok(UdpSocket::from(socket))
}

fn socket_for(address: SocketAddr, kind: SocketType, only_v6: bool) -> Result<OwnedFd, Error> {
    let failed = |operation| move |errno: Errno| Error::System(operation, errno);
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let protocol = if kind == SocketType::STREAM {
        ipproto::TCP
    } else {
        ipproto::UDP
    };
    // A connection can disappear between poll and accept.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        rustix::net::socket_with(family, kind, flags, Some(protocol)).map_err(failed("open a socket"))?;
    if kind == SocketType::STREAM {
        // Listening sockets do not share a port; connections in TIME_WAIT do not keep it.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("set SO_REUSEADDR"))?;
    } else {
        sockopt::set_socket_reuseport(&socket, true).map_err(failed("set SO_REUSEPORT"))?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, only_v6).map_err(failed("set IPV6_V6ONLY"))?;
    }
    Ok(socket)
}

const BACKLOG: i32 = 512;
