//! The combinations: options x protocols x states x filters, and what is wrong with each.

use super::files::Files;
use super::run::{Case, Stdout};
use super::socket_set::SocketSet;
use super::vocabulary::{DISPLAY, FILTERS, FILTERS_BY_FAMILY, LONG, PAIRED, PROTOCOLS, STATES, TABLES};
use std::collections::BTreeSet;

/// All of them, each once.
pub(crate) fn cases(socket_set: &SocketSet) -> Vec<Case> {
    let files = Files::new(socket_set);
    let mut cases = Vec::new();
    single_options(&mut cases);
    pairs_of_options(&mut cases);
    states(&mut cases);
    filters(socket_set, &mut cases);
    filter_files(socket_set, &files, &mut cases);
    lists_and_families(&mut cases);
    spellings(&mut cases);
    usage_errors(socket_set, &mut cases);
    outputs(&mut cases);
    environments(&files, &mut cases);
    rights_and_places(socket_set, &mut cases);
    let mut seen = BTreeSet::new();
    cases.retain(|case| seen.insert(case.to_string()));
    cases
}

/// Each option with each protocol, with `-a` and without.
fn single_options(cases: &mut Vec<Case>) {
    for protocol in PROTOCOLS {
        for option in DISPLAY {
            for all in ["", "-a"] {
                cases.push(Case::of(&format!("{option} {protocol} {all}")));
            }
        }
    }
}

/// Each two ways of display with each protocol that the socket set has much of.
fn pairs_of_options(cases: &mut Vec<Case>) {
    for protocol in ["-t", "-u", "-w", "-x", "-0", "-M", "-f netlink"] {
        for (index, one) in PAIRED.iter().enumerate() {
            for other in &PAIRED[index + 1..] {
                cases.push(Case::of(&format!("{protocol} -a {one} {other}")));
            }
        }
        cases.push(Case::of(&format!(
            "{protocol} -napeiomb --tos --cgroup --inet-sockopt"
        )));
        cases.push(Case::of(&format!(
            "{protocol} -OHnapTeiomb --tos --cgroup --inet-sockopt"
        )));
        cases.push(Case::of(&format!("{protocol} -napeiomb --tos --cgroup")).there());
    }
}

fn states(cases: &mut Vec<Case>) {
    for protocol in ["-t", "-u", "-x", "-w", "-0", "", "-M"] {
        for state in STATES {
            cases.push(Case::of(&format!("-n {protocol} state {state}")));
            cases.push(Case::of(&format!("-n {protocol} exclude {state}")));
            cases.push(Case::of(&format!("-nao {protocol} excl {state} ")).there());
        }
        cases.push(Case::of(&format!(
            "-n {protocol} state established state listening"
        )));
        cases.push(Case::of(&format!(
            "-n {protocol} state all exclude established excl time-wait"
        )));
        cases.push(Case::of(&format!(
            "-n {protocol} exclude listening state time-wait"
        )));
    }
}

fn filters(socket_set: &SocketSet, cases: &mut Vec<Case>) {
    for (number, filter) in FILTERS.iter().enumerate() {
        // Each with TCP, and in turn with something else.
        let more = ["-an", "-xan", "-tua", "-ta"][number % 4];
        for options in ["-tan", "-tuan", more] {
            cases.push(Case::of(&format!("{options} {filter}")));
        }
        if number % 3 == 0 {
            cases.push(Case::of(&format!("-tan {filter}")).there());
        }
    }
    for (own, filter) in FILTERS_BY_FAMILY {
        cases.push(Case::of(&format!("{own} {filter}")));
        for (options, _) in FILTERS_BY_FAMILY.iter().take(8) {
            cases.push(Case::of(&format!("{options} {filter}")));
        }
    }
    let directory = socket_set.directory.display();
    for filter in [
        format!("src unix:{directory}/stream"),
        format!("src unix:{directory}/*"),
        format!("src {directory}/s*"),
        format!("dst {directory}/stream"),
        format!("'src {directory}/with space'"),
        format!("not src unix:{directory}/?tream or src @lab-stream"),
    ] {
        cases.push(Case::of(&format!("-xa {filter}")));
        cases.push(Case::of(&format!("-a {filter}")));
        cases.push(Case::of(&format!("-f unix {filter}")));
    }
    if let Some(cgroup) = &socket_set.cgroup {
        for filter in [
            format!("cgroup {cgroup}"),
            format!("cgroup = {cgroup}/inner"),
            format!("cgroup != {cgroup}/inner"),
            format!("not cgroup {cgroup} and sport = 5561"),
            format!("cgroup {}", &cgroup[1..]),
            format!("cgroup {cgroup}/missing"),
            format!("'cgroup {cgroup}/odd\\ name'"),
            format!("cgroup {cgroup}/inner or sport = 22"),
        ] {
            for options in ["-tan", "-tan --cgroup", "-tuane", "-an", "-xan"] {
                cases.push(Case::of(&format!("{options} {filter}")));
            }
        }
    }
}

