//! Rows of the report: what the kernel counted in an interval, with names and owners.

use super::estimates;
use super::sockets::{KnownSocket, SocketOwner, SocketTable};
use sockeye_dictionary::DropClass;
use sockeye_drops::{Event, Family, NETFILTER, Reasons, classes, socket_ends};
use sockeye_filter::{Filter, SocketConditions};
use sockeye_model::{
    DeviceName, Endpoint, Entry, Family as SocketFamily, FirewallRuleName, Inode, InterfaceIndex, NetnsInode,
    Owner, Port, Protocol, Socket, State, Uid,
};
use sockeye_observe::KernelFunctions;
use sockeye_tracepoints::DropCounts;
use sockeye_wire::drops::{DropSocket, Headers, How, INDEXES, Key, Sample, index_of, reason_at};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

/// How the owner of a drop's socket is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum KnownBy {
    /// The kernel names the socket that the packet was for.
    Receiver,
    /// The packet belongs to the socket.
    Packet,
    /// A socket has the addresses of the packet.
    Addresses,
}

impl KnownBy {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Receiver => "receiver",
            Self::Packet => "packet",
            Self::Addresses => "addresses",
        }
    }
}

/// Dropped packets of one reason, place, namespace, device and socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DropRow {
    pub(super) class: Option<DropClass>,
    pub(super) reason: Option<String>,
    /// Function of the kernel, or an address.
    pub(super) place: Option<String>,
    pub(super) module: Option<String>,
    pub(super) netns: Option<NetnsInode>,
    pub(super) netns_name: Option<String>,
    pub(super) device: Option<DeviceName>,
    pub(super) ifindex: Option<InterfaceIndex>,
    pub(super) family: Option<Family>,
    pub(super) protocol: Option<u8>,
    pub(super) protocol_name: Option<String>,
    pub(super) inode: Option<Inode>,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) owner: Option<SocketOwner>,
    pub(super) known_by: Option<KnownBy>,
    /// Whether the owner is known because it was running and had a descriptor of the socket, which no listing has.
    pub(super) was_running: bool,
    /// Number of sockets of the owner that the row has: of several it has neither inode nor local port.
    pub(super) sockets: u64,
    /// Which conditions of the filter hold for its socket; `None` if no listing has it.
    pub(super) conditions: Option<SocketConditions>,
    pub(super) uid: Option<Uid>,
    pub(super) state: Option<State>,
    pub(super) count: u64,
    /// How many of them are estimated from a sample.
    pub(super) estimated: u64,
    /// `None` where the details were evicted.
    pub(super) bytes: Option<u64>,
    /// Addresses of some of the packets, the latest last.
    pub(super) samples: Vec<Headers>,
    /// The same packets as they were captured.
    pub(super) captured: Vec<Sample>,
    /// What the program counts apart of packets that a packet filter drops: their rules differ.
    pub(super) part: u32,
    /// Rule of the packet filter that dropped; `None` if unknown.
    pub(super) rule: Option<FirewallRuleName>,
    /// Several rules of which each packet was dropped by one, if all that it can have been are known.
    pub(super) rules: Vec<FirewallRuleName>,
    /// Whether everything but the reason was evicted.
    pub(super) is_evicted: bool,
}

impl DropRow {
    /// Returns the owner in words: `gunicorn(4711)`.
    pub(super) fn owner_text(&self) -> Option<String> {
        self.owner.map(|owner| owner_text(&owner))
    }

