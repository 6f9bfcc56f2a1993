//! A small host with typical faults, in network namespaces without names: what `sockeye demo` shows.
//!
//! ```text
//! namespace of this process                                  the other namespace
//!   web, backend, stuck            eth0 ====== veth ====== eth0   clients
//!   backup          vpn0 (queue of 3 packets) -- vpn ------ vpn0   archive
//!   sync            wan0 ------- wan (loses 5 % of packets) wan0   archive
//! ```
//!
//! Each of these programs is a process, so that it is visible as an owner: this binary again, which calls [`Role::run`].
//! Nothing stays after an end of any kind: the namespaces have no name, TUN devices end with their program, and the kernel
//! kills the programs when the process that built the world ends.

mod error;
mod far;
mod forward;
mod process;
mod programs;
mod role;
mod tcp;

pub use error::WorldError;
pub use role::Role;

use crate::private_netns::PrivateNetns;
use process::RoleProcess;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sockeye_act::netns::{Isolation, isolate};
use sockeye_act::{Interfaces, LOOPBACK, RouteError};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// The running world. It ends when dropped, or with the process.
#[derive(Debug)]
pub struct World {
    processes: Vec<RoleProcess>,
    isolation: Isolation,
    missing: Option<Errno>,
    built: Instant,
    /// Keeps the other namespace.
    _far: PrivateNetns,
}

impl World {
    /// Moves this process into a new network namespace and builds the world there. `command` returns the command line that
    /// makes a new process of this binary call [`Role::run`].
    ///
    /// Call it before other threads start: they would stay in the old namespace.
    ///
    /// # Errors
    /// The step that failed. What was built before ends.
    pub fn build(command: impl Fn(Role) -> Command) -> Result<Self, WorldError> {
        let isolation = isolate()?;
        let far = PrivateNetns::new()?;
        let mut interfaces = Interfaces::open()?;
        interfaces.bring_up(LOOPBACK)?;
        interfaces.pair(LINK, LINK, far.as_fd())?;
        address(LINK, link(HERE))?;
        let set_up_far = || -> Result<(), RouteError> {
            for host in CALLERS {
                address(LINK, link(host.0))?;
            }
            await_running()
        };
        far.within(set_up_far)??;
        await_running()?;
        let mut world = Self {
            processes: Vec::new(),
            isolation,
            missing: tun_error(),
            built: Instant::now(),
            _far: far,
        };
        for role in Role::ALL {
            if world.missing.is_some() && role.needs_tun() {
                continue;
            }
            let process = RoleProcess::start(role, command(role), world._far.as_fd())?;
            world.processes.push(process);
        }
        world.built = Instant::now();
        Ok(world)
    }

    /// Whether it is in a user namespace, since this process had too few rights.
    #[must_use]
    pub fn is_in_user_namespace(&self) -> bool {
        self.isolation == Isolation::UserNamespace
    }

    /// Why there are no TUN devices, and so neither the tunnel nor the lossy link; `None` if there are.
    #[must_use]
    pub fn tun_error(&self) -> Option<Errno> {
        self.missing
    }

    /// When `check` finds every fault: connections have been in their states for long enough, counters have moved.
    #[must_use]
    pub fn settled(&self) -> Instant {
        self.built + SETTLING
    }

    /// Descriptors of its processes, each readable when the process has ended.
    pub fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processes.iter().filter_map(RoleProcess::end)
    }

    /// Returns a program that has ended, though it should not.
    pub fn ended(&mut self) -> Option<Role> {
        let mut processes = self.processes.iter_mut();
        processes.find_map(|process| process.has_ended().then_some(process.role()))
    }
}

/// Returns why no TUN device can be opened here, or `None`.
fn tun_error() -> Option<Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty()).err()
}

/// Gives a device of the calling thread's namespace an address of a /24 network, and brings it up.
fn address(device: &str, ip: Ipv4Addr) -> Result<(), RouteError> {
    let mut interfaces = Interfaces::open()?;
    let index = interfaces.index(device)?;
    interfaces.add_address(index, ip.into(), 24)?;
    interfaces.bring_up(index)
}

/// Waits until the veth pair forwards packets. Before, it drops them, and TCP would wait for its retransmission timer.
fn await_running() -> Result<(), RouteError> {
    let until = Instant::now() + RUNNING_TIMEOUT;
    let mut interfaces = Interfaces::open()?;
    while !interfaces.is_running(LINK)? {
        if Instant::now() > until {
            return Err(Errno::NETDOWN.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Address of a host on the veth pair.
fn link(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 2, host)
}

/// Address of a host on the tunnel with the short queue.
fn vpn(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 8, 0, host)
}

/// Address of a host on the lossy link.
fn wan(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, host)
}

const LINK: &str = "eth0";
/// Last byte of this side's address on all links.
const HERE: u8 = 1;
/// Last byte of the other side's address on the tunnels.
const THERE: u8 = 2;
/// The last bytes of the callers' addresses, and their connections to the web server: 120.
const CALLERS: [(u8, usize); 3] = [(11, 80), (12, 30), (13, 10)];
const WEB_PORT: u16 = 80;
const BACKEND_PORT: u16 = 7802;
const STUCK_PORT: u16 = 8080;
const ARCHIVE_PORT: u16 = 9000;
/// Connections that the backend does not close.
const LEAKED: usize = 12;
/// Connections that the stuck program does not accept. Its queue holds one more than the backlog.
const WAITING: usize = 8;
const STUCK_BACKLOG: i32 = 4;
/// The kernel reports a carrier with up to a second of delay (`net/core/link_watch.c`).
const RUNNING_TIMEOUT: Duration = Duration::from_secs(5);
/// `close-wait` needs five quiet seconds, and counters of losses some packets.
const SETTLING: Duration = Duration::from_millis(6_500);
