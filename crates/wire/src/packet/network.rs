//! IPv4 and IPv6.

use super::cursor::{Cursor, End, Ip, Next, protocol};
use crate::bytes::be_u32;
use crate::{Error, Layer};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses IP of either version.
#[inline]
pub(super) fn ip(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    match cursor.u8(0, Layer::Ipv4)? >> 4 {
        4 => ipv4(cursor),
        6 => ipv6(cursor),
        _ => Err(cursor.short(Layer::Ipv4, 20)),
    }
}

/// ```text
/// u8 version_ihl; u8 tos; u16 total_len; u16 id; u16 fragment; u8 ttl; u8 protocol; u16 checksum; u32 source; u32 destination;
/// ```
#[inline]
fn ipv4(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let header: &[u8; 20] = cursor.peek(Layer::Ipv4)?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let header_len = usize::from(header[0] & 15) * 4;
    let total_len = usize::from(half(2));
    if header_len < header.len() || (total_len != 0 && total_len < header_len) {
        return Err(cursor.short(Layer::Ipv4, header_len.max(header.len())));
    }
    if total_len != 0 {
        cursor.end = cursor.end.min(cursor.at + total_len);
    } // else it was captured before segmentation, and is longer than the 16-bit field
    let routed = match header_len > header.len() {
        true => source_route(cursor, header_len),
        false => Routed::No,
    };
    cursor.at += header_len;
    let id = half(4);
    cursor.ip = Ip {
        source: IpAddr::V4(Ipv4Addr::new(header[12], header[13], header[14], header[15])),
        destination: IpAddr::V4(match routed {
            Routed::To(last) => last,
            Routed::No => Ipv4Addr::new(header[16], header[17], header[18], header[19]),
        }),
        protocol: header[9],
        id: Some(id),
        ttl: header[8],
        ecn: header[1] & 3,
        is_routed: matches!(routed, Routed::To(_)),
        first_of: None,
    };
    let fragment = half(6);
    let offset = u32::from(fragment & 0x1fff) * 8;
    let has_more = fragment & 0x2000 != 0;
    if offset != 0 {
        return Ok(Next::Done(End::Fragment {
            id: id.into(),
            offset,
            has_more,
        }));
    }
    if has_more {
        cursor.ip.first_of = Some((id.into(), cursor.at, cursor.end));
    }
    Ok(Next::Protocol)
}

/// The destination of options (RFC 791) that contain a source route.
enum Routed {
    /// They contain none, or it is complete, so that the header has the last one.
    No,
    /// The last one of the route; the header has the next one
    To(Ipv4Addr),
}

fn source_route(cursor: &Cursor<'_>, header_len: usize) -> Routed {
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let captured = cursor.rest();
    let mut options = captured
        .get(20..header_len.min(captured.len()))
        .unwrap_or_default();
    loop {
        options = match options {
            [] | [0, ..] => return Routed::No,
            // u8 type; u8 length; u8 pointer, from 1; addresses
            [LOOSE | STRICT, len, pointer, rest @ ..] => {
                let addresses = rest
                    .get(..usize::from(*len).saturating_sub(3))
                    .unwrap_or_default();
                return match addresses.last_chunk::<4>() {
                    Some(last) if pointer <= len => Routed::To(Ipv4Addr::from(*last)),
                    _ => Routed::No,
                };
            }
            [1, rest @ ..] => rest,
            [_, len, ..] if *len >= 2 => options.get(usize::from(*len)..).unwrap_or_default(),
            _ => return Routed::No,
        };
    }
}

/// ```text
/// u32 version_class_label; u16 payload_len; u8 next; u8 hop_limit; u8 source[16]; u8 destination[16];
/// ```
#[inline]
fn ipv6(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let header: &[u8; 40] = cursor.peek(Layer::Ipv6)?;
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let (mut source, mut destination) = ([0; 16], [0; 16]);
    source.copy_from_slice(&header[8..24]);
    destination.copy_from_slice(&header[24..40]);
    let mut ip = Ip {
        source: IpAddr::V6(Ipv6Addr::from(source)),
        destination: IpAddr::V6(Ipv6Addr::from(destination)),
        protocol: header[6],
        id: None,
        ttl: header[7],
        ecn: header[1] >> 4 & 3,
        is_routed: false,
        first_of: None,
    };
    cursor.at += header.len();
    let begin = cursor.at;
    if payload_len != 0 {
        cursor.end = cursor.end.min(begin + payload_len);
    }
    for _ in 0..EXTENSIONS_MAX {
        let next = ip.protocol;
        let len = match next {
            protocol::TCP | protocol::UDP => break,
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION | protocol::MOBILITY => {
                let [_, units] = *cursor.peek::<2>(Layer::Ipv6)?;
                let len = (usize::from(units) + 1) * 8;
                if next == protocol::HOP_BY_HOP && payload_len == 0 {
                    if let Some(jumbo_len) = jumbo_len(cursor, len) {
                        cursor.end = cursor.end.min(begin.saturating_add(jumbo_len));
                    }
                } else if next == protocol::ROUTING {
                    ip.is_routed |= cursor.u8(3, Layer::Ipv6)? != 0; // segments left
                }
                len
            }
            protocol::AUTHENTICATION => (usize::from(cursor.u8(1, Layer::Ipv6)?) + 2) * 4,
            protocol::FRAGMENT => {
                let part: &[u8; 8] = cursor.peek(Layer::Ipv6)?;
                ip.protocol = part[0];
                let place = u16::from_be_bytes([part[2], part[3]]);
                let id = u32::from_be_bytes([part[4], part[5], part[6], part[7]]);
                cursor.at += part.len();
                let (offset, has_more) = (u32::from(place & 0xfff8), place & 1 != 0);
                if offset != 0 {
                    cursor.ip = ip;
                    return Ok(Next::Done(End::Fragment { id, offset, has_more }));
                }
                if has_more {
                    ip.first_of = Some((id, cursor.at, cursor.end));
                } // else the whole, marked as its own only fragment (RFC 6946)
                continue;
            }
            _ => break,
        };
        ip.protocol = cursor.u8(0, Layer::Ipv6)?;
        cursor.at += len;
    }
    cursor.ip = ip;
    Ok(Next::Protocol)
}

/// Returns the length of a packet of more than 65,535 bytes (RFC 2675) from the hop-by-hop options here.
fn jumbo_len(cursor: &Cursor<'_>, len: usize) -> Option<usize> {
    let options = cursor.rest().get(..len).unwrap_or(cursor.rest());
    let mut at = 2;
    loop {
        match *options.get(at)? {
            0 => at += 1,
            0xc2 => {
                return usize::try_from(be_u32(options, at + 2)?)
                    .ok()
                    .filter(|len| *len > 0xffff);
            }
            _ => at += 2 + usize::from(*options.get(at + 1)?),
        }
    }
}

/// Most extension headers of one packet.
const EXTENSIONS_MAX: usize = 16;
