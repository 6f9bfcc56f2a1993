//! The headers of a packet, as far as a filter knows them, and the tests of their fields.

use super::Link;
use super::qualifiers::{Direction, Proto, Qualifiers};
use super::tree::{Base, Comparison, Load, Node, Size};
use std::net::Ipv6Addr;

/// Where the headers are at this point of the text: `vlan`, `mpls` and `pppoes` move what is tested after them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Headers {
    pub(super) link: Link,
    /// Offset of the number of the next protocol; `None`: it is in the packet's metadata
    type_at: Option<u32>,
    /// Offset of the payload of the link layer
    payload: u32,
    /// Whether the next VLAN tag is in the packet's metadata
    is_tag_offloaded: bool,
    /// Whether there was a `vlan`
    pub(super) looks_for_tags: bool,
    /// The header before the payload
    carrier: Carrier,
}

/// The header before the tested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    /// The link layer with VLAN tags
    Link,
    /// An MPLS label: the payload itself has its type
    Mpls,
    /// PPP over Ethernet
    Ppp,
}

/// What is expected instead of a test that makes no sense for these headers.
pub(super) type Refusal = &'static str;

impl Headers {
    pub(super) const fn new(link: Link, is_tag_offloaded: bool) -> Self {
        let (type_at, payload) = match link {
            Link::Ethernet | Link::EthernetSocket => (Some(12), 14),
            Link::Cooked => (Some(0), 20),
            Link::Raw | Link::CookedSocket => (None, 0),
        };
        Self {
            link,
            type_at,
            payload,
            is_tag_offloaded,
            looks_for_tags: false,
            carrier: Carrier::Link,
        }
    }

    /// Returns the offset of the link header; `None` if there is none.
    const fn link_start(&self) -> Option<u32> {
        match (self.link, self.carrier) {
            (Link::CookedSocket, _) | (_, Carrier::Ppp) => None,
            _ => Some(0),
        }
    }

    /// Returns the test for a protocol alone; `None` if that is not allowed.
    pub(super) fn protocol(&self, proto: Proto) -> Option<Node> {
        Some(match proto {
            Proto::Link => return None,
            Proto::Ip => self.ether_type(ETH_IP),
            Proto::Ip6 => self.ether_type(ETH_IP6),
            Proto::Arp => self.ether_type(ETH_ARP),
            Proto::Rarp => self.ether_type(ETH_RARP),
            Proto::Icmp | Proto::Igmp | Proto::Igrp | Proto::Vrrp => self.over_ip(proto.number()?),
            Proto::Icmp6 => self.over_ip6(proto.number()?),
            Proto::Tcp | Proto::Udp | Proto::Sctp | Proto::Pim | Proto::Ah | Proto::Esp => {
                let number = proto.number()?;
                self.over_ip(number).or(self.over_ip6(number))
            }
        })
    }

    /// Returns the base of a protocol's offsets and the condition for it, in the order in which libpcap tests.
    pub(super) fn base(&self, proto: Proto, index: Node) -> Option<(Base, Node)> {
        let payload = self.payload;
        Some(match proto {
            Proto::Link => (Base::At(self.link_start()?), index),
            Proto::Ip | Proto::Arp | Proto::Rarp | Proto::Ip6 => {
                (Base::At(payload), index.and(self.protocol(proto)?))
            }
            Proto::Icmp6 => (
                Base::At(payload + 40),
                index.and(self.protocol(Proto::Ip6)?).and(self.next_header(58)),
            ),
            proto => {
                let guard = self.protocol(proto)?.and(self.has_transport_header());
                (
                    Base::AfterIp4Header(payload),
                    self.protocol(Proto::Ip)?.and(index.and(guard)),
                )
            }
        })
    }

    /// Tests the type of the link layer's payload.
    fn ether_type(&self, kind: u32) -> Node {
        let version = |number| Node::masked(Load::At(self.payload, Size::Byte), 0xf0, number);
        match (self.carrier, self.link, self.type_at) {
            (Carrier::Mpls, ..) => {
                let is_last = Node::masked(self.last_label(), 1, 1);
                match kind {
                    ETH_IP => is_last.and(version(0x40)),
                    ETH_IP6 => is_last.and(version(0x60)),
                    _ => Node::Always(false),
                }
            }
            (Carrier::Ppp, _, Some(at)) => {
                let kind = match kind {
                    ETH_IP => 0x21,
                    ETH_IP6 => 0x57,
                    kind => kind,
                };
                Node::equal(Load::At(at, Size::Half), kind)
            }
            (_, Link::Raw, _) => match kind {
                ETH_IP => version(0x40),
                ETH_IP6 => version(0x60),
                _ => Node::Always(false),
            },
            (_, _, Some(at)) => Node::equal(Load::At(at, Size::Half), kind),
            (_, _, None) => Node::equal(Load::Protocol, kind),
        }
    }

