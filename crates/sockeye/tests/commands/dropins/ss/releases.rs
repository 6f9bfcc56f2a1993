//! Combinations in which the releases of ss differ.

use super::run::{Case, Stdout};

/// They are compared with every release: an option that it lacks is an error there.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = LINES.iter().map(|line| Case::of(line)).collect();
    for shown in SHOWN {
        for listed in LISTED {
            cases.push(Case::of(&format!("{listed} {shown}")));
        }
    }
    for line in ["-tanp", "-xan", "-tl", "-Qtan", "-tanpT", "-taniem", "-unaO"] {
        for columns in ["80", "40", "0", "-5", " 132x", "+100", "x", ""] {
            cases.push(Case::of(line).set("COLUMNS", columns));
            cases.push(Case::of(line).set("COLUMNS", columns).to(Stdout::File));
        }
        for columns in [40, 80, 200] {
            cases.push(Case::of(line).to(Stdout::Terminal(columns)));
        }
    }
    for line in ["-tanp", "-xanp", "-tanT", "-Btan", "-anp"] {
        cases.push(Case::of(line).by(UNPRIVILEGED_UID));
        cases.push(Case::of(line).there());
    }
    cases
}

const SHOWN: &[&str] = &[
    "",
    "-p",
    "-T",
    "-pT",
    "-e",
    "-i",
    "-m",
    "-o",
    "-O",
    "-H",
    "-Q",
    "-QH",
    "-pe",
    "-Te",
    "-pO",
    "-eO",
    "-oem",
    "-iemo",
    "-piemoO",
    "-Qp",
    "-QiemO",
    "-b",
    "--tos",
    "--cgroup",
    "--inet-sockopt",
    "-p --inet-sockopt",
    "--inet-sockopt -O",
];
const LISTED: &[&str] = &[
    "-tan",
    "-ta",
    "-tl",
    "-uan",
    "-wan",
    "-xan",
    "-0an",
    "-Man",
    "-an",
    "-n -f netlink",
    "-Btn",
    "-4an",
    "-tn",
    "-tuxan",
];
const LINES: &[&str] = &[
    "-V",
    "-B",
    "-Bt",
    "-Ban",
    "-taB",
    "-Ba",
    "-lB",
    "-t --bound-inactive",
    "-tan --no-queues",
    "-tan --no-q",
    "-tan --no",
    "-tan --b",
    "-tan --bo",
    "-tan --bp",
    "-tan --bpf",
    "-tan --bpf-",
    "-tan --bpf-map",
    "-tan --bpf-maps",
    "-tan --bpf-map-id",
    "-tan --bpf-map-id x",
    "-tan --bpf-map-id 0",
    "-tan --bpf-map-id=4294967295",
    "-tan --bpf-maps --bpf-map-id 3",
    "-d",
    "-dan",
    "--dccp",
    "-A dccp",
    "-A dccp,tcp",
    "-A all,!dccp",
    "-A inet -a",
    "-dt",
    "-S",
    "-San",
    "-A sctp",
    "-A sctp,tcp -an",
    "-tn state bound-inactive",
    "-tn state Bound-Inactive",
    "-tn state new-syn-recv",
    "-an state bound-inactive",
    "-tan exclude bound-inactive",
    "-tan exclude bucket",
    "-tn state connected",
    "-tn state synchronized",
    "-tn state big",
    "-tn state closed",
    "-tan sport = 2147483648",
    "-tan sport = 4294967318",
    "-tan sport != 4294967318",
    "-tan sport > 4294967296",
    "-tan sport < 99999999999",
    "-tan sport = 9223372036854775808",
    "-tan src *:99999999999",
    "-xan sport > 3000000000",
    "-xan dport = 99999999999",
    "-0an src link:*:99999999999",
    "-an src link:ip:4294967297",
    "-n -f netlink -a sport = 99999999999",
    "-0a src link:cfm",
    "-tan sport = 22 or src unix:*",
    "-wan fwmark 7",
    "-tan src link:*",
    "-uan src netlink:*",
    "-a -p",
    "-a -T",
    "-s",
    "-Q",
    "-QH",
    "-Qs",
    "-Qtn state listening",
    "-QHtn state listening",
    "-Qxan -4",
    "-tanpH sport = 22",
    "-tan sport = 1",
    "-tanp sport = 1",
    "-tanHp sport = 1",
    "-Qtan sport = 1",
    "-n -f netlink -ep",
    "-n -f netlink -emp",
];

const UNPRIVILEGED_UID: u32 = 65534;
