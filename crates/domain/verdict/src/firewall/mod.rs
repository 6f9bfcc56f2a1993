//! Finds rules of this host's packet filter that drop packets of its connections.
//!
//! Only what is certain is said: a rule that matches with all that is known of a packet, and that has counted packets if
//! it counts.

mod evaluate;
mod packet;
#[cfg(test)]
mod tests;

pub(crate) use evaluate::{Drop, Ruleset};
pub(crate) use packet::{Content, DeviceKnown, Direction, End, Packet};

use crate::finding::{Example, Facts, Subject};
use crate::{Finding, Rule, Severity};
use foldhash::fast::FixedState;
use sockeye_model::{
    Device, DeviceName, Endpoint, Entry, Firewall, FirewallRuleName, InterfaceIndex, NetnsInode, Owner,
    Process, Queues, Route, SendPath, Socket, Vitals,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The rules of the network namespaces in question, and the connections that they stop.
#[derive(Debug, Default)]
pub(crate) struct Firewalls {
    rulesets: HashMap<Option<NetnsInode>, Ruleset, FixedState>,
    groups: BTreeMap<(Option<NetnsInode>, FirewallRuleName, Stopped), Group>,
    /// Packets that were followed through the rules, of which there may be tens of thousands
    evaluated: Cell<usize>,
    /// Half-open connections and where connections are accepted, to be judged when the rules are known
    half_open: Vec<(Option<NetnsInode>, Example)>,
    listeners: Vec<(Option<NetnsInode>, Example, Option<Process>)>,
}

/// What a rule stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stopped {
    /// What connections send
    Sent,
    /// What their peers send
    Received,
    /// Reports of routers
    Icmp,
    /// Answers to connections of clients
    Answers,
    /// Connections of clients
    Clients,
}

/// Packets that rules had dropped at an earlier sample.
pub(crate) type EarlierDrops = HashMap<(Option<NetnsInode>, FirewallRuleName), u64, FixedState>;

#[derive(Debug, Default)]
struct Group {
    packets: Option<u64>,
    since_last_sample: Option<u64>,
    sockets: u64,
    owners: BTreeSet<Option<Process>>,
    examples: Vec<Example>,
}

impl Firewalls {
    pub(crate) fn add_rules(&mut self, netns: Option<NetnsInode>, firewall: Firewall) {
        self.rulesets.insert(netns, Ruleset::new(firewall));
    }

    /// Keeps a half-open connection. The kernel does not count answers that fail on this host, so that only their number is
    /// suspicious.
    pub(crate) fn half_open(&mut self, socket: &Socket) {
        if self.half_open.len() < HALF_OPEN_MAX {
            let example = Example::new(socket, Facts::NONE);
            self.half_open.push((socket.netns, example));
        }
    }

    /// Keeps a listener that others can reach.
    pub(crate) fn listener(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        let is_loopback = socket.local.ip().is_none_or(|ip| ip.to_canonical().is_loopback());
        if !is_loopback && self.listeners.len() < LISTENERS_MAX {
            let owner = entry.owners.and_then(|owners| owners.first());
            let owner = owner.map(|owner| owner.process);
            self.listeners
                .push((socket.netns, Example::new(socket, Facts::NONE), owner));
        }
    }

    /// The namespaces of several half-open connections.
    pub(crate) fn suspected(&self) -> impl Iterator<Item = Option<NetnsInode>> {
        let mut counts: BTreeMap<Option<NetnsInode>, usize> = BTreeMap::new();
        for (netns, _) in &self.half_open {
            *counts.entry(*netns).or_default() += 1;
        }
        let several = counts.into_iter().filter(|(_, count)| *count >= HALF_OPEN_MIN);
        several.map(|(netns, _)| netns)
    }

    /// The namespaces of listeners.
    pub(crate) fn listening(&self) -> impl Iterator<Item = Option<NetnsInode>> {
        self.listeners.iter().map(|(netns, ..)| *netns)
    }

    /// Returns the rule that drops what a connection sends or what comes for it.
    pub(crate) fn stops(
        &self,
        socket: &Socket,
        direction: Direction,
        path: Option<&SendPath>,
        vitals: Option<&Vitals>,
    ) -> Option<Drop> {
        let device = match direction {
            Direction::Outgoing => outgoing_device(path, vitals),
            Direction::Incoming => None,
        };
        let device = device.or_else(|| unknown_device(socket.local.ip()?, socket.peer.ip()?, vitals))?;
        let packet = Packet::of(socket, direction, device)?;
        let drop = self.drop_of(socket.netns, &packet);
        // What goes out through loopback comes in again.
        drop.or_else(|| self.drop_of(socket.netns, &packet.looped()?))
    }

