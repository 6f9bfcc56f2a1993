//! What the rules find: findings with their facts, examples and remedies.

use crate::{Rule, Severity};
use sockeye_drops::Event;
use sockeye_model::{
    Counter, DeviceName, Endpoint, FirewallRuleName, Inode, NetnsInode, Process, ProcessState, Protocol,
    Refusal, ShortText, Socket, State, Uid,
};
use std::net::{IpAddr, SocketAddr};

/// One thing that is wrong, with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Rule,
    /// Severity of this occurrence.
    pub severity: Severity,
    /// Network namespace; `None`: only one was examined, or it concerns the whole host.
    pub netns: Option<NetnsInode>,
    /// What the finding is about.
    pub subject: Subject,
    /// Further namespaces with the same finding; the evidence is that of the first.
    pub more_netns: Vec<NetnsInode>,
    /// Process that owns the sockets, or that the finding is about; `None` if unknown or several.
    pub owner: Option<Process>,
    /// Number of owners, if the finding is about sockets of several; else 0 or 1.
    pub owners: u64,
    /// State of the owner, if it says something about the finding.
    pub owner_state: Option<ProcessState>,
    /// TCP connections of the owner; 0 if not counted.
    pub(crate) owner_connections: u64,
    /// Meaning, in one sentence.
    pub meaning: &'static str,
    /// Evidence that holds for all of its sockets.
    pub facts: Facts,
    /// Number of sockets concerned.
    pub sockets: u64,
    /// Some of these sockets, the worst first.
    pub examples: Vec<Example>,
    /// Whom the drops hit that it is about, the worst first; empty if drops were not watched.
    pub victims: Vec<Victim>,
    /// Number of victims that did not fit.
    pub victims_left_out: u64,
    /// What to do about it, in the order to try.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    /// A finding without facts and remedies.
    pub(crate) const fn about(rule: Rule, netns: Option<NetnsInode>, subject: Subject) -> Self {
        Self {
            rule,
            severity: rule.severity(),
            netns,
            subject,
            more_netns: Vec::new(),
            owner: None,
            owners: 0,
            owner_state: None,
            owner_connections: 0,
            meaning: rule.meaning(),
            facts: Facts::NONE,
            sockets: 0,
            examples: Vec::new(),
            victims: Vec::new(),
            victims_left_out: 0,
            remedies: Vec::new(),
        }
    }

    /// Whether the state of its owner says something about it: the owner does not do what it should.
    #[must_use]
    pub const fn is_about_inactivity(&self) -> bool {
        matches!(
            self.rule,
            Rule::AcceptQueue | Rule::Unread | Rule::UdpUnread | Rule::CloseWait | Rule::SocketDrops
        )
    }

    /// Sets the state of the owner. A stopped owner is the cause.
    pub fn set_owner_state(&mut self, state: ProcessState) {
        self.owner_state = Some(state);
        if let (true, Some(owner)) = (state.is_stopped() && self.is_about_inactivity(), self.owner) {
            let accepts = self.rule == Rule::AcceptQueue;
            self.meaning = match (state.is_frozen, state.letter) {
                (true, _) if accepts => FROZEN_ACCEPTS_NOTHING,
                (true, _) => FROZEN_READS_NOTHING,
                (_, b't') if accepts => TRACED_ACCEPTS_NOTHING,
                (_, b't') => TRACED_READS_NOTHING,
                _ if accepts => STOPPED_ACCEPTS_NOTHING,
                _ => STOPPED_READS_NOTHING,
            };
            if accepts {
                self.severity = Severity::Critical;
            }
            let first = match (state.is_frozen, state.letter, state.tracer) {
                (true, ..) => Remedy::Advice(THAW),
                // Only the debugger can let it run.
                (_, b't', Some(tracer)) => Remedy::Anywhere(format!("ps -fp {}", tracer.pid)),
                (_, b't', None) => Remedy::Anywhere(format!("grep TracerPid /proc/{}/status", owner.pid)),
                _ => Remedy::Anywhere(format!("kill -CONT {}", owner.pid)),
            };
            self.remedies.insert(0, first);
            if state.letter == b't' && !state.is_frozen {
                self.remedies.insert(1, Remedy::Advice(DETACH));
            }
        } else if self.rule == Rule::Unread
            && self.severity == Severity::Warning
            && self.has_thread_for_each(&state)
        {
            self.meaning = UNREAD_BY_BUSY_THREADS;
            self.severity = Severity::Notice;
        }
    }

    /// Whether it only says that handlers work for long, and the owner has a thread at work for each connection.
    #[must_use]
    pub fn is_work_of_threads(&self) -> bool {
        matches!(self.rule, Rule::CloseWait | Rule::FinWait2)
            && self.severity == Severity::Notice
            && self
                .owner_state
                .is_some_and(|state| self.has_thread_for_each(&state))
    }

    /// Whether the owner has a thread at work for each of its connections, also for those of this finding.
    const fn has_thread_for_each(&self, state: &ProcessState) -> bool {
        self.owner_connections > 0 && state.threads_at_work as u64 >= self.owner_connections
    }

    pub(crate) fn with(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }

    /// Adds a fact, if its value is known.
    pub(crate) fn fact(mut self, name: &'static str, value: impl FactValue) -> Self {
        self.facts.push(name, value);
        self
    }

    /// Adds a remedy: a sockeye command.
    pub(crate) fn sockeye(self, command: impl Into<String>) -> Self {
        self.remedy(Remedy::Sockeye(command.into()))
    }

    /// Adds a remedy: a command inside the network namespace.
    pub(crate) fn inside(self, command: impl Into<String>) -> Self {
        self.remedy(Remedy::Inside(command.into()))
    }

    /// Adds a remedy: a command anywhere on the host.
    pub(crate) fn anywhere(self, command: impl Into<String>) -> Self {
        self.remedy(Remedy::Anywhere(command.into()))
    }

    /// Adds a remedy that is no command.
    pub(crate) fn advice(self, text: &'static str) -> Self {
        self.remedy(Remedy::Advice(text))
    }

    fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedies.push(remedy);
        self
    }
}

