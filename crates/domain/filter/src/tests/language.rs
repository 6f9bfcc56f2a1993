//! What is understood, how it is printed, what is refused and with which words.

use super::generate::Names;
use sockeye_filter::{KernelFeatures, Needs, NoResolve, join_words, parse, parse_words};
use sockeye_model::{
    Comm, Endpoint, Entry, Family, Fd, Owner, Pgid, Pid, Port, Process, Protocol, Queues, Socket, State,
    StateSet, TcpInfo, Timer, UnixName, WorkloadId, WorkloadKind, WorkloadSource, Workloads,
};

#[test]
fn expressions_have_one_canonical_form() {
    let check = |text: &str, expected: &str| match parse(text, &Names) {
        Ok(filter) => assert_eq!(filter.to_string(), expected, "{text}"),
        Err(error) => panic!("{}", error.render(text)),
    };
    for (text, expected) in [
        ("", ""),
        ("  # nothing\n", ""),
        ("src *", ""),
        ("src any", ""),
        ("dport :443", "dport = :443"),
        ("dport=:https", "dport = :443"),
        (
            "(dport=443&&!sport=22)||autobound",
            "( dport = :443 and sport != :22 ) or autobound",
        ),
        // No precedence: from left to right, as ss does it (and not as its manual has it).
        (
            "sport 1 or sport 2 and sport 3",
            "( sport = :1 or sport = :2 ) and sport = :3",
        ),
        (
            "sport 1 sport 2 or sport 3",
            "( sport = :1 and sport = :2 ) or sport = :3",
        ),
        (
            "sport 1 and ( sport 2 and sport 3 )",
            "sport = :1 and sport = :2 and sport = :3",
        ),
        // Leading states hold for the whole rest...
        (
            "state closed sport 1 or sport 2",
            "state unconnected and ( sport = :1 or sport = :2 )",
        ),
        ("state estab exclude all", "exclude all"),
        ("exclude bucket", "state big"),
        (
            "state time-wait state close_wait",
            "state time-wait state close-wait",
        ),
        // ... unless an operator makes them part of it.
        (
            "state closed and sport 1 or sport 2",
            "( state unconnected and sport = :1 ) or sport = :2",
        ),
        ("sport > 80", "sport >= :81"),
        ("sport lt 80", "sport <= :79"),
        ("sport > 65535", "sport > :65535"),
        ("sport < 0", "sport > :65535"),
        ("sport 0x50", "sport = :80"),
        ("sport 0120", "sport = :80"),
        ("dport != 1-9", "dport != :1-9"),
        ("not sport >= 80", "not sport >= :80"),
        ("src 10", "src = 10.0.0.0/32"),
        ("src 10.1/16:80", "src = 10.1.0.0/16:80"),
        ("src 10.1.2.3/255.255.0.0", "src = 10.1.0.0/16"),
        ("src ::1", "src = [::1/128]"),
        ("src 2001:db8::1:80", "src = [2001:db8::1/128]:80"),
        ("src fe80::/10", "src = [fe80::/10]"),
        ("src [fe80::1/10]:80", "src = [fe80::/10]:80"),
        ("src *:80", "sport = :80"),
        ("src :80", "sport = :80"),
        ("src != 10.0.0.1", "src != 10.0.0.1/32"),
        ("dst web:80", "dst = 10.0.0.1/32:80 or dst = [2001:db8::1/128]:80"),
        ("dst inet6:web", "dst = inet6:[2001:db8::1/128]"),
        ("sport >= inet:80", "sport >= inet::80"),
        ("src unix:/run/*", "src = unix:/run/*"),
        ("src unix:/a\\ (b)", "src = unix:/a\\ \\(b\\)"),
        ("src netlink:genl:kernel", "src = netlink:16:0"),
        ("src netlink:*", "src = netlink:*:*"),
        ("src link:ARP:lo", "src = link:2054:1"),
        ("src vsock:3:22", "src = vsock:3:22"),
        ("dev lo", "dev = 1"),
        ("interface != if7", "dev != 7"),
        ("fwmark 0x10/0xf0", "fwmark = 0x10/0xf0"),
        ("cgroup != /a\\ b", "cgroup != /a\\ b"),
        ("rtt > 1.5ms", "rtt > 1500us"),
        ("delivery_rate >= 1MB/s", "delivery_rate >= 8000000bit"),
        ("bytes_sent > 1Mi", "bytes_sent > 1048576"),
        ("user root", "uid = 0"),
        ("netns = web1", "netns = 4026"),
        ("netns = 101", "netns = 4026"),
        ("netns = 102", "netns = 102"),
        ("netns = 402653184000", "netns = 4026"),
        ("netns = 4026531840", "netns = 4026531840"),
        ("netns = web", "netns = 4026 or netns = 4027"),
        ("netns != web", "netns != 4026 and netns != 4027"),
        ("not netns = web", "not ( netns = 4026 or netns = 4027 )"),
        ("owner!~x", "owner !~ x"),
        ("peers != public", "peers != public"),
        ("timer = none", "timer = off"),
        ("proto != unix_stream", "proto != unix_stream"),
    ] {
        check(text, expected);
    }
}

