//! The client's end of a session.

use super::channel::{Channel, frame};
use super::nonce::{Nonce, random};
use super::secret::{Secret, SessionKey, unhex};
use super::{Error, Kind, Preamble, Role, Stop, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use serde_json::{Value, json};
use sockeye_sys::tcp::set_bind_without_port;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Where to connect, and with which limits.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Name or address, as it was typed.
    pub host: String,
    /// TCP and UDP port.
    pub port: u16,
    /// `true`: IPv6 only; `false`: IPv4 only; `None`: both.
    pub is_v6: Option<bool>,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Local address of all connections; `None`: chosen by the kernel.
    pub from: Option<IpAddr>,
    /// What the server has to know, and to be shown that we know.
    pub secret: Option<Secret>,
}

impl Connector {
    /// Resolves the host: all addresses of the requested family, in the resolver's order.
    ///
    /// # Errors
    /// [`Error::Unresolved`].
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        // An IPv6 address may be typed in brackets.
        let bare = self
            .host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let host = bare.unwrap_or(&self.host);
        let unresolved = |error| Error::Unresolved {
            host: self.host.clone(),
            error,
        };
        let found = (host, self.port)
            .to_socket_addrs()
            .map_err(|error| unresolved(Some(error)))?;
        let wanted = |address: &SocketAddr| self.is_v6.is_none_or(|is_v6| address.is_ipv6() == is_v6);
        let list: Vec<_> = found.filter(wanted).collect();
        if list.is_empty() {
            return Err(unresolved(None));
        }
        Ok(list)
    }

    /// Connects to the first address that answers.
    ///
    /// # Errors
    /// If none does.
    pub fn connect(&self, stop: &Stop) -> Result<TcpStream, Error> {
        let mut failure = None;
        for address in self.addresses()? {
            let prepare = |socket: BorrowedFd<'_>, address| match self.from {
                Some(from) => bind_to(socket, from, address),
                None => Ok(()),
            };
            match connect(address, self.timeout, stop, &prepare) {
                Ok(stream) => return Ok(stream),
                Err(error @ Error::Interrupted) => return Err(error),
                // The first error is the most useful: later ones may only mean that a family is missing.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or(Error::Disconnected(None)))
    }
}

/// A test that the server has accepted.
#[derive(Debug)]
pub(crate) struct Session {
    /// The control connection.
    pub(crate) channel: Channel,
    /// The server's answer to the request.
    pub(crate) answer: Value,
    /// Local address of the control connection.
    pub(crate) local: SocketAddr,
    /// The server's address.
    pub(crate) server: SocketAddr,
    token: Token,
    key: SessionKey,
    timeout: Duration,
    stop: Stop,
}

impl Session {
    /// Connects, and requests a test of this kind.
    pub(crate) fn open(
        connector: &Connector,
        kind: Kind,
        parameters: &Value,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let stream = connector.connect(stop)?;
        let mut channel = Channel::new(stream)?;
        let (local, server) = channel.addresses()?;
        let nonce = random()?;
        channel.send_bytes(&Preamble::control(nonce).emit())?;
        let challenge = first_answer(&mut channel, connector.timeout, stop)?;
        let server_nonce = server_nonce(&challenge, connector.secret.is_some())?;
        let key = SessionKey::new(connector.secret.as_ref(), &nonce, &server_nonce);
        let request = json!({"kind": kind.name(), "parameters": parameters});
        let mut bytes = key.client_proof(request.to_string().as_bytes()).to_vec();
        bytes.extend_from_slice(&frame(&request)?);
        channel.send_bytes(&bytes)?;
        let answer = answer(&mut channel, connector.timeout, stop)?;
        let token = token_of(&answer, &key)?;
        Ok(Self {
            channel,
            answer: answer["ok"].clone(),
            local,
            server,
            token,
            key,
            timeout: connector.timeout,
            stop: stop.clone(),
        })
    }

    /// Returns the preamble of data connection `number` of the test.
    #[must_use]
    pub(crate) fn preamble(&self, number: u16) -> Preamble {
        self.key.preamble(Role::Data, self.token, number)
    }

    /// Waits until the server is ready for data.
    pub(crate) fn await_ready(&mut self) -> Result<(), Error> {
        let until = Instant::now() + self.timeout;
        loop {
            self.stop.check()?;
            match self.channel.poll(TICK)? {
                Some(message) if message["ready"] == json!(true) => return Ok(()),
                Some(message) => {
                    if let Some(error) = message["error"].as_str() {
                        return Err(Error::rejected(error));
                    }
                }
                None => {}
            }
            // Also if it sends other messages without end.
            if Instant::now() >= until {
                return Err(Error::Timeout("its readiness", self.timeout));
            }
        }
    }