    /// Returns how the owner or the socket is known.
    pub(super) fn owner_by(&self) -> Option<&'static str> {
        match self.was_running {
            true => Some("current"),
            false => self.known_by.map(KnownBy::name),
        }
    }

    /// Returns what counters are compared with.
    pub(super) fn event(&self) -> Event {
        Event {
            reason: self.reason.clone(),
            place: self.place.clone(),
            netns: self.netns,
            device: self.device,
            socket: self.inode,
            transport: self.protocol,
            // A packet without an IP header yet is of its socket's family.
            family: self.family.or_else(|| {
                let end = self.local.or(self.peer)?;
                Some(if end.is_ipv4() { Family::V4 } else { Family::V6 })
            }),
            owner: self.owner_text(),
            rule: self.rule.clone(),
            rules: self.rules.clone(),
            is_sent: self.known_by == Some(KnownBy::Packet),
            are_resets: self.are_resets(),
            count: self.count,
        }
    }

    /// Whether the kept packets are RSTs of TCP; `None` if only some are, or that is unknown.
    fn are_resets(&self) -> Option<bool> {
        let mut each = self.captured.iter().map(is_reset);
        let first = each.next()??;
        each.all(|one| one == Some(first)).then_some(first)
    }

    /// Whether the filter accepts it: one of its packets or its connection, with either end as the source. Who writes `dport = :53` means the packets to port
    /// 53, also if the socket that they were for has it as its own port. `None`: that is unknown, since the socket was too short-lived for a
    /// listing.
    pub(super) fn matches(&self, filter: &Filter) -> Option<bool> {
        if filter.is_empty() {
            return Some(true);
        }
        if self.place.is_none() {
            return Some(false);
        }
        let of_packets = self.samples.iter().map(|sample| {
            let source = SocketAddr::new(sample.source, sample.source_port.unwrap_or(0));
            let destination = SocketAddr::new(sample.destination, sample.destination_port.unwrap_or(0));
            (Some(source), Some(destination))
        });
        // A packet in a tunnel has other addresses than its connection; a socket without a peer has at most those of its packets.
        let of_socket = (self.peer.is_some() || self.samples.is_empty()).then_some((self.local, self.peer));
        let mut answer = Some(false);
        for ends in of_packets.chain(of_socket) {
            match self.matches_with(filter, ends) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => answer = None,
            }
        }
        answer
    }

    fn matches_with(
        &self,
        filter: &Filter,
        (one, other): (Option<SocketAddr>, Option<SocketAddr>),
    ) -> Option<bool> {
        let owners: Vec<Owner> = self
            .owner
            .iter()
            .map(|owner| Owner {
                process: owner.process,
                fd: sockeye_model::Fd(0),
            })
            .collect();
        let [there, back] = [self.socket(one, other), self.socket(other, one)];
        // A packet without a socket, or with one of the kernel's own, has nothing of one.
        let socket = self.conditions.ok_or(self.inode.is_some());
        let is_of_packet = |word: &str| match word {
            "state" => self.state.is_some(),
            "uid" => self.uid.is_some(),
            "inode" => self.inode.is_some(),
            word => PACKET_WORDS.contains(&word),
        };
        filter.matches_packet(
            &Entry::with_owners(&there, Some(&owners)),
            &Entry::with_owners(&back, Some(&owners)),
            socket,
            &is_of_packet,
        )
    }

    /// Takes the rules that can have dropped: the only one, or all of them.
    pub(super) fn set_rules(&mut self, rules: BTreeSet<FirewallRuleName>) {
        let mut rules: Vec<_> = rules.into_iter().collect();
        self.rule = if rules.len() == 1 { rules.pop() } else { None };
        self.rules = rules;
    }

    /// Adds the packets of another row.
    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.estimated += other.estimated;
        self.bytes = self.bytes.zip(other.bytes).map(|(one, other)| one + other);
        self.samples.extend(other.samples.iter().copied());
        let excess = self.samples.len().saturating_sub(SAMPLES_MAX);
        self.samples.drain(..excess);
        if self.captured.len() < SAMPLES_MAX {
            self.captured.extend_from_slice(&other.captured);
        }
    }

    /// Returns its socket for a filter, with these ends.
    fn socket(&self, local: Option<SocketAddr>, peer: Option<SocketAddr>) -> Socket {
        let protocol = match self.protocol {
            Some(6) => Protocol::Tcp,
            Some(17) => Protocol::Udp,
            Some(136) => Protocol::UdpLite,
            Some(_) => Protocol::Raw,
            None => Protocol::Unknown(0),
        };
        let endpoint = |end: Option<SocketAddr>| {
            end.map_or(Endpoint::None, |end| Endpoint::inet(end.ip(), Port(end.port())))
        };
        let mut socket = Socket::new(protocol, self.state.unwrap_or(State::Close));
        socket.family = match local.or(peer) {
            Some(SocketAddr::V6(_)) => SocketFamily::Inet6,
            _ => SocketFamily::Inet,
        };
        socket.local = endpoint(local);
        socket.peer = endpoint(peer);
        socket.interface = self.ifindex;
        socket.netns = self.netns;
        socket.inode = self.inode;
        socket.uid = self.uid;
        socket
    }
}

