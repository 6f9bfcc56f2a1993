//! Vitals: the state of a host and its network namespaces apart from the sockets.

mod counters;
mod device;
mod firewall;
mod processes;
mod send_path;

pub use counters::{Counter, Counters};
pub use device::{Bond, BondPort, Device, DeviceName, DeviceQueues, Duplex, Qdisc, Traffic};

pub use firewall::{
    Base, Element, Expression, Family as FirewallFamily, Firewall, FirewallChain, FirewallRule,
    FirewallRuleName, FirewallVerdict, Hook, MetaKey, Operator,
};
pub use processes::{DescriptorKinds, OpenFiles, ProcessState};
pub use send_path::{BridgePort, NextHop, PathQuery, Route, SendPath};

use crate::{NetnsInode, ShortText};

/// The vitals of a network namespace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vitals {
    /// The namespace; `None` if only one is read.
    pub netns: Option<NetnsInode>,
    /// Counters of the protocols.
    pub counters: Counters,
    /// Numbers of sockets, as the kernel counts them.
    pub usage: Usage,
    /// Settings; those that matter for no socket of the namespace are not read.
    pub settings: Settings,
    /// Network interfaces.
    pub devices: Vec<Device>,
    /// Tracked connections and their limit; `None` if the kernel tracks none.
    pub conntrack: Option<Fill>,
    /// Entries of the neighbour tables that their limits do not count; only counted if a table is at least half full.
    pub neighbours: Option<Neighbours>,
}

/// The vitals that all namespaces share.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostVitals {
    /// Statistics of each processor (`softnet_stat`).
    pub processors: Vec<Softnet>,
    /// Neighbour tables.
    pub neighbours: Vec<NeighbourTable>,
    /// Neighbours of namespaces that are not judged; `None`: they were not counted
    pub neighbours_elsewhere: Option<Neighbours>,
    /// Memory of TCP, and its three limits (`net.ipv4.tcp_mem`: low, pressure, high).
    pub tcp_memory: Option<MemoryUse>,
    /// Memory of UDP, and its limits (`net.ipv4.udp_mem`).
    pub udp_memory: Option<MemoryUse>,
    /// TCP sockets without a process, and their limit (`net.ipv4.tcp_max_orphans`).
    pub orphans: Option<Fill>,
    /// `net.core.rmem_max`
    pub rmem_max_bytes: Option<u64>,
    /// `net.core.wmem_max`
    pub wmem_max_bytes: Option<u64>,
    /// Open files of processes that have many.
    pub files: Vec<OpenFiles>,
    /// Uptime in seconds.
    pub uptime_s: Option<u64>,
}

/// Numbers of sockets (`/proc/net/sockstat` and `sockstat6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// TCP sockets that are neither TIME_WAIT nor closed, of both families
    pub tcp: Option<u64>,
    /// TCP sockets in TIME_WAIT
    pub time_wait: Option<u64>,
    /// UDP sockets, of both families
    pub udp: Option<u64>,
}

/// Settings of a namespace (`/proc/sys/net`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// `net.ipv4.ip_local_port_range`: first and last
    pub ephemeral_ports: Option<(u16, u16)>,
    /// How many of these ports `net.ipv4.ip_local_reserved_ports` excludes
    pub reserved_ports: Option<u32>,
    /// `net.ipv4.tcp_max_tw_buckets`
    pub time_wait_max: Option<u64>,
    /// `net.core.somaxconn`
    pub somaxconn: Option<u32>,
    /// `net.ipv4.tcp_max_syn_backlog`
    pub syn_backlog_max: Option<u32>,
    /// `net.ipv4.tcp_syncookies`
    pub syncookies: Option<u32>,
    /// `net.ipv4.tcp_rmem`: minimum, default, maximum
    pub tcp_rmem_bytes: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`: minimum, default, maximum
    pub tcp_wmem_bytes: Option<[u64; 3]>,
    /// `net.ipv4.tcp_window_scaling`: 0 is off
    pub window_scaling: Option<u32>,
    /// `net.ipv4.tcp_fin_timeout`
    pub fin_timeout_s: Option<u32>,
    /// `net.ipv4.tcp_keepalive_time`
    pub keepalive_time_s: Option<u32>,
    /// `net.ipv4.tcp_keepalive_intvl`
    pub keepalive_interval_s: Option<u32>,
    /// `net.ipv4.tcp_keepalive_probes`
    pub keepalive_probes: Option<u32>,
    /// `net.ipv4.tcp_mtu_probing`
    pub mtu_probing: Option<u32>,
}

/// A use and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Current use
    pub used: u64,
    /// Limit
    pub max: u64,
}

/// Memory of a protocol, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Memory in use, in bytes
    pub used_bytes: u64,
    /// Limits in bytes: below the first there is no memory pressure, above the second there is, above the third no more memory is allocated
    pub limits_bytes: [u64; 3],
}

/// A line of `/proc/net/softnet_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Softnet {
    /// Number of the processor
    pub processor: u32,
    /// Packets processed
    pub processed: u64,
    /// Packets dropped because the backlog was full (`net.core.netdev_max_backlog`)
    pub dropped: u64,
    /// Times that the budget ended with work left (`net.core.netdev_budget`)
    pub squeezed: u64,
}

/// Neighbours of a namespace. Those of loopback and permanent ones do not count against the limits of the tables, which all
/// namespaces share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Neighbours {
    /// Entries in `arp_cache` that do not count
    pub exempt_ipv4: u64,
    /// Entries in `ndisc_cache` that do not count
    pub exempt_ipv6: u64,
    /// Entries in `arp_cache` that count
    pub limited_ipv4: u64,
    /// Entries in `ndisc_cache` that count
    pub limited_ipv6: u64,
}

/// A neighbour table (`RTM_NEWNEIGHTBL`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourTable {
    /// Name: `arp_cache`, `ndisc_cache`
    pub name: ShortText<16>,
    /// Entries, including those that do not count against the limit, and the limit (`gc_thresh3`)
    pub fill: Fill,
    /// How often the table was full (`table_fulls`)
    pub overflows: u64,
}