    /// Opens data connection `number` of the test. `prepare` sets socket options before it connects.
    pub(crate) fn data(&self, number: u16, prepare: &Prepare<'_>) -> Result<TcpStream, Error> {
        let stream = connect(self.server, self.timeout, &self.stop, prepare)?;
        let preamble = self.preamble(number).emit();
        io::Write::write_all(&mut &stream, &preamble).map_err(|error| Error::of_connection(&error))?;
        Ok(stream)
    }

    /// Opens UDP socket `number` of the test, connected to a socket of the server for this test alone.
    ///
    /// # Errors
    /// If it cannot be opened, or the server does not answer.
    pub(crate) fn datagrams(&self, number: u16) -> Result<UdpSocket, Error> {
        let failed = |operation| move |error: io::Error| system(operation, &error);
        let own = own_address(self.local.ip(), self.server);
        let socket = UdpSocket::bind(own).map_err(failed("bind a UDP socket"))?;
        socket
            .connect(self.server)
            .map_err(failed("connect a UDP socket"))?;
        let hello = self.key.preamble(Role::Datagram, self.token, number);
        let mut next = hello;
        let until = Instant::now() + self.timeout;
        let mut refused = None;
        while Instant::now() < until {
            self.stop.check()?;
            // Datagrams can be lost: it is sent again.
            let sent = socket.send(&next.emit());
            let set = socket.set_read_timeout(Some(DATAGRAM_TIMEOUT));
            let mut buffer = [0; 64];
            match sent.and(set).and_then(|()| socket.recv(&mut buffer)) {
                Ok(len) => {
                    let answer = Preamble::parse(&buffer[..len]);
                    let Some(answer) = answer.filter(|answer| answer.token == self.token) else {
                        continue;
                    };
                    match answer.role {
                        Role::Welcome => {
                            next = self.key.confirmation(Preamble {
                                tag: answer.tag,
                                ..hello
                            });
                        }
                        Role::Ready => return Ok(socket),
                        _ => {}
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    refused = Some(Errno::CONNREFUSED);
                    std::thread::sleep(DATAGRAM_TIMEOUT);
                }
                Err(_) => {}
            }
        }
        Err(refused.map_or(
            Error::Timeout(
                "an answer over UDP (does a firewall let it through?)",
                self.timeout,
            ),
            |errno| Error::System("send over UDP", errno),
        ))
    }
}

/// Returns the local address to bind to before connecting to `server`, with any port. A link-local address needs the
/// scope of the server's.
pub(crate) fn own_address(ip: IpAddr, server: SocketAddr) -> SocketAddr {
    match (ip, server) {
        (IpAddr::V6(ip), SocketAddr::V6(server)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, 0, 0, server.scope_id()).into()
        }
        _ => SocketAddr::new(ip, 0),
    }
}

/// Binds a socket to a local address before it connects; the kernel chooses the port then.
///
/// # Errors
/// If the address is not one of this host.
pub(crate) fn bind_to(socket: BorrowedFd<'_>, from: IpAddr, server: SocketAddr) -> Result<(), Error> {
    let failed = |errno| Error::System("bind to the address of -B", errno);
    set_bind_without_port(socket).map_err(failed)?;
    rustix::net::bind(socket, &own_address(from, server)).map_err(failed)
}

/// Returns the server's nonce from its first answer.
///
/// # Errors
/// If it refuses, sends no challenge, or only one of both ends has a secret.
pub(super) fn server_nonce(challenge: &Value, has_secret: bool) -> Result<Nonce, Error> {
    check_refusal(challenge)?;
    let nonce = challenge["challenge"].as_str().and_then(unhex);
    let nonce = nonce.ok_or_else(|| Error::Malformed("an answer without a challenge".to_owned()))?;
    match (has_secret, challenge["secret"] == json!(true)) {
        (false, true) => Err(Error::SecretWanted),
        (true, false) => Err(Error::SecretUnknown),
        _ => Ok(nonce),
    }
}

/// Returns the token of the test from the answer to the request.
///
/// # Errors
/// If the server refuses, sends no token, or does not know the key.
pub(super) fn token_of(answer: &Value, key: &SessionKey) -> Result<Token, Error> {
    check_refusal(answer)?;
    let token = answer["ok"]["token"].as_str().and_then(Token::parse);
    let token = token.ok_or_else(|| Error::Malformed("an answer without a token".to_owned()))?;
    let proof = answer["ok"]["proof"].as_str().unwrap_or_default();
    if key.is_server_proof(token, proof) {
        Ok(token)
    } else {
        Err(Error::WrongSecret)
    }
}

