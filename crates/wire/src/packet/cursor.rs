//! A position in a packet that is decoded, and what comes next.

use super::{Decoded, Fragment, LinkType, Payload};
use crate::bytes::{be_u16, be_u32};
use crate::{Error, Layer};
use core::net::{IpAddr, Ipv4Addr};

/// The next header of a packet. It is small, as each header returns one.
#[derive(Clone, Copy)]
pub(super) enum Next {
    /// An Ethernet header
    Ethernet,
    /// The payload of this ethertype
    Ethertype(u16),
    /// A protocol number of PPP
    Ppp,
    /// An 802.11 header
    Wireless,
    /// IPv4 or IPv6, according to its first four bits
    Ip,
    /// The payload of [`Cursor::ip`]
    Protocol,
    /// The end of decoding
    Done(End),
}

/// What a packet without a TCP header ends with.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// No IP, but this ethertype
    Other(Option<u16>),
    /// A link header of another type
    UnknownLink(LinkType),
    /// Another protocol in [`Cursor::ip`]
    Protocol,
    /// UDP in [`Cursor::ip`], from and to these ports
    Datagram(u16, u16),
    /// A fragment of [`Cursor::ip`] after the first
    Fragment { id: u32, offset: u32, has_more: bool },
}

/// The fields of an IP header.
#[derive(Clone, Copy)]
pub(super) struct Ip {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) id: Option<u16>,
    pub(super) ttl: u8,
    pub(super) ecn: u8,
    /// Whether `destination` is not the final one, so that the checksum includes another address.
    pub(super) is_routed: bool,
    /// For a first fragment: identification, and start and end of its payload
    pub(super) first_of: Option<(u32, usize, usize)>,
}

impl Ip {
    /// Returns the first fragment without a segment; `None` for a whole packet.
    pub(super) fn first_fragment(&self) -> Option<Fragment> {
        let (id, begin, end) = self.first_of?;
        Some(Fragment {
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            id,
            offset: 0,
            len: u32::try_from(end.saturating_sub(begin)).unwrap_or(u32::MAX),
            has_more: true,
            segment: None,
            header_len: 0,
        })
    }

    /// No header yet
    const NONE: Self = Self {
        source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        protocol: 0,
        id: None,
        ttl: 0,
        ecn: 0,
        is_routed: false,
        first_of: None,
    };
}

/// A position in a packet.
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// End of the current layer, whether captured or not
    pub(super) end: usize,
    pub(super) tunnels: u8,
    /// The last IP header
    pub(super) ip: Ip,
    /// The outermost packet of which only the first fragment is here, if a tunnel is inside
    pub(super) outer_fragment: Option<Fragment>,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte of a packet of `original_len` bytes.
    pub(super) fn new(bytes: &'a [u8], original_len: u32) -> Self {
        Self {
            bytes,
            at: 0,
            end: (original_len as usize).max(bytes.len()),
            tunnels: 0,
            ip: Ip::NONE,
            outer_fragment: None,
        }
    }

    /// Returns the next `N` bytes without consuming them.
    #[inline]
    pub(super) fn peek<const N: usize>(&self, layer: Layer) -> Result<&'a [u8; N], Error> {
        self.bytes
            .get(self.at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(|| self.short(layer, N))
    }

    /// Returns the captured bytes from here.
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

    /// Enters a tunnel, in which `next` is the first header. A tunnel that is nested too deep is returned as its outer
    /// packet.
    pub(super) fn enter(&mut self, header_len: usize, next: Next) -> Next {
        if self.tunnels >= TUNNELS_MAX {
            return Next::Done(End::Protocol);
        }
        self.tunnels += 1;
        self.at += header_len;
        if let Some(fragment) = self.ip.first_fragment() {
            // The outer packet continues in other fragments: only the inner header has the inner length.
            self.end = usize::MAX / 2;
            self.outer_fragment.get_or_insert(fragment);
        }
        next
    }

    /// Returns what is decoded of a packet that ends here.
    pub(super) fn decoded(&self, end: End) -> Decoded {
        let Ip {
            source,
            destination,
            protocol,
            ..
        } = self.ip;
        match end {
            End::Other(ethertype) => Decoded::Other { ethertype },
            End::UnknownLink(link_type) => Decoded::UnknownLink(link_type),
            End::Protocol => Decoded::Ip {
                source,
                destination,
                protocol,
                payload: self.payload(),
            },
            End::Datagram(source_port, destination_port) => Decoded::Datagram {
                source,
                source_port,
                destination,
                destination_port,
                payload: self.payload(),
            },
            End::Fragment { id, offset, has_more } => Decoded::Fragment(Fragment {
                source,
                destination,
                protocol,
                id,
                offset,
                len: u32::try_from(self.end.saturating_sub(self.at)).unwrap_or(u32::MAX),
                has_more,
                segment: None,
                header_len: 0,
            }),
        }
    }

    /// Returns the payload of the IP header, which begins here; an empty one for a fragment.
    fn payload(&self) -> Payload {
        match self.ip.first_of {
            None => Payload::new(self.at, self.end),
            Some(_) => Payload::default(),
        }
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

/// Most nested tunnels
pub(super) const TUNNELS_MAX: u8 = 8;
