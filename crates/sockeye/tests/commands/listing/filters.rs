//! Filter expressions on live sockets: `ss`'s give what `ss` gives, ours what was made; and the kernel's answer
//! to the part it decides is ours.

use crate::fixtures::live::{self, attempt, endpoint, linked, sockets, sockeye, without_scope};
use serde_json::Value;
use sockeye_lab::{
    Lab, LabSocket, Link, Namespace, NetPath, Pair, Process, Skip, SocketOptions, State, Timer,
};
use sockeye_lab::{UnixKind, congestion_control, need};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// Sockets that filters can distinguish. Nothing of it changes while a test looks, but timers.
struct Crowd {
    client: Namespace,
    server: Namespace,
    link: Link,
    lab_sockets: Vec<LabSocket>,
    process: Process,
    lab: Lab,
}

impl Crowd {
    fn new(purpose: &str) -> Result<Self, Skip> {
        let (lab, client, server, link) = linked(purpose)?;
        let plain = SocketOptions::new();
        let device = link.devices().0;
        let mut lab_sockets = Vec::new();
        for (local, options) in [
            ("0.0.0.0:80", &plain),
            ("[::]:443", &plain),
            ("[::]:8443", &SocketOptions::new().v6_only(true)),
            ("127.0.0.1:22", &plain),
            ("[::1]:22", &plain),
            ("0.0.0.0:1024", &SocketOptions::new().device(device)),
            ("[::ffff:127.0.0.1]:65535", &plain),
        ] {
            lab_sockets.push(client.tcp_listener(local, options));
            lab_sockets.push(server.tcp_listener(
                &local.replace("1024", "1025"),
                &match local {
                    "0.0.0.0:1024" => SocketOptions::new().device(link.devices().1),
                    _ => options.clone(),
                },
            ));
        }
        let server_listener = |port: u16| {
            lab_sockets.iter().position(|listener: &LabSocket| {
                listener.namespace.inode() == server.inode() && listener.port() == port
            })
        };
        let (http, https) = (server_listener(80).unwrap(), server_listener(443).unwrap());
        let mut pairs = vec![
            link.net_path().established_to(&lab_sockets[http]),
            link.net_path_mapped().established_to(&lab_sockets[https]),
            link.net_path6().established_to(&lab_sockets[https]),
            link.net_path_link_local().established_to(&lab_sockets[https]),
        ];
        for net_path in [
            client.loopback(),
            client.loopback6(),
            client.loopback_mapped(),
            link.net_path6(),
        ] {
            pairs.push(net_path.established());
            pairs.push(net_path.half_closed());
            lab_sockets.push(net_path.time_wait());
        }
        let marked = |mark| SocketOptions::new().mark(mark);
        pairs.push(client.loopback().with_client(marked(0x1234)).established());
        pairs.push(client.loopback6().with_client(marked(0x5634)).established());
        pairs.push(
            link.net_path()
                .with_client(SocketOptions::new().device(device))
                .established(),
        );
        pairs.push(link.net_path().unread(1234));
        pairs.push(client.loopback().keepalive(Duration::from_secs(7200)));
        pairs.push(client.loopback6().zero_window());
        if congestion_control("cubic").is_ok() {
            pairs.push(
                client
                    .loopback()
                    .with_client(SocketOptions::new().congestion("cubic"))
                    .established(),
            );
        }
        let cut: [fn(&NetPath) -> Pair; 4] = [
            NetPath::syn_recv,
            NetPath::fin_wait1,
            NetPath::closing,
            NetPath::last_ack,
        ];
        for make in cut {
            pairs.push(make(&link.net_path()));
            pairs.push(make(&link.net_path_mapped()));
            pairs.push(make(&link.net_path6()));
        }
        pairs.push(link.net_path().retransmitting(777));
        lab_sockets.push(link.net_path6().syn_sent());
        for pair in pairs {
            lab_sockets.extend([pair.client, pair.server]);
            lab_sockets.extend(pair.listener);
        }
        let process = lab
            .process("crowd-holder")
            .in_namespace(&client)
            .user(65534, 65534)
            .tcp_pair("127.0.0.1:0")
            .start();
        Ok(Self {
            client,
            server,
            link,
            lab_sockets,
            process,
            lab,
        })
    }

