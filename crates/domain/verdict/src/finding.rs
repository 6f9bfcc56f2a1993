//! What the rules find: findings with their facts, examples and remedies.

use crate::{Rule, Severity};
use sockeye_model::{
    Counter, DeviceName, Endpoint, Inode, NetnsInode, Process, Protocol, ShortText, Socket, State, Uid,
};

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
    /// Process that owns the sockets, or that the finding is about; `None` if unknown.
    pub owner: Option<Process>,
    /// Meaning, in one sentence.
    pub meaning: &'static str,
    /// Evidence that holds for all of its sockets.
    pub facts: Facts,
    /// Number of sockets concerned.
    pub sockets: u64,
    /// Some of these sockets, the worst first.
    pub examples: Vec<Example>,
    /// What to do about it, in the order to try.
    pub remedies: Vec<Remedy>,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// A network interface.
    Device(DeviceName),
    /// A queueing discipline of a network interface.
    Qdisc {
        /// The interface
        device: DeviceName,
        /// Its kind: `fq_codel`
        kind: ShortText<16>,
    },
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

/// A list of at most [`FACTS_MAX`] facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    all: [Option<Fact>; FACTS_MAX],
}

impl Facts {
    /// The empty list.
    pub const NONE: Self = Self {
        all: [None; FACTS_MAX],
    };

    /// A list of the facts with a known value.
    #[must_use]
    pub fn new(facts: &[(&'static str, Option<u64>)]) -> Self {
        let mut all = Self::NONE;
        for &(name, value) in facts {
            if let Some(value) = value {
                all.push(name, value);
            }
        }
        all
    }

    /// Adds a fact. Facts beyond [`FACTS_MAX`] are dropped.
    pub fn push(&mut self, name: &'static str, value: u64) {
        if let Some(free) = self.all.iter_mut().find(|fact| fact.is_none()) {
            *free = Some(Fact { name, value });
        }
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
pub const FACTS_MAX: usize = 8;

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