    fn over_ip(&self, number: u32) -> Node {
        let is_it = Node::equal(Load::At(self.payload + 9, Size::Byte), number);
        self.ether_type(ETH_IP).and(is_it)
    }

    /// Tests the next header of IPv6, also after a fragment header.
    fn over_ip6(&self, number: u32) -> Node {
        let behind = Node::equal(Load::At(self.payload + 40, Size::Byte), number);
        let fragment = self.next_header(44).and(behind);
        self.ether_type(ETH_IP6)
            .and(self.next_header(number).or(fragment))
    }

    fn next_header(&self, number: u32) -> Node {
        Node::equal(Load::At(self.payload + 6, Size::Byte), number)
    }

    /// Tests that it is not a later fragment of an IPv4 packet.
    fn has_transport_header(&self) -> Node {
        Node::Test(
            Load::At(self.payload + 6, Size::Half),
            u32::MAX,
            Comparison::Intersects,
            0x1fff,
        )
        .not()
    }

    /// Tests `proto N`.
    pub(super) fn numbered(&self, proto: Option<Proto>, number: u32) -> Result<Node, Refusal> {
        match proto {
            None => Ok(self.over_ip(number).or(self.over_ip6(number))),
            Some(Proto::Ip) => Ok(self.over_ip(number)),
            Some(Proto::Ip6) => Ok(self.over_ip6(number)),
            Some(Proto::Link) if number > 0xffff => Err("a number up to 65535"),
            // Smaller numbers are lengths.
            Some(Proto::Link) if number < 0x600 => Err("the number of an Ethernet protocol, 0x600 or more"),
            Some(Proto::Link) => Ok(self.ether_type(number)),
            Some(_) => Err("'proto' alone, or behind ip, ip6 or ether"),
        }
    }

    /// Tests `host` and `net`.
    pub(super) fn network(&self, q: Qualifiers, address: u32, mask: u32) -> Result<Node, Refusal> {
        let in_header = |kind, source: u32, destination: u32| {
            let at = |offset| Node::masked(Load::At(self.payload + offset, Size::Word), mask, address & mask);
            self.ether_type(kind)
                .and_directed(q.direction, at(source), at(destination))
        };
        let ip = || in_header(ETH_IP, 12, 16);
        let arp = || in_header(ETH_ARP, 14, 24);
        let rarp = || in_header(ETH_RARP, 14, 24);
        match q.proto {
            None => Ok(ip().or(arp()).or(rarp())),
            Some(Proto::Ip) => Ok(ip()),
            Some(Proto::Arp) => Ok(arp()),
            Some(Proto::Rarp) => Ok(rarp()),
            Some(Proto::Link) => Err("an Ethernet address, as in ether host 02:00:00:00:00:01"),
            Some(Proto::Ip6) => Err("an IPv6 address"),
            Some(_) => {
                Err("a port; hosts and nets come alone or behind ip, ip6 or arp: tcp and host 10.0.0.1")
            }
        }
    }

    pub(super) fn network6(&self, q: Qualifiers, address: Ipv6Addr, bits: u32) -> Result<Node, Refusal> {
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let words = |value: u128| [96, 64, 32, 0].map(|shift| (value >> shift) as u32);
        let (address, mask) = (words(address.to_bits()), words(mask));
        let at = |offset: u32| {
            let parts = (0_u32..).zip(address.into_iter().zip(mask));
            parts.fold(Node::Always(true), |all, (place, (address, mask))| {
                let load = Load::At(self.payload + offset + 4 * place, Size::Word);
                all.and(Node::masked(load, mask, address))
            })
        };
        match q.proto {
            None | Some(Proto::Ip6) => Ok(self.ether_type(ETH_IP6).and_directed(q.direction, at(8), at(24))),
            Some(Proto::Ip | Proto::Arp | Proto::Rarp) => Err("an IPv4 address"),
            Some(_) => {
                Err("a port; hosts and nets come alone or behind ip, ip6 or arp: tcp and host fd00::1")
            }
        }
    }

