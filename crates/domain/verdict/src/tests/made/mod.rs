//! Sockets made by hand, and what is found of them.
use sockeye_model::{
    Base, Comm, Device, Endpoint, Entry, Expression, Fd, Firewall, FirewallChain, FirewallFamily,
    FirewallRule, FirewallVerdict, Hook, Inode, InterfaceIndex, Memory, Operator, Owner, Pid, Port, Process,
    Protocol, Queues, Settings, ShortText, Socket, State, TcpInfo, Timer, TimerKind, Vitals,
};
use sockeye_verdict::{Finding, Limits, Rule, Snapshot, Suspects};
use std::time::Duration;

/// A connection with which all is well, but for what `change` does to it.
pub(crate) fn connection(change: impl FnOnce(&mut Socket, &mut TcpInfo)) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Established);
    socket.local = end([10, 0, 0, 1], 40_000);
    socket.peer = end([10, 0, 0, 2], 443);
    socket.inode = Some(Inode(7));
    socket.queues = Queues::Data {
        receive_bytes: 0,
        send_bytes: 0,
    };
    let mut info = TcpInfo {
        rto_us: Some(204_000),
        backoff: Some(0),
        rtt_us: Some(4_000),
        min_rtt_us: Some(3_000),
        snd_mss_bytes: Some(1448),
        snd_cwnd_segs: Some(10),
        unacked_segs: Some(0),
        sacked_segs: Some(0),
        notsent_bytes: Some(0),
        last_data_sent_ms: Some(500),
        last_data_recv_ms: Some(500),
        last_ack_recv_ms: Some(500),
        bytes_sent: Some(100_000),
        bytes_acked: Some(100_000),
        data_segs_out: Some(200),
        delivered_segs: Some(201),
        segs_in: Some(300),
        data_segs_in: Some(200),
        total_retrans_segs: Some(0),
        dsack_dups: Some(0),
        reord_seen: Some(0),
        busy_time_us: Some(800_000),
        rwnd_limited_us: Some(0),
        sndbuf_limited_us: Some(0),
        delivery_rate_bytes_per_s: Some(1_000_000),
        pacing_rate_bytes_per_s: Some(5_000_000),
        ..TcpInfo::default()
    };
    change(&mut socket, &mut info);
    socket.tcp_info = Some(info);
    socket
}

pub(crate) fn end(ip: [u8; 4], port: u16) -> Endpoint {
    Endpoint::inet(ip.into(), Port(port))
}

pub(crate) const fn sending(bytes: u32) -> Queues {
    Queues::Data {
        receive_bytes: 0,
        send_bytes: bytes,
    }
}

pub(crate) const fn received(bytes: u32) -> Queues {
    Queues::Data {
        receive_bytes: bytes,
        send_bytes: 0,
    }
}

pub(crate) const fn timer(kind: TimerKind, expires_ms: u32, retransmits: u32) -> Option<Timer> {
    Some(Timer {
        kind,
        expires_ms,
        retransmits,
    })
}

/// A datagram socket whose buffer holds so much of so much, and has dropped so many.
pub(crate) fn datagrams(taken: u32, room: u32, drops: u32) -> Socket {
    let mut socket = Socket::new(Protocol::Udp, State::Close);
    (socket.local, socket.peer) = (end([0, 0, 0, 0], 53), end([0, 0, 0, 0], 0));
    socket.inode = Some(Inode(8));
    socket.queues = received(taken);
    socket.memory = Some(Memory {
        rmem_alloc_bytes: Some(taken),
        rcvbuf_bytes: Some(room),
        drops: Some(drops),
        ..Memory::default()
    });
    socket
}

pub(crate) fn listener(waiting: u32, backlog: Option<u32>, drops: u32) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Listen);
    (socket.local, socket.peer) = (end([0, 0, 0, 0], 80), end([0, 0, 0, 0], 0));
    socket.inode = Some(Inode(9));
    socket.queues = Queues::Accept { waiting, backlog };
    socket.memory = Some(Memory {
        drops: Some(drops),
        ..Memory::default()
    });
    socket
}

/// A namespace that is set so.
pub(crate) fn set(change: impl FnOnce(&mut Settings)) -> Vitals {
    let mut vitals = Vitals::default();
    change(&mut vitals.settings);
    vitals
}

