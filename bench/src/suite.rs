//! What is compared with what, and how well it has to do. Change commands and targets here.

/// On which host a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before there is any load.
    Empty,
    /// About 79,000 sockets.
    Speed,
    /// More than 100,000 sockets.
    Memory,
}

/// Which program a command is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `bench-floor`.
    Floor,
    /// The one on trial.
    Sockeye,
    /// Another, from the path.
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

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Median wall time, as a multiple of that of the entry of this name in the same phase.
    Wall {
        /// The name of the entry it is divided by.
        of: &'static str,
        /// The highest ratio that is good enough.
        at_most: f64,
        /// How the target is written.
        wording: &'static str,
    },
    /// Peak memory, on a host with at least this many sockets.
    Peak {
        /// Bytes.
        at_most: u64,
        /// With fewer sockets the target is not judged.
        sockets_min: usize,
    },
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// What it shows; unique within its phase.
    pub name: &'static str,
    /// When it runs.
    pub phase: Phase,
    /// What runs.
    pub program: Program,
    /// With which arguments.
    pub arguments: &'static [&'static str],
    /// It runs in every n-th round only, if it is slow.
    pub every: usize,
    /// It prints a line a socket: fewer lines than sockets are a failure, however fast.
    pub line_each: bool,
    /// What it has to reach; nothing for a peer.
    pub targets: &'static [Target],
}

