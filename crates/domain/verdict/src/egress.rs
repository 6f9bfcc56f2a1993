//! Relates connections to the devices that they are sent through: packets in flight, which a queue should
//! hold, and losses of the device.

use crate::device_counters::{earlier, egress_losses};
use crate::share::permille;
use crate::symptom::Symptom;
use crate::{Limit, Limits, Rule, Severity};
use foldhash::fast::FixedState;
use sockeye_model::{InterfaceIndex, NetnsInode, Socket, State, TcpInfo, Vitals};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Devices by local address, and the largest amount in flight through each.
#[derive(Debug, Default)]
pub(crate) struct EgressDevices {
    devices: HashMap<(Option<NetnsInode>, IpAddr), InterfaceIndex, FixedState>,
    in_flight: HashMap<(Option<NetnsInode>, InterfaceIndex), InFlight, FixedState>,
    /// Addresses of devices that lose many of the packets to be sent
    lossy: HashSet<(Option<NetnsInode>, IpAddr), FixedState>,
}

/// The amount of data that a connection has in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct InFlight {
    /// Rate times round-trip time, in packets
    pub(crate) packets: u64,
    /// Rate
    pub(crate) rate_bytes_per_s: u64,
    /// Minimal round-trip time
    pub(crate) rtt_us: u64,
}

impl EgressDevices {
    pub(crate) fn add_namespace(&mut self, vitals: &Vitals, before: Option<&Vitals>, limits: &Limits) {
        for device in vitals.devices.iter().filter(|device| !device.is_loopback) {
            let (lost, carried) = egress_losses(device, earlier(device, before));
            let share = permille(lost, carried.saturating_add(lost));
            if lost >= limits.of(Limit::DeviceDropsCount) && share >= LOSSY_PERMILLE {
                let addresses = device.addresses.iter().map(|ip| (vitals.netns, *ip));
                self.lossy.extend(addresses);
            }
        }
        // Only short queues can be too short.
        let short = vitals.devices.iter().filter(|device| {
            !device.is_loopback
                && device
                    .queue_packets
                    .is_some_and(|packets| packets < LONG_QUEUE_PACKETS)
        });
        for device in short {
            for ip in &device.addresses {
                self.devices.insert((vitals.netns, *ip), device.index);
            }
        }
    }

    pub(crate) fn record(&mut self, socket: &Socket, info: &TcpInfo) {
        if self.devices.is_empty() || socket.state != State::Established {
            return;
        }
        let Some(device) = socket
            .local
            .ip()
            .and_then(|ip| self.devices.get(&(socket.netns, ip.to_canonical())))
        else {
            return;
        };
        let (Some(rate), Some(rtt), Some(mss)) = (
            info.delivery_rate_bytes_per_s,
            info.min_rtt_us,
            info.snd_mss_bytes,
        ) else {
            return;
        };
        let bytes = u128::from(rate) * u128::from(rtt) / 1_000_000;
        let packets = u64::try_from(bytes / u128::from(mss.max(1))).unwrap_or(u64::MAX);
        let need = self.in_flight.entry((socket.netns, *device)).or_default();
        if packets >= need.packets {
            *need = InFlight {
                packets,
                rate_bytes_per_s: rate,
                rtt_us: rtt.into(),
            };
        }
    }

    /// Lowers a symptom that losses of the device explain: the finding is about the device, and the one about
    /// the connection only shows the effect.
    pub(crate) fn explain(&self, socket: &Socket, symptom: Symptom) -> Symptom {
        let follows = matches!(
            symptom.rule,
            Rule::Retransmissions | Rule::SpuriousRetransmissions | Rule::CwndFloor
        );
        let is_lossy = |ip: IpAddr| self.lossy.contains(&(socket.netns, ip.to_canonical()));
        if follows && !self.lossy.is_empty() && socket.local.ip().is_some_and(is_lossy) {
            return symptom.with(Severity::Info);
        }
        symptom
    }

    /// The largest amount that one connection has in flight through this device.
    pub(crate) fn max_in_flight(
        &self,
        netns: Option<NetnsInode>,
        device: InterfaceIndex,
    ) -> Option<InFlight> {
        self.in_flight.get(&(netns, device)).copied()
    }
}

/// A loss of this many thousandths slows a connection down.
const LOSSY_PERMILLE: u64 = 5;
/// Packets: 1 ms at 10 Gbit/s, 100 ms at 100 Mbit/s.
const LONG_QUEUE_PACKETS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::Snapshot;
    use crate::tests::made;
    use sockeye_model::{Device, Endpoint, Entry, Port, Protocol, Traffic};

    fn tap(queue: u32, tx_dropped: u64) -> Vitals {
        let device = Device {
            queue_packets: Some(queue),
            traffic: Some(Traffic {
                tx_packets: 10_000,
                tx_dropped,
                ..Traffic::default()
            }),
            ..made::device(b"tap0", b"tap")
        };
        Vitals {
            devices: vec![device],
            ..Vitals::default()
        }
    }

    /// 10 MB/s over 20 ms: 200 kB in flight, or 200 segments; every tenth is retransmitted.
    fn transfer(local: [u8; 4]) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet(local.into(), Port(5));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(6));
        socket.tcp_info = Some(TcpInfo {
            delivery_rate_bytes_per_s: Some(10_000_000),
            min_rtt_us: Some(20_000),
            snd_mss_bytes: Some(1000),
            data_segs_out: Some(1000),
            segs_out: Some(1000),
            total_retrans_segs: Some(100),
            ..TcpInfo::default()
        });
        socket
    }

    #[track_caller]
    fn check(vitals: Vitals, socket: &Socket, expected: &[&str]) -> Vec<Finding> {
        let limits = Limits::default();
        let mut snapshot = Snapshot::new(&limits);
        snapshot.namespace(vitals);
        snapshot.socket(&Entry::new(socket));
        let found = snapshot.findings();
        let names: Vec<String> = found
            .iter()
            .map(|finding| format!("{} {}", finding.severity, finding.rule))
            .collect();
        assert_eq!(names, expected, "{found:#?}");
        found
    }

    #[test]
    fn queue_is_compared_with_data_in_flight() {
        let socket = transfer([10, 0, 0, 1]);
        check(tap(200, 0), &socket, &["warning retransmissions"]);
        let found = check(
            tap(199, 0),
            &socket,
            &["warning retransmissions", "warning queue-length"],
        );
        assert_eq!(found[1].facts.value("needed_packets"), Some(200));
        // The packets take another device.
        check(
            tap(199, 0),
            &transfer([10, 9, 9, 9]),
            &["warning retransmissions"],
        );
    }

    #[test]
    fn device_losses_lower_the_connection_finding() {
        let socket = transfer([10, 0, 0, 1]);
        check(
            tap(1000, 500),
            &socket,
            &["warning device-drops", "info retransmissions"],
        );
        check(
            tap(3, 500),
            &socket,
            &["warning queue-length", "info retransmissions"],
        );
        // Losses that are too few to be the cause.
        check(
            tap(1000, 20),
            &socket,
            &["warning retransmissions", "notice device-drops"],
        );
        check(
            tap(1000, 500),
            &transfer([10, 9, 9, 9]),
            &["warning retransmissions", "warning device-drops"],
        );
    }
}
