//! A TCP segment of a captured packet.

use core::net::IpAddr;

/// A TCP segment according to its headers, also of a packet that was captured in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Source address; inside tunnels, the innermost one.
    pub source: IpAddr,
    /// Its port.
    pub source_port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Its port.
    pub destination_port: u16,
    /// Sequence number of its first byte, or of SYN.
    pub sequence: u32,
    /// Next expected sequence number; valid with [`TcpFlags::ACK`].
    pub acknowledgement: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// The window field, not scaled.
    pub window: u16,
    /// Length of its data in bytes according to the IP header, whether captured or not.
    pub payload_len: u32,
    /// Options, as far as they were captured.
    pub options: TcpOptions,
    /// IPv4 identification, which most senders increment with each packet; `None` for IPv6.
    pub ip_id: Option<u16>,
    /// TTL or hop limit.
    pub ttl: u8,
    /// ECN bits of the IP header: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// Whether the checksum is wrong; `None` if it was not checked or the segment was not captured completely.
    pub bad_checksum: Option<bool>,
    /// Number of tunnels around it.
    pub tunnels: u8,
    /// Whether its data begins like a TLS handshake record; false if that was not captured.
    pub is_tls_handshake: bool,
}

/// Flags of a TCP header, including the three of ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFlags(pub u16);

#[allow(missing_docs)] // the names of RFC 9293
impl TcpFlags {
    pub const FIN: Self = Self(0x001);
    pub const SYN: Self = Self(0x002);
    pub const RST: Self = Self(0x004);
    pub const PSH: Self = Self(0x008);
    pub const ACK: Self = Self(0x010);
    pub const URG: Self = Self(0x020);
    pub const ECE: Self = Self(0x040);
    pub const CWR: Self = Self(0x080);

    /// Whether any of these is set.
    #[must_use]
    pub const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// Returns the flags of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Options of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size, in a SYN
    pub mss: Option<u16>,
    /// Window scale, in a SYN; more than 14 counts as 14 (RFC 7323)
    pub window_scale: Option<u8>,
    /// SACK permitted, in a SYN
    pub sack_permitted: bool,
    /// Timestamps
    pub timestamps: Option<Timestamps>,
    /// Ranges received beyond the acknowledgement
    pub sack: SackBlocks,
    /// Whether they are truncated by the capture, or invalid
    pub is_cut: bool,
}

/// RFC 7323
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock
    pub value: u32,
    /// The last value it received
    pub echo: u32,
}

/// Up to four ranges of sequence numbers, `start..end` (RFC 2018); the first may be a duplicate (RFC 2883).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
    len: u8,
}

impl SackBlocks {
    /// Adds a block; a fifth is ignored, as it does not fit into a header.
    pub const fn push(&mut self, start: u32, end: u32) {
        if self.len < 4 {
            self.blocks[self.len as usize] = (start, end);
            self.len += 1;
        }
    }

    /// Returns the blocks in the order of the header.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }
}
