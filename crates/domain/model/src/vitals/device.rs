use crate::{InterfaceIndex, ShortText};
use std::net::IpAddr;

/// A network interface, what it carried, lost, and holds back.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its number in its namespace
    pub index: InterfaceIndex,
    /// Its name
    pub name: DeviceName,
    /// What it is: `veth`, `tun`, `tap`, `bridge`, `bond`, ...; empty: a real one, or the kernel's own (`lo`)
    pub driver: ShortText<16>,
    /// Whether there is hardware below it: it has a device on some bus
    pub is_physical: bool,
    /// `IFF_LOOPBACK`
    pub is_loopback: bool,
    /// Somebody switched it on (`IFF_UP`)
    pub is_up: bool,
    /// It has a carrier (`IFLA_CARRIER`): a cable, the other end of a veth, a process that reads a tun
    pub has_carrier: Option<bool>,
    /// How often the carrier came and went
    pub carrier_changes: Option<u32>,
    /// Largest packet
    pub mtu_bytes: Option<u32>,
    /// Packets that may wait to be sent (`txqueuelen`)
    pub queue_packets: Option<u32>,
    /// What it carried and lost
    pub traffic: Option<Traffic>,
    /// As ethtool tells it; `None`: it does not know, or nobody could be asked
    pub speed_mbit_per_s: Option<u32>,
    /// Likewise
    pub duplex: Option<Duplex>,
    /// The bond or bridge it is a port of
    pub master: Option<InterfaceIndex>,
    /// If it is a bond
    pub bond: Option<Bond>,
    /// If it is a port of one
    pub bond_port: Option<BondPort>,
    /// Queueing disciplines, the root first
    pub qdiscs: Vec<Qdisc>,
    /// Its addresses
    pub addresses: Vec<IpAddr>,
}

/// `IFNAMSIZ`: at most 15 bytes, any but `/`, `:`, space and NUL.
pub type DeviceName = ShortText<16>;

/// `struct rtnl_link_stats64`, since the device was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the struct's names
pub struct Traffic {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    /// Received, but nobody had room for them
    pub rx_dropped: u64,
    /// To be sent, but dropped on the way out
    pub tx_dropped: u64,
    pub collisions: u64,
    pub rx_crc_errors: u64,
    /// The hardware's ring was full
    pub rx_fifo_errors: u64,
    /// The host took them too slowly out of the hardware
    pub rx_missed_errors: u64,
    pub tx_carrier_errors: u64,
}

/// Whether both ends may send at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplex {
    /// One at a time
    Half,
    /// Both
    Full,
}

/// A bonding device (`IFLA_BOND_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bond {
    /// How often it looks at the carrier of its ports; 0: never
    pub miimon_ms: Option<u32>,
    /// How often it asks a neighbour by ARP; 0: never
    pub arp_interval_ms: Option<u32>,
    /// `BOND_MODE_*`
    pub mode: Option<u8>,
}

/// A port of a bonding device (`IFLA_BOND_SLAVE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BondPort {
    /// Whether the bond takes its link to be up (`BOND_LINK_UP`)
    pub is_up: Option<bool>,
    /// How often it failed
    pub failures: Option<u32>,
}

/// A queueing discipline (`RTM_NEWQDISC`, `TCA_STATS2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qdisc {
    /// `pfifo_fast`, `fq_codel`, `tbf`, ...
    pub kind: ShortText<16>,
    /// Its number, major and minor
    pub handle: u32,
    /// Of what it is a part; `0xffff_ffff` (`TC_H_ROOT`) for the root
    pub parent: u32,
    /// Bytes let through
    pub bytes: u64,
    /// Packets let through
    pub packets: u64,
    /// Packets dropped
    pub drops: u64,
    /// Packets that came faster than allowed
    pub overlimits: u64,
    /// Packets that the device gave back
    pub requeues: u64,
    /// Packets waiting now
    pub waiting_packets: u32,
    /// Bytes waiting now
    pub waiting_bytes: u32,
}
