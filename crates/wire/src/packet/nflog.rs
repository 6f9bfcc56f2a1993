//! Packets that Linux's netfilter logs (`iptables -j NFLOG`): attributes, one of which is the packet.

use super::cursor::{Cursor, End, Next};
use super::order::Order;
use crate::{Error, Layer};

/// Finds the packet among the attributes.
///
/// ```text
/// u8 family; u8 version; u16 resource;    then attributes, each padded to four bytes:
/// u16 length; u16 type; bytes             length counts these four bytes as well
/// ```
/// The numbers of attributes are in the byte order of the capturing machine, which the packet does not contain. Only one of the two
/// orders leads to a packet.
pub(super) fn packet(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let [family, version] = *cursor.peek::<2>(Layer::Link)?;
    if version != 0 {
        return Ok(Next::Done(End::Other(None)));
    }
    let rest = cursor.rest();
    let found = payload(rest, Order::Little).or_else(|| payload(rest, Order::Big));
    let (at, len) = found.ok_or_else(|| cursor.short(Layer::Link, rest.len() + 1))?;
    cursor.at += at;
    cursor.end = cursor.end.min(cursor.at + len);
    Ok(match family {
        2 | 10 => Next::Ip,
        _ => Next::Done(End::Other(None)),
    })
}

/// Returns offset and length of the packet; `None` if the attributes end before it, or are not in this byte order.
fn payload(bytes: &[u8], order: Order) -> Option<(usize, usize)> {
    let mut at = HEADER_LEN;
    loop {
        let len = usize::from(order.u16(bytes, at)?);
        let kind = order.u16(bytes, at + 2)?;
        if len < ATTRIBUTE_LEN || kind > TYPE_MAX {
            return None;
        }
        if kind == PAYLOAD {
            return Some((at + ATTRIBUTE_LEN, len - ATTRIBUTE_LEN));
        }
        at += len.next_multiple_of(4);
    }
}

const HEADER_LEN: usize = 4;
const ATTRIBUTE_LEN: usize = 4;
/// `NFULA_PAYLOAD`
const PAYLOAD: u16 = 9;
/// No kernel has attributes with such high numbers.
const TYPE_MAX: u16 = 0xff;