const FROZEN_ACCEPTS_NOTHING: &str = "The program is frozen (the freezer of its cgroup, as of a paused container), and accepts nothing: connections wait in the listener's queue.";
const FROZEN_READS_NOTHING: &str = "The program is frozen (the freezer of its cgroup, as of a paused container): it does not read what has come in, nor close what its peers have closed.";
const TRACED_ACCEPTS_NOTHING: &str =
    "The program is stopped by a debugger, and accepts nothing: connections wait in the listener's queue.";
const TRACED_READS_NOTHING: &str = "The program is stopped by a debugger: it does not read what has come in, nor close what its peers have closed.";
const THAW: &str =
    "thaw it: docker unpause, systemctl thaw, or write 0 to cgroup.freeze of its cgroup (/proc/PID/cgroup)";
const DETACH: &str = "let the debugger continue or detach, or end the debugger: kill -CONT does nothing to a program that is traced";
const UNREAD_BY_BUSY_THREADS: &str = "Data has come in that the program does not read yet: it has a thread at work for each of these connections.";
const STOPPED_ACCEPTS_NOTHING: &str =
    "The program is stopped by a signal, and accepts nothing: connections wait in the listener's queue.";
const STOPPED_READS_NOTHING: &str = "The program is stopped by a signal: it does not read what has come in, nor close what its peers have closed.";

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Sockets, listed one by one.
    Sockets,
    /// A listener.
    Listener(Endpoint),
    /// Connections from an address to a service.
    Service {
        /// Local address
        local: Endpoint,
        /// Address and port of the service
        peer: Endpoint,
    },
    /// A router or a peer on the link.
    NextHop {
        /// Its address
        ip: IpAddr,
        /// The interface to it; `None` if unknown
        device: Option<DeviceName>,
    },
    /// A network interface.
    Device(DeviceName),
    /// A queueing discipline of a network interface.
    Qdisc {
        /// The interface
        device: DeviceName,
        /// Its kind: `fq_codel`
        kind: ShortText<16>,
    },
    /// A rule of this host's packet filter
    FirewallRule(Box<FirewallRuleName>),
    /// A counter of a network namespace.
    Counter(Counter),
    /// A processor.
    Processor(u32),
    /// A kernel table: `arp_cache`
    Table(ShortText<16>),
    /// The network namespace as a whole.
    Namespace,
    /// The host as a whole.
    Host,
    /// The owning process.
    Process,
}

/// A number that is evidence. Its name ends in its unit: `idle_ms`, `share_permille`, `waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// Name
    pub name: &'static str,
    /// Value
    pub value: u64,
}

/// A list of at most eight facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    all: [Option<Fact>; FACTS_MAX],
}

impl Facts {
    /// The empty list.
    pub(crate) const NONE: Self = Self {
        all: [None; FACTS_MAX],
    };

