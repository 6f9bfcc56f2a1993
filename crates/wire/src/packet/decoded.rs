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
    },
    /// Another IP protocol.
    Ip {
        /// Source address
        source: IpAddr,
        /// Destination address
        destination: IpAddr,
        /// Protocol number (`IPPROTO_ICMP`, ...)
        protocol: u8,
    },
    /// A packet without IP: ARP, spanning tree, ...
    Other {
        /// Ethertype (`ETH_P_ARP`, ...); `None` if unknown
        ethertype: Option<u16>,
    },
    /// A packet with a link header of a type that is not decoded.
    UnknownLink(LinkType),
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
