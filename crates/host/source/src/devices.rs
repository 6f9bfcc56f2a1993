//! Interfaces and their IPv4 addresses from rtnetlink; and any file of `/proc/net`.
//!
//! `/sys/class/net` is not used: it shows the namespace in which it was mounted, and lacks the flags that the kernel
//! computes (`RUNNING`).

use crate::dump::{self, Dump};
use crate::outcome::Reason;
use rustix::io::Errno;
use sockeye_model::InterfaceIndex;
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::netlink::Message;
pub use sockeye_wire::rtnetlink::Map;
use sockeye_wire::rtnetlink::{self, RTM_NEWADDR, RTM_NEWLINK};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;

/// The interfaces of the calling thread's network namespace.
#[derive(Debug, Default, Clone)]
pub struct Devices {
    /// Interfaces, in the kernel's order.
    pub links: Vec<Link>,
    /// IPv4 addresses, in the kernel's order; those of one interface are adjacent.
    pub addresses: Vec<Address>,
}

/// An interface.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its name
    pub name: Vec<u8>,
    /// `ARPHRD_*`
    pub kind: u16,
    /// `IFF_*`
    pub flags: u32,
    /// MTU in bytes; `None` if the kernel does not report it
    pub mtu: Option<i32>,
    /// Length of the send queue in packets; `None` if the kernel does not report it
    pub queue_len: Option<i32>,
    /// Its hardware address
    pub address: Vec<u8>,
    /// Its resources on the bus (`struct ifmap`)
    pub map: Map,
}

/// An IPv4 address of an interface.
#[derive(Debug, Clone)]
pub struct Address {
    /// Name of the interface, optionally with an alias suffix (`eth0:1`)
    pub label: Vec<u8>,
    /// The address
    pub local: Ipv4Addr,
    /// The peer of a point-to-point link, else the same as `local`
    pub peer: Ipv4Addr,
    /// Broadcast address; `None` if there is none
    pub broadcast: Option<Ipv4Addr>,
    /// Prefix length in bits
    pub prefix_len: u8,
}

impl Devices {
    /// Reads them from the kernel. Malformed messages are skipped.
    ///
    /// # Errors
    /// When netlink is forbidden or broken, or the dump is incomplete.
    pub fn read() -> Result<Self, Reason> {
        let mut devices = Self::default();
        all(&rtnetlink::Link::dump(SEQUENCE), &mut |message| {
            if message.kind == RTM_NEWLINK
                && let Ok(link) = rtnetlink::Link::parse(message.payload)
            {
                devices.links.push(Link {
                    name: link.name.to_vec(),
                    kind: link.kind,
                    flags: link.flags,
                    mtu: link.mtu,
                    queue_len: link.queue_len,
                    address: link.address.to_vec(),
                    map: link.map.unwrap_or_default(),
                });
            }
        })?;
        all(&rtnetlink::Address::dump(SEQUENCE), &mut |message| {
            if message.kind == RTM_NEWADDR
                && let Ok(address) = rtnetlink::Address::parse(message.payload)
            {
                devices.addresses.push(Address {
                    label: address.label.to_vec(),
                    local: address.local.into(),
                    peer: address.address.into(),
                    broadcast: address.broadcast.map(Into::into),
                    prefix_len: address.prefix_len,
                });
            }
        })?;
        Ok(devices)
    }
}

impl Devices {
    /// Returns the index and name of each interface with a name that is UTF-8.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn names() -> Result<Vec<(InterfaceIndex, String)>, Reason> {
        let mut names = Vec::new();
        all(&rtnetlink::Link::dump(SEQUENCE), &mut |message| {
            if message.kind == RTM_NEWLINK
                && let Ok(link) = rtnetlink::Link::parse(message.payload)
                && let Ok(name) = std::str::from_utf8(link.name)
            {
                names.push((InterfaceIndex(link.index.cast_unsigned()), name.to_owned()));
            }
        })?;
        Ok(names)
    }
}

/// Runs one dump. It is not repeated when an interface was added or removed meanwhile.
fn all(request: &[u8], take: &mut dyn FnMut(&Message<'_>)) -> Result<(), Reason> {
    let failed = |errno: Errno| Reason::System("open an rtnetlink socket", errno);
    let socket = NetlinkSocket::open_route().map_err(failed)?;
    let status = dump::run(&[Dump { socket, request }], SEQUENCE, &mut |message| {
        take(message);
        ControlFlow::Continue(())
    });
    status.failure.map_or(Ok(()), Err)
}

const SEQUENCE: u32 = 1;

/// Reads a file of `/proc/net`: `route`, `snmp`, `sctp/snmp`...
///
/// # Errors
/// When it cannot be read.
pub fn net_file(name: &str) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/net/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_interfaces() {
        let devices = Devices::read().unwrap();
        let lo = devices.links.iter().find(|link| link.name == b"lo").unwrap();
        assert_eq!((lo.kind, lo.flags & 8), (772, 8));
        assert!(net_file("dev").unwrap().windows(3).any(|window| window == b"lo:"));
    }
}
