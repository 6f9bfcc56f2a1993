//! Tunnels: packets in packets.

use super::cursor::{Cursor, Ip, Next, protocol};
use crate::bytes::{be_u16, be_u32};
use crate::{Error, Layer};

/// Parses the payload of an IP header: a tunnel, or a protocol that is not decoded.
pub(super) fn by_protocol(cursor: &mut Cursor<'_>, ip: &Ip) -> Result<Next, Error> {
    match ip.protocol {
        protocol::IPV4 | protocol::IPV6 => Ok(cursor.enter(0, Next::Ip, ip)),
        protocol::GRE => gre(cursor, ip),
        // After IPv4, where it is not an extension header
        protocol::AUTHENTICATION => {
            let [next, units] = *cursor.peek::<2>(Layer::Ipv4)?;
            cursor.at += (usize::from(units) + 2) * 4;
            Ok(Next::Protocol(Ip {
                protocol: next,
                ..*ip
            }))
        }
        _ => Ok(Next::Done(ip.other())),
    }
}

/// Parses a tunnel over UDP by its port; `None` if it is not one.
pub(super) fn by_port(cursor: &mut Cursor<'_>, ip: &Ip, destination_port: u16) -> Option<Next> {
    let content = cursor.rest().get(UDP_LEN..)?;
    let udp_len = usize::from(be_u16(cursor.rest(), 4)?);
    if udp_len >= UDP_LEN {
        cursor.end = cursor.end.min(cursor.at + udp_len);
    } // 0: longer than the 16-bit field
    match destination_port {
        // u8 flags; u8 reserved[3]; u8 vni[3]; u8 reserved
        4789 | 8472 if be_u32(content, 0)? == 0x0800_0000 && *content.get(7)? == 0 => {
            Some(cursor.enter(UDP_LEN + 8, Next::Ethernet, ip))
        }
        // u8 version_options; u8 flags; u16 ethertype; u8 vni[3]; u8 reserved
        6081 if *content.first()? >> 6 == 0 => {
            let options_len = usize::from(content[0] & 63) * 4;
            let next = Next::Ethertype(be_u16(content, 2)?);
            Some(cursor.enter(UDP_LEN + 8 + options_len, next, ip))
        }
        _ => None,
    }
}

/// Parses GRE: RFC 2784 and 2890, and version 1 for PPTP (RFC 2637).
fn gre(cursor: &mut Cursor<'_>, ip: &Ip) -> Result<Next, Error> {
    let flags = cursor.u16(0, Layer::Tunnel)?;
    let ethertype = cursor.u16(2, Layer::Tunnel)?;
    let words = |bits: u16| 4 * (flags & bits).count_ones() as usize;
    match flags & 7 {
        // A routing list (0x4000) has been forbidden since 2000.
        0 if flags & 0x4000 == 0 => {
            let len = 4 + words(GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE);
            Ok(match ethertype {
                // Mirrored packets (ERSPAN): type I without, type II with a sequence number and an additional header
                0x88be if flags & GRE_SEQUENCE != 0 => cursor.enter(len + 8, Next::Ethernet, ip),
                0x88be => cursor.enter(len, Next::Ethernet, ip),
                _ => cursor.enter(len, Next::Ethertype(ethertype), ip),
            })
        }
        1 if ethertype == 0x880b => {
            let mut len = 4 + words(GRE_KEY | GRE_SEQUENCE | GRE_ACKNOWLEDGEMENT);
            if flags & GRE_SEQUENCE == 0 {
                return Ok(Next::Done(ip.other())); // only an acknowledgement
            }
            if cursor.rest().get(len..len + 2) == Some(&[0xff, 0x03]) {
                len += 2;
            }
            Ok(cursor.enter(len, Next::Ppp, ip))
        }
        _ => Ok(Next::Done(ip.other())),
    }
}

const UDP_LEN: usize = 8;
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
const GRE_ACKNOWLEDGEMENT: u16 = 0x0080;