/// Whether a packet is a RST of TCP; `None` if its header was not captured.
fn is_reset(sample: &Sample) -> Option<bool> {
    let headers = sample.headers.get(..usize::from(sample.captured))?;
    let first = *headers.first()?;
    let at = match first >> 4 {
        4 => usize::from(first & 0xf) * 4,
        6 if headers.get(6) == Some(&TCP) => 40,
        _ => return None,
    };
    Some(headers.get(at + FLAGS_AT)? & RST != 0)
}

/// Returns an owner in words.
pub(super) fn owner_text(owner: &SocketOwner) -> String {
    let name = sockeye_output::text::harmless(owner.process.comm.as_bytes());
    let pid = owner.process.pid;
    match owner.others {
        0 => format!("{name}({pid})"),
        others => format!("{name}({pid}) +{others}"),
    }
}

/// What rows get their names and owners from.
pub(super) struct Naming<'a> {
    pub(super) reasons: &'a Reasons,
    pub(super) functions: &'a KernelFunctions,
    /// Sockets at the end of the interval, then those at its beginning.
    pub(super) sockets: [&'a SocketTable; 2],
    pub(super) netns_name: &'a dyn Fn(NetnsInode) -> Option<String>,
    /// Whether drops are counted by more than their reason.
    pub(super) has_keys: bool,
}

