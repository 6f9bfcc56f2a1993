//! The compared commands and their targets. Change them here.

use crate::entry::{Entry, Phase, Program, Target};
use crate::namespaces::SOCKETS_IN_SET;

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

/// The capture of [`Phase::CapturedTransfers`] and the other phases with transfers.
pub const CAPTURE: &str = "transfers.pcap";
/// The log of [`Phase::KernelLog`].
pub const LOG: &str = "kernel.log";
/// Least number of packets for targets of memory.
const CAPTURE_PACKETS_MIN: usize = 2_000_000;
/// Output file of [`Phase::SingleTransfer`].
const GRAPH: &str = "graph.svg";

/// Least number of sockets for targets of memory.
const MEMORY_SOCKETS_MIN: usize = 100_000;

const fn floor(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry::new(Program::Floor, name, arguments)
}

pub(crate) const fn sockeye(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry::new(Program::Sockeye, name, arguments)
}

pub(crate) const fn peer(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Entry {
    Entry::new(Program::Peer(program), name, arguments)
}

const fn wall(of: &'static str, at_most: f64, wording: &'static str) -> Target {
    Target::Wall { of, at_most, wording }
}

/// What a drop-in may use in addition to the memory of the original.
const fn dropin_peak(of: &'static str) -> Target {
    Target::PeakOver {
        of,
        more_bytes: 4_000_000,
    }
}

const MEMORY_TARGETS: &[Target] = &[Target::Peak {
    at_most: 12_000_000,
    sockets_min: MEMORY_SOCKETS_MIN,
}];
const MEMORY_OWNERS_TARGETS: &[Target] = &[Target::Peak {
    at_most: 40_000_000,
    sockets_min: MEMORY_SOCKETS_MIN,
}];
/// Least number of sockets for targets of memory where each is a flow.
const FLOWS_MIN: usize = 79_000;
const DISTINCT_TARGETS: &[Target] = &[
    wall(FLOOR, 0.60, "0.60 x floor"),
    Target::Peak {
        at_most: 20_000_000,
        sockets_min: FLOWS_MIN,
    },
];
const DISTINCT_OWNERS_TARGETS: &[Target] = &[
    wall(FLOOR, 1.10, "1.10 x floor"),
    Target::Peak {
        at_most: 30_000_000,
        sockets_min: FLOWS_MIN,
    },
];
const START_TARGETS: &[Target] = &[wall(SS, 1.0, "1.0 x ss")];
/// Compared with a peer that also searches the host's processes for owners. If a process may not be read in
/// `/proc`, such as the first process of a sandbox, sockeye uses BPF, which takes 4 ms to load.
const START_OWNERS_TARGETS: &[Target] = &[wall(SS_OWNERS, 2.0, "2.0 x ss with owners")];
const FIRST_TARGETS: &[Target] = &[Target::First { below_ns: 10_000_000 }];
/// For 10,000 sockets.
const WITHIN_HALF_A_SECOND: &[Target] = &[Target::Within {
    at_most_ns: 500_000_000,
}];
const NAMESPACES_TARGETS: &[Target] = &[
    wall(SS_LOOP, 1.0 / 200.0, "1/200 of ss, namespace by namespace"),
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
    peer(SS, "ss", &["-tanH"]).during(Phase::Empty).per_line(1),
    sockeye("flows", &["flows", "-n"])
        .during(Phase::Empty)
        .targets(START_TARGETS),
    sockeye("sockets", SOCKETS)
        .during(Phase::Empty)
        .per_line(1)
        .targets(START_TARGETS),
    peer(SS_OWNERS, "ss", &["-tanpH"])
        .during(Phase::Empty)
        .per_line(1),
    sockeye("flows with owners", &["flows", "-n", "-p"])
        .during(Phase::Empty)
        .targets(START_OWNERS_TARGETS),
    sockeye("sockets with owners", SOCKETS_OWNERS)
        .during(Phase::Empty)
        .per_line(1)
        .targets(START_OWNERS_TARGETS),
    sockeye("first record", SOCKETS_JSONL)
        .during(Phase::Empty)
        .first_line()
        .per_line(1)
        .targets(FIRST_TARGETS),
    sockeye("first record with owners", SOCKETS_OWNERS_JSONL)
        .during(Phase::Empty)
        .first_line()
        .per_line(1)
        .targets(FIRST_TARGETS),
    floor(FLOOR, &[]).during(Phase::Empty),
    // Main task.
    floor(FLOOR, &[]),
    sockeye("sockets, table", SOCKETS).per_line(1).targets(&[
        wall(FLOOR, 0.60, "0.60 x floor"),
        wall(SS, 1.0 / 3.0, "1/3 of ss"),
    ]),
    peer(SS, "ss", &["-tanH"]).per_line(1),
    sockeye(
        "sockets, tcp_info as JSON lines",
        &["sockets", "-t", "-a", "-n", "-i", "--format", "jsonl"],
    )
    .per_line(1)
    .targets(&[
        wall(FLOOR, 1.50, "1.50 x floor"),
        wall(SS_INFO, 1.0 / 3.0, "1/3 of ss with tcp_info"),
    ]),
    peer(SS_INFO, "ss", &["-tinaH"]).per_line(1),
    sockeye("flows", &["flows", "-n"]).targets(&[
        wall(FLOOR, 0.45, "0.45 x floor"),
        wall(SS, 1.0 / 4.0, "1/4 of ss"),
    ]),
    sockeye("ss -tanH, the drop-in", &["ss", "-tanH"])
        .per_line(1)
        .targets(&[wall(SS, 1.0 / 5.0, "1/5 of ss"), dropin_peak(SS)]),
    sockeye(
        "ss -tanH, the drop-in, by netlink",
        &["ss", "--source=diag", "-tanH"],
    )
    .per_line(1)
    .targets(&[wall(SS, 1.0 / 3.0, "1/3 of ss")]),
    sockeye("ss -tinaH, the drop-in", &["ss", "-tinaH"]).targets(&[
        wall(SS_INFO, 1.0 / 4.0, "1/4 of ss with tcp_info"),
        dropin_peak(SS_INFO),
    ]),
    sockeye("ss -tanpH, the drop-in", &["ss", "-tanpH"])
        .per_line(1)
        .targets(&[
            wall(SS_OWNERS, 1.0 / 25.0, "1/25 of ss with owners"),
            dropin_peak(SS_OWNERS),
        ]),
    sockeye(
        "ss of one port, the drop-in",
        &["ss", "-tanH", "sport", "=", ":6000"],
    )
    .targets(&[wall(SS_PORT, 1.0 / 2.0, "1/2 of ss of one port")]),
    peer(SS_PORT, "ss", &["-tanH", "sport", "=", ":6000"]),
    sockeye("stand-in for lstf", &["lstf", "-n"]).targets(&[wall(LSTF, 1.0 / 4.0, "1/4 of lstf")]),
    peer(LSTF, "lstf", &["-n"]),
    sockeye("sockets with owners", SOCKETS_OWNERS)
        .per_line(1)
        .targets(&[
            wall(FLOOR, 1.0, "1.0 x floor"),
            wall(LSOF, 1.0 / 20.0, "1/20 of lsof"),
            Target::About {
                of: SS_OWNERS,
                wording: "about 1/30 of ss with owners",
            },
        ]),
    sockeye(
        "sockets with owners by /proc",
        &["sockets", "-t", "-a", "-n", "-p", "--source", "diag"],
    )
    .per_line(1)
    .targets(&[wall(SS_OWNERS, 1.0 / 6.0, "1/6 of ss with owners")]),
    peer(SS_OWNERS, "ss", &["-tanpH"]).per_line(1),
    peer(LSOF, "lsof", &["-nP", "-iTCP"]).per_line(1),
    sockeye("first record", SOCKETS_JSONL)
        .first_line()
        .per_line(1)
        .targets(FIRST_TARGETS),
    sockeye("check", &["check"]).targets(&[Target::FloorAnd {
        floors: 2.5,
        more_ns: 100_000_000,
        times: 1.0,
        wording: "2.5 x floor + 100 ms",
    }]),
    // For information.
    sockeye("first record with owners", SOCKETS_OWNERS_JSONL)
        .first_line()
        .per_line(1),
    sockeye("flows with owners", &["flows", "-n", "-p"]),
    floor("floor, with tcp_info", &["--info"]),
    floor("floor, sock_diag v2", &["--v2"]),
    floor("floor, sock_diag v2, with tcp_info", &["--v2", "--info"]),
    // The drop-in compared with the original.
    sockeye("netstat, the drop-in", &["netstat", "-atn"])
        .per_line(1)
        .targets(&[wall(NETSTAT, 1.0 / 8.0, "1/8 of netstat"), dropin_peak(NETSTAT)]),
    peer(NETSTAT, "netstat", &["-atn"]).per_line(1),
    sockeye("netstat with owners, the drop-in", &["netstat", "-atnp"])
        .per_line(1)
        .targets(&[
            wall(NETSTAT_OWNERS, 1.0 / 100.0, "1/100 of netstat with owners"),
            dropin_peak(NETSTAT_OWNERS),
        ]),
    peer(NETSTAT_OWNERS, "netstat", &["-atnp"]).per_line(1),
    peer("/proc, IPv4 only", "cat", &["/proc/net/tcp"]),
    // Memory.
    sockeye("flows", &["flows", "-n"])
        .during(Phase::Memory)
        .targets(MEMORY_TARGETS),
    sockeye("sockets, table", SOCKETS)
        .during(Phase::Memory)
        .per_line(1)
        .targets(MEMORY_TARGETS),
    sockeye("sockets with owners", SOCKETS_OWNERS)
        .during(Phase::Memory)
        .per_line(1)
        .targets(MEMORY_OWNERS_TARGETS),
    floor(FLOOR, &[]).during(Phase::Memory),
    peer(SS, "ss", &["-tanH"]).during(Phase::Memory).per_line(1),
    // As on a public server: each socket is a flow.
    floor(FLOOR, &[]).during(Phase::DistinctClients),
    sockeye("flows", &["flows", "-n"])
        .during(Phase::DistinctClients)
        .per_line(1)
        .targets(DISTINCT_TARGETS),
    sockeye("flows of prefixes", &["flows", "-n", "--group-by", "prefix/24"])
        .during(Phase::DistinctClients)
        .per_line(1)
        .targets(DISTINCT_TARGETS),
    sockeye("flows as JSON", &["flows", "-n", "--format", "json"])
        .during(Phase::DistinctClients)
        .per_line(1)
        .targets(DISTINCT_TARGETS),
    sockeye("flows as CSV", &["flows", "-n", "--format", "csv"])
        .during(Phase::DistinctClients)
        .per_line(1)
        .targets(DISTINCT_TARGETS),
    sockeye("flows with owners", &["flows", "-n", "-p"])
        .during(Phase::DistinctClients)
        .per_line(1)
        .targets(DISTINCT_OWNERS_TARGETS),
    sockeye("sockets, table", SOCKETS)
        .during(Phase::DistinctClients)
        .per_line(1),
    peer(SS, "ss", &["-tanH"])
        .during(Phase::DistinctClients)
        .per_line(1),
    // Namespaces: the same sockets in few of them, to see the growth, then in many.
    sockeye("sockets of every namespace", SOCKETS_EVERYWHERE)
        .during(Phase::FewNamespaces)
        .per_line(1),
    sockeye("flows of every namespace", FLOWS_EVERYWHERE)
        .during(Phase::FewNamespaces)
        .per_line(SOCKETS_IN_SET),
    floor(FLOOR, &[]).during(Phase::FewNamespaces),
    sockeye("sockets of every namespace", SOCKETS_EVERYWHERE)
        .during(Phase::Namespaces)
        .per_line(1)
        .targets(NAMESPACES_TARGETS),
    sockeye("flows of every namespace", FLOWS_EVERYWHERE)
        .during(Phase::Namespaces)
        .per_line(SOCKETS_IN_SET)
        .targets(NAMESPACES_TARGETS),
    sockeye("check of every namespace", &["check", "--netns", "all"])
        .during(Phase::Namespaces)
        .targets(&[Target::FloorAnd {
            floors: 2.5,
            more_ns: 100_000_000,
            times: 3.0,
            wording: "3 x (2.5 x floor + 100 ms)",
        }]),
    // Without owners and only TCP and UDP: the simplest useful query.
    peer(
        SS_LOOP,
        "sh",
        &[
            "-c",
            "cd /run/netns && for name in *; do ss -N $name -tuanH || exit 1; done",
        ],
    )
    .during(Phase::Namespaces)
    .per_line(1),
    floor(FLOOR, &[]).during(Phase::Namespaces),
    // A list of namespaces, by name and with their content.
    sockeye("names of namespaces", &["ns", "list", "-1"])
        .during(Phase::ListedNamespaces)
        .per_line(1)
        .targets(&[wall(IP_LIST, 1.0 / 3.0, "1/3 of ip netns list")]),
    peer(IP_LIST, "ip", &["netns", "list"])
        .during(Phase::ListedNamespaces)
        .per_line(1),
    sockeye("namespaces with counts", &["ns", "list"])
        .during(Phase::ListedNamespaces)
        .per_line(1)
        .targets(&[Target::Within {
            at_most_ns: 1_000_000_000,
        }]),
    // Options of other programs' sockets, read and set.
    sockeye("keepalive list", &["keepalive", "list", "-n"])
        .during(Phase::SocketOptions)
        .per_line(1)
        .targets(WITHIN_HALF_A_SECOND),
    sockeye(
        "keepalive set",
        &["keepalive", "set", "--yes", "state", "established"],
    )
    .during(Phase::SocketOptions)
    .targets(WITHIN_HALF_A_SECOND),
    sockeye(
        "keepalive unset",
        &["keepalive", "unset", "--yes", "state", "established"],
    )
    .during(Phase::SocketOptions),
    // Analysis of captured transfers; every segment is analysed, whatever is printed.
    sockeye("analyze", &["analyze", CAPTURE, "--format", "json"])
        .during(Phase::CapturedTransfers)
        .targets(&[
            wall(TCPTRACE, 1.0, "1.0 x tcptrace -l"),
            wall(TSHARK, 1.0 / 30.0, "1/30 of tshark -z expert"),
            Target::Peak {
                at_most: 50_000_000,
                sockets_min: CAPTURE_PACKETS_MIN,
            },
        ]),
    sockeye(
        "analyze, each flag listed",
        &["analyze", CAPTURE, "--flags", "--format", "csv"],
    )
    .during(Phase::CapturedTransfers),
    peer(TCPTRACE, "tcptrace", &["-l", "-n", CAPTURE]).during(Phase::CapturedTransfers),
    peer(TSHARK, "tshark", &["-n", "-q", "-z", "expert", "-r", CAPTURE]).during(Phase::CapturedTransfers),
    sockeye("graph", &["graph", CAPTURE, "-o", GRAPH])
        .during(Phase::SingleTransfer)
        .writes(GRAPH)
        .targets(&[
            Target::Within {
                at_most_ns: 1_500_000_000,
            },
            Target::Written { below: 3_000_000 },
            Target::About {
                of: TCPTRACE_GRAPH,
                wording: "tcptrace, the first panel only",
            },
        ]),
    sockeye("graph, a page", &["graph", CAPTURE, "-o", "graph.html"])
        .during(Phase::SingleTransfer)
        .writes("graph.html"),
    peer(TCPTRACE_GRAPH, "tcptrace", &["-S", "-n", CAPTURE]).during(Phase::SingleTransfer),
    sockeye("analyze", &["analyze", CAPTURE, "--format", "json"])
        .during(Phase::ManyTransfers)
        .targets(&[Target::Peak {
            at_most: 300_000_000,
            sockets_min: CAPTURE_PACKETS_MIN,
        }]),
    sockeye("analyze, the biggest", &["analyze", CAPTURE])
        .during(Phase::ManyTransfers)
        .targets(&[Target::Peak {
            at_most: 300_000_000,
            sockets_min: CAPTURE_PACKETS_MIN,
        }]),
    sockeye("analyze", &["analyze", CAPTURE, "--format", "json"])
        .during(Phase::BulkTransfers)
        .targets(&[wall(TCPTRACE, 1.0 / 3.0, "1/3 of tcptrace -l")]),
    sockeye(
        "analyze on one thread",
        &["analyze", CAPTURE, "--format", "json", "--jobs", "1"],
    )
    .during(Phase::BulkTransfers),
    peer(TCPTRACE, "tcptrace", &["-l", "-n", CAPTURE]).during(Phase::BulkTransfers),
    sockeye("analyze, the biggest", &["analyze", CAPTURE])
        .during(Phase::ShortTransfers)
        .targets(&[
            wall(TCPTRACE, 1.0 / 3.0, "1/3 of tcptrace -l"),
            Target::Peak {
                at_most: 64_000_000,
                sockets_min: CAPTURE_PACKETS_MIN / 2,
            },
        ]),
    sockeye("analyze on one thread", &["analyze", CAPTURE, "--jobs", "1"]).during(Phase::ShortTransfers),
    peer(TCPTRACE, "tcptrace", &["-l", "-n", CAPTURE]).during(Phase::ShortTransfers),
    sockeye("analyze, the biggest", &["analyze", CAPTURE])
        .during(Phase::HalfOpenConnections)
        .targets(&[Target::Peak {
            // 150 bytes for each of the million that are kept.
            at_most: 170_000_000,
            sockets_min: CAPTURE_PACKETS_MIN / 2,
        }]),
    sockeye("explain a log", &["explain", "-f", LOG])
        .during(Phase::KernelLog)
        .targets(&[Target::Within {
            at_most_ns: 1_000_000_000,
        }]),
    sockeye("explain a name", &["explain", "CLOSE_WAIT"]).during(Phase::KernelLog),
];

/// The entries of one phase.
pub fn entries(phase: Phase) -> impl Iterator<Item = &'static Entry> {
    SUITE.iter().filter(move |entry| entry.phase == phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Until;
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
