//! What was seen of a host at one moment: sockets as they stream by, and its vitals.

use crate::connection::{Patient, Symptom, permille};
use crate::course::{Change, Course};
use crate::finding::Subject;
use crate::listener::Listeners;
use crate::ports::Ports;
use crate::suspects::Suspects;
use crate::transit::Transit;
use crate::{Finding, Limit, Limits, Rule, judge};
use foldhash::fast::FixedState;
use sockeye_model::{
    Endpoint, Entry, HostVitals, Inode, NetnsInode, Owner, Protocol, Queues, Socket, State, TimerKind, Vitals,
};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

/// A host at one moment.
///
/// Namespaces have to come before their sockets, whose ports and addresses are judged by them. Of sockets that are well
/// nothing is kept but what a later snapshot needs to see what they did in between, and that only if it was asked for.
#[derive(Debug)]
pub struct Snapshot<'a> {
    limits: &'a Limits,
    earlier: Option<(&'a Memory, Duration)>,
    pub(crate) namespaces: Vec<Vitals>,
    pub(crate) host: HostVitals,
    pub(crate) suspects: Suspects,
    pub(crate) listeners: Listeners,
    pub(crate) ports: Ports,
    pub(crate) transit: Transit,
    /// Connections that get nothing through, until it is known what others say of their peer.
    silent: Vec<(Socket, Option<Owner>)>,
    alive: Alive,
    /// Both ends of connections whose owner does not read, as their peers have them.
    unread: HashSet<(Endpoint, Endpoint), FixedState>,
    courses: Option<Courses>,
    seen: Seen,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Sockets
    pub sockets: u64,
    /// Of these, TCP connections of which nothing but addresses and state is known: most rules cannot judge them
    pub without_info: u64,
    /// Network namespaces of which counters and devices are known
    pub namespaces: u64,
    /// Devices
    pub devices: u64,
    /// Sockets with something wrong that there was no room for
    pub left_out: u64,
}

/// What of a snapshot is needed to judge the next one.
#[derive(Debug, Default)]
pub struct Memory {
    courses: Courses,
    pub(crate) namespaces: HashMap<Option<NetnsInode>, Vitals>,
    pub(crate) host: HostVitals,
}

type Courses = HashMap<Inode, Course, FixedState>;

