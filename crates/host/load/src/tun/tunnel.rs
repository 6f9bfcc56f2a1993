//! Parameters of a tunnel.

/// Parameters of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// Whether it is TAP (Ethernet frames) or TUN (IP packets).
    pub is_tap: bool,
    /// Transport of packets between the ends.
    pub carrier: Carrier,
    /// Whether unsegmented packets of up to 64 KiB pass through it (`IFF_VNET_HDR`, `TUNSETOFFLOAD`).
    pub offload: bool,
    /// Number of queues, each with threads of its own (`IFF_MULTI_QUEUE`).
    pub queues: usize,
    /// Length of each queue, in packets (`txqueuelen`).
    pub queue_packets: u32,
}

/// Transport of packets between the ends of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// One program has the devices of both ends open.
    Direct,
    /// A program at each end, and UDP over the veth pair, as VPNs do.
    Udp,
}