impl Naming<'_> {
    /// Returns the row of a single packet or of the first one of several.
    pub(super) fn row(
        &self,
        key: &Key,
        socket: Option<&DropSocket>,
        device: [u8; 16],
        samples: &[Sample],
    ) -> DropRow {
        let place = self.functions.at(key.place);
        let reason = self.reasons.name(key.reason);
        let (function, module) = place.map_or((None, None), |(name, module)| (Some(name), module));
        let class = classes::class(reason.as_deref(), function.as_deref());
        let netns = Some(NetnsInode(key.netns)).filter(|netns| netns.0 != 0);
        let captured = samples.to_vec();
        let mut samples: Vec<Headers> = samples.iter().filter_map(Sample::decoded).collect();
        samples.dedup();
        let mut row = DropRow {
            class,
            reason,
            place: Some(function.unwrap_or_else(|| format!("{:#x}", key.place))),
            module,
            netns,
            netns_name: netns.and_then(|netns| (self.netns_name)(netns)),
            device: Some(DeviceName::from_c(&device)).filter(|name| !name.as_bytes().is_empty()),
            ifindex: u32::try_from(key.ifindex)
                .ok()
                .filter(|index| *index != 0)
                .map(InterfaceIndex),
            family: match key.ethertype {
                0x0800 => Some(Family::V4),
                0x86dd => Some(Family::V6),
                _ => None,
            },
            protocol: Some(key.transport).filter(|transport| *transport != 0),
            protocol_name: None,
            inode: Some(Inode(key.inode)).filter(|inode| inode.0 != 0),
            local: None,
            peer: None,
            owner: None,
            known_by: None,
            was_running: false,
            sockets: 1,
            conditions: None,
            uid: None,
            state: None,
            count: 0,
            estimated: 0,
            bytes: Some(0),
            samples,
            captured,
            part: 0,
            rule: None,
            rules: Vec::new(),
            is_evicted: false,
        };
        if row.reason.as_deref() == Some(NETFILTER) {
            row.part = key.portpair;
        }
        if let Some(socket) = socket {
            self.add_socket(&mut row, socket, key.how);
        }
        // By definition no socket is there for a refused packet; any that has its addresses is not the one that it was for.
        if row.owner.is_none() && socket.is_none() && row.class != Some(DropClass::Refusal) {
            let known = row.samples.iter().rev().find_map(|headers| {
                let find = |table: &&SocketTable| table.of_packet(netns, headers).cloned();
                self.sockets.iter().find_map(find)
            });
            if let Some(known) = known {
                add_known(&mut row, &known);
                row.known_by = Some(KnownBy::Addresses);
            }
        }
        let is_multicast = |headers: &Headers| headers.destination.is_multicast();
        let is_mute = row
            .reason
            .as_deref()
            .is_none_or(|reason| reason == "NOT_SPECIFIED");
        if is_mute && row.place.as_deref() == Some(ROUTE_LOOKUP) && !row.samples.is_empty() {
            // Of a group that this host has not joined, as that of IPv6.
            let are_multicast = row.samples.iter().all(is_multicast);
            row.class = row.class.or(are_multicast.then_some(DropClass::Normal));
        }
        row.protocol_name = row.protocol.map(|number| match protocol_name(number) {
            "" => number.to_string(),
            name => name.to_owned(),
        });
        row
    }

    fn add_socket(&self, row: &mut DropRow, socket: &DropSocket, how: How) {
        row.uid = (socket.has_uid != 0).then_some(Uid(socket.uid));
        let is_inet = matches!(u32::from(socket.family), AF_INET | AF_INET6);
        if is_inet {
            row.state = Some(State::from_number(socket.state));
            (row.local, row.peer) = socket_ends(socket);
            if row.protocol.is_none() {
                row.protocol = u8::try_from(socket.protocol)
                    .ok()
                    .filter(|protocol| *protocol != 0);
            }
        }
        let find = |inode: Inode| self.sockets.iter().find_map(|table| table.owner_of(inode));
        row.owner = row.inode.and_then(find);
        // A socket that was in no listing: it has not lived long enough.
        if row.owner.is_none() && socket.pid != 0 {
            row.owner = Some(SocketOwner::running(socket));
            row.was_running = true;
        }
        let listed = |inode: Inode| self.sockets.iter().find_map(|table| table.with_inode(inode.0));
        row.conditions = row.inode.and_then(listed).and_then(|known| known.conditions);
        row.known_by = match how {
            How::Receiver => Some(KnownBy::Receiver),
            How::OfPacket => Some(KnownBy::Packet),
            How::Unknown => None,
        };
    }

    /// Returns the rows of what was counted between two readings, the worst first; and those of normal ends of packets that are not shown, but
    /// that counters count.
    pub(super) fn rows(
        &self,
        before: &DropCounts,
        now: &DropCounts,
        all: bool,
    ) -> (Vec<DropRow>, Vec<DropRow>) {
        let mut rows: BTreeMap<RowKey, DropRow> = BTreeMap::new();
        let mut counted = vec![0_u64; INDEXES];
        for (key, counts, seen) in estimates::seen(before, now) {
            counted[index_of(key.reason)] += seen.count;
            let mut row = self.row(key, counts.socket.as_ref(), counts.device, &counts.samples);
            row.count = seen.count;
            row.estimated = seen.estimated;
            row.bytes = Some(seen.bytes);
            rows.entry(RowKey::of(&row))
                .and_modify(|same| same.add(&row))
                .or_insert(row);
        }
        let mut rows: Vec<DropRow> = rows.into_values().collect();
        name_devices(&mut rows);
        let (normal, mut rows): (Vec<_>, Vec<_>) = rows
            .into_iter()
            .partition(|row| !all && row.class == Some(DropClass::Normal));
        rows.extend(self.evicted(before, now, &counted, all));
        sort_worst_first(&mut rows);
        (rows, normal)
    }

    /// Returns a row for each reason with drops in the totals that the table of keys does not have.
    fn evicted(&self, before: &DropCounts, now: &DropCounts, counted: &[u64], all: bool) -> Vec<DropRow> {
        let mut rows = Vec::new();
        for (index, counted) in counted.iter().enumerate() {
            let lost = estimates::counted(before, now, index).saturating_sub(*counted);
            if lost == 0 || !self.reasons.is_shown(index, all) {
                continue;
            }
            let reason = reason_at(index).and_then(|reason| self.reasons.name(reason));
            rows.push(DropRow {
                class: classes::class(reason.as_deref(), None),
                reason,
                place: None,
                module: None,
                netns: None,
                netns_name: None,
                device: None,
                ifindex: None,
                family: None,
                protocol: None,
                protocol_name: None,
                inode: None,
                local: None,
                peer: None,
                owner: None,
                known_by: None,
                was_running: false,
                sockets: 1,
                conditions: None,
                uid: None,
                state: None,
                count: lost,
                estimated: 0,
                bytes: None,
                samples: Vec::new(),
                captured: Vec::new(),
                part: 0,
                rule: None,
                rules: Vec::new(),
                is_evicted: self.has_keys,
            });
        }
        rows
    }
}

