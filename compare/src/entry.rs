//! What is compared: a command, the host that it runs on, and its targets. `suite.rs` and the modules of single benchmarks
//! list entries; `run.rs` measures them and `judgement.rs` compares them with their targets.

use crate::measure::Output;

/// The host that a command runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Without a load: one listener.
    Empty,
    /// About 79,000 sockets.
    Speed,
    /// More than 100,000 sockets.
    Memory,
    /// About 79,000 sockets, each connection from a client's address of its own.
    DistinctClients,
    /// 10 named namespaces with as many sockets together as [`Phase::Namespaces`].
    FewNamespaces,
    /// 2,000 named namespaces with four sockets each.
    Namespaces,
    /// 4,000 named namespaces with a process each.
    ListedNamespaces,
    /// 10,000 sockets of running processes, to change their options.
    SocketOptions,
    /// A capture of a few TCP transfers, in the current folder.
    CapturedTransfers,
    /// A capture of one transfer, in the current folder.
    SingleTransfer,
    /// A capture of 100,000 simultaneous transfers, in the current folder.
    ManyTransfers,
    /// A capture of 100 long transfers at a time, in the current folder.
    BulkTransfers,
    /// A capture of 1,000 short connections at a time, in the current folder.
    ShortTransfers,
    /// A capture of SYNs without answers, in the current folder.
    HalfOpenConnections,
    /// A kernel log of 100,000 lines, in the current folder.
    KernelLog,
    /// Only what the command creates or removes: see [`netns_operations`](crate::netns_operations).
    NetnsOperations,
}

impl Phase {
    /// All phases, in the order of measurement.
    pub const ALL: [Self; 16] = [
        Self::Empty,
        Self::Speed,
        Self::Memory,
        Self::DistinctClients,
        Self::SocketOptions,
        Self::FewNamespaces,
        Self::Namespaces,
        Self::ListedNamespaces,
        Self::CapturedTransfers,
        Self::SingleTransfer,
        Self::ManyTransfers,
        Self::BulkTransfers,
        Self::ShortTransfers,
        Self::HalfOpenConnections,
        Self::KernelLog,
        Self::NetnsOperations,
    ];
}

/// The program of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `bench-floor`.
    Floor,
    /// The sockeye binary.
    Sockeye,
    /// A peer, from the path.
    Peer(&'static str),
}

impl Program {
    /// Its name, as typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "bench-floor",
            Self::Sockeye => "sockeye",
            Self::Peer(name) => name,
        }
    }
}

/// A target of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Median wall time, as a multiple of that of another entry in the same phase.
    Wall {
        /// Name of the other entry.
        of: &'static str,
        /// Largest ratio that meets the target.
        at_most: f64,
        /// Wording of the target.
        wording: &'static str,
    },
    /// As [`Target::Wall`], but for information only, not judged.
    About {
        /// Name of the other entry.
        of: &'static str,
        /// The expected value.
        wording: &'static str,
    },
    /// Median wall time, as a multiple of that of the same entry in an earlier phase.
    Growth {
        /// The earlier phase.
        from: Phase,
        /// Largest ratio that meets the target.
        at_most: f64,
        /// Wording of the target.
        wording: &'static str,
    },
    /// Median wall time, compared with `times` x (`floors` x the floor on 79,000 sockets + `more_ns`).
    FloorAnd {
        /// The multiple of the floor.
        floors: f64,
        /// Additional time in nanoseconds.
        more_ns: u64,
        /// Factor of the sum.
        times: f64,
        /// Wording of the target.
        wording: &'static str,
    },
    /// Median time to the first line. Absolute, because people and scripts wait for it.
    First {
        /// Nanoseconds.
        below_ns: u64,
    },
    /// Median wall time. Absolute, as [`First`](Self::First), because people wait for the result.
    Within {
        /// Nanoseconds.
        at_most_ns: u64,
    },
    /// Peak memory, on a host with at least this many sockets.
    Peak {
        /// Bytes.
        at_most: u64,
        /// With fewer sockets the target is not judged.
        sockets_min: usize,
    },
    /// Length of the written file: see `Entry::writes`.
    Written {
        /// Bytes.
        below: u64,
    },
    /// Peak memory compared with that of another entry of the same phase.
    PeakOver {
        /// Name of the other entry.
        of: &'static str,
        /// Additional bytes that meet the target.
        more_bytes: u64,
    },
}

/// The end of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Exit; the output goes to /dev/null.
    Exit,
    /// The first line through a pipe.
    FirstLine,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Its name; unique within its phase.
    pub name: &'static str,
    /// The phase that it runs in.
    pub phase: Phase,
    /// The program.
    pub program: Program,
    /// The arguments.
    pub arguments: &'static [&'static str],
    /// The end of its measurement.
    pub until: Until,
    /// Sockets per printed line: fewer lines are a failure. `None`: not checked.
    pub sockets_per_line: Option<usize>,
    /// The file that it writes, in the current folder.
    pub writes: Option<&'static str>,
    /// Its targets; empty for a peer.
    pub targets: &'static [Target],
}

impl Entry {
    /// Runs a program on the host of [`Phase::Speed`], and discards what it prints.
    pub(crate) const fn new(
        program: Program,
        name: &'static str,
        arguments: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            phase: Phase::Speed,
            program,
            arguments,
            until: Until::Exit,
            sockets_per_line: None,
            writes: None,
            targets: &[],
        }
    }

    pub(crate) const fn during(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    pub(crate) const fn first_line(self) -> Self {
        Self {
            until: Until::FirstLine,
            ..self
        }
    }

    pub(crate) const fn per_line(self, sockets: usize) -> Self {
        Self {
            sockets_per_line: Some(sockets),
            ..self
        }
    }

    pub(crate) const fn writes(self, file: &'static str) -> Self {
        Self {
            writes: Some(file),
            ..self
        }
    }

    pub(crate) const fn targets(self, targets: &'static [Target]) -> Self {
        Self { targets, ..self }
    }

    /// The command line, for people.
    pub fn command(&self) -> String {
        std::iter::once(self.program.name())
            .chain(self.arguments.iter().copied())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// How its output is treated in the measurement.
    pub fn measured(&self) -> Output {
        match self.until {
            Until::Exit => Output::Discarded,
            Until::FirstLine => Output::FirstLine,
        }
    }

    /// How its output is treated in the check before.
    pub fn checked(&self) -> Output {
        match self.until {
            Until::Exit => Output::Counted,
            Until::FirstLine => Output::FirstLine,
        }
    }
}
