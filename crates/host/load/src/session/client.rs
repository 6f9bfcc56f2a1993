//! The end that begins.

use super::channel::Channel;
use super::{Kind, Preamble, Role, Stop, Token, Trouble};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use serde_json::{Value, json};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Who is to be reached, and how.
#[derive(Debug, Clone)]
pub struct Reach {
    /// A name or an address, as it was typed
    pub host: String,
    /// Of TCP and of UDP
    pub port: u16,
    /// IPv6 alone, IPv4 alone, or whatever there is
    pub is_v6: Option<bool>,
    /// How long an answer may take
    pub patience: Duration,
}

impl Reach {
    /// All addresses that may be tried, in the resolver's order.
    ///
    /// # Errors
    /// [`Trouble::Unresolved`].
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Trouble> {
        // An IPv6 address may be typed in brackets.
        let bare = self
            .host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let host = bare.unwrap_or(&self.host);
        let unresolved = |error| Trouble::Unresolved {
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
}

/// A test at the other end.
#[derive(Debug)]
pub struct Session {
    /// For what is said about it
    pub channel: Channel,
    /// What the server said when it took it
    pub answer: Value,
    /// Our address of the control connection
    pub local: SocketAddr,
    /// The server's
    pub server: SocketAddr,
    token: Token,
    patience: Duration,
    stop: Stop,
}

impl Session {
    /// Connects, and asks for a test of this kind.
    ///
    /// # Errors
    /// When nobody is there, or does not want to.
    pub fn open(reach: &Reach, kind: Kind, parameters: &Value, stop: &Stop) -> Result<Self, Trouble> {
        let stream = connect_any(reach, stop)?;
        let mut channel = Channel::new(stream)?;
        let (local, server) = channel.addresses()?;
        channel.send_bytes(&Preamble::control().emit())?;
        channel.send(&json!({"kind": kind.name(), "parameters": parameters}))?;
        let answer = hear(&mut channel, reach.patience, stop)?;
        if let Some(error) = answer["error"].as_str() {
            return Err(
                match answer["version"].as_u64().and_then(|it| u8::try_from(it).ok()) {
                    Some(theirs) if theirs != super::VERSION => Trouble::Version {
                        ours: super::VERSION,
                        theirs,
                    },
                    _ => Trouble::Rejected(error.to_owned()),
                },
            );
        }
        let token = answer["ok"]["token"].as_str().and_then(Token::parse);
        let token = token.ok_or_else(|| Trouble::Nonsense("an answer without a token".to_owned()))?;
        Ok(Self {
            channel,
            answer: answer["ok"].clone(),
            local,
            server,
            token,
            patience: reach.patience,
            stop: stop.clone(),
        })
    }

    /// By what the server knows what belongs to the test.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// One more connection for the test. `prepare` sets options before it is made.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn data(&self, lane: u16, prepare: &Prepare<'_>) -> Result<TcpStream, Trouble> {
        let stream = connect(self.server, self.patience, &self.stop, prepare)?;
        let preamble = Preamble::data(self.token, lane).emit();
        io::Write::write_all(&mut &stream, &preamble).map_err(|error| Trouble::of_connection(&error))?;
        Ok(stream)
    }

    /// A UDP socket that is connected to one of the server's own for this test.
    ///
    /// # Errors
    /// When it cannot be made, or nothing comes back.
    pub fn datagrams(&self, lane: u16) -> Result<UdpSocket, Trouble> {
        self.datagrams_from(lane, None)
    }

    /// The same from an address of this host.
    ///
    /// # Errors
    /// As above, or when it is none.
    pub fn datagrams_from(&self, lane: u16, from: Option<IpAddr>) -> Result<UdpSocket, Trouble> {
        let failed = |operation| move |error: io::Error| system(operation, &error);
        let own = own_address(from.unwrap_or(self.local.ip()), self.server);
        let socket = UdpSocket::bind(own).map_err(failed("bind a UDP socket"))?;
        socket
            .connect(self.server)
            .map_err(failed("connect a UDP socket"))?;
        let first = Preamble {
            role: Role::Datagram,
            ..Preamble::data(self.token, lane)
        };
        let until = Instant::now() + self.patience;
        let mut refused = None;
        while Instant::now() < until {
            self.stop.check()?;
            // Whether a datagram gets there, nobody promises: it is sent again.
            let sent = socket.send(&first.emit());
            let set = socket.set_read_timeout(Some(DATAGRAM_PATIENCE));
            let mut room = [0; 64];
            match sent.and(set).and_then(|()| socket.recv(&mut room)) {
                Ok(len) => {
                    let answer = Preamble::parse(&room[..len]);
                    if answer.is_some_and(|answer| answer.role == Role::Welcome && answer.token == self.token)
                    {
                        return Ok(socket);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    refused = Some(Errno::CONNREFUSED);
                    std::thread::sleep(DATAGRAM_PATIENCE);
                }
                Err(_) => {}
            }
        }
        Err(refused.map_or(
            Trouble::Silent(
                "an answer over UDP (does a firewall let it through?)",
                self.patience,
            ),
            |errno| Trouble::System("send over UDP", errno),
        ))
    }
}

/// Any port of this address of ours, for what goes to `server`. One of a link is nothing without its device.
#[must_use]
pub fn own_address(ip: IpAddr, server: SocketAddr) -> SocketAddr {
    match (ip, server) {
        (IpAddr::V6(ip), SocketAddr::V6(server)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, 0, 0, server.scope_id()).into()
        }
        _ => SocketAddr::new(ip, 0),
    }
}

/// The first answer. Whoever speaks something else is told by how it begins.
fn hear(channel: &mut Channel, patience: Duration, stop: &Stop) -> Result<Value, Trouble> {
    let until = Instant::now() + patience;
    loop {
        stop.check()?;
        match channel.poll(TICK) {
            Ok(Some(answer)) => return Ok(answer),
            // PARAM_EXCHANGE, ACCESS_DENIED
            Err(Trouble::Foreign(bytes)) if bytes == [9] || bytes == [0xff] => {
                return Err(Trouble::Iperf3Server);
            }
            // What does not understand us may be quicker to close than we to read.
            Err(Trouble::Gone(_)) if channel.begun_with(9) || channel.begun_with(0xff) => {
                return Err(Trouble::Iperf3Server);
            }
            Err(Trouble::Gone(errno)) => return Err(Trouble::Unwelcome(errno)),
            Err(trouble) => return Err(trouble),
            Ok(None) if channel.begun_with(9) || channel.begun_with(0xff) => {
                return Err(Trouble::Iperf3Server);
            }
            Ok(None) if Instant::now() >= until => {
                return Err(Trouble::Silent(
                    "an answer (is it `sockeye bench serve` that listens there?)",
                    patience,
                ));
            }
            Ok(None) => {}
        }
    }
}

fn connect_any(reach: &Reach, stop: &Stop) -> Result<TcpStream, Trouble> {
    let mut failure = None;
    for address in reach.addresses()? {
        match connect(address, reach.patience, stop, &|_, _| Ok(())) {
            Ok(stream) => return Ok(stream),
            Err(trouble @ Trouble::Stopped) => return Err(trouble),
            // The first says most: others may only be of a family that is not there.
            Err(trouble) => failure = failure.or(Some(trouble)),
        }
    }
    Err(failure.unwrap_or(Trouble::Gone(None)))
}

/// Sets options of a socket before it is connected to where.
pub type Prepare<'a> = dyn Fn(BorrowedFd<'_>, SocketAddr) -> Result<(), Trouble> + 'a;