    fn of<'a>(&'a self, namespace: &Namespace) -> impl Iterator<Item = &'a LabSocket> {
        let inode = namespace.inode();
        let held = self.process.sockets().iter();
        self.lab_sockets
            .iter()
            .chain(held)
            .filter(move |lab_socket| lab_socket.namespace.inode() == inode)
    }
}

/// State, addresses, whether a socket is tied to a device: what names a socket to every source and to ss.
type Names = BTreeSet<(String, SocketAddr, SocketAddr)>;

fn names(rows: &[Value]) -> Names {
    let name = |row: &Value| {
        (
            row["state"].as_str().unwrap().to_owned(),
            endpoint(&row["local"]),
            endpoint(&row["peer"]),
        )
    };
    let all: Names = rows.iter().map(name).collect();
    assert_eq!(all.len(), rows.len(), "{rows:#?}");
    all
}

/// The cookies in `ss -e`, whose columns depend on the filter.
fn ss_cookies(namespace: &Namespace, flags: &str, words: &[&str]) -> BTreeSet<u64> {
    let outcome = namespace.output("ss", &[&["-H", "-O", "-e", flags], words].concat());
    let cookie = |line: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("sk:"));
        u64::from_str_radix(word.unwrap_or_else(|| panic!("no cookie in {line}")), 16).unwrap()
    };
    outcome.lines().map(cookie).collect()
}

/// Asks up to three times, for between two questions a timer may end a TIME_WAIT or answer a SYN.
#[track_caller]
fn agreed<T>(text: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    for _ in 0..3 {
        match ask() {
            Ok(answer) => return answer,
            Err(difference) => last = difference,
        }
    }
    panic!("{text}: {last}")
}

#[test]
fn filters_select_what_ss_selects() {
    let crowd = need!(Crowd::new("as_ss"));
    let mut cases: Vec<String> = SS_LANGUAGE.iter().map(|text| (*text).to_owned()).collect();
    let device = crowd.link.devices().0.to_owned();
    let established = crowd
        .of(&crowd.client)
        .find(|one| one.state == State::Established && one.peer.is_some_and(|peer| peer.is_ipv4()))
        .unwrap();
    let (local, peer) = (established.local.unwrap(), established.peer.unwrap());
    cases.extend([
        format!("dev {device}"),
        format!("not dev {device}"),
        format!("state established dev {device}"),
        format!("src {local}"),
        format!("dst {peer}"),
        format!("src {local} dst {peer}"),
        format!("sport = :{} or dport = :{}", local.port(), peer.port()),
        format!("not ( src {} or dst {} )", local.ip(), peer.ip()),
        format!(
            "sport gt :{} sport lt :{}",
            local.port() - 100,
            local.port().saturating_add(100)
        ),
    ]);
    match own_cgroup() {
        Some((mount, path)) => {
            let path = format!("{mount}{path}");
            cases.extend([
                format!("cgroup {path}"),
                format!("cgroup = {path}"),
                format!("not cgroup {path}"),
            ]);
        }
        None => Skip::new("no cgroup2 is mounted").print(),
    }
    let (mut empty, mut total) = (0, 0);
    for text in &cases {
        let words: Vec<&str> = text.split_whitespace().collect();
        for namespace in [&crowd.client, &crowd.server] {
            // A device is known where it is.
            if text.contains(&device) && namespace.inode() == crowd.server.inode() {
                continue;
            }
            for flags in ["-tan", "-tn", "-tln", "-4tan", "-6tan"] {
                if flags != "-tan" && !WITH_EVERY_FLAG.contains(&text.as_str()) {
                    continue;
                }
                let ours = agreed(text, || {
                    let expected = ss_cookies(namespace, flags, &words);
                    let rows = sockets(namespace, &[&[flags], &words[..]].concat());
                    let ours: BTreeSet<u64> =
                        rows.iter().map(|row| row["cookie"].as_u64().unwrap()).collect();
                    assert_eq!(rows.len(), ours.len(), "{flags} {text}");
                    if ours == expected {
                        return Ok(ours);
                    }
                    let is_too_much = |row: &&Value| !expected.contains(&row["cookie"].as_u64().unwrap());
                    Err(format!(
                        "{flags} in {}\nsockeye alone: {:#?}\nss alone: {:x?}\nof ss:\n{}",
                        namespace.label(),
                        rows.iter().filter(is_too_much).collect::<Vec<_>>(),
                        expected.difference(&ours).collect::<Vec<_>>(),
                        namespace.output("ss", &[&["-H", "-O", "-e", flags], &words[..]].concat()),
                    ))
                });
                total += 1;
                empty += usize::from(ours.is_empty());
            }
        }
    }
    // A filter that finds nothing proves little.
    assert!(empty * 3 < total, "{empty} of {total} found nothing");
}

