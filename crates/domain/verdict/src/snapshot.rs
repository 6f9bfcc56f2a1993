//! A snapshot of a host: takes vitals and a stream of sockets.

use crate::connection::{ConnectionCheck, Symptom, permille};
use crate::counter_sample::{CounterDelta, CounterSample};
use crate::egress::EgressDevices;
use crate::finding::Subject;
use crate::listener::Listeners;
use crate::ports::Ports;
use crate::symptom_groups::SymptomGroups;
use crate::{Finding, Limit, Limits, Rule, judge};
use foldhash::fast::FixedState;
use sockeye_model::{
    Endpoint, Entry, HostVitals, Inode, NetnsInode, Owner, Protocol, Queues, Socket, State, TimerKind, Vitals,
};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

/// The state of a host at one moment.
///
/// Add namespaces before their sockets: ports and addresses are judged by them. Of sockets without faults
/// only counters for a later snapshot are kept, and only after [`keep_counters`](Self::keep_counters).
#[derive(Debug)]
pub struct Snapshot<'a> {
    limits: &'a Limits,
    earlier: Option<(&'a Baseline, Duration)>,
    pub(crate) namespaces: Vec<Vitals>,
    pub(crate) host: HostVitals,
    pub(crate) symptom_groups: SymptomGroups,
    pub(crate) listeners: Listeners,
    pub(crate) ports: Ports,
    pub(crate) egress: EgressDevices,
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
    pub(crate) namespaces: HashMap<Option<NetnsInode>, Vitals>,
    pub(crate) host: HostVitals,
}

type CounterSamples = HashMap<Inode, CounterSample, FixedState>;

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
            .and_then(|(memory, _)| memory.namespaces.get(&vitals.netns));
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
        judge::findings(self, self.limits)
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

    /// The earlier snapshot, and the time since then.
    pub(crate) const fn earlier(&self) -> Option<(&'a Baseline, Duration)> {
        self.earlier
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
        let check = ConnectionCheck {
            socket,
            info,
            limits: self.limits,
            change,
            recent_peers: &self.recent_peers,
        };
        // Connections with unacknowledged data are judged when all other connections of the peer are known.
        let is_unacknowledged = socket.timer.is_some_and(|timer| match timer.kind {
            TimerKind::Retransmission => timer.retransmits > 1,
            TimerKind::ZeroWindowProbe => true,
            _ => false,
        });
        if is_unacknowledged && self.silent.len() < SILENT_MAX {
            let owner = entry.owners.and_then(|owners| owners.first()).copied();
            self.silent.push((socket.clone(), owner));
        } else if let Some(symptom) = check.stall().or_else(|| check.slowness()) {
            let symptom = self.egress.explain(socket, symptom);
            self.symptom_groups.add(entry, Subject::Sockets, &symptom);
        }
        let unread = unread(socket, self.limits);
        if unread.is_some() && self.unread.len() < PEERS_MAX {
            self.unread.insert((socket.peer, socket.local));
        }
        for symptom in [
            closing(socket, self.limits),
            unread,
            dropped(socket, &change, self.limits),
        ]
        .into_iter()
        .flatten()
        {
            self.symptom_groups.add(entry, Subject::Sockets, &symptom);
        }
    }

    fn judge_silent(&mut self) {
        for (socket, owner) in std::mem::take(&mut self.silent) {
            let Some(info) = &socket.tcp_info else { continue };
            let check = ConnectionCheck {
                socket: &socket,
                info,
                limits: self.limits,
                change: self.change_since_earlier(&socket),
                recent_peers: &self.recent_peers,
            };
            let Some(symptom) = check.stall().or_else(|| check.slowness()) else {
                continue;
            };
            let symptom = self.egress.explain(&socket, symptom);
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
                self.symptom_groups.add(&entry, Subject::Sockets, &symptom);
            }
        }
    }

    fn udp(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        self.ports.count(socket);
        let change = self.change(socket);
        if let Some(symptom) =
            udp_unread(socket, self.limits).or_else(|| dropped(socket, &change, self.limits))
        {
            self.symptom_groups.add(entry, Subject::Sockets, &symptom);
        }
    }

    /// CounterDelta of the socket's counters since the earlier snapshot, or over its whole life if that has no
    /// sample of it.
    fn change(&mut self, socket: &Socket) -> CounterDelta {
        let change = self.change_since_earlier(socket);
        if let (Some(samples), Some(inode)) = (&mut self.samples, socket.inode)
            && samples.len() < SAMPLES_MAX
        {
            samples.insert(inode, CounterSample::of(socket));
        }
        change
    }

    fn change_since_earlier(&self, socket: &Socket) -> CounterDelta {
        let now = CounterSample::of(socket);
        match self.earlier {
            None => now.since(&CounterSample::default(), None),
            Some((memory, elapsed)) => {
                let before = socket.inode.and_then(|inode| memory.samples.get(&inode));
                let elapsed_us = u64::try_from(elapsed.as_micros()).ok();
                now.since(&before.copied().unwrap_or_default(), elapsed_us)
            }
        }
    }
}

/// Milliseconds since something was received from each peer, on any of its connections.
#[derive(Debug, Default)]
pub(crate) struct RecentPeers(HashMap<(Option<NetnsInode>, IpAddr), u32, FixedState>);

impl RecentPeers {
    fn record(&mut self, socket: &Socket) {
        let Some(info) = &socket.tcp_info else { return };
        let silent_ms = [info.last_ack_recv_ms, info.last_data_recv_ms]
            .into_iter()
            .flatten()
            .min();
        if let (Some(ip), Some(silent_ms)) = (socket.peer.ip(), silent_ms)
            && socket.state != State::SynSent
            && silent_ms < SILENCE_MAX_MS
            && self.0.len() < PEERS_MAX
        {
            let least = self.0.entry((socket.netns, ip)).or_insert(silent_ms);
            *least = silent_ms.min(*least);
        }
    }

