//! The fold equals a plain one, which keeps whole keys and counts in the obvious way, on random sockets.

use sockeye_flow::{Fold, Listeners, Sample};
use sockeye_model::{
    Comm, Cookie, Direction, Endpoint, Entry, Fd, Flow, FlowKey, GroupBy, NetnsInode, Owner, Pgid, Pid, Port,
    Process, Protocol, Rates, Socket, State, TcpInfo, Totals, Uid,
};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Small ranges, so that sockets share keys, states and owners often.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn ip(&mut self) -> IpAddr {
        let v4 = Ipv4Addr::new(10, self.below(2) as u8, self.below(3) as u8, self.below(4) as u8);
        match self.below(4) {
            0 => v4.to_ipv6_mapped().into(),
            1 => Ipv6Addr::new(
                0x2001,
                0xdb8,
                0,
                self.below(3) as u16,
                0,
                0,
                0,
                self.below(3) as u16,
            )
            .into(),
            _ => v4.into(),
        }
    }

    fn socket(&mut self, cookie: u64) -> Socket {
        const STATES: [State; 6] = [
            State::Established,
            State::Established,
            State::TimeWait,
            State::CloseWait,
            State::Unknown(14),
            State::Unknown(200),
        ];
        let mut socket = Socket::new(Protocol::Tcp, STATES[self.below(6) as usize]);
        let port = |random: &mut Self| Port([0, 80, 443, 40_000, 65_535][random.below(5) as usize]);
        socket.local = Endpoint::inet(self.ip(), port(self));
        socket.peer = if self.chance(20) {
            Endpoint::None
        } else {
            Endpoint::inet(self.ip(), port(self))
        };
        socket.netns = (!self.chance(3)).then(|| NetnsInode(self.below(3) as u32));
        socket.uid = (!self.chance(3)).then(|| Uid(self.below(3) as u32));
        socket.cookie = (!self.chance(9)).then_some(Cookie(cookie));
        socket.tcp_info = (!self.chance(4)).then(|| TcpInfo {
            rtt_us: (!self.chance(5)).then(|| self.below(50) as u32),
            bytes_acked: (!self.chance(5)).then(|| self.below(1 << 40)),
            bytes_received: (!self.chance(5)).then(|| self.below(1 << 40)),
            total_retrans_segs: (!self.chance(5)).then(|| self.below(9) as u32),
            delivery_rate_bytes_per_s: (!self.chance(5)).then(|| self.below(1 << 20)),
            ..TcpInfo::default()
        });
        socket
    }

    fn owners(&mut self) -> Vec<Owner> {
        let mut owners: Vec<_> = (0..self.below(4))
            .map(|fd| {
                let pid = 5 + self.below(4) as u32;
                Owner {
                    process: Process {
                        pid: Pid(pid),
                        pgid: (pid != 7).then_some(Pgid(5)),
                        comm: Comm::new(b"httpd"),
                    },
                    fd: Fd(fd as u32),
                }
            })
            .collect();
        owners.sort_unstable();
        owners
    }
}

/// A flow of the plain fold.
#[derive(Default)]
struct Plain {
    connections: Vec<(Socket, Vec<Owner>)>,
    closed: u32,
}

const NOTHING: FlowKey = FlowKey {
    netns: None,
    direction: Direction::Active,
    local: None,
    peer: None,
    peer_prefix: None,
    port: None,
    process: None,
    uid: None,
    workload: None,
};

fn prefix(ip: IpAddr, v4: u8, v6: u8) -> (IpAddr, u8) {
    match ip {
        IpAddr::V4(ip) => {
            let mask = (u64::from(u32::MAX) << (32 - v4)) as u32;
            (Ipv4Addr::from_bits(ip.to_bits() & mask).into(), v4)
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - v6)).unwrap_or(0);
            (Ipv6Addr::from_bits(ip.to_bits() & mask).into(), v6)
        }
    }
}

