//! What is compared with what, and how well it has to do. Change commands and targets here.

use crate::measure::Output;
use crate::namespaces::SOCKETS_IN_SET;

/// On which host a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before there is any load: one listener.
    Empty,
    /// About 79,000 sockets.
    Speed,
    /// More than 100,000 sockets.
    Memory,
    /// 10 named namespaces that share as many sockets as there are in [`Phase::Namespaces`].
    FewNamespaces,
    /// 2,000 named namespaces with four sockets each.
    Namespaces,
    /// 4,000 named namespaces with a process each.
    Listed,
    /// 10,000 sockets of running processes, whose options are changed.
    Kept,
    /// A capture of a few TCP transfers, in the current folder.
    Captured,
    /// A capture of one transfer, likewise.
    Drawn,
    /// A capture of 100,000 transfers at a time, likewise.
    Crowded,
    /// A kernel's log of 100,000 lines, in the current folder.
    Logged,
    /// None but those that the command makes or removes: see [`netns_acts`](crate::netns_acts).
    Acts,
}

impl Phase {
    /// In the order in which they are measured.
    pub const ALL: [Self; 12] = [
        Self::Empty,
        Self::Speed,
        Self::Memory,
        Self::Kept,
        Self::FewNamespaces,
        Self::Namespaces,
        Self::Listed,
        Self::Captured,
        Self::Drawn,
        Self::Crowded,
        Self::Logged,
        Self::Acts,
    ];
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
    /// As [`Target::Wall`], but a ratio worth knowing that nobody has promised: it is told, not judged.
    About {
        /// The name of the entry it is divided by.
        of: &'static str,
        /// What to expect.
        wording: &'static str,
    },
    /// Median wall time, as a multiple of that of the entry of the same name in an earlier phase.
    Growth {
        /// The earlier phase.
        from: Phase,
        /// The highest ratio that is good enough.
        at_most: f64,
        /// How the target is written.
        wording: &'static str,
    },
    /// Median wall time, as so many times (a multiple of the floor on 79,000 sockets, and a span beside it).
    FloorAnd {
        /// The multiple of the floor.
        floors: f64,
        /// The span, in nanoseconds.
        more_ns: u64,
        /// How many times both together are good enough.
        times: f64,
        /// How the target is written.
        wording: &'static str,
    },
    /// Median time to the first line. The one target in absolute time: people and scripts wait for it.
    First {
        /// Nanoseconds.
        below_ns: u64,
    },
    /// Median wall time, where somebody waits for the answer: absolute, as [`First`](Self::First).
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
    /// What it writes into a file: see [`Entry::writes`].
    Written {
        /// Bytes.
        below: u64,
    },
    /// Peak memory beside that of another entry of the same phase.
    PeakBeside {
        /// The name of that entry.
        of: &'static str,
        /// So many bytes more are good enough.
        more_bytes: u64,
    },
}

/// Until when a command is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It has ended; its output goes to /dev/null.
    Exit,
    /// Its first line has come through a pipe.
    FirstLine,
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
    /// Until when it is measured.
    pub until: Until,
    /// It prints at least a line for so many sockets: fewer are a failure, however fast. None: there is no telling.
    pub sockets_a_line: Option<usize>,
    /// The file that it writes, in the current folder.
    pub writes: Option<&'static str>,
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

    /// What becomes of its output when it is measured.
    pub fn measured(&self) -> Output {
        match self.until {
            Until::Exit => Output::Discarded,
            Until::FirstLine => Output::FirstLine,
        }
    }

    /// What becomes of its output when it is checked before.
    pub fn checked(&self) -> Output {
        match self.until {
            Until::Exit => Output::Counted,
            Until::FirstLine => Output::FirstLine,
        }
    }
}

/// The name of the entry that is the limit.
pub const FLOOR: &str = "floor";

const SS: &str = "ss";
const SS_INFO: &str = "ss with tcp_info";
const SS_OWNERS: &str = "ss with owners";
const SS_PORT: &str = "ss of one port";
const SS_LOOP: &str = "ss, namespace by namespace";
const LSOF: &str = "lsof";
const LSTF: &str = "lstf";
const NETSTAT: &str = "netstat";
const NETSTAT_OWNERS: &str = "netstat with owners";
const IP_LIST: &str = "ip netns list";
const TCPTRACE: &str = "tcptrace";
const TCPTRACE_GRAPH: &str = "tcptrace's graph";
const TSHARK: &str = "tshark's expert";