#[test]
fn errors_have_their_position() {
    let check = |text: &str, column: usize, expected: &str| {
        let error = parse(text, &NoResolve).expect_err(text);
        assert_eq!(
            (error.span.start, error.to_string().as_str()),
            (column, expected),
            "{text}"
        );
    };
    for (text, column, expected) in [
        ("dport = )", 8, "expected a port after '=', found ')'"),
        (
            "dport =",
            7,
            "expected a port after '=', found the end of the expression",
        ),
        ("dport == = 80", 9, "expected a port after '==', found '='"),
        ("dport = and", 8, "expected a port after '=', found 'and'"),
        ("dport = ( 80 or 443 )", 8, "expected a port after '=', found '('"),
        (
            "dport = 65536",
            8,
            "expected a port (0 to 65535) after '=', found '65536'",
        ),
        (
            "dport nosuch",
            6,
            "expected a port number or the name of a known service after 'dport', found 'nosuch'",
        ),
        ("dport > *", 8, "expected a port after '>', found '*'"),
        (
            "dport = 9-1",
            8,
            "expected a range of ports, the lower one first (8000-8999) after '=', found '9-1'",
        ),
        ("src > 10.0.0.1", 4, "expected '=' or '!=' after 'src', found '>'"),
        (
            "dst 10.0.0.0/33",
            4,
            "expected an address, a prefix or the name of a known host after 'dst', found '10.0.0.0/33'",
        ),
        (
            "dst [::1",
            4,
            "expected an IPv6 address in [ ] after 'dst', found '[::1'",
        ),
        (
            "( sport 80",
            10,
            "expected ')', 'and' or 'or', found the end of the expression",
        ),
        (
            "sport 80 )",
            9,
            "expected 'and', 'or', a condition or the end, found ')'",
        ),
        (
            "sport 80 and",
            12,
            "expected a condition, '(' or 'not', found the end of the expression",
        ),
        (
            "and sport 80",
            0,
            "expected a condition, '(' or 'not', found 'and'",
        ),
        (
            "sport 80 = 81",
            9,
            "expected 'and', 'or', a condition or the end, found '='",
        ),
        (
            "state establshed",
            6,
            "expected the name of a state after 'state', found 'establshed' (did you mean 'established'?)",
        ),
        (
            "state new-syn-recv",
            6,
            "expected the name of a state after 'state', found 'new-syn-recv' (did you mean 'syn-recv'?)",
        ),
        (
            "dprot = 80",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'dprot' (did you mean 'dport'?)",
        ),
        (
            "10.0.0.1",
            0,
            "expected a condition (state, src, dport, owner, ...), found '10.0.0.1' (did you mean 'dst 10.0.0.1'?)",
        ),
        (
            ":80",
            0,
            "expected a condition (state, src, dport, owner, ...), found ':80' (did you mean '( sport = :80 or dport = :80 )'?)",
        ),
        (
            "80",
            0,
            "expected a condition (state, src, dport, owner, ...), found '80' (did you mean '( sport = :80 or dport = :80 )' or 'pid = 80'?)",
        ),
        (
            "70000",
            0,
            "expected a condition (state, src, dport, owner, ...), found '70000' (did you mean 'pid = 70000'?)",
        ),
        (
            "process = nginx",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'process' (did you mean 'owner'?)",
        ),
        (
            "nginx",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'nginx' (did you mean 'owner = nginx'?)",
        ),
        (
            "established",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'established' (did you mean 'state established'?)",
        ),
        (
            "LISTEN",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'LISTEN' (did you mean 'state listen'?)",
        ),
        (
            "1.2.3.4:80",
            0,
            "expected a condition (state, src, dport, owner, ...), found '1.2.3.4:80' (did you mean 'dst 1.2.3.4:80'?)",
        ),
        (
            "[2001:db8::1]:443",
            0,
            "expected a condition (state, src, dport, owner, ...), found '[2001:db8::1]:443' (did you mean 'dst [2001:db8::1]:443'?)",
        ),
        (
            "10.0.0.0/8",
            0,
            "expected a condition (state, src, dport, owner, ...), found '10.0.0.0/8' (did you mean 'dst 10.0.0.0/8'?)",
        ),
        (
            "localhost",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'localhost' (did you mean 'dst localhost'?)",
        ),
        (
            "udp",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'udp' (did you mean 'proto = udp'?)",
        ),
        (
            "port 80",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'port' (did you mean '( sport = :80 or dport = :80 )'?)",
        ),
        (
            "port = 80",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'port' (did you mean '( sport = :80 or dport = :80 )'?)",
        ),
        (
            "port = :80",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'port' (did you mean '( sport = :80 or dport = :80 )'?)",
        ),
        (
            "port ssh",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'port' (did you mean 'sport' or 'dport'?)",
        ),
        (
            "port",
            0,
            "expected a condition (state, src, dport, owner, ...), found 'port' (did you mean 'sport' or 'dport'?)",
        ),
        (
            "rtt > 50",
            6,
            "expected a time with a unit (10us, 50ms, 2s, 10m, 1h, 1d) after '>', found '50' (which unit?)",
        ),
        (
            "pacing_rate > 10M",
            14,
            "expected a rate with a unit (10Mbit, 500kbit, 1MB/s) after '>', found '10M' (which unit?)",
        ),
        (
            "timer = keepaliv",
            8,
            "expected a timer (on, keepalive, timewait, persist, off) after '=', found 'keepaliv' (did you mean 'keepalive'?)",
        ),
        (
            "dev = eth7",
            6,
            "expected the name or index of an interface after '=', found 'eth7'",
        ),
        (
            "cgroup /x",
            7,
            "expected the path of a cgroup v2 after 'cgroup', found '/x'",
        ),
        (
            "owner > x",
            6,
            "expected '=', '!=', '~' or '!~' after 'owner', found '>'",
        ),
        (
            "uid = alice",
            6,
            "expected a user's number or name after '=', found 'alice'",
        ),
    ] {
        check(text, column, expected);
    }
    let words = ["dport", "=", ")"];
    let error = parse_words(&words, &NoResolve).unwrap_err();
    assert_eq!(
        error.render(&join_words(&words)),
        "sockeye: filter: expected a port after '=', found ')'\n  dport = )\n          ^\n"
    );
}

