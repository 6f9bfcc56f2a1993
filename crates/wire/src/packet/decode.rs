//! Decoding a captured packet, from its link header to TCP.

use super::cursor::{Cursor, Next, protocol};
use super::{Decoded, Fragment, LinkType, link, network, transport, tunnel, wireless};
use crate::Error;

/// Decodes a packet of `original_len` bytes, of which `bytes` were captured, down to TCP.
///
/// It decodes VLAN tags, MPLS and `PPPoE`, and at most eight nested tunnels: GRE with what it can contain (ERSPAN, 802.11, ...),
/// VXLAN, Geneve, GTP, L2TP, IP in IP of both versions.
/// Addresses are the innermost ones.
///
/// # Errors
/// If a header is truncated by the capture, or invalid. The offset is in `bytes`.
#[inline]
pub fn decode(link_type: LinkType, bytes: &[u8], original_len: u32) -> Result<Decoded, Error> {
    let mut cursor = Cursor::new(bytes, original_len);
    let decoded = decode_layers(&mut cursor, link_type)?;
    Ok(match (decoded, cursor.outer_fragment) {
        // Its tunnel continues in other fragments: it counts when they are here, as in Wireshark.
        (Decoded::Segment(segment), Some(outer)) => Decoded::Fragment(Fragment {
            segment: Some(segment),
            ..outer
        }),
        (decoded, _) => decoded,
    })
}

#[inline]
fn decode_layers(cursor: &mut Cursor<'_>, link_type: LinkType) -> Result<Decoded, Error> {
    let mut next = link::first(cursor, link_type)?;
    for _ in 0..LAYERS_MAX {
        next = match next {
            Next::Ethernet => link::ethernet(cursor)?,
            Next::Ethertype(ethertype) => link::ethertype(cursor, ethertype)?,
            Next::Ppp => link::ppp(cursor)?,
            Next::Wireless => wireless::frame(cursor, 1)?,
            Next::Ip => network::ip(cursor)?,
            Next::Protocol(ip) => match ip.protocol {
                protocol::TCP => return transport::tcp(cursor, &ip),
                protocol::UDP => transport::udp(cursor, &ip)?,
                _ => tunnel::by_protocol(cursor, &ip)?,
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
        Next::Ethernet | Next::Ppp | Next::Wireless | Next::Ip => Decoded::Other { ethertype: None },
    })
}

/// Most headers of one packet, without IPv6 extensions.
const LAYERS_MAX: usize = 64;

#[cfg(test)]
mod tests;
