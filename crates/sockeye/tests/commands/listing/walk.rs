//! The BPF walk over the kernel's tables lists every socket with the values of netlink, and finds every table.

use super::bpf_walk::{BPF_OF_OLDER_KERNELS, Listed, SOCKEYE, can_walk, compare, compare_with, run};
use crate::fixtures::envelope;
use serde_json::Value;
use sockeye_lab::congestion_control;
use sockeye_lab::{
    Lab, LabSocket, Link, Namespace, NetPath, Pair, Process, Skip, SocketOptions, need, program,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// What can be asked of a walk, in addition to `-t -a`.
const LISTINGS: &[&[&str]] = &[
    &[],
    &["-o"],
    &["-m"],
    &["-i"],
    &["-o", "-m", "-i"],
    &["-4"],
    &["-6"],
    &["-m", "--columns", "tos,tclass,class_id,memory"],
];

/// Requests that it cannot answer, and a word of its message.
const UNREPORTED: &[(&[&str], &str)] = &[(&["-e"], "cookie"), (&["autobound"], "chosen by the kernel")];

/// Columns of a table that the walk fills; all but those that move.
const COLUMNS: &str = "netid,family,state,recv_q,send_q,local,peer,user,inode,interface,\
                       mark,class_id,tos,tclass,shutdown,v6only,socket_options,memory,drops,references,netns,cgroup";

/// Sockets in every state over every kind of path, and what keeps them alive.
struct SocketSet {
    client: Namespace,
    server: Namespace,
    link: Link,
    lab_sockets: Vec<LabSocket>,
    held: Process,
    _lab: Lab,
}

impl SocketSet {
    fn new(purpose: &str) -> Result<Self, Skip> {
        can_walk()?;
        let lab = Lab::new(purpose)?;
        let (client, server) = (lab.namespace("client"), lab.namespace("server"));
        let link = lab.link(&client, &server);
        let held = lab
            .process("unprivileged")
            .in_namespace(&client)
            .user(65534, 65534)
            .tcp_pair("127.0.0.1:0")
            .start();
        let mut socket_set = Self {
            client,
            server,
            link,
            lab_sockets: Vec::new(),
            held,
            _lab: lab,
        };
        socket_set.listeners();
        socket_set.connections();
        Ok(socket_set)
    }

    fn listeners(&mut self) {
        let plain = SocketOptions::new();
        let devices = self.link.devices();
        for (namespace, device) in [(&self.client, devices.0), (&self.server, devices.1)] {
            for (local, options) in [
                ("0.0.0.0:80", &plain),
                ("[::]:443", &plain),
                ("[::]:8443", &SocketOptions::new().v6_only(true)),
                ("127.0.0.1:22", &SocketOptions::new().backlog(5)),
                ("[::1]:22", &plain),
                ("[::ffff:127.0.0.1]:65535", &plain),
                ("0.0.0.0:1024", &SocketOptions::new().device(device)),
                (
                    "[::]:1025",
                    &SocketOptions::new().device(device).mark(0xffff_ffff),
                ),
                ("127.0.0.1:1026", &SocketOptions::new().reuse_port()),
                ("127.0.0.1:1026", &SocketOptions::new().reuse_port()),
                ("[::1]:1026", &SocketOptions::new().reuse_port()),
                ("[::1]:1026", &SocketOptions::new().reuse_port()),
            ] {
                self.lab_sockets.push(namespace.tcp_listener(local, options));
            }
        }
    }

    fn connections(&mut self) {
        let (client, link) = (self.client.clone(), self.link.clone());
        for net_path in [client.loopback(), client.loopback6(), client.loopback_mapped()] {
            self.uncut(&net_path);
        }
        let device = || SocketOptions::new().device(link.devices().0);
        self.pair(link.net_path().with_client(device()).established());
        self.pair(link.net_path6().with_client(device().mark(7)).established());
        type MakePath = fn(&Link) -> NetPath;
        let over_link: [MakePath; 4] = [
            Link::net_path,
            Link::net_path6,
            Link::net_path_mapped,
            Link::net_path_link_local,
        ];
        type MakePair = fn(&NetPath) -> Pair;
        let cut: [MakePair; 4] = [
            NetPath::syn_recv,
            NetPath::fin_wait1,
            NetPath::closing,
            NetPath::last_ack,
        ];
        for make in over_link {
            self.pair(make(&link).established());
            self.lab_sockets.push(make(&link).time_wait());
            self.lab_sockets.push(make(&link).syn_sent());
            for lab_socket in cut {
                self.pair(lab_socket(&make(&link)));
            }
        }
        for make in [Link::net_path, Link::net_path6] {
            self.pair(make(&link).retransmitting(777));
            self.pair(make(&link).orphaned());
        }
    }

    fn uncut(&mut self, net_path: &NetPath) {
        self.pair(net_path.established());
        self.pair(
            net_path
                .with_client(SocketOptions::new().mark(0x1234))
                .established(),
        );
        self.lab_sockets
            .push(net_path.with_client(SocketOptions::new().mark(5)).time_wait());
        self.pair(net_path.half_closed());
        self.pair(net_path.orphaned());
        self.pair(net_path.unread(1234));
        self.pair(net_path.zero_window());
        self.pair(net_path.keepalive(Duration::from_secs(3600)));
        if congestion_control("cubic").is_ok() {
            self.pair(
                net_path
                    .with_client(SocketOptions::new().congestion("cubic"))
                    .established(),
            );
        }
        let full = net_path.full_accept_queue(1);
        self.lab_sockets.extend(full.queued);
        self.lab_sockets.extend(full.unaccepted);
        self.lab_sockets.extend([full.listener, full.left_out]);
    }

    fn pair(&mut self, pair: Pair) {
        self.lab_sockets.extend([pair.client, pair.server]);
        self.lab_sockets.extend(pair.listener);
    }

    fn namespaces(&self) -> [&Namespace; 2] {
        [&self.client, &self.server]
    }

    fn count_in(&self, namespace: &Namespace) -> usize {
        let held = self.held.sockets().iter();
        let inside = |one: &&LabSocket| one.namespace.inode() == namespace.inode();
        self.lab_sockets.iter().chain(held).filter(inside).count()
    }
}

#[test]
fn bpf_walk_agrees_with_netlink_in_every_state() {
    let socket_set = need!(SocketSet::new("walk_sockets"));
    for namespace in socket_set.namespaces() {
        compare_columns(namespace);
        for words in LISTINGS {
            let words = [&["-t", "-a"], *words].concat();
            let walked = compare(&words.join(" "), |source| {
                Listed::inside(namespace, source, &words)
            });
            if !words.contains(&"-4") && !words.contains(&"-6") {
                assert_eq!(walked.rows.len(), socket_set.count_in(namespace), "{words:?}");
            }
            if words.len() != 2 {
                continue;
            }
            // From another namespace, the rows also have the namespace.
            let named = [&words[..], &["--netns", namespace.name()]].concat();
            let outside = compare(&named.join(" "), |source| Listed::here(source, &named));
            assert_eq!(outside.rows.len(), walked.rows.len());
            for row in outside.rows.values() {
                assert_eq!(row["netns_inode"], namespace.inode(), "{row}");
            }
        }
        for (words, why) in UNREPORTED {
            let all = [&["sockets", "-t", "-a", "--source", "bpf"], *words].concat();
            let output = run(&mut namespace.command(SOCKEYE, &all));
            let outcome = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{words:?}: {outcome}");
            assert!(
                outcome.contains("bpf: does not report")
                    && outcome.contains(why)
                    && outcome.lines().count() == 1,
                "{words:?}: {outcome}"
            );
        }
    }
}

/// Tables and CSV, line by line.
#[track_caller]
fn compare_columns(namespace: &Namespace) {
    // A table shows the time left in its timer's column, CSV in one of its own.
    let columns = [COLUMNS, ",timer,timer_retransmits"].concat();
    for (format, columns) in [("csv", columns.as_str()), ("table", COLUMNS)] {
        let list = |source: &str| {
            let words = [
                "sockets",
                "-tanH",
                "--format",
                format,
                "--columns",
                columns,
                "--source",
                source,
            ];
            let outcome = namespace.output(SOCKEYE, &words);
            let outcome = match format {
                "csv" => envelope::without_time(&outcome),
                _ => outcome,
            };
            let mut lines: Vec<String> = outcome.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        sockeye_lab::wait_for(format!("a quiet moment for {format}"), || {
            let (before, walked, after) = (list("diag"), list("bpf"), list("diag"));
            (before == after).then(|| assert_eq!(walked, before, "{format}: the walk, then netlink"))
        });
    }
}

#[test]
fn bpf_walk_filters_select_what_ss_selects() {
    let socket_set = need!(SocketSet::new("walk_filters"));
    need!(program("ss"));
    let device = socket_set.link.devices().0;
    let of_client = |one: &&LabSocket| one.namespace.inode() == socket_set.client.inode();
    let connected = |v4: bool| {
        let mut of_client = socket_set.lab_sockets.iter().filter(of_client);
        of_client
            .find(|one| {
                one.peer
                    .is_some_and(|peer| peer.is_ipv4() == v4 && peer.port() > 1024)
            })
            .unwrap()
    };
    let mut filters: Vec<String> = FILTERS.iter().map(|text| (*text).to_owned()).collect();
    filters.extend([
        format!("dev {device}"),
        format!("not dev {device}"),
        format!("state listening dev {device} sport = :1024"),
    ]);
    for one in [connected(true), connected(false)] {
        let (local, peer) = (one.local.unwrap(), one.peer.unwrap());
        filters.extend([
            format!("src {local}"),
            format!("dst {peer}"),
            format!("src {local} dst {peer}"),
            format!("not src {local}"),
            format!("sport = :{} or dport = :{}", local.port(), peer.port()),
            format!(
                "sport ge :{} sport le :{}",
                local.port() - 50,
                local.port().saturating_add(50)
            ),
            format!("dst {}", bracketed(peer.ip())),
        ]);
    }
    let (mut found_nothing, mut asked) = (0, 0);
    for text in &filters {
        for namespace in socket_set.namespaces() {
            for flags in ["-ta", "-t", "-tl", "-4ta", "-6ta"] {
                let is_every_flag = matches!(text.as_str(), "" | "sport <= :1024" | "not sport = :22");
                let is_elsewhere = text.contains(device) && namespace.inode() != socket_set.client.inode();
                if (flags != "-ta" && !is_every_flag) || is_elsewhere {
                    continue;
                }
                let words: Vec<&str> = [flags].into_iter().chain(text.split_whitespace()).collect();
                let cookies = |listed: &Listed| -> BTreeSet<u64> {
                    let cookie = |row: &Value| row["cookie"].as_u64().unwrap();
                    listed.rows.values().map(cookie).collect()
                };
                let found = sockeye_lab::wait_for(format!("a quiet moment for {words:?}"), || {
                    let before = ss_cookies(namespace, &words);
                    let walked = cookies(&Listed::inside(namespace, "bpf", &words));
                    // A request or a TIME_WAIT may end meanwhile.
                    if walked != before && before != ss_cookies(namespace, &words) {
                        return None;
                    }
                    assert_eq!(
                        walked,
                        before,
                        "{words:?} in {}: the walk, then ss",
                        namespace.label()
                    );
                    Some(walked.len())
                });
                asked += 1;
                found_nothing += usize::from(found == 0);
            }
        }
    }
    // A filter that finds nothing proves little.
    assert!(
        found_nothing * 3 < asked,
        "{found_nothing} of {asked} found nothing"
    );
}

/// The cookies in `ss -e`, whose columns depend on the filter.
fn ss_cookies(namespace: &Namespace, words: &[&str]) -> BTreeSet<u64> {
    let outcome = namespace.output("ss", &[&["-H", "-O", "-e", "-n"], words].concat());
    let cookie = |line: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("sk:"));
        u64::from_str_radix(word.unwrap_or_else(|| panic!("no cookie in {line}")), 16).unwrap()
    };
    outcome.lines().map(cookie).collect()
}

