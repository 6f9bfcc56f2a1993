//! A snapshot of a host: takes vitals and a stream of sockets, and returns what is wrong.

mod silent;

use crate::closing::HalfClosed;
use crate::connection::ConnectionCheck;
use crate::connection_growth::{ConnectionCounts, ConnectionGrowth};
use crate::counter_samples::CounterSamples;
use crate::dns::{Resolvers, Server};
use crate::egress::EgressDevices;
use crate::firewall::{EarlierDrops, Firewalls};
use crate::listener::{Counted, Listeners};
use crate::own_queues::OwnQueues;
use crate::ports::Ports;
use crate::recent_peers::{PEERS_MAX, RecentPeers};
use crate::sending::SendFaults;
use crate::socket::{TcpLosses, dropped, udp_unread, unread};
use crate::socket_counters::SocketCounters;
use crate::suspects::{Presence, QueueLook, Sighting, SocketKey, Suspects, is_window_full};
use crate::symptom::Symptom;
use crate::symptom_groups::SymptomGroups;
use crate::victims::Victims;
use crate::waiting::{UNIX_PATIENCE, UnixQueues, WaitingQueues};
use crate::{
    Finding, Limit, Limits, Remedy, Rule, Victim, counter, device, firewall, host, merge, namespace,
};
use foldhash::fast::FixedState;
use sockeye_model::{
    Counter, Device, Endpoint, Entry, HostVitals, Inode, NetnsInode, Owner, PathQuery, Pid, ProcessState,
    Protocol, Socket, State, TcpInfo, Timer, TimerKind, Vitals,
};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// The state of a host at one moment.
///
/// Add namespaces before their sockets: ports and addresses are judged by them. Of sockets without faults
/// only counters for a later snapshot are kept, and only after [`keep_counters`](Self::keep_counters).
#[derive(Debug)]
pub struct Snapshot<'a> {
    limits: &'a Limits,
    earlier: Option<(&'a Baseline, Duration)>,
    namespaces: Vec<Vitals>,
    host: HostVitals,
    symptom_groups: SymptomGroups,
    listeners: Listeners,
    ports: Ports,
    egress: EgressDevices,
    own_queues: OwnQueues,
    waiting: WaitingQueues,
    resolvers: Resolvers,
    tcp_losses: TcpLosses,
    connection_growth: ConnectionGrowth,
    /// Connections with unacknowledged data: judged when all peers are known.
    silent: Vec<(Socket, Option<Owner>)>,
    send_faults: SendFaults,
    firewalls: Firewalls,
    /// Network namespaces whose packet filter rules could not be read
    firewalls_unreadable: BTreeSet<Option<NetnsInode>>,
    recent_peers: RecentPeers,
    /// Both ends of connections that are not read, as the peer's socket has them.
    unread: HashSet<(Endpoint, Endpoint), FixedState>,
    suspects: Suspects,
    /// What another look at the suspects saw, and the time between the two.
    other_look: Option<(&'a Suspects, Duration)>,
    /// Connections with a congestion window at its floor or a full receive window: a fault only if a second look sees it, too.
    at_floor: Vec<(Socket, Option<Owner>, Symptom)>,
    samples: Option<CounterSamples>,
    /// TCP connections of each process
    owned: HashMap<Pid, u64, FixedState>,
    seen: Coverage,
    /// What was dropped since the earlier snapshot.
    victims: Victims,
    /// Whether the sockets are those of a recorded sample, which lacks what many rules need.
    is_recorded: bool,
}

/// How much was examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Sockets
    pub sockets: u64,
    /// Of these, TCP connections without a tcp_info: most rules cannot judge them
    pub without_info: u64,
    /// Network namespaces with known counters and devices
    pub namespaces: u64,
    /// Devices
    pub devices: u64,
    /// Faulty sockets that did not fit
    pub left_out: u64,
}

/// The part of a snapshot that the next one is compared with.
#[derive(Debug, Default)]
pub struct Baseline {
    samples: CounterSamples,
    namespaces: HashMap<Option<NetnsInode>, Vitals>,
    host: HostVitals,
    suspects: Suspects,
    connections: ConnectionCounts,
    name_servers: BTreeSet<Server>,
    firewall_drops: EarlierDrops,
    /// Ways whose next hop does not answer
    unanswered: HashSet<PathQuery, FixedState>,
    unix_queues: UnixQueues,
}

