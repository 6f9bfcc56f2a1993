//! A network namespace of our own with as many connections in it as are wanted.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockeye_act::{Interfaces, LOOPBACK, RouteError};
use sockeye_sys::netns;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};

/// TCP connections over loopback, both ends of each ours. They end when it is dropped.
#[derive(Debug)]
pub struct Crowd {
    listener: TcpListener,
    ends: Vec<TcpStream>,
}

impl Crowd {
    /// Nothing but a listener, in the network namespace of this thread.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn new() -> Result<Self, CrowdFailure> {
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
            .map(|listener| Self {
                listener,
                ends: Vec::new(),
            })
            .map_err(|error| CrowdFailure::new("listen in it", errno_of(&error)))
    }

    /// How many sockets there are.
    #[must_use]
    pub fn sockets(&self) -> usize {
        1 + self.ends.len()
    }

    /// Makes connections until there are as many sockets, or one more, unless `keep_going`, which is told how many
    /// there are, says no.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn grow(
        &mut self,
        sockets: usize,
        mut keep_going: impl FnMut(usize) -> bool,
    ) -> Result<(), CrowdFailure> {
        let port = self
            .listener
            .local_addr()
            .map_err(|error| CrowdFailure::new("listen in it", errno_of(&error)))?
            .port();
        while self.sockets() < sockets && keep_going(self.sockets()) {
            // One address has fewer ports of ours than may be wanted.
            let nth = u32::try_from(self.ends.len() / 2 / CONNECTIONS_AN_ADDRESS).unwrap_or(u32::MAX);
            let ip = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits().saturating_add(nth));
            let connected = TcpStream::connect(SocketAddrV4::new(ip, port))
                .map_err(|error| CrowdFailure::new("connect in it", errno_of(&error)))?;
            let (accepted, _) = self
                .listener
                .accept()
                .map_err(|error| CrowdFailure::new("accept in it", errno_of(&error)))?;
            self.ends.extend([connected, accepted]);
        }
        Ok(())
    }
}

/// Runs `act` on a thread of its own in a network namespace of its own, with a loopback interface. It ends with the thread.
///
/// # Errors
/// When there is no such namespace to be had.
pub fn within_own_namespace<T: Send>(act: impl FnOnce() -> T + Send) -> Result<T, CrowdFailure> {
    netns::on_netns_thread(|_| {
        netns::unshare().map_err(|errno| CrowdFailure::new("make it", errno))?;
        let up = Interfaces::open().and_then(|mut interfaces| interfaces.bring_up(LOOPBACK));
        up.map_err(|RouteError { errno, .. }| CrowdFailure::new("bring its loopback interface up", errno))?;
        Ok(act())
    })
    .unwrap_or_else(|errno| Err(CrowdFailure::new("start a thread for it", errno)))
}

/// How many descriptors there may be beside those that are open, with the limit raised as far as it may be; None: there is
/// no limit.
#[must_use]
pub fn descriptors_left() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    Some(current?.saturating_sub(OTHERS))
}

/// Why there is no crowd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdFailure {
    step: &'static str,
    errno: Errno,
}

impl CrowdFailure {
    const fn new(step: &'static str, errno: Errno) -> Self {
        Self { step, errno }
    }
}

impl fmt::Display for CrowdFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a network namespace for the load: {}: {}",
            self.step, self.errno
        )?;
        f.write_str(match self.errno {
            Errno::PERM | Errno::ACCESS => {
                "; it needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root, or without --sockets"
            }
            Errno::NOSPC => "; `sysctl -w user.max_net_namespaces=N` allows more of them",
            Errno::MFILE | Errno::NFILE => "; too many open files: `ulimit -n N` raises the limit",
            Errno::NOMEM | Errno::NOBUFS => "; the kernel is out of memory for sockets: ask for fewer",
            _ => "",
        })
    }
}

impl std::error::Error for CrowdFailure {}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Fewer than `net.ipv4.ip_local_port_range` has by default.
const CONNECTIONS_AN_ADDRESS: usize = 20_000;
/// What else is open: standard ones, BPF programs and maps, netlink, an event or two.
const OTHERS: u64 = 64;
