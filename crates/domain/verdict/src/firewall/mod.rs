//! Finds rules of this host's packet filter that drop packets of its connections.
//!
//! Only what is certain is said: a rule that matches with all that is known of a packet, and that has counted packets if
//! it counts.

mod dropped;
mod evaluate;
mod packet;
#[cfg(test)]
mod tests;

pub use dropped::{DroppedPacket, PacketFilter};
pub(crate) use evaluate::{Drop, Ruleset};
pub(crate) use packet::{Content, DeviceKnown, Direction, End, Packet};

use crate::finding::{Example, Facts, Subject};
use crate::{Finding, Rule, Severity};
use foldhash::fast::FixedState;
use sockeye_model::{
    Counter, Device, DeviceName, Endpoint, Entry, Firewall, FirewallRuleName, InterfaceIndex, NetnsInode,
    Owner, Process, Queues, Route, SendPath, Socket, Vitals,
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
    /// UDP sockets with a peer
    datagrams: Vec<(Socket, Option<Owner>)>,
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
    /// What connections send, probably: the rule compares something that is not known
    PerhapsSent,
    /// What their peers send, probably
    PerhapsReceived,
    /// What asks for the link address of the next hop, and the answers
    Discovery,
    /// Datagrams of UDP sockets
    Datagrams,
    /// Connections of clients to all listeners
    AllClients,
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
        let packet = packet_of(socket, direction, path, vitals)?;
        let drop = self.drop_of(socket.netns, &packet);
        // What goes out through loopback comes in again.
        drop.or_else(|| self.drop_of(socket.netns, &packet.looped()?))
    }

    /// Returns the rule that probably drops what a connection sends or what comes for it: the only one that matches with all
    /// that is known of it. With `earlier` it must have dropped packets since.
    pub(crate) fn perhaps_stops(
        &self,
        socket: &Socket,
        direction: Direction,
        path: Option<&SendPath>,
        vitals: Option<&Vitals>,
        earlier: Option<&EarlierDrops>,
    ) -> Option<Drop> {
        let packet = packet_of(socket, direction, path, vitals)?;
        let ruleset = self.rules_of(socket.netns)?;
        self.evaluated.set(self.evaluated.get() + 2);
        let drop = (self.evaluated.get() <= EVALUATED_MAX).then(|| ruleset.perhaps_dropping(&packet))??;
        let Some(earlier) = earlier else { return Some(drop) };
        let before = earlier.get(&(socket.netns, drop.name.clone()))?;
        (drop.packets? > *before).then_some(drop)
    }

    /// Returns the rule that drops ARP or neighbour discovery between this host and a next hop.
    pub(crate) fn stops_discovery(
        &self,
        socket: &Socket,
        hop: IpAddr,
        path: Option<&SendPath>,
        vitals: Option<&Vitals>,
    ) -> Option<Drop> {
        let device = outgoing_device(path, vitals)?;
        let local = End {
            ip: Some(socket.local.ip()?.to_canonical()),
            port: None,
        };
        let hop = End {
            ip: Some(hop),
            port: None,
        };
        // Questions go to a multicast address (IPv6) or to all (ARP).
        let all = End {
            ip: hop.ip.filter(IpAddr::is_ipv4),
            port: None,
        };
        let is_ipv6 = hop.ip?.is_ipv6();
        let packets = [
            (Content::NeighbourQuestion, local, all, Direction::Outgoing),
            (Content::NeighbourAnswer, hop, local, Direction::Incoming),
        ];
        packets.into_iter().find_map(|(content, from, to, direction)| {
            let packet = Packet::new(content, is_ipv6, from, to, direction, device);
            self.drop_of(socket.netns, &packet)
        })
    }

    /// Keeps a UDP socket with a peer.
    pub(crate) fn datagrams(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        let has_peer = socket.peer.port().is_some_and(|port| port.0 != 0);
        if has_peer && self.datagrams.len() < DATAGRAMS_MAX {
            let owner = entry.owners.and_then(|owners| owners.first()).copied();
            self.datagrams.push((socket.clone(), owner));
        }
    }

    /// Judges UDP sockets in network namespaces in which packets were dropped on their way out.
    pub(crate) fn judge_datagrams(&mut self, drops_output: &dyn Fn(Option<NetnsInode>) -> bool) {
        for (socket, owner) in std::mem::take(&mut self.datagrams) {
            let (local, peer) = (End::of(&socket.local), End::of(&socket.peer));
            let Some(ip) = peer
                .ip
                .filter(|ip| !ip.is_loopback() && drops_output(socket.netns))
            else {
                continue;
            };
            let device = DeviceKnown::NotLoopback;
            let out = Direction::Outgoing;
            let packet = Packet::new(Content::Datagram, ip.is_ipv6(), local, peer, out, device);
            if let Some(drop) = self.drop_of(socket.netns, &packet) {
                self.add(&socket, owner.as_ref(), drop, Stopped::Datagrams);
            }
        }
    }

    /// Rules through which what this host sends may be dropped, if the rules were read.
    pub(crate) fn drops_of_output(&self, netns: Option<NetnsInode>) -> Vec<Drop> {
        let ruleset = self.rulesets.get(&netns);
        ruleset.map(Ruleset::drops_of_output).unwrap_or_default()
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

    /// The rules of a network namespace; `None` without any, where nothing has to be followed.
    fn rules_of(&self, netns: Option<NetnsInode>) -> Option<&Ruleset> {
        self.rulesets.get(&netns).filter(|ruleset| !ruleset.is_empty())
    }

    fn drop_of(&self, netns: Option<NetnsInode>, packet: &Packet) -> Option<Drop> {
        let ruleset = self.rules_of(netns)?;
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
        is_deaf: &dyn Fn(Option<NetnsInode>) -> bool,
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
        // Without a counter the rule shows nothing, but that no listener of a namespace can be reached does.
        let mut reachable = BTreeSet::new();
        let mut uncounted = Vec::new();
        for (netns, example, owner) in &self.listeners {
            let Some(drop) = self.drop_to(*netns, &example.local) else {
                reachable.insert(*netns);
                continue;
            };
            if drop.packets.is_none() {
                uncounted.push((*netns, *example, *owner, drop));
                continue;
            }
            let before = earlier.get(&(*netns, drop.name.clone()));
            let more = drop
                .packets
                .zip(before)
                .map(|(now, before)| now.saturating_sub(*before));
            if let Some(more @ 1..) = more {
                dropped.push((*netns, *example, *owner, drop, more));
            }
        }
        for (netns, example, owner, drop) in uncounted {
            // Its connections may show already what the rule drops.
            let is_known = |stopped| self.groups.contains_key(&(netns, drop.name.clone(), stopped));
            let is_reported = is_known(Stopped::Received) || is_known(Stopped::PerhapsReceived);
            if !reachable.contains(&netns) && is_deaf(netns) && !is_reported {
                self.add_example(netns, example, owner, drop, Stopped::AllClients);
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

    /// What rules have dropped until now, for the next sample.
    pub(crate) fn drops(&self) -> EarlierDrops {
        let mut drops = EarlierDrops::default();
        for (netns, example, _) in &self.listeners {
            if let Some(drop) = self.drop_to(*netns, &example.local)
                && let Some(packets) = drop.packets
            {
                drops.insert((*netns, drop.name), packets);
            }
        }
        for (netns, ruleset) in &self.rulesets {
            let counted = ruleset.counting_drops().take(COUNTING_MAX);
            drops.extend(counted.map(|(name, packets)| ((*netns, name), packets)));
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
        let subject = Subject::FirewallRule(Box::new(name.clone()));
        let mut facts = Facts::NONE;
        facts.push("packets", self.packets);
        facts.push("since_last_sample", self.since_last_sample);
        let severity = match stopped {
            // It may be wanted.
            Stopped::Clients | Stopped::AllClients => Severity::Notice,
            Stopped::Answers | Stopped::Datagrams => Severity::Warning,
            _ => Rule::FirewallDrops.severity(),
        };
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
        .inside(list_chain(name))
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
            Self::PerhapsSent => {
                "A firewall rule of this host probably drops what these connections send: it is the only one that matches their addresses and ports and drops. The peer may be well."
            }
            Self::PerhapsReceived => {
                "A firewall rule of this host probably drops what comes in for these connections: it matches their addresses and ports, and dropped packets meanwhile. The peer may be well."
            }
            Self::Discovery => {
                "A firewall rule of this host drops ARP or neighbour discovery (ICMPv6): the next hop cannot answer, and nothing that these connections send leaves. The peer may be well."
            }
            Self::AllClients => {
                "A firewall rule of this host drops new connections to all ports on which programs listen, and packets came in that no program saw. If that is wanted, nothing is wrong."
            }
            Self::Datagrams => {
                "A firewall rule of this host drops the datagrams that these sockets send. If that is wanted, nothing is wrong."
            }
            Self::Clients => {
                "A firewall rule of this host drops new connections to a port on which a program listens, and clients try. If that is wanted, nothing is wrong."
            }
        }
    }
}

fn packet_of(
    socket: &Socket,
    direction: Direction,
    path: Option<&SendPath>,
    vitals: Option<&Vitals>,
) -> Option<Packet> {
    let way = outgoing_device(path, vitals);
    let device = way.filter(|_| direction == Direction::Outgoing);
    let device = device.or_else(|| unknown_device(socket.local.ip()?, socket.peer.ip()?, vitals))?;
    let packet = Packet::of(socket, direction, device)?;
    // Answers probably come in where the questions go out.
    let name = match way {
        Some(DeviceKnown::Is(_, name)) => Some(name),
        _ => None,
    };
    Some(packet.through(name))
}

fn outgoing_device(path: Option<&SendPath>, vitals: Option<&Vitals>) -> Option<DeviceKnown> {
    let Route::Via { device, .. } = path?.route else {
        return None;
    };
    let found = vitals?.devices.iter().find(|found| found.index == device)?;
    Some(DeviceKnown::Is(device, found.name))
}

/// Names the chains whose rules drop what this host sends with the counter that counts it.
pub(crate) fn explain_counter(mut finding: Finding, drops: &[Drop]) -> Finding {
    let is_output = matches!(
        finding.subject,
        Subject::Counter(Counter::IpOutDiscards | Counter::Ip6OutDiscards)
    );
    if !is_output || drops.is_empty() {
        return finding;
    }
    finding.meaning = DROPPED_BY_RULE;
    finding.severity = finding.severity.min(Severity::Notice);
    finding.remedies.clear();
    let mut commands: Vec<String> = Vec::new();
    for drop in drops {
        let command = list_chain(&drop.name);
        if !commands.contains(&command) && commands.len() < CHAINS_SHOWN_MAX {
            commands.push(command);
        }
    }
    for command in commands {
        finding = finding.inside(command);
    }
    finding
}

fn list_chain(name: &FirewallRuleName) -> String {
    let [table, chain] = [&name.table, &name.chain].map(|word| crate::shell_word(word));
    format!("nft -a list chain {} {table} {chain}", name.family)
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
const DROPPED_BY_RULE: &str = "Packets were dropped on their way out, and rules of this host's firewall drop some of what goes out. If that is wanted, nothing is wrong.";
/// Chains that are named.
const CHAINS_SHOWN_MAX: usize = 3;
/// UDP sockets that are judged.
const DATAGRAMS_MAX: usize = 200;
/// Rules of a network namespace whose counters are kept for the next sample.
const COUNTING_MAX: usize = 10_000;
/// Owners that are counted.
const OWNERS_MAX: usize = 100;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
