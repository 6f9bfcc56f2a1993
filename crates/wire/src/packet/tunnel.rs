//! Tunnels: packets in packets.

use super::cursor::{Cursor, End, Next, protocol};
use crate::bytes::be_u16;
use crate::{Error, Layer};

/// Parses the payload of an IP header: a tunnel, or a protocol that is not decoded.
pub(super) fn by_protocol(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    match cursor.ip.protocol {
        protocol::IPV4 | protocol::IPV6 => Ok(cursor.enter(0, Next::Ip)),
        protocol::GRE => gre(cursor),
        // After IPv4, where it is not an extension header
        protocol::AUTHENTICATION => {
            let [next, units] = *cursor.peek::<2>(Layer::Ipv4)?;
            cursor.at += (usize::from(units) + 2) * 4;
            cursor.ip.protocol = next;
            Ok(Next::Protocol)
        }
        _ => Ok(Next::Done(End::Protocol)),
    }
}

/// Parses a tunnel over UDP by its ports; `None` if it is not one.
pub(super) fn by_port(cursor: &mut Cursor<'_>, source_port: u16, destination_port: u16) -> Option<Next> {
    let content = cursor.rest().get(UDP_LEN..)?;
    let udp_len = usize::from(be_u16(cursor.rest(), 4)?);
    if udp_len >= UDP_LEN {
        cursor.end = cursor.end.min(cursor.at + udp_len);
    } // 0: longer than the 16-bit field
    let has_port = |port| source_port == port || destination_port == port;
    match destination_port {
        // u8 flags; u8 reserved[3]; u8 vni[3]; u8 reserved. A receiver ignores what is reserved (RFC 7348).
        4789 | 8472 if *content.first()? & VXLAN_HAS_NETWORK != 0 => {
            Some(cursor.enter(UDP_LEN + 8, Next::Ethernet))
        }
        // u8 version_options; u8 flags; u16 ethertype; u8 vni[3]; u8 reserved
        6081 if *content.first()? >> 6 == 0 => {
            let options_len = usize::from(content[0] & 63) * 4;
            let next = Next::Ethertype(be_u16(content, 2)?);
            Some(cursor.enter(UDP_LEN + 8 + options_len, next))
        }
        // VXLAN-GPE: u8 flags; u8 reserved[2]; u8 protocol; u8 vni[3]; u8 reserved
        4790 if *content.first()? & VXLAN_HAS_NETWORK != 0 => {
            let next = match *content.get(3)? {
                1 | 2 => Next::Ip,
                3 => Next::Ethernet,
                _ => return None,
            };
            Some(cursor.enter(UDP_LEN + 8, next))
        }
        // GRE in UDP (RFC 8086)
        4754 => {
            cursor.at += UDP_LEN;
            gre(cursor).ok()
        }
        _ if has_port(L2TP_PORT) => l2tp(cursor, content),
        _ if has_port(GTP_PORT) || has_port(GTP_PORT_OLD) => gtp(cursor, content),
        _ => None,
    }
}

/// Parses a data message of L2TP, version 2 (RFC 2661); `None` if it contains no packet.
///
/// ```text
/// u16 flags; u16 length; u16 tunnel; u16 session; u16 sequence[2]; u16 padding_len;    then padding, and PPP
/// ```
/// The flags show which of length, sequence and padding are present.
fn l2tp(cursor: &mut Cursor<'_>, content: &[u8]) -> Option<Next> {
    let flags = be_u16(content, 0)?;
    if flags & (L2TP_CONTROL | L2TP_VERSION) != 2 {
        return None;
    }
    let len = |bit, len| if flags & bit != 0 { len } else { 0 };
    let mut at = 6 + len(L2TP_LENGTH, 2) + len(L2TP_SEQUENCE, 4);
    if flags & L2TP_PADDING != 0 {
        at += 2 + usize::from(be_u16(content, at)?);
    }
    if content.get(at..at + 2)? == [0xff, 0x03] {
        at += 2;
    }
    Some(cursor.enter(UDP_LEN + at, Next::Ppp))
}

