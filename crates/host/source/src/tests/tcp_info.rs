//! `struct tcp_info` from the walk compared with `sock_diag` on the same sockets right before and after: every field by its
//! name.

use crate::bpf::Kernel;
use crate::unavailable::Unavailable;
use rustix::io::Errno;
use sockeye_lab::{Lab, LabSocket, Namespace, NetPath, Skip, SocketOptions, congestion_control, need};
use sockeye_model::{Algorithm, CongestionInfo, State, TcpInfo};
use sockeye_sys::bpf::{Program, Slot};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::inet_diag::{BbrInfo, InetDiag, Query, attribute};
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};
use sockeye_wire::tcp_info::TcpInfo as Wire;
use sockeye_wire::walk::{self, KernelClock, Kind, Outcome, Reply, Request, Table, detail};
use std::collections::BTreeMap;
use std::path::Path;

/// The compared fields of one socket: names and values.
type Fields = BTreeMap<&'static str, Option<u64>>;

/// The sockets of a namespace by their cookies.
type Sockets = BTreeMap<u64, Fields>;

/// Fields that grow with time.
const CLOCKS: [&str; 8] = [
    "last_data_sent_ms",
    "last_data_recv_ms",
    "last_ack_recv_ms",
    "busy_time_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
    "total_rto_time_ms",
    "expires",
];

struct Walker {
    program: Program,
    slots: Vec<Slot>,
    /// The walk of kernels before Linux 6.2, which must report the same.
    by_copying: Option<Box<Walker>>,
}

impl Walker {
    fn new() -> Result<Self, Skip> {
        let older = Self::load(include_bytes!("../../../../../bpf/tcp_info_read.bpf.o"))?;
        Ok(Self {
            by_copying: Some(Box::new(older)),
            ..Self::load(include_bytes!("../../../../../bpf/tcp_info.bpf.o"))?
        })
    }

    fn load(elf: &[u8]) -> Result<Self, Skip> {
        let load = || -> Result<Self, Unavailable> {
            let kernel = Kernel::read(Path::new(Kernel::TYPES), false)?;
            let prepared = kernel.prepare(elf, &[])?;
            let ([program], array) = prepared
                .object
                .load_raw_tracepoints(["walk_tcp"], "slots")
                .map_err(|error| Unavailable::Load(error, prepared.missing))?;
            let slots = array.into_slots().unwrap();
            Ok(Self {
                program,
                slots,
                by_copying: None,
            })
        };
        match load() {
            Ok(walker) => Ok(walker),
            Err(unavailable) if unavailable.is_forbidden() => Err(Skip::new(unavailable.to_string())),
            Err(unavailable @ (Unavailable::Types(..) | Unavailable::Lacks(_))) => {
                Err(Skip::new(unavailable.to_string()))
            }
            Err(unavailable) => panic!("{unavailable}"),
        }
    }

    /// Every full socket of a namespace. `None` if the kernel's clocks do not show their rate.
    fn walk(&mut self, namespace: &Namespace) -> Option<Sockets> {
        let mut sockets = Sockets::new();
        for table in [Table::Established, Table::Listening] {
            let mut request = Request {
                table,
                detail: detail::MEMORY | detail::TCP_INFO | detail::CONGESTION,
                netns: u32::try_from(namespace.inode()).unwrap(),
                ..Request::ALL
            };
            loop {
                let slot = &mut self.slots[0];
                request.write(slot.bytes_mut());
                self.program.run(slot, &[]).unwrap();
                let reply = Reply::read(slot.bytes()).unwrap();
                assert!(
                    matches!(reply.outcome, Outcome::Done | Outcome::Full),
                    "{reply:?}"
                );
                let now = KernelClock {
                    hz: walk::hz(reply.jiffies, reply.ktime_ns)?,
                    jiffies: reply.jiffies,
                    ktime_ns: reply.ktime_ns,
                };
                let mut records = walk::records(slot.bytes(), &reply);
                for record in &mut records {
                    if record.kind() != Kind::Full {
                        assert!(record.tcp_raw(now).is_none() && record.congestion().is_none());
                        continue;
                    }
                    let raw = record.tcp_raw(now).unwrap();
                    let mut fields = fields(&TcpInfo::from_walk(&raw, State::from_number(record.state())));
                    fields.insert("state", raw.state().map(u64::from));
                    fields.insert("unacked", raw.unacked().map(u64::from));
                    fields.insert("sacked", raw.sacked().map(u64::from));
                    let congestion = record.congestion().unwrap();
                    assert!(!record.has_congestion_info());
                    fields.insert("upper layer", Some(record.has_upper_layer().into()));
                    insert_congestion(&mut fields, &congestion.algorithm(), congestion.bbr());
                    assert_eq!(sockets.insert(record.cookie(), fields), None);
                }
                assert!(!records.is_broken());
                request.first = reply.next;
                request.skip = reply.skip;
                if reply.next >= reply.buckets {
                    break;
                }
            }
        }
        Some(sockets)
    }
}

