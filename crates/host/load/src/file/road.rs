use super::failure::{Failure, Step};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use sockeye_act::{Interfaces, LOOPBACK, RouteError};
use sockeye_sys::netns;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Where files are sent: from one address of this machine to another.
#[derive(Debug)]
pub struct Road {
    near: Site,
    far: Site,
    server: IpAddr,
}

/// All of them, and why others are not there.
#[derive(Debug, Default)]
pub struct Roads {
    roads: Vec<Road>,
    missing: Vec<(&'static str, u8, Failure)>,
}

/// One end.
#[derive(Debug)]
enum Site {
    /// Our own network namespace.
    Here,
    /// One that we made; nothing of it is left when we end, in whichever way.
    Made(OwnedFd),
}

impl Roads {
    /// Over `lo` of the namespace we are in, and over a veth pair between two namespaces that it makes; for those versions of
    /// IP.
    #[must_use]
    pub fn open(devices: &[&'static str], versions: &[u8]) -> Self {
        let mut roads = Self::default();
        for &device in devices {
            for &version in versions {
                let made = if device == LO {
                    Road::lo(version)
                } else {
                    Road::veth(version)
                };
                match made.and_then(|road| road.connect().map(|_| road)) {
                    Ok(road) => roads.roads.push(road),
                    Err(failure) => roads.missing.push((device, version, failure)),
                }
            }
        }
        roads
    }

    /// Those that work.
    #[must_use]
    pub fn all(&self) -> &[Road] {
        &self.roads
    }

    /// Those that do not: device, version of IP, why not.
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, u8, Failure)] {
        &self.missing
    }
}

impl Road {
    /// `lo` or `veth`
    #[must_use]
    pub const fn device(&self) -> &'static str {
        match self.near {
            Site::Here => LO,
            Site::Made(_) => VETH,
        }
    }

    /// 4 or 6
    #[must_use]
    pub const fn ip_version(&self) -> u8 {
        if self.server.is_ipv4() { 4 } else { 6 }
    }

    fn lo(version: u8) -> Result<Self, Failure> {
        Ok(Self {
            near: Site::Here,
            far: Site::Here,
            server: if version == 4 {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            },
        })
    }

    fn veth(version: u8) -> Result<Self, Failure> {
        let (near, far) = (make()?, make()?);
        let address = |host: u8| -> (IpAddr, u8) {
            if version == 4 {
                // TEST-NET-2 of RFC 5737, and the discard prefix of RFC 6666: nobody else's.
                (Ipv4Addr::new(198, 51, 100, host).into(), 24)
            } else {
                (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, u16::from(host)).into(), 64)
            }
        };
        let failed = |refusal: RouteError| Step::Pair.failed(refusal.errno);
        let within = |site: &OwnedFd, act: &(dyn Fn(&mut Interfaces) -> Result<(), RouteError> + Sync)| {
            netns::within(site.as_fd(), || act(&mut Interfaces::open()?))
                .map_err(|errno| Step::Namespace.failed(errno))?
                .map_err(failed)
        };
        within(&near, &|interfaces| interfaces.pair(VETH, VETH, far.as_fd()))?;
        for (site, host) in [(&near, 1), (&far, 2)] {
            within(site, &|interfaces| {
                let index = interfaces.index(VETH)?;
                interfaces.bring_up(index)?;
                let (ip, prefix_len) = address(host);
                interfaces.add_address(index, ip, prefix_len)
            })?;
        }
        Ok(Self {
            near: Site::Made(near),
            far: Site::Made(far),
            server: address(2).0,
        })
    }

    /// A connection: the sender's end, the receiver's.
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

    /// What the receiver's interface has counted.
    pub(super) fn received_bytes(&self) -> Option<u64> {
        let device = self.device();
        let read = || fs::read_to_string("/proc/thread-self/net/dev").ok();
        let text = self.far.within(read).ok()??;
        received(&text, device)
    }
}

impl Site {
    fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        match self {
            Self::Here => Ok(act()),
            Self::Made(netns) => {
                netns::within(netns.as_fd(), act).map_err(|errno| Step::Namespace.failed(errno))
            }
        }
    }
}

/// A namespace whose loopback is up, and nothing else in it.
fn make() -> Result<OwnedFd, Failure> {
    let made = netns::on_netns_thread(|_| -> Result<OwnedFd, Errno> {
        netns::unshare()?;
        Interfaces::open()
            .and_then(|mut interfaces| interfaces.bring_up(LOOPBACK))
            .map_err(|refusal| refusal.errno)?;
        // `/proc/self` would be the namespace of the first thread.
        open(
            "/proc/thread-self/ns/net",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    });
    made.and_then(|made| made)
        .map_err(|errno| Step::Namespace.failed(errno))
}

/// The other end of `near`. Anybody else who finds the port is sent away.
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

/// The first number behind the device's name.
fn received(text: &str, device: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))
        .find_map(|numbers| numbers.split_ascii_whitespace().next()?.parse().ok())
}

/// Loopback.
pub(super) const LO: &str = "lo";
const VETH: &str = "veth";
const CONNECT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_device() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 12345 6 0\n veth0:9 1\n  veth: 77 2\n";
        assert_eq!(received(text, "lo"), Some(12345));
        assert_eq!(received(text, "veth"), Some(77));
        assert_eq!(received(text, "eth0"), None);
    }
}
