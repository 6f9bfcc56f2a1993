//! The compared commands and their targets. Change them here.

use crate::measure::Output;
use crate::namespaces::SOCKETS_IN_SET;

/// The host that a command runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Without a load: one listener.
    Empty,
    /// About 79,000 sockets.
    Speed,
    /// More than 100,000 sockets.
    Memory,
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
    /// A kernel log of 100,000 lines, in the current folder.
    KernelLog,
    /// Only what the command creates or removes: see [`netns_operations`](crate::netns_operations).
    NetnsOperations,
}

impl Phase {
    /// All phases, in the order of measurement.
    pub const ALL: [Self; 12] = [
        Self::Empty,
        Self::Speed,
        Self::Memory,
        Self::SocketOptions,
        Self::FewNamespaces,
        Self::Namespaces,
        Self::ListedNamespaces,
        Self::CapturedTransfers,
        Self::SingleTransfer,
        Self::ManyTransfers,
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
    /// Length of the written file: see [`Entry::writes`].
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

/// Name of the entry that is the limit.
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

/// The capture of [`Phase::CapturedTransfers`], [`Phase::SingleTransfer`] and [`Phase::ManyTransfers`].
pub const CAPTURE: &str = "transfers.pcap";
/// The log of [`Phase::KernelLog`].
pub const LOG: &str = "kernel.log";
/// Least number of packets for targets of memory.
const CAPTURE_PACKETS_MIN: usize = 2_000_000;
/// Output file of [`Phase::SingleTransfer`].
const GRAPH: &str = "graph.svg";

/// Least number of sockets for targets of memory.
const MEMORY_SOCKETS_MIN: usize = 100_000;

/// Additional memory that a drop-in may use compared with the original.
const DROPIN_MORE_BYTES: u64 = 4_000_000;

pub(crate) const ENTRY: Entry = Entry {
    name: "",
    phase: Phase::Speed,
    program: Program::Sockeye,
    arguments: &[],
    until: Until::Exit,
    sockets_per_line: None,
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
/// Compared with a peer that also searches the host's processes for owners. If a process may not be read in
/// `/proc`, such as the first process of a sandbox, sockeye uses BPF, which takes 4 ms to load.
const START_OWNERS_TARGETS: &[Target] = &[Target::Wall {
    of: SS_OWNERS,
    at_most: 2.0,
    wording: "2.0 x ss with owners",
}];
const FIRST_TARGETS: &[Target] = &[Target::First { below_ns: 10_000_000 }];
/// For 10,000 sockets.
const WITHIN_HALF_A_SECOND: &[Target] = &[Target::Within {
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

/// All comparisons, in the order of the report.
pub const SUITE: &[Entry] = &[
    // Start: the cost of a run with almost nothing to show.
    Entry {
        name: SS,
        phase: Phase::Empty,
        program: Program::Peer("ss"),
        arguments: &["-tanH"],
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
        targets: START_TARGETS,
        ..ENTRY
    },
    Entry {
        name: SS_OWNERS,
        phase: Phase::Empty,
        program: Program::Peer("ss"),
        arguments: &["-tanpH"],
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
        targets: START_OWNERS_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "first record",
        phase: Phase::Empty,
        arguments: SOCKETS_JSONL,
        until: Until::FirstLine,
        sockets_per_line: Some(1),
        targets: FIRST_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "first record with owners",
        phase: Phase::Empty,
        arguments: SOCKETS_OWNERS_JSONL,
        until: Until::FirstLine,
        sockets_per_line: Some(1),
        targets: FIRST_TARGETS,
        ..ENTRY
    },
    Entry {
        name: FLOOR,
        phase: Phase::Empty,
        program: Program::Floor,
        ..ENTRY
    },
    // Main task.
    Entry {
        name: FLOOR,
        program: Program::Floor,
        ..ENTRY
    },
    Entry {
        name: "sockets, table",
        arguments: SOCKETS,
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "sockets, tcp_info as JSON lines",
        arguments: &["sockets", "-t", "-a", "-n", "-i", "--format", "jsonl"],
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
        targets: &[
            Target::Wall {
                of: SS,
                at_most: 1.0 / 5.0,
                wording: "1/5 of ss",
            },
            Target::PeakOver {
                of: SS,
                more_bytes: DROPIN_MORE_BYTES,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "ss -tanH, the drop-in, by netlink",
        arguments: &["ss", "--source=diag", "-tanH"],
        sockets_per_line: Some(1),
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
            Target::PeakOver {
                of: SS_INFO,
                more_bytes: DROPIN_MORE_BYTES,
            },
        ],
        ..ENTRY
    },
    Entry {
        name: "ss -tanpH, the drop-in",
        arguments: &["ss", "-tanpH"],
        sockets_per_line: Some(1),
        targets: &[
            Target::Wall {
                of: SS_OWNERS,
                at_most: 1.0 / 25.0,
                wording: "1/25 of ss with owners",
            },
            Target::PeakOver {
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
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: LSOF,
        program: Program::Peer("lsof"),
        arguments: &["-nP", "-iTCP"],
        sockets_per_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "first record",
        arguments: SOCKETS_JSONL,
        until: Until::FirstLine,
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
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
    // The drop-in compared with the original.
    Entry {
        name: "netstat, the drop-in",
        arguments: &["netstat", "-atn"],
        sockets_per_line: Some(1),
        targets: &[
            Target::Wall {
                of: NETSTAT,
                at_most: 1.0 / 8.0,
                wording: "1/8 of netstat",
            },
            Target::PeakOver {
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
        sockets_per_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "netstat with owners, the drop-in",
        arguments: &["netstat", "-atnp"],
        sockets_per_line: Some(1),
        targets: &[
            Target::Wall {
                of: NETSTAT_OWNERS,
                at_most: 1.0 / 100.0,
                wording: "1/100 of netstat with owners",
            },
            Target::PeakOver {
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
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
        targets: MEMORY_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "sockets with owners",
        phase: Phase::Memory,
        arguments: SOCKETS_OWNERS,
        sockets_per_line: Some(1),
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
        sockets_per_line: Some(1),
        ..ENTRY
    },
    // Namespaces: the same sockets in few of them, to see the growth, then in many.
    Entry {
        name: "sockets of every namespace",
        phase: Phase::FewNamespaces,
        arguments: SOCKETS_EVERYWHERE,
        sockets_per_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "flows of every namespace",
        phase: Phase::FewNamespaces,
        arguments: FLOWS_EVERYWHERE,
        sockets_per_line: Some(SOCKETS_IN_SET),
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
        sockets_per_line: Some(1),
        targets: NAMESPACES_TARGETS,
        ..ENTRY
    },
    Entry {
        name: "flows of every namespace",
        phase: Phase::Namespaces,
        arguments: FLOWS_EVERYWHERE,
        sockets_per_line: Some(SOCKETS_IN_SET),
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
    // Without owners and only TCP and UDP: the simplest useful query.
    Entry {
        name: SS_LOOP,
        phase: Phase::Namespaces,
        program: Program::Peer("sh"),
        arguments: &[
            "-c",
            "cd /run/netns && for name in *; do ss -N $name -tuanH || exit 1; done",
        ],
        sockets_per_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: FLOOR,
        phase: Phase::Namespaces,
        program: Program::Floor,
        ..ENTRY
    },
    // A list of namespaces, by name and with their content.
    Entry {
        name: "names of namespaces",
        phase: Phase::ListedNamespaces,
        arguments: &["ns", "list", "-1"],
        sockets_per_line: Some(1),
        targets: &[Target::Wall {
            of: IP_LIST,
            at_most: 1.0 / 3.0,
            wording: "1/3 of ip netns list",
        }],
        ..ENTRY
    },
    Entry {
        name: IP_LIST,
        phase: Phase::ListedNamespaces,
        program: Program::Peer("ip"),
        arguments: &["netns", "list"],
        sockets_per_line: Some(1),
        ..ENTRY
    },
    Entry {
        name: "namespaces with counts",
        phase: Phase::ListedNamespaces,
        arguments: &["ns", "list"],
        sockets_per_line: Some(1),
        targets: &[Target::Within {
            at_most_ns: 1_000_000_000,
        }],
        ..ENTRY
    },
    // Options of other programs' sockets, read and set.
    Entry {
        name: "keepalive list",
        phase: Phase::SocketOptions,
        arguments: &["keepalive", "list", "-n"],
        sockets_per_line: Some(1),
        targets: WITHIN_HALF_A_SECOND,
        ..ENTRY
    },
    Entry {
        name: "keepalive set",
        phase: Phase::SocketOptions,
        arguments: &["keepalive", "set", "--yes", "state", "established"],
        targets: WITHIN_HALF_A_SECOND,
        ..ENTRY
    },
    Entry {
        name: "keepalive unset",
        phase: Phase::SocketOptions,
        arguments: &["keepalive", "unset", "--yes", "state", "established"],
        ..ENTRY
    },
    // Analysis of captured transfers; every segment is analysed, whatever is printed.
    Entry {
        name: "analyze",
        phase: Phase::CapturedTransfers,
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
        phase: Phase::CapturedTransfers,
        arguments: &["analyze", CAPTURE, "--flags", "--format", "csv"],
        ..ENTRY
    },
    Entry {
        name: TCPTRACE,
        phase: Phase::CapturedTransfers,
        program: Program::Peer("tcptrace"),
        arguments: &["-l", "-n", CAPTURE],
        ..ENTRY
    },
    Entry {
        name: TSHARK,
        phase: Phase::CapturedTransfers,
        program: Program::Peer("tshark"),
        arguments: &["-n", "-q", "-z", "expert", "-r", CAPTURE],
        ..ENTRY
    },
    Entry {
        name: "graph",
        phase: Phase::SingleTransfer,
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
        phase: Phase::SingleTransfer,
        arguments: &["graph", CAPTURE, "-o", "graph.html"],
        writes: Some("graph.html"),
        ..ENTRY
    },
    Entry {
        name: TCPTRACE_GRAPH,
        phase: Phase::SingleTransfer,
        program: Program::Peer("tcptrace"),
        arguments: &["-S", "-n", CAPTURE],
        ..ENTRY
    },
    Entry {
        name: "analyze",
        phase: Phase::ManyTransfers,
        arguments: &["analyze", CAPTURE, "--format", "json"],
        targets: &[Target::Peak {
            at_most: 300_000_000,
            sockets_min: CAPTURE_PACKETS_MIN,
        }],
        ..ENTRY
    },
    Entry {
        name: "analyze, the biggest",
        phase: Phase::ManyTransfers,
        arguments: &["analyze", CAPTURE],
        targets: &[Target::Peak {
            at_most: 300_000_000,
            sockets_min: CAPTURE_PACKETS_MIN,
        }],
        ..ENTRY
    },
    Entry {
        name: "explain a log",
        phase: Phase::KernelLog,
        arguments: &["explain", "-f", LOG],
        targets: &[Target::Within {
            at_most_ns: 1_000_000_000,
        }],
        ..ENTRY
    },
    Entry {
        name: "explain a name",
        phase: Phase::KernelLog,
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
                if let Target::Wall { of, .. } | Target::About { of, .. } | Target::PeakOver { of, .. } =
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
            // The ratio of a first line to a whole run would be meaningless.
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