/// `-F FILE` and what may stand in it.
fn filter_files(socket_set: &SocketSet, files: &Files, cases: &mut Vec<Case>) {
    for text in [
        "sport = 22\n",
        "sport = 22",
        "# a comment\nsport = 22\n# another\nor dport = 22\n",
        "0 not a comment?\nsport = 22\n",
        "\n\n  sport\t=\n 22\n\n",
        "( sport = 22 or\n  sport = 443 )\n",
        "sport = 22 )\n",
        "nonsense\n",
        "src unix:*\n",
        "sport = ssh\r\n",
        "sport\\ = 22\n",
        "state listening\n",
        "# only a comment\n",
        "\n",
    ] {
        for options in ["-tan -F -", "-an --filter=-", "-ta --filter -x"] {
            cases.push(Case::of(options).given(text));
        }
        cases.push(Case::of("-tan -F - dport = 22").given(text));
    }
    cases.push(Case::of("-tan -F -").given(&format!("sport = 22 {}\n", "or sport = 443 ".repeat(60))));
    cases.push(Case::of("-tan -F -").given(&format!("sport = 22 {}\n", "or sport = 443 ".repeat(80))));
    cases.push(Case::of("-tan -F - -F -").given("sport = 22\n"));
    cases.push(Case::of("-tan -F -"));
    let (file, missing) = (files.filter.display(), socket_set.file("missing"));
    for options in ["-tanF", "-tan -F", "-an --filter", "-tuan -F", "-xan -F"] {
        cases.push(Case::of(&format!("{options} {file}")));
        cases.push(Case::of(&format!("{options} {file} dport = 22")));
        cases.push(Case::of(&format!("{options} {}", missing.display())));
        cases.push(Case::of(&format!("{options} {file} -F {file}")));
        cases.push(Case::of(&format!("{options} {}", socket_set.directory.display())));
    }
}

fn lists_and_families(cases: &mut Vec<Case>) {
    for table in TABLES {
        for options in ["-A", "-a -A", "-l -A", "-4 -a -A"] {
            cases.push(Case::of(&format!("{options} {table}")));
        }
        cases.push(Case::of(&format!("-a -A all,!{table}")));
        cases.push(Case::of(&format!("-a -A !{table}")));
        cases.push(Case::of(&format!("-a -A tcp,{table}")));
        cases.push(Case::of(&format!("-A {table} state all")).there());
    }
    for list in [
        "tcp,udp,raw",
        "inet,!tcp",
        "all,!unix,!netlink",
        "!all",
        "all,!all",
        "unix,!u_str",
        "tcp,tcp",
        "tcp,,udp",
        "tcp,",
        ",tcp",
        "'tcp, udp'",
        "TCP",
        "''",
        "!",
        "tcp,!",
        "'!tcp'",
        "packet,!p_raw",
        "mptcp,tcp",
        "tcp,nonsense",
        "xdp,vsock",
    ] {
        for options in ["-a -A", "-n --query"] {
            cases.push(Case::of(&format!("{options} {list}")));
        }
        cases.push(Case::of(&format!("-ta -A {list} -u")));
    }
    cases.push(Case::of("-a -A tcp -A udp"));
    cases.push(Case::of("-a -A tcp -A !tcp"));
    cases.push(Case::of("-t -A udp -a"));
    cases.push(Case::of("-A udp -t -a"));
    for family in [
        "inet", "inet6", "link", "unix", "netlink", "vsock", "tipc", "xdp", "help", "nonsense", "INET", "''",
        "packet", "inet4",
    ] {
        for rest in ["", "-a", "-ta", "-xa", "-nape", "-6 -a", "-A tcp -a"] {
            cases.push(Case::of(&format!("-f {family} {rest}")));
        }
        cases.push(Case::of(&format!("-a -f inet -f {family}")));
        cases.push(Case::of(&format!("-a --family={family} state all")));
    }
    for protocols in [
        "-4t", "-6t", "-46t", "-4u", "-6u", "-4x", "-x4", "-xt", "-tx", "-0t", "-t0", "-6w", "-4M", "-tuwx0",
        "-tM",
    ] {
        for rest in [
            "",
            "-a",
            "-l",
            "-nae",
            "-a state listening",
            "-a src ::1",
            "-na sport = 22",
        ] {
            cases.push(Case::of(&format!("{protocols} {rest}")));
        }
    }
}

