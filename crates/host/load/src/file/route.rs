//! The paths for files within this machine.

use super::failure::{Failure, Step};
use crate::private_netns::PrivateNetns;
use rustix::io::Errno;
use sockeye_act::{Interfaces, RouteError};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A path for files between two addresses of this machine.
#[derive(Debug)]
pub struct Route {
    near: Side,
    far: Side,
    server: IpAddr,
}

/// The available routes, and why others are missing.
#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
    missing: Vec<(&'static str, u8, Failure)>,
}

/// The network namespace of one end.
#[derive(Debug)]
enum Side {
    /// The namespace of the calling thread.
    Current,
    /// A namespace made for the route.
    Private(PrivateNetns),
}

impl Routes {
    /// Opens routes over `lo` of the current namespace, and over a veth pair between two private namespaces, for these IP
    /// versions.
    #[must_use]
    pub fn open(devices: &[&'static str], versions: &[u8]) -> Self {
        let mut routes = Self::default();
        for &device in devices {
            for &version in versions {
                let made = if device == LO {
                    Route::lo(version)
                } else {
                    Route::veth(version)
                };
                match made.and_then(|route| route.connect().map(|_| route)) {
                    Ok(route) => routes.routes.push(route),
                    Err(failure) => routes.missing.push((device, version, failure)),
                }
            }
        }
        routes
    }

    /// Returns the available routes.
    #[must_use]
    pub fn all(&self) -> &[Route] {
        &self.routes
    }

    /// Returns the missing routes: device, IP version, reason.
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, u8, Failure)] {
        &self.missing
    }
}

impl Route {
    /// Returns the device: `lo` or `veth`.
    #[must_use]
    pub const fn device(&self) -> &'static str {
        match self.near {
            Side::Current => LO,
            Side::Private(_) => VETH,
        }
    }

    /// Returns the IP version: 4 or 6.
    #[must_use]
    pub const fn ip_version(&self) -> u8 {
        if self.server.is_ipv4() { 4 } else { 6 }
    }

    fn lo(version: u8) -> Result<Self, Failure> {
        Ok(Self {
            near: Side::Current,
            far: Side::Current,
            server: if version == 4 {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            },
        })
    }

    fn veth(version: u8) -> Result<Self, Failure> {
        let in_netns = |errno: Errno| Step::Namespace.failed(errno);
        let new = || PrivateNetns::new().map_err(|refusal| in_netns(refusal.errno));
        let (near, far) = (new()?, new()?);
        let address = |host: u8| -> (IpAddr, u8) {
            if version == 4 {
                // TEST-NET-2 of RFC 5737, and the discard prefix of RFC 6666: not used by others.
                (Ipv4Addr::new(198, 51, 100, host).into(), 24)
            } else {
                (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, u16::from(host)).into(), 64)
            }
        };
        let failed = |refusal: RouteError| Step::Pair.failed(refusal.errno);
        let within = |netns: &PrivateNetns,
                      act: &(dyn Fn(&mut Interfaces) -> Result<(), RouteError> + Sync)| {
            netns
                .within(|| act(&mut Interfaces::open()?))
                .map_err(in_netns)?
                .map_err(failed)
        };
        within(&near, &|interfaces| interfaces.pair(VETH, VETH, far.as_fd()))?;
        for (netns, host) in [(&near, 1), (&far, 2)] {
            within(netns, &|interfaces| {
                let index = interfaces.index(VETH)?;
                interfaces.bring_up(index)?;
                let (ip, prefix_len) = address(host);
                interfaces.add_address(index, ip, prefix_len)
            })?;
        }
        Ok(Self {
            near: Side::Private(near),
            far: Side::Private(far),
            server: address(2).0,
        })
    }

    /// Opens a connection: the sender's end and the receiver's.
    pub(super) fn connect(&self) -> Result<(TcpStream, TcpStream), Failure> {
        let listener = self
            .far
            .within(|| TcpListener::bind(SocketAddr::new(self.server, 0)))?
            .map_err(|error| Step::Listen.failed_io(&error))?;
        let address = listener
            .local_addr()
            .map_err(|error| Step::Listen.failed_io(&error))?;
        let near = self
            .near
            .within(|| TcpStream::connect_timeout(&address, CONNECT))?
            .map_err(|error| Step::Connect.failed_io(&error))?;
        let far = accept(&listener, &near).map_err(|error| Step::Connect.failed_io(&error))?;
        // A file is sent as it comes, and its end must not wait for anything.
        let _ = near.set_nodelay(true);
        Ok((near, far))
    }

    /// Returns the bytes that the receiver's interface has counted.
    pub(super) fn received_bytes(&self) -> Option<u64> {
        let device = self.device();
        let read = || fs::read_to_string("/proc/thread-self/net/dev").ok();
        let text = self.far.within(read).ok()??;
        received(&text, device)
    }
}

impl Side {
    fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        match self {
            Self::Current => Ok(act()),
            Self::Private(netns) => netns.within(act).map_err(|errno| Step::Namespace.failed(errno)),
        }
    }
}

/// Accepts the peer of `near`, and closes connections of other programs.
fn accept(listener: &TcpListener, near: &TcpStream) -> io::Result<TcpStream> {
    let own = near.local_addr()?;
    listener.set_nonblocking(true)?;
    let end = Instant::now() + CONNECT;
    loop {
        match listener.accept() {
            Ok((far, peer)) if peer == own => {
                far.set_nonblocking(false)?;
                return Ok(far);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the first number after the device's name.
fn received(text: &str, device: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))
        .find_map(|numbers| numbers.split_ascii_whitespace().next()?.parse().ok())
}

/// The loopback device.
pub(super) const LO: &str = "lo";
const VETH: &str = "veth";
const CONNECT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_counter_of_a_device_is_found() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 12345 6 0\n veth0:9 1\n  veth: 77 2\n";
        assert_eq!(received(text, "lo"), Some(12345));
        assert_eq!(received(text, "veth"), Some(77));
        assert_eq!(received(text, "eth0"), None);
    }
}
