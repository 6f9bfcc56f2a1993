//! Interfaces and their IPv4 addresses, as rtnetlink tells them; and the other files of `/proc/net`.
//!
//! Not from `/sys/class/net`: that shows the namespace it was mounted in, and flags without those that the kernel
//! works out (`RUNNING`).

use crate::dump::{self, Dump};
use crate::outcome::Reason;
use rustix::io::Errno;
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::netlink::Message;
pub use sockeye_wire::rtnetlink::Map;
use sockeye_wire::rtnetlink::{self, RTM_NEWADDR, RTM_NEWLINK};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;

/// The interfaces of the namespace that we are in.
#[derive(Debug, Default, Clone)]
pub struct Devices {
    /// In the kernel's order.
    pub links: Vec<Link>,
    /// Likewise, those of one interface together.
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
    /// Largest packet, in bytes
    pub mtu: Option<i32>,
    /// Packets that may wait to be sent
    pub queue_len: Option<i32>,
    /// Its hardware address
    pub address: Vec<u8>,
    /// What it occupies on its bus
    pub map: Map,
}

/// An IPv4 address of an interface.
#[derive(Debug, Clone)]
pub struct Address {
    /// Name of the interface, perhaps with a colon and more behind it
    pub label: Vec<u8>,
    /// The address
    pub local: Ipv4Addr,
    /// Of a point-to-point link the other end, else the same
    pub peer: Ipv4Addr,
    /// `None`: it has none
    pub broadcast: Option<Ipv4Addr>,
    /// Bits of its prefix
    pub prefix_len: u8,
}

impl Devices {
    /// Asks the kernel. A message that makes no sense is passed over.
    ///
    /// # Errors
    /// When netlink is forbidden or broken, or the answer breaks off each time.
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

/// One dump. That an interface came or went meanwhile is no reason to ask again: who lists them sees what there is.
fn all(request: &[u8], take: &mut dyn FnMut(&Message<'_>)) -> Result<(), Reason> {
    let failed = |errno: Errno| Reason::System("open an rtnetlink socket", errno);
    let socket = DiagSocket::open_route().map_err(failed)?;
    let status = dump::run(&[Dump { socket, request }], SEQUENCE, &mut |message| {
        take(message);
        ControlFlow::Continue(())
    });
    status.failure.map_or(Ok(()), Err)
}

const SEQUENCE: u32 = 1;

/// The whole of a file of `/proc/net`: `route`, `snmp`, `sctp/snmp`...
///
/// # Errors
/// Those of reading it.
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
