//! `NETLINK_ROUTE`: interfaces and their addresses, queueing disciplines, neighbour tables, route look-ups.
//!
//! ```text
//! struct ifinfomsg { u8 family, pad; u16 type; i32 index; u32 flags, change; }    16
//! struct ifaddrmsg { u8 family, prefixlen, flags, scope; u32 index; }              8
//! ```
//! Source: `include/uapi/linux/rtnetlink.h`, `if_link.h`, `if_addr.h`.

use crate::bytes::{ne_i32, ne_u16, ne_u32, ne_u64, split_fixed};
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::vec::Vec;
use core::net::IpAddr;

pub mod change;
mod info;
mod neighbour;
mod qdisc;
mod route;
mod stats;

pub use info::{BOND_LINK_UP, BondInfo, BondPortInfo, IFF_TAP, IFF_TUN, LinkInfo, TunInfo};
pub use neighbour::{Neighbour, NeighbourTable, RTM_NEWNEIGH, RTM_NEWNEIGHTBL};
pub use qdisc::{Qdisc, QdiscStats, RTM_NEWQDISC, RTM_NEWTCLASS};
pub use route::{FoundRoute, RTM_NEWROUTE, RouteQuery};
pub use stats::LinkStats;

/// An interface.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// `ifi_index`
    pub index: i32,
    /// `ifi_type`: `ARPHRD_*`
    pub kind: u16,
    /// `ifi_flags`: `IFF_*`
    pub flags: u32,
    /// `IFLA_IFNAME`
    pub name: &'a [u8],
    /// `IFLA_MTU`
    pub mtu: Option<i32>,
    /// `IFLA_TXQLEN`
    pub queue_len: Option<i32>,
    /// `IFLA_ADDRESS`
    pub address: &'a [u8],
    /// `IFLA_MAP`
    pub map: Option<Map>,
    /// `IFLA_MASTER`: the index of the bridge, bond or similar that it is a port of
    pub master: Option<u32>,
    /// `IFLA_LINK`: the index of the interface that it is on top of, or of the other end of a veth pair; `None` if that is
    /// in another network namespace
    pub lower: Option<u32>,
    /// `IFLA_IFALIAS`: a description set by the administrator; empty for none
    pub alias: &'a [u8],
    /// `IFLA_LINKINFO`
    pub info: LinkInfo<'a>,
    /// `IFLA_STATS64`
    pub stats: Option<LinkStats>,
    /// `IFLA_CARRIER`; Linux 3.9
    pub carrier: Option<bool>,
    /// `IFLA_CARRIER_CHANGES`; Linux 3.15
    pub carrier_changes: Option<u32>,
    /// `IFLA_PARENT_DEV_NAME`: the device on a bus that it belongs to; Linux 5.14
    pub parent_device: &'a [u8],
}

/// `struct rtnl_link_ifmap { u64 mem_start, mem_end, base_addr; u16 irq; u8 dma, port; }`: hardware resources of an
/// adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the struct's names
pub struct Map {
    pub mem_start: u64,
    pub mem_end: u64,
    pub base_addr: u64,
    pub irq: u16,
    pub dma: u8,
}

impl Map {
    fn parse(payload: &[u8]) -> Option<Self> {
        Some(Self {
            mem_start: ne_u64(payload, 0)?,
            mem_end: ne_u64(payload, 8)?,
            base_addr: ne_u64(payload, 16)?,
            irq: ne_u16(payload, 24)?,
            dma: *payload.get(26)?,
        })
    }
}

impl<'a> Link<'a> {
    /// Parses the payload of an `RTM_NEWLINK`.
    ///
    /// # Errors
    /// When it is shorter than `struct ifinfomsg`, or the envelope of an attribute is broken.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Error> {
        let (fixed, attributes) = split_fixed::<16>(payload, Layer::RouteLink)?;
        let mut link = Self {
            index: ne_i32(fixed, 4).unwrap_or_default(),
            kind: ne_u16(fixed, 2).unwrap_or_default(),
            flags: ne_u32(fixed, 8).unwrap_or_default(),
            name: &[],
            mtu: None,
            queue_len: None,
            address: &[],
            map: None,
            master: None,
            lower: None,
            alias: &[],
            info: LinkInfo::default(),
            stats: None,
            carrier: None,
            carrier_changes: None,
            parent_device: &[],
        };
        let mut is_elsewhere = false;
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                IFLA_LINK => link.lower = attribute.u32(),
                IFLA_LINK_NETNSID => is_elsewhere = true,
                IFLA_MAP => link.map = Map::parse(attribute.payload),
                IFLA_ADDRESS => link.address = attribute.payload,
                IFLA_IFNAME => link.name = text(attribute.payload),
                IFLA_MTU => link.mtu = ne_i32(attribute.payload, 0),
                IFLA_TXQLEN => link.queue_len = ne_i32(attribute.payload, 0),
                change::IFLA_MASTER => link.master = attribute.u32(),
                change::IFLA_IFALIAS => link.alias = text(attribute.payload),
                change::IFLA_LINKINFO => link.info = LinkInfo::parse(attribute.payload),
                IFLA_STATS64 => link.stats = LinkStats::parse(attribute.payload),
                IFLA_CARRIER => link.carrier = attribute.u8().map(|carrier| carrier != 0),
                IFLA_CARRIER_CHANGES => link.carrier_changes = attribute.u32(),
                IFLA_PARENT_DEV_NAME => link.parent_device = text(attribute.payload),
                _ => {}
            }
        }
        link.lower = link.lower.filter(|_| !is_elsewhere);
        Ok(link)
    }

    /// Returns a dump request for all of them.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        Request::dump(RTM_GETLINK, sequence).payload(&[0; 16]).finish()
    }
}

