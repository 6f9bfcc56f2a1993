//! What capture files of all formats have in common.

use super::{LinkType, pcap, pcapng};
use crate::{Error, Layer};
use core::fmt;
use core::ops::Range;

/// Reads a capture file, whatever its format, out of bytes that somebody else brings.
///
/// It is told what lies at the current place of the file, and says what that is and how many bytes of it are used up. It
/// keeps nothing of the bytes but the descriptions of interfaces.
///
/// ```
/// use sockeye_wire::packet::{LinkType, Reader, Step, pcap};
///
/// let mut file = vec![];
/// pcap::header(&mut file, LinkType::ETHERNET, 0, pcap::Resolution::Nanoseconds);
/// pcap::packet(&mut file, pcap::Resolution::Nanoseconds, 1_700_000_000_000_000_001, &[1, 2, 3], 60);
/// let mut reader = Reader::new(&file).unwrap().expect("enough bytes");
/// let Ok(Step::Pass(header)) = reader.step(&file) else { panic!("the header comes first") };
/// let Ok(Step::Packet(record)) = reader.step(&file[header as usize..]) else { panic!("then a packet") };
/// assert_eq!((record.time_ns, record.captured.len(), record.original_len), (1_700_000_000_000_000_001, 3, 60));
/// ```
#[derive(Debug, Clone)]
pub struct Reader {
    format: Format,
    offset: u64,
}

#[derive(Debug, Clone)]
enum Format {
    Pcap(pcap::Reader),
    Pcapng(pcapng::Reader),
}

impl Reader {
    /// A reader for the format that these first bytes of a file are of; `None`: they are too few to tell.
    ///
    /// # Errors
    /// When they are of no format that is known here.
    pub fn new(first: &[u8]) -> Result<Option<Self>, FileError> {
        let Some(magic) = first.first_chunk::<4>() else {
            return Ok(None);
        };
        let format = if let Some(pcap) = pcap::Reader::new(*magic) {
            Format::Pcap(pcap)
        } else if u32::from_le_bytes(*magic) == pcapng::SECTION {
            Format::Pcapng(pcapng::Reader::default())
        } else {
            return Err(FileError::Unknown { magic: *magic });
        };
        Ok(Some(Self { format, offset: 0 }))
    }

    /// What lies at the current place of the file. Call it next with what lies behind the bytes it used up.
    ///
    /// # Errors
    /// When the bytes cannot be what they claim to be, so that what follows cannot be found.
    #[inline]
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, FileError> {
        let step = match &mut self.format {
            Format::Pcap(pcap) => pcap.step(bytes, self.offset),
            Format::Pcapng(pcapng) => pcapng.step(bytes, self.offset),
        };
        match &step {
            Ok(Step::Packet(record)) => self.offset += record.used as u64,
            Ok(Step::Pass(used) | Step::NoPacket(used)) => self.offset += used,
            Ok(Step::Needs(_)) | Err(_) => {}
        }
        step
    }

    /// Bytes of the file that are behind us.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The interfaces that the file has named up to here, counted through all its sections. A pcap file has none.
    #[must_use]
    pub fn interfaces(&self) -> &[pcapng::Described] {
        match &self.format {
            Format::Pcap(_) => &[],
            Format::Pcapng(pcapng) => pcapng.interfaces(),
        }
    }

    /// What could not be handed out up to here.
    #[must_use]
    pub const fn passed_over(&self) -> PassedOver {
        match &self.format {
            Format::Pcap(pcap) => pcap.passed_over(),
            Format::Pcapng(pcapng) => pcapng.passed_over(),
        }
    }
}

/// What lies at a place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A packet.
    Packet(Record),
    /// Nothing to hand out. So many bytes are used up, which may be more than there were: what is missing is to be skipped.
    Pass(u64),
    /// As [`Self::Pass`], but Wireshark gives it a frame number: something that is no packet, like a block of somebody's own.
    NoPacket(u64),
    /// More bytes are needed. If there are none, the file ends in the middle of something, and this says of what.
    Needs(Error),
}

/// A packet of a file; ranges are of the bytes it was found in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, in nanoseconds since 1970. A packet without a time (pcapng's simple ones) has that of the one before.
    pub time_ns: u64,
    /// What it begins with
    pub link_type: LinkType,
    /// Where it was captured, in [`Reader::interfaces`]; 0 in a pcap file
    pub interface: u32,
    /// How long it was
    pub original_len: u32,
    /// What of it was captured
    pub captured: Range<usize>,
    /// pcapng's options: what else is known of it, for [`pcapng::Options`]
    pub options: Range<usize>,
    /// Whether numbers in the options have their most significant byte first
    pub is_big_endian: bool,
    /// Bytes it takes in the file
    pub used: usize,
}

/// Packets of a file that were not handed out, or not as they were; each a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassedOver {
    /// Longer than [`PACKET_LEN_MAX`]
    pub too_long: u64,
    /// Of interfaces that the file does not describe
    pub of_unknown_interfaces: u64,
    /// Handed out, but without a time of their own
    pub without_time: u64,
}

/// Why a file cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// It begins like no format that is known here.
    Unknown {
        /// Its first bytes
        magic: [u8; 4],
    },
    /// It is of a version that is not known here.
    Version {
        /// Major
        major: u16,
        /// Minor
        minor: u16,
    },
    /// Something in it is not as long as it claims.
    Broken(Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { magic: [a, b, c, d] } => {
                write!(
                    f,
                    "begins with {a:02x} {b:02x} {c:02x} {d:02x}: neither pcap nor pcapng"
                )
            }
            Self::Version { major, minor } => {
                write!(f, "is of version {major}.{minor}, which is not known here")
            }
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FileError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Broken(error) => Some(error),
            Self::Unknown { .. } | Self::Version { .. } => None,
        }
    }
}

/// The step that asks for `needed` bytes at `offset`.
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

/// Packets of which more was captured are passed over, as the longest of real ones are (`MAXIMUM_SNAPLEN` of libpcap).
pub const PACKET_LEN_MAX: usize = 256 * 1024;

/// What claims to be longer is no packet, but a broken file.
pub(super) const CLAIM_MAX: usize = 16 * 1024 * 1024;
