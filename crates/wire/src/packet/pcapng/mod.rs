//! pcapng files: blocks, each with its type, and its length at the start and at the end.
//!
//! ```text
//! u32 type; u32 length; ...; u32 length          length counts the whole block and is a multiple of four
//! option: u16 code; u16 length; bytes, padded to four
//! ```
//! Source: draft-ietf-opsawg-pcapng. [`section`], [`interface`], [`packet`] and [`statistics`] write such blocks.

mod options;
mod read;
mod write;

pub use options::{Entry, Options};
pub use read::InterfaceDescription;
pub(super) use read::Reader;
pub use write::{Direction, Interface, Packet, Section, Statistics, interface, packet, section, statistics};

/// The first bytes of a section, the same in both byte orders.
pub(super) const SECTION: u32 = block::SECTION;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Types of blocks
mod block {
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const OBSOLETE_PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const STATISTICS: u32 = 5;
    pub(super) const ENHANCED_PACKET: u32 = 6;
    /// An entry of systemd's journal
    pub(super) const JOURNAL: u32 = 9;
    pub(super) const CUSTOM: u32 = 0x0000_0bad;
    pub(super) const CUSTOM_NOT_COPIED: u32 = 0x4000_0bad;
}

/// Codes of options
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const SECTION_HARDWARE: u16 = 2;
    pub(super) const SECTION_OS: u16 = 3;
    pub(super) const SECTION_APPLICATION: u16 = 4;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const INTERFACE_DESCRIPTION: u16 = 3;
    pub(super) const INTERFACE_RESOLUTION: u16 = 9;
    pub(super) const INTERFACE_FILTER: u16 = 11;
    pub(super) const INTERFACE_OS: u16 = 12;
    pub(super) const INTERFACE_OFFSET: u16 = 14;
    pub(super) const PACKET_FLAGS: u16 = 2;
    pub(super) const PACKET_DROPS: u16 = 4;
    pub(super) const STATISTICS_BEGIN: u16 = 2;
    pub(super) const STATISTICS_END: u16 = 3;
    pub(super) const STATISTICS_RECEIVED: u16 = 4;
    pub(super) const STATISTICS_INTERFACE_DROPS: u16 = 5;
    pub(super) const STATISTICS_ACCEPTED: u16 = 6;
    pub(super) const STATISTICS_KERNEL_DROPS: u16 = 7;
    pub(super) const STATISTICS_DELIVERED: u16 = 8;
}

#[cfg(test)]
mod tests;
