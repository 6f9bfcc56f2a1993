//! Sockets of a test and their options.

use super::message::Parameters;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use sockeye_load::Transport;
use sockeye_load::session::{self, Error, Stop};
use sockeye_load::stream::set_congestion;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Connects a stream by TCP or UDP, with the options of the test: windows and segments are negotiated while connecting.
pub(crate) fn dial(
    parameters: &Parameters,
    address: SocketAddr,
    stop: &Stop,
    timeout: Duration,
) -> Result<OwnedFd, Error> {
    let prepare = |socket: BorrowedFd<'_>, _| set_connect_options(socket, parameters);
    if parameters.protocol == Transport::Tcp {
        return session::connect(address, timeout, stop, &prepare).map(OwnedFd::from);
    }
    let socket = make(Transport::Udp, address.is_ipv6())?;
    prepare(socket.as_fd(), address)?;
    match connect(&socket, &address) {
        Ok(()) => Ok(socket),
        Err(Errno::CONNREFUSED) => Err(Error::Refused(address)),
        Err(errno) => Err(Error::Connect(address, errno)),
    }
}

/// Creates a non-blocking socket.
pub(crate) fn make(protocol: Transport, is_v6: bool) -> Result<OwnedFd, Error> {
    let family = if is_v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let (kind, number) = match protocol {
        Transport::Tcp => (SocketType::STREAM, ipproto::TCP),
        Transport::Udp => (SocketType::DGRAM, ipproto::UDP),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, kind, flags, Some(number)).map_err(|errno| Error::System("make a socket", errno))
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The descriptor is readable.
    Readable,
    /// The stop flag was set.
    Stopped,
    /// The time is over.
    TimedOut,
}

/// Waits until `fd` is readable.
pub(crate) fn await_readable(fd: impl AsFd, stop: &Stop, until: Instant) -> Result<Woken, Error> {
    loop {
        if stop.is_set() {
            return Ok(Woken::Stopped);
        }
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut polled, Some(&timespec(left.min(TICK)))) {
            Ok(0) if left <= TICK => return Ok(Woken::TimedOut),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(Woken::Readable),
            Err(errno) => return Err(Error::System("poll", errno)),
        }
    }
}

pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec::try_from(span).unwrap_or(Timespec {
        tv_sec: i64::from(i32::MAX),
        tv_nsec: 0,
    })
}

/// Sets the options that have to be set before a stream connects.
fn set_connect_options(socket: BorrowedFd<'_>, parameters: &Parameters) -> Result<(), Error> {
    if parameters.window > 0 {
        set_window(socket, parameters.window)
            .map_err(|errno| Error::System("set the socket buffers", errno))?;
    }
    if parameters.protocol == Transport::Tcp {
        if parameters.mss > 0 {
            let mss = u32::try_from(parameters.mss).unwrap_or(u32::MAX);
            sockeye_sys::tcp::set_max_segment(socket, mss)
                .map_err(|errno| Error::System("set the largest segment (-M)", errno))?;
        }
        if let Some(name) = &parameters.congestion {
            set_congestion(socket, name)?;
        }
        sockopt::set_tcp_nodelay(socket, parameters.no_delay)
            .map_err(|errno| Error::System("set TCP_NODELAY", errno))?;
    }
    Ok(())
}

/// Sets both buffers, as iperf3 does. Fails if the kernel limits them to less.
pub(crate) fn set_window(socket: impl AsFd, bytes: u64) -> Result<(), Errno> {
    let socket = socket.as_fd();
    let bytes = usize::try_from(bytes).map_err(|_| Errno::INVAL)?;
    sockopt::set_socket_send_buffer_size(socket, bytes)?;
    sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    let (sends, receives) = buffers(socket);
    // The kernel doubles the value, and silently limits it.
    if sends.min(receives) < bytes as u64 {
        return Err(Errno::NOBUFS);
    }
    Ok(())
}

/// Returns `SO_SNDBUF` and `SO_RCVBUF`.
pub(crate) fn buffers(socket: impl AsFd) -> (u64, u64) {
    let socket = socket.as_fd();
    (
        sockopt::socket_send_buffer_size(socket).unwrap_or(0) as u64,
        sockopt::socket_recv_buffer_size(socket).unwrap_or(0) as u64,
    )
}

/// Sets the remaining options, at either end. Ignores failures, as iperf3 does.
pub(crate) fn set_ip_options(socket: &OwnedFd, parameters: &Parameters, is_v6: bool) {
    if parameters.type_of_service > 0 {
        let _ = if is_v6 {
            sockopt::set_ipv6_tclass(socket, u32::from(parameters.type_of_service))
        } else {
            sockopt::set_ip_tos(socket, parameters.type_of_service)
        };
    }
    if parameters.protocol == Transport::Udp && parameters.dont_fragment && !is_v6 {
        let _ = sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO);
    } else if parameters.protocol == Transport::Udp && parameters.dont_fragment {
        let _ = sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO);
    }
}

/// Returns the congestion control of a stream.
pub(crate) fn congestion(socket: &OwnedFd) -> Option<String> {
    sockopt::tcp_congestion(socket)
        .ok()
        .map(|name| name.trim_end_matches('\0').to_owned())
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}

/// Interval between two checks of the stop flag.
const TICK: Duration = Duration::from_millis(100);
