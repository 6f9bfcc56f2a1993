//! Writing the blocks of a pcapng file to a buffer; always little-endian, with times in nanoseconds.
//!
//! A file is a section header, then an interface block for each interface, then packets, and statistics at the end.
//!
//! ```
//! use sockeye_wire::packet::{LinkType, pcapng};
//!
//! let mut file = vec![];
//! pcapng::section(&mut file, &pcapng::Section { application: Some("sockeye"), ..Default::default() });
//! let interface = pcapng::Interface { name: Some("lo"), ..pcapng::Interface::new(LinkType::ETHERNET, 0) };
//! pcapng::interface(&mut file, &interface);
//! let block = pcapng::Packet { comment: Some("nginx(25011)"), ..pcapng::Packet::new(0, 1_700_000_000_000_000_000, &[0; 60]) };
//! pcapng::packet(&mut file, &block);
//! assert_eq!(file.len() % 4, 0);
//! ```

use super::{block, option};
use crate::packet::LinkType;
use alloc::vec::Vec;

/// The origin of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section<'a> {
    /// Hardware (`shb_hardware`)
    pub hardware: Option<&'a str>,
    /// Operating system (`shb_os`)
    pub os: Option<&'a str>,
    /// Program (`shb_userappl`)
    pub application: Option<&'a str>,
}

/// An interface on which packets were captured. The first one of a section has the index 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Type of its packets' link header
    pub link_type: LinkType,
    /// Most captured bytes of a packet; 0 for no limit
    pub snaplen: u32,
    /// Name (`if_name`)
    pub name: Option<&'a str>,
    /// Description (`if_description`)
    pub description: Option<&'a str>,
    /// Capture filter, as text (`if_filter`)
    pub filter: Option<&'a str>,
    /// Operating system (`if_os`)
    pub os: Option<&'a str>,
}

impl Interface<'_> {
    /// Returns an interface without optional fields.
    #[must_use]
    pub const fn new(link_type: LinkType, snaplen: u32) -> Self {
        Self {
            link_type,
            snaplen,
            name: None,
            description: None,
            filter: None,
            os: None,
        }
    }
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Index of the interface, in the order of their blocks, from 0
    pub interface: u32,
    /// Capture time in nanoseconds since 1970
    pub time_ns: u64,
    /// The captured bytes
    pub captured: &'a [u8],
    /// Length of the whole packet in bytes
    pub original_len: u32,
    /// Direction; `None` if unknown
    pub direction: Option<Direction>,
    /// Number of packets lost between the previous packet and this one (`epb_dropcount`)
    pub dropped: Option<u64>,
    /// Comment (`opt_comment`)
    pub comment: Option<&'a str>,
}

impl<'a> Packet<'a> {
    /// Returns a packet that was captured completely.
    #[must_use]
    pub const fn new(interface: u32, time_ns: u64, captured: &'a [u8]) -> Self {
        Self {
            interface,
            time_ns,
            captured,
            original_len: captured.len() as u32,
            direction: None,
            dropped: None,
            comment: None,
        }
    }
}

/// The direction of a packet (the lowest two bits of `epb_flags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received
    Inbound,
    /// Sent
    Outbound,
}

/// Packet counts of an interface; `None` for unknown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Index of the interface
    pub interface: u32,
    /// Time of the counts in nanoseconds since 1970
    pub time_ns: u64,
    /// Start of the capture (`isb_starttime`)
    pub begin_ns: Option<u64>,
    /// End of the capture (`isb_endtime`)
    pub end_ns: Option<u64>,
    /// Packets that the interface received (`isb_ifrecv`)
    pub received: Option<u64>,
    /// Packets that the interface dropped because a buffer was full (`isb_ifdrop`)
    pub interface_dropped: Option<u64>,
    /// Packets that passed the filter (`isb_filteraccept`)
    pub accepted: Option<u64>,
    /// Packets that the kernel dropped because a buffer was full (`isb_osdrop`)
    pub kernel_dropped: Option<u64>,
    /// Packets that were delivered to the program (`isb_usrdeliv`)
    pub delivered: Option<u64>,
}

/// Appends a section header, the start of a file.
pub fn section(out: &mut Vec<u8>, about: &Section<'_>) {
    framed(out, block::SECTION, |out| {
        push_u32(out, super::BYTE_ORDER_MAGIC);
        push_u16(out, 1); // major
        push_u16(out, 0); // minor
        out.extend_from_slice(&(-1_i64).to_le_bytes()); // the section's length is not known yet
        let begin = out.len();
        text(out, option::SECTION_HARDWARE, about.hardware);
        text(out, option::SECTION_OS, about.os);
        text(out, option::SECTION_APPLICATION, about.application);
        end_of_options(out, begin);
    });
}

/// Appends an interface block.
pub fn interface(out: &mut Vec<u8>, about: &Interface<'_>) {
    framed(out, block::INTERFACE, |out| {
        push_u16(out, about.link_type.0);
        push_u16(out, 0);
        push_u32(out, about.snaplen);
        let begin = out.len();
        text(out, option::INTERFACE_NAME, about.name);
        text(out, option::INTERFACE_DESCRIPTION, about.description);
        bytes(out, option::INTERFACE_RESOLUTION, &[NANOSECONDS]);
        if let Some(filter) = about.filter {
            // The first byte is the language; 0 is libpcap's.
            let mut value = Vec::with_capacity(filter.len() + 1);
            value.push(0);
            value.extend_from_slice(filter.as_bytes());
            bytes(out, option::INTERFACE_FILTER, &value);
        }
        text(out, option::INTERFACE_OS, about.os);
        end_of_options(out, begin);
    });
}