/// Where cgroup2 is mounted, and the cgroup of this process below it: `0::/system.slice/...`
fn own_cgroup() -> Option<(String, String)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts
        .lines()
        .find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [_, point, "cgroup2", ..] => Some(point.to_owned()),
            _ => None,
        })?;
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some((mount, path.to_owned()))
}

/// What the kernel decides by bytecode and what is decided by us: procfs runs no bytecode.
#[test]
fn kernel_and_user_space_filters_agree() {
    let crowd = need!(Crowd::new("agree"));
    for (nth, text) in SS_LANGUAGE.iter().enumerate() {
        if ["dev", "fwmark", "cgroup", "autobound"]
            .iter()
            .any(|word| text.contains(word))
        {
            continue; // /proc knows none of them; whether a port was chosen is known to the kernel alone.
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        // Only servers have SYN_RECV; otherwise in turns.
        let at_server = text.contains("recv") || text.contains("bucket") || nth % 2 == 0;
        let namespace = if at_server { &crowd.server } else { &crowd.client };
        let ask = |source| {
            let rows = sockets(namespace, &[&["-tan", "--source", source], &words[..]].concat());
            names(&rows)
        };
        agreed(text, || {
            let answers = ["diag", "diag-v2", "procfs"].map(ask);
            if answers.windows(2).all(|two| two[0] == two[1]) {
                return Ok(());
            }
            Err(format!("one-pass, sock_diag and procfs: {answers:#?}"))
        });
    }
}

/// Those of [`SS_LANGUAGE`] to try with all flags. None names a host: `ss` takes no address of a family that was
/// not asked for.
const WITH_EVERY_FLAG: [&str; 7] = [
    "",
    "state established",
    "state bucket",
    "state connected exclude established",
    "exclude listening",
    "sport <= :1024",
    "not sport = :22",
];

/// Expressions that mean the same to `ss` and to us.
const SS_LANGUAGE: &[&str] = &[
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
    "state last-ack",
    "state closing",
    "state syn-sent",
    "state syn-recv",
    "state time-wait state close-wait",
    "state connected exclude established",
    "exclude listening",
    "exclude established exclude listening exclude time-wait",
    "state established src 127.0.0.1",
    "state established sport = :443",
    "state listening sport = :22",
    "state time-wait dst 127.0.0.1",
    "state syn-recv src 10.0.0.0/8",
    "src 127.0.0.1",
    "dst 127.0.0.1",
    "src = 127.0.0.1",
    "src 127.0.0.0/8",
    "src 127/8",
    "dst 10.0.0.0/8",
    "dst 10.77.0.0/24",
    "src 10.77.0.0/28",
    "src 0.0.0.0",
    "src 0.0.0.0/0",
    "src [::1]",
    "src [::1]:22",
    "dst fd77::/64",
    "dst fe80::/10",
    "src ::/0",
    "src [::]:443",
    "dst [::ffff:127.0.0.1]",
    "dst ::ffff:0:0/96",
    "src 127.0.0.1:22",
    "src 127.0.0.0/8:22",
    "dst 10.0.0.0/8:80",
    "src *:22",
    "src :22",
    "dst :443",
    "sport 22",
    "sport :22",
    "sport = 22",
    "sport = :22",
    "sport == :22",
    "sport eq :22",
    "sport != :22",
    "sport ne :22",
    "sport neq :22",
    "sport > :1024",
    "sport gt :1024",
    "sport >= :1024",
    "sport ge :1024",
    "sport geq :1024",
    "sport < :1024",
    "sport lt :1024",
    "sport <= :1024",
    "sport le :1024",
    "sport leq :1024",
    "sport >= :65535",
    "sport <= :0",
    "dport >= :1",
    "dport < :1",
    "sport ge :80 sport le :443",
    "sport ge :80 and sport le :443",
    "sport = :ssh",
    "sport = :https",
    "sport = http",
    "dport = :https",
    "dport >= :http and dport <= :https",
    "not sport = :22",
    "! sport = :22",
    "not src 127.0.0.1",
    "not not dst 10.0.0.0/8",
    "not ( src 127.0.0.0/8 or src [::1] )",
    "sport = :80 or sport = :443",
    "sport = :80 | sport = :443",
    "( sport = :80 or sport = :443 )",
    "( ( sport = :80 ) )",
    "src 127.0.0.1 and sport = :22",
    "src 127.0.0.1 & sport = :22",
    "src 127.0.0.1 sport = :22",
    "( src 127.0.0.1 and not ( sport = :22 or dport = :22 ) )",
    "( sport = :443 and dst 10.0.0.0/8 ) or src [::1]",
    "( src 127.0.0.1 or src [::1] ) and ( sport = :22 or dport ge :1 )",
    "state established ( dport = :80 or dport = :443 )",
    "exclude established ( src 127.0.0.0/8 or dst fd77::/64 )",
    "dev lo",
    "not dev lo",
    "fwmark = 0x1234",
    "fwmark = 0x34/0xff",
    "fwmark != 0x1234",
    "fwmark = 0",
    "autobound",
    "autobound and src 127.0.0.1",
    "state established autobound",
];

/// Our own words, each with what of the crowd it means.
#[test]
fn own_filter_words_select_by_their_field() {
    let crowd = need!(Crowd::new("ours"));
    let pid = crowd.process.pid();
    let one = crowd
        .of(&crowd.client)
        .find(|one| one.cookie.is_some() && one.state == State::Established)
        .unwrap();
    let (inode, cookie) = (one.inode, one.cookie.unwrap());
    let lab = crowd.lab.name();
    let name = crowd.client.name();
    assert!(name.starts_with(lab));
    type Means<'a> = Box<dyn Fn(&LabSocket) -> bool + 'a>;
    let is_held = |one: &LabSocket| one.pid == Some(pid);
    let mine = std::process::id();
    let timer = |timer: Timer| move |one: &LabSocket| one.timer == timer;
    let is_v4 = |one: &LabSocket| one.local.is_some_and(|local| local.is_ipv4());
    let peer_is = |one: &LabSocket, what: fn(std::net::IpAddr) -> bool| {
        one.peer.is_some_and(|peer| what(peer.ip().to_canonical()))
    };
    let cases: Vec<(String, Means<'_>)> = vec![
        ("owner = crowd-holder".into(), Box::new(is_held)),
        (
            "owner != crowd-holder".into(),
            Box::new(move |one| one.pid.is_some() && !is_held(one)),
        ),
        ("owner ~ crowd-*".into(), Box::new(is_held)),
        (format!("pid = {pid}"), Box::new(is_held)),
        (
            format!("pid = {mine}"),
            Box::new(move |one| one.pid == Some(mine)),
        ),
        (
            format!("not pid = {mine}"),
            Box::new(move |one| one.pid != Some(mine)),
        ),
        (
            format!("pid = {pid} and state listening"),
            Box::new(move |one| is_held(one) && one.state == State::Listen),
        ),
        ("uid = 65534".into(), Box::new(is_held)),
        (
            format!("inode = {inode}"),
            Box::new(move |one| one.inode == inode),
        ),
        (
            format!("cookie = {cookie}"),
            Box::new(move |one| one.cookie == Some(cookie)),
        ),
        (
            format!("cookie = 0x{cookie:x}"),
            Box::new(move |one| one.cookie == Some(cookie)),
        ),
        ("timer = keepalive".into(), Box::new(timer(Timer::Keepalive))),
        ("timer = persist".into(), Box::new(timer(Timer::Persist))),
        ("timer = timewait".into(), Box::new(timer(Timer::TimeWait))),
        ("timer = on".into(), Box::new(timer(Timer::On))),
        ("timer = off".into(), Box::new(timer(Timer::Off))),
        ("timer != off".into(), Box::new(|one| one.timer != Timer::Off)),
        ("recvq = 1234".into(), Box::new(|one| one.recv_queue == 1234)),
        ("recvq > 0".into(), Box::new(|one| one.recv_queue > 0)),
        (
            "sendq >= 777 and sendq < 1k".into(),
            Box::new(|one| (777..1000).contains(&one.send_queue)),
        ),
        (
            "backlog = 128".into(),
            Box::new(|one| one.state == State::Listen && one.send_queue == 128),
        ),
        ("rtt > 1d".into(), Box::new(|_| false)),
        ("idle > 1d".into(), Box::new(|_| false)),
        (
            "state established and rtt < 1h".into(),
            Box::new(|one| one.state == State::Established),
        ),
        (
            "state established and idle < 1h".into(),
            Box::new(|one| one.state == State::Established),
        ),
        ("family = inet".into(), Box::new(is_v4)),
        ("family = inet6".into(), Box::new(move |one| !is_v4(one))),
        ("proto = tcp".into(), Box::new(|_| true)),
        ("proto = udp".into(), Box::new(|_| false)),
        (
            "state established and peers = loopback".into(),
            Box::new(move |one| one.state == State::Established && peer_is(one, |ip| ip.is_loopback())),
        ),
        (
            "state established and not peers = loopback".into(),
            Box::new(move |one| one.state == State::Established && peer_is(one, |ip| !ip.is_loopback())),
        ),
        ("state connected and peers = public".into(), Box::new(|_| false)),
    ];
    let unspecified = |one: &LabSocket| match one.local.unwrap() {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    for (text, means) in &cases {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ours = names(&sockets(&crowd.client, &[&["-tan"], &words[..]].concat()));
        let expected: Names = crowd
            .of(&crowd.client)
            .filter(|one| means(one))
            .map(|one| {
                let peer = one.peer.unwrap_or_else(|| unspecified(one));
                (
                    live::state_name(one.state).to_owned(),
                    without_scope(one.local.unwrap()),
                    without_scope(peer),
                )
            })
            .collect();
        assert_eq!(ours, expected, "{text}");
    }
    let marked = sockets(&crowd.client, &["-tan", "mark", "=", "0x1234"]);
    assert_eq!(
        names(&marked),
        names(&sockets(&crowd.client, &["-tan", "fwmark", "=", "0x1234"]))
    );
    assert_eq!((marked.len(), &marked[0]["mark"]), (1, &0x1234.into()));
    if let Some((_, path)) = own_cgroup() {
        // Of those that are whole; TIME_WAIT and the like belong to no cgroup. Ours needs no mount's name.
        let rows = sockets(&crowd.client, &["-tane", "cgroup", &path]);
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row["cgroup"] == *path),
            "{rows:#?}"
        );
        let rest = sockets(&crowd.client, &["-tane", "not", "cgroup", &path]);
        assert!(rest.iter().all(|row| row["cgroup"] != *path), "{rest:#?}");
        assert_eq!(rows.len() + rest.len(), crowd.of(&crowd.client).count());
    }
    if congestion_control("cubic").is_ok() {
        let rows = sockets(&crowd.client, &["-tain", "congestion", "=", "cubic"]);
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row["congestion"] == "cubic"),
            "{rows:#?}"
        );
    }
    // Of all namespaces, the one named.
    let there = sockets(&crowd.server, &["-tan", "--netns", "all", "netns", "=", name]);
    assert_eq!(names(&there), names(&sockets(&crowd.client, &["-tan"])));
}

