//! Sockets of a test: made, connected, set up as wished.

use super::Protocol;
use super::message::Wishes;
use super::trouble::Trouble;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use sockeye_load::session::Stop;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// All addresses of a host, in the order of the resolver.
pub(crate) fn resolve(host: &str, port: u16, is_v6: Option<bool>) -> Result<Vec<SocketAddr>, Trouble> {
    let trouble = |error| Trouble::Unresolved {
        host: host.to_owned(),
        error,
    };
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|error| trouble(Some(error)))?;
    let fitting: Vec<SocketAddr> = found
        .filter(|address| is_v6.is_none_or(|is_v6| address.is_ipv6() == is_v6))
        .collect();
    if fitting.is_empty() {
        return Err(trouble(None));
    }
    Ok(fitting)
}

/// Connects by TCP or UDP; `set` has to be done before, as windows and segments are agreed on while connecting.
pub(crate) fn dial(
    protocol: Protocol,
    address: SocketAddr,
    stop: &Stop,
    patience: Duration,
    set: impl Fn(&OwnedFd) -> Result<(), Trouble>,
) -> Result<OwnedFd, Trouble> {
    let socket = make(protocol, address.is_ipv6())?;
    set(&socket)?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            await_connected(&socket, address, stop, patience)?;
        }
        Err(Errno::CONNREFUSED) => return Err(Trouble::Refused(address)),
        Err(errno) => return Err(Trouble::Connect(address, errno)),
    }
    Ok(socket)
}

/// A socket that does not block.
pub(crate) fn make(protocol: Protocol, is_v6: bool) -> Result<OwnedFd, Trouble> {
    let family = if is_v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let (kind, number) = match protocol {
        Protocol::Tcp => (SocketType::STREAM, ipproto::TCP),
        Protocol::Udp => (SocketType::DGRAM, ipproto::UDP),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, kind, flags, Some(number)).map_err(|errno| Trouble::System("make a socket", errno))
}

fn await_connected(
    socket: &OwnedFd,
    address: SocketAddr,
    stop: &Stop,
    patience: Duration,
) -> Result<(), Trouble> {
    let until = Instant::now() + patience;
    match await_events(socket.as_fd(), PollFlags::OUT, stop, until)? {
        Woken::Stopped => Err(Trouble::Stopped),
        Woken::Late => Err(Trouble::Unanswered(address, patience)),
        Woken::Readable => match sockopt::socket_error(socket) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Errno::CONNREFUSED)) => Err(Trouble::Refused(address)),
            Ok(Err(Errno::TIMEDOUT)) => Err(Trouble::Unanswered(address, patience)),
            Ok(Err(errno)) | Err(errno) => Err(Trouble::Connect(address, errno)),
        },
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// What was waited for is there.
    Readable,
    /// We were asked to stop.
    Stopped,
    /// Time is up.
    Late,
}

pub(crate) fn await_readable(fd: impl AsFd, stop: &Stop, until: Instant) -> Result<Woken, Trouble> {
    await_events(fd.as_fd(), PollFlags::IN, stop, until)
}

fn await_events(
    fd: BorrowedFd<'_>,
    events: PollFlags,
    stop: &Stop,
    until: Instant,
) -> Result<Woken, Trouble> {
    loop {
        if stop.is_set() {
            return Ok(Woken::Stopped);
        }
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::from_borrowed_fd(fd, events)];
        match poll(&mut polled, Some(&timespec(left.min(TICK)))) {
            Ok(0) if left <= TICK => return Ok(Woken::Late),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(Woken::Readable),
            Err(errno) => return Err(Trouble::System("poll", errno)),
        }
    }
}

pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec::try_from(span).unwrap_or(Timespec {
        tv_sec: i64::from(i32::MAX),
        tv_nsec: 0,
    })
}

/// What of the wishes has to be set before a stream is connected.
pub(crate) fn set_before(socket: &OwnedFd, wishes: &Wishes) -> Result<(), Trouble> {
    if wishes.window > 0 {
        set_window(socket, wishes.window)
            .map_err(|errno| Trouble::System("set the socket buffers", errno))?;
    }
    if wishes.protocol == Protocol::Tcp {
        if wishes.mss > 0 {
            let mss = u32::try_from(wishes.mss).unwrap_or(u32::MAX);
            sockeye_sys::tcp::set_max_segment(socket, mss)
                .map_err(|errno| Trouble::System("set the largest segment (-M)", errno))?;
        }
        if let Some(name) = &wishes.congestion {
            sockopt::set_tcp_congestion(socket, name)
                .map_err(|errno| Trouble::System("set the congestion control (-C)", errno))?;
        }
        sockopt::set_tcp_nodelay(socket, wishes.no_delay)
            .map_err(|errno| Trouble::System("set TCP_NODELAY", errno))?;
    }
    Ok(())
}

/// Both buffers, as iperf3 does; fails where less is to be had.
pub(crate) fn set_window(socket: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    let bytes = usize::try_from(bytes).map_err(|_| Errno::INVAL)?;
    sockopt::set_socket_send_buffer_size(socket, bytes)?;
    sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    let (sends, receives) = buffers(socket);
    // The kernel doubles what it is told, and cuts it to its limit without a word.
    if sends.min(receives) < bytes as u64 {
        return Err(Errno::NOBUFS);
    }
    Ok(())
}

/// `SO_SNDBUF` and `SO_RCVBUF` as the kernel tells them.
pub(crate) fn buffers(socket: impl AsFd) -> (u64, u64) {
    let socket = socket.as_fd();
    (
        sockopt::socket_send_buffer_size(socket).unwrap_or(0) as u64,
        sockopt::socket_recv_buffer_size(socket).unwrap_or(0) as u64,
    )
}

/// The rest of the wishes, on either end. What one lacks the rights for is no reason to fail: iperf3 goes on, too.
pub(crate) fn set_after(socket: &OwnedFd, wishes: &Wishes, is_v6: bool) {
    if wishes.type_of_service > 0 {
        let _ = if is_v6 {
            sockopt::set_ipv6_tclass(socket, u32::from(wishes.type_of_service))
        } else {
            sockopt::set_ip_tos(socket, wishes.type_of_service)
        };
    }
    if wishes.protocol == Protocol::Udp && wishes.dont_fragment && !is_v6 {
        let _ = sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO);
    } else if wishes.protocol == Protocol::Udp && wishes.dont_fragment {
        let _ = sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO);
    }
}

/// The congestion control of a stream.
pub(crate) fn congestion(socket: &OwnedFd) -> Option<String> {
    sockopt::tcp_congestion(socket)
        .ok()
        .map(|name| name.trim_end_matches('\0').to_owned())
}

/// An IPv4 address in IPv6's clothes is an IPv4 address.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}

/// How often is looked whether it shall stop.
const TICK: Duration = Duration::from_millis(100);