    /// Whether something was received from the peer of this socket less than `since_ms` ago.
    pub(crate) fn within(&self, socket: &Socket, since_ms: u64) -> bool {
        let silent_ms = socket.peer.ip().and_then(|ip| self.0.get(&(socket.netns, ip)));
        silent_ms.is_some_and(|ms| u64::from(*ms) < since_ms)
    }
}

/// CLOSE_WAIT or FIN_WAIT2: one of the two ends is closed, the other is not.
fn closing(socket: &Socket, limits: &Limits) -> Option<Symptom> {
    let info = socket.tcp_info.as_ref()?;
    // Time since the FIN or its acknowledgement: nothing follows it.
    let age = u64::from(info.last_ack_recv_ms?);
    let (rule, least, oldest) = match socket.state {
        State::CloseWait => (Rule::CloseWait, CLOSE_WAIT_SETTLED_MS, Limit::CloseWaitAge),
        // Without a process the kernel itself ends it, after net.ipv4.tcp_fin_timeout.
        State::FinWait2 if socket.inode.is_some() => {
            (Rule::FinWait2, FIN_WAIT2_SETTLED_MS, Limit::FinWait2Age)
        }
        _ => return None,
    };
    // Whether they are old or many enough is known at the end; until then skip those in regular transition.
    (age >= least.min(limits.of(oldest))).then(|| {
        Symptom::new(
            rule,
            age,
            &[
                ("age_ms", Some(age)),
                ("recvq_bytes", receive_queue(socket).filter(|bytes| *bytes > 0)),
            ],
        )
    })
}

fn unread(socket: &Socket, limits: &Limits) -> Option<Symptom> {
    let waiting = receive_queue(socket).filter(|bytes| *bytes >= limits.of(Limit::UnreadBytes).max(1))?;
    // A closed socket has no program that could read.
    socket.inode?;
    let since = u64::from(socket.tcp_info.as_ref()?.last_data_recv_ms?);
    let applies = since >= limits.of(Limit::UnreadFor) && socket.state != State::CloseWait;
    applies.then(|| {
        Symptom::new(
            Rule::Unread,
            waiting,
            &[
                ("recvq_bytes", Some(waiting)),
                ("waiting_ms", Some(since)),
                (
                    "rcv_wnd_bytes",
                    socket
                        .tcp_info
                        .as_ref()
                        .and_then(|info| info.rcv_wnd_bytes)
                        .map(u64::from),
                ),
            ],
        )
    })
}

fn dropped(socket: &Socket, change: &CounterDelta, limits: &Limits) -> Option<Symptom> {
    let is_tcp = socket.protocol == Protocol::Tcp;
    // TCP counts answered probes as drops, of keepalive or of a closed window. Segments without data may have
    // been such probes.
    let data = u64::from(change.received_data_segs);
    let without_data = change.received_segs.saturating_sub(change.received_data_segs);
    let drops = u64::from(change.drops).saturating_sub(if is_tcp { without_data.into() } else { 0 });
    // Between two samples one drop is enough; but TCP also drops duplicates, which is no loss.
    let least = if change.elapsed_us.is_some() && !is_tcp {
        1
    } else {
        limits.of(Limit::SocketDropsCount)
    };
    let enough = !is_tcp || permille(drops, data.max(drops)) >= limits.of(Limit::SocketDropsShare);
    (drops > 0 && drops >= least && enough).then(|| {
        Symptom::new(
            Rule::SocketDrops,
            drops,
            &[
                ("drops", Some(drops)),
                ("received_data_segs", Some(data).filter(|_| is_tcp)),
                ("recvq_bytes", receive_queue(socket)),
                (
                    "rcvbuf_bytes",
                    socket
                        .memory
                        .and_then(|memory| memory.rcvbuf_bytes)
                        .map(u64::from),
                ),
            ],
        )
    })
}

fn udp_unread(socket: &Socket, limits: &Limits) -> Option<Symptom> {
    let memory = socket.memory?;
    let (taken, room) = (
        u64::from(memory.rmem_alloc_bytes?),
        u64::from(memory.rcvbuf_bytes?),
    );
    let share = permille(taken, room);
    let applies = taken > 0 && share >= limits.of(Limit::UdpUnreadShare);
    applies.then(|| {
        Symptom::new(
            Rule::UdpUnread,
            share,
            &[
                ("share_permille", Some(share)),
                ("recvq_bytes", Some(taken)),
                ("rcvbuf_bytes", Some(room)),
                ("drops", memory.drops.map(u64::from)),
            ],
        )
    })
}

fn receive_queue(socket: &Socket) -> Option<u64> {
    match socket.queues {
        Queues::Data { receive_bytes, .. } => Some(receive_bytes.into()),
        Queues::Accept { .. } | Queues::Unknown => None,
    }
}

/// Younger ones are in regular transition.
const CLOSE_WAIT_SETTLED_MS: u64 = 1_000;
const FIN_WAIT2_SETTLED_MS: u64 = 5_000;
/// A peer that was silent for so long is no proof that the path is open.
const SILENCE_MAX_MS: u32 = 300_000;
/// Peers that are kept.
const PEERS_MAX: usize = 1 << 17;
/// Connections that are judged at the end; further ones are judged at once, by what is known until then.
const SILENT_MAX: usize = 10_000;
/// Sockets that are kept for the next snapshot; of further ones it judges the whole life.
const SAMPLES_MAX: usize = 2_000_000;