/// Parses GTP of mobile networks (3GPP TS 29.281 and 29.060), version 1 and 0; `None` if it contains no user's packet.
///
/// ```text
/// u8 flags; u8 type; u16 length; u32 tunnel;    version 1, then, if one of three flags is set:
/// u16 sequence; u8 number; u8 next;             then extensions: u8 units; ...; u8 next
/// ```
fn gtp(cursor: &mut Cursor<'_>, content: &[u8]) -> Option<Next> {
    let [flags, GTP_USER_PACKET, ..] = *content else {
        return None;
    };
    let mut len = match flags & (GTP_VERSION | GTP_PROTOCOL) {
        GTP_0 => 20,
        GTP_1 => 8,
        _ => return None,
    };
    let end = len + usize::from(be_u16(content, 2)?);
    if flags & GTP_VERSION != 0 && flags & GTP_OPTIONAL != 0 {
        let mut next = match flags & GTP_EXTENSION {
            0 => 0,
            _ => *content.get(11)?,
        };
        len += 4;
        while next != 0 {
            let units = usize::from(*content.get(len)?);
            if units == 0 {
                return None;
            }
            len += units * 4;
            next = *content.get(len - 1)?;
        }
    }
    let next = match content.get(len..)? {
        [0x40..=0x4f | 0x60..=0x6f, ..] => Next::Ip,
        [0xff, 0x03, ..] => {
            len += 2;
            Next::Ppp
        }
        _ => return None,
    };
    cursor.end = cursor.end.min(cursor.at + UDP_LEN + end);
    Some(cursor.enter(UDP_LEN + len, next))
}

/// Parses GRE: RFC 2784 and 2890, and version 1 for PPTP (RFC 2637).
fn gre(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let flags = cursor.u16(0, Layer::Tunnel)?;
    let ethertype = cursor.u16(2, Layer::Tunnel)?;
    let words = |bits: u16| 4 * (flags & bits).count_ones() as usize;
    match flags & 7 {
        // A routing list (0x4000) has been forbidden since 2000.
        0 if flags & 0x4000 == 0 => {
            let len = 4 + words(GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE);
            Ok(match ethertype {
                // Mirrored packets (ERSPAN): type I without, type II with a sequence number and an additional header
                0x88be if flags & GRE_SEQUENCE != 0 => cursor.enter(len + 8, Next::Ethernet),
                0x88be => cursor.enter(len, Next::Ethernet),
                // Type III has a longer header, the last bit of which announces one more.
                0x22eb => {
                    let has_more = cursor.u8(len + 11, Layer::Tunnel)? & 1 != 0;
                    let header_len = if has_more { 20 } else { 12 };
                    cursor.enter(len + header_len, Next::Ethernet)
                }
                // Redirected to a web cache (WCCP): version 2 has a header, in which the first four bits are no version of IP
                0x883e => {
                    let is_ip = matches!(cursor.u8(len, Layer::Tunnel)? >> 4, 4 | 6);
                    cursor.enter(if is_ip { len } else { len + 4 }, Next::Ip)
                }
                // What access points of Aruba send: one of 24 priorities
                0x8200..=0x8370 if ethertype & 0x0f == 0 => cursor.enter(len, Next::Wireless),
                _ => cursor.enter(len, Next::Ethertype(ethertype)),
            })
        }
        1 if ethertype == 0x880b => {
            let mut len = 4 + words(GRE_KEY | GRE_SEQUENCE | GRE_ACKNOWLEDGEMENT);
            if flags & GRE_SEQUENCE == 0 {
                return Ok(Next::Done(End::Protocol)); // only an acknowledgement
            }
            if cursor.rest().get(len..len + 2) == Some(&[0xff, 0x03]) {
                len += 2;
            }
            Ok(cursor.enter(len, Next::Ppp))
        }
        _ => Ok(Next::Done(End::Protocol)),
    }
}

const UDP_LEN: usize = 8;
const VXLAN_HAS_NETWORK: u8 = 0x08;
const L2TP_PORT: u16 = 1701;
/// Bits of L2TP's flags
const L2TP_CONTROL: u16 = 0x8000;
const L2TP_LENGTH: u16 = 0x4000;
const L2TP_SEQUENCE: u16 = 0x0800;
const L2TP_PADDING: u16 = 0x0200;
const L2TP_VERSION: u16 = 0x000f;
const GTP_PORT: u16 = 2152;
const GTP_PORT_OLD: u16 = 3386;
/// A message type: the packet of a user follows
const GTP_USER_PACKET: u8 = 255;
/// Bits of the flags
const GTP_VERSION: u8 = 0xe0;
const GTP_PROTOCOL: u8 = 0x10;
const GTP_OPTIONAL: u8 = 0x07;
const GTP_EXTENSION: u8 = 0x04;
const GTP_0: u8 = 0x10;
const GTP_1: u8 = 0x30;
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
const GRE_ACKNOWLEDGEMENT: u16 = 0x0080;
