//! Sockets and flows for tests of writers: ordinary, complete, empty and odd ones.
#![allow(dead_code, reason = "each test uses some of these")]

use super::output::{Coverage, Summary};
use sockeye_model::*;
use sockeye_wire::{inet_diag, tcp_info};
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

/// Returns a name for everything.
pub(crate) struct AllNames;

impl Names for AllNames {
    fn workload(&self, _: WorkloadId) -> Option<&str> {
        Some("web")
    }
    fn interface(&self, _: InterfaceIndex, _: Option<NetnsInode>) -> Option<&str> {
        Some("eth0")
    }
    fn service(&self, _: Protocol, _: Port) -> Option<&str> {
        Some("http")
    }
    fn host(&self, _: IpAddr) -> Option<&str> {
        Some("db.example")
    }
    fn place(&self, _: IpAddr) -> Option<Place> {
        Some(Place {
            country: Some(ShortText::new(b"DE")),
            as_number: Some(3320),
        })
    }
    fn user(&self, _: Uid) -> Option<&str> {
        Some("www-data")
    }
    fn cgroup(&self, _: CgroupId) -> Option<&str> {
        Some("/system.slice/nginx.service")
    }
    fn netns(&self, _: NetnsInode) -> Option<&str> {
        Some("web1")
    }
}

/// Returns two workloads of each kind.
#[derive(Debug)]
pub(crate) struct AllWorkloads;

impl Workloads for AllWorkloads {
    fn visit(
        &self,
        _: WorkloadKind,
        _: &Socket,
        _: Option<&[Owner]>,
        visit: &mut dyn FnMut(WorkloadId),
    ) -> Option<WorkloadSource> {
        visit(WorkloadId(1));
        visit(WorkloadId(2));
        Some(WorkloadSource::Socket)
    }

    fn names(&self, _: WorkloadId, _: &mut dyn FnMut(&str)) {}
}

/// Returns names with control characters, formulas and other text that needs escapes.
pub(crate) struct EvilNames;

pub(crate) const EVIL: &str = "=\x1b[31m\"a,b\"\r\n\u{202e}\u{9b}2J";

impl Names for EvilNames {
    fn workload(&self, _: WorkloadId) -> Option<&str> {
        Some(EVIL)
    }
    fn interface(&self, _: InterfaceIndex, _: Option<NetnsInode>) -> Option<&str> {
        Some(EVIL)
    }
    fn service(&self, _: Protocol, _: Port) -> Option<&str> {
        Some(EVIL)
    }
    fn host(&self, _: IpAddr) -> Option<&str> {
        Some(EVIL)
    }
    fn user(&self, _: Uid) -> Option<&str> {
        Some(EVIL)
    }
    fn cgroup(&self, _: CgroupId) -> Option<&str> {
        Some(EVIL)
    }
    fn netns(&self, _: NetnsInode) -> Option<&str> {
        Some(EVIL)
    }
}

pub(crate) fn inet(address: &str, port: u16) -> Endpoint {
    Endpoint::inet(address.parse().unwrap(), Port(port))
}

pub(crate) fn connection(state: State, local: Endpoint, peer: Endpoint) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, state);
    let is_v6 = local.ip().is_some_and(|ip| ip.is_ipv6());
    socket.family = if is_v6 { Family::Inet6 } else { Family::Inet };
    (socket.local, socket.peer) = (local, peer);
    socket.queues = match state {
        State::Listen => Queues::Accept {
            waiting: 2,
            backlog: Some(511),
        },
        _ => Queues::Data {
            receive_bytes: 0,
            send_bytes: 36,
        },
    };
    socket
}

pub(crate) fn owner(comm: &[u8], pid: u32, fd: u32) -> Owner {
    Owner {
        process: process(comm, pid, Some(800)),
        fd: Fd(fd),
    }
}

pub(crate) fn process(comm: &[u8], pid: u32, pgid: Option<u32>) -> Process {
    Process {
        pid: Pid(pid),
        pgid: pgid.map(Pgid),
        comm: Comm::new(comm),
    }
}

