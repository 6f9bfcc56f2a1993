//! snoop files, of Solaris and others (RFC 1761).
//!
//! ```text
//! u8 magic[8]; u32 version; u32 datalink;
//! u32 original; u32 captured; u32 record_len; u32 drops; u32 seconds; u32 microseconds; bytes, padded
//! ```
//! All numbers are big-endian. `drops` counts the packets that were lost since the capture began.

use super::order::Order;
use super::pcapng::InterfaceDescription;
use super::snoop_datalink::link_type;
use super::step::{CLAIM_MAX, FileError, PACKET_LEN_MAX, Record, SkippedPackets, Step, broken, needs};
use crate::Layer;

/// A reader of a snoop file; see [`super::Reader`].
#[derive(Debug, Clone)]
pub(super) struct Reader {
    /// The one interface; `None` until the file's header is read
    interface: Option<InterfaceDescription>,
    skipped: SkippedPackets,
}

impl Reader {
    /// Creates a reader; `None` if it is not a snoop file.
    pub(super) fn new(magic: [u8; 4]) -> Option<Self> {
        (magic == MAGIC[..4]).then_some(Self {
            interface: None,
            skipped: SkippedPackets::default(),
        })
    }

    /// Returns the one interface, which has the number of lost packets.
    pub(super) fn interfaces(&self) -> &[InterfaceDescription] {
        self.interface.as_slice()
    }

    pub(super) const fn skipped(&self) -> SkippedPackets {
        self.skipped
    }

    pub(super) fn step(&mut self, bytes: &[u8], offset: u64) -> Result<Step, FileError> {
        let Some(interface) = &mut self.interface else {
            return self.file_header(bytes, offset);
        };
        let Some(header) = bytes.first_chunk::<PACKET_HEADER_LEN>() else {
            return Ok(needs(Layer::SnoopPacket, offset, PACKET_HEADER_LEN, bytes.len()));
        };
        let word = |at| Order::Big.u32(header, at).unwrap_or_default();
        let (original_len, captured_len, used) = (word(0), word(4) as usize, word(8) as usize);
        if used < PACKET_HEADER_LEN || used - PACKET_HEADER_LEN < captured_len {
            return Err(broken(
                Layer::SnoopPacket,
                offset,
                PACKET_HEADER_LEN.saturating_add(captured_len),
                used,
            ));
        }
        interface.dropped = Some(word(12).into());
        if captured_len > PACKET_LEN_MAX || used - captured_len > PADDING_MAX {
            if used > CLAIM_MAX {
                return Err(broken(Layer::SnoopPacket, offset, used, CLAIM_MAX));
            }
            self.skipped.too_long += 1;
            return Ok(Step::Skip(used as u64));
        }
        if bytes.len() < used {
            return Ok(needs(Layer::SnoopPacket, offset, used, bytes.len()));
        }
        Ok(Step::Packet(Record {
            time_ns: u64::from(word(16)) * 1_000_000_000 + u64::from(word(20)) * 1000,
            link_type: interface.link_type,
            interface: 0,
            original_len,
            captured: PACKET_HEADER_LEN..PACKET_HEADER_LEN + captured_len,
            options: 0..0,
            is_big_endian: true,
            used,
        }))
    }

    fn file_header(&mut self, bytes: &[u8], offset: u64) -> Result<Step, FileError> {
        let Some(header) = bytes.first_chunk::<FILE_HEADER_LEN>() else {
            return Ok(needs(Layer::SnoopHeader, offset, FILE_HEADER_LEN, bytes.len()));
        };
        if header[..8] != MAGIC {
            let [a, b, c, d, ..] = *header;
            return Err(FileError::Unknown { magic: [a, b, c, d] });
        }
        let word = |at| Order::Big.u32(header, at).unwrap_or_default();
        let (version, datalink) = (word(8), word(12));
        if version != VERSION {
            return Err(FileError::Version {
                major: u16::try_from(version).unwrap_or(u16::MAX),
                minor: 0,
            });
        }
        let link_type = link_type(datalink).ok_or(FileError::SnoopDatalink { number: datalink })?;
        self.interface = Some(InterfaceDescription {
            link_type,
            snaplen: 0,
            name: None,
            received: None,
            dropped: None,
        });
        Ok(Step::Skip(FILE_HEADER_LEN as u64))
    }
}

const MAGIC: [u8; 8] = *b"snoop\0\0\0";
const VERSION: u32 = 2;
const FILE_HEADER_LEN: usize = 16;
const PACKET_HEADER_LEN: usize = 24;
/// Longest header and padding of a record
const PADDING_MAX: usize = 4096;
