//! Driver information about an interface (`IFLA_LINKINFO`).
//!
//! ```text
//! IFLA_LINKINFO 18 {
//!     IFLA_INFO_KIND 1 "tun"           IFLA_INFO_DATA 2 { attributes of the kind }
//!     IFLA_INFO_SLAVE_KIND 4 "bond"    IFLA_INFO_SLAVE_DATA 5 { attributes of this port, by the master's kind } }
//! ```
//! Source: `include/uapi/linux/if_link.h`, `if_tun.h`, `if_bonding.h`, `net/core/rtnetlink.c`,
//! `drivers/net/bonding/bond_netlink.c`, `drivers/net/tun.c`.

use super::{change, text};
use crate::netlink::Attributes;

/// The content of `IFLA_LINKINFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkInfo<'a> {
    /// `IFLA_INFO_KIND`: `veth`, `bridge`, ...; empty for hardware and for `lo`
    pub driver: &'a [u8],
    /// `IFLA_TUN_TYPE` of a `tun`: [`IFF_TUN`] or [`IFF_TAP`]; Linux 4.16
    pub tun_type: Option<u8>,
    /// Attributes of a `tun` that a process has opened or that is persistent; Linux 4.16
    pub tun: Option<TunInfo>,
    /// Attributes of a `bond`
    pub bond: Option<BondInfo>,
    /// `IFLA_INFO_SLAVE_KIND`: the master's kind; empty without a master, or if it does not report it
    pub master_driver: &'a [u8],
    /// Attributes of a port of a `bond`
    pub bond_port: Option<BondPortInfo>,
}

/// `IFLA_TUN_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunInfo {
    /// `IFLA_TUN_VNET_HDR`: packets have a virtio header and may still need segmentation
    pub has_header: Option<bool>,
    /// `IFLA_TUN_PERSIST`: the device stays without a process
    pub is_persistent: Option<bool>,
    /// `IFLA_TUN_MULTI_QUEUE`
    pub has_queues: Option<bool>,
    /// `IFLA_TUN_NUM_QUEUES`: number of open queues of a multi-queue device
    pub queues: Option<u32>,
}

/// `IFLA_BOND_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BondInfo {
    /// `IFLA_BOND_MODE`: `BOND_MODE_*`
    pub mode: Option<u8>,
    /// `IFLA_BOND_MIIMON`, in milliseconds; 0 for no monitoring
    pub miimon_ms: Option<u32>,
    /// `IFLA_BOND_ARP_INTERVAL`, in milliseconds; 0 for no ARP probes
    pub arp_interval_ms: Option<u32>,
}

/// `IFLA_BOND_SLAVE_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BondPortInfo {
    /// `IFLA_BOND_SLAVE_MII_STATUS`: [`BOND_LINK_UP`], going down (1), down (2), coming back (3)
    pub mii_status: Option<u8>,
    /// `IFLA_BOND_SLAVE_LINK_FAILURE_COUNT`
    pub failures: Option<u32>,
}

impl<'a> LinkInfo<'a> {
    /// Parses the attribute. Broken nested attributes are skipped: the interface is listed without them.
    pub(super) fn parse(info: &'a [u8]) -> Self {
        let mut found = Self::default();
        let (mut data, mut port) = (&[][..], &[][..]);
        for attribute in Attributes::new(info).flatten() {
            match attribute.kind {
                change::IFLA_INFO_KIND => found.driver = text(attribute.payload),
                change::IFLA_INFO_DATA => data = attribute.payload,
                IFLA_INFO_SLAVE_KIND => found.master_driver = text(attribute.payload),
                IFLA_INFO_SLAVE_DATA => port = attribute.payload,
                _ => {}
            }
        }
        match found.driver {
            b"tun" => {
                let mut all = Attributes::new(data).flatten();
                let kind = all.find(|attribute| attribute.kind == IFLA_TUN_TYPE);
                found.tun_type = kind.and_then(|kind| kind.u8());
                found.tun = found.tun_type.map(|_| TunInfo::parse(data));
            }
            b"bond" => found.bond = Some(BondInfo::parse(data)),
            _ => {}
        }
        if found.master_driver == b"bond" {
            found.bond_port = Some(BondPortInfo::parse(port));
        }
        found
    }
}

impl TunInfo {
    fn parse(data: &[u8]) -> Self {
        let mut tun = Self::default();
        for attribute in Attributes::new(data).flatten() {
            let yes = || attribute.u8().map(|value| value != 0);
            match attribute.kind {
                IFLA_TUN_VNET_HDR => tun.has_header = yes(),
                IFLA_TUN_PERSIST => tun.is_persistent = yes(),
                IFLA_TUN_MULTI_QUEUE => tun.has_queues = yes(),
                IFLA_TUN_NUM_QUEUES => tun.queues = attribute.u32(),
                _ => {}
            }
        }
        tun
    }
}