/// An address of an interface, of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// `ifa_index`
    pub index: u32,
    /// `ifa_prefixlen`
    pub prefix_len: u8,
    /// `IFA_LOCAL`, else `IFA_ADDRESS`
    pub ip: IpAddr,
    /// `IFA_F_DADFAILED`: another host has it, so it is not used (IPv6)
    pub is_duplicate: bool,
}

impl InterfaceAddress {
    /// Parses the payload of an `RTM_NEWADDR`; `None` if its family is unknown.
    ///
    /// # Errors
    /// When it is shorter than `struct ifaddrmsg`, or the envelope of an attribute is broken.
    pub fn parse(payload: &[u8]) -> Result<Option<Self>, Error> {
        let (fixed, attributes) = split_fixed::<8>(payload, Layer::RouteAddress)?;
        let (mut local, mut address) = (None, None);
        let mut flags = u32::from(fixed[2]);
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                IFA_FLAGS => flags = attribute.u32().unwrap_or(flags),
                IFA_LOCAL => local = ip(attribute.payload),
                IFA_ADDRESS => address = ip(attribute.payload),
                _ => {}
            }
        }
        Ok(local.or(address).map(|ip| Self {
            index: ne_u32(fixed, 4).unwrap_or_default(),
            prefix_len: fixed[1],
            ip,
            is_duplicate: flags & IFA_F_DADFAILED != 0,
        }))
    }

    /// Returns a dump request for all of them.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        Request::dump(RTM_GETADDR, sequence).payload(&[0; 8]).finish()
    }
}

/// Parses an address in network order; the length decides the family.
pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
    v4().or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)))
}

/// An IPv4 address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// `ifa_prefixlen`
    pub prefix_len: u8,
    /// `IFA_LABEL`: the name of its interface, possibly with a colon and a suffix
    pub label: &'a [u8],
    /// `IFA_LOCAL`, in network order
    pub local: [u8; 4],
    /// `IFA_ADDRESS`: of a point-to-point link the peer's address, else the same as `local`
    pub address: [u8; 4],
    /// `IFA_BROADCAST`
    pub broadcast: Option<[u8; 4]>,
}

impl<'a> Address<'a> {
    /// Parses the payload of an `RTM_NEWADDR`.
    ///
    /// # Errors
    /// When it is shorter than `struct ifaddrmsg`, or the envelope of an attribute is broken.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Error> {
        let (fixed, attributes) = split_fixed::<8>(payload, Layer::RouteAddress)?;
        let mut found = Self {
            prefix_len: fixed[1],
            label: &[],
            local: [0; 4],
            address: [0; 4],
            broadcast: None,
        };
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            let ip = attribute.payload.first_chunk().copied();
            match attribute.kind {
                IFA_ADDRESS => found.address = ip.unwrap_or_default(),
                IFA_LOCAL => found.local = ip.unwrap_or_default(),
                IFA_BROADCAST => found.broadcast = ip,
                IFA_LABEL => found.label = text(attribute.payload),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns a dump request for all of them.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        let fixed = [AF_INET, 0, 0, 0, 0, 0, 0, 0];
        Request::dump(RTM_GETADDR, sequence).payload(&fixed).finish()
    }
}

/// Returns the bytes before the first NUL.
pub(crate) fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// `RTM_NEWLINK`: the answer to [`Link::dump`]
pub const RTM_NEWLINK: u16 = 16;
/// `RTM_NEWADDR`: the answer to [`Address::dump`]
pub const RTM_NEWADDR: u16 = 20;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const AF_INET: u8 = 2;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_MAP: u16 = 14;
const IFLA_STATS64: u16 = 23;
const IFLA_LINK: u16 = 5;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_PARENT_DEV_NAME: u16 = 56;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;

/// Builders of test messages.
#[cfg(test)]
pub(crate) mod build {
    use alloc::vec::Vec;

    /// An attribute, padded.
    pub(crate) fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&u16::try_from(payload.len() + 4).unwrap().to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::build::attribute;
    use super::*;

