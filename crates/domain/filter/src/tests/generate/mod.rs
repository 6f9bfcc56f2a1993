//! Random filters and sockets from small pools, so that they meet. Same seed, same result.

use sockeye_filter::Resolve;
use sockeye_model::{
    Algorithm, CgroupId, Comm, Cookie, Endpoint, Family, Fd, Inode, InterfaceIndex, Memory, NetnsInode,
    Owner, Pgid, Pid, Port, Process, Protocol, Queues, Socket, State, TcpInfo, Timer, Uid, UnixName,
};
use sockeye_wire::bytecode::SocketEntry;
use std::net::IpAddr;

/// splitmix64
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// What random filters are made of.
pub(crate) struct Pool {
    pub(crate) ports: Vec<u16>,
    pub(crate) addresses: Vec<IpAddr>,
    /// `not`, `!=`: where the family of an address is concerned, `ss` errs with them
    pub(crate) negations: bool,
    /// Words that only we know, and conditions that only one family of `ss` knows
    pub(crate) ours: bool,
    pub(crate) autobound: bool,
    pub(crate) fwmark: bool,
    pub(crate) dev: bool,
}

impl Default for Pool {
    fn default() -> Self {
        let addresses = ADDRESSES.iter().map(|text| text.parse().unwrap()).collect();
        Self {
            ports: vec![0, 1, 22, 79, 80, 81, 443, 8080, 32768, 40000, 65534, 65535],
            addresses,
            negations: true,
            ours: true,
            autobound: true,
            fwmark: true,
            dev: true,
        }
    }
}

const ADDRESSES: &[&str] = &[
    "0.0.0.0",
    "127.0.0.1",
    "127.0.0.2",
    "10.0.0.1",
    "10.128.0.1",
    "192.168.1.1",
    "8.8.8.8",
    "100.64.3.4",
    "::",
    "::1",
    "fe80::1",
    "fd00::7",
    "2001:db8::1",
    "2001:db8:8000::1",
    "::ffff:0.0.0.0",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:8.8.8.8",
];

impl Pool {
    pub(crate) fn filter(&self, rng: &mut Rng) -> String {
        let mut text = String::new();
        if rng.one_in(4) {
            for _ in 0..=rng.below(3) {
                text += &state(rng);
                text.push(' ');
            }
        }
        let depth = rng.below(5);
        self.list(rng, depth, &mut text);
        text
    }

    fn list(&self, rng: &mut Rng, depth: usize, text: &mut String) {
        self.expr(rng, depth, text);
        for _ in 0..rng.below(3) {
            text.push_str(rng.pick(&[" and ", " or ", " ", " && ", " | ", " or "]));
            self.expr(rng, depth, text);
        }
    }

    fn expr(&self, rng: &mut Rng, depth: usize, text: &mut String) {
        match rng.below(if depth == 0 { 6 } else { 10 }) {
            0..6 => text.push_str(&self.condition(rng)),
            6 if self.negations => {
                text.push_str(rng.pick(&["not ", "! "]));
                self.expr(rng, depth - 1, text);
            }
            _ => {
                text.push_str("( ");
                self.list(rng, depth - 1, text);
                text.push_str(" )");
            }
        }
    }

