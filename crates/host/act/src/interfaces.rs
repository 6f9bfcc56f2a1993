//! Network interfaces: creating them, adding addresses, bringing them up.

use crate::route::{Route, RouteError};
use rustix::io::Errno;
use sockeye_wire::rtnetlink::Link;
use sockeye_wire::rtnetlink::change::{self, VethPair};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The interfaces of a network namespace.
#[derive(Debug)]
pub struct Interfaces(Route);

impl Interfaces {
    /// Opens the calling thread's current network namespace.
    ///
    /// # Errors
    /// If netlink is forbidden, or no descriptor can be created.
    pub fn open() -> Result<Self, RouteError> {
        Route::open().map(Self)
    }

    /// Creates a veth pair: one end here and up, the other in `peer_netns` and down. Both disappear with either
    /// namespace.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN in both; `EEXIST` if there is an interface of that name; `EOPNOTSUPP` without
    /// veth.
    pub fn pair(
        &mut self,
        name: &str,
        peer_name: &str,
        peer_netns: BorrowedFd<'_>,
    ) -> Result<(), RouteError> {
        let pair = VethPair {
            name,
            master: None,
            peer_name,
            peer_netns: u32::try_from(peer_netns.as_raw_fd()).map_err(|_| Errno::BADF)?,
        };
        self.0.act(|sequence| pair.request(sequence))
    }

    /// Returns the index of the interface with this name.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn index(&mut self, name: &str) -> Result<i32, RouteError> {
        let mut index = None;
        self.0.ask(
            |sequence| change::find(name, sequence),
            |_, payload| index = Link::parse(payload).ok().map(|link| link.index),
        )?;
        index.ok_or_else(|| Errno::NODEV.into())
    }

    /// Whether the interface with this name can send packets: it is up, has a carrier, and its queues are active, which
    /// takes up to a second after the carrier appears.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn is_running(&mut self, name: &str) -> Result<bool, RouteError> {
        let mut flags = None;
        self.0.ask(
            |sequence| change::find(name, sequence),
            |_, payload| flags = Link::parse(payload).ok().map(|link| link.flags),
        )?;
        let flags = flags.ok_or(Errno::NODEV)?;
        Ok(flags & IFF_RUNNING != 0)
    }

    /// Brings the interface up.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN.
    pub fn bring_up(&mut self, index: i32) -> Result<(), RouteError> {
        self.0.act(|sequence| Some(change::bring_up(index, sequence)))
    }

    /// Adds an address, which is usable at once.
    ///
    /// # Errors
    /// `EEXIST` if the interface has it already; `EPERM` without CAP_NET_ADMIN.
    pub fn add_address(&mut self, index: i32, ip: IpAddr, prefix_len: u8) -> Result<(), RouteError> {
        let index = u32::try_from(index).map_err(|_| Errno::NODEV)?;
        self.0
            .act(|sequence| change::add_address(index, ip, prefix_len, sequence))
    }

    /// Sets the length of its transmit queue in packets (`txqueuelen`).
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN; `ENOMEM` if there is no memory for a queue of that length.
    pub fn set_queue_length(&mut self, index: i32, packets: u32) -> Result<(), RouteError> {
        self.0
            .act(|sequence| change::set_queue_length(index, packets, sequence))
    }

    /// Sets its MTU in bytes.
    ///
    /// # Errors
    /// `EINVAL` outside the device's range; `EPERM` without CAP_NET_ADMIN.
    pub fn set_mtu(&mut self, index: i32, bytes: u32) -> Result<(), RouteError> {
        self.0.act(|sequence| change::set_mtu(index, bytes, sequence))
    }
}

/// The first interface of every namespace (`LOOPBACK_IFINDEX`, `include/net/flow.h`).
pub const LOOPBACK: i32 = 1;
/// `include/uapi/linux/if.h`
const IFF_RUNNING: u32 = 0x40;