/// Long names, their beginnings, clusters, words in any order.
fn spellings(cases: &mut Vec<Case>) {
    for (name, value) in LONG {
        let value = if value.is_empty() {
            String::new()
        } else {
            format!("={value}")
        };
        for length in 1..=name.len() {
            cases.push(Case::of(&format!("-tan --{}{value}", &name[..length])));
        }
        cases.push(Case::of(&format!("--{name}{value} -a")));
        cases.push(Case::of(&format!("--{name}=nonsense -ta")));
        cases.push(Case::of(&format!("-ta --{name}")));
        cases.push(Case::of(&format!("-ta --{name}x")));
    }
    for line in [
        "state listening -t",
        "-t state listening -n",
        "-- -t",
        "-t -- state listening",
        "state listening -- -t",
        "-tan - ",
        "-",
        "--",
        "-ta -- -n",
        "sport = 22 -tan",
        "sport -t = 22 -an",
        "-tfinet",
        "-tf inet",
        "-atfinet6",
        "-Atcp",
        "-aAtcp,udp",
        "-nnnn -ta",
        "-eee -ta",
        "-ppp -ta",
        "-tt -a",
        "-h",
        "--help",
        "-v",
        "-V",
        "--version",
        "-th",
        "-tV nonsense",
        "-t -h -q",
        "-hV",
        "-Vh",
        "-hs",
        "-sh",
        "-tan exclude",
        "-tan state",
        "-tan excl",
        "-tan state all state",
        "-tan exclude all",
        "-tan state connected exclude established",
        "-s -s",
        "-st",
        "-s -t -a",
        "-s sport = 22",
        "-s state listening",
        "-s -A tcp",
        "-s nonsense",
        "--summary -ta -H",
        "-sH",
        "-sn",
        "-H",
        "-Hs",
        "-lt",
        "-la",
        "-al",
        "-lat",
        "-lu",
        "-lx",
        "-lw",
        "-l0",
        "-tl state established",
        "-tl exclude listening",
        "-ta state listening",
        "-Z",
        "-z",
        "-tZ",
        "-tZz -a",
        "-aZ -q",
    ] {
        cases.push(Case::of(line));
    }
}

/// What ss refuses, in its words.
fn usage_errors(socket_set: &SocketSet, cases: &mut Vec<Case>) {
    for line in [
        "-q",
        "-tq",
        "-qt",
        "-A",
        "-f",
        "-F",
        "-N",
        "-D",
        "-tA",
        "--nonsense",
        "--query",
        "--family",
        "--net",
        "--diag",
        "--filter",
        "--tcp=1",
        "--numeric=",
        "-t=1",
        "--=x",
        "--i",
        "--in",
        "--t",
        "--tc",
        "--tip",
        "--tipci",
        "--n",
        "--ne",
        "--no",
        "--s",
        "--so",
        "--c",
        "--co",
        "--con",
        "--context",
        "--contexts",
        "--e",
        "--f",
        "--v",
        "--ve",
        "--vs",
        "--x",
        "--xd",
        "--k -h",
        "-A nonsense",
        "-A tcp,nonsense,udp",
        "-f nonsense -t",
        "-N nonsense",
        "-N ''",
        "-N ../nonsense",
        "-N /",
        "-tN",
        "-t state",
        "-t state nonsense",
        "-t state ''",
        "-t exclude nonsense",
        "-t state listening state",
        "-t nonsense",
        "-t listening",
        "-t established",
        "-ta sport",
        "-ta sport = ",
        "-ta dev",
        "-ta = = =",
        "-ta ( ( )",
        "-ta ) (",
        "-ta ( )",
        "-u -D /tmp/nonsense-of-ss",
        "-x -D -",
        "-A !all",
        "-t -A !tcp",
        "-4 -A unix -a",
        "-4 -x -A tcp",
        "-E -x",
        "-E -f netlink",
        "-E -w",
        "-K -x src unix:nonsense",
        "-1",
        "-2t",
        "-7",
        "-9",
        "-tan5",
        "-C",
        "-G",
        "-c",
        "-k -ta",
        "-\u{e4}",
        "-t\u{e4}",
        "--\u{e4}",
        "-j",
        "-ta -B",
        "--color",
        "-color -ta",
        "--json",
        "-tan --oneline=x",
        "-ta '-' -n",
    ] {
        cases.push(Case::of(line));
        if !line.contains(['E', 'K', 'D']) && *line != *"--diag" {
            cases.push(Case::of(&format!("-an {line}")));
            cases.push(Case::of(&format!("{line} -tan sport = 22")));
        }
    }
    // Nothing matches: the message for closing nothing.
    for line in [
        "-K -t sport = 1",
        "-K -tn state time-wait sport = 1",
        "-tK dst 192.0.2.1",
        "-K -u dport = 1",
        "-K -x src unix:x",
    ] {
        cases.push(Case::of(line));
    }
    cases.push(Case::of("-K -tn dst 192.0.2.1").by(UNPRIVILEGED_UID));
    cases.push(Case::of(&format!("-ta src {}", socket_set.directory.display())));
}

