//! 802.11 frames, and the headers with which drivers precede them.

use super::LinkType;
use super::cursor::{Cursor, End, Next};
use crate::{Error, Layer};

/// Skips the driver's header of this link type. Returns the number of bytes to which the 802.11 header is padded.
pub(super) fn driver_header(cursor: &mut Cursor<'_>, link_type: LinkType) -> Result<usize, Error> {
    match link_type {
        LinkType::IEEE802_11_RADIOTAP => radiotap(cursor),
        // u32 code, big-endian in AVS headers, of the capturing machine in Prism's; u32 length
        LinkType::IEEE802_11_PRISM | LinkType::IEEE802_11_AVS => {
            let code = cursor.u32(0, Layer::Link)?;
            let len = cursor.u32(4, Layer::Link)?;
            // Drivers write AVS headers into captures of type Prism as well.
            let is_prism = code & 0xffff_f000 != AVS_MAGIC;
            cursor.at += if is_prism {
                PRISM_LEN
            } else {
                len.min(LEN_MAX) as usize
            };
            Ok(1)
        }
        _ => Ok(1),
    }
}

/// Parses a data frame.
///
/// ```text
/// u16 control; u16 duration; u8 addresses[3][6]; u16 sequence;    then, if present:
/// u8 address4[6]; u16 qos; u32 ht_control;
/// ```
/// The other frames, encrypted ones and fragments after the first contain no LLC header.
pub(super) fn frame(cursor: &mut Cursor<'_>, padding: usize) -> Result<Next, Error> {
    let [control, flags] = *cursor.peek::<2>(Layer::Link)?;
    let is_data = control & 0x0c == 0x08 && control & NO_DATA == 0;
    if !is_data || flags & PROTECTED != 0 {
        return Ok(Next::Done(End::Other(None)));
    }
    if cursor.u8(22, Layer::Link)? & 0x0f != 0 {
        return Ok(Next::Done(End::Other(None))); // a later fragment
    }
    let mut len = 24;
    if flags & (TO_DISTRIBUTION | FROM_DISTRIBUTION) == TO_DISTRIBUTION | FROM_DISTRIBUTION {
        len += 6;
    }
    let mut is_aggregate = false;
    if control & QOS != 0 {
        is_aggregate = cursor.u8(len, Layer::Link)? & QOS_AGGREGATE != 0;
        len += 2;
        if flags & ORDER != 0 {
            len += 4;
        }
    }
    cursor.at += len.next_multiple_of(padding);
    if is_aggregate {
        // Several packets, of which the first is decoded: two addresses, its length
        let len = usize::from(cursor.u16(12, Layer::Link)?);
        cursor.at += 14;
        cursor.end = cursor.end.min(cursor.at + len);
    }
    Ok(Next::Ethertype(LLC))
}

/// Parses radiotap: u8 version; u8 pad; u16 length; u32 present; then fields, in little-endian order.
fn radiotap(cursor: &mut Cursor<'_>) -> Result<usize, Error> {
    let word = |at| cursor.u32(at, Layer::Link).map(u32::swap_bytes);
    let len = usize::from(cursor.u16(2, Layer::Link)?.swap_bytes());
    let present = word(4)?;
    let mut at = 8;
    let mut more = present;
    while more & RADIOTAP_MORE != 0 && at < len {
        more = word(at)?;
        at += 4;
    }
    if present & RADIOTAP_TIME != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let flags = match present & RADIOTAP_FLAGS {
        0 => 0,
        _ => cursor.u8(at, Layer::Link)?,
    };
    cursor.at += len.max(8);
    Ok(if flags & RADIOTAP_PADDED != 0 { 4 } else { 1 })
}

/// Smaller than any ethertype: 802.2 follows.
const LLC: u16 = 4;
/// Bits of the first byte of frame control
const NO_DATA: u8 = 0x40;
const QOS: u8 = 0x80;
/// Bits of the second one
const TO_DISTRIBUTION: u8 = 0x01;
const FROM_DISTRIBUTION: u8 = 0x02;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;
/// In the QoS field: the frame is an A-MSDU.
const QOS_AGGREGATE: u8 = 0x80;
const RADIOTAP_TIME: u32 = 1;
const RADIOTAP_FLAGS: u32 = 2;
const RADIOTAP_MORE: u32 = 1 << 31;
/// The 802.11 header is padded to four bytes.
const RADIOTAP_PADDED: u8 = 0x20;
const AVS_MAGIC: u32 = 0x8021_1000;
const PRISM_LEN: usize = 144;
/// Longest header before a frame that is believed
const LEN_MAX: u32 = 64 * 1024;
