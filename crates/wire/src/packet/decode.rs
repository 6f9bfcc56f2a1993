//! A captured packet, from its link header down to TCP.

use super::{LinkType, Segment, link, network, transport, tunnel};
use crate::bytes::{be_u16, be_u32};
use crate::{Error, Layer};
use core::net::IpAddr;

/// What a packet is, as far as we look into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // most packets are segments, and nothing is kept
pub enum Decoded {
    /// A TCP segment.
    Segment(Segment),
    /// A part of an IP packet that was cut up.
    Fragment(Fragment),
    /// UDP.
    Datagram {
        /// Who sent it
        source: IpAddr,
        /// Its port
        source_port: u16,
        /// To whom
        destination: IpAddr,
        /// Its port
        destination_port: u16,
    },
    /// Something else over IP.
    Ip {
        /// Who sent it
        source: IpAddr,
        /// To whom
        destination: IpAddr,
        /// What it is (`IPPROTO_ICMP`, ...)
        protocol: u8,
    },
    /// Something else: ARP, spanning tree, ... `None`: not even its kind is told.
    Other {
        /// Its kind (`ETH_P_ARP`, ...)
        ethertype: Option<u16>,
    },
}

/// A part of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Who sent it
    pub source: IpAddr,
    /// To whom
    pub destination: IpAddr,
    /// What the whole is (`IPPROTO_TCP`, ...)
    pub protocol: u8,
    /// Which whole it belongs to, among those of the same addresses and protocol
    pub id: u32,
    /// Where in the whole it begins, in bytes
    pub offset: u32,
    /// How long it is, in bytes, without the IP header
    pub len: u32,
    /// Whether others follow
    pub has_more: bool,
    /// In the first one of a TCP segment, its header; its `payload_len` is what this part carries
    pub segment: Option<Segment>,
}

/// Finds the TCP segment in a packet, of which `bytes` were captured and which was `original_len` bytes long.
///
/// Looks through VLAN tags, MPLS and `PPPoE`, and through at most eight tunnels: GRE, VXLAN, Geneve, IP in IP of both
/// versions. Addresses are the innermost ones.
///
/// # Errors
/// When a header was cut off by the capture, or cannot be what it claims to be. The offset is in `bytes`.
#[inline]
pub fn decode(link_type: LinkType, bytes: &[u8], original_len: u32) -> Result<Decoded, Error> {
    let mut walk = Walk {
        bytes,
        at: 0,
        end: (original_len as usize).max(bytes.len()),
        tunnels: 0,
    };
    let mut next = link::first(&mut walk, link_type)?;
    for _ in 0..LAYERS_MAX {
        next = match next {
            Next::Ethernet => link::ethernet(&mut walk)?,
            Next::Ethertype(ethertype) => link::ethertype(&mut walk, ethertype)?,
            Next::Ppp => link::ppp(&mut walk)?,
            Next::Ip => network::ip(&mut walk)?,
            Next::Protocol(ip) => match ip.protocol {
                protocol::TCP => return transport::tcp(&walk, &ip),
                protocol::UDP => transport::udp(&mut walk, &ip)?,
                _ => tunnel::by_protocol(&mut walk, &ip)?,
            },
            Next::Done(decoded) => return Ok(decoded),
        };
    }
    Ok(match next {
        Next::Protocol(ip) => ip.other(),
        Next::Done(decoded) => decoded,
        Next::Ethertype(ethertype) => Decoded::Other {
            ethertype: Some(ethertype),
        },
        Next::Ethernet | Next::Ppp | Next::Ip => Decoded::Other { ethertype: None },
    })
}

/// What comes next in a packet.
#[allow(clippy::large_enum_variant)] // it lives in registers and on the stack, once
pub(super) enum Next {
    /// An Ethernet header
    Ethernet,
    /// What this number of Ethernet's says
    Ethertype(u16),
    /// A protocol number of PPP
    Ppp,
    /// IPv4 or IPv6, as its first half byte says
    Ip,
    /// What the IP header said
    Protocol(Ip),
    /// It ends here
    Done(Decoded),
}

/// What an IP header said.
#[derive(Clone, Copy)]
pub(super) struct Ip {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) id: Option<u16>,
    pub(super) ttl: u8,
    pub(super) ecn: u8,
    /// `destination` is not the last one, so that the checksum is made with another.
    pub(super) is_routed: bool,
    /// The first part of a packet that was cut up: which, and where its content begins and ends
    pub(super) first_of: Option<(u32, usize, usize)>,
}

impl Ip {
    pub(super) const fn other(&self) -> Decoded {
        Decoded::Ip {
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
        }
    }
}

/// A place in a packet.
pub(super) struct Walk<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// Where what is looked at ends, whether captured or not
    pub(super) end: usize,
    pub(super) tunnels: u8,
}

impl<'a> Walk<'a> {
    /// The next `N` bytes, which stay ahead.
    #[inline]
    pub(super) fn peek<const N: usize>(&self, layer: Layer) -> Result<&'a [u8; N], Error> {
        self.bytes
            .get(self.at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(|| self.short(layer, N))
    }

    /// What was captured from here on.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn u8(&self, ahead: usize, layer: Layer) -> Result<u8, Error> {
        let byte = self.bytes.get(self.at + ahead).copied();
        byte.ok_or_else(|| self.short(layer, ahead + 1))
    }

    #[inline]
    pub(super) fn u16(&self, ahead: usize, layer: Layer) -> Result<u16, Error> {
        be_u16(self.bytes, self.at + ahead).ok_or_else(|| self.short(layer, ahead + 2))
    }

    #[inline]
    pub(super) fn u32(&self, ahead: usize, layer: Layer) -> Result<u32, Error> {
        be_u32(self.bytes, self.at + ahead).ok_or_else(|| self.short(layer, ahead + 4))
    }

    /// Into a tunnel; what is inside begins with `next`. Too deep a tunnel is told as what carries it.
    pub(super) fn enter(&mut self, header_len: usize, next: Next, outer: &Ip) -> Next {
        if self.tunnels >= TUNNELS_MAX {
            return Next::Done(outer.other());
        }
        self.tunnels += 1;
        self.at += header_len;
        if outer.first_of.is_some() {
            // The outer packet goes on in other fragments: how long the inner one is, only it knows.
            self.end = usize::MAX / 2;
        }
        next
    }

    #[cold]
    pub(super) fn short(&self, layer: Layer, needed: usize) -> Error {
        Error {
            layer,
            offset: self.at.min(self.bytes.len()),
            needed,
            got: self.bytes.len().saturating_sub(self.at),
        }
    }
}

/// Numbers of `/etc/protocols`
pub(super) mod protocol {
    pub(in crate::packet) const HOP_BY_HOP: u8 = 0;
    pub(in crate::packet) const IPV4: u8 = 4;
    pub(in crate::packet) const TCP: u8 = 6;
    pub(in crate::packet) const UDP: u8 = 17;
    pub(in crate::packet) const IPV6: u8 = 41;
    pub(in crate::packet) const ROUTING: u8 = 43;
    pub(in crate::packet) const FRAGMENT: u8 = 44;
    pub(in crate::packet) const GRE: u8 = 47;
    pub(in crate::packet) const AUTHENTICATION: u8 = 51;
    pub(in crate::packet) const DESTINATION: u8 = 60;
    pub(in crate::packet) const MOBILITY: u8 = 135;
}

/// Headers of any kind in one packet, IPv6's extensions not counted.
const LAYERS_MAX: usize = 64;
/// Tunnels in one another
const TUNNELS_MAX: u8 = 8;

#[cfg(test)]
mod tests;