pub(crate) fn owner(pid: u32) -> Owner {
    Owner {
        process: Process {
            pid: Pid(pid),
            pgid: None,
            comm: Comm::new(b"made"),
        },
        fd: Fd(3),
    }
}

/// What is found of these sockets at one moment: exactly these rules, the worst first.
#[track_caller]
pub(crate) fn check(sockets: &[Socket], rules: &[Rule]) -> Vec<Finding> {
    check_in(&Vitals::default(), sockets, rules)
}

/// The same in a namespace.
#[track_caller]
pub(crate) fn check_in(vitals: &Vitals, sockets: &[Socket], rules: &[Rule]) -> Vec<Finding> {
    let limits = Limits::default();
    let mut snapshot = Snapshot::new(&limits);
    judged(&mut snapshot, vitals, sockets, rules)
}

/// What is found of these after those, so long ago.
#[track_caller]
pub(crate) fn check_after(
    before: &[Socket],
    elapsed: Duration,
    now: &[Socket],
    rules: &[Rule],
) -> Vec<Finding> {
    let limits = Limits::default();
    let mut earlier = Snapshot::new(&limits).keep_counters();
    for socket in before {
        earlier.socket(&Entry::new(socket));
    }
    let memory = earlier.into_baseline();
    let mut snapshot = Snapshot::new(&limits).after(&memory, elapsed);
    judged(&mut snapshot, &Vitals::default(), now, rules)
}

/// What is found of the first, if the others are seen in a second look.
#[track_caller]
pub(crate) fn check_twice(
    first: &[Socket],
    apart: Duration,
    second: &[Socket],
    rules: &[Rule],
) -> Vec<Finding> {
    let limits = Limits::default();
    let mut later = Suspects::default();
    for socket in second {
        later.socket(&Entry::new(socket), &limits);
    }
    let mut snapshot = Snapshot::new(&limits);
    snapshot.second_look(&later, apart);
    judged(&mut snapshot, &Vitals::default(), first, rules)
}

#[track_caller]
fn judged(snapshot: &mut Snapshot<'_>, vitals: &Vitals, sockets: &[Socket], rules: &[Rule]) -> Vec<Finding> {
    snapshot.namespace(vitals.clone());
    let owners = [owner(1)];
    for socket in sockets {
        snapshot.socket(&Entry::with_owners(socket, socket.inode.map(|_| &owners[..])));
    }
    let findings = snapshot.findings();
    let found: Vec<Rule> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(found, rules, "{findings:#?}");
    findings
}

/// A device that is up, without traffic and queues.
pub(crate) fn device(name: &[u8], driver: &[u8]) -> Device {
    Device {
        index: InterfaceIndex(2),
        name: ShortText::new(name),
        driver: ShortText::new(driver),
        is_physical: false,
        is_loopback: false,
        is_up: true,
        has_carrier: Some(true),
        carrier_changes: None,
        mtu_bytes: Some(1500),
        queue_packets: Some(1000),
        traffic: None,
        speed_mbit_per_s: None,
        duplex: None,
        master: None,
        lower: None,
        bond: None,
        bond_port: None,
        qdiscs: Vec::new(),
        addresses: vec![[10, 0, 0, 1].into()],
        duplicate_addresses: 0,
    }
}

/// A firewall that drops all that comes to one port.
pub(super) fn drops_all() -> Firewall {
    let port = |number: u16| {
        vec![
            Expression::Payload {
                base: Base::Transport,
                offset: 0,
                len: 2,
                register: 1,
            },
            Expression::Compare {
                register: 1,
                operator: Operator::Less,
                value: number.to_be_bytes().to_vec(),
            },
            Expression::Verdict(FirewallVerdict::Drop),
        ]
    };
    Firewall {
        chains: vec![FirewallChain {
            family: FirewallFamily::INET,
            table: "filter".into(),
            name: "input".into(),
            hook: Some(Hook {
                number: 1,
                priority: 0,
                devices: Vec::new(),
            }),
            drops: false,
            policy_packets: None,
            rules: vec![FirewallRule {
                handle: 1,
                expressions: port(100),
            }],
        }],
        ..Firewall::default()
    }
}