fn check(text: &str, entry: &Entry<'_>, expected: bool) {
    let filter = parse(text, &Names).unwrap_or_else(|error| panic!("{}", error.render(text)));
    assert_eq!(filter.matches(entry), expected, "{text} of {entry:?}");
}

#[test]
fn absent_value_matches_no_comparison() {
    let mut socket = Socket::new(Protocol::Tcp, State::TimeWait);
    socket.family = Family::Inet;
    socket.local = Endpoint::inet([127, 0, 0, 1].into(), Port(80));
    socket.peer = Endpoint::inet([0, 0, 0, 0].into(), Port(0));
    let entry = Entry::new(&socket);
    for word in [
        "rtt > 0",
        "rtt = 0",
        "rtt != 0",
        "uid = 0",
        "uid != 0",
        "owner = x",
        "owner != x",
        "owner ~ x",
        "owner !~ x",
        "pid = 1",
        "pid != 1",
        "congestion = bbr",
        "congestion != bbr",
        "peers = public",
        "peers != public",
        "mark = 0",
        "mark != 0",
        "netns != 1",
        "backlog != 1",
        "recvq >= 0",
    ] {
        check(word, &entry, false);
        check(&format!("not {word}"), &entry, true);
    }
    // ss's own words go on as in ss: no interface is 0, no mark is 0, "!=" is "not ... =".
    for (word, expected) in [
        ("dev = 0", true),
        ("dev != lo", true),
        ("fwmark = 0", true),
        ("fwmark = 1", false),
        ("fwmark != 1", true),
        ("cgroup = /a", false),
        ("cgroup != /a", true),
        ("timer = off", true),
        ("timer != on", true),
    ] {
        check(word, &entry, expected);
    }
    // No process has a descriptor of it: as if unknown.
    let entry = Entry::with_owners(&socket, Some(&[]));
    check("owner != x", &entry, false);
    check("not owner ~ *", &entry, true);
}