/// On terminals of many widths, in files, through COLUMNS.
fn outputs(cases: &mut Vec<Case>) {
    for columns in [40, 80, 132, 200, 0, 1, 61, 100, 1000] {
        for line in [
            "-tan",
            "-ta",
            "-tuan",
            "-an",
            "-xan",
            "-0an",
            "-wan",
            "-tanp",
            "-tanoe",
            "-taniO",
            "-tlnH",
            "-tn state established",
            "-n -f netlink -a",
            "-ta -m --tos",
            "-tani sport = 443",
            "-tun",
            "-txn",
            "-u",
            "-tan sport = 1",
            "-h",
            "-s",
            "-ta -q",
            "-xanp",
            "-tuanpeO",
            "-nap -4",
            "-Man",
            "-xlnO",
            "-tl",
        ] {
            cases.push(Case::of(line).to(Stdout::Terminal(columns)));
        }
    }
    for line in [
        "-tan",
        "-ta",
        "-an",
        "-xanp",
        "-taniem",
        "-s",
        "-h",
        "-V",
        "-t nonsense",
        "-wan",
        "-0anb",
    ] {
        cases.push(Case::of(line).to(Stdout::File));
        for columns in ["0", "40", "200", "nonsense"] {
            cases.push(Case::of(line).set("COLUMNS", columns));
            cases.push(Case::of(line).set("COLUMNS", columns).to(Stdout::Terminal(80)));
        }
        cases.push(
            Case::of(line)
                .set("LC_ALL", "C.UTF-8")
                .set("TERM", "dumb")
                .set("NO_COLOR", "1"),
        );
        cases.push(Case::of(line).set("POSIXLY_CORRECT", "1"));
    }
    for line in [
        "-t -n state listening -a",
        "state listening -tn",
        "-t sport = 22 -n -a",
        "-- -t",
    ] {
        cases.push(Case::of(line).set("POSIXLY_CORRECT", "1"));
    }
}

/// What was saved is read instead of the kernel. (`PROC_ROOT` and `PROC_NET_*`, of which ss(8) says nothing, are not there.)
fn environments(files: &Files, cases: &mut Vec<Case>) {
    for (_, dump) in &files.dumps {
        for line in [
            "-tan",
            "-ta",
            "-tanoe",
            "-taniem",
            "-tani",
            "-tanp",
            "-tanO",
            "-tanHOiemo --tos --cgroup --inet-sockopt",
            "-an -A tcp",
            "-4tan",
            "-6tan",
            "-tan sport = 22",
            "-tan state listening",
            "-tan dev lo",
            "-tan fwmark 7",
            "-uan",
            "-tanb",
            "-tan dst 127.0.0.1",
        ] {
            cases.push(Case::of(line).set("TCPDIAG_FILE", dump));
        }
        cases.push(
            Case::of("-tan")
                .set("TCPDIAG_FILE", dump)
                .to(Stdout::Terminal(100)),
        );
    }
    // More than what the real ss holds in memory: it gives out, and measures columns, piece by piece.
    for line in ["-taniem", "-taniemO sport != 22"] {
        cases.push(Case::of(line).set("TCPDIAG_FILE", &files.big_dump));
    }
}

/// As an unprivileged user, and in other namespaces by name.
fn rights_and_places(socket_set: &SocketSet, cases: &mut Vec<Case>) {
    for line in [
        "-tan",
        "-tanp",
        "-anp",
        "-tuanpe",
        "-xanp",
        "-tanT",
        "-tanm",
        "-tane",
        "-tani",
        "-tanb",
        "-0an",
        "-0anb",
        "-0anp",
        "-wanp",
        "-s",
        "-n -f netlink -ap",
        "-Man",
        "-tan --cgroup",
        "-tan --tos",
        "-tan dev lo",
        "-tan fwmark 7",
        "-N nonsense -ta",
    ] {
        cases.push(Case::of(line).by(UNPRIVILEGED_UID));
    }
    for name in [socket_set.there.name(), socket_set.here.name()] {
        for line in ["-tan", "-an", "-tanp", "-s", "-xan", "-tan sport = 22"] {
            cases.push(Case::of(&format!("-N {name} {line}")));
            cases.push(Case::of(&format!("{line} --net={name}")));
        }
        cases.push(Case::of(&format!("-tan -N {name} -N {}", socket_set.here.name())));
        cases.push(Case::of(&format!("-tan -N {name} -N nonsense")));
        cases.push(Case::of(&format!("-tan -N {name}")).by(UNPRIVILEGED_UID));
        cases.push(Case::of(&format!("-tan -N {}", socket_set.here.path().display())));
        cases.push(Case::of(&format!("-tan -N {name} dev veth0c")));
        cases.push(Case::of(&format!("-tan dev veth0c -N {name}")));
    }
}

const UNPRIVILEGED_UID: u32 = 65534;