impl<'a> Snapshot<'a> {
    /// A snapshot without an earlier one. Counters then cover their whole life.
    #[must_use]
    pub fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            earlier: None,
            namespaces: Vec::new(),
            host: HostVitals::default(),
            symptom_groups: SymptomGroups::default(),
            listeners: Listeners::default(),
            ports: Ports::default(),
            egress: EgressDevices::default(),
            own_queues: OwnQueues::default(),
            waiting: WaitingQueues::default(),
            resolvers: Resolvers::default(),
            tcp_losses: TcpLosses::default(),
            connection_growth: ConnectionGrowth::default(),
            silent: Vec::new(),
            send_faults: SendFaults::default(),
            firewalls: Firewalls::default(),
            firewalls_unreadable: BTreeSet::new(),
            recent_peers: RecentPeers::default(),
            unread: HashSet::default(),
            suspects: Suspects::default(),
            other_look: None,
            at_floor: Vec::new(),
            samples: None,
            owned: HashMap::default(),
            seen: Coverage::default(),
            victims: Victims::default(),
            is_recorded: false,
        }
    }

    /// A snapshot of recorded sockets: of the rules on connections only those run that [`Rule::is_judged_by_record`] names. What others find
    /// in listeners is for the caller to leave out.
    #[must_use]
    pub fn of_record(limits: &'a Limits) -> Self {
        Self {
            is_recorded: true,
            ..Self::new(limits)
        }
    }

    /// Compares with an earlier snapshot, taken `elapsed` ago.
    #[must_use]
    pub const fn after(mut self, earlier: &'a Baseline, elapsed: Duration) -> Self {
        self.earlier = Some((earlier, elapsed));
        self.other_look = Some((&earlier.suspects, elapsed));
        self
    }

    /// Whether a second look at the sockets would prove or clear a suspicion. A snapshot with an earlier one has it.
    #[must_use]
    pub fn needs_second_look(&self) -> bool {
        let is_suspicious = || {
            self.suspects.need_second_look(self.limits)
                || !self.paths_to_confirm().is_empty()
                || self.waiting.needs_other_look()
        };
        self.other_look.is_none() && is_suspicious()
    }

    /// Compares with a second look at the sockets, taken `elapsed` after this one.
    pub const fn second_look(&mut self, later: &'a Suspects, elapsed: Duration) {
        self.other_look = Some((later, elapsed));
    }

    /// Returns the network namespaces in which connections wait at a UNIX listener: which ones should be added.
    #[must_use]
    pub fn unix_queues_in_question(&self) -> BTreeSet<Option<NetnsInode>> {
        self.waiting.unix_namespaces()
    }

    /// Adds which connections wait at the UNIX listeners of a network namespace: the inodes of the clients, in order.
    pub fn unix_queues(&mut self, netns: Option<NetnsInode>, queues: &[(Inode, Vec<u32>)]) {
        self.waiting.set_queues(netns, queues);
        if let Some((baseline, elapsed)) = self.earlier {
            self.waiting.compare_queues(&baseline.unix_queues, elapsed);
        }
    }

    /// Compares with the queues of UNIX listeners `apart` later.
    pub fn unix_queues_later(
        &mut self,
        netns: Option<NetnsInode>,
        queues: &[(Inode, Vec<u32>)],
        apart: Duration,
    ) {
        let mut later = WaitingQueues::default();
        later.set_queues(netns, queues);
        self.waiting.compare_queues(&later.into_firsts(), apart);
    }

    /// For how long two looks at the queues of UNIX listeners must be apart; `None` without such queues.
    #[must_use]
    pub fn unix_queues_need(&self) -> Option<Duration> {
        self.waiting.needs_other_look().then_some(UNIX_PATIENCE)
    }

    /// Keeps the counters of all sockets for the next snapshot.
    #[must_use]
    pub fn keep_counters(mut self) -> Self {
        let earlier = self.earlier.map(|(baseline, _)| &baseline.samples);
        self.samples = Some(CounterSamples::with_space_of(earlier));
        self
    }

    /// Adds the vitals of a network namespace.
    pub fn namespace(&mut self, vitals: Vitals) {
        self.seen.namespaces += 1;
        self.seen.devices += vitals.devices.len() as u64;
        self.ports.add_namespace(&vitals);
        let before = self
            .earlier
            .and_then(|(baseline, _)| baseline.namespaces.get(&vitals.netns));
        self.egress.add_namespace(&vitals, before, self.limits);
        let elapsed = self.earlier.map(|(_, elapsed)| elapsed);
        self.own_queues
            .add_namespace(&vitals, before, elapsed, self.limits);
        self.tcp_losses.add_namespace(&vitals, before);
        self.namespaces.push(vitals);
    }

    /// Sets the vitals of the host.
    pub fn host(&mut self, host: HostVitals) {
        self.host = host;
    }

    /// Sets what was dropped since the earlier snapshot, before sockets are added.
    pub fn drops(&mut self, victims: Vec<Victim>) {
        self.victims = Victims::new(victims);
    }

    /// Returns what was dropped, with the owners that the sockets gave. Findings that are made later do not have it.
    pub fn take_drops(&mut self) -> Vec<Victim> {
        std::mem::take(&mut self.victims).into_all()
    }

    /// Adds a socket.
    pub fn socket(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        self.seen.sockets += 1;
        self.victims.socket(entry);
        match socket.protocol {
            Protocol::Tcp => {
                self.suspects.socket(entry, self.limits);
                self.tcp(entry);
            }
            Protocol::Udp | Protocol::UdpLite => self.udp(entry),
            Protocol::UnixStream | Protocol::UnixSeqpacket => self.waiting.unix_listener(entry),
            _ => {}
        }
    }

    /// Returns the processes whose state would be evidence: something waits in queues that they should empty.
    #[must_use]
    pub fn owners_in_question(&self) -> BTreeSet<Pid> {
        self.waiting.owners().take(OWNERS_MAX).collect()
    }

    /// Adds the state of a process.
    pub fn owner_state(&mut self, pid: Pid, state: ProcessState) {
        self.waiting.set_state(pid, state);
    }

    /// Everything that is wrong, the worst first.
    #[must_use]
    pub fn findings(&mut self) -> Vec<Finding> {
        self.judge_silent();
        self.judge_at_floor();
        let limits = self.limits;
        let by_netns: HashMap<_, _> = self
            .namespaces
            .iter()
            .map(|vitals| (vitals.netns, vitals))
            .collect();
        let vitals_of = |netns| by_netns.get(&netns).copied();
        let mut found: Vec<Finding> = self.symptom_groups.findings(&vitals_of, &self.host).collect();
        let baseline = self.earlier.map(|(baseline, _)| baseline);
        let counted = |netns| {
            Some(Counted {
                now: vitals_of(netns)?,
                before: baseline.and_then(|baseline| baseline.namespaces.get(&netns)),
            })
        };
        found.extend(
            self.listeners
                .findings(limits, self.earlier.is_some(), self.queue_looks(), &counted),
        );
        let mut half_closed = HalfClosed::default();
        match (self.earlier, self.other_look) {
            // Of two looks the age at the later one counts: here it is this one. What it does not have has drained.
            (Some(_), Some((before, apart))) => {
                let apart_ms = u64::try_from(apart.as_millis()).unwrap_or(u64::MAX);
                for (key, sighting) in self.suspects.iter() {
                    half_closed.add(key, sighting, Some(true), 0, limits);
                }
                let gone = before
                    .iter()
                    .filter(|(key, sighting)| !self.suspects.has_unchanged(key, sighting, apart));
                for (key, sighting) in gone {
                    half_closed.add(key, sighting, Some(false), apart_ms, limits);
                }
            }
            (_, other) => {
                let later_ms = other.map_or(0, |(_, apart)| apart.as_millis());
                let later_ms = u64::try_from(later_ms).unwrap_or(u64::MAX);
                for (key, sighting, is_unchanged) in self.looks() {
                    half_closed.add(key, sighting, is_unchanged, later_ms, limits);
                }
            }
        }
        found.extend(half_closed.findings(limits, self.other_look.is_some()));
        found.extend(self.send_faults.findings(&vitals_of));
        let owner_of = |local: &Endpoint, netns| self.listeners.owner_at(local, netns);
        let earlier_drops = self.earlier.map(|(baseline, _)| &baseline.firewall_drops);
        // Packets that came in, and were dropped before any protocol of this host saw them.
        let is_deaf = |netns| {
            let counted: Option<Counted<'_>> = counted(netns);
            counted
                .filter(|counted| counted.before.is_some())
                .is_some_and(|counted| {
                    let of = |counter| counted.since(counter).unwrap_or(0);
                    let seen = of(Counter::IpInDelivers).saturating_add(of(Counter::IpForwDatagrams));
                    of(Counter::IpInReceives) > seen && of(Counter::TcpPassiveOpens) == 0
                })
        };
        self.firewalls.judge(earlier_drops, &owner_of, &is_deaf);
        let dropping: BTreeSet<_> = self
            .namespaces
            .iter()
            .map(|vitals| vitals.netns)
            .filter(|netns| self.drops_output(*netns))
            .collect();
        self.firewalls.judge_datagrams(&|netns| dropping.contains(&netns));
        found.extend(self.firewalls.findings());
        found.extend(self.ports.findings(limits));
        found.extend(self.waiting.findings());
        if let Some((baseline, elapsed)) = self.earlier {
            let counters = |netns| Some((vitals_of(netns)?, baseline.namespaces.get(&netns)?));
            let servers = &baseline.name_servers;
            found.extend(self.resolvers.findings(servers, elapsed, &counters));
            found.extend(self.connection_growth.findings(&baseline.connections, limits));
        }
        let mut dead_devices: HashSet<_> = self.send_faults.devices().collect();
        for vitals in &self.namespaces {
            dead_devices.extend(device::stacked_with(vitals, &dead_devices));
        }
        let mut reported: HashMap<Option<NetnsInode>, BTreeSet<Rule>> = HashMap::new();
        for finding in &found {
            reported.entry(finding.netns).or_default().insert(finding.rule);
        }
        let elapsed = self.earlier.map(|(_, elapsed)| elapsed);
        for vitals in &self.namespaces {
            let before = baseline.and_then(|baseline| baseline.namespaces.get(&vitals.netns));
            let begin = found.len();
            found.extend(namespace::findings(vitals, limits));
            let has_lost_loopback =
                |device: &Device| device.is_loopback && dead_devices.contains(&(vitals.netns, device.index));
            if self.listeners.are_in(vitals.netns) && !vitals.devices.iter().any(has_lost_loopback) {
                found.extend(namespace::loopback(vitals));
            }
            let is_explained = |index| dead_devices.contains(&(vitals.netns, index));
            found.extend(device::findings(
                vitals,
                before,
                &self.egress,
                &self.own_queues,
                &is_explained,
                elapsed,
                limits,
            ));
            // Another rule may already report the same event with more detail.
            let reported = reported.entry(vitals.netns).or_default();
            // Drops in the receive direction do not explain faults of the send direction.
            let explains = |finding: &&Finding| {
                finding.rule != Rule::DeviceDrops || finding.facts.value("tx_dropped") != Some(0)
            };
            reported.extend(found[begin..].iter().filter(explains).map(|finding| finding.rule));
            let counters = counter::findings(vitals, before, elapsed, reported, limits);
            let drops = self.firewalls.drops_of_output(vitals.netns);
            found.extend(
                counters
                    .into_iter()
                    .map(|finding| firewall::explain_counter(finding, &drops)),
            );
        }
        let before = baseline.map(|baseline| &baseline.host);
        found.extend(host::findings(&self.host, before, &self.namespaces, limits));
        for finding in &mut found {
            if let Some(owner) = finding.owner {
                finding.owner_connections = self.owned.get(&owner.pid).copied().unwrap_or(0);
            }
            let may_be_dropped = matches!(
                finding.rule,
                Rule::CannotSend | Rule::PeerSilent | Rule::SendStuck | Rule::ConnectUnanswered
            );
            if may_be_dropped && self.firewalls_unreadable.contains(&finding.netns) {
                finding.remedies.push(Remedy::Advice(FIREWALL_UNREADABLE));
            }
        }
        let mut found = merge::namespaces(found);
        self.forget_unrefused();
        self.victims.add_to(&mut found);
        found.sort_by_cached_key(order);
        found
    }

    /// Forgets clients that listeners were about to turn away, where the kernel has counted none: a SYN that comes again for a queued request is
    /// answered.
    fn forget_unrefused(&mut self) {
        let mut victims = std::mem::take(&mut self.victims);
        victims.forget_refused(|netns| {
            let now = match netns {
                Some(_) => self.namespaces.iter().find(|vitals| vitals.netns == netns),
                // Of one alone the drops do not name it.
                None => self.namespaces.first(),
            };
            let counted = now.and_then(|now| {
                let (before, _) = self.earlier?;
                let before = before.namespaces.get(&now.netns)?;
                let both = [&now.counters, &before.counters].map(|all| all.value(Counter::ListenDrops));
                Some((both[0]?, both[1]?))
            });
            counted.is_some_and(|(now, before)| now == before)
        });
        self.victims = victims;
    }

    /// Whether a table of neighbours may be nearly full, but which of its entries count is not known.
    #[must_use]
    pub fn has_unclear_neighbours(&self) -> bool {
        host::has_unclear_neighbours(&self.host, &self.namespaces, self.limits)
    }

    /// How much was examined.
    #[must_use]
    pub const fn seen(&self) -> Coverage {
        Coverage {
            left_out: self.symptom_groups.left_out
                + self.ports.left_out
                + self.suspects.left_out
                + self.seen.left_out,
            ..self.seen
        }
    }

    /// The part that the next snapshot is compared with.
    #[must_use]
    pub fn into_baseline(self) -> Baseline {
        let firewall_drops = match self.samples {
            Some(_) => self.firewalls.drops(),
            None => EarlierDrops::default(),
        };
        Baseline {
            samples: self.samples.unwrap_or_default().sorted(),
            namespaces: self
                .namespaces
                .into_iter()
                .map(|vitals| (vitals.netns, vitals))
                .collect(),
            host: self.host,
            suspects: self.suspects,
            connections: self.connection_growth.into_counts(),
            name_servers: self.resolvers.into_servers(),
            firewall_drops,
            unanswered: self.send_faults.unanswered().collect(),
            unix_queues: self.waiting.into_firsts(),
        }
    }

    /// The suspicious sockets, each with whether the other look saw it unchanged.
    fn looks(&self) -> impl Iterator<Item = (&SocketKey, &Sighting, Option<bool>)> {
        let other = self.other_look;
        self.suspects.iter().map(move |(key, sighting)| {
            let is_unchanged = other.map(|(other, apart)| other.has_unchanged(key, sighting, apart));
            (key, sighting, is_unchanged)
        })
    }

    /// The suspicious sockets of both looks.
    fn queue_looks(&self) -> impl Iterator<Item = QueueLook<'_>> {
        let is_later = self.earlier.is_some();
        let present = self.looks().map(move |(key, sighting, is_unchanged)| QueueLook {
            key,
            sighting,
            presence: match is_unchanged {
                None => Presence::Once,
                Some(true) => Presence::Both,
                Some(false) if is_later => Presence::New,
                Some(false) => Presence::Gone,
            },
            age_ms: sighting.age_ms,
        });
        let before = self.other_look.filter(|_| is_later);
        let gone = before.into_iter().flat_map(move |(before, apart)| {
            let apart_ms = u64::try_from(apart.as_millis()).unwrap_or(u64::MAX);
            let gone = before
                .iter()
                .filter(move |(key, sighting)| !self.suspects.has_unchanged(key, sighting, apart));
            gone.map(move |(key, sighting)| QueueLook {
                key,
                sighting,
                presence: Presence::Gone,
                age_ms: sighting.age_ms.saturating_add(apart_ms),
            })
        });
        present.chain(gone)
    }

    fn judge_at_floor(&mut self) {
        for (socket, owner, symptom) in std::mem::take(&mut self.at_floor) {
            let key = SocketKey::of(&socket);
            // BBR goes down to the floor for a moment every ten seconds, to measure the round trip: only two looks
            // show that the window stays there.
            let stays = self.looks_unchanged(&key);
            if stays && !self.own_queues.explains(&socket, symptom.rule) {
                let entry = Entry::with_owners(&socket, Some(owner.as_slice()));
                self.symptom_groups.add(&entry, &symptom);
            }
        }
    }

    fn looks_unchanged(&self, key: &SocketKey) -> bool {
        let sighting = self.suspects.of(key);
        let both = self.other_look.zip(sighting);
        both.is_some_and(|((other, apart), sighting)| other.has_unchanged(key, sighting, apart))
    }

    fn tcp(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        match socket.state {
            State::Listen => self.listener(entry),
            State::SynRecv | State::NewSynRecv => {
                self.listeners.half_open(socket);
                self.firewalls.half_open(socket);
            }
            State::TimeWait => self.ports.count(entry),
            _ => {
                self.ports.count(entry);
                self.connection(entry);
            }
        }
    }

    fn listener(&mut self, entry: &Entry<'_>) {
        let drops = self.change(entry.socket).drops;
        self.listeners.add(entry, drops);
        self.firewalls.listener(entry);
    }

    fn connection(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        let Some(info) = &socket.tcp_info else {
            // The kernel keeps little more than the addresses of a FIN_WAIT2 socket without an owner.
            let is_short = match self.is_recorded {
                // Timers are not recorded.
                true => socket.state == State::FinWait2 && socket.inode.is_none(),
                false => socket
                    .timer
                    .is_some_and(|timer| timer.kind == TimerKind::TimeWait),
            };
            self.seen.without_info += u64::from(!is_short);
            return;
        };
        // procfs has only a part of it, without the times.
        if info.last_data_sent_ms.is_none() && info.last_ack_recv_ms.is_none() {
            self.seen.without_info += 1;
        }
        let (counters, earlier) = (SocketCounters::of(socket), self.earlier_sample(socket));
        if self.samples.is_some() {
            self.connection_growth
                .add(entry, &counters, earlier.as_ref(), self.limits);
        }
        if let Some(owner) = entry.owners.and_then(|owners| owners.first()) {
            *self.owned.entry(owner.process.pid).or_default() += 1;
        }
        self.keep(socket, &counters);
        let change = counters.since(&earlier.unwrap_or_default());
        self.recent_peers.record(socket);
        self.egress.record(socket, info);
        // Connections with unacknowledged data are judged when all other connections of the peer are known.
        let is_unanswered = |timer: Timer| match timer.kind {
            TimerKind::Retransmission | TimerKind::Keepalive => timer.retransmits > 0,
            TimerKind::ZeroWindowProbe => true,
            _ => false,
        };
        let is_unacknowledged =
            !self.is_recorded && socket.state == State::SynSent || socket.timer.is_some_and(is_unanswered);
        if is_unacknowledged && self.silent.len() < SILENT_MAX {
            let owner = entry.owners.and_then(|owners| owners.first()).copied();
            self.silent.push((socket.clone(), owner));
        } else if let Some(symptom) = self.judge(socket, info, change) {
            if symptom.rule == Rule::CwndFloor {
                if self.at_floor.len() < SILENT_MAX {
                    let owner = entry.owners.and_then(|owners| owners.first()).copied();
                    self.at_floor.push((socket.clone(), owner, symptom));
                }
            } else if !self.own_queues.explains(socket, symptom.rule) {
                self.symptom_groups.add(entry, &symptom);
            }
        } else if is_window_full(socket, info, self.limits)
            && self.at_floor.len() < SILENT_MAX
            && change.busy_us / 1000
                >= self
                    .check_of(socket, info, change)
                    .busy_for(Limit::ReceiverLimitedBusy)
        {
            // The share of time that the window was the limit misses much with BBR, which paces within the window.
            let symptom = Symptom::new(Rule::ReceiverLimited, 0)
                .fact("delivery_rate_bytes_per_s", info.delivery_rate_bytes_per_s)
                .fact("snd_wnd_bytes", info.snd_wnd_bytes)
                .fact("notsent_bytes", info.notsent_bytes)
                .fact("rtt_us", info.rtt_us);
            let owner = entry.owners.and_then(|owners| owners.first()).copied();
            self.at_floor.push((socket.clone(), owner, symptom));
        }
        if socket.inode.is_none() && matches!(socket.state, State::Established | State::CloseWait) {
            self.listeners.not_accepted(socket);
        }
        let unread = unread(socket, self.limits);
        if unread.is_some() && self.unread.len() < PEERS_MAX {
            self.unread.insert((socket.peer, socket.local));
        }
        let losses = self.tcp_losses.of(socket.netns);
        let dropped = dropped(socket, &change, self.earlier.is_some(), losses, self.limits);
        for symptom in [unread, dropped].iter().flatten() {
            self.symptom_groups.add(entry, symptom);
        }
    }

    /// Returns what stalls or slows down a connection.
    fn judge(&self, socket: &Socket, info: &TcpInfo, change: SocketCounters) -> Option<Symptom> {
        let check = self.check_of(socket, info, change);
        let symptom = if self.is_recorded {
            check.slowness_by_record()?
        } else {
            check.stall().or_else(|| check.slowness())?
        };
        Some(self.egress.explain(socket, symptom))
    }

    fn check_of<'b>(
        &'b self,
        socket: &'b Socket,
        info: &'b TcpInfo,
        change: SocketCounters,
    ) -> ConnectionCheck<'b> {
        ConnectionCheck {
            socket,
            info,
            limits: self.limits,
            change,
            elapsed_us: self
                .earlier
                .and_then(|(_, elapsed)| u64::try_from(elapsed.as_micros()).ok()),
            recent_peers: &self.recent_peers,
        }
    }

    fn udp(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        self.ports.count(entry);
        let change = self.change(socket);
        let dropped = || dropped(socket, &change, self.earlier.is_some(), None, self.limits);
        if let Some(symptom) = udp_unread(socket, change.drops, self.limits).or_else(dropped) {
            self.symptom_groups.add(entry, &symptom);
        } else {
            self.waiting.datagrams(entry);
        }
        self.resolvers.add(entry);
        self.firewalls.datagrams(entry);
    }

    /// Returns the change of the socket's counters since the earlier snapshot, or over its whole life if that has no
    /// sample of it; keeps a sample for the next snapshot.
    fn change(&mut self, socket: &Socket) -> SocketCounters {
        let counters = SocketCounters::of(socket);
        self.keep(socket, &counters);
        counters.since(&self.earlier_sample(socket).unwrap_or_default())
    }

    /// Keeps the counters of a socket for the next snapshot.
    fn keep(&mut self, socket: &Socket, counters: &SocketCounters) {
        if let (Some(samples), Some(inode)) = (&mut self.samples, socket.inode)
            && samples.len() < SAMPLES_MAX
        {
            samples.add(inode, counters);
        }
    }

    fn change_since_earlier(&self, socket: &Socket) -> SocketCounters {
        SocketCounters::of(socket).since(&self.earlier_sample(socket).unwrap_or_default())
    }

    fn earlier_sample(&self, socket: &Socket) -> Option<SocketCounters> {
        let (baseline, _) = self.earlier?;
        baseline.samples.of(socket.inode?)
    }
}

/// Sorts by severity, then by the number of sockets. The remaining keys only make the order stable.
fn order(finding: &Finding) -> impl Ord + use<> {
    let facts = finding.facts.iter().map(|fact| Reverse(fact.value));
    (
        Reverse(finding.severity),
        finding.rule,
        Reverse(finding.sockets),
        finding.netns,
        finding.owner,
        facts.collect::<Vec<_>>(),
    )
}

const FIREWALL_UNREADABLE: &str =
    "the firewall rules of this host could not be read (CAP_NET_ADMIN): one of them may drop these packets";
/// Connections that are judged at the end; further ones are judged at once, by what is known until then.
const SILENT_MAX: usize = 10_000;
/// Processes whose state is read.
const OWNERS_MAX: usize = 200;
/// Sockets that are kept for the next snapshot; of further ones it judges the whole life.
const SAMPLES_MAX: usize = 2_000_000;
