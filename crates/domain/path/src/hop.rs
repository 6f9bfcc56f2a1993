//! What is between two points.

use sockeye_model::DeviceName;
use sockeye_wire::path::{Point, Stamp};

/// A part of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HopKind {
    /// The program, from reading a packet until it writes the answer. Without the time of the write (UDP, before Linux 6.13), with the
    /// call that sends.
    Program,
    /// The send buffer and the transport, from the write until TCP gives the packet to the network layer. Where that is not known, to the
    /// queue of a device.
    Send,
    /// The network layer, from there to the queue of a device: routing, netfilter's hooks output and postrouting, neighbours.
    Output,
    /// The queue of a device, before its driver.
    Qdisc,
    /// A class of that queue: only what waits there is known.
    Class,
    /// From the driver until the device has sent the packet and freed it: its ring, and the wire.
    Ring,
    /// From the driver of a device that a program reads (tun, tap) until that program reads.
    Tunnel,
    /// From the driver of a virtual device to where the packet arrives.
    Device,
    /// From the driver of a device upon another one (vlan, vxlan, bridge) to the queue of that one.
    Upper,
    /// The backlog of a processor, which its softirq empties.
    Backlog,
    /// From one device to another one upon it (bridge, macvlan, vxlan).
    Handover,
    /// The network layer and netfilter's prerouting hook (connection tracking, NAT), until the route is looked up.
    Prerouting,
    /// Routing and forwarding, with bridges and the packet filter, to the queue of the next device.
    Forward,
    /// Netfilter's input hook and the look-up of the socket, until TCP gets the packet.
    Input,
    /// The transport, to the receive queue of a socket. Where it is not known when TCP got the packet, with what `Input` has.
    Stack,
    /// TCP, while bytes before the packet are missing: others overtook them, or they were lost.
    Order,
    /// The receive queue of a socket, until its program reads.
    Socket,
    /// The accept queue of a listener: of connections, until a program accepts them.
    Accept,
}

impl HopKind {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Program,
        Self::Send,
        Self::Output,
        Self::Qdisc,
        Self::Class,
        Self::Ring,
        Self::Tunnel,
        Self::Device,
        Self::Upper,
        Self::Backlog,
        Self::Handover,
        Self::Prerouting,
        Self::Forward,
        Self::Input,
        Self::Stack,
        Self::Order,
        Self::Socket,
        Self::Accept,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Send => "send",
            Self::Output => "output",
            Self::Qdisc => "qdisc",
            Self::Class => "class",
            Self::Ring => "ring",
            Self::Tunnel => "tunnel",
            Self::Device => "device",
            Self::Upper => "upper-device",
            Self::Backlog => "backlog",
            Self::Handover => "handover",
            Self::Prerouting => "prerouting",
            Self::Forward => "forward",
            Self::Input => "input",
            Self::Stack => "stack",
            Self::Order => "order",
            Self::Socket => "socket",
            Self::Accept => "accept",
        }
    }

    /// Returns what is between two points that follow each other.
    #[must_use]
    pub const fn between(from: Point, to: Point) -> Option<Self> {
        Some(match (from, to) {
            (Point::ReadBefore, Point::Written | Point::Handed | Point::Queued) => Self::Program,
            (Point::Written, Point::Handed | Point::Queued) => Self::Send,
            (Point::Handed, Point::Queued) => Self::Output,
            // It is divided when it has left the queue.
            (Point::Queued, Point::Transmitted | Point::Divided) => Self::Qdisc,
            (Point::Transmitted, Point::Sent) => Self::Ring,
            (Point::Transmitted, Point::Read) => Self::Tunnel,
            (Point::Transmitted, Point::Backlogged | Point::Received) => Self::Device,
            (Point::Transmitted, Point::Queued) => Self::Upper,
            (Point::Backlogged, Point::Received) => Self::Backlog,
            (Point::Received, Point::Routed) => Self::Prerouting,
            (Point::Received | Point::Routed, Point::Received | Point::Backlogged) => Self::Handover,
            (Point::Received | Point::Routed, Point::Queued) => Self::Forward,
            (Point::Received | Point::Routed, Point::Arrived | Point::Disordered) => Self::Input,
            (Point::Disordered, Point::Ordered | Point::Delivered) => Self::Order,
            (Point::Received | Point::Routed | Point::Arrived, Point::Delivered) => Self::Stack,
            (
                Point::Received
                | Point::Routed
                | Point::Arrived
                | Point::Delivered
                | Point::Disordered
                | Point::Ordered,
                Point::Read,
            ) => Self::Socket,
            _ => return None,
        })
    }

    /// Returns what a packet is in after a point, as far as that is known before the next one.
    #[must_use]
    pub const fn after(from: Point) -> Option<Self> {
        Some(match from {
            Point::Queued => Self::Qdisc,
            Point::Transmitted => Self::Device,
            Point::Backlogged => Self::Backlog,
            Point::Received | Point::Routed | Point::Arrived => Self::Stack,
            Point::Disordered => Self::Order,
            Point::Delivered | Point::Ordered => Self::Socket,
            _ => return None,
        })
    }
}

/// In which direction a packet goes, as the sockets see it that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// They send it.
    Out,
    /// They receive it.
    In,
}

impl Direction {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

/// A network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// Inode of its network namespace.
    pub netns: u32,
    /// Its index there.
    pub ifindex: i32,
    /// Its name.
    pub name: DeviceName,
}

impl Device {
    /// Returns the device of a stamp; `None` if it has none.
    #[must_use]
    pub fn of(stamp: &Stamp) -> Option<Self> {
        (stamp.ifindex != 0).then(|| Self {
            netns: stamp.netns,
            ifindex: stamp.ifindex,
            name: DeviceName::from_c(&stamp.device),
        })
    }
}

/// What packets are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HopKey {
    /// In which direction.
    pub direction: Direction,
    /// Which part of the way.
    pub kind: HopKind,
    /// The device that it begins at.
    pub device: Option<Device>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_follows_from_two_points() {
        for (from, to, kind) in [
            (Point::Queued, Point::Transmitted, Some(HopKind::Qdisc)),
            (Point::Queued, Point::Divided, Some(HopKind::Qdisc)),
            (Point::Transmitted, Point::Read, Some(HopKind::Tunnel)),
            (Point::Transmitted, Point::Received, Some(HopKind::Device)),
            (Point::Received, Point::Read, Some(HopKind::Socket)),
            (Point::Received, Point::Routed, Some(HopKind::Prerouting)),
            (Point::Routed, Point::Queued, Some(HopKind::Forward)),
            (Point::Routed, Point::Delivered, Some(HopKind::Stack)),
            (Point::Disordered, Point::Ordered, Some(HopKind::Order)),
            (Point::Ordered, Point::Read, Some(HopKind::Socket)),
            (Point::Read, Point::Queued, None),
            // It was received in between: the first device is not upon the second.
            (Point::Transmitted, Point::Unseen, None),
            (Point::Unseen, Point::Queued, None),
            (Point::Unknown(77), Point::Read, None),
        ] {
            assert_eq!(HopKind::between(from, to), kind, "{from:?} {to:?}");
        }
    }

    #[test]
    fn names_differ() {
        let names: std::collections::BTreeSet<_> = HopKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), HopKind::ALL.len());
    }
}
