//! ERF, the format of Endace's capture cards: records, without a header of the file.
//!
//! ```text
//! u64 time; u8 type; u8 flags; u16 record_len; u16 lost; u16 wire_len; then
//! u64 extension[];       as long as the highest bit before is set, that of the type first
//! u8 offset; u8 pad;     only Ethernet
//! ```
//! The time is little-endian, in units of 2^-32 seconds, all else big-endian.
//!
//! The file has no magic number: it is recognized by plausible records. A packet is returned without these headers if its type has a
//! link type, and else with them, as [`LinkType::ERF`], which pcap files can contain too.

use super::LinkType;
use super::cursor::Cursor;
use super::pcapng::InterfaceDescription;
use super::step::{FileError, Record, Step, broken, needs};
use crate::bytes::be_u16;
use crate::{Error, Layer};

/// A reader of an ERF file; see [`super::Reader`].
#[derive(Debug, Clone)]
pub(super) struct Reader {
    /// Packets that the card lost, as the records count them
    interface: InterfaceDescription,
}

impl Reader {
    /// Creates a reader if the file can begin with these bytes; `None` if they are not ERF.
    pub(super) fn new(first: &[u8]) -> Option<Self> {
        let header = first.first_chunk::<HEADER_LEN>()?;
        if !is_plausible(header) {
            return None;
        }
        let next = first
            .get(record_len(header)..)
            .and_then(<[u8]>::first_chunk::<HEADER_LEN>);
        if let Some(next) = next {
            let apart_s = seconds(header).abs_diff(seconds(next));
            if !(is_plausible(next) || kind(next) == PADDING) || apart_s > APART_S_MAX {
                return None;
            }
        }
        Some(Self {
            interface: InterfaceDescription {
                link_type: LinkType::ERF,
                snaplen: 0,
                name: None,
                received: None,
                dropped: None,
            },
        })
    }

    /// Returns the one interface, which has the number of lost packets.
    pub(super) fn interfaces(&self) -> &[InterfaceDescription] {
        core::slice::from_ref(&self.interface)
    }

    pub(super) fn step(&mut self, bytes: &[u8], offset: u64) -> Result<Step, FileError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(needs(Layer::ErfRecord, offset, HEADER_LEN, bytes.len()));
        };
        let used = record_len(header);
        if used < HEADER_LEN {
            return Err(broken(Layer::ErfRecord, offset, HEADER_LEN, used));
        }
        let Some(record) = bytes.get(..used) else {
            return Ok(needs(Layer::ErfRecord, offset, used, bytes.len()));
        };
        match kind(header) {
            PADDING => return Ok(Step::Skip(used as u64)),
            META => return Ok(Step::NotAPacket(used as u64)),
            _ => {}
        }
        if has_loss_counter(kind(header)) {
            let lost = be_u16(header, 12).unwrap_or_default();
            *self.interface.dropped.get_or_insert(0) += u64::from(lost);
        }
        let wire_len = usize::from(be_u16(header, 14).unwrap_or_default());
        let Some((link_type, begin)) = content(record) else {
            return Err(broken(Layer::ErfRecord, offset, used + 1, used));
        };
        let (begin, wire_len) = match link_type {
            LinkType::ERF => (0, begin + wire_len),
            _ => (begin, wire_len),
        };
        // Records are padded to eight bytes, also behind short packets.
        let end = used.min(begin + wire_len).max(begin);
        Ok(Step::Packet(Record {
            time_ns: time_ns(header),
            link_type,
            interface: 0,
            original_len: wire_len as u32,
            captured: begin..end,
            options: 0..0,
            is_big_endian: false,
            used,
        }))
    }
}

/// Whether these bytes, fewer than a header, may be the beginning of a file.
pub(super) fn is_possible(first: &[u8]) -> bool {
    first.len() < HEADER_LEN && first.get(8).is_none_or(|kind| is_packet(*kind))
}

/// Skips the headers of a record. Returns the type of its content; [`LinkType::ERF`] if that is not supported.
pub(super) fn link_type(cursor: &mut Cursor<'_>) -> Result<LinkType, Error> {
    let record = cursor.rest();
    let (link_type, begin) = content(record).ok_or_else(|| cursor.short(Layer::Link, record.len() + 1))?;
    cursor.at += begin;
    Ok(link_type)
}

/// Returns the type of a record's content and where it begins; `None` if it is too short.
fn content(record: &[u8]) -> Option<(LinkType, usize)> {
    let mut begin = HEADER_LEN;
    let mut has_extension = *record.get(8)? & EXTENDED != 0;
    while has_extension {
        has_extension = *record.get(begin)? & EXTENDED != 0;
        begin += EXTENSION_LEN;
    }
    let (link_type, more) = match *record.get(8)? & !EXTENDED {
        2 | 11 | 16 | 20 => (LinkType::ETHERNET, 2),
        1 | 10 | 15 | 19 => (LinkType::PPP_HDLC, 0),
        22 => (LinkType::IPV4, 0),
        23 => (LinkType::IPV6, 0),
        _ => (LinkType::ERF, 0),
    };
    begin += more;
    (begin <= record.len()).then_some((link_type, begin))
}

/// Whether a file may begin with this record, or continue with it.
fn is_plausible(header: &[u8; HEADER_LEN]) -> bool {
    let has_reserved_flags = header[9] & 0xc0 != 0;
    is_packet(header[8])
        && !has_reserved_flags
        && record_len(header) >= HEADER_LEN
        && (SECONDS_MIN..SECONDS_MAX).contains(&seconds(header))
}

/// Whether a record of this type is a packet, or describes the card.
const fn is_packet(kind: u8) -> bool {
    matches!(kind & !EXTENDED, 1..=12 | 15..=25 | META)
}

/// Whether the word behind the length counts lost packets; the others use it for a color or a checksum.
const fn has_loss_counter(kind: u8) -> bool {
    matches!(kind, 1..=9 | 12 | 18 | 21 | 22 | 23)
}

const fn kind(header: &[u8; HEADER_LEN]) -> u8 {
    header[8] & !EXTENDED
}

fn record_len(header: &[u8; HEADER_LEN]) -> usize {
    usize::from(u16::from_be_bytes([header[10], header[11]]))
}

fn seconds(header: &[u8; HEADER_LEN]) -> u32 {
    u32::from_le_bytes([header[4], header[5], header[6], header[7]])
}

fn time_ns(header: &[u8; HEADER_LEN]) -> u64 {
    let fraction = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    u64::from(seconds(header)) * 1_000_000_000 + ((u64::from(fraction) * 1_000_000_000) >> 32)
}

const HEADER_LEN: usize = 16;
const EXTENSION_LEN: usize = 8;
/// The highest bit of the type, and of each extension header
const EXTENDED: u8 = 0x80;
const META: u8 = 27;
const PADDING: u8 = 48;
/// Times from 1990 to 2100 are plausible.
const SECONDS_MIN: u32 = 631_152_000;
const SECONDS_MAX: u32 = 4_102_444_800;
/// Most seconds between the first two records
const APART_S_MAX: u32 = 30 * 86_400;
