//! Link headers, and headers between them and IP.

use super::cursor::{Cursor, End, Next};
use super::{LinkType, erf, nflog, wireless};
use crate::bytes::{be_u16, be_u32};
use crate::{Error, Layer};

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
        LinkType::FDDI => fddi(cursor),
        LinkType::ATM_RFC1483 => Ok(Next::Ethertype(LLC)),
        LinkType::PPP_ETHER => Ok(Next::Ethertype(ETHERTYPE_PPPOE)),
        LinkType::IEEE802_11
        | LinkType::IEEE802_11_PRISM
        | LinkType::IEEE802_11_RADIOTAP
        | LinkType::IEEE802_11_AVS => {
            let padding = wireless::driver_header(cursor, link_type)?;
            wireless::frame(cursor, padding)
        }
        LinkType::NFLOG => nflog::packet(cursor),
        LinkType::IPOIB => {
            // A pseudo header with the destination, then u16 ethertype; u16 reserved
            let ethertype = cursor.u16(40, Layer::Link)?;
            cursor.at += 44;
            Ok(Next::Ethertype(ethertype))
        }
        LinkType::IPNET => {
            cursor.peek::<24>(Layer::Link)?;
            cursor.at += 24;
            Ok(Next::Ip)
        }
        LinkType::ERF => match erf::link_type(cursor)? {
            LinkType::ERF => Ok(Next::Done(End::UnknownLink(LinkType::ERF))),
            inner => first(cursor, inner),
        },
        // u8 version; u8 flags; u16 length; u32 linktype; in little-endian order
        LinkType::PPI => {
            let header: &[u8; 8] = cursor.peek(Layer::Link)?;
            let inner = LinkType(u16::from_le_bytes([header[4], header[5]]));
            cursor.at += usize::from(u16::from_le_bytes([header[2], header[3]])).max(header.len());
            match inner {
                LinkType::PPI | LinkType::ERF => Ok(Next::Done(End::UnknownLink(inner))),
                _ => first(cursor, inner),
            }
        }
        _ => Ok(Next::Done(End::UnknownLink(link_type))),
    }
}

/// Parses FDDI: `u8 control; u8 destination[6]; u8 source[6]`, then 802.2. The other frames manage the ring.
fn fddi(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let header: &[u8; 13] = cursor.peek(Layer::Link)?;
    cursor.at += header.len();
    Ok(match header[0] & 0x70 {
        0x50 => Next::Ethertype(LLC),
        _ => Next::Done(End::Other(None)),
    })
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
        // 802.1ah: four bytes of tag; FabricPath: two. Then the customer's Ethernet header
        0x88e7 | 0x8903 => {
            cursor.at += if ethertype == 0x8903 { 2 } else { 4 };
            Ok(Next::Ethernet)
        }
        // 802.1BR: six bytes of tag
        0x893f => {
            let number = cursor.u16(6, Layer::Ethernet)?;
            cursor.at += 8;
            Ok(Next::Ethertype(number))
        }
        0x8847 | 0x8848 => mpls(cursor, ethertype),
        // PPPoE: u8 version_type; u8 code; u16 session; u16 length
        ETHERTYPE_PPPOE => {
            let len = usize::from(cursor.u16(4, Layer::Shim)?);
            cursor.at += 6;
            cursor.end = cursor.end.min(cursor.at + len);
            Ok(Next::Ppp)
        }
        0x6558 => Ok(Next::Ethernet),
        0..ETHERTYPE_MIN => Ok(llc(cursor)),
        _ => Ok(Next::Done(End::Other(Some(ethertype)))),
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
        _ => Ok(Next::Done(End::Other(None))),
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
        return Ok(Next::Done(End::Other(None))); // the protocol is a netlink family
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
        _ => Next::Done(End::Other(None)),
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
                _ => Next::Done(End::Other(Some(ethertype))),
            });
        }
    }
    Ok(Next::Done(End::Other(Some(ethertype))))
}

/// Parses 802.2; with SNAP, an ethertype follows.
fn llc(cursor: &mut Cursor<'_>) -> Next {
    match cursor.rest() {
        // 802.1H uses the second prefix for some ethertypes.
        [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8, high, low, ..] => {
            cursor.at += 8;
            match u16::from_be_bytes([*high, *low]) {
                number @ ETHERTYPE_MIN.. => Next::Ethertype(number),
                _ => Next::Done(End::Other(None)),
            }
        }
        [SAP_IP, SAP_IP, 0x03, ..] => {
            cursor.at += 3;
            Next::Ip
        }
        _ => Next::Done(End::Other(None)),
    }
}

pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_PPPOE: u16 = 0x8864;
/// What Linux calls 802.2 in cooked headers
const LLC: u16 = 4;
/// IP directly in 802.2, with neither SNAP nor ethertype
const SAP_IP: u8 = 0x06;
/// Smaller numbers are lengths.
const ETHERTYPE_MIN: u16 = 1536;
const ARPHRD_NETLINK: u16 = 824;
const LABELS_MAX: usize = 16;
