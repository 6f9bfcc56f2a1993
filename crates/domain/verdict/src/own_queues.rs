//! Relates connections to the queues of this host that hold or drop what they send: then the queue is the cause, and
//! not the peer, the path or a firewall.

use crate::device_counters::{earlier, egress_losses, is_not_read, is_policy};
use crate::share::permille;
use crate::{Limit, Limits, Rule};
use foldhash::fast::FixedState;
use sockeye_model::{InterfaceIndex, NetnsInode, Qdisc, Socket, Vitals};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Devices whose queue is filled, drops much or is not read, by local address, and what that does to connections.
#[derive(Debug, Default)]
pub(crate) struct OwnQueues {
    devices: HashMap<(Option<NetnsInode>, IpAddr), InterfaceIndex, FixedState>,
    effects: HashMap<(Option<NetnsInode>, InterfaceIndex), Effects, FixedState>,
}

/// Connections that wait for a queue of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Effects {
    /// Connections that stand still
    pub(crate) stalled: u64,
    /// Connections that are slow
    pub(crate) slow: u64,
}

impl OwnQueues {
    pub(crate) fn add_namespace(
        &mut self,
        vitals: &Vitals,
        before: Option<&Vitals>,
        elapsed: Option<Duration>,
        limits: &Limits,
    ) {
        for device in vitals.devices.iter().filter(|device| !device.is_loopback) {
            let earlier = earlier(device, before);
            let (lost, carried) = egress_losses(device, earlier);
            let drops_much = lost >= limits.of(Limit::DeviceDropsCount)
                && permille(lost, carried.saturating_add(lost)) >= MUCH_PERMILLE;
            if drops_much
                || device.qdiscs.iter().any(is_filled)
                || is_not_read(device, earlier, elapsed, limits)
            {
                let addresses = device.addresses.iter();
                self.devices
                    .extend(addresses.map(|ip| ((vitals.netns, ip.to_canonical()), device.index)));
            }
        }
    }

    /// Whether a queue of this host explains why what this socket sends does not leave it.
    pub(crate) fn holds(&mut self, socket: &Socket) -> bool {
        self.count(socket, |effects| effects.stalled += 1)
    }

    /// Whether a queue of this host explains a symptom of this socket.
    pub(crate) fn explains(&mut self, socket: &Socket, rule: Rule) -> bool {
        match rule {
            Rule::PeerSilent | Rule::SendStuck | Rule::MtuBlackHole | Rule::ConnectUnanswered => {
                self.holds(socket)
            }
            Rule::RttInflation | Rule::PacingFloor | Rule::CwndFloor => {
                self.count(socket, |effects| effects.slow += 1)
            }
            _ => false,
        }
    }

    fn count(&mut self, socket: &Socket, add: impl FnOnce(&mut Effects)) -> bool {
        let device = socket
            .local
            .ip()
            .and_then(|ip| self.devices.get(&(socket.netns, ip.to_canonical())));
        let Some(&device) = device else { return false };
        add(self.effects.entry((socket.netns, device)).or_default());
        true
    }

    /// What the queues of a device do to connections.
    pub(crate) fn effects(&self, netns: Option<NetnsInode>, device: InterfaceIndex) -> Effects {
        self.effects.get(&(netns, device)).copied().unwrap_or_default()
    }
}

/// Whether more packets wait in it than a burst leaves.
pub(crate) fn is_filled(qdisc: &Qdisc) -> bool {
    !is_policy(qdisc) && qdisc.waiting_packets >= FILLED_PACKETS
}

/// A burst of one connection (64 KiB) is 46 packets, but one packet for a qdisc until it is segmented.
const FILLED_PACKETS: u32 = 20;
/// A loss of this many thousandths makes connections stand still.
const MUCH_PERMILLE: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snapshot;
    use crate::tests::made;
    use sockeye_model::{Device, Endpoint, Entry, Inode, Port, Protocol, Queues, ShortText, State, TcpInfo};
    use sockeye_model::{Timer, TimerKind};

    fn shaped(waiting_packets: u32) -> Vitals {
        let device = Device {
            is_physical: true,
            qdiscs: vec![Qdisc {
                kind: ShortText::new(b"tbf"),
                handle: 0x1_0000,
                parent: u32::MAX,
                bytes: 1_000_000,
                packets: 1000,
                drops: 0,
                overlimits: 0,
                requeues: 0,
                waiting_packets,
                waiting_bytes: waiting_packets * 1500,
            }],
            ..made::device(b"eth0", b"")
        };
        Vitals {
            devices: vec![device],
            ..Vitals::default()
        }
    }

    fn socket(local: [u8; 4], info: TcpInfo) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet(local.into(), Port(5));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(6));
        socket.tcp_info = Some(info);
        socket
    }

    #[track_caller]
    fn check(vitals: Vitals, socket: &Socket, expected: &[&str]) {
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
    }

    #[test]
    fn filled_queue_explains_long_round_trips() {
        let info = TcpInfo {
            rtt_us: Some(900_000),
            min_rtt_us: Some(2_000),
            last_ack_recv_ms: Some(5),
            ..TcpInfo::default()
        };
        let slow = socket([10, 0, 0, 1], info);
        check(shaped(20), &slow, &["notice qdisc-backlog"]);
        check(shaped(19), &slow, &["notice rtt-inflation"]);
        // Its packets take another device, whose queue is no evidence, and this one harms no connection.
        let other = socket([10, 9, 9, 9], info);
        check(shaped(20), &other, &["notice rtt-inflation"]);
    }

    #[test]
    fn data_that_waits_in_an_own_queue_is_not_dropped_by_a_firewall() {
        let mut stuck = socket(
            [10, 0, 0, 1],
            TcpInfo {
                unacked_segs: Some(0),
                notsent_bytes: Some(10_000),
                snd_mss_bytes: Some(1448),
                snd_wnd_bytes: Some(60_000),
                rto_us: Some(200_000),
                backoff: Some(3),
                ..TcpInfo::default()
            },
        );
        stuck.inode = Some(Inode(7));
        stuck.queues = Queues::Data {
            receive_bytes: 0,
            send_bytes: 10_000,
        };
        stuck.timer = Some(Timer {
            kind: TimerKind::ZeroWindowProbe,
            expires_ms: 100,
            retransmits: 3,
        });
        check(shaped(20), &stuck, &["warning qdisc-backlog"]);
        check(shaped(0), &stuck, &["critical cannot-send"]);
    }
}