    fn condition(&self, rng: &mut Rng) -> String {
        let port = rng.pick(&self.ports);
        let equal = if self.negations {
            rng.pick(&["=", "==", "eq", "", "!="])
        } else {
            rng.pick(&["=", ""])
        };
        match rng.below(if self.ours { 26 } else { 13 }) {
            0..4 => {
                let side = rng.pick(&["sport", "dport"]);
                let compare = rng.pick(&["=", ">=", "<=", ">", "<", "ge", "lt", equal]);
                let colon = rng.pick(&["", ":"]);
                format!("{side} {compare} {colon}{port}")
            }
            4..9 => {
                let side = rng.pick(&["src", "dst"]);
                let address = rng.pick(&self.addresses);
                let bits = if address.is_ipv4() { 32 } else { 128 };
                let len = rng.pick(&[0, 1, 8, 9, bits / 2, bits - 1, bits, bits]);
                let address = match (address, rng.below(3)) {
                    (address, 0) if address.is_ipv4() => format!("{address}"),
                    (address, _) if address.is_ipv4() => format!("{address}/{len}"),
                    (address, 0) => format!("[{address}]"),
                    (address, _) => format!("[{address}/{len}]"),
                };
                // `ss` does not negate hosts by operator.
                let equal = if self.ours { equal } else { rng.pick(&["=", ""]) };
                if rng.one_in(3) {
                    format!("{side} {equal} {address}:{port}")
                } else {
                    format!("{side} {equal} {address}")
                }
            }
            9 if self.autobound => "autobound".into(),
            10 if self.fwmark => format!(
                "fwmark {equal} {}",
                rng.pick(&["0", "1", "0x10/0xf0", "0/1", "3/1"])
            ),
            11 if self.dev => format!("dev {equal} {}", rng.below(4)),
            12 => format!("{} *:{port}", rng.pick(&["src", "dst"])),
            13 => format!("sport = {}-{}", port / 2, port),
            14 => state(rng),
            15 => format!("src {equal} *"),
            16 => format!(
                "peers {equal} {}",
                rng.pick(&["public", "private", "loopback", "all"])
            ),
            17 => format!("family {equal} {}", rng.pick(&["inet", "inet6", "unix"])),
            18 => format!(
                "proto {equal} {}",
                rng.pick(&["tcp", "udp", "unix", "nl", "u_str"])
            ),
            19 => {
                let (field, value) = rng.pick(&[
                    ("rtt", "50ms"),
                    ("idle", "1s"),
                    ("recvq", "0"),
                    ("uid", "root"),
                    ("inode", "7"),
                    ("mark", "1"),
                    ("delivery_rate", "10Mbit"),
                    ("retrans", "0"),
                    ("pid", "17"),
                    ("pgid", "3"),
                    ("drops", "0"),
                    ("bytes_sent", "1.5k"),
                    ("cookie", "0xff"),
                    ("netns", "web1"),
                    ("netns", "web"),
                    ("backlog", "128"),
                ]);
                format!("{field} {} {value}", rng.pick(&["=", "!=", ">", "<=", ""]))
            }
            20 => format!(
                "owner {} {}",
                rng.pick(&["=", "!=", "~", "!~"]),
                rng.pick(&["nginx", "ngin*", "g", "we\\ ird\\)\\(", "\\and"])
            ),
            21 => format!(
                "congestion {} {}",
                rng.pick(&["=", "!=", "~"]),
                rng.pick(&["bbr", "cubic", "c*"])
            ),
            22 => format!(
                "timer {equal} {}",
                rng.pick(&["off", "on", "keepalive", "timewait", "persist"])
            ),
            23 => format!("cgroup {equal} {}", rng.pick(&["/a", "/b", "/a\\ b"])),
            24 => format!(
                "{} {equal} {}",
                rng.pick(&["src", "dst"]),
                rng.pick(&[
                    "web",
                    "inet:*",
                    "inet6:*:80",
                    "inet:10/8",
                    "unix:/run/*",
                    "netlink:rtnl:*",
                    "link:ip:1"
                ])
            ),
            _ => format!("dport {equal} {port}"),
        }
    }
}

fn state(rng: &mut Rng) -> String {
    let word = rng.pick(&["state", "state", "exclude"]);
    let name = rng.pick(&[
        "established",
        "listening",
        "time-wait",
        "close-wait",
        "connected",
        "bucket",
        "big",
        "all",
        "closed",
        "synchronized",
        "syn-recv",
        "LISTENING",
        "fin-wait-2",
    ]);
    format!("{word} {name}")
}

/// Knows a few of each.
pub(crate) struct Names;

impl Resolve for Names {
    fn service(&self, name: &str) -> Option<u16> {
        [("http", 80), ("https", 443), ("ssh", 22)]
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, port)| port)
    }
    fn host(&self, name: &str) -> Vec<IpAddr> {
        match name {
            "web" => vec!["10.0.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            "localhost" => vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
            _ => Vec::new(),
        }
    }
    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        (name == "lo").then_some(InterfaceIndex(1))
    }
    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        [("/a", 1), ("/b", 2), ("/a b", 3)]
            .iter()
            .find(|(known, _)| *known == path)
            .map(|&(_, id)| CgroupId(id))
    }
    fn user(&self, name: &str) -> Option<Uid> {
        (name == "root").then_some(Uid(0))
    }
    fn netns(&self, name: &str) -> Vec<NetnsInode> {
        match name {
            "web1" | "101" | "402653184000" => vec![NetnsInode(4026)],
            "web" => vec![NetnsInode(4026), NetnsInode(4027)],
            _ => Vec::new(),
        }
    }
}

