//! What was dropped, as counters are compared with it.

use sockeye_model::{DeviceName, FirewallRuleName, Inode, NetnsInode};

/// Dropped packets of one reason, place, namespace, device and socket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Name of the reason, without `SKB_DROP_REASON_`; `None` if the kernel gives none.
    pub reason: Option<String>,
    /// Function of the kernel.
    pub place: Option<String>,
    /// Network namespace.
    pub netns: Option<NetnsInode>,
    /// Name of the network device.
    pub device: Option<DeviceName>,
    /// Inode of the socket.
    pub socket: Option<Inode>,
    /// Number of the IP protocol.
    pub transport: Option<u8>,
    /// IP version.
    pub family: Option<Family>,
    /// Who owns the socket, in words: `gunicorn(4711)`; `None` if unknown, or there is no socket.
    pub owner: Option<String>,
    /// Rule of the packet filter that dropped; `None` if unknown.
    pub rule: Option<FirewallRuleName>,
    /// Where no rule is named: the rules of which each packet was dropped by one, if these are known.
    pub rules: Vec<FirewallRuleName>,
    /// Whether it is known that this host was sending the packets: they belong to the socket of their sender.
    pub is_sent: bool,
    /// Whether the kept packets are RSTs of TCP; `None` if some are, or that is unknown.
    pub are_resets: Option<bool>,
    /// Number of packets.
    pub count: u64,
}

/// IP version of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}
