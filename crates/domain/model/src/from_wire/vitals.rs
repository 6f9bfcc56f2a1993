//! rtnetlink links, qdiscs and neighbour tables, ethtool link modes and softnet lines to records of vitals.
//! `host/source/src/vitals/` calls it.

use crate::{
    Bond, BondPort, Device, DeviceName, Duplex, Fill, InterfaceIndex, NeighbourTable, Qdisc, ShortText,
    Softnet, Traffic,
};
use sockeye_wire::ethtool::{DUPLEX_FULL, DUPLEX_HALF, LinkModes};
use sockeye_wire::proc_net::SoftnetLine;
use sockeye_wire::rtnetlink;

/// Converts the fields of the link message; what other messages report stays absent.
impl From<&rtnetlink::Link<'_>> for Device {
    fn from(link: &rtnetlink::Link<'_>) -> Self {
        let info = &link.info;
        let is_loopback = link.flags & IFF_LOOPBACK != 0;
        let driver = match info.tun_type {
            Some(rtnetlink::IFF_TAP) => b"tap",
            _ => info.driver,
        };
        // Kernels before 5.14 do not report the parent device. A virtual Ethernet device has a kind.
        let is_kindless_ethernet = info.driver.is_empty() && link.kind == ARPHRD_ETHER && !is_loopback;
        Self {
            index: InterfaceIndex(link.index.cast_unsigned()),
            name: DeviceName::new(link.name),
            driver: ShortText::new(driver),
            is_physical: !link.parent_device.is_empty() || is_kindless_ethernet,
            is_loopback,
            is_up: link.flags & IFF_UP != 0,
            has_carrier: link.carrier,
            carrier_changes: link.carrier_changes,
            mtu_bytes: link.mtu.map(i32::cast_unsigned),
            queue_packets: link.queue_len.map(i32::cast_unsigned),
            traffic: link.stats.map(Into::into),
            speed_mbit_per_s: None,
            duplex: None,
            master: link.master.map(InterfaceIndex),
            lower: link.lower.map(InterfaceIndex),
            bond: info.bond.map(|bond| Bond {
                miimon_ms: bond.miimon_ms,
                arp_interval_ms: bond.arp_interval_ms,
                mode: bond.mode,
            }),
            bond_port: info.bond_port.map(|port| BondPort {
                is_up: port.mii_status.map(|status| status == rtnetlink::BOND_LINK_UP),
                failures: port.failures,
            }),
            qdiscs: Vec::new(),
            addresses: Vec::new(),
            duplicate_addresses: 0,
        }
    }
}

impl Device {
    /// Sets speed and duplex from ethtool; `None` if the driver does not know them.
    pub fn set_link_modes(&mut self, modes: &LinkModes) {
        // SPEED_UNKNOWN is -1; some drivers report 0 or, in 16 bits, 65535.
        self.speed_mbit_per_s = modes
            .speed
            .filter(|&speed| !matches!(speed, 0 | 0xffff | u32::MAX));
        self.duplex = match modes.duplex {
            Some(DUPLEX_HALF) => Some(Duplex::Half),
            Some(DUPLEX_FULL) => Some(Duplex::Full),
            _ => None,
        };
    }
}

impl From<rtnetlink::LinkStats> for Traffic {
    fn from(stats: rtnetlink::LinkStats) -> Self {
        Self {
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
            rx_dropped: stats.rx_dropped,
            tx_dropped: stats.tx_dropped,
            collisions: stats.collisions,
            rx_crc_errors: stats.rx_crc_errors,
            rx_fifo_errors: stats.rx_fifo_errors,
            rx_missed_errors: stats.rx_missed_errors,
            tx_carrier_errors: stats.tx_carrier_errors,
        }
    }
}

impl Qdisc {
    /// Converts a qdisc; `None` if the message has no statistics.
    #[must_use]
    pub fn from_wire(qdisc: &rtnetlink::Qdisc<'_>) -> Option<Self> {
        let stats = qdisc.stats?;
        Some(Self {
            kind: ShortText::new(qdisc.kind),
            handle: qdisc.handle,
            parent: qdisc.parent,
            bytes: stats.bytes,
            packets: stats.packets,
            drops: stats.drops.into(),
            overlimits: stats.overlimits.into(),
            requeues: stats.requeues.into(),
            waiting_packets: stats.qlen,
            waiting_bytes: stats.backlog,
        })
    }
}

