//! Writing a pcap file to a buffer; always little-endian.

use super::{MAGIC_MICROSECONDS, MAGIC_NANOSECONDS, Resolution};
use crate::packet::LinkType;
use alloc::vec::Vec;

/// Appends the file header.
pub fn header(out: &mut Vec<u8>, link_type: LinkType, snaplen: u32, resolution: Resolution) {
    let magic = match resolution {
        Resolution::Microseconds => MAGIC_MICROSECONDS,
        Resolution::Nanoseconds => MAGIC_NANOSECONDS,
    };
    out.extend_from_slice(&magic.to_le_bytes());
    out.extend_from_slice(&2_u16.to_le_bytes()); // version 2.4
    out.extend_from_slice(&4_u16.to_le_bytes());
    out.extend_from_slice(&[0; 8]); // time zone and accuracy, unused
    out.extend_from_slice(&snaplen.to_le_bytes());
    out.extend_from_slice(&u32::from(link_type.0).to_le_bytes());
}

/// Appends a packet; `resolution` is the header's. Times after 2106 wrap around, as the format has 32 bits.
pub fn packet(out: &mut Vec<u8>, resolution: Resolution, time_ns: u64, captured: &[u8], original_len: u32) {
    let fraction = (time_ns % 1_000_000_000) as u32;
    out.extend_from_slice(&((time_ns / 1_000_000_000) as u32).to_le_bytes());
    let fraction = match resolution {
        Resolution::Microseconds => fraction / 1000,
        Resolution::Nanoseconds => fraction,
    };
    out.extend_from_slice(&fraction.to_le_bytes());
    out.extend_from_slice(&u32::try_from(captured.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&original_len.to_le_bytes());
    out.extend_from_slice(captured);
}