    /// Adds a fact, if its value is known. Facts beyond [`FACTS_MAX`] are dropped.
    pub(crate) fn push(&mut self, name: &'static str, value: impl FactValue) {
        if let Some(value) = value.known()
            && let Some(free) = self.all.iter_mut().find(|fact| fact.is_none())
        {
            *free = Some(Fact { name, value });
        }
    }

    /// Returns the list with a further fact, if its value is known.
    pub(crate) fn with(mut self, name: &'static str, value: impl FactValue) -> Self {
        self.push(name, value);
        self
    }

    /// All facts, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Fact> {
        self.all.iter().copied().flatten()
    }

    /// The value of the fact with this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        self.iter().find(|fact| fact.name == name).map(|fact| fact.value)
    }
}

/// Facts per finding at most.
const FACTS_MAX: usize = 8;

/// A number that may be unknown.
pub(crate) trait FactValue {
    /// The number; `None` if unknown.
    fn known(self) -> Option<u64>;
}

impl FactValue for u64 {
    fn known(self) -> Option<u64> {
        Some(self)
    }
}

impl FactValue for u32 {
    fn known(self) -> Option<u64> {
        Some(self.into())
    }
}

impl<T: FactValue> FactValue for Option<T> {
    fn known(self) -> Option<u64> {
        self.and_then(T::known)
    }
}

/// One of the sockets that a finding is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Example {
    /// Protocol
    pub protocol: Protocol,
    /// State
    pub state: State,
    /// Local end
    pub local: Endpoint,
    /// Remote end
    pub peer: Endpoint,
    /// Inode; `None`: no descriptor refers to it, so no process owns it
    pub inode: Option<Inode>,
    /// User that created it
    pub uid: Option<Uid>,
    /// Evidence for this socket
    pub facts: Facts,
}

impl Example {
    /// An example from a socket and its evidence.
    #[must_use]
    pub const fn new(socket: &Socket, facts: Facts) -> Self {
        Self {
            protocol: socket.protocol,
            state: socket.state,
            local: socket.local,
            peer: socket.peer,
            inode: socket.inode,
            uid: socket.uid,
            facts,
        }
    }

    /// Returns the socket as far as it is known, for functions that format sockets.
    #[must_use]
    pub const fn socket(&self) -> Socket {
        let mut socket = Socket::new(self.protocol, self.state);
        (socket.local, socket.peer) = (self.local, self.peer);
        socket.uid = self.uid;
        socket
    }
}

/// Packets of one reason that the kernel dropped between two samples, and the socket that they were for or came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Victim {
    /// Reason, place, device, protocol, socket, and how many.
    pub event: Event,
    /// Local end of the socket; without one, the destination of the latest packet. `None` if unknown.
    pub local: Option<SocketAddr>,
    /// The other end: the peer of the socket, or the source of the latest packet.
    pub peer: Option<SocketAddr>,
    /// Process that owns the socket; `None` if unknown or without one.
    pub owner: Option<Process>,
    /// Of clients that a listener turned away: `local` is where they went, `peer` who they were.
    pub refused: Option<Refused>,
}

impl Victim {
    /// Whether the ends are those of the latest of several packets: without a socket the kernel's drops are counted by their place, and
    /// clients that are turned away by their address.
    #[must_use]
    pub const fn has_ends_of_latest_only(&self) -> bool {
        if let Some(refused) = &self.refused {
            return refused.has_more_ports;
        }
        self.event.socket.is_none() && self.event.count > 1 && (self.local.is_some() || self.peer.is_some())
    }
}

/// How a listener turned clients away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The queue that was full.
    pub queue: ListenerQueue,
    /// What became of their segments.
    pub how: Refusal,
    /// Whether the client came from more ports than that of `peer`.
    pub has_more_ports: bool,
    /// Whether there may have been more of them: some were not seen.
    pub is_at_least: bool,
}

/// A queue of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenerQueue {
    /// Connections that wait for `accept`.
    Accept,
    /// Handshakes that are not complete.
    Syn,
}

impl ListenerQueue {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Syn => "syn",
        }
    }
}

/// One step against a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// A sockeye command line without the program's name; it takes `--netns`.
    Sockeye(String),
    /// A command to run in the network namespace of the finding.
    Inside(String),
    /// A command to run anywhere on the host.
    Anywhere(String),
    /// A step that no command does.
    Advice(&'static str),
}
