//! pcap files (libpcap's format): a header, then packets, each with a header.
//!
//! ```text
//! u32 magic; u16 major; u16 minor; i32 thiszone; u32 sigfigs; u32 snaplen; u32 linktype;
//! u32 seconds; u32 fraction; u32 captured; u32 original;   24 bytes in files of old Red Hat's patched libpcap
//! ```
//! Source: draft-ietf-opsawg-pcap; for old and patched files libpcap's `sf-pcap.c`.

mod write;

pub use write::{header, packet};

use super::LinkType;
use super::order::Order;
use super::step::{CLAIM_MAX, FileError, PACKET_LEN_MAX, Record, SkippedPackets, Step, broken, needs};
use crate::Layer;

/// A reader of a pcap file; see [`super::Reader`].
#[derive(Debug, Clone)]
pub(super) struct Reader {
    order: Order,
    resolution: Resolution,
    header_len: usize,
    /// `None` until the file's header is read.
    link_type: Option<LinkType>,
    lengths: Lengths,
    skipped: SkippedPackets,
}

/// Unit of the times in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The original unit
    Microseconds,
    /// Since libpcap 1.5
    Nanoseconds,
}

/// Order of the two lengths of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    /// Before version 2.3
    OriginalFirst,
    /// Version 2.3, in either order
    ShorterIsCaptured,
}

impl Reader {
    /// Creates a reader; `None` if it is not a pcap file.
    pub(super) fn new(magic: [u8; 4]) -> Option<Self> {
        let known = |order: Order| {
            let (resolution, header_len) = match order.u32(&magic, 0)? {
                MAGIC_MICROSECONDS => (Resolution::Microseconds, PACKET_HEADER_LEN),
                MAGIC_NANOSECONDS => (Resolution::Nanoseconds, PACKET_HEADER_LEN),
                MAGIC_PATCHED => (Resolution::Microseconds, PATCHED_HEADER_LEN),
                _ => return None,
            };
            Some(Self {
                order,
                resolution,
                header_len,
                link_type: None,
                lengths: Lengths::CapturedFirst,
                skipped: SkippedPackets::default(),
            })
        };
        known(Order::Little).or_else(|| known(Order::Big))
    }

    pub(super) const fn skipped(&self) -> SkippedPackets {
        self.skipped
    }

    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8], offset: u64) -> Result<Step, FileError> {
        let Some(link_type) = self.link_type else {
            return self.file_header(bytes, offset);
        };
        let Some(header) = bytes.get(..self.header_len) else {
            return Ok(needs(Layer::PcapPacket, offset, self.header_len, bytes.len()));
        };
        let order = self.order;
        let word = |at| order.u32(header, at).unwrap_or_default();
        let (first, second) = (word(8), word(12));
        let (captured_len, original_len) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::OriginalFirst => (second, first),
            Lengths::ShorterIsCaptured => (first.min(second), first.max(second)),
        };
        let captured_len = captured_len as usize;
        if captured_len > PACKET_LEN_MAX {
            if captured_len > CLAIM_MAX {
                return Err(broken(Layer::PcapPacket, offset, captured_len, CLAIM_MAX));
            }
            self.skipped.too_long += 1;
            return Ok(Step::Skip((self.header_len + captured_len) as u64));
        }
        let used = self.header_len + captured_len;
        if bytes.len() < used {
            return Ok(needs(Layer::PcapPacket, offset, used, bytes.len()));
        }
        let fraction_ns = match self.resolution {
            Resolution::Microseconds => u64::from(word(4)) * 1000,
            Resolution::Nanoseconds => u64::from(word(4)),
        };
        Ok(Step::Packet(Record {
            time_ns: u64::from(word(0)) * 1_000_000_000 + fraction_ns,
            link_type,
            interface: 0,
            original_len,
            captured: self.header_len..used,
            options: 0..0,
            is_big_endian: order == Order::Big,
            used,
        }))
    }

    fn file_header(&mut self, bytes: &[u8], offset: u64) -> Result<Step, FileError> {
        let Some(header) = bytes.first_chunk::<FILE_HEADER_LEN>() else {
            return Ok(needs(Layer::PcapHeader, offset, FILE_HEADER_LEN, bytes.len()));
        };
        let half = |at| self.order.u16(header, at).unwrap_or_default();
        let (major, minor) = (half(4), half(6));
        // DG/UX and similar systems wrote 543.0, which is otherwise like 2.2.
        self.lengths = match (major, minor) {
            (2, 0..=2) | (543, 0) => Lengths::OriginalFirst,
            (2, 3) => Lengths::ShorterIsCaptured,
            (2, _) => Lengths::CapturedFirst,
            _ => return Err(FileError::Version { major, minor }),
        };
        // The upper half has the length of the frame check sequence, which follows the IP packet.
        self.link_type = Some(LinkType(self.order.u32(header, 20).unwrap_or_default() as u16));
        Ok(Step::Skip(FILE_HEADER_LEN as u64))
    }
}

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetzov's format, with the interface index in each packet's header
const MAGIC_PATCHED: u32 = 0xa1b2_cd34;
const FILE_HEADER_LEN: usize = 24;
const PACKET_HEADER_LEN: usize = 16;
const PATCHED_HEADER_LEN: usize = 24;