/// Returns a socket with every field; the bytes of each number are `byte`.
pub(crate) fn full(byte: u8) -> Socket {
    let big = u32::from_ne_bytes([byte; 4]);
    let huge = u64::from_ne_bytes([byte; 8]);
    let mut socket = connection(
        State::Established,
        inet("10.0.1.9", 80),
        inet("2001:db8::1", 40_000),
    );
    socket.interface = Some(InterfaceIndex(big));
    socket.netns = Some(NetnsInode(big));
    socket.inode = Some(Inode(big));
    socket.cookie = Some(Cookie(huge));
    socket.uid = Some(Uid(big));
    socket.timer = Some(Timer {
        kind: TimerKind::Keepalive,
        expires_ms: big,
        retransmits: big,
    });
    socket.mark = Some(big);
    socket.cgroup = Some(CgroupId(huge));
    socket.class_id = Some(big);
    socket.tos = Some(byte);
    socket.tclass = Some(byte);
    socket.shutdown = Some(Shutdown {
        receive: true,
        send: false,
    });
    socket.v6only = Some(false);
    socket.options = Some(Options(u16::MAX));
    socket.memory = Some(Memory::from(inet_diag::SkMemInfo::new(&[byte; 36])));
    socket.congestion = Some(Algorithm::new(b"bbr"));
    socket.congestion_info = Some(CongestionInfo::Bbr {
        bandwidth_bytes_per_s: huge,
        min_rtt_us: big,
        pacing_gain_256ths: big,
        cwnd_gain_256ths: big,
    });
    socket.ulp = Some(Ulp::new(b"tls"));
    let bytes = [byte; tcp_info::LEN];
    let mut info = TcpInfo::from_wire(&tcp_info::TcpInfo::new(&bytes), State::Established);
    info.min_rtt_us = Some(big);
    socket.tcp_info = Some(info);
    socket.mptcp_info = Some(MptcpInfo::from(inet_diag::MptcpInfo::new(&[byte; 256])));
    socket.references = Some(big);
    socket
}

/// Returns sockets of all kinds, from empty to extreme.
pub(crate) fn sockets() -> Vec<Socket> {
    let mut all = vec![full(1), full(0), full(u8::MAX)];
    for (protocol, local) in [
        (Protocol::Mptcp, inet("::", 0)),
        (Protocol::UnixStream, unix(Some(b"/run/docker.sock"))),
        (Protocol::UnixDgram, unix(Some(&[0xff; 108]))),
        (Protocol::UnixSeqpacket, unix(Some(b"\0abstract\0\x1b\xc3\x28"))),
        (Protocol::UnixStream, unix(Some(b""))),
        (Protocol::UnixStream, unix(None)),
        (
            Protocol::PacketRaw,
            Endpoint::Packet {
                ethertype: 3,
                interface: None,
            },
        ),
        (
            Protocol::PacketDgram,
            Endpoint::Packet {
                ethertype: 0x0800,
                interface: Some(InterfaceIndex(2)),
            },
        ),
        (
            Protocol::PacketDgram,
            Endpoint::Packet {
                ethertype: 0xbeef,
                interface: None,
            },
        ),
        (
            Protocol::Netlink,
            Endpoint::Netlink {
                protocol: 0,
                port: 812,
                group: None,
            },
        ),
        (
            Protocol::Netlink,
            Endpoint::Netlink {
                protocol: 200,
                port: u32::MAX,
                group: Some(u32::MAX),
            },
        ),
        (Protocol::Unknown(77), Endpoint::None),
    ] {
        let mut socket = Socket::new(protocol, State::Unknown(99));
        socket.family = Family::Unknown(200);
        socket.local = local;
        socket.timer = Some(Timer {
            kind: TimerKind::Unknown(9),
            expires_ms: 0,
            retransmits: 0,
        });
        all.push(socket);
    }
    for state in State::ALL {
        all.push(Socket::new(Protocol::Tcp, state));
    }
    for info in [
        CongestionInfo::Vegas {
            enabled: true,
            rtt_count: 1,
            rtt_us: 2,
            min_rtt_us: 3,
        },
        CongestionInfo::Dctcp {
            enabled: false,
            ce_state: 1,
            alpha_1024ths: 2,
            ecn_bytes: 3,
            total_bytes: 4,
        },
    ] {
        let mut socket = connection(State::Listen, inet("::", 80), inet("::", 0));
        socket.congestion_info = Some(info);
        socket.congestion = Some(Algorithm::new(b"\xff\x1bbad"));
        socket.ulp = Some(Ulp::new(b"\xfe"));
        socket.tcp_info = Some(TcpInfo::default());
        socket.mptcp_info = Some(MptcpInfo::default());
        socket.memory = Some(Memory::default());
        socket.options = Some(Options(0));
        socket.queues = Queues::Accept {
            waiting: 0,
            backlog: None,
        };
        all.push(socket);
    }
    all.push(connection(State::Listen, inet("0.0.0.0", 80), inet("0.0.0.0", 0)));
    all
}

fn unix(name: Option<&[u8]>) -> Endpoint {
    Endpoint::Unix {
        name: name.map(UnixName::new),
        inode: name.map(|_| Inode(22_016)),
    }
}

pub(crate) fn odd_owners() -> Vec<Owner> {
    let mut nameless = owner(b"", u32::MAX, 0);
    nameless.process.pgid = None;
    vec![
        owner(b"nginx", 812, 6),
        owner(b"=\x1b]0;x\x07\n,\"\xff", 813, 6),
        nameless,
    ]
}

pub(crate) fn key(direction: Direction) -> FlowKey {
    FlowKey {
        netns: None,
        direction,
        local: Some("10.0.1.9".parse().unwrap()),
        peer: Some("10.0.1.10".parse().unwrap()),
        peer_prefix: None,
        port: Some(Port(3306)),
        process: None,
        uid: None,
        workload: None,
    }
}

