//! A snapshot of a host: takes vitals and a stream of sockets, and returns what is wrong.

use crate::connection::ConnectionCheck;
use crate::egress::EgressDevices;
use crate::listener::Listeners;
use crate::ports::Ports;
use crate::recent_peers::{PEERS_MAX, RecentPeers};
use crate::socket::{closing, dropped, udp_unread, unread};
use crate::socket_counters::SocketCounters;
use crate::symptom::Symptom;
use crate::symptom_groups::SymptomGroups;
use crate::{Finding, Limits, Rule, counter, device, host, namespace};
use foldhash::fast::FixedState;
use sockeye_model::{
    Endpoint, Entry, HostVitals, Inode, NetnsInode, Owner, Protocol, Socket, State, TcpInfo, TimerKind,
    Vitals,
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
    /// Connections with unacknowledged data: judged when all peers are known.
    silent: Vec<(Socket, Option<Owner>)>,
    recent_peers: RecentPeers,
    /// Both ends of connections that are not read, as the peer's socket has them.
    unread: HashSet<(Endpoint, Endpoint), FixedState>,
    samples: Option<CounterSamples>,
    seen: Coverage,
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
}

type CounterSamples = HashMap<Inode, SocketCounters, FixedState>;

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
            silent: Vec::new(),
            recent_peers: RecentPeers::default(),
            unread: HashSet::default(),
            samples: None,
            seen: Coverage::default(),
        }
    }

    /// Compares with an earlier snapshot, taken `elapsed` ago.
    #[must_use]
    pub const fn after(mut self, earlier: &'a Baseline, elapsed: Duration) -> Self {
        self.earlier = Some((earlier, elapsed));
        self
    }

    /// Keeps the counters of all sockets for the next snapshot.
    #[must_use]
    pub fn keep_counters(mut self) -> Self {
        self.samples = Some(CounterSamples::default());
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
        self.namespaces.push(vitals);
    }

    /// Sets the vitals of the host.
    pub fn host(&mut self, host: HostVitals) {
        self.host = host;
    }

    /// Adds a socket.
    pub fn socket(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        self.seen.sockets += 1;
        match socket.protocol {
            Protocol::Tcp => self.tcp(entry),
            Protocol::Udp | Protocol::UdpLite => self.udp(entry),
            _ => {}
        }
    }

    /// Everything that is wrong, the worst first.
    #[must_use]
    pub fn findings(&mut self) -> Vec<Finding> {
        self.judge_silent();
        let limits = self.limits;
        let by_netns: HashMap<_, _> = self
            .namespaces
            .iter()
            .map(|vitals| (vitals.netns, vitals))
            .collect();
        let vitals_of = |netns| by_netns.get(&netns).copied();
        let mut found: Vec<Finding> = self
            .symptom_groups
            .findings(limits, &vitals_of, &self.host)
            .collect();
        found.extend(
            self.listeners
                .findings(limits, self.earlier.is_some(), &vitals_of),
        );
        found.extend(self.ports.findings(limits));
        let mut reported: HashMap<Option<NetnsInode>, BTreeSet<Rule>> = HashMap::new();
        for finding in &found {
            reported.entry(finding.netns).or_default().insert(finding.rule);
        }
        let baseline = self.earlier.map(|(baseline, _)| baseline);
        for vitals in &self.namespaces {
            let before = baseline.and_then(|baseline| baseline.namespaces.get(&vitals.netns));
            let begin = found.len();
            found.extend(namespace::findings(vitals, limits));
            found.extend(device::findings(vitals, before, &self.egress, limits));
            // Another rule may already report the same event with more detail.
            let reported = reported.entry(vitals.netns).or_default();
            // Drops in the receive direction do not explain faults of the send direction.
            let explains = |finding: &&Finding| {
                finding.rule != Rule::DeviceDrops || finding.facts.value("tx_dropped") != Some(0)
            };
            reported.extend(found[begin..].iter().filter(explains).map(|finding| finding.rule));
            found.extend(counter::findings(vitals, before, reported, limits));
        }
        let before = baseline.map(|baseline| &baseline.host);
        found.extend(host::findings(&self.host, before, &self.namespaces, limits));
        found.sort_by_cached_key(order);
        found
    }

    /// How much was examined.
    #[must_use]
    pub const fn seen(&self) -> Coverage {
        Coverage {
            left_out: self.symptom_groups.left_out + self.ports.left_out + self.seen.left_out,
            ..self.seen
        }
    }

    /// The part that the next snapshot is compared with.
    #[must_use]
    pub fn into_baseline(self) -> Baseline {
        Baseline {
            samples: self.samples.unwrap_or_default(),
            namespaces: self
                .namespaces
                .into_iter()
                .map(|vitals| (vitals.netns, vitals))
                .collect(),
            host: self.host,
        }
    }

    fn tcp(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        match socket.state {
            State::Listen => self.listener(entry),
            State::SynRecv | State::NewSynRecv => self.listeners.half_open(socket),
            State::TimeWait => self.ports.count(socket),
            _ => {
                self.ports.count(socket);
                self.connection(entry);
            }
        }
    }

    fn listener(&mut self, entry: &Entry<'_>) {
        let drops = self.change(entry.socket).drops;
        self.listeners.add(entry, drops);
    }

    fn connection(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        let Some(info) = &socket.tcp_info else {
            // The kernel keeps little more than the addresses of a FIN_WAIT2 socket without an owner.
            let is_short = socket
                .timer
                .is_some_and(|timer| timer.kind == TimerKind::TimeWait);
            self.seen.without_info += u64::from(!is_short);
            return;
        };
        let change = self.change(socket);
        self.recent_peers.record(socket);
        self.egress.record(socket, info);
        // Connections with unacknowledged data are judged when all other connections of the peer are known.
        let is_unacknowledged = socket.timer.is_some_and(|timer| match timer.kind {
            TimerKind::Retransmission => timer.retransmits > 1,
            TimerKind::ZeroWindowProbe => true,
            _ => false,
        });
        if is_unacknowledged && self.silent.len() < SILENT_MAX {
            let owner = entry.owners.and_then(|owners| owners.first()).copied();
            self.silent.push((socket.clone(), owner));
        } else if let Some(symptom) = self.judge(socket, info, change) {
            self.symptom_groups.add(entry, &symptom);
        }
        let unread = unread(socket, self.limits);
        if unread.is_some() && self.unread.len() < PEERS_MAX {
            self.unread.insert((socket.peer, socket.local));
        }
        let dropped = dropped(socket, &change, self.earlier.is_some(), self.limits);
        for symptom in [closing(socket, self.limits), unread, dropped].iter().flatten() {
            self.symptom_groups.add(entry, symptom);
        }
    }

    /// Returns what stalls or slows down a connection.
    fn judge(&self, socket: &Socket, info: &TcpInfo, change: SocketCounters) -> Option<Symptom> {
        let check = ConnectionCheck {
            socket,
            info,
            limits: self.limits,
            change,
            elapsed_us: self
                .earlier
                .and_then(|(_, elapsed)| u64::try_from(elapsed.as_micros()).ok()),
            recent_peers: &self.recent_peers,
        };
        let symptom = check.stall().or_else(|| check.slowness())?;
        Some(self.egress.explain(socket, symptom))
    }

    fn judge_silent(&mut self) {
        for (socket, owner) in std::mem::take(&mut self.silent) {
            let Some(info) = &socket.tcp_info else { continue };
            let Some(symptom) = self.judge(&socket, info, self.change_since_earlier(&socket)) else {
                continue;
            };
            // For a fault on this host its cause is reported, not the effect on the other end.
            let is_reported = match symptom.rule {
                Rule::ZeroWindow => self.unread.contains(&(socket.local, socket.peer)),
                Rule::ConnectUnanswered => self.listeners.is_full_at(&socket.peer),
                _ => false,
            };
            if !is_reported {
                let entry = Entry {
                    socket: &socket,
                    owners: Some(owner.as_slice()),
                };
                self.symptom_groups.add(&entry, &symptom);
            }
        }
    }

    fn udp(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        self.ports.count(socket);
        let change = self.change(socket);
        let dropped = || dropped(socket, &change, self.earlier.is_some(), self.limits);
        if let Some(symptom) = udp_unread(socket, self.limits).or_else(dropped) {
            self.symptom_groups.add(entry, &symptom);
        }
    }

    /// Returns the change of the socket's counters since the earlier snapshot, or over its whole life if that has no
    /// sample of it; keeps a sample for the next snapshot.
    fn change(&mut self, socket: &Socket) -> SocketCounters {
        let change = self.change_since_earlier(socket);
        if let (Some(samples), Some(inode)) = (&mut self.samples, socket.inode)
            && samples.len() < SAMPLES_MAX
        {
            samples.insert(inode, SocketCounters::of(socket));
        }
        change
    }

    fn change_since_earlier(&self, socket: &Socket) -> SocketCounters {
        let before = self
            .earlier
            .and_then(|(baseline, _)| baseline.samples.get(&socket.inode?));
        SocketCounters::of(socket).since(&before.copied().unwrap_or_default())
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

/// Connections that are judged at the end; further ones are judged at once, by what is known until then.
const SILENT_MAX: usize = 10_000;
/// Sockets that are kept for the next snapshot; of further ones it judges the whole life.
const SAMPLES_MAX: usize = 2_000_000;
