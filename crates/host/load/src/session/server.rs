//! The server's end of a session.

use super::channel::{Channel, is_timeout};
use super::client::system;
use super::registry::{ARRIVALS_MAX, CONNECTIONS_MAX, DataSocket, TESTS_MAX, TestRegistry};
use super::test::Test;
use super::{Error, Kind, PREAMBLE_LEN, Preamble, Role, Stop, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use serde_json::json;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Listens on a TCP port and the same UDP port, and passes tests to a [`Handler`].
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    /// Receives the first datagrams; an error if UDP is not available.
    udp: Result<UdpSocket, Error>,
    address: SocketAddr,
    registry: TestRegistry,
}

/// Handles the tests and connections of a [`Server`].
pub(crate) trait Handler: Sync {
    /// Runs a test that a client requested.
    fn test(&self, test: Test<'_>);
    /// Handles connection `number`, of an iperf3 client; nothing of its cookie has been read.
    fn iperf3(&self, number: u64, connection: TcpStream, stop: &Stop);
    /// Handles a datagram of another protocol, received on the shared socket.
    fn datagram(&self, bytes: &[u8], from: SocketAddr, socket: &UdpSocket);
    /// Returns whether the server shall end; called after each test.
    fn is_enough(&self) -> bool;
    /// Returns whether only iperf3's protocol is served.
    fn only_iperf3(&self) -> bool;
    /// Logs a line.
    fn say(&self, line: &str);
}

impl Server {
    /// Listens on `address`, or on all addresses of a family, or of both.
    pub(crate) fn bind(address: Option<IpAddr>, is_v6: Option<bool>, port: u16) -> Result<Self, Error> {
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

    /// Serves until the handler has enough, or `stop` is set. Returns when all tests have ended.
    pub(crate) fn run(&self, handler: &dyn Handler, stop: &Stop) -> Result<(), Error> {
        let mut number = 0;
        std::thread::scope(|scope| {
            while !stop.is_set() && !handler.is_enough() {
                let (has_connection, has_datagram) = self.wait()?;
                if has_datagram {
                    self.accept_datagram(handler);
                }
                if !has_connection {
                    continue;
                }
                let (stream, from) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        self.accept_failed(&error, handler);
                        continue;
                    }
                };
                number += 1;
                // The socket is IPv6; IPv4 clients are shown with their IPv4 address.
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                let Some(slot) = self.registry.connection_slot() else {
                    // The client only sees that the connection closes.
                    handler.say(&format!(
                        "{from}: {CONNECTIONS_MAX} connections already, one more is not taken"
                    ));
                    continue;
                };
                let spawned = std::thread::Builder::new()
                    .name("connection".to_owned())
                    .spawn_scoped(scope, move || {
                        let _slot = slot;
                        self.identify(number, stream, from, handler, stop);
                    });
                if let Err(error) = spawned {
                    handler.say(&format!("{from}: start a thread: {error}"));
                }
            }
            stop.set();
            Ok(())
        })
    }

    fn wait(&self) -> Result<(bool, bool), Error> {
        let tick = Timespec::try_from(TICK).map_err(|_| Error::System("poll", Errno::INVAL))?;
        let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
        if let Ok(udp) = &self.udp {
            polled.push(PollFd::new(udp, PollFlags::IN));
        }
        match poll(&mut polled, Some(&tick)) {
            Err(Errno::INTR) | Ok(0) => Ok((false, false)),
            Err(errno) => Err(Error::System("poll", errno)),
            Ok(_) => {
                let has = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
                Ok((has(0), has(1)))
            }
        }
    }

    /// Logs a lack of resources. Other errors concern a connection that is gone already.
    fn accept_failed(&self, error: &io::Error, handler: &dyn Handler) {
        let error = system("accept a connection", error);
        if let Error::System(_, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) = error {
            handler.say(&error.to_string());
            std::thread::sleep(TICK);
        }
    }

    /// Finds out the protocol of a connection, and handles it.
    fn identify(&self, number: u64, stream: TcpStream, from: SocketAddr, handler: &dyn Handler, stop: &Stop) {
        let until = Instant::now() + PREAMBLE_TIMEOUT;
        let first = match first_bytes(&stream, until, stop) {
            Ok(first) => first,
            Err(error) => {
                if !matches!(error, Error::Interrupted | Error::Disconnected(None)) {
                    handler.say(&format!("{from}: {error}"));
                }
                return;
            }
        };
        if is_iperf3_cookie(&first) {
            handler.iperf3(number, stream, stop);
            return;
        }
        if handler.only_iperf3() {
            handler.say(&format!("{from}: not an iperf3 client (--iperf3 takes no other)"));
            return;
        }
        if !Preamble::is_prefix(&first) {
            handler.say(&format!("{from}: {}", Error::ForeignClient(first.to_vec())));
            return;
        }
        if let Err(error) = self.handle(stream, from, handler, stop, until)
            && !matches!(error, Error::Interrupted)
        {
            handler.say(&format!("{from}: {error}"));
        }
    }