#[test]
fn each_word_compares_its_field() {
    let mut socket = Socket::new(Protocol::Tcp, State::Established);
    socket.peer = Endpoint::inet([10, 0, 0, 1].into(), Port(5432));
    socket.queues = Queues::Data {
        receive_bytes: 5,
        send_bytes: 0,
    };
    socket.timer = Timer::from_numbers(2, 1000, 0);
    socket.tcp_info = Some(TcpInfo {
        rtt_us: Some(50_000),
        last_data_sent_ms: Some(700_000),
        last_data_recv_ms: Some(600_000),
        delivery_rate_bytes_per_s: Some(1_250_000),
        ..TcpInfo::default()
    });
    let owner = |pid, comm: &str| Owner {
        process: Process {
            pid: Pid(pid),
            pgid: Some(Pgid(7)),
            comm: Comm::new(&comm.as_bytes()[..comm.len().min(15)]),
        },
        fd: Fd(3),
    };
    let owners = [owner(10, "nginx"), owner(20, "a-very-long-name-indeed")];
    let entry = Entry::with_owners(&socket, Some(&owners));
    for (text, expected) in [
        ("rtt = 50ms", true),
        ("rtt > 50ms", false),
        ("rtt >= 50000us", true),
        ("idle >= 10m", true),
        ("idle > 10m", false),
        ("delivery_rate = 10Mbit", true),
        ("delivery_rate > 1MB/s", true),
        ("recvq > 0", true),
        ("sendq > 0", false),
        ("backlog > 0", false),
        ("timer = keepalive", true),
        ("timer = on", false),
        ("peers = private", true),
        ("peers != loopback", true),
        ("owner = nginx", true),
        ("owner = ngin", false),
        ("owner ~ ngin*", true),
        ("owner ~ gin", true),
        ("owner ~ g*", false),
        ("owner != nginx", false),
        ("owner != apache", true),
        ("owner !~ gin", false),
        ("owner = a-very-long-name-indeed", true),
        ("owner = a-very-long-na", false),
        ("pid = 20", true),
        ("pid != 20", false),
        ("pid != 30", true),
        ("pid > 15", true),
        ("pgid = 7", true),
        ("proto = tcp", true),
        ("proto = udp", false),
        ("dport = 5000-6000", true),
        ("dport = 6000-7000", false),
    ] {
        check(text, &entry, expected);
    }
    socket.state = State::Listen;
    socket.queues = Queues::Accept {
        waiting: 3,
        backlog: Some(128),
    };
    let entry = Entry::new(&socket);
    check("backlog = 128 recvq = 3 sendq = 128", &entry, true);
}

#[test]
fn other_families_match_by_address() {
    let mut socket = Socket::new(Protocol::UnixStream, State::Listen);
    socket.family = Family::Unix;
    socket.local = Endpoint::Unix {
        name: Some(UnixName::new(b"\0Org.X")),
        inode: None,
    };
    socket.peer = Endpoint::Unix {
        name: None,
        inode: None,
    };
    let entry = Entry::new(&socket);
    for (text, expected) in [
        ("src unix:@org.*", true),
        ("src unix:org.*", false),
        ("src unix:*", true),
        ("dst unix:*", true),
        ("dst unix:?*", false),
        ("autobound", false),
        ("sport = 80", false),
        ("sport != 80", true),
        // All host conditions are of one family: the listing is confined to it.
        ("src unix:@org.* or dport = 80", true),
        ("not src inet:10.0.0.1", false),
        // They are not: each family is its condition's own.
        ("src unix:@org.* or src inet:10.0.0.1", true),
    ] {
        check(text, &entry, expected);
    }
    socket.local = Endpoint::Unix {
        name: Some(UnixName::new(b"\x000a1f9")),
        inode: None,
    };
    check("autobound", &Entry::new(&socket), true);
    socket.local = Endpoint::Unix {
        name: None,
        inode: None,
    };
    check("autobound", &Entry::new(&socket), true);

    let mut socket = Socket::new(Protocol::Netlink, State::Close);
    socket.family = Family::Netlink;
    socket.local = Endpoint::Netlink {
        protocol: 16,
        port: 4_294_963_000,
        group: None,
    };
    let entry = Entry::new(&socket);
    for (text, expected) in [
        ("src netlink:genl", true),
        ("src netlink:rtnl", false),
        ("src netlink::-4296", true),
        ("sport = netlink:5", false),
        ("autobound", true),
        ("src vsock:*", false),
    ] {
        check(text, &entry, expected);
    }

    let mut socket = Socket::new(Protocol::PacketRaw, State::Close);
    socket.family = Family::Packet;
    socket.local = Endpoint::Packet {
        ethertype: 3,
        interface: None,
    };
    let entry = Entry::new(&socket);
    for (text, expected) in [
        ("src link:all", true),
        ("src link:ip", false),
        ("src link:*:lo", false),
        ("autobound", false),
    ] {
        check(text, &entry, expected);
    }
}

