//! What a host tells about itself beside its sockets.

mod counters;
mod device;

pub use counters::{Counter, Counters};
pub use device::{Bond, BondPort, Device, DeviceName, Duplex, Qdisc, Traffic};

use crate::{NetnsInode, Process, ShortText};

/// What one network namespace tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vitals {
    /// Which; `None` where only one is being looked at.
    pub netns: Option<NetnsInode>,
    /// Counters of its protocols.
    pub counters: Counters,
    /// Its sockets, as it counts them itself.
    pub usage: Usage,
    /// What it is set to. Not read where nothing lives that they are about.
    pub settings: Settings,
    /// Its interfaces.
    pub devices: Vec<Device>,
    /// Its tracked connections; `None`: nothing is tracked.
    pub conntrack: Option<Fill>,
    /// Its share of the tables of neighbours; counted only where one of these is half full.
    pub neighbours: Option<Neighbours>,
}

/// What all namespaces share.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostVitals {
    /// What each processor did for the network (`softnet_stat`).
    pub processors: Vec<Softnet>,
    /// Tables of neighbours, which all namespaces fill together.
    pub neighbours: Vec<NeighbourTable>,
    /// Pages that TCP holds, and its three limits (`net.ipv4.tcp_mem`: no pressure below, pressure above, at most).
    pub tcp_memory: Option<MemoryUse>,
    /// Likewise of UDP (`net.ipv4.udp_mem`).
    pub udp_memory: Option<MemoryUse>,
    /// TCP sockets without a process, and how many there may be (`net.ipv4.tcp_max_orphans`).
    pub orphans: Option<Fill>,
    /// `net.core.rmem_max`
    pub rmem_max_bytes: Option<u64>,
    /// `net.core.wmem_max`
    pub wmem_max_bytes: Option<u64>,
    /// Open files of the processes that were asked about.
    pub files: Vec<OpenFiles>,
    /// How long the host is up.
    pub uptime_s: Option<u64>,
}

/// `/proc/net/sockstat` and `sockstat6`.
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
    /// How many of these `net.ipv4.ip_local_reserved_ports` takes away
    pub reserved_ports: Option<u32>,
    /// `net.ipv4.tcp_max_tw_buckets`
    pub time_wait_max: Option<u64>,
    /// `net.core.somaxconn`
    pub somaxconn: Option<u32>,
    /// `net.ipv4.tcp_max_syn_backlog`
    pub syn_backlog_max: Option<u32>,
    /// `net.ipv4.tcp_syncookies`
    pub syncookies: Option<u32>,
    /// `net.ipv4.tcp_rmem`: at least, at first, at most
    pub tcp_rmem_bytes: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`
    pub tcp_wmem_bytes: Option<[u64; 3]>,
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

/// How full something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// How much there is
    pub used: u64,
    /// How much there may be
    pub max: u64,
}

/// Memory that a protocol holds, against its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Held, in bytes
    pub used_bytes: u64,
    /// Below the first it is never asked to save; above the second it is; above the third it gets none
    pub limits_bytes: [u64; 3],
}

/// A line of `/proc/net/softnet_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Softnet {
    /// Its number
    pub processor: u32,
    /// Packets handled
    pub processed: u64,
    /// Packets dropped, for its backlog was full (`net.core.netdev_max_backlog`)
    pub dropped: u64,
    /// Times it had to stop with work left (`net.core.netdev_budget`)
    pub squeezed: u64,
}

/// Neighbours of one namespace, those that the limits count: neither loopback's own nor made by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Neighbours {
    /// In `arp_cache`
    pub ipv4: u64,
    /// In `ndisc_cache`
    pub ipv6: u64,
}

/// A table of neighbours (`RTM_NEWNEIGHTBL`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourTable {
    /// `arp_cache`, `ndisc_cache`
    pub name: ShortText<16>,
    /// Entries, also those that no limit counts, and how many of the others there may be (`gc_thresh3`)
    pub fill: Fill,
    /// How often it was full (`table_fulls`)
    pub overflows: u64,
}

/// Descriptors of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// Whose
    pub process: Process,
    /// Open, and at most (`RLIMIT_NOFILE`, the soft limit)
    pub fill: Fill,
    /// How far the limit may be raised (the hard one); `None`: without end
    pub hard_max: Option<u64>,
}
