//! The results of decoding.

use super::{LinkType, Segment};
use core::net::IpAddr;

/// A decoded packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // most packets are segments, and values are short-lived
pub enum Decoded {
    /// A TCP segment.
    Segment(Segment),
    /// A fragment of an IP packet.
    Fragment(Fragment),
    /// UDP.
    Datagram {
        /// Source address
        source: IpAddr,
        /// Its port
        source_port: u16,
        /// Destination address
        destination: IpAddr,
        /// Its port
        destination_port: u16,
        /// The UDP header and what follows
        payload: Payload,
    },
    /// Another IP protocol.
    Ip {
        /// Source address
        source: IpAddr,
        /// Destination address
        destination: IpAddr,
        /// Protocol number (`IPPROTO_ICMP`, ...)
        protocol: u8,
        /// What follows the IP header
        payload: Payload,
    },
    /// A packet without IP: ARP, spanning tree, ...
    Other {
        /// Ethertype (`ETH_P_ARP`, ...); `None` if unknown
        ethertype: Option<u16>,
    },
    /// A packet with a link header of a type that is not decoded.
    UnknownLink(LinkType),
}

/// Where the payload of an IP packet is in a captured packet; empty for a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Payload {
    begin: u32,
    /// Its end, whether captured or not
    end: u32,
}

impl Payload {
    pub(super) fn new(begin: usize, end: usize) -> Self {
        let offset = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            begin: offset(begin),
            end: offset(end),
        }
    }

    /// Returns what was captured of it; `bytes` is the captured packet.
    #[must_use]
    pub fn captured(self, bytes: &[u8]) -> &[u8] {
        let end = (self.end as usize).min(bytes.len());
        bytes.get(self.begin as usize..end).unwrap_or_default()
    }
}

/// A fragment of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Source address
    pub source: IpAddr,
    /// Destination address
    pub destination: IpAddr,
    /// Protocol of the whole packet (`IPPROTO_TCP`, ...)
    pub protocol: u8,
    /// Identification of the whole packet, for the same addresses and protocol
    pub id: u32,
    /// Offset in the whole packet's payload in bytes
    pub offset: u32,
    /// Length in bytes, without the IP header
    pub len: u32,
    /// Whether more fragments follow
    pub has_more: bool,
    /// In the first fragment of a TCP segment, its header; `payload_len` counts this fragment's payload. In the first fragment of a
    /// tunnel's packet, the segment in the tunnel; `payload_len` is that of its own headers, and `protocol` is not TCP
    pub segment: Option<Segment>,
    /// Length of the TCP header with its options in bytes, which may continue in the next fragment; 0 without one
    pub header_len: u32,
}
