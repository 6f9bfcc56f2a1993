//! Random sockets: whatever they say, they are judged, and twice the same.

use super::made;
use sockeye_model::{
    Counter, Endpoint, Entry, Inode, Memory, NetnsInode, Port, Protocol, Queues, Socket, State, TcpInfo,
    Timer, TimerKind, Vitals,
};
use sockeye_verdict::{Finding, Limits, Rule, Snapshot};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// splitmix64
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize]
    }

    /// Mostly of a size that occurs, now and then at an edge.
    fn number(&mut self) -> u64 {
        let edge = [0, 1, u64::from(u32::MAX), u64::MAX, u64::from(u8::MAX), 1 << 31];
        match self.next() % 4 {
            0 => self.pick(&edge),
            1 => self.next() % 20,
            2 => self.next() % 100_000,
            _ => self.next() % 100_000_000,
        }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(u64) -> T) -> Option<T> {
        let number = self.number();
        (!self.one_in(5)).then(|| make(number))
    }

    fn u32(&mut self) -> u32 {
        self.number() as u32
    }

    fn endpoint(&mut self) -> Endpoint {
        let addresses = [
            "0.0.0.0",
            "127.0.0.1",
            "10.0.0.1",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1",
        ];
        let ports = [0, 1, 80, 443, 40_000, 40_001, 40_002, 65_535];
        if self.one_in(20) {
            return Endpoint::None;
        }
        let ip: IpAddr = self.pick(&addresses).parse().expect("an address");
        Endpoint::inet(ip, Port(self.pick(&ports)))
    }

    fn socket(&mut self) -> Socket {
        let protocol = self.pick(&[
            Protocol::Tcp,
            Protocol::Tcp,
            Protocol::Tcp,
            Protocol::Udp,
            Protocol::UdpLite,
        ]);
        let state = self.pick(&[
            State::Established,
            State::Established,
            State::SynSent,
            State::SynRecv,
            State::FinWait1,
            State::FinWait2,
            State::TimeWait,
            State::Close,
            State::CloseWait,
            State::LastAck,
            State::Listen,
            State::Closing,
        ]);
        let mut socket = Socket::new(protocol, state);
        (socket.local, socket.peer) = (self.endpoint(), self.endpoint());
        socket.netns = self.pick(&[None, Some(NetnsInode(1)), Some(NetnsInode(2))]);
        socket.inode = self.maybe(|number| Inode(number as u32 % 1000));
        socket.queues = match self.next() % 5 {
            0 => Queues::Unknown,
            1 => Queues::Accept {
                waiting: self.u32(),
                backlog: self.maybe(|number| number as u32),
            },
            _ => Queues::Data {
                receive_bytes: self.u32(),
                send_bytes: self.u32(),
            },
        };
        let kinds = [
            TimerKind::Retransmission,
            TimerKind::Retransmission,
            TimerKind::Keepalive,
            TimerKind::TimeWait,
            TimerKind::ZeroWindowProbe,
            TimerKind::Unknown(9),
        ];
        if !self.one_in(3) {
            socket.timer = Some(Timer {
                kind: self.pick(&kinds),
                expires_ms: self.u32(),
                retransmits: self.u32(),
            });
        }
        if !self.one_in(4) {
            socket.memory = Some(Memory {
                rmem_alloc_bytes: self.maybe(|number| number as u32),
                rcvbuf_bytes: self.maybe(|number| number as u32),
                sndbuf_bytes: self.maybe(|number| number as u32),
                drops: self.maybe(|number| number as u32),
                ..Memory::default()
            });
        }
        if !self.one_in(6) {
            socket.tcp_info = Some(self.info());
        }
        socket
    }

    fn info(&mut self) -> TcpInfo {
        let small = |number: u64| number as u32;
        TcpInfo {
            backoff: self.maybe(|number| number as u8),
            rto_us: self.maybe(small),
            snd_mss_bytes: self.maybe(small),
            unacked_segs: self.maybe(small),
            sacked_segs: self.maybe(small),
            last_data_sent_ms: self.maybe(small),
            last_data_recv_ms: self.maybe(small),
            last_ack_recv_ms: self.maybe(small),
            rtt_us: self.maybe(small),
            min_rtt_us: self.maybe(small),
            snd_cwnd_segs: self.maybe(small),
            reordering_segs: self.maybe(small),
            total_retrans_segs: self.maybe(small),
            pacing_rate_bytes_per_s: self.maybe(|number| number),
            max_pacing_rate_bytes_per_s: self.maybe(|number| number),
            bytes_acked: self.maybe(|number| number),
            segs_in: self.maybe(small),
            notsent_bytes: self.maybe(small),
            data_segs_in: self.maybe(small),
            data_segs_out: self.maybe(small),
            delivery_rate_bytes_per_s: self.maybe(|number| number),
            busy_time_us: self.maybe(|number| number),
            rwnd_limited_us: self.maybe(|number| number),
            sndbuf_limited_us: self.maybe(|number| number),
            delivered_segs: self.maybe(small),
            bytes_sent: self.maybe(|number| number),
            dsack_dups: self.maybe(small),
            reord_seen: self.maybe(small),
            snd_wnd_bytes: self.maybe(small),
            rcv_wnd_bytes: self.maybe(small),
            ..TcpInfo::default()
        }
    }

    fn vitals(&mut self) -> Vitals {
        let mut vitals = made::set(|settings| {
            settings.ephemeral_ports = self.maybe(|number| (number as u16, (number >> 16) as u16));
            settings.reserved_ports = self.maybe(|number| number as u32);
            settings.somaxconn = self.maybe(|number| number as u32);
            settings.syn_backlog_max = self.maybe(|number| number as u32);
            settings.syncookies = self.maybe(|number| number as u32 % 3);
            settings.time_wait_max = self.maybe(|number| number);
        });
        vitals.netns = self.pick(&[None, Some(NetnsInode(1)), Some(NetnsInode(2))]);
        for counter in Counter::ALL {
            if self.one_in(2) {
                vitals.counters.set(*counter, self.number());
            }
        }
        vitals
    }
}