fn fields(info: &TcpInfo) -> Fields {
    let mut fields = Fields::new();
    info.visit(|name, value| assert_eq!(fields.insert(name, value), None));
    fields
}

fn insert_congestion(fields: &mut Fields, algorithm: &[u8], bbr: Option<BbrInfo>) {
    let name = Algorithm::from_c(algorithm);
    let known = ["bbr", "cubic", "reno"]
        .iter()
        .position(|known| name == Algorithm::from_c(known.as_bytes()));
    fields.insert("algorithm", Some(known.unwrap() as u64));
    if let Some(CongestionInfo::Bbr {
        bandwidth_bytes_per_s,
        min_rtt_us,
        pacing_gain_256ths,
        cwnd_gain_256ths,
    }) = bbr.map(CongestionInfo::from)
    {
        fields.insert("bbr bandwidth", Some(bandwidth_bytes_per_s));
        fields.insert("bbr min_rtt", Some(min_rtt_us.into()));
        fields.insert("bbr pacing_gain", Some(pacing_gain_256ths.into()));
        fields.insert("bbr cwnd_gain", Some(cwnd_gain_256ths.into()));
    }
}

/// The same from `sock_diag`: all sockets that have a `tcp_info`.
fn dump(socket: &NetlinkSocket) -> Sockets {
    let extensions = [attribute::INFO, attribute::CONG, attribute::VEGASINFO].map(attribute::extension);
    let request = Query {
        states: u32::MAX,
        extensions: extensions.into_iter().fold(0, |all, bit| all | bit),
        ports: (0, 0),
        bytecode: &[],
    }
    .one_pass(7)
    .unwrap();
    socket.send(&request).unwrap();
    let mut sockets = Sockets::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let received = match socket.receive(&mut buffer) {
            Ok(received) => received,
            Err(Errno::INTR) => continue,
            Err(errno) => panic!("{errno}"),
        };
        for message in Messages::new(&buffer[..received.len]) {
            let message = message.unwrap();
            match message.kind {
                NLMSG_DONE => return sockets,
                NLMSG_ERROR => panic!("{:?}", message.outcome()),
                _ => {}
            }
            let diag = InetDiag::parse(message.payload).unwrap();
            let mut entry = Fields::new();
            let mut congestion = (Vec::new(), None);
            for attribute in diag.attributes() {
                let attribute = attribute.unwrap();
                match attribute.kind {
                    attribute::INFO => {
                        let wire = Wire::new(attribute.payload);
                        entry.extend(fields(&TcpInfo::from_wire(
                            &wire,
                            State::from_number(diag.state()),
                        )));
                        entry.insert("state", wire.state().map(u64::from));
                        entry.insert("unacked", wire.unacked().map(u64::from));
                        entry.insert("sacked", wire.sacked().map(u64::from));
                    }
                    attribute::ULP_INFO => _ = entry.insert("upper layer", Some(1)),
                    attribute::CONG => congestion.0 = attribute.payload.to_vec(),
                    attribute::BBRINFO => congestion.1 = BbrInfo::parse(attribute.payload),
                    _ => {}
                }
            }
            if !entry.is_empty() {
                entry.entry("upper layer").or_insert(Some(0));
                insert_congestion(&mut entry, &congestion.0, congestion.1);
                sockets.insert(diag.cookie(), entry);
            }
        }
    }
}

