//! Where packets are dropped, and what is said of it.

use crate::command::{InNamespace, device_name as name, typed};
use crate::hop::{Device, Direction, HopKey, HopKind};
use sockeye_measure::Sentence;
use sockeye_model::counted;
use sockeye_wire::path::{DroppedAt, Journey, Point, Stamp};
use std::collections::{BTreeMap, HashMap};

/// A packet that was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drop {
    /// In which part of the way.
    pub(crate) hop: HopKind,
    /// The device that this part begins at.
    pub(crate) from: Option<Device>,
    /// How far it was; `None` if the part of the way says all.
    place: Option<Place>,
}

/// How far packets were that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// By the packet filter of the sender, at one of its hooks; with the device to which it is sent if that is known.
    SendHook(&'static str, Option<Device>),
    /// By the packet filter, at one of its hooks, after this device has received it.
    Hook(&'static str, Option<Device>),
    /// Sent here, on the way to the queue of this device; `None` if none is known.
    Sending(Option<Device>),
    /// Where the route is looked up of what this device has received.
    Routing(Option<Device>),
    /// Between these devices.
    Forwarding(Option<Device>),
    /// At the egress hooks of this device, before its queue.
    Egress(Option<Device>),
    /// In the bridge of this port.
    Bridge(Option<Device>),
    /// This device has received what is for another one.
    OtherHost(Option<Device>),
}

impl Drop {
    /// Returns where the packet of a journey was dropped, for a reason; `None` if it has not come so far.
    pub(crate) fn of(journey: &Journey, reason: &str) -> Option<Self> {
        let at = journey.dropped_at()?;
        let last = journey.stamps.last()?;
        // Those of the sender have no device.
        let received = |stamp: &&Stamp| matches!(stamp.point, Point::Received | Point::Routed);
        let before = journey.stamps.iter().rev().find(received);
        let (from, to) = (before.and_then(Device::of), Device::of(last));
        let is_filter = reason == FILTER;
        let hook = |name, device| is_filter.then_some(Place::Hook(name, device));
        let sent = |name| {
            let place = if is_filter {
                Place::SendHook(name, to)
            } else {
                Place::Sending(to)
            };
            (HopKind::Output, Some(place))
        };
        let is_tcp = journey.payload.is_some();
        let is_routed = before.is_some_and(|stamp| stamp.point == Point::Routed);
        let (hop, place) = match at {
            DroppedAt::Output => sent("output"),
            DroppedAt::PostroutingSent => sent("postrouting"),
            DroppedAt::Egress => sent("egress"),
            // The transport takes the route out of a packet before it gives it to the socket: that it has none, or no device, says nothing.
            _ if is_of_transport(reason) => (HopKind::Stack, None),
            DroppedAt::Ingress | DroppedAt::Prerouting if reason == OTHER_HOST => {
                (HopKind::Prerouting, Some(Place::OtherHost(from)))
            }
            DroppedAt::Prerouting | DroppedAt::Forward
                if reason.ends_with("NOROUTES")
                    || is_routed && at == DroppedAt::Prerouting && !is_filter && !reason.is_empty() =>
            {
                (HopKind::Forward, Some(Place::Routing(from)))
            }
            // Before Linux 5.17 there are no reasons: it has no route, or has lost it at its socket.
            DroppedAt::Prerouting if is_routed && reason.is_empty() => return None,
            DroppedAt::Ingress => (HopKind::Prerouting, hook("ingress", from)),
            DroppedAt::Prerouting => (HopKind::Prerouting, hook("prerouting", from)),
            // The way of UDP has no point before the socket.
            DroppedAt::Local | DroppedAt::LocalLoopback => {
                let name = if at == DroppedAt::Local {
                    "input"
                } else {
                    "prerouting or input"
                };
                match hook(name, from) {
                    Some(hook) if is_tcp => (HopKind::Input, Some(hook)),
                    hook => (HopKind::Stack, hook),
                }
            }
            DroppedAt::Forward => (
                HopKind::Forward,
                hook("forward", from).or(Some(Place::Forwarding(from))),
            ),
            DroppedAt::Postrouting => (
                HopKind::Forward,
                hook("postrouting", from).or(Some(Place::Forwarding(from))),
            ),
            DroppedAt::ForwardedEgress if is_filter => {
                (HopKind::Forward, Some(Place::SendHook("egress", to)))
            }
            DroppedAt::ForwardedEgress => (HopKind::Forward, Some(Place::Egress(to))),
            DroppedAt::PostroutingOrEgress => (
                HopKind::Forward,
                hook("postrouting or egress", from).or(Some(Place::Forwarding(from))),
            ),
            DroppedAt::BridgeIn => (
                HopKind::Handover,
                hook("bridge prerouting", from).or(Some(Place::Bridge(from))),
            ),
            DroppedAt::BridgeForward => (
                HopKind::Forward,
                hook("bridge forward or postrouting", from).or(Some(Place::Bridge(from))),
            ),
            DroppedAt::BridgeUp => (
                HopKind::Handover,
                hook("bridge input", from).or(Some(Place::Bridge(from))),
            ),
        };
        Some(Self {
            hop,
            from: from.filter(|_| hop != HopKind::Output),
            // A kernel without reasons does not say whether a filter has dropped it.
            place: place.filter(|_| !reason.is_empty()),
        })
    }
}

/// Whether a reason is one of TCP, UDP or a socket: the packet had passed the network layer.
fn is_of_transport(reason: &str) -> bool {
    let is_of = |prefix| reason.starts_with(prefix);
    ["SOCKET_", "TCP_", "UDP_"].into_iter().any(is_of) || matches!(reason, "PROTO_MEM" | "NO_SOCKET")
}

/// How many packets were dropped where, of a hop.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Places {
    /// With the reasons.
    drops: BTreeMap<Place, BTreeMap<String, u64>>,
    /// Packets that came to where they are dropped, and these; `None` if it is not known.
    pub(crate) all: Option<u64>,
}