impl BondInfo {
    fn parse(data: &[u8]) -> Self {
        let mut bond = Self::default();
        for attribute in Attributes::new(data).flatten() {
            match attribute.kind {
                IFLA_BOND_MODE => bond.mode = attribute.u8(),
                IFLA_BOND_MIIMON => bond.miimon_ms = attribute.u32(),
                IFLA_BOND_ARP_INTERVAL => bond.arp_interval_ms = attribute.u32(),
                _ => {}
            }
        }
        bond
    }
}

impl BondPortInfo {
    fn parse(data: &[u8]) -> Self {
        let mut port = Self::default();
        for attribute in Attributes::new(data).flatten() {
            match attribute.kind {
                IFLA_BOND_SLAVE_MII_STATUS => port.mii_status = attribute.u8(),
                IFLA_BOND_SLAVE_LINK_FAILURE_COUNT => port.failures = attribute.u32(),
                _ => {}
            }
        }
        port
    }
}

/// A device with IP packets
pub const IFF_TUN: u8 = 1;
/// A device with Ethernet frames
pub const IFF_TAP: u8 = 2;
/// The bond uses this port
pub const BOND_LINK_UP: u8 = 0;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_TUN_TYPE: u16 = 3;
const IFLA_TUN_VNET_HDR: u16 = 5;
const IFLA_TUN_PERSIST: u16 = 6;
const IFLA_TUN_MULTI_QUEUE: u16 = 7;
const IFLA_TUN_NUM_QUEUES: u16 = 8;
const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_MIIMON: u16 = 3;
const IFLA_BOND_ARP_INTERVAL: u16 = 7;
const IFLA_BOND_SLAVE_MII_STATUS: u16 = 2;
const IFLA_BOND_SLAVE_LINK_FAILURE_COUNT: u16 = 3;

#[cfg(test)]
mod tests {
    use super::super::build::attribute;
    use super::*;

    #[test]
    fn tap_is_parsed() {
        let info = [
            attribute(change::IFLA_INFO_KIND, b"tun\0"),
            attribute(
                change::IFLA_INFO_DATA,
                &[
                    attribute(4, &[0]),
                    attribute(IFLA_TUN_TYPE, &[2]),
                    attribute(IFLA_TUN_VNET_HDR, &[1]),
                    attribute(IFLA_TUN_NUM_QUEUES, &2_u32.to_ne_bytes()),
                ]
                .concat(),
            ),
        ]
        .concat();
        let found = LinkInfo::parse(&info);
        assert_eq!((found.driver, found.tun_type), (&b"tun"[..], Some(IFF_TAP)));
        assert_eq!((found.bond, found.bond_port), (None, None));
        let tun = found.tun.unwrap();
        assert_eq!((tun.has_header, tun.queues), (Some(true), Some(2)));
        assert_eq!((tun.is_persistent, tun.has_queues), (None, None));
    }

    /// Written from the kernel's headers, not captured: the build machines have no bonding.
    #[test]
    fn bond_and_port_are_parsed() {
        let data = [
            attribute(IFLA_BOND_MODE, &[4]),
            attribute(2, &3_u32.to_ne_bytes()),
            attribute(IFLA_BOND_MIIMON, &100_u32.to_ne_bytes()),
            attribute(IFLA_BOND_ARP_INTERVAL, &0_u32.to_ne_bytes()),
        ]
        .concat();
        let info = [
            attribute(change::IFLA_INFO_KIND, b"bond\0"),
            attribute(change::IFLA_INFO_DATA, &data),
        ]
        .concat();
        let expected = BondInfo {
            mode: Some(4),
            miimon_ms: Some(100),
            arp_interval_ms: Some(0),
        };
        assert_eq!(LinkInfo::parse(&info).bond, Some(expected));

        let data = [
            attribute(1, &[0]),
            attribute(IFLA_BOND_SLAVE_MII_STATUS, &[2]),
            attribute(IFLA_BOND_SLAVE_LINK_FAILURE_COUNT, &7_u32.to_ne_bytes()),
        ]
        .concat();
        let info = [
            attribute(IFLA_INFO_SLAVE_KIND, b"bond\0"),
            attribute(IFLA_INFO_SLAVE_DATA, &data),
        ]
        .concat();
        let found = LinkInfo::parse(&info);
        let expected = BondPortInfo {
            mii_status: Some(2),
            failures: Some(7),
        };
        assert_eq!((found.driver, found.bond), (&b""[..], None));
        assert_eq!(
            (found.master_driver, found.bond_port),
            (&b"bond"[..], Some(expected))
        );
        // A bridge port has other attributes with the same numbers.
        let info = [
            attribute(IFLA_INFO_SLAVE_KIND, b"bridge\0"),
            attribute(IFLA_INFO_SLAVE_DATA, &data),
        ]
        .concat();
        assert_eq!(LinkInfo::parse(&info).bond_port, None);
    }

    #[test]
    fn broken_attributes_are_none() {
        assert_eq!(LinkInfo::parse(&[9, 0, 1]), LinkInfo::default());
        let info = [
            attribute(change::IFLA_INFO_KIND, b"bond\0"),
            attribute(change::IFLA_INFO_DATA, &[255, 255, 1, 0, 1]),
        ]
        .concat();
        assert_eq!(LinkInfo::parse(&info).bond, Some(BondInfo::default()));
    }
}