/// Expressions that mean the same to `ss` and to us.
const FILTERS: &[&str] = &[
    "",
    "state established",
    "state listening",
    "state connected",
    "state synchronized",
    "state bucket",
    "state big",
    "state time-wait",
    "state close-wait",
    "state fin-wait-1",
    "state fin-wait-2",
    "state syn-sent",
    "state syn-recv",
    "state last-ack",
    "state closing",
    "state time-wait state close-wait",
    "exclude listening exclude established",
    "sport = :80",
    "sport = :443 or dport = :443",
    "not sport = :22",
    "sport != :22 dport != :443",
    "sport <= :1024",
    "sport gt :1024 sport lt :65535",
    "sport = :65535",
    "sport = :22 or sport = :8443",
    "( sport = :22 or sport = :80 ) and src 127.0.0.1",
    "src 127.0.0.1",
    "src 127.0.0.0/8",
    "dst 127.0.0.0/8 not dst 127.0.0.1",
    "dst 10.77.0.0/24",
    "dst 10.77.0.0/28 or dst 10.77.0.128/25",
    "not dst 10.0.0.0/8",
    "src 10.77.0.0/24 dst 10.77.0.0/26",
    "src [::1]",
    "src fd77::/16",
    "src ::/0",
    "dst ::ffff:0:0/96",
    "dst [::ffff:127.0.0.1]",
    "dst fe80::/10",
    "not ( src [::1] or dst 127.0.0.1 )",
    "state established ( src 127.0.0.1 or src [::1] )",
    "fwmark = 0x1234",
    "fwmark = 0x4/0x4",
    "not fwmark = 0",
];