fn keys(group_by: GroupBy, listeners: &Listeners, socket: &Socket, owners: &[Owner]) -> Vec<FlowKey> {
    let canonical = |end: &Endpoint| end.ip().map(|ip| ip.to_canonical());
    let (local, peer) = (canonical(&socket.local), canonical(&socket.peer));
    let (direction, port) = if listeners.match_connection(socket) {
        (Direction::Passive, socket.local.port())
    } else {
        (Direction::Active, socket.peer.port())
    };
    let nothing = FlowKey {
        netns: socket.netns,
        direction,
        ..NOTHING
    };
    let host = FlowKey {
        local,
        peer,
        port,
        ..nothing
    };
    match group_by {
        GroupBy::Host => vec![host],
        GroupBy::Prefix { v4, v6 } => vec![FlowKey {
            peer: peer.map(|ip| prefix(ip, v4, v6).0),
            peer_prefix: Some(peer.map_or(v4, |ip| prefix(ip, v4, v6).1)),
            ..host
        }],
        GroupBy::Port => vec![FlowKey { port, ..nothing }],
        GroupBy::Uid => vec![FlowKey {
            uid: socket.uid,
            ..nothing
        }],
        GroupBy::Process if !owners.is_empty() => {
            let mut processes: Vec<_> = owners.iter().map(|owner| owner.process).collect();
            processes.dedup();
            let of = |process| FlowKey {
                process: Some(process),
                ..nothing
            };
            processes.into_iter().map(of).collect()
        }
        GroupBy::Process | GroupBy::Netns | GroupBy::Workload(_) => vec![nothing],
    }
}

type Connections = HashMap<(Option<NetnsInode>, Cookie), (Socket, Vec<FlowKey>)>;

/// Returns the connections that have rates.
fn connections(group_by: GroupBy, listeners: &Listeners, sockets: &[(Socket, Vec<Owner>)]) -> Connections {
    let with_cookie = sockets
        .iter()
        .filter(|(socket, _)| socket.state != State::TimeWait);
    with_cookie
        .filter_map(|(socket, owners)| {
            let id = (socket.netns, socket.cookie?);
            Some((id, (socket.clone(), keys(group_by, listeners, socket, owners))))
        })
        .collect()
}

fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.flatten().reduce(|a, b| a + b)
}

fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Folds in the obvious way; with `before`, a second ago, also rates.
fn plain(
    group_by: GroupBy,
    listeners: &Listeners,
    sockets: &[(Socket, Vec<Owner>)],
    before: Option<&Connections>,
) -> Vec<Flow> {
    let mut folded: BTreeMap<FlowKey, Plain> = BTreeMap::new();
    for (socket, owners) in sockets {
        for key in keys(group_by, listeners, socket, owners) {
            let flow = folded.entry(key).or_default();
            flow.connections.push((socket.clone(), owners.clone()));
        }
    }
    let now = connections(group_by, listeners, sockets);
    for (_, (_, keys)) in before
        .into_iter()
        .flatten()
        .filter(|(id, _)| !now.contains_key(*id))
    {
        for key in keys {
            folded.entry(*key).or_default().closed += 1;
        }
    }
    let flow = |(key, plain): (FlowKey, Plain)| {
        let mut flow = Flow::new(key);
        for (socket, owners) in &plain.connections {
            flow.connections += 1;
            if let Some(count) = flow.states.get_mut(usize::from(socket.state.number())) {
                *count += 1;
            }
            flow.owners.extend(owners.iter().map(|owner| owner.process));
        }
        flow.owners.sort_unstable();
        flow.owners.dedup();
        let infos: Vec<_> = (plain.connections.iter())
            .filter_map(|(socket, _)| socket.tcp_info)
            .collect();
        let rates = || {
            infos
                .iter()
                .filter_map(|info| info.delivery_rate_bytes_per_s.filter(|rate| *rate != 0))
        };
        let rtts = infos.iter().filter_map(|info| info.rtt_us.filter(|us| *us != 0));
        flow.totals = (!infos.is_empty()).then(|| Totals {
            measured: infos.len() as u32,
            bytes_acked: sum(infos.iter().map(|info| info.bytes_acked)),
            bytes_received: sum(infos.iter().map(|info| info.bytes_received)),
            rtt_us_median: median(rtts.collect()),
            total_retrans_segs: sum(infos.iter().map(|info| info.total_retrans_segs.map(u64::from))),
            delivery_rate_bytes_per_s_sum: sum(rates().map(Some)),
            delivery_rate_bytes_per_s_median: median(rates().collect()),
        });
        if let Some(before) = before {
            let with_cookie = plain
                .connections
                .iter()
                .filter(|(socket, _)| socket.cookie.is_some() && socket.state != State::TimeWait);
            let seen: Vec<_> = with_cookie.map(|(socket, _)| socket).collect();
            let change = |value: fn(&TcpInfo) -> Option<u64>| {
                let of = |socket: &&Socket| {
                    let then = before.get(&(socket.netns, socket.cookie?));
                    let then = then.and_then(|(then, _)| value(then.tcp_info.as_ref()?));
                    Some(value(socket.tcp_info.as_ref()?)?.saturating_sub(then.unwrap_or(0)))
                };
                sum(seen.iter().map(of)).map(|sum| sum as f64)
            };
            let is_new = |socket: &&&Socket| {
                let cookie = socket.cookie;
                cookie.is_some_and(|cookie| !before.contains_key(&(socket.netns, cookie)))
            };
            // Each SYN of ours counts as a byte.
            let syn = |socket: &&&Socket| {
                let info = socket.tcp_info.as_ref();
                let acked = info.and_then(|info| info.bytes_acked).unwrap_or(0);
                is_new(socket) && !listeners.match_connection(socket) && acked > 0
            };
            let syns = seen.iter().filter(syn).count() as f64;
            flow.rates = (!seen.is_empty() || plain.closed > 0).then(|| Rates {
                sent_bytes_per_s: change(|info| info.bytes_acked).map(|bytes| bytes - syns),
                received_bytes_per_s: change(|info| info.bytes_received),
                retrans_segs_per_s: change(|info| info.total_retrans_segs.map(u64::from)),
                opened_per_s: Some(seen.iter().filter(is_new).count() as f64),
                closed_per_s: Some(f64::from(plain.closed)),
            });
        }
        flow
    };
    folded.into_iter().map(flow).collect()
}