impl Entry {
    /// The command line, for people.
    pub fn command(&self) -> String {
        std::iter::once(self.program.name())
            .chain(self.arguments.iter().copied())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// The name of the entry that is the limit.
pub const FLOOR: &str = "floor";

const SS: &str = "ss";
const SS_INFO: &str = "ss with tcp_info";
const SS_OWNERS: &str = "ss with owners";

/// The sockets that the targets for memory speak of.
const MEMORY_SOCKETS_MIN: usize = 100_000;
const MEMORY_BYTES_MAX: u64 = 12_000_000;

const ENTRY: Entry = Entry {
    name: "",
    phase: Phase::Speed,
    program: Program::Sockeye,
    arguments: &[],
    every: 1,
    line_each: false,
    targets: &[],
};

const MEMORY_TARGETS: &[Target] = &[Target::Peak {
    at_most: MEMORY_BYTES_MAX,
    sockets_min: MEMORY_SOCKETS_MIN,
}];
const START_TARGETS: &[Target] = &[Target::Wall {
    of: SS,
    at_most: 1.0,
    wording: "1.0 x ss",
}];

/// Every comparison, in the order of the report.
pub const SUITE: &[Entry] = &[
    // The start: what a run costs where there is nothing to show.
    Entry {
        name: SS,
        phase: Phase::Empty,
        program: Program::Peer("ss"),
        arguments: &["-tanH"],
        ..ENTRY
    },
    Entry {
        name: "flows",
        phase: Phase::Empty,
        arguments: &["flows", "-n"],
        targets: START_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "sockets",
        phase: Phase::Empty,
        arguments: &["sockets", "-t", "-a", "-n"],
        targets: START_TARGETS,
        ..ENTRY
    },
    Entry {
        name: FLOOR,
        phase: Phase::Empty,
        program: Program::Floor,
        ..ENTRY
    },
    // The main job.
    Entry {
        name: FLOOR,
        program: Program::Floor,
        ..ENTRY
    },
    Entry {
        name: "sockets, table",
        arguments: &["sockets", "-t", "-a", "-n"],
        line_each: true,
        targets: &[
            Target::Wall {
                of: FLOOR,
                at_most: 1.40,
                wording: "1.40 x floor",
            },
            Target::Wall {
                of: SS,
                at_most: 1.0 / 3.0,
                wording: "1/3 of ss",
            },
        ],
        ..ENTRY
    },
    Entry {
        name: SS,
        program: Program::Peer("ss"),
        arguments: &["-tanH"],
        line_each: true,
        ..ENTRY
    },
    Entry {
        name: "sockets, tcp_info as JSON lines",
        arguments: &["sockets", "-t", "-a", "-n", "-i", "--format", "jsonl"],
        line_each: true,
        targets: &[Target::Wall {
            of: SS_INFO,
            at_most: 1.0 / 3.0,
            wording: "1/3 of ss with tcp_info",
        }],
        ..ENTRY
    },
    Entry {
        name: SS_INFO,
        program: Program::Peer("ss"),
        arguments: &["-tinaH"],
        line_each: true,
        ..ENTRY
    },
    Entry {
        name: "flows",
        arguments: &["flows", "-n"],
        targets: &[
            Target::Wall {
                of: FLOOR,
                at_most: 1.25,
                wording: "1.25 x floor",
            },
            Target::Wall {
                of: SS,
                at_most: 1.0 / 4.0,
                wording: "1/4 of ss",
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "sockets with owners by /proc",
        arguments: &["sockets", "-t", "-a", "-n", "-p", "--source", "diag"],
        line_each: true,
        targets: &[Target::Wall {
            of: SS_OWNERS,
            at_most: 1.0 / 6.0,
            wording: "1/6 of ss with owners",
        }],
        ..ENTRY
    },
    Entry {
        name: SS_OWNERS,
        program: Program::Peer("ss"),
        arguments: &["-tanpH"],
        every: 5,
        line_each: true,
        ..ENTRY
    },
    // For information.
    Entry {
        name: "floor, with tcp_info",
        program: Program::Floor,
        arguments: &["--info"],
        ..ENTRY
    },
    Entry {
        name: "floor, sock_diag v2",
        program: Program::Floor,
        arguments: &["--v2"],
        ..ENTRY
    },
    Entry {
        name: "floor, sock_diag v2, with tcp_info",
        program: Program::Floor,
        arguments: &["--v2", "--info"],
        ..ENTRY
    },
    Entry {
        name: "netstat",
        program: Program::Peer("netstat"),
        arguments: &["-atn"],
        line_each: true,
        ..ENTRY
    },
    Entry {
        name: "/proc, IPv4 only",
        program: Program::Peer("cat"),
        arguments: &["/proc/net/tcp"],
        ..ENTRY
    },
    // Memory.
    Entry {
        name: "flows",
        phase: Phase::Memory,
        arguments: &["flows", "-n"],
        targets: MEMORY_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "sockets, table",
        phase: Phase::Memory,
        arguments: &["sockets", "-t", "-a", "-n"],
        line_each: true,
        targets: MEMORY_TARGETS,
        ..ENTRY
    },
    Entry {
        name: FLOOR,
        phase: Phase::Memory,
        program: Program::Floor,
        ..ENTRY
    },
    Entry {
        name: SS,
        phase: Phase::Memory,
        program: Program::Peer("ss"),
        arguments: &["-tanH"],
        line_each: true,
        ..ENTRY
    },
];

/// The entries of one phase.
pub fn entries(phase: Phase) -> impl Iterator<Item = &'static Entry> {
    SUITE.iter().filter(move |entry| entry.phase == phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_within_a_phase() {
        for phase in [Phase::Empty, Phase::Speed, Phase::Memory] {
            let names: Vec<_> = entries(phase).map(|entry| entry.name).collect();
            assert_eq!(
                names.iter().collect::<HashSet<_>>().len(),
                names.len(),
                "{phase:?}: {names:?}"
            );
        }
    }

    #[test]
    fn every_target_is_measured_in_its_phase() {
        for entry in SUITE {
            assert!(entry.every >= 1);
            for target in entry.targets {
                if let Target::Wall { of, .. } = target {
                    assert!(
                        entries(entry.phase).any(|other| other.name == *of),
                        "{}: {of}",
                        entry.name
                    );
                }
            }
        }
    }

    #[test]
    fn targets_are_for_sockeye_only() {
        assert!(
            SUITE
                .iter()
                .all(|entry| entry.targets.is_empty() || entry.program == Program::Sockeye)
        );
    }
}