impl NeighbourTable {
    /// Converts a neighbour table; `None` if the message is about the settings of one interface.
    #[must_use]
    pub fn from_wire(table: &rtnetlink::NeighbourTable<'_>) -> Option<Self> {
        Some(Self {
            name: ShortText::new(table.name),
            fill: Fill {
                used: table.entries?.into(),
                max: table.entries_max?.into(),
            },
            // Not reported before Linux 4.2.
            overflows: table.table_fulls.unwrap_or_default(),
        })
    }
}

impl Softnet {
    /// Converts a line. `index` is its number in the file, from 0; older kernels do not report the processor, which it is then.
    #[must_use]
    pub fn from_wire(line: &SoftnetLine, index: u32) -> Self {
        Self {
            processor: line.processor.unwrap_or(index),
            processed: line.processed.into(),
            dropped: line.dropped.into(),
            squeezed: line.time_squeeze.into(),
        }
    }
}

const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
const ARPHRD_ETHER: u16 = 1;

#[cfg(test)]
mod tests {
    use super::super::build::{attributes, words};
    use super::*;

    fn link(flags: u32, kind: u16, parts: &[(u16, &[u8])]) -> Device {
        let mut fixed = vec![0, 0];
        fixed.extend(kind.to_ne_bytes());
        fixed.extend(words(&[3, flags, 0]));
        let bytes = attributes(fixed, parts);
        Device::from(&rtnetlink::Link::parse(&bytes).unwrap())
    }

    fn info(parts: &[(u16, &[u8])]) -> Vec<u8> {
        attributes(Vec::new(), parts)
    }

    #[test]
    fn device_kinds_are_distinguished() {
        let tap = info(&[(1, b"tun\0"), (2, &info(&[(3, &[2])]))]);
        let tap = link(
            IFF_UP,
            1,
            &[(3, b"t0\0"), (13, &words(&[3])), (33, &[0]), (18, &tap)],
        );
        assert_eq!(
            (tap.name.as_bytes(), tap.driver.as_bytes()),
            (&b"t0"[..], &b"tap"[..])
        );
        assert_eq!((tap.index, tap.queue_packets), (InterfaceIndex(3), Some(3)));
        assert_eq!(
            (tap.is_up, tap.is_physical, tap.has_carrier),
            (true, false, Some(false))
        );
        let tun = link(
            0,
            65534,
            &[(18, &info(&[(1, b"tun\0"), (2, &info(&[(3, &[1])]))]))],
        );
        assert_eq!(
            (tun.driver.as_bytes(), tun.is_up, tun.has_carrier),
            (&b"tun"[..], false, None)
        );
        assert!(link(0, 65534, &[(56, b"virtio0\0")]).is_physical);
        assert!(link(0, 1, &[]).is_physical, "an older kernel");
        let lo = link(IFF_LOOPBACK, 772, &[]);
        assert!(lo.is_loopback && !lo.is_physical && lo.traffic.is_none());
    }

    /// Composed after the kernel's headers.
    #[test]
    fn bond_and_port_have_settings() {
        let bond = info(&[
            (1, b"bond\0"),
            (2, &info(&[(1, &[1]), (3, &words(&[0])), (7, &words(&[0]))])),
        ]);
        let bond = link(0, 1, &[(18, &bond)]);
        let expected = Bond {
            miimon_ms: Some(0),
            arp_interval_ms: Some(0),
            mode: Some(1),
        };
        assert_eq!((bond.bond, bond.bond_port), (Some(expected), None));
        for (status, is_up) in [(0, true), (1, false), (2, false), (3, false)] {
            let port = info(&[(4, b"bond\0"), (5, &info(&[(2, &[status]), (3, &words(&[9]))]))]);
            let port = link(0, 1, &[(10, &words(&[7])), (18, &port)]);
            let expected = BondPort {
                is_up: Some(is_up),
                failures: Some(9),
            };
            assert_eq!(
                (port.master, port.bond_port),
                (Some(InterfaceIndex(7)), Some(expected))
            );
        }
    }

    #[test]
    fn unknown_speed_is_none() {
        let mut device = link(0, 1, &[]);
        for (speed, expected) in [(u32::MAX, None), (0, None), (0xffff, None), (2500, Some(2500))] {
            device.set_link_modes(&LinkModes {
                index: Some(3),
                speed: Some(speed),
                duplex: Some(255),
            });
            assert_eq!((device.speed_mbit_per_s, device.duplex), (expected, None));
        }
        device.set_link_modes(&LinkModes {
            duplex: Some(0),
            ..LinkModes::default()
        });
        assert_eq!(device.duplex, Some(Duplex::Half));
    }
}
