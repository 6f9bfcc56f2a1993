//! Requests that create interfaces, bring them up and add addresses.
//!
//! ```text
//! RTM_NEWLINK  ifinfomsg, IFLA_IFNAME, IFLA_LINKINFO { IFLA_INFO_KIND "veth",
//!              IFLA_INFO_DATA { VETH_INFO_PEER { ifinfomsg, IFLA_IFNAME, IFLA_NET_NS_FD } } }
//! RTM_NEWADDR  ifaddrmsg, IFA_LOCAL, IFA_ADDRESS, IFA_FLAGS
//! ```
//! Source: `include/uapi/linux/if_link.h`, `if_addr.h`, `veth.h`; `drivers/net/veth.c`.

use super::{
    IFA_ADDRESS, IFA_LOCAL, IFLA_IFNAME, IFLA_MTU, IFLA_TXQLEN, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK,
};
use crate::netlink::Request;
use alloc::vec::Vec;
use core::net::IpAddr;

/// A pair of connected virtual interfaces: `veth(4)`. Both are created in one request, the first one up, the other one
/// down: the kernel cannot bring an end up before both are connected (`veth_open()`: `ENOTCONN`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VethPair<'a> {
    /// The end in the network namespace of the netlink socket.
    pub name: &'a str,
    /// `IFLA_MASTER`: the index of a bridge to make that end a port of.
    pub master: Option<u32>,
    /// The other end.
    pub peer_name: &'a str,
    /// `IFLA_NET_NS_FD`: a descriptor of the network namespace of the other end.
    pub peer_netns: u32,
}

impl VethPair<'_> {
    /// Returns the request that creates the pair. `None` if a name does not fit into an attribute.
    #[must_use]
    pub fn request(&self, sequence: u32) -> Option<Vec<u8>> {
        let mut peer = [0; 16].to_vec();
        put(&mut peer, IFLA_IFNAME, &text(self.peer_name))?;
        put(&mut peer, IFLA_NET_NS_FD, &self.peer_netns.to_ne_bytes())?;
        let mut data = Vec::new();
        put(&mut data, VETH_INFO_PEER, &peer)?;
        let mut info = Vec::new();
        put(&mut info, IFLA_INFO_KIND, b"veth")?;
        put(&mut info, IFLA_INFO_DATA, &data)?;
        let mut request = Request::make(RTM_NEWLINK, sequence)
            .payload(&link_up(0))
            .attribute(IFLA_IFNAME, &text(self.name))?
            .attribute(IFLA_LINKINFO, &info)?;
        if let Some(master) = self.master {
            request = request.attribute(IFLA_MASTER, &master.to_ne_bytes())?;
        }
        Some(request.finish())
    }
}

/// Returns a request that brings the interface with this index up.
#[must_use]
pub fn bring_up(index: i32, sequence: u32) -> Vec<u8> {
    Request::act(RTM_NEWLINK, sequence)
        .payload(&link_up(index))
        .finish()
}

/// Returns a request that sets the transmit queue length in packets (`txqueuelen`).
#[must_use]
pub fn set_queue_length(index: i32, packets: u32, sequence: u32) -> Option<Vec<u8>> {
    set(index, IFLA_TXQLEN, packets, sequence)
}

/// Returns a request that sets the MTU in bytes.
#[must_use]
pub fn set_mtu(index: i32, bytes: u32, sequence: u32) -> Option<Vec<u8>> {
    set(index, IFLA_MTU, bytes, sequence)
}

fn set(index: i32, kind: u16, value: u32, sequence: u32) -> Option<Vec<u8>> {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let request = Request::act(RTM_NEWLINK, sequence).payload(&fixed);
    Some(request.attribute(kind, &value.to_ne_bytes())?.finish())
}

/// Returns a request that sets the alias (`IFLA_IFALIAS`) of the interface with this name, up to 255 bytes. The kernel
/// does not accept it when it creates an interface.
#[must_use]
pub fn set_alias(name: &str, alias: &str, sequence: u32) -> Option<Vec<u8>> {
    let request = Request::act(RTM_NEWLINK, sequence)
        .payload(&[0; 16])
        .attribute(IFLA_IFNAME, &text(name))?;
    Some(request.attribute(IFLA_IFALIAS, alias.as_bytes())?.finish())
}

/// Returns a request for the interface with this name, which is answered by one `RTM_NEWLINK`. `None` if the name does
/// not fit into an attribute.
#[must_use]
pub fn find(name: &str, sequence: u32) -> Option<Vec<u8>> {
    let request = Request::one(RTM_GETLINK, sequence).payload(&[0; 16]);
    Some(request.attribute(IFLA_IFNAME, &text(name))?.finish())
}