impl<'a> Snapshot<'a> {
    /// Of a host that nothing was known of before. What counters say is then of their whole life.
    #[must_use]
    pub fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            earlier: None,
            namespaces: Vec::new(),
            host: HostVitals::default(),
            suspects: Suspects::default(),
            listeners: Listeners::default(),
            ports: Ports::default(),
            transit: Transit::default(),
            silent: Vec::new(),
            alive: Alive::default(),
            unread: HashSet::default(),
            courses: None,
            seen: Seen::default(),
        }
    }

    /// Compares it with what was seen so long ago.
    #[must_use]
    pub const fn after(mut self, earlier: &'a Memory, elapsed: Duration) -> Self {
        self.earlier = Some((earlier, elapsed));
        self
    }

    /// Keeps what the next snapshot will be compared with.
    #[must_use]
    pub fn remembering(mut self) -> Self {
        self.courses = Some(Courses::default());
        self
    }

    /// What a namespace told.
    pub fn namespace(&mut self, vitals: Vitals) {
        self.seen.namespaces += 1;
        self.seen.devices += vitals.devices.len() as u64;
        self.ports.learn(&vitals);
        let before = self
            .earlier
            .and_then(|(memory, _)| memory.namespaces.get(&vitals.netns));
        self.transit.learn(&vitals, before, self.limits);
        self.namespaces.push(vitals);
    }

    /// What the host told.
    pub fn host(&mut self, host: HostVitals) {
        self.host = host;
    }

    /// A socket.
    pub fn socket(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        self.seen.sockets += 1;
        match socket.protocol {
            Protocol::Tcp => self.tcp(entry),
            Protocol::Udp | Protocol::UdpLite => self.udp(entry),
            _ => {}
        }
    }

    /// What is wrong, the worst first.
    #[must_use]
    pub fn findings(&mut self) -> Vec<Finding> {
        self.judge_silent();
        judge::findings(self, self.limits)
    }

    /// How much was looked at.
    #[must_use]
    pub const fn seen(&self) -> Seen {
        Seen {
            left_out: self.suspects.left_out + self.ports.left_out + self.seen.left_out,
            ..self.seen
        }
    }

    /// What the next one will be compared with.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        Memory {
            courses: self.courses.unwrap_or_default(),
            namespaces: self
                .namespaces
                .into_iter()
                .map(|vitals| (vitals.netns, vitals))
                .collect(),
            host: self.host,
        }
    }

    /// The earlier one, and how long ago it was.
    pub(crate) const fn earlier(&self) -> Option<(&'a Memory, Duration)> {
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
            // The kernel keeps little more than addresses of a FIN_WAIT2 that waits for its end.
            let is_short = socket
                .timer
                .is_some_and(|timer| timer.kind == TimerKind::TimeWait);
            self.seen.without_info += u64::from(!is_short);
            return;
        };
        let change = self.change(socket);
        self.alive.note(socket);
        self.transit.note(socket, info);
        let patient = Patient {
            socket,
            info,
            limits: self.limits,
            change,
            alive: &self.alive,
        };
        // Who gets nothing through is judged when all that was heard of its peer is known.
        let in_vain = socket.timer.is_some_and(|timer| match timer.kind {
            TimerKind::Retransmission => timer.retransmits > 1,
            TimerKind::ZeroWindowProbe => true,
            _ => false,
        });
        if in_vain && self.silent.len() < SILENT_MAX {
            let owner = entry.owners.and_then(|owners| owners.first()).copied();
            self.silent.push((socket.clone(), owner));
        } else if let Some(symptom) = patient.progress().or_else(|| patient.pace()) {
            let symptom = self.transit.explain(socket, symptom);
            self.suspects.add(entry, Subject::Sockets, &symptom);
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
            self.suspects.add(entry, Subject::Sockets, &symptom);
        }
    }

    fn judge_silent(&mut self) {
        for (socket, owner) in std::mem::take(&mut self.silent) {
            let Some(info) = &socket.tcp_info else { continue };
            let patient = Patient {
                socket: &socket,
                info,
                limits: self.limits,
                change: self.earlier_course(&socket),
                alive: &self.alive,
            };
            let Some(symptom) = patient.progress().or_else(|| patient.pace()) else {
                continue;
            };
            let symptom = self.transit.explain(&socket, symptom);
            // Of a fault on this host its cause is told, not what it does to the other end.
            let is_told = match symptom.rule {
                Rule::ZeroWindow => self.unread.contains(&(socket.local, socket.peer)),
                Rule::ConnectUnanswered => self.listeners.are_full(&socket.peer),
                _ => false,
            };
            if !is_told {
                let entry = Entry {
                    socket: &socket,
                    owners: Some(owner.as_slice()),
                };
                self.suspects.add(&entry, Subject::Sockets, &symptom);
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
            self.suspects.add(entry, Subject::Sockets, &symptom);
        }
    }

    /// What the socket did since the earlier snapshot; in its whole life, if there is none or it was not there.
    fn change(&mut self, socket: &Socket) -> Change {
        let change = self.earlier_course(socket);
        if let (Some(courses), Some(inode)) = (&mut self.courses, socket.inode)
            && courses.len() < COURSES_MAX
        {
            courses.insert(inode, Course::of(socket));
        }
        change
    }

    fn earlier_course(&self, socket: &Socket) -> Change {
        let now = Course::of(socket);
        match self.earlier {
            None => now.since(&Course::default(), None),
            Some((memory, elapsed)) => {
                let before = socket.inode.and_then(|inode| memory.courses.get(&inode));
                let elapsed_us = u64::try_from(elapsed.as_micros()).ok();
                now.since(&before.copied().unwrap_or_default(), elapsed_us)
            }
        }
    }
}