/// The capture of [`Phase::Captured`], [`Phase::Drawn`] and [`Phase::Crowded`].
pub const CAPTURE: &str = "transfers.pcap";
/// The log of [`Phase::Logged`].
pub const LOG: &str = "kernel.log";
/// The packets that targets for the memory of captures speak of.
const CAPTURE_PACKETS_MIN: usize = 2_000_000;
/// What [`Phase::Drawn`] draws into.
const GRAPH: &str = "graph.svg";

/// The sockets that the targets for memory speak of.
const MEMORY_SOCKETS_MIN: usize = 100_000;

/// What a drop-in may take beyond its original.
const DROPIN_MORE_BYTES: u64 = 4_000_000;

pub(crate) const ENTRY: Entry = Entry {
    name: "",
    phase: Phase::Speed,
    program: Program::Sockeye,
    arguments: &[],
    until: Until::Exit,
    sockets_a_line: None,
    writes: None,
    targets: &[],
};

const MEMORY_TARGETS: &[Target] = &[Target::Peak {
    at_most: 12_000_000,
    sockets_min: MEMORY_SOCKETS_MIN,
}];
const MEMORY_OWNERS_TARGETS: &[Target] = &[Target::Peak {
    at_most: 40_000_000,
    sockets_min: MEMORY_SOCKETS_MIN,
}];
const START_TARGETS: &[Target] = &[Target::Wall {
    of: SS,
    at_most: 1.0,
    wording: "1.0 x ss",
}];
/// Like with like: both look for owners among the processes of the host that happens to be measured, and where one of
/// them may not be read by `/proc`, as a sandbox's first process, we ask BPF, which takes 4 ms to load.
const START_OWNERS_TARGETS: &[Target] = &[Target::Wall {
    of: SS_OWNERS,
    at_most: 2.0,
    wording: "2.0 x ss with owners",
}];
const FIRST_TARGETS: &[Target] = &[Target::First { below_ns: 10_000_000 }];
/// Of 10,000 sockets.
const HALF_A_SECOND: &[Target] = &[Target::Within {
    at_most_ns: 500_000_000,
}];
const NAMESPACES_TARGETS: &[Target] = &[
    Target::Wall {
        of: SS_LOOP,
        at_most: 1.0 / 200.0,
        wording: "1/200 of ss, namespace by namespace",
    },
    Target::Growth {
        from: Phase::FewNamespaces,
        at_most: 1.40,
        wording: "1.40 x the same at 10 namespaces",
    },
];

const SOCKETS: &[&str] = &["sockets", "-t", "-a", "-n"];
const SOCKETS_OWNERS: &[&str] = &["sockets", "-t", "-a", "-n", "-p"];
const SOCKETS_JSONL: &[&str] = &["sockets", "-t", "-a", "-n", "--format", "jsonl"];
const SOCKETS_OWNERS_JSONL: &[&str] = &["sockets", "-t", "-a", "-n", "-p", "--format", "jsonl"];
const SOCKETS_EVERYWHERE: &[&str] = &["sockets", "--netns", "all", "-a", "-n", "-p"];
const FLOWS_EVERYWHERE: &[&str] = &["flows", "--netns", "all", "-n", "-p"];