/// A namespace may have a table of its own (`net.ipv4.tcp_child_ehash_entries` of the namespace it was born in), of
/// any size.
#[test]
fn bpf_walk_reads_tables_of_single_namespaces() {
    need!(can_walk());
    let lab = need!(Lab::new("walk_tables"));
    let parent = lab.namespace("parent");
    let outer = parent.loopback().established();
    for entries in [1_u32, 32, 4096] {
        let child = need!(with_table(&lab, &parent, entries));
        let pairs = [child.loopback().established(), child.loopback6().half_closed()];
        let waiting = child.loopback_mapped().time_wait();
        for namespace in [&child, &parent] {
            let words = ["-t", "-a", "--netns", namespace.name()];
            let outside = compare(&words.join(" "), |source| Listed::here(source, &words));
            let inside = compare("inside", |source| {
                Listed::inside(namespace, source, &["-t", "-a"])
            });
            let expected = if namespace.name() == child.name() {
                3 * pairs.len() + 1
            } else {
                3
            };
            assert_eq!(
                [outside.rows.len(), inside.rows.len()],
                [expected; 2],
                "{entries} buckets"
            );
        }
        drop(waiting);
    }
    drop(outer);
}

/// All tables, when asked for every namespace: listeners are in one that all share.
#[test]
fn bpf_walk_lists_each_socket_once() {
    need!(can_walk());
    let lab = need!(Lab::new("walk_every"));
    let parent = lab.namespace("parent");
    let children: Vec<Namespace> = [1, 32]
        .into_iter()
        .map_while(|entries| with_table(&lab, &parent, entries).inspect_err(Skip::print).ok())
        .collect();
    let all: Vec<&Namespace> = children.iter().chain([&parent]).collect();
    let pairs: Vec<Pair> = all
        .iter()
        .map(|namespace| namespace.loopback().established())
        .collect();
    let ours: BTreeSet<u64> = all.iter().map(|namespace| namespace.inode()).collect();
    let is_ours = |row: &&Value| ours.contains(&row["netns_inode"].as_u64().unwrap());
    let made: BTreeSet<u64> = pairs
        .iter()
        .flat_map(Pair::lab_sockets)
        .map(|one| one.inode)
        .collect();
    for source in ["bpf", BPF_OF_OLDER_KERNELS] {
        let listed = Listed::here(source, &["-t", "-a", "--netns", "all"]);
        let found: Vec<u64> = listed
            .rows
            .values()
            .filter(is_ours)
            .map(|row| row["inode"].as_u64().unwrap())
            .collect();
        assert_eq!(found.len(), made.len(), "{source}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), made, "{source}");
    }
}

/// Sockets that have a port and nothing else are in a table of their own.
#[test]
fn bpf_walk_lists_bound_sockets() {
    need!(can_walk());
    let lab = need!(Lab::new("walk_bound"));
    let here = lab.namespace("here");
    let plain = SocketOptions::new();
    let shared = SocketOptions::new().reuse_port();
    // Listeners and connections have ports too.
    let _others = here.loopback().established();
    let bound: Vec<LabSocket> = [
        ("127.0.0.1:80", &plain),
        ("0.0.0.0:81", &plain),
        ("[::1]:80", &plain),
        ("[::]:82", &plain),
        ("[::]:83", &SocketOptions::new().v6_only(true).mark(7)),
        ("[::ffff:127.0.0.1]:84", &SocketOptions::new().device("lo")),
        ("127.0.0.1:85", &shared),
        ("127.0.0.1:85", &shared),
        ("127.0.0.2:85", &shared),
    ]
    .into_iter()
    .map(|(local, options)| here.tcp_bound(local, options))
    .collect();
    for (words, count) in [
        (&["state", "bound-inactive"][..], bound.len()),
        (&["-4", "state", "bound-inactive"], 5),
        (&["-m", "-i", "state", "bound-inactive", "sport", "=", ":85"], 3),
        (
            &["state", "bound-inactive", "state", "listening"],
            bound.len() + 1,
        ),
    ] {
        let words = [&["-t"], words].concat();
        // Kernels before 6.2 have no such table that can be walked.
        let mut take = |source: &str| Listed::inside(&here, source, &words);
        let walked = compare_with("bpf", &words.join(" "), &mut take);
        assert_eq!(walked.rows.len(), count, "{words:?}");
    }
}

/// More sockets in one chain than fit into the buffer of a run: it takes several runs, and none is listed twice.
#[test]
fn hash_chain_longer_than_the_buffer_is_listed_once() {
    need!(can_walk());
    let lab = need!(Lab::new("walk_crowd"));
    let parent = lab.namespace("parent");
    let one_bucket = need!(with_table(&lab, &parent, 1));
    let few_buckets = need!(with_table(&lab, &parent, 64));

    // 1. Listeners on one address; those of IPv6 are put at the other end of their chain.
    let options = SocketOptions::new().reuse_port();
    let listeners: Vec<LabSocket> = (0..CROWD)
        .map(|_| parent.tcp_listener("127.0.0.1:7777", &options))
        .collect();
    let others: Vec<LabSocket> = (0..CROWD / 20)
        .map(|_| parent.tcp_listener("[::1]:7777", &options))
        .collect();
    let expected: BTreeSet<u64> = listeners.iter().chain(&others).map(|one| one.inode).collect();
    for words in [
        &["-t", "-a"][..],
        &["-t", "-l", "-m"],
        &["-t", "-a", "sport", "=", ":7777"],
    ] {
        for source in ["bpf", BPF_OF_OLDER_KERNELS] {
            let listed = Listed::inside(&parent, source, words);
            assert_eq!(inodes(&listed), expected, "{words:?}, {source}");
            assert_eq!(
                (listed.rows.len(), listed.unsettled()),
                (expected.len(), 0),
                "{words:?}, {source}"
            );
        }
    }
    // Where few of the chain are wanted, they are found behind those that are not.
    let listed = Listed::inside(&parent, "bpf", &["-6", "-t", "-a"]);
    assert_eq!(listed.rows.len(), others.len());
    drop((listeners, others));

    // 2. Connections, all in the only bucket of their namespace's table; and in so few that what is read of the table
    // after a full buffer reaches to its end.
    for namespace in [&one_bucket, &few_buckets] {
        let connections = namespace.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let to: SocketAddr = listener.local_addr().unwrap();
            let pair = |_| (TcpStream::connect(to).unwrap(), listener.accept().unwrap().0);
            (0..CROWD / 2).map(pair).collect::<Vec<_>>()
        });
        for words in [&["-t"][..], &["-t", "-m", "-i", "sport", "gt", ":0"]] {
            for source in ["bpf", BPF_OF_OLDER_KERNELS] {
                let listed = Listed::inside(namespace, source, words);
                assert_eq!(
                    (listed.rows.len(), listed.unsettled()),
                    (connections.len() * 2, 0),
                    "{words:?}, {source}"
                );
            }
        }
    }
}