/// Who was heard of lately: of each peer the shortest time since one of its connections received something.
#[derive(Debug, Default)]
pub(crate) struct Alive(HashMap<(Option<NetnsInode>, IpAddr), u32, FixedState>);

impl Alive {
    fn note(&mut self, socket: &Socket) {
        let Some(info) = &socket.tcp_info else { return };
        let heard = [info.last_ack_recv_ms, info.last_data_recv_ms]
            .into_iter()
            .flatten()
            .min();
        if let (Some(ip), Some(heard)) = (socket.peer.ip(), heard)
            && socket.state != State::SynSent
            && heard < HEARD_MAX_MS
            && self.0.len() < PEERS_MAX
        {
            let least = self.0.entry((socket.netns, ip)).or_insert(heard);
            *least = heard.min(*least);
        }
    }

    /// Whether the peer of this socket was heard of since then.
    pub(crate) fn within(&self, socket: &Socket, since_ms: u64) -> bool {
        let heard = socket.peer.ip().and_then(|ip| self.0.get(&(socket.netns, ip)));
        heard.is_some_and(|ms| u64::from(*ms) < since_ms)
    }
}

/// One of the two ends is closed, the other is not.
fn closing(socket: &Socket, limits: &Limits) -> Option<Symptom> {
    let info = socket.tcp_info.as_ref()?;
    // The FIN came, or its acknowledgement, and nothing after it.
    let age = u64::from(info.last_ack_recv_ms?);
    let (rule, least, oldest) = match socket.state {
        State::CloseWait => (Rule::CloseWait, CLOSE_WAIT_SETTLED_MS, Limit::CloseWaitAge),
        // Without a process the kernel itself ends it, after net.ipv4.tcp_fin_timeout.
        State::FinWait2 if socket.inode.is_some() => {
            (Rule::FinWait2, FIN_WAIT2_SETTLED_MS, Limit::FinWait2Age)
        }
        _ => return None,
    };
    // Whether they are old or many enough is known at the end; until then those that are merely on their way stay out.
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
    // Nobody is there to read what a closed socket has received.
    socket.inode?;
    let since = u64::from(socket.tcp_info.as_ref()?.last_data_recv_ms?);
    let is_it = since >= limits.of(Limit::UnreadFor) && socket.state != State::CloseWait;
    is_it.then(|| {
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

fn dropped(socket: &Socket, change: &Change, limits: &Limits) -> Option<Symptom> {
    let is_tcp = socket.protocol == Protocol::Tcp;
    // TCP counts probes that it has answered among them, of keepalive or of a closed window. As many as held no data may
    // have been those.
    let data = u64::from(change.received_data_segs);
    let without_data = change.received_segs.saturating_sub(change.received_data_segs);
    let drops = u64::from(change.drops).saturating_sub(if is_tcp { without_data.into() } else { 0 });
    // What moves under our eyes need not be much; but TCP drops what comes twice, and has lost nothing by it.
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
    let is_it = taken > 0 && share >= limits.of(Limit::UdpUnreadShare);
    is_it.then(|| {
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

/// Younger ones are on their way to being closed.
const CLOSE_WAIT_SETTLED_MS: u64 = 1_000;
const FIN_WAIT2_SETTLED_MS: u64 = 5_000;
/// Who was not heard of for so long does not prove that a path is open.
const HEARD_MAX_MS: u32 = 300_000;
/// Peers that are remembered.
const PEERS_MAX: usize = 1 << 17;
/// Connections that wait for the end to be judged; further ones are judged at once, by what is known until then.
const SILENT_MAX: usize = 10_000;
/// Sockets that are remembered for the next snapshot; of further ones it judges the whole life.
const COURSES_MAX: usize = 2_000_000;