#[test]
fn arbitrary_values_do_not_panic() {
    let limits = Limits::default();
    let mut found = BTreeSet::new();
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let vitals = [rng.vitals(), rng.vitals()];
        let mut sockets: Vec<Socket> = (0..200).map(|_| rng.socket()).collect();
        // By chance alone too few knock at one port.
        for socket in &mut sockets[..(seed % 3 * 20) as usize] {
            (socket.protocol, socket.state, socket.netns) = (Protocol::Tcp, State::SynRecv, None);
            socket.local = made::end([10, 0, 0, 1], 80);
        }
        let elapsed = Duration::from_micros(rng.number());
        // A while ago they were others, with the same inodes.
        let mut earlier = Snapshot::new(&limits).keep_counters();
        let before: Vec<Socket> = (0..200).map(|_| rng.socket()).collect();
        fill(&mut earlier, &vitals[..1], &before);
        let memory = earlier.into_baseline();
        let look = || {
            let mut snapshot = Snapshot::new(&limits).after(&memory, elapsed).keep_counters();
            fill(&mut snapshot, &vitals, &sockets);
            let findings = snapshot.findings();
            assert_eq!(snapshot.seen().sockets, 200);
            findings
        };
        let first = look();
        assert_eq!(first, look(), "seed {seed}");
        for finding in &first {
            is_sound(finding, seed);
            found.insert(finding.rule);
        }
        let mut alone = Snapshot::new(&limits);
        fill(&mut alone, &vitals, &sockets);
        found.extend(alone.findings().iter().map(|finding| finding.rule));
    }
    // The pool is rich enough for every rule on sockets.
    let missing: Vec<&Rule> = Rule::ALL
        .iter()
        .filter(|rule| rule.scope() == sockeye_verdict::Scope::Sockets && !found.contains(rule))
        // They need two samples that fit together: `transfers.rs` has them.
        .filter(|rule| {
            !matches!(
                rule,
                Rule::ReceiveBuffer
                    | Rule::NagleDelayedAck
                    | Rule::ConnectionGrowth
                    | Rule::DnsUnanswered
                    | Rule::ReversePath
            )
        })
        .collect();
    assert!(missing.is_empty(), "never found: {missing:?}");
}

fn fill(snapshot: &mut Snapshot<'_>, vitals: &[Vitals], sockets: &[Socket]) {
    for vitals in vitals {
        snapshot.namespace(vitals.clone());
    }
    for vitals in vitals {
        snapshot.firewall(vitals.netns, made::drops_all());
    }
    let owners = [made::owner(1), made::owner(2)];
    for socket in sockets {
        let pid = socket.inode.map(|inode| inode.0 as usize % 2);
        snapshot.socket(&Entry::with_owners(socket, pid.map(|pid| &owners[pid..=pid])));
    }
}

/// It is worth reading: it has a proof, and its examples are no more than it counts.
fn is_sound(finding: &Finding, seed: u64) {
    let says = |what: &str| format!("seed {seed}: {what}: {finding:#?}");
    assert!(
        finding.examples.len() as u64 <= finding.sockets,
        "{}",
        says("examples")
    );
    let facts = finding.facts.iter().count();
    let proven = finding
        .examples
        .first()
        .map_or(0, |example| example.facts.iter().count());
    assert!(facts + proven > 0, "{}", says("no facts"));
    assert!(!finding.meaning.is_empty(), "{}", says("no meaning"));
}