/// Every number that a filter compares is the one that JSON shows.
#[test]
fn filter_numbers_are_those_shown() {
    let crowd = need!(Crowd::new("numbers"));
    let cases = [
        ("rtt", "us", "/tcp_info/rtt_us"),
        ("min_rtt", "us", "/tcp_info/min_rtt_us"),
        ("rto", "us", "/tcp_info/rto_us"),
        ("cwnd", "", "/tcp_info/snd_cwnd_segs"),
        ("mss", "", "/tcp_info/snd_mss_bytes"),
        ("pmtu", "", "/tcp_info/pmtu_bytes"),
        ("bytes_sent", "", "/tcp_info/bytes_sent"),
        ("bytes_acked", "", "/tcp_info/bytes_acked"),
        ("bytes_received", "", "/tcp_info/bytes_received"),
        ("notsent", "", "/tcp_info/notsent_bytes"),
        ("rcv_wnd", "", "/tcp_info/rcv_wnd_bytes"),
        ("snd_wnd", "", "/tcp_info/snd_wnd_bytes"),
        ("rcvbuf", "", "/memory/rcvbuf_bytes"),
        ("sndbuf", "", "/memory/sndbuf_bytes"),
        ("rmem", "", "/memory/rmem_alloc_bytes"),
        ("drops", "", "/memory/drops"),
        ("uid", "", "/uid"),
        ("inode", "", "/inode"),
    ];
    // Of sockets to which nothing happens.
    let quiet = [
        "timer", "=", "off", "and", "recvq", "=", "0", "and", "exclude", "syn-recv",
    ];
    let rows = sockets(&crowd.client, &[&["-taneim"], &quiet[..]].concat());
    for (word, unit, pointer) in cases {
        let mut values: Vec<u64> = rows
            .iter()
            .filter_map(|row| row.pointer(pointer)?.as_u64())
            .collect();
        values.sort_unstable();
        let median = *values
            .get(values.len() / 2)
            .unwrap_or_else(|| panic!("no socket has {pointer}"));
        type Compare = fn(&u64, &u64) -> bool;
        let operators: [(&str, Compare); 6] = [
            ("<", u64::lt),
            ("<=", u64::le),
            (">", u64::gt),
            (">=", u64::ge),
            ("=", u64::eq),
            ("!=", u64::ne),
        ];
        for (operator, compare) in operators {
            let value = format!("{median}{unit}");
            let words = [&quiet[..], &["and", word, operator, &value]].concat();
            let found = sockets(&crowd.client, &[&["-tan"], &words[..]].concat());
            let expected: Vec<Value> = rows
                .iter()
                .filter(|row| {
                    row.pointer(pointer)
                        .and_then(Value::as_u64)
                        .is_some_and(|value| compare(&value, &median))
                })
                .cloned()
                .collect();
            assert_eq!(names(&found), names(&expected), "{word} {operator} {value}");
        }
    }
}

