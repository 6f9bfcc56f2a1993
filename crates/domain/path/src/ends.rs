//! What is known of the ends of packets: whether they are for a socket of a network namespace, and where their way goes on.

use crate::hop::Direction;
use sockeye_wire::path::{Journey, Point, Stamp};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Collects where packets end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    /// Addresses at which sockets have received something, with their network namespaces.
    local: HashSet<(u32, IpAddr)>,
    /// How many hops are before the program of a tunnel has read a packet, which it may write into another device of this host.
    tunnels: HashMap<(SocketAddr, SocketAddr, Direction), usize>,
}

impl Ends {
    /// Adds a journey whose first point is that many hops from the beginning of the way, and that has so many hops.
    pub(crate) fn add(&mut self, journey: &Journey, direction: Direction, first: usize, hops: usize) {
        let mut latest = journey.stamps.iter().rev().map(|stamp| stamp.point);
        let (last, before) = (latest.next(), latest.next());
        let is_delivered = matches!(last, Some(Point::Arrived | Point::Disordered | Point::Delivered))
            || last == Some(Point::Read) && before != Some(Point::Transmitted);
        let with_device = |stamp: &&Stamp| stamp.netns != 0;
        if is_delivered
            && self.local.len() < ENDS_MAX
            && let Some(stamp) = journey.stamps.iter().rev().find(with_device)
        {
            self.local.insert((stamp.netns, journey.destination.ip()));
        }
        if (before, last) == (Some(Point::Transmitted), Some(Point::Read)) {
            let key = (journey.source, journey.destination, direction);
            if self.tunnels.len() < ENDS_MAX || self.tunnels.contains_key(&key) {
                self.tunnels.insert(key, first + hops);
            }
        }
    }

    /// Returns how many hops are before a journey that begins where a device has received the packet.
    pub(crate) fn hops_before(&self, journey: &Journey, direction: Direction) -> usize {
        let first = journey.stamps.first().map(|stamp| stamp.point);
        if !matches!(first, Some(Point::Received | Point::Backlogged)) {
            return 0;
        }
        let key = (journey.source, journey.destination, direction);
        self.tunnels.get(&key).copied().unwrap_or(0)
    }

    /// Whether a packet whose route was looked up last is for another host, as far as was seen: nothing was received here at its address.
    pub(crate) fn is_passing(&self, journey: &Journey) -> bool {
        let last = journey.stamps.last();
        last.is_some_and(|last| {
            last.point == Point::Routed && !self.local.contains(&(last.netns, journey.destination.ip()))
        })
    }
}

/// Most addresses and connections.
const ENDS_MAX: usize = 16_384;
