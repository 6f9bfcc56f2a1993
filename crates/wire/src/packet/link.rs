//! Link headers, and headers between them and IP.

use super::Decoded;
use super::cursor::{Cursor, Next};
use crate::bytes::{be_u16, be_u32};
use crate::{Error, Layer};

/// The type of a link header: a number of <https://www.tcpdump.org/linktypes.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

#[allow(missing_docs)] // the names of that page
impl LinkType {
    /// A protocol family in the capturing machine's byte order, then IP.
    pub const NULL: Self = Self(0);
    pub const ETHERNET: Self = Self(1);
    pub const PPP: Self = Self(9);
    /// `DLT_RAW` of most systems, in old files
    pub const RAW_DLT: Self = Self(12);
    /// `DLT_RAW` of OpenBSD
    pub const RAW_OPENBSD: Self = Self(14);
    pub const PPP_HDLC: Self = Self(50);
    pub const RAW: Self = Self(101);
    pub const C_HDLC: Self = Self(104);
    /// As [`Self::NULL`], in network byte order
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture: old versions of `tcpdump -i any`
    pub const LINUX_SLL: Self = Self(113);
    pub const IPV4: Self = Self(228);
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture with the interface index: `tcpdump -i any`
    pub const LINUX_SLL2: Self = Self(276);

    /// Whether [`decode`](fn@super::decode) supports it.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(
            self,
            Self::NULL
                | Self::ETHERNET
                | Self::PPP
                | Self::RAW_DLT
                | Self::RAW_OPENBSD
                | Self::PPP_HDLC
                | Self::RAW
                | Self::C_HDLC
                | Self::LOOP
                | Self::LINUX_SLL
                | Self::IPV4
                | Self::IPV6
                | Self::LINUX_SLL2
        )
    }
}

/// Interface and packet type of a cooked header, of a packet captured on all interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cooked {
    /// Index of the interface; `None` in version 1, which does not have it
    pub interface: Option<u32>,
    /// Direction and kind of destination
    pub kind: CookedKind,
}

/// `sll_pkttype`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookedKind {
    /// For this host
    Host,
    /// Broadcast
    Broadcast,
    /// Multicast
    Multicast,
    /// For another host
    OtherHost,
    /// Sent by this host
    Outgoing,
    /// Another number
    Unknown(u16),
}

impl Cooked {
    /// Parses a cooked header; `None` for other link types.
    #[must_use]
    pub fn read(link_type: LinkType, bytes: &[u8]) -> Option<Self> {
        let (interface, kind) = match link_type {
            LinkType::LINUX_SLL => (None, be_u16(bytes, 0)?),
            LinkType::LINUX_SLL2 => (Some(be_u32(bytes, 4)?), u16::from(*bytes.get(10)?)),
            _ => return None,
        };
        let kind = match kind {
            0 => CookedKind::Host,
            1 => CookedKind::Broadcast,
            2 => CookedKind::Multicast,
            3 => CookedKind::OtherHost,
            4 => CookedKind::Outgoing,
            other => CookedKind::Unknown(other),
        };
        Some(Self { interface, kind })
    }
}

/// Returns the first header of a packet.
#[inline]
pub(super) fn first(cursor: &mut Cursor<'_>, link_type: LinkType) -> Result<Next, Error> {
    match link_type {
        LinkType::ETHERNET => Ok(Next::Ethernet),
        LinkType::RAW | LinkType::RAW_DLT | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            Ok(Next::Ip)
        }
        LinkType::LINUX_SLL => cooked(cursor, 14, 2, 16),
        LinkType::LINUX_SLL2 => cooked(cursor, 0, 8, 20),
        LinkType::NULL | LinkType::LOOP => family(cursor),
        LinkType::PPP | LinkType::PPP_HDLC => hdlc(cursor),
        LinkType::C_HDLC => cisco(cursor),
        _ => Ok(Next::Done(Decoded::Other { ethertype: None })),
    }
}

/// Parses a `struct ethhdr`; a number below 1536 is a length instead of an ethertype.
#[inline]
pub(super) fn ethernet(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let header: &[u8; 14] = cursor.peek(Layer::Ethernet)?;
    let number = u16::from_be_bytes([header[12], header[13]]);
    cursor.at += header.len();
    if number < ETHERTYPE_MIN {
        cursor.end = cursor.end.min(cursor.at + usize::from(number));
    }
    Ok(Next::Ethertype(number))
}

