//! What comes out.

use crate::{Rule, Severity};
use sockeye_model::{
    Counter, DeviceName, Endpoint, Inode, NetnsInode, Process, Protocol, ShortText, Socket, State, Uid,
};

/// One thing that is wrong, with what proves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which rule found it.
    pub rule: Rule,
    /// How bad it is here.
    pub severity: Severity,
    /// In which network namespace; `None`: in the only one that was looked at, or it is the whole host's.
    pub netns: Option<NetnsInode>,
    /// What it is about.
    pub subject: Subject,
    /// Who owns the sockets, or is the one that it is about.
    pub owner: Option<Process>,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// What proves it, of all together.
    pub facts: Facts,
    /// How many sockets it is about.
    pub sockets: u64,
    /// Some of them, the worst first.
    pub examples: Vec<Example>,
    /// What to do about it.
    pub remedies: Vec<Remedy>,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Sockets, which are told one by one.
    Sockets,
    /// A listener.
    Listener(Endpoint),
    /// Connections from an address to a service.
    Service {
        /// From where
        local: Endpoint,
        /// To where
        peer: Endpoint,
    },
    /// A network interface.
    Device(DeviceName),
    /// A queueing discipline of one.
    Qdisc {
        /// Of which interface
        device: DeviceName,
        /// What it is
        kind: ShortText<16>,
    },
    /// A counter.
    Counter(Counter),
    /// A processor.
    Processor(u32),
    /// A table of the kernel's: `arp_cache`
    Table(ShortText<16>),
    /// The network namespace as a whole.
    Namespace,
    /// The host as a whole.
    Host,
    /// The owner.
    Process,
}

/// A number that proves something. Its name ends in its unit: `idle_ms`, `share_permille`, `waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// What it is
    pub name: &'static str,
    /// How much of it
    pub value: u64,
}

/// A few facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    all: [Option<Fact>; FACTS_MAX],
}

impl Facts {
    /// None yet.
    pub const NONE: Self = Self {
        all: [None; FACTS_MAX],
    };

    /// These, as far as they are known.
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

    /// One more. Beyond [`FACTS_MAX`] they are too many to be read.
    pub fn push(&mut self, name: &'static str, value: u64) {
        if let Some(free) = self.all.iter_mut().find(|fact| fact.is_none()) {
            *free = Some(Fact { name, value });
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Fact> {
        self.all.iter().copied().flatten()
    }

    /// The one with this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        self.iter().find(|fact| fact.name == name).map(|fact| fact.value)
    }
}

/// Facts of one finding.
pub const FACTS_MAX: usize = 8;

/// A socket that shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Example {
    /// What it speaks
    pub protocol: Protocol,
    /// Its state
    pub state: State,
    /// Our end
    pub local: Endpoint,
    /// The other
    pub peer: Endpoint,
    /// Its inode; `None`: no file holds it, and so no process
    pub inode: Option<Inode>,
    /// Who made it
    pub uid: Option<Uid>,
    /// What proves it
    pub facts: Facts,
}

impl Example {
    /// A socket, and what is wrong with it.
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

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// A command of ours, which takes `--netns`.
    Sockeye(String),
    /// A command that has to be run in the namespace of the finding.
    Inside(String),
    /// A command that may be run anywhere on the host.
    Anywhere(String),
    /// Something that no command does.
    Advice(&'static str),
}