/// A TCP connection, or why there is none within `patience`.
///
/// # Errors
/// When there is none.
pub fn connect(
    address: SocketAddr,
    patience: Duration,
    stop: &Stop,
    prepare: &Prepare<'_>,
) -> Result<TcpStream, Trouble> {
    let socket = tcp_socket(address.ip())?;
    prepare(socket.as_fd(), address)?;
    let failed = |errno: Errno| match errno {
        Errno::CONNREFUSED => Trouble::Refused(address),
        Errno::TIMEDOUT => Trouble::Unanswered(address, patience),
        errno => Trouble::Connect(address, errno),
    };
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            await_writable(&socket, address, patience, stop)?;
            sockopt::socket_error(&socket).map_err(failed)?.map_err(failed)?;
        }
        Err(errno) => return Err(failed(errno)),
    }
    let flags = fcntl_getfl(&socket).map_err(|errno| Trouble::System("fcntl", errno))?;
    fcntl_setfl(&socket, flags - OFlags::NONBLOCK).map_err(|errno| Trouble::System("fcntl", errno))?;
    Ok(TcpStream::from(socket))
}

fn await_writable(
    socket: &OwnedFd,
    address: SocketAddr,
    patience: Duration,
    stop: &Stop,
) -> Result<(), Trouble> {
    let until = Instant::now() + patience;
    let tick = Timespec::try_from(TICK).map_err(|_| Trouble::System("poll", Errno::INVAL))?;
    loop {
        stop.check()?;
        let mut polled = [PollFd::new(socket, PollFlags::OUT)];
        match poll(&mut polled, Some(&tick)) {
            Err(Errno::INTR) | Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(Trouble::System("poll", errno)),
        }
        if Instant::now() >= until {
            return Err(Trouble::Unanswered(address, patience));
        }
    }
}

fn tcp_socket(ip: IpAddr) -> Result<OwnedFd, Trouble> {
    let family = if ip.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
        .map_err(|errno| Trouble::System("open a socket", errno))
}

pub(super) fn system(operation: &'static str, error: &io::Error) -> Trouble {
    Trouble::System(operation, Errno::from_io_error(error).unwrap_or(Errno::IO))
}

/// How long nobody looks whether he is to stop.
const TICK: Duration = Duration::from_millis(50);
const DATAGRAM_PATIENCE: Duration = Duration::from_millis(200);