/// Parses the payload of an ethertype: IP, or a header before it.
#[inline]
pub(super) fn ethertype(cursor: &mut Cursor<'_>, ethertype: u16) -> Result<Next, Error> {
    match ethertype {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Ok(Next::Ip),
        // Two bytes of tag, then the next number
        0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
            let number = cursor.u16(2, Layer::Ethernet)?;
            cursor.at += 4;
            if number < ETHERTYPE_MIN {
                cursor.end = cursor.end.min(cursor.at + usize::from(number));
            }
            Ok(Next::Ethertype(number))
        }
        0x8847 | 0x8848 => mpls(cursor, ethertype),
        // PPPoE: version and type, code, session, length
        0x8864 => {
            cursor.peek::<6>(Layer::Shim)?;
            cursor.at += 6;
            Ok(Next::Ppp)
        }
        0x6558 => Ok(Next::Ethernet),
        // 4 is what Linux calls 802.2 in cooked headers.
        0..ETHERTYPE_MIN => Ok(llc(cursor)),
        _ => Ok(Next::Done(Decoded::Other {
            ethertype: Some(ethertype),
        })),
    }
}

/// Parses a PPP protocol number, which may be compressed to one byte.
pub(super) fn ppp(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let first = cursor.u8(0, Layer::Shim)?;
    let protocol = if first & 1 != 0 {
        cursor.at += 1;
        u16::from(first)
    } else {
        let protocol = cursor.u16(0, Layer::Shim)?;
        cursor.at += 2;
        protocol
    };
    match protocol {
        0x0021 | 0x0057 => Ok(Next::Ip),
        0x0281 | 0x0283 => Ok(Next::Ethertype(0x8847)),
        _ => Ok(Next::Done(Decoded::Other { ethertype: None })),
    }
}

/// Parses a cooked header.
fn cooked(
    cursor: &mut Cursor<'_>,
    protocol_at: usize,
    hardware_at: usize,
    len: usize,
) -> Result<Next, Error> {
    let ethertype = cursor.u16(protocol_at, Layer::Link)?;
    let hardware = cursor.u16(hardware_at, Layer::Link)?;
    cursor.at += len;
    if hardware == ARPHRD_NETLINK {
        return Ok(Next::Done(Decoded::Other { ethertype: None })); // the protocol is a netlink family
    }
    Ok(Next::Ethertype(ethertype))
}

/// Parses a protocol family. IPv6 has another number on each system; the byte order is the capturing host's, or the
/// network's.
fn family(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let family = cursor.u32(0, Layer::Link)?;
    cursor.at += 4;
    let family = if family > 0xffff {
        family.swap_bytes()
    } else {
        family
    };
    Ok(match family {
        2 | 10 | 23 | 24 | 28 | 30 => Next::Ip,
        _ => Next::Done(Decoded::Other { ethertype: None }),
    })
}

/// Parses PPP with or without its address and control bytes, or Cisco's framing, which starts differently.
fn hdlc(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    match *cursor.peek::<2>(Layer::Link)? {
        [0xff, 0x03] => cursor.at += 2,
        [0x0f | 0x8f, 0x00] => return cisco(cursor),
        _ => {}
    }
    Ok(Next::Ppp)
}

fn cisco(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let ethertype = cursor.u16(2, Layer::Link)?;
    cursor.at += 4;
    Ok(Next::Ethertype(ethertype))
}

/// Parses MPLS labels, of which the last one is marked; only the first four bits of the payload show its protocol.
fn mpls(cursor: &mut Cursor<'_>, ethertype: u16) -> Result<Next, Error> {
    for _ in 0..LABELS_MAX {
        let label: &[u8; 4] = cursor.peek(Layer::Shim)?;
        cursor.at += 4;
        if label[2] & 1 != 0 {
            return Ok(match cursor.u8(0, Layer::Shim)? >> 4 {
                4 | 6 => Next::Ip,
                _ => Next::Done(Decoded::Other {
                    ethertype: Some(ethertype),
                }),
            });
        }
    }
    Ok(Next::Done(Decoded::Other {
        ethertype: Some(ethertype),
    }))
}

/// Parses 802.2; with SNAP, an ethertype follows.
fn llc(cursor: &mut Cursor<'_>) -> Next {
    match cursor.rest() {
        [0xaa, 0xaa, 0x03, 0, 0, 0, high, low, ..] => {
            cursor.at += 8;
            match u16::from_be_bytes([*high, *low]) {
                number @ ETHERTYPE_MIN.. => Next::Ethertype(number),
                _ => Next::Done(Decoded::Other { ethertype: None }),
            }
        }
        _ => Next::Done(Decoded::Other { ethertype: None }),
    }
}

pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Smaller numbers are lengths.
const ETHERTYPE_MIN: u16 = 1536;
const ARPHRD_NETLINK: u16 = 824;
const LABELS_MAX: usize = 16;