/// Every comparison, in the order of the report.
pub const SUITE: &[Entry] = &[
    // The start: what a run costs where there is next to nothing to show.
    Entry {
        name: SS,
        phase: Phase::Empty,
        program: Program::Peer("ss"),
        arguments: &["-tanH"],
        sockets_a_line: Some(1),
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
        arguments: SOCKETS,
        sockets_a_line: Some(1),
        targets: START_TARGETS,
        ..ENTRY
    },
    Entry {
        name: SS_OWNERS,
        phase: Phase::Empty,
        program: Program::Peer("ss"),
        arguments: &["-tanpH"],
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "flows with owners",
        phase: Phase::Empty,
        arguments: &["flows", "-n", "-p"],
        targets: START_OWNERS_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "sockets with owners",
        phase: Phase::Empty,
        arguments: SOCKETS_OWNERS,
        sockets_a_line: Some(1),
        targets: START_OWNERS_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "first record",
        phase: Phase::Empty,
        arguments: SOCKETS_JSONL,
        until: Until::FirstLine,
        sockets_a_line: Some(1),
        targets: FIRST_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "first record with owners",
        phase: Phase::Empty,
        arguments: SOCKETS_OWNERS_JSONL,
        until: Until::FirstLine,
        sockets_a_line: Some(1),
        targets: FIRST_TARGETS,
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
        arguments: SOCKETS,
        sockets_a_line: Some(1),
        targets: &[
            Target::Wall {
                of: FLOOR,
                at_most: 0.60,
                wording: "0.60 x floor",
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
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "sockets, tcp_info as JSON lines",
        arguments: &["sockets", "-t", "-a", "-n", "-i", "--format", "jsonl"],
        sockets_a_line: Some(1),
        targets: &[
            Target::Wall {
                of: FLOOR,
                at_most: 1.50,
                wording: "1.50 x floor",
            },
            Target::Wall {
                of: SS_INFO,
                at_most: 1.0 / 3.0,
                wording: "1/3 of ss with tcp_info",
            },
        ],
        ..ENTRY
    },
    Entry {
        name: SS_INFO,
        program: Program::Peer("ss"),
        arguments: &["-tinaH"],
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "flows",
        arguments: &["flows", "-n"],
        targets: &[
            Target::Wall {
                of: FLOOR,
                at_most: 0.45,
                wording: "0.45 x floor",
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
        name: "ss -tanH, the drop-in",
        arguments: &["ss", "-tanH"],
        sockets_a_line: Some(1),
        targets: &[
            Target::Wall {
                of: SS,
                at_most: 1.0 / 5.0,
                wording: "1/5 of ss",
            },
            Target::PeakBeside {
                of: SS,
                more_bytes: DROPIN_MORE_BYTES,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "ss -tanH, the drop-in, by netlink",
        arguments: &["ss", "--source=diag", "-tanH"],
        sockets_a_line: Some(1),
        targets: &[Target::Wall {
            of: SS,
            at_most: 1.0 / 3.0,
            wording: "1/3 of ss",
        }],
        ..ENTRY
    },
    Entry {
        name: "ss -tinaH, the drop-in",
        arguments: &["ss", "-tinaH"],
        targets: &[
            Target::Wall {
                of: SS_INFO,
                at_most: 1.0 / 4.0,
                wording: "1/4 of ss with tcp_info",
            },
            Target::PeakBeside {
                of: SS_INFO,
                more_bytes: DROPIN_MORE_BYTES,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "ss -tanpH, the drop-in",
        arguments: &["ss", "-tanpH"],
        sockets_a_line: Some(1),
        targets: &[
            Target::Wall {
                of: SS_OWNERS,
                at_most: 1.0 / 25.0,
                wording: "1/25 of ss with owners",
            },
            Target::PeakBeside {
                of: SS_OWNERS,
                more_bytes: DROPIN_MORE_BYTES,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "ss of one port, the drop-in",
        arguments: &["ss", "-tanH", "sport", "=", ":6000"],
        targets: &[Target::Wall {
            of: SS_PORT,
            at_most: 1.0 / 2.0,
            wording: "1/2 of ss of one port",
        }],
        ..ENTRY
    },
    Entry {
        name: SS_PORT,
        program: Program::Peer("ss"),
        arguments: &["-tanH", "sport", "=", ":6000"],
        ..ENTRY
    },
    Entry {
        name: "stand-in for lstf",
        arguments: &["lstf", "-n"],
        targets: &[Target::Wall {
            of: LSTF,
            at_most: 1.0 / 4.0,
            wording: "1/4 of lstf",
        }],
        ..ENTRY
    },
    Entry {
        name: LSTF,
        program: Program::Peer("lstf"),
        arguments: &["-n"],
        ..ENTRY
    },
    Entry {
        name: "sockets with owners",
        arguments: SOCKETS_OWNERS,
        sockets_a_line: Some(1),
        targets: &[
            Target::Wall {
                of: FLOOR,
                at_most: 1.0,
                wording: "1.0 x floor",
            },
            Target::Wall {
                of: LSOF,
                at_most: 1.0 / 20.0,
                wording: "1/20 of lsof",
            },
            Target::About {
                of: SS_OWNERS,
                wording: "about 1/30 of ss with owners",
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "sockets with owners by /proc",
        arguments: &["sockets", "-t", "-a", "-n", "-p", "--source", "diag"],
        sockets_a_line: Some(1),
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
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: LSOF,
        program: Program::Peer("lsof"),
        arguments: &["-nP", "-iTCP"],
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "first record",
        arguments: SOCKETS_JSONL,
        until: Until::FirstLine,
        sockets_a_line: Some(1),
        targets: FIRST_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "check",
        arguments: &["check"],
        targets: &[Target::FloorAnd {
            floors: 2.5,
            more_ns: 100_000_000,
            times: 1.0,
            wording: "2.5 x floor + 100 ms",
        }],
        ..ENTRY
    },
    // For information.
    Entry {
        name: "first record with owners",
        arguments: SOCKETS_OWNERS_JSONL,
        until: Until::FirstLine,
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "flows with owners",
        arguments: &["flows", "-n", "-p"],
        ..ENTRY
    },
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
    // The drop-in beside the original.
    Entry {
        name: "netstat, the drop-in",
        arguments: &["netstat", "-atn"],
        sockets_a_line: Some(1),
        targets: &[
            Target::Wall {
                of: NETSTAT,
                at_most: 1.0 / 8.0,
                wording: "1/8 of netstat",
            },
            Target::PeakBeside {
                of: NETSTAT,
                more_bytes: DROPIN_MORE_BYTES,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: NETSTAT,
        program: Program::Peer("netstat"),
        arguments: &["-atn"],
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "netstat with owners, the drop-in",
        arguments: &["netstat", "-atnp"],
        sockets_a_line: Some(1),
        targets: &[
            Target::Wall {
                of: NETSTAT_OWNERS,
                at_most: 1.0 / 100.0,
                wording: "1/100 of netstat with owners",
            },
            Target::PeakBeside {
                of: NETSTAT_OWNERS,
                more_bytes: DROPIN_MORE_BYTES,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: NETSTAT_OWNERS,
        program: Program::Peer("netstat"),
        arguments: &["-atnp"],
        sockets_a_line: Some(1),
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
        arguments: SOCKETS,
        sockets_a_line: Some(1),
        targets: MEMORY_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "sockets with owners",
        phase: Phase::Memory,
        arguments: SOCKETS_OWNERS,
        sockets_a_line: Some(1),
        targets: MEMORY_OWNERS_TARGETS,
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
        sockets_a_line: Some(1),
        ..ENTRY
    },
    // Namespaces: the same sockets in few of them, to see the growth, then in many.
    Entry {
        name: "sockets of every namespace",
        phase: Phase::FewNamespaces,
        arguments: SOCKETS_EVERYWHERE,
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "flows of every namespace",
        phase: Phase::FewNamespaces,
        arguments: FLOWS_EVERYWHERE,
        sockets_a_line: Some(SOCKETS_IN_SET),
        ..ENTRY
    },
    Entry {
        name: FLOOR,
        phase: Phase::FewNamespaces,
        program: Program::Floor,
        ..ENTRY
    },
    Entry {
        name: "sockets of every namespace",
        phase: Phase::Namespaces,
        arguments: SOCKETS_EVERYWHERE,
        sockets_a_line: Some(1),
        targets: NAMESPACES_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "flows of every namespace",
        phase: Phase::Namespaces,
        arguments: FLOWS_EVERYWHERE,
        sockets_a_line: Some(SOCKETS_IN_SET),
        targets: NAMESPACES_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "check of every namespace",
        phase: Phase::Namespaces,
        arguments: &["check", "--netns", "all"],
        targets: &[Target::FloorAnd {
            floors: 2.5,
            more_ns: 100_000_000,
            times: 3.0,
            wording: "3 x (2.5 x floor + 100 ms)",
        }],
        ..ENTRY
    },
    // Without owners and with no protocol but TCP and UDP: the least that anyone would ask.
    Entry {
        name: SS_LOOP,
        phase: Phase::Namespaces,
        program: Program::Peer("sh"),
        arguments: &[
            "-c",
            "cd /run/netns && for name in *; do ss -N $name -tuanH || exit 1; done",
        ],
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: FLOOR,
        phase: Phase::Namespaces,
        program: Program::Floor,
        ..ENTRY
    },
    // A list of namespaces, by name and with what is in each.
    Entry {
        name: "names of namespaces",
        phase: Phase::Listed,
        arguments: &["ns", "list", "-1"],
        sockets_a_line: Some(1),
        targets: &[Target::Wall {
            of: IP_LIST,
            at_most: 1.0 / 3.0,
            wording: "1/3 of ip netns list",
        }],
        ..ENTRY
    },
    Entry {
        name: IP_LIST,
        phase: Phase::Listed,
        program: Program::Peer("ip"),
        arguments: &["netns", "list"],
        sockets_a_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "namespaces with counts",
        phase: Phase::Listed,
        arguments: &["ns", "list"],
        sockets_a_line: Some(1),
        targets: &[Target::Within {
            at_most_ns: 1_000_000_000,
        }],
        ..ENTRY
    },
    // Options of others' sockets, read and set.
    Entry {
        name: "keepalive list",
        phase: Phase::Kept,
        arguments: &["keepalive", "list", "-n"],
        sockets_a_line: Some(1),
        targets: HALF_A_SECOND,
        ..ENTRY
    },
    Entry {
        name: "keepalive set",
        phase: Phase::Kept,
        arguments: &["keepalive", "set", "--yes", "state", "established"],
        targets: HALF_A_SECOND,
        ..ENTRY
    },
    Entry {
        name: "keepalive unset",
        phase: Phase::Kept,
        arguments: &["keepalive", "unset", "--yes", "state", "established"],
        ..ENTRY
    },
    // What captured transfers tell; everything is decided for every segment, whatever is printed.
    Entry {
        name: "analyze",
        phase: Phase::Captured,
        arguments: &["analyze", CAPTURE, "--format", "json"],
        targets: &[
            Target::Wall {
                of: TCPTRACE,
                at_most: 1.0,
                wording: "1.0 x tcptrace -l",
            },
            Target::Wall {
                of: TSHARK,
                at_most: 1.0 / 30.0,
                wording: "1/30 of tshark -z expert",
            },
            Target::Peak {
                at_most: 50_000_000,
                sockets_min: CAPTURE_PACKETS_MIN,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "analyze, each flag listed",
        phase: Phase::Captured,
        arguments: &["analyze", CAPTURE, "--flags", "--format", "csv"],
        ..ENTRY
    },
    Entry {
        name: TCPTRACE,
        phase: Phase::Captured,
        program: Program::Peer("tcptrace"),
        arguments: &["-l", "-n", CAPTURE],
        ..ENTRY
    },
    Entry {
        name: TSHARK,
        phase: Phase::Captured,
        program: Program::Peer("tshark"),
        arguments: &["-n", "-q", "-z", "expert", "-r", CAPTURE],
        ..ENTRY
    },
    Entry {
        name: "graph",
        phase: Phase::Drawn,
        arguments: &["graph", CAPTURE, "-o", GRAPH],
        writes: Some(GRAPH),
        targets: &[
            Target::Within {
                at_most_ns: 1_500_000_000,
            },
            Target::Written { below: 3_000_000 },
            Target::About {
                of: TCPTRACE_GRAPH,
                wording: "tcptrace, the first panel only",
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "graph, a page",
        phase: Phase::Drawn,
        arguments: &["graph", CAPTURE, "-o", "graph.html"],
        writes: Some("graph.html"),
        ..ENTRY
    },
    Entry {
        name: TCPTRACE_GRAPH,
        phase: Phase::Drawn,
        program: Program::Peer("tcptrace"),
        arguments: &["-S", "-n", CAPTURE],
        ..ENTRY
    },
    Entry {
        name: "analyze",
        phase: Phase::Crowded,
        arguments: &["analyze", CAPTURE, "--format", "json"],
        targets: &[Target::Peak {
            at_most: 300_000_000,
            sockets_min: CAPTURE_PACKETS_MIN,
        }],
        ..ENTRY
    },
    Entry {
        name: "analyze, the biggest",
        phase: Phase::Crowded,
        arguments: &["analyze", CAPTURE],
        targets: &[Target::Peak {
            at_most: 300_000_000,
            sockets_min: CAPTURE_PACKETS_MIN,
        }],
        ..ENTRY
    },
    Entry {
        name: "explain a log",
        phase: Phase::Logged,
        arguments: &["explain", "-f", LOG],
        targets: &[Target::Within {
            at_most_ns: 1_000_000_000,
        }],
        ..ENTRY
    },
    Entry {
        name: "explain a name",
        phase: Phase::Logged,
        arguments: &["explain", "CLOSE_WAIT"],
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
        for phase in Phase::ALL {
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
            for target in entry.targets {
                if let Target::Wall { of, .. } | Target::About { of, .. } | Target::PeakBeside { of, .. } =
                    target
                {
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
    fn growth_is_of_the_same_command_in_an_earlier_phase() {
        let place = |phase| Phase::ALL.iter().position(|other| *other == phase);
        for entry in SUITE {
            for target in entry.targets {
                if let Target::Growth { from, .. } = target {
                    assert!(place(*from) < place(entry.phase), "{}", entry.name);
                    let earlier = entries(*from).find(|other| other.name == entry.name);
                    assert_eq!(
                        earlier.map(Entry::command),
                        Some(entry.command()),
                        "{}",
                        entry.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_first_line_is_judged_only_where_it_is_measured() {
        for entry in SUITE {
            let judged = entry
                .targets
                .iter()
                .any(|target| matches!(target, Target::First { .. }));
            assert!(!judged || entry.until == Until::FirstLine, "{}", entry.name);
            // A ratio of a first line to a whole process would be neither.
            assert!(
                entry.until == Until::Exit
                    || entry
                        .targets
                        .iter()
                        .all(|target| matches!(target, Target::First { .. })),
                "{}",
                entry.name
            );
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
