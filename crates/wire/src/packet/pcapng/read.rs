//! Reading the blocks of a pcapng file, of either byte order and of several sections.

use super::{BYTE_ORDER_MAGIC, Options, block, option};
use crate::Layer;
use crate::packet::LinkType;
use crate::packet::order::Order;
use crate::packet::step::{
    CLAIM_MAX, FileError, PACKET_LEN_MAX, Record, SkippedPackets, Step, broken, needs,
};
use alloc::string::String;
use alloc::vec::Vec;

/// A reader of a pcapng file; see [`crate::packet::Reader`].
#[derive(Debug, Clone)]
pub(in crate::packet) struct Reader {
    order: Order,
    interfaces: Vec<Interface>,
    described: Vec<InterfaceDescription>,
    /// Index of the section's first interface among all interfaces
    section_begin: usize,
    last_time_ns: u64,
    skipped: SkippedPackets,
}

/// A file's description of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceDescription {
    /// Type of its packets' link header
    pub link_type: LinkType,
    /// Most captured bytes of a packet; 0 for no limit
    pub snaplen: u32,
    /// Name (`if_name`), cut after 255 bytes
    pub name: Option<String>,
    /// Packets that it received, according to the last statistics
    pub received: Option<u64>,
    /// Packets that the interface and the kernel dropped, according to the last statistics
    pub dropped: Option<u64>,
}

/// The properties of an interface that each packet needs.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: LinkType,
    snaplen: u32,
    unit: Unit,
    /// Nanoseconds to add to each time
    offset_ns: i128,
}

/// Unit of times.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// This number of nanoseconds
    Nanoseconds(u64),
    /// This fraction of a nanosecond
    Parts(u64),
    /// 2^-this seconds
    Binary(u8),
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            order: Order::Little,
            interfaces: Vec::new(),
            described: Vec::new(),
            section_begin: 0,
            last_time_ns: 0,
            skipped: SkippedPackets {
                too_long: 0,
                of_unknown_interfaces: 0,
                without_time: 0,
            },
        }
    }
}

impl Reader {
    pub(in crate::packet) fn interfaces(&self) -> &[InterfaceDescription] {
        &self.described
    }

    pub(in crate::packet) const fn skipped(&self) -> SkippedPackets {
        self.skipped
    }

    #[inline]
    pub(in crate::packet) fn step(&mut self, bytes: &[u8], offset: u64) -> Result<Step, FileError> {
        let Some(head) = bytes.get(..HEAD_LEN) else {
            return Ok(needs(Layer::PcapngBlock, offset, HEAD_LEN, bytes.len()));
        };
        let kind = self.order.u32(head, 0).unwrap_or_default();
        if kind == block::SECTION {
            // The byte order follows after the length.
            let Some(magic) = bytes.first_chunk::<12>() else {
                return Ok(needs(Layer::PcapngSection, offset, 12, bytes.len()));
            };
            self.order = if Order::Little.u32(magic, 8) == Some(BYTE_ORDER_MAGIC) {
                Order::Little
            } else if Order::Big.u32(magic, 8) == Some(BYTE_ORDER_MAGIC) {
                Order::Big
            } else {
                return Err(broken(Layer::PcapngSection, offset, 12, 8));
            };
        }
        let len = self.order.u32(head, 4).unwrap_or_default() as usize;
        if len < SHORTEST || !len.is_multiple_of(4) {
            return Err(broken(
                Layer::PcapngBlock,
                offset,
                len.next_multiple_of(4).max(SHORTEST),
                len,
            ));
        }
        let is_packet = matches!(
            kind,
            block::ENHANCED_PACKET | block::SIMPLE_PACKET | block::OBSOLETE_PACKET
        );
        let is_known = is_packet || matches!(kind, block::SECTION | block::INTERFACE | block::STATISTICS);
        if !is_known {
            let len = len as u64;
            return Ok(match kind {
                block::CUSTOM | block::CUSTOM_NOT_COPIED | block::JOURNAL => Step::NotAPacket(len),
                _ => Step::Skip(len),
            });
        }
        if len > BLOCK_LEN_MAX {
            if len > CLAIM_MAX {
                return Err(broken(Layer::PcapngBlock, offset, len, CLAIM_MAX));
            }
            match kind {
                block::SECTION | block::INTERFACE => {
                    return Err(broken(Layer::PcapngBlock, offset, len, BLOCK_LEN_MAX));
                }
                block::STATISTICS => {}
                _ => self.skipped.too_long += 1,
            }
            return Ok(Step::Skip(len as u64));
        }
        let Some(whole) = bytes.get(..len) else {
            return Ok(needs(Layer::PcapngBlock, offset, len, bytes.len()));
        };
        if self.order.u32(whole, len - 4) != Some(len as u32) {
            // The length is repeated at the end.
            let trailing_len = self.order.u32(whole, len - 4).unwrap_or_default() as usize;
            return Err(broken(Layer::PcapngBlock, offset, len, trailing_len));
        }
        let block = Block {
            bytes: &whole[..len - 4],
            order: self.order,
            offset,
        };
        match kind {
            block::ENHANCED_PACKET => self.timed(&block, block.u32(8, Layer::PcapngPacket)?),
            block::SIMPLE_PACKET => self.simple(&block),
            block::OBSOLETE_PACKET => self.timed(&block, block.u16(8, Layer::PcapngPacket)?.into()),
            block::INTERFACE => self.interface(&block),
            block::STATISTICS => Ok(self.statistics(&block)),
            _ => self.section(&block),
        }
    }