    /// Returns the rule that drops what routers report about a connection, if it has dropped ICMP.
    pub(crate) fn stops_icmp(&self, socket: &Socket, vitals: Option<&Vitals>) -> Option<Drop> {
        let device = unknown_device(socket.local.ip()?, socket.peer.ip()?, vitals)?;
        let local = End::of(&socket.local);
        let router = End { ip: None, port: None };
        let is_ipv6 = local.ip?.is_ipv6();
        let packet = Packet::new(
            Content::TooBig,
            is_ipv6,
            router,
            local,
            Direction::Incoming,
            device,
        );
        self.drop_of(socket.netns, &packet)
            .filter(|drop| drop.packets.is_some_and(|packets| packets > 0))
    }

    fn drop_of(&self, netns: Option<NetnsInode>, packet: &Packet) -> Option<Drop> {
        let ruleset = self.rulesets.get(&netns)?;
        self.evaluated.set(self.evaluated.get() + 1);
        (self.evaluated.get() <= EVALUATED_MAX).then(|| ruleset.dropping(packet))?
    }

    /// Adds a connection that a rule stops.
    pub(crate) fn add(&mut self, socket: &Socket, owner: Option<&Owner>, drop: Drop, stopped: Stopped) {
        let sendq = match socket.queues {
            // The kernel counts the SYN as a byte.
            Queues::Data { send_bytes, .. } => Some(send_bytes).filter(|bytes| *bytes > 1),
            _ => None,
        };
        let tries = socket.timer.map(|timer| timer.retransmits);
        let facts = Facts::NONE.with("sendq_bytes", sendq).with("tries", tries);
        let example = Example::new(socket, facts);
        self.add_example(
            socket.netns,
            example,
            owner.map(|owner| owner.process),
            drop,
            stopped,
        );
    }

    fn add_example(
        &mut self,
        netns: Option<NetnsInode>,
        example: Example,
        owner: Option<Process>,
        drop: Drop,
        stopped: Stopped,
    ) -> &mut Group {
        let group = self.groups.entry((netns, drop.name, stopped)).or_default();
        group.packets = drop.packets;
        group.sockets += 1;
        if group.owners.len() < OWNERS_MAX {
            group.owners.insert(owner);
        }
        if group.examples.len() < EXAMPLES_MAX {
            group.examples.push(example);
        }
        group
    }

    /// Judges half-open connections and, with an earlier sample, listeners.
    pub(crate) fn judge(
        &mut self,
        earlier: Option<&EarlierDrops>,
        owner_of: &dyn Fn(&Endpoint, Option<NetnsInode>) -> Option<Process>,
    ) {
        for (netns, example) in std::mem::take(&mut self.half_open) {
            let (local, peer) = (End::of(&example.local), End::of(&example.peer));
            let Some(ip) = local.ip else { continue };
            let device = DeviceKnown::NotLoopback;
            let packet = Packet::new(
                Content::SynAck,
                ip.is_ipv6(),
                local,
                peer,
                Direction::Outgoing,
                device,
            );
            if let Some(drop) = self.drop_of(netns, &packet) {
                let owner = owner_of(&example.local, netns);
                self.add_example(netns, example, owner, drop, Stopped::Answers);
            }
        }
        let Some(earlier) = earlier else { return };
        let mut dropped = Vec::new();
        for (netns, example, owner) in &self.listeners {
            let Some(drop) = self.drop_to(*netns, &example.local) else {
                continue;
            };
            let before = earlier.get(&(*netns, drop.name.clone()));
            let more = drop
                .packets
                .zip(before)
                .map(|(now, before)| now.saturating_sub(*before));
            if let Some(more @ 1..) = more {
                dropped.push((*netns, *example, *owner, drop, more));
            }
        }
        for (netns, example, owner, drop, more) in dropped {
            let group = self.add_example(netns, example, owner, drop, Stopped::Clients);
            group.since_last_sample = Some(more);
        }
    }

    /// Returns the rule that drops connections of any client to a listener.
    fn drop_to(&self, netns: Option<NetnsInode>, local: &Endpoint) -> Option<Drop> {
        let ip = local.ip()?.to_canonical();
        let of_any = |is_ipv6, ip| {
            let client = End { ip: None, port: None };
            let to = End {
                ip,
                port: local.port().map(|port| port.0),
            };
            let device = DeviceKnown::NotLoopback;
            let packet = Packet::new(Content::Syn, is_ipv6, client, to, Direction::Incoming, device);
            self.drop_of(netns, &packet)
        };
        match ip {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => of_any(false, None),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => of_any(false, None).or_else(|| of_any(true, None)),
            ip => of_any(ip.is_ipv6(), Some(ip)),
        }
    }

