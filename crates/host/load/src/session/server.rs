//! The end that waits.

use super::channel::{Channel, is_timeout};
use super::client::system;
use super::test::{Data, Test};
use super::{Kind, PREAMBLE_LEN, Preamble, Role, Stop, Token, Trouble};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Listens on one port of TCP, and on the same of UDP, and hands tests over to whom they concern.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// UDP's first datagrams come here.
    door: Result<UdpSocket, Trouble>,
    address: SocketAddr,
    desk: Desk,
}

/// What a server does with whom it hears of.
pub trait Host: Sync {
    /// A client wants this.
    fn test(&self, test: Test<'_>);
    /// An iperf3 client connected, the `number`th of all connections; nothing of its cookie has been read.
    fn iperf3(&self, number: u64, connection: TcpStream, stop: &Stop);
    /// A datagram came that is none of ours, on a socket that serves everybody.
    fn datagram(&self, bytes: &[u8], from: SocketAddr, door: &UdpSocket);
    /// Whether to end now: asked after each test.
    fn is_enough(&self) -> bool;
    /// Whether only iperf3's protocol is spoken.
    fn only_iperf3(&self) -> bool;
    /// Something to be told.
    fn say(&self, line: &str);
}

impl Server {
    /// Listens at `address`, or at every one of this family, or of both.
    ///
    /// # Errors
    /// When the port is taken, the address is not one of this host, or the like.
    pub fn bind(address: Option<IpAddr>, is_v6: Option<bool>, port: u16) -> Result<Self, Trouble> {
        let ip = address.unwrap_or(match is_v6 {
            Some(false) => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        });
        let only_v6 = is_v6 == Some(true);
        let listener = match listen(SocketAddr::new(ip, port), only_v6) {
            // Hosts without IPv6.
            Err(Trouble::System(_, Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
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
            door: datagram_socket(address, only_v6),
            address,
            desk: Desk::default(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why it does not take UDP, if it does not.
    #[must_use]
    pub fn without_udp(&self) -> Option<&Trouble> {
        self.door.as_ref().err()
    }

    /// Serves until it is enough, or until `stop` is set. Ends when all tests have ended.
    ///
    /// # Errors
    /// When waiting is not possible any more.
    pub fn run(&self, host: &dyn Host, stop: &Stop) -> Result<(), Trouble> {
        let mut number = 0;
        std::thread::scope(|scope| {
            while !stop.is_set() && !host.is_enough() {
                let (has_caller, has_datagram) = self.wait()?;
                if has_datagram {
                    self.open_door(host);
                }
                if !has_caller {
                    continue;
                }
                let (stream, from) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        self.not_accepted(&error, host);
                        continue;
                    }
                };
                number += 1;
                // What came over IPv4 is called so, though the socket is one of IPv6.
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                let Some(seat) = self.desk.seat() else {
                    // Nothing is said to it: it is closed, and that is what it sees.
                    host.say(&format!(
                        "{from}: {CALLERS_MAX} connections already, one more is not taken"
                    ));
                    continue;
                };
                let spawned = std::thread::Builder::new()
                    .name("caller".to_owned())
                    .spawn_scoped(scope, move || {
                        let _seat = seat;
                        self.greet(number, stream, from, host, stop);
                    });
                if let Err(error) = spawned {
                    host.say(&format!("{from}: start a thread: {error}"));
                }
            }
            stop.set();
            Ok(())
        })
    }

    fn wait(&self) -> Result<(bool, bool), Trouble> {
        let tick = Timespec::try_from(TICK).map_err(|_| Trouble::System("poll", Errno::INVAL))?;
        let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
        if let Ok(door) = &self.door {
            polled.push(PollFd::new(door, PollFlags::IN));
        }
        match poll(&mut polled, Some(&tick)) {
            Err(Errno::INTR) | Ok(0) => Ok((false, false)),
            Err(errno) => Err(Trouble::System("poll", errno)),
            Ok(_) => {
                let has = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
                Ok((has(0), has(1)))
            }
        }
    }

    /// One that was there is gone already, or there is no room for it: the rest goes on.
    fn not_accepted(&self, error: &io::Error, host: &dyn Host) {
        let trouble = system("accept a connection", error);
        if let Trouble::System(_, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) = trouble {
            host.say(&trouble.to_string());
            std::thread::sleep(TICK);
        }
    }

    /// Finds out who it is.
    fn greet(&self, number: u64, stream: TcpStream, from: SocketAddr, host: &dyn Host, stop: &Stop) {
        let until = Instant::now() + GREETING_PATIENCE;
        let first = match first_bytes(&stream, until, stop) {
            Ok(first) => first,
            Err(trouble) => {
                if !matches!(trouble, Trouble::Stopped | Trouble::Gone(None)) {
                    host.say(&format!("{from}: {trouble}"));
                }
                return;
            }
        };
        if is_iperf3_cookie(&first) {
            host.iperf3(number, stream, stop);
            return;
        }
        if host.only_iperf3() {
            host.say(&format!("{from}: not an iperf3 client (--iperf3 takes no other)"));
            return;
        }
        if !Preamble::begins(&first) {
            host.say(&format!("{from}: {}", Trouble::Stranger(first.to_vec())));
            return;
        }
        if let Err(trouble) = self.talk(stream, from, host, stop, until)
            && !matches!(trouble, Trouble::Stopped)
        {
            host.say(&format!("{from}: {trouble}"));
        }
    }

    fn talk(
        &self,
        stream: TcpStream,
        from: SocketAddr,
        host: &dyn Host,
        stop: &Stop,
        until: Instant,
    ) -> Result<(), Trouble> {
        let mut bytes = [0; PREAMBLE_LEN];
        read_all(&stream, &mut bytes, until)?;
        let preamble = Preamble::parse(&bytes).ok_or_else(|| Trouble::Nonsense("its preamble".to_owned()))?;
        if preamble.role == Role::Data && preamble.matches().is_ok() {
            return self.desk.hand_over(preamble, Data::Tcp(stream));
        }
        let mut channel = Channel::new(stream)?;
        if let Err(trouble) = preamble.matches() {
            let said = channel.send(&json!({"error": trouble.to_string(), "version": super::VERSION}));
            return said.and(Err(trouble));
        }
        if preamble.role != Role::Control {
            return Err(Trouble::Nonsense("a datagram's preamble over TCP".to_owned()));
        }
        let wish = channel.receive("what kind of test it wants", GREETING_PATIENCE)?;
        let Some(kind) = wish["kind"].as_str().and_then(Kind::from_name) else {
            let known = Kind::ALL.map(Kind::name).join(", ");
            let text = format!("no such kind of test; there are {known}");
            return channel.send(&json!({"error": text, "version": super::VERSION}));
        };
        let local = channel.addresses()?.0;
        let (sender, arrivals) = sync_channel(ARRIVALS_MAX);
        let token = Token::random()?;
        if !self.desk.remember(token, local, sender) {
            let text = format!("{TESTS_MAX} tests are running here already; try again later");
            return channel.send(&json!({"error": text, "version": super::VERSION}));
        }
        host.test(Test {
            kind,
            parameters: wish["parameters"].clone(),
            channel,
            local,
            client: from,
            stop: stop.clone(),
            token,
            arrivals,
            desk: &self.desk,
        });
        Ok(())
    }

    /// Whoever knocks with a test's token gets a socket of its own, which the kernel prefers from then on.
    fn open_door(&self, host: &dyn Host) {
        let Ok(door) = &self.door else { return };
        let mut room = [0; DATAGRAM_MAX];
        let Ok((len, from)) = door.recv_from(&mut room) else {
            return;
        };
        let datagram = &room[..len];
        let Some(preamble) = Preamble::parse(datagram) else {
            host.datagram(datagram, from, door);
            return;
        };
        if preamble.role != Role::Datagram || preamble.matches().is_err() {
            return;
        }
        // Who knocks twice before the door is opened is let in once; later the test itself hears it.
        let Some(local) = self.desk.let_in(preamble.token, preamble.lane) else {
            return;
        };
        // With its device, if it is an address of a link.
        let mut own = local;
        own.set_port(self.address.port());
        let made = datagram_socket(own, false).and_then(|socket| {
            let failed = |error: io::Error| system("connect a UDP socket", &error);
            socket.set_nonblocking(false).map_err(failed)?;
            socket.connect(from).map_err(failed)?;
            socket.send(&preamble.welcome().emit()).map_err(failed)?;
            Ok(socket)
        });
        let done = made.and_then(|socket| self.desk.hand_over(preamble, Data::Udp(socket)));
        if let Err(trouble) = done {
            host.say(&format!("{from}: {trouble}"));
        }
    }
}

/// Which tests there are, and how many callers.
#[derive(Debug, Default)]
pub(super) struct Desk {
    tests: Mutex<HashMap<Token, Entry>>,
    callers: AtomicUsize,
}

/// A test that runs.
#[derive(Debug)]
struct Entry {
    /// Our address in it
    local: SocketAddr,
    arrivals: SyncSender<(u16, Data)>,
    /// Which of its UDP sockets are made
    let_in: HashSet<u16>,
}

impl Desk {
    fn remember(&self, token: Token, local: SocketAddr, arrivals: SyncSender<(u16, Data)>) -> bool {
        let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = tests.len() < TESTS_MAX;
        if has_room {
            let let_in = HashSet::new();
            let entry = Entry {
                local,
                arrivals,
                let_in,
            };
            tests.insert(token, entry);
        }
        has_room
    }

    pub(super) fn forget(&self, token: Token) {
        let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        tests.remove(&token);
    }

    /// Our address in this test, if it has no such UDP socket yet.
    fn let_in(&self, token: Token, lane: u16) -> Option<SocketAddr> {
        let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = tests.get_mut(&token)?;
        (entry.let_in.len() < ARRIVALS_MAX && entry.let_in.insert(lane)).then_some(entry.local)
    }

    fn hand_over(&self, preamble: Preamble, data: Data) -> Result<(), Trouble> {
        let tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = tests
            .get(&preamble.token)
            .ok_or_else(|| Trouble::Nonsense("data for a test that is not there".to_owned()))?;
        entry
            .arrivals
            .try_send((preamble.lane, data))
            .map_err(|_| Trouble::Nonsense("more connections for data than it takes".to_owned()))
    }

    fn seat(&self) -> Option<Seat<'_>> {
        let seat = Seat(&self.callers);
        let taken = self.callers.fetch_add(1, Ordering::Relaxed);
        (taken < CALLERS_MAX).then_some(seat)
    }
}

/// One of so many callers.
struct Seat<'a>(&'a AtomicUsize);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn listen(address: SocketAddr, only_v6: bool) -> Result<TcpListener, Trouble> {
    let failed = |operation| move |errno: Errno| Trouble::System(operation, errno);
    let socket = socket_for(address, SocketType::STREAM, only_v6)?;
    rustix::net::bind(&socket, &address).map_err(failed("listen on this address and port of TCP"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listen on this address and port of TCP"))?;
    Ok(TcpListener::from(socket))
}

/// Several may share the port: those that are connected get what is for them, the door the rest.
fn datagram_socket(address: SocketAddr, only_v6: bool) -> Result<UdpSocket, Trouble> {
    let socket = socket_for(address, SocketType::DGRAM, only_v6)?;
    rustix::net::bind(&socket, &address)
        .map_err(|errno| Trouble::System("listen on this address and port of UDP", errno))?;
    Ok(UdpSocket::from(socket))
}

fn socket_for(address: SocketAddr, kind: SocketType, only_v6: bool) -> Result<OwnedFd, Trouble> {
    let failed = |operation| move |errno: Errno| Trouble::System(operation, errno);
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
    // Whoever was there when it was polled may be gone when it is accepted.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        rustix::net::socket_with(family, kind, flags, Some(protocol)).map_err(failed("open a socket"))?;
    sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("set SO_REUSEADDR"))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, only_v6).map_err(failed("set IPV6_V6ONLY"))?;
    }
    Ok(socket)
}

/// As many as tell who it is, which are not taken.
fn first_bytes(stream: &TcpStream, until: Instant, stop: &Stop) -> Result<[u8; 8], Trouble> {
    let gone = |error: io::Error| Trouble::of_connection(&error);
    stream.set_nonblocking(false).map_err(gone)?;
    let mut room = [0; 8];
    loop {
        stop.check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Trouble::Silent("who it is", GREETING_PATIENCE));
        }
        stream.set_read_timeout(Some(left.min(TICK))).map_err(gone)?;
        match stream.peek(&mut room) {
            Ok(0) => return Err(Trouble::Gone(None)),
            Ok(8) => return Ok(room),
            Ok(_) => std::thread::sleep(BREATH),
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(gone(error)),
        }
    }
}

