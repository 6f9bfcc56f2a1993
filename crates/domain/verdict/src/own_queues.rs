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