/// Nothing that only a socket has may be taken for something that a packet shows.
#[test]
fn packets_decide_only_what_they_show() {
    let is_decided = |text: &str| parse(text, &Names).unwrap().is_decided_by_packets();
    for text in [
        "",
        "sport = :443 or dst 10.0.0.0/8",
        "dport 443 and peers = public",
        "proto = udp family = inet6 netns != web1",
    ] {
        assert!(is_decided(text), "{text}");
    }
    for text in [
        "uid = 0",
        "inode != 1",
        "cookie > 0 or dport 443",
        "recvq > 0",
        "sendq > 0",
        "accept_queue > 0",
        "timer = on",
        "timer_expires > 1s",
        "references > 0",
        "dev = lo",
        "autobound",
        "state established",
        "not pid = 7",
        "owner = x",
        "rtt > 1s",
        "dport 443 and fwmark 1",
        "cgroup /a",
        "class_id = 1",
    ] {
        assert!(!is_decided(text), "{text}");
    }
}

#[test]
fn filter_reports_its_needs() {
    let filter = |text: &str| parse(text, &Names).unwrap();
    let none = Needs::default();
    for (text, expected) in [
        ("dport 443 and peers = public", none),
        (
            "idle > 1s or owner = x",
            Needs {
                tcp_info: true,
                owners: true,
                ..none
            },
        ),
        ("drops > 0", Needs { memory: true, ..none }),
        (
            "congestion = bbr",
            Needs {
                congestion: true,
                ..none
            },
        ),
        (
            "not fwmark 1 netns = web1",
            Needs {
                mark: true,
                netns: true,
                ..none
            },
        ),
        (
            "cgroup /a autobound",
            Needs {
                cgroup: true,
                kernel_only: true,
                ..none
            },
        ),
    ] {
        assert_eq!(filter(text).needs(), expected, "{text}");
    }
    let set = |states: &[State]| states.iter().fold(StateSet::EMPTY, |set, &state| set.with(state));
    for (text, expected) in [
        ("dport 443", None),
        ("state time-wait", Some(set(&[State::TimeWait]))),
        (
            "state time-wait dport 443 or sport 443",
            Some(set(&[State::TimeWait])),
        ),
        (
            "( state time-wait or state close-wait ) and dport 443",
            Some(set(&[State::TimeWait, State::CloseWait])),
        ),
        (
            "not ( not state time-wait or dport 443 )",
            Some(set(&[State::TimeWait])),
        ),
        ("state time-wait or dport 443", Some(StateSet::ALL_AND_BOUND)),
        ("state time-wait and state listen", Some(StateSet::EMPTY)),
    ] {
        assert_eq!(filter(text).states(), expected, "{text}");
    }
    for (text, kernel, exact, empty) in [
        ("", KernelFeatures::OLDEST, true, true),
        ("state established", KernelFeatures::OLDEST, true, true),
        ("state established dport 443", KernelFeatures::OLDEST, true, false),
        (
            "( state established or dport 443 )",
            KernelFeatures::FULL,
            false,
            true,
        ),
        ("owner = x", KernelFeatures::FULL, false, true),
        ("owner = x dport 443", KernelFeatures::FULL, false, false),
        ("owner = x or dport 443", KernelFeatures::FULL, false, true),
        (
            "not ( owner = x or dport 443 )",
            KernelFeatures::FULL,
            false,
            false,
        ),
        ("fwmark 1", KernelFeatures::FULL, true, false),
        ("fwmark 1", KernelFeatures::UNPRIVILEGED, false, true),
        ("dev 1", KernelFeatures::UNPRIVILEGED, true, false),
        ("dev 1", KernelFeatures::OLDEST, false, true),
        ("cgroup /a", KernelFeatures::UNPRIVILEGED, true, false),
        ("src unix:x", KernelFeatures::OLDEST, true, false),
    ] {
        let program = filter(text).program(kernel);
        assert_eq!(
            (program.exact, program.bytecode.is_empty()),
            (exact, empty),
            "{text}"
        );
    }
    for (text, protocol, expected) in [
        ("dport 443", Protocol::Udp, true),
        ("dport 443", Protocol::UnixStream, false),
        ("src unix:x", Protocol::Tcp, false),
        ("proto = tcp", Protocol::Udp, false),
        ("proto = tcp or owner = x", Protocol::Udp, true),
        ("not family = unix", Protocol::UnixDgram, false),
        ("src netlink:*", Protocol::Netlink, true),
    ] {
        assert_eq!(filter(text).may_match(protocol), expected, "{text} {protocol}");
    }
}

