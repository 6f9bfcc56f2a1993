//! What reading a capture file returns, whatever its format.

use super::LinkType;
use crate::{Error, Layer};
use core::fmt;
use core::ops::Range;

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A packet.
    Packet(Record),
    /// No packet. The number of consumed bytes may exceed the given ones: then skip the missing ones as well.
    Skip(u64),
    /// As [`Self::Skip`], for a block that is not a packet but gets a frame number in Wireshark, such as a custom
    /// block.
    NotAPacket(u64),
    /// More bytes are needed. At the end of the file this is the error: the file is truncated.
    Needs(Error),
}

/// A packet of a file; ranges refer to the bytes of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Capture time in nanoseconds since 1970. A packet without a time (pcapng's simple packet) has the time of the
    /// previous one.
    pub time_ns: u64,
    /// Type of its link header
    pub link_type: LinkType,
    /// Index of the interface in [`Reader::interfaces`](super::Reader::interfaces); 0 in a pcap file
    pub interface: u32,
    /// Length of the whole packet in bytes
    pub original_len: u32,
    /// The captured bytes
    pub captured: Range<usize>,
    /// The bytes of pcapng's options, for [`pcapng::Options`](super::pcapng::Options)
    pub options: Range<usize>,
    /// Whether numbers in the options are big-endian
    pub is_big_endian: bool,
    /// Length of the record in the file in bytes
    pub used: usize,
}

/// Counts of packets that were skipped, or returned with changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkippedPackets {
    /// Skipped: longer than [`PACKET_LEN_MAX`]
    pub too_long: u64,
    /// Skipped: of interfaces that the file does not describe
    pub of_unknown_interfaces: u64,
    /// Returned with the time of another packet, because they have none
    pub without_time: u64,
}

/// Why reading a file failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// The format is unknown.
    Unknown {
        /// Its first bytes
        magic: [u8; 4],
    },
    /// The version of the format is unknown.
    Version {
        /// Major
        major: u16,
        /// Minor
        minor: u16,
    },
    /// A snoop file with this number of a link type.
    SnoopDatalink {
        /// RFC 1761's number, or that of a later system
        number: u32,
    },
    /// A record has an invalid length.
    Broken(Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { magic: [a, b, c, d] } => {
                write!(
                    f,
                    "begins with {a:02x} {b:02x} {c:02x} {d:02x}: neither pcap, pcapng, snoop nor ERF"
                )
            }
            Self::Version { major, minor } => {
                write!(f, "is of version {major}.{minor}, which is not known here")
            }
            Self::SnoopDatalink { number } => {
                let name = super::snoop_datalink::datalink_name(*number).unwrap_or("unknown");
                write!(
                    f,
                    "has packets of snoop's datalink type {number} ({name}), which is not supported"
                )
            }
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FileError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Broken(error) => Some(error),
            Self::Unknown { .. } | Self::Version { .. } | Self::SnoopDatalink { .. } => None,
        }
    }
}

/// Returns the step that requests `needed` bytes at `offset`.
#[inline]
pub(super) fn needs(layer: Layer, offset: u64, needed: usize, got: usize) -> Step {
    Step::Needs(error(layer, offset, needed, got))
}

pub(super) fn broken(layer: Layer, offset: u64, needed: usize, got: usize) -> FileError {
    FileError::Broken(error(layer, offset, needed, got))
}

fn error(layer: Layer, offset: u64, needed: usize, got: usize) -> Error {
    Error {
        layer,
        offset: usize::try_from(offset).unwrap_or(usize::MAX),
        needed,
        got,
    }
}

/// Most captured bytes of a packet; longer packets are skipped (`MAXIMUM_SNAPLEN` of libpcap).
pub const PACKET_LEN_MAX: usize = 256 * 1024;

/// A longer packet means a broken file.
pub(super) const CLAIM_MAX: usize = 16 * 1024 * 1024;