/// A buffer and a bit.
const CROWD: usize = 4_600;

fn inodes(listed: &Listed) -> BTreeSet<u64> {
    listed
        .rows
        .values()
        .map(|row| row["inode"].as_u64().unwrap())
        .collect()
}

/// A namespace whose connections are in a table of their own with so many buckets.
fn with_table(lab: &Lab, parent: &Namespace, entries: u32) -> Result<Namespace, Skip> {
    let child = parent.run(|| {
        // Each namespace has its own setting, which those have that are born in it.
        std::fs::write(CHILD_ENTRIES, entries.to_string())
            .map_err(|error| Skip::new(format!("no {CHILD_ENTRIES} (Linux 6.1): {error}")))?;
        Ok(lab.namespace(&format!("table{entries}")))
    })?;
    let has: i64 = child
        .run(|| std::fs::read_to_string("/proc/sys/net/ipv4/tcp_ehash_entries"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // A table of another namespace shows as a negative number.
    assert_eq!(has, i64::from(entries));
    // Else they are half as many as there are buckets.
    child
        .run(|| std::fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "1000"))
        .unwrap();
    Ok(child)
}

const CHILD_ENTRIES: &str = "/proc/sys/net/ipv4/tcp_child_ehash_entries";

/// As `ss` takes it.
fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V6(v6) => format!("[{v6}]"),
        v4 @ IpAddr::V4(_) => v4.to_string(),
    }
}