#[test]
fn excluded_namespace_need_not_be_entered() {
    for (text, expected) in [
        ("", true),
        ("netns = web1", true),
        ("netns = 4027", false),
        ("netns = web", true),
        ("netns != web", false),
        ("not netns = web1", false),
        ("netns = 4027 and sport = :80", false),
        ("netns = 4027 or sport = :80", true),
        ("not ( netns = web1 and sport = :80 )", true),
        ("netns > 4026", false),
        ("sport = :80", true),
    ] {
        let filter = parse(text, &Names).unwrap();
        assert_eq!(
            filter.may_match_in(sockeye_model::NetnsInode(4026)),
            expected,
            "{text}"
        );
    }
}

/// Workloads of every socket: fixed names.
#[derive(Debug)]
struct FixedWorkloads(&'static [(WorkloadKind, &'static [&'static str])]);

impl Workloads for FixedWorkloads {
    fn visit(
        &self,
        kind: WorkloadKind,
        _socket: &Socket,
        _owners: Option<&[Owner]>,
        visit: &mut dyn FnMut(WorkloadId),
    ) -> Option<WorkloadSource> {
        let all = (0..).zip(self.0).filter(|(_, (of, _))| *of == kind);
        let count = all.map(|(id, _)| visit(WorkloadId(id))).count();
        (count > 0).then_some(WorkloadSource::Owner)
    }

    fn names(&self, id: WorkloadId, visit: &mut dyn FnMut(&str)) {
        self.0[id.0 as usize].1.iter().for_each(|name| visit(name));
    }
}

#[test]
fn workloads_match_by_each_of_their_names() {
    let socket = Socket::new(Protocol::Tcp, State::Established);
    let workloads = FixedWorkloads(&[
        (WorkloadKind::Container, &["web", "9ec39b91f3d7"]),
        (WorkloadKind::Container, &["db"]),
        (WorkloadKind::Unit, &["nginx.service", "nginx"]),
    ]);
    let entry = Entry {
        workloads: Some(&workloads),
        ..Entry::new(&socket)
    };
    for (text, expected) in [
        ("container = web", true),
        ("container = 9ec39b91f3d7", true),
        ("container = db", true),
        ("container = we", false),
        ("container ~ we", true),
        ("container ~ w?b", true),
        ("container != web", false),
        ("container != x", true),
        ("container !~ d*", false),
        ("unit = nginx", true),
        ("unit = nginx.service", true),
        ("not unit = nginx", false),
        // Unknown: neither equal nor different.
        ("exe = /bin/a", false),
        ("exe != /bin/a", false),
    ] {
        check(text, &entry, expected);
        check(text, &Entry::new(&socket), text.starts_with("not "));
    }
    let filter = |text: &str| parse(text, &Names).unwrap();
    let needs = filter("container = web").needs();
    assert!(needs.workloads && !needs.owners);
    let needs = filter("exe ~ nginx").needs();
    assert!(needs.workloads && needs.owners);
}
