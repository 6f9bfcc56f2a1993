//! Network interfaces of one's own: made, given addresses, brought up.

use crate::route::{Refusal, Route};
use rustix::io::Errno;
use sockeye_wire::rtnetlink::Link;
use sockeye_wire::rtnetlink::change::{self, VethPair};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The interfaces of the network namespace that the calling thread was in, wherever it goes afterwards.
#[derive(Debug)]
pub struct Interfaces(Route);

impl Interfaces {
    /// Those of the calling thread's network namespace.
    ///
    /// # Errors
    /// Where netlink is forbidden, or no descriptor is left.
    pub fn open() -> Result<Self, Refusal> {
        Route::open().map(Self)
    }

    /// Makes a veth pair, one end of it here and up, the other in `peer_netns` and down. Both end with either namespace.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN in both; `EEXIST` if there is an interface of that name; `EOPNOTSUPP` without veth.
    pub fn pair(&mut self, name: &str, peer_name: &str, peer_netns: BorrowedFd<'_>) -> Result<(), Refusal> {
        let pair = VethPair {
            name,
            master: None,
            peer_name,
            peer_netns: u32::try_from(peer_netns.as_raw_fd()).map_err(|_| Errno::BADF)?,
        };
        self.0.act(|sequence| pair.request(sequence))
    }

    /// The number of the interface of this name.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn index(&mut self, name: &str) -> Result<i32, Refusal> {
        let mut index = None;
        self.0.ask(
            |sequence| change::find(name, sequence),
            |_, payload| index = Link::parse(payload).ok().map(|link| link.index),
        )?;
        index.ok_or_else(|| Errno::NODEV.into())
    }

    /// Whether packets get out by the interface of this name: it is up, has a carrier, and the kernel has made its queues
    /// ready, which takes up to a second after the carrier came.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn is_running(&mut self, name: &str) -> Result<bool, Refusal> {
        let mut flags = None;
        self.0.ask(
            |sequence| change::find(name, sequence),
            |_, payload| flags = Link::parse(payload).ok().map(|link| link.flags),
        )?;
        let flags = flags.ok_or(Errno::NODEV)?;
        Ok(flags & IFF_RUNNING != 0)
    }

    /// Brings it up.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN.
    pub fn bring_up(&mut self, index: i32) -> Result<(), Refusal> {
        self.0.act(|sequence| Some(change::bring_up(index, sequence)))
    }

    /// Gives it an address, usable at once.
    ///
    /// # Errors
    /// `EEXIST` if it has it; `EPERM` without CAP_NET_ADMIN.
    pub fn add_address(&mut self, index: i32, ip: IpAddr, prefix_len: u8) -> Result<(), Refusal> {
        let index = u32::try_from(index).map_err(|_| Errno::NODEV)?;
        self.0
            .act(|sequence| change::add_address(index, ip, prefix_len, sequence))
    }

    /// Lets so many packets wait at it (`txqueuelen`).
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN; `ENOMEM` where there is no memory for a queue of that length.
    pub fn set_queue_length(&mut self, index: i32, packets: u32) -> Result<(), Refusal> {
        self.0
            .act(|sequence| change::set_queue_length(index, packets, sequence))
    }

    /// Lets its packets have so many bytes at most.
    ///
    /// # Errors
    /// `EINVAL` if that is less or more than it can; `EPERM` without CAP_NET_ADMIN.
    pub fn set_mtu(&mut self, index: i32, bytes: u32) -> Result<(), Refusal> {
        self.0.act(|sequence| change::set_mtu(index, bytes, sequence))
    }
}

/// The first interface of every namespace (`LOOPBACK_IFINDEX`, `include/net/flow.h`).
pub const LOOPBACK: i32 = 1;
/// `include/uapi/linux/if.h`
const IFF_RUNNING: u32 = 0x40;