/// The same fields without those that grow with time.
fn at_rest(sockets: &Sockets) -> Sockets {
    let mut sockets = sockets.clone();
    for fields in sockets.values_mut() {
        fields.retain(|name, _| !CLOCKS.contains(name));
    }
    sockets
}

/// Compares the sockets of a namespace, once they did not change during three reads.
fn check(walker: &mut Walker, namespace: &Namespace, expected: usize) -> Result<Sockets, Skip> {
    if let Some(walker) = &mut walker.by_copying {
        check(walker, namespace, expected)?;
    }
    let socket = namespace.run(NetlinkSocket::open).unwrap();
    for _ in 0..1000 {
        let before = dump(&socket);
        let walked = walker.walk(namespace);
        let after = dump(&socket);
        let walked =
            walked.ok_or_else(|| Skip::new("the kernel's clocks do not show HZ: five minutes after boot"))?;
        // Timers run: sockets that changed meanwhile are read again.
        if at_rest(&before) != at_rest(&after) {
            continue;
        }
        assert!(
            before.len() >= expected,
            "{} sockets, not {expected}",
            before.len()
        );
        assert_eq!(
            walked.keys().collect::<Vec<_>>(),
            before.keys().collect::<Vec<_>>()
        );
        let mut wrong = Vec::new();
        for (cookie, fields) in &walked {
            let (before, after) = (&before[cookie], &after[cookie]);
            assert_eq!(
                fields.keys().collect::<Vec<_>>(),
                before.keys().collect::<Vec<_>>()
            );
            for (name, value) in fields {
                let (low, high) = (before[name], after[name]);
                // None is less than any number, and so never between two.
                if !(low..=high).contains(value) {
                    wrong.push(format!(
                        "{name} of a socket in state {:?}: {value:?}, not {low:?}..{high:?}",
                        fields["state"]
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        return Ok(walked);
    }
    panic!("the sockets kept changing");
}

/// Sends so many bytes from one to the other, and waits until they were read and acknowledged.
fn talk(from: &LabSocket, to: &LabSocket, bytes: usize) {
    use std::io::{Read, Write};
    std::thread::scope(|scope| {
        scope.spawn(|| from.socket().write_all(&vec![b'x'; bytes]).unwrap());
        to.socket().read_exact(&mut vec![0; bytes]).unwrap();
    });
}

fn algorithms() -> Vec<&'static str> {
    ["cubic", "bbr", "reno"]
        .into_iter()
        .filter(|name| match congestion_control(name) {
            Ok(()) => true,
            Err(skip) => {
                skip.print();
                false
            }
        })
        .collect()
}

fn with(net_path: &NetPath, algorithm: &str) -> NetPath {
    let options = || SocketOptions::new().congestion(algorithm);
    net_path.with_client(options()).with_server(options())
}

#[test]
fn established_and_listening_sockets_match_sock_diag() {
    let lab = need!(Lab::new("walk-info"));
    let mut walker = need!(Walker::new());
    let namespace = lab.namespace("a");
    let net_paths = [
        namespace.loopback(),
        namespace.loopback6(),
        namespace.loopback_mapped(),
    ];
    let mut kept = Vec::new();
    for algorithm in algorithms() {
        for net_path in &net_paths {
            let pair = with(net_path, algorithm).established();
            for bytes in [1, 100_000, 3_000_000, 7] {
                talk(&pair.client, &pair.server, bytes);
                talk(&pair.server, &pair.client, bytes / 3 + 1);
            }
            kept.push(pair);
        }
    }
    let full = net_paths[0].full_accept_queue(3);
    let unread = net_paths[1].unread(5000);
    let sockets = need!(check(&mut walker, &namespace, kept.len() * 3));
    // It was not all zeros.
    for field in [
        "busy_time_us",
        "delivery_rate_bytes_per_s",
        "rtt_us",
        "ato_us",
        "rto_us",
        "segs_out",
        "snd_wscale",
        "options",
        "bytes_acked",
        "pacing_rate_bytes_per_s",
        "min_rtt_us",
        "rcv_space_bytes",
    ] {
        assert!(
            sockets
                .values()
                .any(|fields| fields[field].is_some_and(|value| value != 0)),
            "{field} is always 0"
        );
    }
    drop((kept, full, unread));
}

#[test]
fn ecn_options_match_sock_diag() {
    let lab = need!(Lab::new("walk-info"));
    let mut walker = need!(Walker::new());
    let namespace = lab.namespace("e");
    // As RFC 3168 has it; Linux 6.18 counts for AccECN, but does not negotiate it yet.
    let set = namespace.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1"));
    need!(set.map_err(|error| Skip::new(format!("net.ipv4.tcp_ecn = 1: {error}"))));
    let pair = namespace.loopback().established();
    talk(&pair.client, &pair.server, 200_000);
    talk(&pair.server, &pair.client, 100_000);
    let sockets = need!(check(&mut walker, &namespace, 3));
    // TCPI_OPT_ECN, and TCPI_OPT_ECN_SEEN: not all of it came without a mark
    for bit in [8, 16] {
        let set = |fields: &&Fields| fields["options"].is_some_and(|bits| bits & bit != 0);
        assert_eq!(sockets.values().filter(set).count(), 2, "{bit}: {sockets:?}");
    }
    drop(pair);
}

#[test]
fn upper_layers_are_left_to_sock_diag() {
    let lab = need!(Lab::new("walk-info"));
    let mut walker = need!(Walker::new());
    let namespace = lab.namespace("m");
    let pair = need!(namespace.loopback().mptcp());
    let sockets = need!(check(&mut walker, &namespace, 3));
    let with = |layer: u64| {
        sockets
            .values()
            .filter(|fields| fields["upper layer"] == Some(layer))
            .count()
    };
    assert!(with(1) >= 2, "{} of {} sockets", with(1), sockets.len());
    drop(pair);
}

#[test]
fn closing_and_stuck_sockets_match_sock_diag() {
    let lab = need!(Lab::new("walk-info"));
    let mut walker = need!(Walker::new());
    let namespace = lab.namespace("b");
    let mut kept = Vec::new();
    let algorithms = algorithms();
    for algorithm in &algorithms {
        for net_path in [namespace.loopback(), namespace.loopback6()] {
            let net_path = with(&net_path, algorithm);
            kept.extend([net_path.half_closed(), net_path.orphaned()]);
        }
    }
    let stuck = namespace.loopback().zero_window();
    let sockets = need!(check(&mut walker, &namespace, kept.len() * 2));
    for state in [State::FinWait2, State::CloseWait, State::Listen] {
        let number = Some(u64::from(state.number()));
        assert!(
            sockets.values().any(|fields| fields["state"] == number),
            "none in {state}"
        );
    }
    assert!(
        sockets
            .values()
            .any(|fields| fields["rwnd_limited_us"].is_some_and(|us| us > 0))
    );
    drop((kept, stuck));
}

#[test]
fn losses_with_route_timeout_match_sock_diag() {
    let lab = need!(Lab::new("walk-info"));
    let mut walker = need!(Walker::new());
    let (client, server) = (lab.namespace("c"), lab.namespace("s"));
    let link = lab.link(&client, &server);
    let (net_path, net_path6, gone, calling) = (
        link.net_path(),
        link.net_path6(),
        link.net_path(),
        link.net_path(),
    );
    // Limits how long an ACK may be held back.
    let (device, _) = link.devices();
    client.ip(&format!(
        "route replace {}/32 dev {device} rto_min 9ms",
        net_path.server_ip()
    ));
    let quick = net_path.established();
    talk(&quick.client, &quick.server, 20_000);
    talk(&quick.server, &quick.client, 20_000);
    let lost = net_path6.retransmitting(4000);
    let closing = gone.fin_wait1();
    let called = calling.syn_sent();
    let sockets = need!(check(&mut walker, &client, 4));
    let any =
        |field: &str, holds: fn(u64) -> bool| sockets.values().any(|fields| fields[field].is_some_and(holds));
    assert!(any("total_rto", |times| times > 0) && any("total_rto_time_ms", |ms| ms > 0));
    assert!(any("retransmits", |times| times > 0) && any("total_retrans_segs", |segs| segs > 0));
    assert!(any("ato_us", |us| us > 0 && us < 10_000), "{sockets:?}");
    need!(check(&mut walker, &server, 2));
    drop((quick, lost, closing, called));
}