/// A socket of any protocol; `Inet` ones are what `inet_diag` could have said.
pub(crate) fn socket(rng: &mut Rng) -> Socket {
    let protocol = rng.pick(&[
        Protocol::Tcp,
        Protocol::Tcp,
        Protocol::Tcp,
        Protocol::Tcp,
        Protocol::Udp,
        Protocol::UnixStream,
        Protocol::Netlink,
        Protocol::PacketRaw,
    ]);
    let pool = Pool::default();
    let mut socket = Socket::new(protocol, rng.pick(&State::ALL));
    let maybe = |rng: &mut Rng| rng.one_in(2);
    match protocol {
        Protocol::Tcp | Protocol::Udp => {
            let is_v6 = rng.one_in(2);
            socket.family = if is_v6 { Family::Inet6 } else { Family::Inet };
            let same: Vec<_> = pool.addresses.iter().filter(|ip| ip.is_ipv6() == is_v6).collect();
            socket.local = Endpoint::inet(*rng.pick(&same), Port(rng.pick(&pool.ports)));
            socket.peer = Endpoint::inet(*rng.pick(&same), Port(rng.pick(&pool.ports)));
        }
        Protocol::UnixStream => {
            socket.family = Family::Unix;
            let names: [&[u8]; 4] = [b"/run/x", b"\0abstract", b"\x0000a1f", b""];
            let name = rng.pick(&names);
            let name = (!name.is_empty()).then(|| UnixName::new(name));
            socket.local = Endpoint::Unix { name, inode: None };
        }
        Protocol::Netlink => {
            socket.family = Family::Netlink;
            socket.local = Endpoint::Netlink {
                protocol: rng.below(3) as u8,
                port: rng.below(3) as u32,
                group: None,
            };
        }
        _ => {
            socket.family = Family::Packet;
            let interface = maybe(rng).then_some(InterfaceIndex(1));
            socket.local = Endpoint::Packet {
                ethertype: rng.pick(&[0, 3, 0x800]),
                interface,
            };
        }
    }
    socket.interface = maybe(rng).then(|| InterfaceIndex(rng.below(3) as u32 + 1));
    socket.mark = maybe(rng).then(|| rng.pick(&[0, 1, 0x10, 0x13]));
    socket.cgroup = maybe(rng).then(|| CgroupId(rng.below(3) as u64 + 1));
    socket.uid = maybe(rng).then(|| Uid(rng.below(2) as u32));
    socket.inode = maybe(rng).then_some(Inode(7));
    socket.cookie = Some(Cookie(0xff));
    socket.netns = maybe(rng).then_some(NetnsInode(4026));
    socket.timer = Timer::from_numbers(rng.below(5) as u8, 5, 0);
    socket.congestion = maybe(rng).then(|| Algorithm::new(rng.pick(&["bbr", "cubic"]).as_bytes()));
    socket.memory = maybe(rng).then(|| Memory {
        drops: Some(rng.below(2) as u32),
        ..Memory::default()
    });
    if maybe(rng) {
        socket.queues = Queues::Data {
            receive_bytes: rng.below(2) as u32,
            send_bytes: 0,
        };
    }
    socket.tcp_info = maybe(rng).then(|| TcpInfo {
        rtt_us: maybe(rng).then(|| rng.below(100_000) as u32),
        last_data_sent_ms: maybe(rng).then(|| rng.below(2000) as u32),
        last_data_recv_ms: maybe(rng).then(|| rng.below(2000) as u32),
        total_retrans_segs: maybe(rng).then(|| rng.below(2) as u32),
        delivery_rate_bytes_per_s: maybe(rng).then(|| rng.pick(&[0, 1_250_000, u64::MAX])),
        ..TcpInfo::default()
    });
    socket
}

pub(crate) fn owners(rng: &mut Rng) -> Option<Vec<Owner>> {
    let comms: [&[u8]; 4] = [b"nginx", b"sshd", b"we ird)(", b"and"];
    (!rng.one_in(3)).then(|| {
        (0..rng.below(3))
            .map(|_| Owner {
                process: Process {
                    pid: Pid(rng.below(3) as u32 + 16),
                    pgid: rng.one_in(2).then_some(Pgid(3)),
                    comm: Comm::new(rng.pick(&comms)),
                },
                fd: Fd(3),
            })
            .collect()
    })
}

/// What the kernel would see of it; `None` if it is no socket for `inet_diag`.
pub(crate) fn subject(socket: &Socket) -> Option<SocketEntry> {
    let bytes = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    };
    Some(SocketEntry {
        family: socket.family.number(),
        source: bytes(socket.local.ip()?),
        destination: bytes(socket.peer.ip()?),
        source_port: socket.local.port()?.0,
        destination_port: socket.peer.port()?.0,
        interface: socket.interface.map_or(0, |interface| interface.0),
        mark: socket.mark.unwrap_or(0),
        cgroup: socket.cgroup.map_or(0, |cgroup| cgroup.0),
        // Without the kernel, `autobound` compares the port with the ephemeral range.
        port_was_chosen: false,
    })
}