/// Appends a packet block. Its fields are written in one step, as captures write millions of packets.
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    let captured_len = u32::try_from(packet.captured.len()).unwrap_or(u32::MAX);
    let fields = [
        block::ENHANCED_PACKET,
        0, // the length, known below
        packet.interface,
        (packet.time_ns >> 32) as u32,
        packet.time_ns as u32,
        captured_len,
        packet.original_len,
    ];
    let begin = out.len();
    out.reserve(packet.captured.len() + PACKET_ROOM);
    out.extend_from_slice(words(fields).as_flattened());
    extend(out, packet.captured);
    pad(out, packet.captured.len());
    let options = out.len();
    if let Some(direction) = packet.direction {
        let flags: u32 = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        let option = u32::from(option::PACKET_FLAGS) | 4 << 16;
        out.extend_from_slice(words([option, flags]).as_flattened());
    }
    number(out, option::PACKET_DROPS, packet.dropped);
    text(out, option::COMMENT, packet.comment);
    end_of_options(out, options);
    end_block(out, begin);
}

/// Appends a statistics block.
pub fn statistics(out: &mut Vec<u8>, about: &Statistics) {
    framed(out, block::STATISTICS, |out| {
        push_u32(out, about.interface);
        push_time(out, about.time_ns);
        let begin = out.len();
        for (code, time_ns) in [
            (option::STATISTICS_BEGIN, about.begin_ns),
            (option::STATISTICS_END, about.end_ns),
        ] {
            if let Some(time_ns) = time_ns {
                push_u16(out, code);
                push_u16(out, 8);
                push_time(out, time_ns);
            }
        }
        number(out, option::STATISTICS_RECEIVED, about.received);
        number(out, option::STATISTICS_INTERFACE_DROPS, about.interface_dropped);
        number(out, option::STATISTICS_ACCEPTED, about.accepted);
        number(out, option::STATISTICS_KERNEL_DROPS, about.kernel_dropped);
        number(out, option::STATISTICS_DELIVERED, about.delivered);
        end_of_options(out, begin);
    });
}

/// Appends a block: its type, its length, what `body` appends, and its length again.
fn framed(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    push_u32(out, kind);
    push_u32(out, 0); // known below
    body(out);
    end_block(out, begin);
}

/// Writes the length of the block at `begin`, at its start and at its end.
#[inline]
fn end_block(out: &mut Vec<u8>, begin: usize) {
    let len = u32::try_from(out.len() - begin + 4).unwrap_or(u32::MAX);
    push_u32(out, len);
    out[begin + 4..begin + 8].copy_from_slice(&len.to_le_bytes());
}

/// `Vec::extend_from_slice`, in steps of a size that the compiler knows: most packets are short, and for these the
/// `memcpy` of musl takes longer than all the rest.
#[inline]
fn extend(out: &mut Vec<u8>, bytes: &[u8]) {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    if bytes.len() > STEPS_MAX || steps.is_empty() {
        out.extend_from_slice(bytes);
        return;
    }
    for step in steps {
        out.extend_from_slice(step);
    }
    // The last step overlaps the one before it.
    if let (false, Some(last)) = (rest.is_empty(), bytes.last_chunk::<STEP>()) {
        out.truncate(out.len() - (STEP - rest.len()));
        out.extend_from_slice(last);
    }
}

fn words<const N: usize>(words: [u32; N]) -> [[u8; 4]; N] {
    words.map(u32::to_le_bytes)
}

fn text(out: &mut Vec<u8>, code: u16, value: Option<&str>) {
    if let Some(value) = value {
        // Text longer than the 16-bit length is cut between characters.
        let mut end = value.len().min(usize::from(u16::MAX));
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        bytes(out, code, &value.as_bytes()[..end]);
    }
}

fn number(out: &mut Vec<u8>, code: u16, value: Option<u64>) {
    if let Some(value) = value {
        bytes(out, code, &value.to_le_bytes());
    }
}

fn bytes(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = value.len().min(usize::from(u16::MAX));
    push_u16(out, code);
    push_u16(out, u16::try_from(len).unwrap_or(u16::MAX));
    out.extend_from_slice(&value[..len]);
    pad(out, len);
}

/// Appends the end of options, if there are any.
fn end_of_options(out: &mut Vec<u8>, begin: usize) {
    if out.len() > begin {
        push_u32(out, 0);
    }
}

/// Appends a time as two halves, the high one first, each in the file's byte order.
fn push_time(out: &mut Vec<u8>, time_ns: u64) {
    push_u32(out, (time_ns >> 32) as u32);
    push_u32(out, time_ns as u32);
}

fn push_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn push_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn pad(out: &mut Vec<u8>, len: usize) {
    let end = out.len() + (len.wrapping_neg() & 3);
    out.extend_from_slice(&[0; 4]);
    out.truncate(end);
}

/// Most bytes of a packet's block without packet and comment.
const PACKET_ROOM: usize = 64;
const STEP: usize = 16;
/// Most steps for which this loop is faster than `memcpy`.
const STEPS_MAX: usize = 512;

/// `if_tsresol`: 10^-9
const NANOSECONDS: u8 = 9;