    /// Tests `port` and `portrange` of these protocols.
    pub(super) fn ports(&self, direction: Option<Direction>, numbers: &[u32], ports: (u32, u32)) -> Node {
        let atom = |load: Load| match ports {
            (low, high) if low == high => Node::equal(load, low),
            (low, high) => Node::Test(load, u32::MAX, Comparison::GreaterOrEqual, low)
                .and(Node::Test(load, u32::MAX, Comparison::Greater, high).not()),
        };
        let any = |one: &dyn Fn(u32) -> Node| {
            numbers
                .iter()
                .fold(Node::Always(false), |all, number| all.or(one(*number)))
        };
        let over_ip = any(&|number| {
            let at = |offset| atom(Load::AfterIp4Header(self.payload, offset, Size::Half));
            Node::equal(Load::At(self.payload + 9, Size::Byte), number)
                .and(self.has_transport_header())
                .and_directed(direction, at(0), at(2))
        });
        let over_ip6 = any(&|number| {
            let at = |offset| atom(Load::At(self.payload + 40 + offset, Size::Half));
            self.next_header(number).and_directed(direction, at(0), at(2))
        });
        let ip6 = self.ether_type(ETH_IP6).and(over_ip6);
        ip6.or(self.ether_type(ETH_IP).and(over_ip))
    }

    /// Tests `ether host`.
    pub(super) fn station(&self, direction: Option<Direction>, mac: [u8; 6]) -> Result<Node, Refusal> {
        if !self.is_ethernet() {
            return Err("something else: with 'any' and on tunnels packets have no Ethernet addresses");
        }
        let [a, b, c, d, e, f] = mac;
        let at = |offset: u32| {
            let last = u32::from_be_bytes([c, d, e, f]);
            let first = u32::from(u16::from_be_bytes([a, b]));
            Node::equal(Load::At(offset + 2, Size::Word), last)
                .and(Node::equal(Load::At(offset, Size::Half), first))
        };
        Ok(Node::Always(true).and_directed(direction, at(6), at(0)))
    }

    const fn is_ethernet(&self) -> bool {
        matches!(self.link, Link::Ethernet | Link::EthernetSocket) && !matches!(self.carrier, Carrier::Ppp)
    }

    pub(super) fn broadcast(&self, proto: Option<Proto>) -> Result<Node, Refusal> {
        match proto {
            None | Some(Proto::Link) => match self.packet_type() {
                _ if self.is_ethernet() => self.station(Some(Direction::Destination), [0xff; 6]),
                Some(load) => Ok(Node::equal(load, 1)),
                None => Err("something else: there is no broadcast on this link"),
            },
            _ => Err("'broadcast' alone or behind ether; of a network: ip dst host 10.0.0.255"),
        }
    }

    pub(super) fn multicast(&self, proto: Option<Proto>) -> Result<Node, Refusal> {
        match proto {
            None | Some(Proto::Link) => match self.packet_type() {
                _ if self.is_ethernet() => Ok(Node::Test(
                    Load::At(0, Size::Byte),
                    u32::MAX,
                    Comparison::Intersects,
                    1,
                )),
                Some(load) => Ok(Node::equal(load, 2)),
                None => Err("something else: there is no multicast on this link"),
            },
            Some(Proto::Ip) => {
                let load = Load::At(self.payload + 16, Size::Byte);
                let is_it = Node::Test(load, u32::MAX, Comparison::GreaterOrEqual, 224);
                Ok(self.ether_type(ETH_IP).and(is_it))
            }
            Some(Proto::Ip6) => {
                let is_it = Node::equal(Load::At(self.payload + 24, Size::Byte), 255);
                Ok(self.ether_type(ETH_IP6).and(is_it))
            }
            Some(_) => Err("'multicast' alone or behind ether, ip or ip6"),
        }
    }

    /// Returns the field that has the packet type (`PACKET_*`); `None` if the link has none.
    pub(super) const fn packet_type(&self) -> Option<Load> {
        match self.link {
            Link::Cooked => Some(Load::At(10, Size::Byte)),
            Link::EthernetSocket | Link::CookedSocket => Some(Load::PacketType),
            Link::Ethernet | Link::Raw => None,
        }
    }