/// Merges the parts of rows that the same rules dropped.
pub(super) fn merge_parts(mut rows: Vec<DropRow>) -> Vec<DropRow> {
    for row in &mut rows {
        row.part = 0;
    }
    let key = |row: &DropRow| {
        Some((
            RowKey::of(row),
            row.is_evicted,
            row.rule.clone(),
            row.rules.clone(),
        ))
    };
    merge(rows, key, DropRow::add)
}

/// Merges rows with the same key, into the first of them; those without a key stay.
pub(super) fn merge<K: Ord>(
    rows: Vec<DropRow>,
    key: impl Fn(&DropRow) -> Option<K>,
    add: impl Fn(&mut DropRow, &DropRow),
) -> Vec<DropRow> {
    let mut merged: Vec<DropRow> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for row in rows {
        let place = match key(&row) {
            Some(key) => *places.entry(key).or_insert(merged.len()),
            None => merged.len(),
        };
        match merged.get_mut(place) {
            Some(same) => add(same, &row),
            None => merged.push(row),
        }
    }
    merged
}

/// What makes a row: several keys of the kernel may have the same.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    reason: Option<String>,
    place: Option<String>,
    netns: Option<NetnsInode>,
    ifindex: Option<InterfaceIndex>,
    family: Option<Family>,
    protocol: Option<u8>,
    inode: Option<Inode>,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    known_by: Option<KnownBy>,
    part: u32,
}

impl RowKey {
    /// The same of any socket with this address.
    pub(super) fn of_any_socket(row: &DropRow, local: IpAddr) -> Self {
        Self {
            inode: None,
            local: Some(SocketAddr::new(local, 0)),
            ..Self::of(row)
        }
    }

    fn of(row: &DropRow) -> Self {
        Self {
            reason: row.reason.clone(),
            place: row.place.clone(),
            netns: row.netns,
            ifindex: row.ifindex,
            family: row.family,
            protocol: row.protocol,
            inode: row.inode,
            local: row.local,
            peer: row.peer,
            known_by: row.known_by,
            part: row.part,
        }
    }
}

/// Sorts rows: the worst class first, and of it the most packets.
pub(super) fn sort_worst_first(rows: &mut [DropRow]) {
    rows.sort_by(|a, b| {
        b.class
            .cmp(&a.class)
            .then(b.count.cmp(&a.count))
            .then_with(|| a.reason.cmp(&b.reason))
    });
}

/// Takes the names of devices that some rows lack from rows that have them.
fn name_devices(rows: &mut [DropRow]) {
    let known: HashMap<_, _> = rows
        .iter()
        .filter_map(|row| Some(((row.netns, row.ifindex?), row.device?)))
        .collect();
    for row in rows {
        if let (None, Some(ifindex)) = (row.device, row.ifindex) {
            row.device = known.get(&(row.netns, ifindex)).copied();
        }
    }
}

/// Adds what a listing knows of the socket.
fn add_known(row: &mut DropRow, known: &KnownSocket) {
    row.inode = known.inode;
    row.local = known.local;
    row.peer = known.peer;
    row.owner = known.owner;
    row.conditions = known.conditions;
}

/// Returns the name of an IP protocol; empty if it has none here.
fn protocol_name(number: u8) -> &'static str {
    match number {
        1 => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        47 => "gre",
        50 => "esp",
        58 => "icmpv6",
        132 => "sctp",
        136 => "udplite",
        _ => "",
    }
}

pub(super) const AF_INET: u32 = 2;
pub(super) const AF_INET6: u32 = 10;

const TCP: u8 = 6;
/// Flags in the header of TCP.
const FLAGS_AT: usize = 13;
const RST: u8 = 4;
/// Words of filters for what the packet itself has. `dev` is its device, and not that to which its socket is bound.
const PACKET_WORDS: [&str; 9] = [
    "src", "dst", "sport", "dport", "proto", "family", "peers", "netns", "dev",
];

/// Where the route of a packet that came in is looked up: net/ipv4/ip_input.c. It has a reason of its own for all but multicast packets.
const ROUTE_LOOKUP: &str = "ip_rcv_finish_core";

/// Most samples of a row.
const SAMPLES_MAX: usize = 8;