fn read_all(mut stream: &TcpStream, mut room: &mut [u8], until: Instant) -> Result<(), Trouble> {
    while !room.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Trouble::Silent("its preamble", GREETING_PATIENCE));
        }
        let set = stream.set_read_timeout(Some(left));
        match set.and_then(|()| stream.read(room)) {
            Ok(0) => return Err(Trouble::Gone(None)),
            Ok(len) => room = &mut room[len..],
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::of_connection(&error)),
        }
    }
    Ok(())
}

/// Cookies of iperf3 are 36 of these and a NUL.
fn is_iperf3_cookie(first: &[u8]) -> bool {
    first
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(byte))
}

/// So many connections that have not ended.
const CALLERS_MAX: usize = 1024;
/// So many tests side by side.
const TESTS_MAX: usize = 64;
/// So many connections of one test that nobody has taken yet.
const ARRIVALS_MAX: usize = 1024;
const BACKLOG: i32 = 512;
/// What opens a test over UDP is shorter; that of iperf3 as well.
const DATAGRAM_MAX: usize = 2048;
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(100);
const BREATH: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_an_iperf3_client() {
        assert!(is_iperf3_cookie(b"abcd2345"));
        assert!(!is_iperf3_cookie(b"sockeye\n"));
        assert!(!is_iperf3_cookie(b"GET / HT"));
        assert!(!is_iperf3_cookie(b"abcd1890"));
    }
}