    /// Tests `vlan`; offsets after it are behind the tag.
    pub(super) fn vlan(&mut self, id: Option<u32>) -> Result<Node, Refusal> {
        if self.link == Link::Raw || self.carrier != Carrier::Link {
            return Err("something else: there are no VLANs here");
        }
        self.looks_for_tags = true;
        if std::mem::take(&mut self.is_tag_offloaded) {
            let is_it = Node::equal(Load::VlanTagPresent, 1);
            return Ok(match id {
                Some(id) => is_it.and(Node::masked(Load::VlanTag, 0xfff, id)),
                None => is_it,
            });
        }
        let kinds = self
            .ether_type(0x8100)
            .or(self.ether_type(0x88a8))
            .or(self.ether_type(0x9100));
        let node = match id {
            Some(id) => kinds.and(Node::masked(Load::At(self.payload, Size::Half), 0xfff, id)),
            None => kinds,
        };
        self.type_at = Some(self.payload + 2);
        self.payload += 4;
        Ok(node)
    }

    /// Tests `mpls`; offsets after it are behind the label.
    pub(super) fn mpls(&mut self, label: Option<u32>) -> Result<Node, Refusal> {
        let is_it = match (self.carrier, self.type_at) {
            (Carrier::Mpls, _) => Node::masked(self.last_label(), 1, 0),
            (Carrier::Ppp, Some(at)) => Node::equal(Load::At(at, Size::Half), PPP_MPLS),
            _ if self.link == Link::Raw => {
                return Err("something else: there are no labels on this link");
            }
            _ => self.ether_type(ETH_MPLS),
        };
        let labelled = match label {
            Some(label) => Node::masked(Load::At(self.payload, Size::Word), 0xffff_f000, label << 12),
            None => Node::Always(true),
        };
        self.payload += 4;
        self.carrier = Carrier::Mpls;
        Ok(is_it.and(labelled))
    }

    /// Returns the byte with the bottom-of-stack bit of the label before.
    const fn last_label(&self) -> Load {
        Load::At(self.payload.saturating_sub(2), Size::Byte)
    }

    pub(super) fn pppoe_discovery(&self) -> Result<Node, Refusal> {
        self.carries_pppoe()?;
        Ok(self.ether_type(ETH_PPPOE_DISCOVERY))
    }

    /// Tests `pppoes`; offsets after it are inside the session.
    pub(super) fn pppoe_session(&mut self, id: Option<u32>) -> Result<Node, Refusal> {
        self.carries_pppoe()?;
        let is_it = self.ether_type(ETH_PPPOE_SESSION);
        let numbered = match id {
            Some(id) => Node::masked(Load::At(self.payload, Size::Word), 0xffff, id),
            None => Node::Always(true),
        };
        self.type_at = Some(self.payload + 6);
        self.payload += 8;
        self.carrier = Carrier::Ppp;
        Ok(is_it.and(numbered))
    }

    fn carries_pppoe(&self) -> Result<(), Refusal> {
        if self.link == Link::Raw || self.carrier != Carrier::Link {
            return Err("something else: there is no PPPoE here");
        }
        Ok(())
    }
}

impl Node {
    fn and_directed(self, direction: Option<Direction>, source: Self, destination: Self) -> Self {
        // Tested separately, as libpcap does: a truncated packet may have only one of the two addresses.
        match direction {
            Some(Direction::Source) => self.and(source),
            Some(Direction::Destination) => self.and(destination),
            Some(Direction::Both) => self.and(source.and(destination)),
            Some(Direction::Either) | None => self.and(source.or(destination)),
        }
    }
}

/// `include/uapi/linux/if_ether.h`
const ETH_IP: u32 = 0x0800;
const ETH_ARP: u32 = 0x0806;
const ETH_RARP: u32 = 0x8035;
const ETH_IP6: u32 = 0x86dd;
const ETH_MPLS: u32 = 0x8847;
const ETH_PPPOE_DISCOVERY: u32 = 0x8863;
const ETH_PPPOE_SESSION: u32 = 0x8864;
/// `PPP_MPLS_UC` of `include/uapi/linux/ppp_defs.h`
const PPP_MPLS: u32 = 0x281;
