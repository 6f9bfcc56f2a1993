//! Record of a network interface with its qdiscs: `from_wire/vitals.rs` fills it, the device rules of `check`
//! and the TUN benchmark read it.

use crate::{InterfaceIndex, ShortText};
use std::net::IpAddr;

/// A network interface with its traffic, losses and queues.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Index in its namespace
    pub index: InterfaceIndex,
    /// Name
    pub name: DeviceName,
    /// Kind: `veth`, `tun`, `tap`, `bridge`, `bond`, ...; empty for hardware and for the kernel's own (`lo`)
    pub driver: ShortText<16>,
    /// Whether it is hardware: it has a parent device on a bus
    pub is_physical: bool,
    /// `IFF_LOOPBACK`
    pub is_loopback: bool,
    /// Administratively up (`IFF_UP`)
    pub is_up: bool,
    /// Whether it has a carrier (`IFLA_CARRIER`): a cable, the other end of a veth, a process that reads a tun; `None` if unknown
    pub has_carrier: Option<bool>,
    /// Number of carrier changes
    pub carrier_changes: Option<u32>,
    /// MTU
    pub mtu_bytes: Option<u32>,
    /// Length of the send queue (`txqueuelen`)
    pub queue_packets: Option<u32>,
    /// Packets, bytes, errors and drops
    pub traffic: Option<Traffic>,
    /// Speed according to ethtool; `None` if unknown
    pub speed_mbit_per_s: Option<u32>,
    /// Duplex mode according to ethtool; `None` if unknown
    pub duplex: Option<Duplex>,
    /// The bond or bridge that it is a port of
    pub master: Option<InterfaceIndex>,
    /// The interface that it is on top of: that of a VLAN, a macvlan or a tunnel; of a veth pair the other end, if that is in
    /// this namespace
    pub lower: Option<InterfaceIndex>,
    /// Settings of a bond
    pub bond: Option<Bond>,
    /// State as a port of a bond
    pub bond_port: Option<BondPort>,
    /// Queueing disciplines, the root first
    pub qdiscs: Vec<Qdisc>,
    /// IP addresses
    pub addresses: Vec<IpAddr>,
    /// How many of them are not used, as another host has them (IPv6, `IFA_F_DADFAILED`)
    pub duplicate_addresses: u32,
}

/// An interface name (`IFNAMSIZ`): at most 15 bytes, any but `/`, `:`, space and NUL.
pub type DeviceName = ShortText<16>;

/// `struct rtnl_link_stats64`: totals since the device was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the struct's names
pub struct Traffic {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    /// Received packets dropped for lack of buffers
    pub rx_dropped: u64,
    /// Packets to send that were dropped
    pub tx_dropped: u64,
    pub collisions: u64,
    pub rx_crc_errors: u64,
    /// Drops because the ring of the hardware was full
    pub rx_fifo_errors: u64,
    /// Packets that the host did not fetch in time from the hardware
    pub rx_missed_errors: u64,
    pub tx_carrier_errors: u64,
}

/// Duplex mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplex {
    /// One direction at a time
    Half,
    /// Both directions at once
    Full,
}

/// A bonding device (`IFLA_BOND_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bond {
    /// Interval of the link monitor (miimon); 0: off
    pub miimon_ms: Option<u32>,
    /// Interval of the ARP monitor; 0: off
    pub arp_interval_ms: Option<u32>,
    /// `BOND_MODE_*`
    pub mode: Option<u8>,
}

/// A port of a bonding device (`IFLA_BOND_SLAVE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BondPort {
    /// Whether the bond considers its link up (`BOND_LINK_UP`)
    pub is_up: Option<bool>,
    /// Number of link failures
    pub failures: Option<u32>,
}

/// What waits in the queues of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceQueues {
    /// Its index.
    pub index: InterfaceIndex,
    /// Bytes that its driver has and has not sent (BQL); `None` if it does not count them, or that is not visible.
    pub ring_bytes: Option<u64>,
    /// Classes of its disciplines, with the kind of the discipline.
    pub classes: Vec<Qdisc>,
}

/// A queueing discipline (`RTM_NEWQDISC`, `TCA_STATS2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qdisc {
    /// Kind: `pfifo_fast`, `fq_codel`, `tbf`, ...
    pub kind: ShortText<16>,
    /// Handle, major and minor
    pub handle: u32,
    /// Parent; [`ROOT`](Self::ROOT) for the root
    pub parent: u32,
    /// Bytes sent
    pub bytes: u64,
    /// Packets sent
    pub packets: u64,
    /// Packets dropped
    pub drops: u64,
    /// Packets over the limit
    pub overlimits: u64,
    /// Packets that the device returned
    pub requeues: u64,
    /// Packets in the queue
    pub waiting_packets: u32,
    /// Bytes in the queue
    pub waiting_bytes: u32,
}

impl Qdisc {
    /// The parent of the discipline at the root of a device: `TC_H_ROOT`.
    pub const ROOT: u32 = u32::MAX;

    /// Whether it is at the root: what those below it hold and drop, it counts, too.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.parent == Self::ROOT
    }
}