pub(crate) fn flow(key: FlowKey, connections: u32) -> Flow {
    let mut flow = Flow::new(key);
    flow.connections = connections;
    flow.states[1] = connections;
    flow
}

/// Returns a flow with every field, with the largest numbers.
pub(crate) fn full_flow() -> Flow {
    let mut key = key(Direction::Passive);
    key.netns = Some(NetnsInode(u32::MAX));
    key.peer_prefix = Some(24);
    key.process = Some(process(b"ng\xffinx", 812, Some(800)));
    key.uid = Some(Uid(33));
    let mut flow = flow(key, u32::MAX);
    flow.states = [u32::MAX; 14];
    flow.owners = odd_owners().iter().map(|owner| owner.process).collect();
    flow.totals = Some(Totals {
        measured: u32::MAX,
        bytes_acked: Some(u64::MAX),
        bytes_received: Some(u64::MAX),
        rtt_us_median: Some(u32::MAX),
        total_retrans_segs: Some(u64::MAX),
        delivery_rate_bytes_per_s_sum: Some(u64::MAX),
        delivery_rate_bytes_per_s_median: Some(u64::MAX),
    });
    flow.rates = Some(Rates {
        sent_bytes_per_s: Some(1.5e300),
        received_bytes_per_s: Some(0.1),
        retrans_segs_per_s: Some(0.0),
        opened_per_s: Some(-1.0),
        closed_per_s: Some(12_345.678),
    });
    flow
}

pub(crate) fn bare_flow() -> Flow {
    Flow::new(FlowKey {
        netns: None,
        direction: Direction::Active,
        local: None,
        peer: None,
        peer_prefix: None,
        port: None,
        process: None,
        uid: None,
        workload: None,
    })
}

/// Compares `text` with `testdata/render/NAME`. With `BLESS=1` in the environment, writes the file instead: review the
/// difference before you commit it.
#[track_caller]
pub(crate) fn check_golden(name: &str, text: &str) {
    let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = crate_folder
        .ancestors()
        .map(|folder| folder.join("testdata/render"));
    let path = folders.find(|folder| folder.is_dir()).unwrap().join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(text == expected, "{name}, expected:\n{expected}\ngot:\n{text}");
}

/// Removes colours.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split('\x1b');
    plain.push_str(parts.next().unwrap());
    for part in parts {
        plain.push_str(part.split_once('m').unwrap().1);
    }
    plain
}

/// A writer that accepts `left` bytes, then fails.
pub(crate) struct Full {
    pub(crate) left: usize,
    pub(crate) kind: std::io::ErrorKind,
}

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 {
            Err(self.kind.into())
        } else {
            Ok(taken)
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns a namespace with a value in every field, and text of every kind.
pub(crate) fn full_namespace() -> Namespace {
    let process = Process {
        pid: Pid(123),
        pgid: None,
        comm: Comm::new(b"odd\x1b\xff"),
    };
    let mut namespace = Namespace::new(NetnsInode(u32::MAX));
    let odd = OsStr::from_bytes(b"=odd\n\x1b[31m\xff");
    namespace.names = [odd, OsStr::new("web1"), OsStr::new("a,b")]
        .map(|name| NetnsName::of_file(name).unwrap())
        .to_vec();
    namespace.container = Some("shop\u{202e}".into());
    namespace.label = Some("web1".into());
    namespace.id = Some(i32::MAX);
    namespace.processes = Some(0);
    namespace.threads = Some(0);
    namespace.sockets = Some(u64::MAX);
    namespace.interfaces = Some(u32::MAX);
    namespace.age = Some(Age {
        seconds: u64::MAX,
        from: AgeFrom::Mount,
    });
    let holders = &mut namespace.holders;
    holders.mounts.push(MountHolder {
        process: None,
        path: (*b"/run/docker/netns/x\xff").into(),
    });
    holders.mounts.push(MountHolder {
        process: Some(process),
        path: (*b"/y").into(),
    });
    holders.descriptors.push(DescriptorHolder { process, fd: Fd(7) });
    holders.threads.push(ThreadHolder {
        process,
        tid: Pid(124),
    });
    holders.sockets.push(SocketHolder { process, sockets: 3 });
    namespace
}

/// Returns a namespace with nothing but an inode.
pub(crate) fn bare_namespace() -> Namespace {
    Namespace::new(NetnsInode(4_026_531_833))
}

/// A summary with every counter set.
pub(crate) const LOSSY: Summary<'static> = Summary {
    connections: None,
    losses: Losses {
        repeated_dumps: 1,
        incomplete_dumps: 2,
        overruns: 3,
        truncated_messages: 4,
        broken_records: 5,
        surplus_rows: 8,
        unlisted_protocols: 9,
        unsettled_chains: 1,
        unreadable_processes: u64::MAX,
        vanished_processes: 6,
        unreadable_namespaces: 7,
    },
    sources: &[("tcp", "sock_diag"), ("udp", "pro\x1bcfs")],
    coverage: Some(Coverage::Owned),
    rows_left_out: 12,
    summed_us: None,
    interrupted: true,
};