/// What the kernel chose a port for, and the rest. (In `ss` an accepted connection at a server's port is in
/// neither, for the kernel says the one and `ss` the other.)
#[test]
fn autobound_selects_automatically_bound_ports() {
    let (_lab, client, _server, _link) = need!(linked("autobound"));
    let chosen = client.tcp_listener("127.0.0.1:0", &SocketOptions::new());
    // Within the range of which the kernel chooses, but not chosen by it.
    let asked_for = client.tcp_listener("127.0.0.1:40404", &SocketOptions::new());
    let low = client.tcp_listener("127.0.0.1:80", &SocketOptions::new());
    let pair = client.loopback().established_to(&low);
    let inodes = |words: &[&str]| -> BTreeSet<u64> {
        let rows = sockets(&client, &[&["-tan"], words].concat());
        rows.iter().map(|row| row["inode"].as_u64().unwrap()).collect()
    };
    let autobound = BTreeSet::from([chosen.inode, pair.client.inode]);
    assert_eq!(inodes(&["autobound"]), autobound);
    let others = BTreeSet::from([low.inode, pair.server.inode, asked_for.inode]);
    assert_eq!(inodes(&["not", "autobound"]), others);
}

#[test]
fn filters_work_for_other_protocols() {
    let (lab, client, _server, _link) = need!(linked("protocols"));
    let plain = SocketOptions::new();
    let _udp = [
        client.udp_bound("0.0.0.0:53", &plain),
        client.udp_bound("[::]:5353", &plain),
        client.udp_bound("127.0.0.1:40000", &SocketOptions::new().device("lo").mark(3)),
    ];
    let _connected = [
        client.loopback().udp_connected(),
        client.loopback_mapped().udp_connected(),
    ];
    for text in [
        "",
        "sport = :53",
        "sport = :domain",
        "state connected",
        "state established",
        "state unconnected",
        "src 127.0.0.1",
        "dst 127.0.0.0/8",
        "not src 127.0.0.1",
        "dev lo",
        "fwmark = 3",
        "sport > :1024 and not dev lo",
    ] {
        let words: Vec<&str> = text.split_whitespace().collect();
        let rows = sockets(&client, &[&["-uan"], &words[..]].concat());
        let ours: BTreeSet<u64> = rows.iter().map(|row| row["cookie"].as_u64().unwrap()).collect();
        assert_eq!(ours, ss_cookies(&client, "-uan", &words), "{text}");
    }

    let path = lab.unix_path("filtered.sock");
    let bound = client.unix_bound(UnixKind::Stream, &path);
    let hidden = client.unix_bound(UnixKind::Stream, &lab.unix_abstract("filtered"));
    let other = client.unix_bound(UnixKind::Datagram, &lab.unix_path("another"));
    let inodes = |words: &[&str]| -> BTreeSet<u64> {
        let rows = sockets(&client, &[&["-xan"], words].concat());
        rows.iter().map(|row| row["inode"].as_u64().unwrap()).collect()
    };
    assert_eq!(
        inodes(&["src", "unix:*filtered.sock"]),
        BTreeSet::from([bound.inode])
    );
    assert_eq!(
        inodes(&["src", "unix:*filtered*"]),
        BTreeSet::from([bound.inode, hidden.inode])
    );
    assert_eq!(
        inodes(&["not", "src", "unix:*filtered*"]),
        BTreeSet::from([other.inode])
    );
    assert_eq!(
        inodes(&["state", "listening"]),
        BTreeSet::from([bound.inode, hidden.inode])
    );
    assert_eq!(
        inodes(&[
            "src",
            &format!("unix:{}", lab.directory().join("another").display())
        ]),
        BTreeSet::from([other.inode])
    );
}