    /// What rules have dropped until now of the packets to listeners, for the next sample.
    pub(crate) fn drops(&self) -> EarlierDrops {
        let mut drops = EarlierDrops::default();
        for (netns, example, _) in &self.listeners {
            if let Some(drop) = self.drop_to(*netns, &example.local)
                && let Some(packets) = drop.packets
            {
                drops.insert((*netns, drop.name), packets);
            }
        }
        drops
    }

    pub(crate) fn findings(&self) -> impl Iterator<Item = Finding> + '_ {
        self.groups
            .iter()
            .map(|((netns, name, stopped), group)| group.finding(*netns, name, *stopped))
    }
}

impl Group {
    fn finding(&self, netns: Option<NetnsInode>, name: &FirewallRuleName, stopped: Stopped) -> Finding {
        let FirewallRuleName {
            family, table, chain, ..
        } = name;
        let subject = Subject::FirewallRule(Box::new(name.clone()));
        let mut facts = Facts::NONE;
        facts.push("packets", self.packets);
        facts.push("since_last_sample", self.since_last_sample);
        let severity = match stopped {
            // It may be wanted.
            Stopped::Clients => Severity::Notice,
            Stopped::Answers => Severity::Warning,
            Stopped::Sent | Stopped::Received | Stopped::Icmp => Rule::FirewallDrops.severity(),
        };
        let [table, chain] = [table, chain].map(|word| crate::shell_word(word));
        Finding {
            meaning: stopped.meaning(),
            owner: match self.owners.len() {
                1 => self.owners.first().copied().flatten(),
                _ => None,
            },
            owners: self.owners.len() as u64,
            facts,
            sockets: self.sockets,
            examples: self.examples.clone(),
            ..Finding::about(Rule::FirewallDrops, netns, subject).with(severity)
        }
        .inside(format!("nft -a list chain {family} {table} {chain}"))
        .advice("if the rule is wrong, delete it by its handle (nft delete rule), or let what it drops pass before it")
    }
}

impl Stopped {
    const fn meaning(self) -> &'static str {
        match self {
            Self::Sent => {
                "A firewall rule of this host drops what these connections send. The route is open, and the peer may be well."
            }
            Self::Received => {
                "A firewall rule of this host drops what comes in for these connections: answers and acknowledgements do not reach them. The peer may be well."
            }
            Self::Icmp => {
                "A firewall rule of this host drops ICMP errors, and full-sized segments of these connections are not acknowledged: probably the path has a smaller MTU, and the report of that is dropped."
            }
            Self::Answers => {
                "A firewall rule of this host drops its answers to clients: their connections stay half open."
            }
            Self::Clients => {
                "A firewall rule of this host drops new connections to a port on which a program listens, and clients try. If that is wanted, nothing is wrong."
            }
        }
    }
}

fn outgoing_device(path: Option<&SendPath>, vitals: Option<&Vitals>) -> Option<DeviceKnown> {
    let Route::Via { device, .. } = path?.route else {
        return None;
    };
    let found = vitals?.devices.iter().find(|found| found.index == device)?;
    Some(DeviceKnown::Is(device, found.name))
}

/// What is known of a device without a route: packets between addresses of this host go through loopback.
fn unknown_device(local: IpAddr, peer: IpAddr, vitals: Option<&Vitals>) -> Option<DeviceKnown> {
    let (local, peer) = (local.to_canonical(), peer.to_canonical());
    let has_address = |device: &Device| device.addresses.iter().any(|ip| ip.to_canonical() == peer);
    let is_local = peer.is_loopback()
        || local == peer
        || vitals.is_some_and(|vitals| vitals.devices.iter().any(has_address));
    Some(if is_local {
        DeviceKnown::Is(InterfaceIndex(1), DeviceName::new(b"lo"))
    } else {
        DeviceKnown::NotLoopback
    })
}

/// Packets that are followed through the rules.
const EVALUATED_MAX: usize = 2_000;
/// Half-open connections of a network namespace that make its rules worth reading.
const HALF_OPEN_MIN: usize = 3;
/// Half-open connections that are judged.
const HALF_OPEN_MAX: usize = 200;
/// Listeners that are judged.
const LISTENERS_MAX: usize = 200;
/// Owners that are counted.
const OWNERS_MAX: usize = 100;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
