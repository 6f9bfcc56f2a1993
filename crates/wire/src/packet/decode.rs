//! Decoding a captured packet, from its link header to TCP.

use super::cursor::{Cursor, End, Next, protocol};
use super::{Decoded, LinkType, link, network, transport, tunnel, wireless};
use crate::Error;

/// Decodes a packet of `original_len` bytes, of which `bytes` were captured, down to TCP.
///
/// It decodes VLAN tags, MPLS and `PPPoE`, and at most eight nested tunnels: GRE with what it can contain (ERSPAN, 802.11, ...),
/// VXLAN, Geneve, GTP, L2TP, IP in IP of both versions.
/// Addresses are the innermost ones. What explains connections in other packets, [`notice`](super::notice()) finds.
///
/// # Errors
/// If a header is truncated by the capture, or invalid. The offset is in `bytes`.
pub fn decode(link_type: LinkType, bytes: &[u8], original_len: u32) -> Result<Decoded, Error> {
    let mut cursor = Cursor::new(bytes, original_len);
    let mut next = link::first(&mut cursor, link_type)?;
    for _ in 0..LAYERS_MAX {
        next = match next {
            Next::Ethernet => link::ethernet(&mut cursor)?,
            Next::Ethertype(ethertype) => link::ethertype(&mut cursor, ethertype)?,
            Next::Ppp => link::ppp(&mut cursor)?,
            Next::Wireless => wireless::frame(&mut cursor, 1)?,
            Next::Ip => network::ip(&mut cursor)?,
            Next::Protocol => match cursor.ip.protocol {
                protocol::TCP => return transport::tcp(&cursor),
                protocol::UDP => transport::udp(&mut cursor)?,
                _ => tunnel::by_protocol(&mut cursor)?,
            },
            Next::Done(end) => return Ok(cursor.decoded(end)),
        };
    }
    Ok(cursor.decoded(match next {
        Next::Protocol => End::Protocol,
        Next::Done(end) => end,
        Next::Ethertype(ethertype) => End::Other(Some(ethertype)),
        Next::Ethernet | Next::Ppp | Next::Wireless | Next::Ip => End::Other(None),
    }))
}

/// Most headers of one packet, without IPv6 extensions.
const LAYERS_MAX: usize = 64;

#[cfg(test)]
mod tests;