impl Places {
    pub(crate) fn add(&mut self, drop: Drop, reason: &str) {
        if let Some(place) = drop.place {
            let reasons = self.drops.entry(place).or_default();
            *reasons.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// Returns how many packets were dropped for a reason at a place that is known.
    pub(crate) fn with_reason(&self, reason: &str) -> u64 {
        let places = self.drops.values();
        places.filter_map(|reasons| reasons.get(reason)).sum()
    }

    /// Says of each place how many packets are dropped there, of so many, and what shows more.
    pub(crate) fn sentences(
        &self,
        all: u64,
        in_namespace: InNamespace<'_>,
    ) -> impl Iterator<Item = Sentence> {
        self.drops.iter().map(move |(place, reasons)| {
            let dropped: u64 = reasons.values().sum();
            let names: Vec<_> = reasons.keys().map(String::as_str).collect();
            let text = format!(
                "{} {} ({}).",
                share_of(dropped, all),
                place.text(),
                names.join(", ")
            );
            Sentence::new("drops", text).with(place.commands(in_namespace))
        })
    }
}

/// How many packets came to a part of the way: the points after it are seen of some packets only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offered {
    /// What this host has sent, in each direction.
    sent: [u64; 2],
    received: HashMap<(Direction, Device), u64>,
}

impl Offered {
    pub(crate) fn add(&mut self, journey: &Journey, direction: Direction) {
        let is_before = |point| matches!(point, Point::ReadBefore | Point::Written | Point::Handed);
        let mut points = journey.stamps.iter().map(|stamp| stamp.point);
        let first = points.find(|point| !is_before(*point));
        if matches!(first, Some(Point::Queued | Point::Dropped)) && !journey.is_segment {
            self.sent[usize::from(direction == Direction::In)] += 1;
        }
        let received = journey
            .stamps
            .iter()
            .filter(|stamp| stamp.point == Point::Received);
        for device in received.filter_map(Device::of) {
            *self.received.entry((direction, device)).or_default() += 1;
        }
    }

    /// Returns the number for a hop; `None` if those that have passed are all others.
    pub(crate) fn to(&self, key: &HopKey) -> Option<u64> {
        match key.kind {
            HopKind::Output => Some(self.sent[usize::from(key.direction == Direction::In)]),
            HopKind::Prerouting | HopKind::Forward | HopKind::Input | HopKind::Stack | HopKind::Handover => {
                self.received.get(&(key.direction, key.device?)).copied()
            }
            _ => None,
        }
    }
}

/// Says how many of all packets are dropped.
pub(crate) fn share_of(dropped: u64, all: u64) -> String {
    let percent = match (dropped.saturating_mul(100) + all / 2) / all.max(1) {
        0 => "less than 1".to_owned(),
        percent => percent.to_string(),
    };
    let are = if dropped == 1 { "is" } else { "are" };
    format!(
        "{dropped} of {} ({percent} %) {are} dropped",
        counted(all, "packet")
    )
}

impl Place {
    /// Says where that is.
    fn text(&self) -> String {
        match self {
            Self::SendHook(hook, None) => format!("by the packet filter (hook {hook}) before the device"),
            Self::SendHook(hook, Some(device)) => {
                format!(
                    "by the packet filter (hook {hook}) before the queue of {}",
                    name(device)
                )
            }
            Self::Hook(hook, device) => format!(
                "by the packet filter (hook {hook}), after {} has received them",
                known(device.as_ref())
            ),
            Self::Sending(Some(device)) => {
                format!(
                    "in the network layer of the sender, before the queue of {}",
                    name(device)
                )
            }
            Self::Sending(None) => "in the network layer of the sender, before a device is known".to_owned(),
            Self::Routing(device) => format!(
                "where the route is looked up of what {} has received",
                known(device.as_ref())
            ),
            Self::Forwarding(device) => {
                format!("on the way from {} to the next device", known(device.as_ref()))
            }
            Self::Egress(device) => format!("at the egress of {}, before its queue", known(device.as_ref())),
            Self::Bridge(device) => format!("by the bridge of {}", known(device.as_ref())),
            Self::OtherHost(device) => format!(
                "after {} has received them, since they are for another MAC address than its own",
                known(device.as_ref())
            ),
        }
    }

    /// What shows more of it.
    fn commands(&self, in_namespace: InNamespace<'_>) -> Vec<String> {
        let drops = "sockeye drops".to_owned();
        let rules = "nft list ruleset";
        match self {
            Self::SendHook(_, Some(device)) | Self::Hook(_, Some(device)) => {
                vec![drops, typed(device, rules, in_namespace)]
            }
            Self::SendHook(_, None) | Self::Hook(_, None) => vec![
                drops,
                format!("{rules}    # in the network namespace of the sender"),
            ],
            Self::OtherHost(_) => {
                vec!["ip neigh    # of the sender: the MAC address that it sends to".to_owned()]
            }
            _ => vec![drops],
        }
    }
}

fn known(device: Option<&Device>) -> String {
    device.map_or_else(|| "an unknown device".to_owned(), name)
}

/// Whether a reason of a drop is that the socket takes no more.
pub(crate) fn is_full_buffer(reason: &str) -> bool {
    matches!(reason, "SOCKET_RCVBUFF" | "SOCKET_BACKLOG" | "PROTO_MEM")
}

/// The kernel's names of reasons.
const FILTER: &str = "NETFILTER_DROP";
const OTHER_HOST: &str = "OTHERHOST";