/// Returns the error of a refusal.
fn check_refusal(answer: &Value) -> Result<(), Error> {
    let Some(error) = answer["error"].as_str() else {
        return Ok(());
    };
    Err(
        match answer["version"].as_u64().and_then(|it| u8::try_from(it).ok()) {
            Some(theirs) if theirs != super::VERSION => Error::Version {
                ours: super::VERSION,
                theirs,
            },
            _ => Error::rejected(error),
        },
    )
}

/// Receives an answer.
fn answer(channel: &mut Channel, timeout: Duration, stop: &Stop) -> Result<Value, Error> {
    let until = Instant::now() + timeout;
    loop {
        stop.check()?;
        match channel.poll(TICK)? {
            Some(answer) => return Ok(answer),
            None if Instant::now() >= until => {
                return Err(Error::Timeout("an answer to the request", timeout));
            }
            None => {}
        }
    }
}

/// Receives the first answer, and recognizes servers of other protocols by their first bytes.
fn first_answer(channel: &mut Channel, timeout: Duration, stop: &Stop) -> Result<Value, Error> {
    let until = Instant::now() + timeout;
    loop {
        stop.check()?;
        match channel.poll(TICK) {
            Ok(Some(answer)) => return Ok(answer),
            // PARAM_EXCHANGE, ACCESS_DENIED
            Err(Error::ForeignServer(bytes)) if bytes == [9] || bytes == [0xff] => {
                return Err(Error::Iperf3Server);
            }
            // The server may close before its last bytes are read.
            Err(Error::Disconnected(_))
                if channel.pending_starts_with(9) || channel.pending_starts_with(0xff) =>
            {
                return Err(Error::Iperf3Server);
            }
            Err(Error::Disconnected(errno)) => return Err(Error::ClosedAtOnce(errno)),
            Err(error) => return Err(error),
            Ok(None) if channel.pending_starts_with(9) || channel.pending_starts_with(0xff) => {
                return Err(Error::Iperf3Server);
            }
            Ok(None) if Instant::now() >= until => {
                return Err(Error::Timeout(
                    "an answer (is it `sockeye bench serve` that listens there?)",
                    timeout,
                ));
            }
            Ok(None) => {}
        }
    }
}

/// Sets options of a socket before it connects to the address.
pub(crate) type Prepare<'a> = dyn Fn(BorrowedFd<'_>, SocketAddr) -> Result<(), Error> + 'a;

/// Opens a TCP connection within `timeout`. `prepare` sets socket options before.
///
/// # Errors
/// If it fails, takes too long, or `stop` is set.
pub fn connect(
    address: SocketAddr,
    timeout: Duration,
    stop: &Stop,
    prepare: &Prepare<'_>,
) -> Result<TcpStream, Error> {
    let socket = tcp_socket(address.ip())?;
    prepare(socket.as_fd(), address)?;
    let failed = |errno: Errno| match errno {
        Errno::CONNREFUSED => Error::Refused(address),
        Errno::TIMEDOUT => Error::ConnectTimeout(address, timeout),
        errno => Error::Connect(address, errno),
    };
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            await_writable(&socket, address, timeout, stop)?;
            sockopt::socket_error(&socket).map_err(failed)?.map_err(failed)?;
        }
        Err(errno) => return Err(failed(errno)),
    }
    let flags = fcntl_getfl(&socket).map_err(|errno| Error::System("fcntl", errno))?;
    fcntl_setfl(&socket, flags - OFlags::NONBLOCK).map_err(|errno| Error::System("fcntl", errno))?;
    Ok(TcpStream::from(socket))
}

fn await_writable(
    socket: &OwnedFd,
    address: SocketAddr,
    timeout: Duration,
    stop: &Stop,
) -> Result<(), Error> {
    let until = Instant::now() + timeout;
    let tick = Timespec::try_from(TICK).map_err(|_| Error::System("poll", Errno::INVAL))?;
    loop {
        stop.check()?;
        let mut polled = [PollFd::new(socket, PollFlags::OUT)];
        match poll(&mut polled, Some(&tick)) {
            Err(Errno::INTR) | Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(Error::System("poll", errno)),
        }
        if Instant::now() >= until {
            return Err(Error::ConnectTimeout(address, timeout));
        }
    }
}

fn tcp_socket(ip: IpAddr) -> Result<OwnedFd, Error> {
    let family = if ip.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
        .map_err(|errno| Error::System("open a socket", errno))
}

pub(super) fn system(operation: &'static str, error: &io::Error) -> Error {
    Error::System(operation, Errno::from_io_error(error).unwrap_or(Errno::IO))
}

/// Interval between two checks of the stop flag.
const TICK: Duration = Duration::from_millis(50);
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(200);