    fn section(&mut self, block: &Block<'_>) -> Result<Step, FileError> {
        let (major, minor) = (
            block.u16(12, Layer::PcapngSection)?,
            block.u16(14, Layer::PcapngSection)?,
        );
        if major != 1 {
            return Err(FileError::Version { major, minor });
        }
        self.section_begin = self.interfaces.len();
        Ok(block.passed())
    }

    fn interface(&mut self, block: &Block<'_>) -> Result<Step, FileError> {
        let link_type = LinkType(block.u16(8, Layer::PcapngInterface)?);
        let snaplen = block.u32(12, Layer::PcapngInterface)?;
        if self.interfaces.len() >= INTERFACES_MAX {
            return Ok(block.passed()); // its packets are counted as those of an unknown interface
        }
        let options = Options::with_order(block.bytes.get(16..).unwrap_or_default(), self.order);
        let unit = options
            .value_of(option::INTERFACE_RESOLUTION)
            .and_then(|value| value.first())
            .map_or(Unit::Nanoseconds(1000), |resolution| Unit::new(*resolution));
        let offset_s = options
            .value_of(option::INTERFACE_OFFSET)
            .and_then(|value| self.order.i64(value, 0))
            .unwrap_or(0);
        let name = options.value_of(option::INTERFACE_NAME).map(|name| {
            let name = &name[..name.len().min(NAME_LEN_MAX)];
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        });
        self.interfaces.push(Interface {
            link_type,
            snaplen,
            unit,
            offset_ns: i128::from(offset_s) * 1_000_000_000,
        });
        self.described.push(InterfaceDescription {
            link_type,
            snaplen,
            name,
            received: None,
            dropped: None,
        });
        Ok(block.passed())
    }

    fn statistics(&mut self, block: &Block<'_>) -> Step {
        let number = self.order.u32(block.bytes, 8).unwrap_or(u32::MAX) as usize;
        if let Some(described) = self.described.get_mut(self.section_begin.saturating_add(number)) {
            let options = Options::with_order(block.bytes.get(20..).unwrap_or_default(), self.order);
            described.received = options.number(option::STATISTICS_RECEIVED).or(described.received);
            let in_interface = options.number(option::STATISTICS_INTERFACE_DROPS);
            let in_kernel = options.number(option::STATISTICS_KERNEL_DROPS);
            if in_interface.or(in_kernel).is_some() {
                described.dropped = Some(in_interface.unwrap_or(0).saturating_add(in_kernel.unwrap_or(0)));
            }
        }
        block.passed()
    }

    /// Parses an enhanced or an obsolete packet, which differ in the width of the interface's number.
    #[inline]
    fn timed(&mut self, block: &Block<'_>, number: u32) -> Result<Step, FileError> {
        let high = block.u32(12, Layer::PcapngPacket)?;
        let low = block.u32(16, Layer::PcapngPacket)?;
        let captured_len = block.u32(20, Layer::PcapngPacket)? as usize;
        let original_len = block.u32(24, Layer::PcapngPacket)?;
        self.packet(block, number, Some((high, low)), 28, captured_len, original_len)
    }

