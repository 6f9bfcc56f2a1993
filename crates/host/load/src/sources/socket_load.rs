//! A private network namespace with a given number of connections.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockeye_act::{Interfaces, LOOPBACK, RouteError};
use sockeye_sys::netns;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};

/// TCP connections over loopback, with both ends in this process. They end when it is dropped.
#[derive(Debug)]
pub struct SocketLoad {
    listener: TcpListener,
    ends: Vec<TcpStream>,
}

impl SocketLoad {
    /// Creates a listener without connections, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If it cannot listen.
    pub fn new() -> Result<Self, SocketLoadError> {
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
            .map(|listener| Self {
                listener,
                ends: Vec::new(),
            })
            .map_err(|error| SocketLoadError::new("listen in it", errno_of(&error)))
    }

    /// Returns the number of sockets.
    pub(crate) fn sockets(&self) -> usize {
        1 + self.ends.len()
    }

    /// Opens connections until there are `sockets` sockets, or one more. `keep_going` gets the number so far; `false` ends it.
    ///
    /// # Errors
    /// If a connection fails.
    pub fn grow(
        &mut self,
        sockets: usize,
        mut keep_going: impl FnMut(usize) -> bool,
    ) -> Result<(), SocketLoadError> {
        let port = self
            .listener
            .local_addr()
            .map_err(|error| SocketLoadError::new("listen in it", errno_of(&error)))?
            .port();
        while self.sockets() < sockets && keep_going(self.sockets()) {
            // One destination address has too few local ports.
            let nth = u32::try_from(self.ends.len() / 2 / CONNECTIONS_PER_ADDRESS).unwrap_or(u32::MAX);
            let ip = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits().saturating_add(nth));
            let connected = TcpStream::connect(SocketAddrV4::new(ip, port))
                .map_err(|error| SocketLoadError::new("connect in it", errno_of(&error)))?;
            let (accepted, _) = self
                .listener
                .accept()
                .map_err(|error| SocketLoadError::new("accept in it", errno_of(&error)))?;
            self.ends.extend([connected, accepted]);
        }
        Ok(())
    }
}

/// Runs `act` on a new thread in a new network namespace with a loopback interface. The namespace ends with the thread.
///
/// # Errors
/// If the namespace cannot be created.
pub fn in_private_namespace<T: Send>(act: impl FnOnce() -> T + Send) -> Result<T, SocketLoadError> {
    netns::on_netns_thread(|_| {
        netns::unshare().map_err(|errno| SocketLoadError::new("make it", errno))?;
        let up = Interfaces::open().and_then(|mut interfaces| interfaces.bring_up(LOOPBACK));
        up.map_err(|RouteError { errno, .. }| {
            SocketLoadError::new("bring its loopback interface up", errno)
        })?;
        Ok(act())
    })
    .unwrap_or_else(|errno| Err(SocketLoadError::new("start a thread for it", errno)))
}

/// Raises the limit of open files as far as permitted, and returns how many more can be opened; `None`: no limit.
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
    Some(current?.saturating_sub(RESERVED_DESCRIPTORS))
}

/// Why a socket load cannot be created: the step and the kernel's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketLoadError {
    step: &'static str,
    errno: Errno,
}

impl SocketLoadError {
    const fn new(step: &'static str, errno: Errno) -> Self {
        Self { step, errno }
    }
}

impl fmt::Display for SocketLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a network namespace for the load: {}: {}",
            self.step, self.errno
        )?;
        f.write_str(match self.errno {
            Errno::PERM | Errno::ACCESS => {
                let remedy = remedy("them", CheckedIn::Initial);
                return write!(
                    f,
                    "; it needs CAP_SYS_ADMIN and CAP_NET_ADMIN: {remedy}, or run without --sockets"
                );
            }
            Errno::NOSPC => "; `sysctl -w user.max_net_namespaces=N` allows more of them",
            Errno::MFILE | Errno::NFILE => "; too many open files: `ulimit -n N` raises the limit",
            Errno::NOMEM | Errno::NOBUFS => "; the kernel is out of memory for sockets: ask for fewer",
            _ => "",
        })
    }
}

impl std::error::Error for SocketLoadError {}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Fewer than `net.ipv4.ip_local_port_range` has by default.
const CONNECTIONS_PER_ADDRESS: usize = 20_000;
/// Descriptors for other files: standard ones, BPF programs and maps, netlink, eventfds.
const RESERVED_DESCRIPTORS: u64 = 64;