    fn handle(
        &self,
        stream: TcpStream,
        from: SocketAddr,
        handler: &dyn Handler,
        stop: &Stop,
        until: Instant,
    ) -> Result<(), Error> {
        let mut bytes = [0; PREAMBLE_LEN];
        read_all(&stream, &mut bytes, until)?;
        let preamble = Preamble::parse(&bytes).ok_or_else(|| Error::Malformed("its preamble".to_owned()))?;
        if preamble.role == Role::Data && preamble.check_version().is_ok() {
            return self.registry.deliver(preamble, DataSocket::Tcp(stream));
        }
        let mut channel = Channel::new(stream)?;
        if let Err(error) = preamble.check_version() {
            let said = channel.send(&json!({"error": error.to_string(), "version": super::VERSION}));
            return said.and(Err(error));
        }
        if preamble.role != Role::Control {
            return Err(Error::Malformed("a datagram's preamble over TCP".to_owned()));
        }
        let request = channel.receive("the kind of test", PREAMBLE_TIMEOUT)?;
        let Some(kind) = request["kind"].as_str().and_then(Kind::from_name) else {
            let known = Kind::ALL.map(Kind::name).join(", ");
            let text = format!("no such kind of test; there are {known}");
            return channel.send(&json!({"error": text, "version": super::VERSION}));
        };
        let local = channel.addresses()?.0;
        let (sender, arrivals) = sync_channel(ARRIVALS_MAX);
        let token = Token::random()?;
        if !self.registry.insert(token, local, sender) {
            let text = format!("{TESTS_MAX} tests are running here already; try again later");
            return channel.send(&json!({"error": text, "version": super::VERSION}));
        }
        handler.test(Test {
            kind,
            parameters: request["parameters"].clone(),
            channel,
            local,
            client: from,
            stop: stop.clone(),
            token,
            arrivals,
            registry: &self.registry,
        });
        Ok(())
    }

    /// Reads a first datagram, and creates a socket connected to its sender; the kernel prefers that one from then on.
    fn accept_datagram(&self, handler: &dyn Handler) {
        let Ok(socket) = &self.udp else { return };
        let mut buffer = [0; DATAGRAM_MAX];
        let Ok((len, from)) = socket.recv_from(&mut buffer) else {
            return;
        };
        let datagram = &buffer[..len];
        let Some(preamble) = Preamble::parse(datagram) else {
            handler.datagram(datagram, from, socket);
            return;
        };
        if preamble.role != Role::Datagram || preamble.check_version().is_err() {
            return;
        }
        // A repeated first datagram gets one socket; later repeats arrive at that socket.
        let Some(local) = self.registry.admit(preamble.token, preamble.number) else {
            return;
        };
        // A link-local address keeps its scope.
        let mut own = local;
        own.set_port(self.address.port());
        let made = datagram_socket(own, false).and_then(|socket| {
            let failed = |error: io::Error| system("connect a UDP socket", &error);
            socket.set_nonblocking(false).map_err(failed)?;
            socket.connect(from).map_err(failed)?;
            socket.send(&preamble.welcome().emit()).map_err(failed)?;
            Ok(socket)
        });
        let done = made.and_then(|socket| self.registry.deliver(preamble, DataSocket::Udp(socket)));
        if let Err(error) = done {
            handler.say(&format!("{from}: {error}"));
        }
    }
}

fn listen(address: SocketAddr, only_v6: bool) -> Result<TcpListener, Error> {
    let failed = |operation| move |errno: Errno| Error::System(operation, errno);
    let socket = socket_for(address, SocketType::STREAM, only_v6)?;
    rustix::net::bind(&socket, &address).map_err(failed("listen on this address and port of TCP"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listen on this address and port of TCP"))?;
    Ok(TcpListener::from(socket))
}

/// Several sockets share the port: the kernel prefers connected ones for their peers.
fn datagram_socket(address: SocketAddr, only_v6: bool) -> Result<UdpSocket, Error> {
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
    sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("set SO_REUSEADDR"))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, only_v6).map_err(failed("set IPV6_V6ONLY"))?;
    }
    Ok(socket)
}

/// Peeks at the first eight bytes, which identify the protocol.
fn first_bytes(stream: &TcpStream, until: Instant, stop: &Stop) -> Result<[u8; 8], Error> {
    let gone = |error: io::Error| Error::of_connection(&error);
    stream.set_nonblocking(false).map_err(gone)?;
    let mut buffer = [0; 8];
    loop {
        stop.check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Timeout("its first bytes", PREAMBLE_TIMEOUT));
        }
        stream.set_read_timeout(Some(left.min(TICK))).map_err(gone)?;
        match stream.peek(&mut buffer) {
            Ok(0) => return Err(Error::Disconnected(None)),
            Ok(8) => return Ok(buffer),
            Ok(_) => std::thread::sleep(RETRY_DELAY),
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(gone(error)),
        }
    }
}

fn read_all(mut stream: &TcpStream, mut buffer: &mut [u8], until: Instant) -> Result<(), Error> {
    while !buffer.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Timeout("its preamble", PREAMBLE_TIMEOUT));
        }
        let set = stream.set_read_timeout(Some(left));
        match set.and_then(|()| stream.read(buffer)) {
            Ok(0) => return Err(Error::Disconnected(None)),
            Ok(len) => buffer = &mut buffer[len..],
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::of_connection(&error)),
        }
    }
    Ok(())
}

/// A cookie of iperf3 is 36 of these characters and a NUL.
fn is_iperf3_cookie(first: &[u8]) -> bool {
    first
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(byte))
}

const BACKLOG: i32 = 512;
/// First datagrams are shorter, those of iperf3 as well.
const DATAGRAM_MAX: usize = 2048;
const PREAMBLE_TIMEOUT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(100);
const RETRY_DELAY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iperf3_cookies_are_recognized() {
        assert!(is_iperf3_cookie(b"abcd2345"));
        assert!(!is_iperf3_cookie(b"sockeye\n"));
        assert!(!is_iperf3_cookie(b"GET / HT"));
        assert!(!is_iperf3_cookie(b"abcd1890"));
    }
}