fn compact(
    group_by: GroupBy,
    listeners: &Listeners,
    sockets: &[(Socket, Vec<Owner>)],
    before: Option<&Sample>,
) -> (Vec<Flow>, Sample) {
    let before = before.map(|before| (before, Duration::from_secs(1)));
    let mut fold = Fold::new(group_by, listeners).with_totals().with_rates(before);
    for (socket, owners) in sockets {
        fold.add(&Entry::with_owners(socket, Some(owners)));
    }
    let mut result = fold.finish();
    result.flows.sort(|_| None);
    let flows: Vec<_> = result.flows.iter().collect();
    let mut reader = result.flows.reader();
    for (place, flow) in (0..).zip(&flows) {
        assert_eq!(
            reader.read(place),
            flow,
            "a reader shows what was in its place before"
        );
    }
    (flows, result.sample)
}

#[test]
fn random_sockets_fold_as_plainly() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..20 {
        let mut listeners = Listeners::default();
        for _ in 0..random.below(6) {
            let mut listener = random.socket(0);
            (listener.state, listener.v6only) = (State::Listen, Some(random.chance(2)));
            listeners.add(&listener);
        }
        let number = [0, 1, 10, 300, 1_500][round % 5];
        let mut cookies = 0..;
        let mut sockets: Vec<_> = (0..number)
            .map(|_| (random.socket(cookies.next().unwrap()), random.owners()))
            .collect();
        let first = sockets.clone();
        sockets.retain(|_| !random.chance(3));
        for (socket, _) in &mut sockets {
            if random.chance(2) {
                socket.tcp_info = random.socket(0).tcp_info;
            }
        }
        sockets.extend((0..number / 3).map(|_| (random.socket(cookies.next().unwrap()), random.owners())));
        for group_by in [
            GroupBy::Host,
            GroupBy::Prefix { v4: 24, v6: 64 },
            GroupBy::Prefix { v4: 0, v6: 128 },
            GroupBy::Port,
            GroupBy::Process,
            GroupBy::Uid,
            GroupBy::Netns,
        ] {
            let (flows, sample) = compact(group_by, &listeners, &first, None);
            assert_eq!(flows, plain(group_by, &listeners, &first, None), "{group_by:?}");
            let before = connections(group_by, &listeners, &first);
            let (flows, _) = compact(group_by, &listeners, &sockets, Some(&sample));
            let expected = plain(group_by, &listeners, &sockets, Some(&before));
            assert_eq!(flows, expected, "{group_by:?}, the second sample");
        }
    }
}
