//! Decoding a captured packet, from its link header to TCP.

use super::cursor::{Cursor, Next, protocol};
use super::{Decoded, LinkType, link, network, transport, tunnel};
use crate::Error;

/// Decodes a packet of `original_len` bytes, of which `bytes` were captured, down to TCP.
///
/// It decodes VLAN tags, MPLS and `PPPoE`, and at most eight nested tunnels: GRE, VXLAN, Geneve, IP in IP of both
/// versions.
/// Addresses are the innermost ones.
///
/// # Errors
/// If a header is truncated by the capture, or invalid. The offset is in `bytes`.
#[inline]
pub fn decode(link_type: LinkType, bytes: &[u8], original_len: u32) -> Result<Decoded, Error> {
    let mut cursor = Cursor::new(bytes, original_len);
    let mut next = link::first(&mut cursor, link_type)?;
    for _ in 0..LAYERS_MAX {
        next = match next {
            Next::Ethernet => link::ethernet(&mut cursor)?,
            Next::Ethertype(ethertype) => link::ethertype(&mut cursor, ethertype)?,
            Next::Ppp => link::ppp(&mut cursor)?,
            Next::Ip => network::ip(&mut cursor)?,
            Next::Protocol(ip) => match ip.protocol {
                protocol::TCP => return transport::tcp(&cursor, &ip),
                protocol::UDP => transport::udp(&mut cursor, &ip)?,
                _ => tunnel::by_protocol(&mut cursor, &ip)?,
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

/// Most headers of one packet, without IPv6 extensions.
const LAYERS_MAX: usize = 64;

#[cfg(test)]
mod tests;