/// Returns a request that adds an address, usable at once: without duplicate address detection.
#[must_use]
pub fn add_address(index: u32, ip: IpAddr, prefix_len: u8, sequence: u32) -> Option<Vec<u8>> {
    let (family, bytes) = match ip {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let mut fixed = alloc::vec![family, prefix_len, 0, RT_SCOPE_UNIVERSE];
    fixed.extend_from_slice(&index.to_ne_bytes());
    let mut request = Request::make(RTM_NEWADDR, sequence)
        .payload(&fixed)
        .attribute(IFA_LOCAL, &bytes)?
        .attribute(IFA_ADDRESS, &bytes)?;
    if family == AF_INET6 {
        request = request.attribute(IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes())?;
    }
    Some(request.finish())
}

/// Encodes a `struct ifinfomsg` that brings an interface up.
fn link_up(index: i32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&IFF_UP.to_ne_bytes());
    fixed[12..16].copy_from_slice(&IFF_UP.to_ne_bytes());
    fixed
}

/// Appends a nested attribute.
fn put(bytes: &mut Vec<u8>, kind: u16, payload: &[u8]) -> Option<()> {
    let len = u16::try_from(payload.len() + 4).ok()?;
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Some(())
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const RT_SCOPE_UNIVERSE: u8 = 0;
const IFF_UP: u32 = 1;
pub(super) const IFLA_MASTER: u16 = 10;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_IFALIAS: u16 = 20;
const IFLA_NET_NS_FD: u16 = 28;
pub(super) const IFLA_INFO_KIND: u16 = 1;
pub(super) const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Attributes, Messages};
    use alloc::collections::BTreeMap;

    fn attributes(bytes: &[u8]) -> BTreeMap<u16, Vec<u8>> {
        let all = Attributes::new(bytes).map(|attribute| {
            let attribute = attribute.unwrap();
            (attribute.kind, attribute.payload.to_vec())
        });
        all.collect()
    }

    #[test]
    fn veth_request_has_the_peer_in_its_namespace() {
        let pair = VethPair {
            name: "v-web1",
            master: Some(7),
            peer_name: "eth0",
            peer_netns: 9,
        };
        let request = pair.request(3).unwrap();
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.flags, message.sequence), (16, 0x605, 3));
        assert_eq!(message.payload[8..12], 1_u32.to_ne_bytes());
        let outer = attributes(&message.payload[16..]);
        assert_eq!(outer[&IFLA_IFNAME], b"v-web1\0");
        assert_eq!(outer[&IFLA_MASTER], 7_u32.to_ne_bytes());
        let info = attributes(&outer[&IFLA_LINKINFO]);
        assert_eq!(info[&IFLA_INFO_KIND], b"veth");
        let data = attributes(&info[&IFLA_INFO_DATA]);
        let peer = &data[&VETH_INFO_PEER];
        assert_eq!(peer[..16], [0; 16]);
        let peer = attributes(&peer[16..]);
        assert_eq!(peer[&IFLA_IFNAME], b"eth0\0");
        assert_eq!(peer[&IFLA_NET_NS_FD], 9_u32.to_ne_bytes());
        let alone = VethPair { master: None, ..pair }.request(3).unwrap();
        let message = Messages::new(&alone).next().unwrap().unwrap();
        assert!(!attributes(&message.payload[16..]).contains_key(&IFLA_MASTER));
    }

    #[test]
    fn address_requests_of_both_families() {
        let request = add_address(5, [10, 0, 0, 1].into(), 24, 1).unwrap();
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, &message.payload[..4]), (20, &[2, 24, 0, 0][..]));
        assert_eq!(message.payload[4..8], 5_u32.to_ne_bytes());
        let found = attributes(&message.payload[8..]);
        assert_eq!(found[&IFA_LOCAL], [10, 0, 0, 1]);
        assert!(!found.contains_key(&IFA_FLAGS));
        let ip = "fd00::1".parse().unwrap();
        let request = add_address(5, ip, 64, 1).unwrap();
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!(message.payload[..2], [10, 64]);
        let found = attributes(&message.payload[8..]);
        assert_eq!(
            (found[&IFA_ADDRESS].len(), &found[&IFA_FLAGS][..]),
            (16, &2_u32.to_ne_bytes()[..])
        );
    }

    #[test]
    fn bring_up_and_find_requests() {
        let request = bring_up(1, 2);
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.flags), (16, 5));
        assert_eq!(message.payload[4..8], 1_i32.to_ne_bytes());
        let request = set_queue_length(1, 1000, 2).unwrap();
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.flags), (16, 5));
        // No flags: the interface stays up or down.
        assert_eq!(message.payload[8..16], [0; 8]);
        assert_eq!(
            attributes(&message.payload[16..])[&IFLA_TXQLEN],
            1000_u32.to_ne_bytes()
        );
        let request = set_alias("lo", "a note", 2).unwrap();
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.flags), (16, 5));
        assert_eq!(attributes(&message.payload[16..])[&IFLA_IFALIAS], b"a note");
        let request = find("lo", 2).unwrap();
        let message = Messages::new(&request).next().unwrap().unwrap();
        assert_eq!((message.kind, message.flags), (18, 1));
        assert_eq!(attributes(&message.payload[16..])[&IFLA_IFNAME], b"lo\0");
    }
}
