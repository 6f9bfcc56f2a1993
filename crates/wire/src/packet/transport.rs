//! TCP and UDP.

use super::cursor::{Cursor, End, Ip, Next, protocol};
use super::{Decoded, Fragment, Segment, TcpFlags, TcpOptions, Timestamps, tunnel};
use crate::bytes::{be_u16, be_u32};
use crate::{Error, Layer};
use core::net::IpAddr;

/// ```text
/// u16 source; u16 destination; u32 seq; u32 ack; u16 offset_flags; u16 window; u16 checksum; u16 urgent;
/// ```
#[inline]
pub(super) fn tcp(cursor: &Cursor<'_>) -> Result<Decoded, Error> {
    let ip = &cursor.ip;
    // The fields after the window are not needed.
    let header: &[u8; 16] = cursor.peek(Layer::Tcp)?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let header_len = usize::from(header[12] >> 4) * 4;
    let len = cursor.end.saturating_sub(cursor.at);
    let is_too_long = header_len > len && ip.first_of.is_none();
    if header_len < FIXED_LEN || is_too_long {
        return Err(Error {
            got: len,
            ..cursor.short(Layer::Tcp, header_len.max(FIXED_LEN))
        });
    }
    let flags = TcpFlags(half(12) & 0x0fff);
    let options = if header_len == FIXED_LEN {
        TcpOptions::default()
    } else {
        let rest = cursor.rest();
        let captured = rest
            .get(FIXED_LEN..rest.len().min(header_len))
            .unwrap_or_default();
        options(captured, header_len - FIXED_LEN, flags)
    };
    let segment = Segment {
        source: ip.source,
        source_port: half(0),
        destination: ip.destination,
        destination_port: half(2),
        sequence: word(4),
        acknowledgement: word(8),
        flags,
        window: half(14),
        payload_len: u32::try_from(len.saturating_sub(header_len)).unwrap_or(u32::MAX),
        options,
        ip_id: ip.id,
        ttl: ip.ttl,
        ecn: ip.ecn,
        bad_checksum: bad_checksum(cursor, ip),
        tunnels: cursor.tunnels,
        is_tls_handshake: is_tls_handshake(cursor, header_len),
    };
    let fragment = match ip.first_fragment() {
        Some(fragment) => Some(Fragment {
            header_len: header_len as u32,
            ..fragment
        }),
        // Its tunnel continues in other fragments: it counts when they are here, as in Wireshark.
        None => cursor.outer_fragment,
    };
    Ok(match fragment {
        None => Decoded::Segment(segment),
        Some(fragment) => Decoded::Fragment(Fragment {
            segment: Some(segment),
            ..fragment
        }),
    })
}

/// Whether the data after the header begins with `u8 type = 22 (handshake); u8 major = 3; ...`, the TLS record layer.
#[inline]
fn is_tls_handshake(cursor: &Cursor<'_>, header_len: usize) -> bool {
    cursor.end > cursor.at + header_len && matches!(cursor.rest().get(header_len..), Some([22, 3, ..]))
}

/// ```text
/// u16 source; u16 destination; u16 len; u16 checksum;
/// ```
pub(super) fn udp(cursor: &mut Cursor<'_>) -> Result<Next, Error> {
    let header: &[u8; 4] = cursor.peek(Layer::Udp)?;
    let source_port = u16::from_be_bytes([header[0], header[1]]);
    let destination_port = u16::from_be_bytes([header[2], header[3]]);
    if let Some(next) = tunnel::by_port(cursor, source_port, destination_port) {
        return Ok(next);
    }
    Ok(Next::Done(End::Datagram(source_port, destination_port)))
}

/// Parses the options of a header, of which `captured` was captured out of `len` bytes.
#[inline]
fn options(captured: &[u8], len: usize, flags: TcpFlags) -> TcpOptions {
    let mut options = TcpOptions {
        is_cut: captured.len() < len,
        ..TcpOptions::default()
    };
    // Fast path of most segments: two bytes of padding, timestamps.
    if let [NOP, NOP, TIMESTAMPS, 10, stamps @ ..] = captured
        && stamps.len() == 8
        && len == 12
    {
        options.timestamps = timestamps(stamps);
        return options;
    }
    let is_syn = flags.has(TcpFlags::SYN);
    let mut rest = captured;
    while let [kind, behind @ ..] = rest {
        match *kind {
            END => break,
            NOP => {
                rest = behind;
                continue;
            }
            _ => {}
        }
        let option_len = usize::from(behind.first().copied().unwrap_or(0));
        let Some(value) = rest.get(2..option_len) else {
            // Shorter than its header, or truncated. Completely captured SACK blocks are kept.
            if *kind == SACK && option_len > 2 && options.is_cut {
                push_blocks(&mut options, rest.get(2..).unwrap_or_default());
            }
            options.is_cut = true;
            break;
        };
        match (*kind, value.len()) {
            (MSS, 2) if is_syn => options.mss = be_u16(value, 0),
            (WINDOW_SCALE, 1) if is_syn => options.window_scale = Some(value[0].min(WINDOW_SCALE_MAX)),
            (SACK_PERMITTED, 0) if is_syn => options.sack_permitted = true,
            (TIMESTAMPS, 8) => options.timestamps = timestamps(value),
            (SACK, _) => push_blocks(&mut options, value),
            _ => {}
        }
        rest = &rest[option_len..];
    }
    options
}

fn push_blocks(options: &mut TcpOptions, value: &[u8]) {
    for block in value.chunks_exact(8) {
        if let (Some(start), Some(end)) = (be_u32(block, 0), be_u32(block, 4)) {
            options.sack.push(start, end);
        }
    }
}

fn timestamps(value: &[u8]) -> Option<Timestamps> {
    Some(Timestamps {
        value: be_u32(value, 0)?,
        echo: be_u32(value, 4)?,
    })
}

/// Whether the checksum of the segment here is wrong; `None` if it cannot be checked.
///
/// A packet that was captured on the sending host, or after segments were merged, has no final checksum: Linux (and
/// others) store the sum of the pseudo header, which the hardware completes. Some store 0.
fn bad_checksum(cursor: &Cursor<'_>, ip: &Ip) -> Option<bool> {
    if ip.first_of.is_some() || ip.is_routed {
        return None;
    }
    let segment = cursor.bytes.get(cursor.at..cursor.end)?;
    let stored = be_u16(segment, 16)?;
    let addresses = match (ip.source, ip.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => sum(&source.octets()) + sum(&destination.octets()),
        (IpAddr::V6(source), IpAddr::V6(destination)) => sum(&source.octets()) + sum(&destination.octets()),
        _ => return None,
    };
    let without_len = addresses + u64::from(protocol::TCP);
    let pseudo = without_len + segment.len() as u64;
    if fold(pseudo + sum(segment)) == 0xffff {
        return Some(false);
    }
    if stored == 0 || stored == fold(pseudo) || stored == fold(without_len) {
        return None;
    }
    Some(true)
}

/// Returns the sum of 16-bit words, not folded yet. Packets are shorter than 2^32 words.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    // Adds 32-bit words, which is equivalent because 2^16 counts as 1, in half as many steps.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_be_bytes(last));
    total
}

#[inline]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

const FIXED_LEN: usize = 20;
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
/// RFC 7323
const WINDOW_SCALE_MAX: u8 = 14;