    /// Parses a simple packet. It has no captured length: that follows from the interface's limit.
    fn simple(&mut self, block: &Block<'_>) -> Result<Step, FileError> {
        let original_len = block.u32(8, Layer::PcapngPacket)?;
        let kept = match self.interfaces.get(self.section_begin) {
            Some(interface) if interface.snaplen > 0 => original_len.min(interface.snaplen),
            _ => original_len,
        };
        let captured_len = (kept as usize).min(block.bytes.len() - 12);
        self.packet(block, 0, None, 12, captured_len, original_len)
    }

    #[inline]
    fn packet(
        &mut self,
        block: &Block<'_>,
        number: u32,
        time: Option<(u32, u32)>,
        begin: usize,
        captured_len: usize,
        original_len: u32,
    ) -> Result<Step, FileError> {
        let place = self.section_begin.saturating_add(number as usize);
        let Some(interface) = self.interfaces.get(place) else {
            self.skipped.of_unknown_interfaces += 1;
            return Ok(block.passed());
        };
        let end = begin.saturating_add(captured_len);
        if end > block.bytes.len() {
            return Err(broken(Layer::PcapngPacket, block.offset, end, block.bytes.len()));
        }
        if captured_len > PACKET_LEN_MAX {
            self.skipped.too_long += 1;
            return Ok(block.passed());
        }
        match time {
            Some((high, low)) => {
                self.last_time_ns = interface.time_ns(u64::from(high) << 32 | u64::from(low));
            }
            None => self.skipped.without_time += 1,
        }
        let options = end.next_multiple_of(4).min(block.bytes.len())..block.bytes.len();
        Ok(Step::Packet(Record {
            time_ns: self.last_time_ns,
            link_type: interface.link_type,
            interface: place as u32,
            original_len,
            captured: begin..end,
            options,
            is_big_endian: self.order == Order::Big,
            used: block.bytes.len() + 4,
        }))
    }
}

impl Interface {
    #[inline]
    fn time_ns(&self, count: u64) -> u64 {
        let time_ns = match self.unit {
            Unit::Nanoseconds(each) => count.saturating_mul(each),
            Unit::Parts(parts) => count / parts,
            Unit::Binary(shift) => {
                let time_ns = (u128::from(count) * 1_000_000_000)
                    .checked_shr(u32::from(shift))
                    .unwrap_or(0);
                u64::try_from(time_ns).unwrap_or(u64::MAX)
            }
        };
        if self.offset_ns == 0 {
            return time_ns;
        }
        let moved = (i128::from(time_ns) + self.offset_ns).clamp(0, i128::from(u64::MAX));
        u64::try_from(moved).unwrap_or(u64::MAX)
    }
}

impl Unit {
    /// `if_tsresol`: a negative power of ten, or of two if its highest bit is set.
    fn new(resolution: u8) -> Self {
        let power = u32::from(resolution & 0x7f);
        if resolution & 0x80 != 0 {
            return Self::Binary(resolution & 0x7f);
        }
        match power.checked_sub(9) {
            None => Self::Nanoseconds(10_u64.pow(9 - power)),
            Some(below) => Self::Parts(10_u64.checked_pow(below).unwrap_or(u64::MAX)),
        }
    }
}

/// A block, without the length at its end.
struct Block<'a> {
    bytes: &'a [u8],
    order: Order,
    offset: u64,
}

impl Block<'_> {
    #[inline]
    fn u16(&self, at: usize, layer: Layer) -> Result<u16, FileError> {
        self.order
            .u16(self.bytes, at)
            .ok_or_else(|| self.short(layer, at + 2))
    }

    #[inline]
    fn u32(&self, at: usize, layer: Layer) -> Result<u32, FileError> {
        self.order
            .u32(self.bytes, at)
            .ok_or_else(|| self.short(layer, at + 4))
    }

    #[cold]
    fn short(&self, layer: Layer, needed: usize) -> FileError {
        broken(layer, self.offset, needed, self.bytes.len())
    }

    fn passed(&self) -> Step {
        Step::Skip(self.bytes.len() as u64 + 4)
    }
}

/// Length of type and length
const HEAD_LEN: usize = 8;
/// Length of an empty block
const SHORTEST: usize = 12;
/// Length of the longest packet and its options
const BLOCK_LEN_MAX: usize = PACKET_LEN_MAX + 64 * 1024;
/// Most interfaces that are kept.
const INTERFACES_MAX: usize = 16 * 1024;
const NAME_LEN_MAX: usize = 255;