    #[test]
    fn link_is_parsed() {
        let mut bytes = alloc::vec![0, 0];
        bytes.extend(772_u16.to_ne_bytes());
        bytes.extend(1_i32.to_ne_bytes());
        bytes.extend(0x1_0049_u32.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(attribute(IFLA_IFNAME, b"lo\0"));
        bytes.extend(attribute(IFLA_MTU, &65536_u32.to_ne_bytes()));
        bytes.extend(attribute(99, b"?"));
        let mut map = Vec::new();
        for number in [0x1000_u64, 0x2000, 0x300] {
            map.extend(number.to_ne_bytes());
        }
        map.extend(16_u16.to_ne_bytes());
        map.extend([5, 0, 0, 0, 0, 0]);
        bytes.extend(attribute(IFLA_MAP, &map));
        bytes.extend(attribute(change::IFLA_MASTER, &7_u32.to_ne_bytes()));
        bytes.extend(attribute(IFLA_LINK, &6_u32.to_ne_bytes()));
        bytes.extend(attribute(change::IFLA_IFALIAS, b"a note\0"));
        let info = [attribute(9, b"?"), attribute(change::IFLA_INFO_KIND, b"veth\0")].concat();
        bytes.extend(attribute(change::IFLA_LINKINFO, &info));
        let stats: Vec<u8> = (1..=25_u64).flat_map(u64::to_ne_bytes).collect();
        bytes.extend(attribute(IFLA_STATS64, &stats));
        bytes.extend(attribute(IFLA_CARRIER, &[1]));
        bytes.extend(attribute(IFLA_CARRIER_CHANGES, &3_u32.to_ne_bytes()));
        bytes.extend(attribute(IFLA_PARENT_DEV_NAME, b"virtio0\0"));
        let link = Link::parse(&bytes).unwrap();
        assert_eq!(link.stats.map(|stats| stats.rx_missed_errors), Some(16));
        assert_eq!((link.carrier, link.carrier_changes), (Some(true), Some(3)));
        assert_eq!(link.parent_device, b"virtio0");
        assert_eq!((link.kind, link.flags, link.name), (772, 0x1_0049, &b"lo"[..]));
        assert_eq!((link.mtu, link.queue_len), (Some(65536), None));
        assert_eq!((link.index, link.master, link.lower), (1, Some(7), Some(6)));
        assert_eq!((link.alias, link.info.driver), (&b"a note"[..], &b"veth"[..]));
        let map = link.map.unwrap();
        assert_eq!(
            (map.mem_start, map.mem_end, map.base_addr),
            (0x1000, 0x2000, 0x300)
        );
        assert_eq!((map.irq, map.dma), (16, 5));
        let mut elsewhere = bytes.clone();
        elsewhere.extend(attribute(IFLA_LINK_NETNSID, &0_u32.to_ne_bytes()));
        assert_eq!(Link::parse(&elsewhere).unwrap().lower, None);
        assert!(Link::parse(&bytes[..15]).is_err());
        assert!(Link::parse(&bytes[..18]).is_err());
    }

    #[test]
    fn address_is_parsed() {
        let mut bytes = alloc::vec![2, 24, 0, 0, 4, 0, 0, 0];
        bytes.extend(attribute(IFA_LOCAL, &[10, 0, 0, 1]));
        bytes.extend(attribute(IFA_LABEL, b"eth0:1\0"));
        bytes.extend(attribute(IFA_BROADCAST, &[10]));
        let found = Address::parse(&bytes).unwrap();
        assert_eq!(
            (found.prefix_len, found.local, found.label),
            (24, [10, 0, 0, 1], &b"eth0:1"[..])
        );
        assert_eq!((found.broadcast, found.address), (None, [0; 4]));
        assert!(Address::parse(&[2, 24]).is_err());
        let mut bytes = alloc::vec![10, 64, 0, 0];
        bytes.extend(4_u32.to_ne_bytes());
        let nothing = InterfaceAddress::parse(&bytes);
        assert_eq!(nothing, Ok(None));
        bytes.extend(attribute(
            IFA_ADDRESS,
            &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        ));
        let expected = InterfaceAddress {
            index: 4,
            prefix_len: 64,
            ip: "fd00::1".parse().unwrap(),
            is_duplicate: false,
        };
        assert_eq!(InterfaceAddress::parse(&bytes), Ok(Some(expected)));
        bytes.extend(attribute(IFA_LOCAL, &[10, 0, 0, 1]));
        let local = InterfaceAddress::parse(&bytes).unwrap().unwrap();
        assert_eq!(local.ip, IpAddr::from([10, 0, 0, 1]));
        bytes.extend(attribute(IFA_FLAGS, &0x88_u32.to_ne_bytes()));
        let duplicate = InterfaceAddress::parse(&bytes).unwrap().unwrap();
        assert!(duplicate.is_duplicate);
    }
}
