//! Reading capture files of any format.

use super::{FileError, SkippedPackets, Step, erf, pcap, pcapng, snoop};

/// A reader of a capture file of any format; the caller supplies the bytes.
///
/// Each step gets the bytes at the current position, and returns what they are and how many of them are consumed. The
/// reader keeps only the descriptions of interfaces.
///
/// ```
/// use sockeye_wire::packet::{LinkType, Reader, Step, pcap};
///
/// let mut file = vec![];
/// pcap::header(&mut file, LinkType::ETHERNET, 0, pcap::Resolution::Nanoseconds);
/// pcap::packet(&mut file, pcap::Resolution::Nanoseconds, 1_700_000_000_000_000_001, &[1, 2, 3], 60);
/// let mut reader = Reader::new(&file).unwrap().expect("enough bytes");
/// let Ok(Step::Skip(header)) = reader.step(&file) else { panic!("the header comes first") };
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
    Snoop(snoop::Reader),
    Erf(erf::Reader),
}

impl Reader {
    /// Creates a reader for the format of these first bytes; `None` if they are too few.
    ///
    /// # Errors
    /// If the format is unknown.
    pub fn new(first: &[u8]) -> Result<Option<Self>, FileError> {
        let Some(magic) = first.first_chunk::<4>() else {
            return Ok(None);
        };
        let format = if let Some(pcap) = pcap::Reader::new(*magic) {
            Format::Pcap(pcap)
        } else if u32::from_le_bytes(*magic) == pcapng::SECTION {
            Format::Pcapng(pcapng::Reader::default())
        } else if let Some(snoop) = snoop::Reader::new(*magic) {
            Format::Snoop(snoop)
        } else if let Some(erf) = erf::Reader::new(first) {
            Format::Erf(erf)
        } else if erf::is_possible(first) {
            return Ok(None);
        } else {
            return Err(FileError::Unknown { magic: *magic });
        };
        Ok(Some(Self { format, offset: 0 }))
    }

    /// Parses the bytes at the current position. Call it next with the bytes after the consumed ones.
    ///
    /// # Errors
    /// If the bytes are invalid, so that the next record cannot be found.
    #[inline]
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, FileError> {
        let step = match &mut self.format {
            Format::Pcap(pcap) => pcap.step(bytes, self.offset),
            Format::Pcapng(pcapng) => pcapng.step(bytes, self.offset),
            Format::Snoop(snoop) => snoop.step(bytes, self.offset),
            Format::Erf(erf) => erf.step(bytes, self.offset),
        };
        match &step {
            Ok(Step::Packet(record)) => self.offset += record.used as u64,
            Ok(Step::Skip(used) | Step::NotAPacket(used)) => self.offset += used,
            Ok(Step::Needs(_)) | Err(_) => {}
        }
        step
    }

    /// Returns the current position in the file in bytes.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the interfaces described so far, numbered through all sections. A pcap file has none, those of snoop and ERF have one.
    #[must_use]
    pub fn interfaces(&self) -> &[pcapng::InterfaceDescription] {
        match &self.format {
            Format::Pcap(_) => &[],
            Format::Pcapng(pcapng) => pcapng.interfaces(),
            Format::Snoop(snoop) => snoop.interfaces(),
            Format::Erf(erf) => erf.interfaces(),
        }
    }

    /// Returns the counts of packets that were skipped or changed so far.
    #[must_use]
    pub fn skipped(&self) -> SkippedPackets {
        match &self.format {
            Format::Pcap(pcap) => pcap.skipped(),
            Format::Pcapng(pcapng) => pcapng.skipped(),
            Format::Snoop(snoop) => snoop.skipped(),
            // No record is long enough to be skipped.
            Format::Erf(_) => SkippedPackets::default(),
        }
    }
}