/// The message points at the error, which is a usage error.
#[test]
fn filter_errors_point_at_the_word() {
    let (_lab, client, _server, _link) = need!(linked("errors"));
    for (text, mark) in [
        ("sport = :443 and", "^"),
        ("state estblished", "established"),
        ("sport >", "^"),
        ("( src 127.0.0.1", "^"),
        ("src 10.0.0.0/33", "^"),
        ("sport = :no-such-service", "^"),
        ("dev no-such-device", "^"),
        ("rtt > 5", "^"),
        ("bogus = 1", "^"),
    ] {
        let words: Vec<&str> = text.split_whitespace().collect();
        let outcome = attempt(&client, &[&["sockets", "-tan"], &words[..]].concat());
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.status.code(), Some(2), "{text}: {stderr}");
        assert!(
            stderr.contains(mark) && stderr.contains('^') && outcome.stdout.is_empty(),
            "{text}: {stderr}"
        );
    }
    let deep = format!("{} sport = :1 {}", "( ".repeat(5000), ") ".repeat(5000));
    let outcome = attempt(&client, &["sockets", "-tan", &deep]);
    assert_eq!(outcome.status.code(), Some(2));
    assert_eq!(sockeye(&client, &["sockets", "-tanH"]), "");
}

/// An interface is meant where the sockets are: its name says nothing here, and its number another one.
#[test]
fn interface_names_are_those_of_the_namespace() {
    let (_lab, client, server, link) = need!(linked("elsewhere"));
    let device = link.devices().0;
    let tied = client.tcp_listener("0.0.0.0:1024", &SocketOptions::new().device(device));
    let _free = client.tcp_listener("0.0.0.0:1025", &SocketOptions::new());
    let ports = |words: &[&str]| -> Vec<u64> {
        let rows = sockets(&server, &[&["-tln"], words].concat());
        rows.iter()
            .map(|row| row["local"]["port"].as_u64().unwrap())
            .collect()
    };
    let name = client.name();
    assert_eq!(ports(&["--netns", name, "dev", device]), [1024]);
    assert_eq!(ports(&["--netns", name, "dev", "!=", device]), [1025]);
    // Of many namespaces, those without such an interface have no such socket; other tests' have.
    let all = sockets(
        &server,
        &["-tln", "--netns", "all", "dev", device, "sport", "=", ":1024"],
    );
    assert!(all.iter().any(|row| row["inode"].as_u64() == Some(tied.inode)));
    let outcome = attempt(&server, &["sockets", "--netns", name, "dev", "nonsense"]);
    assert_eq!(
        outcome.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
}
