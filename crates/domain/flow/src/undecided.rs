//! Directions of connections without a listener: of a server that has ended or handed over, whose connections and TIME_WAITs remain.
//! The ports at both ends decide, and how many different ones there are: at the end of the fold, since one connection alone does not
//! show it. Only connections that may be those of a server wait for that. Most clients have an ephemeral port, and their peer has none.

use crate::Listeners;
use crate::sample::{ConnectionDelta, LocalPort};
use foldhash::{HashMap, HashSet};
use sockeye_model::{
    Direction, Endpoint, Entry, NetnsInode, Owner, Port, Protocol, Socket, State, TcpInfo, Uid, WorkloadId,
};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Connections whose direction is decided at the end.
#[derive(Debug)]
pub(crate) struct Undecided {
    /// The local ports that the kernel gives to clients (`net.ipv4.ip_local_port_range`).
    ephemeral: RangeInclusive<u16>,
    waiting: Vec<Waiting>,
    /// One bit for each ephemeral port of a connection to a service, in any namespace: it is not a server's.
    client_ports: Box<[u64; 1024]>,
}

/// What a fold needs of a connection, in less memory than a [`Socket`].
#[derive(Debug)]
pub(crate) struct Waiting {
    netns: Option<NetnsInode>,
    local: (IpAddr, Port),
    peer: (IpAddr, Port),
    state: State,
    uid: Option<Uid>,
    tcp_info: Option<Box<TcpInfo>>,
    owners: Option<Box<[Owner]>>,
    pub(crate) workloads: Box<[WorkloadId]>,
    pub(crate) change: Option<Box<ConnectionDelta>>,
}

/// What is known of local ports from earlier samples and from events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownServers<'a> {
    /// Ports that had connections of a server.
    pub(crate) ports: &'a HashSet<LocalPort>,
    /// The listeners of the sample before.
    pub(crate) listeners: Option<&'a Listeners>,
}

/// The ends of the connections of one local port.
#[derive(Debug, Default)]
struct Ends {
    peers: u32,
    addresses: u32,
    /// Peers with an ephemeral port, and how many different ports these are.
    ephemeral: u32,
    ephemeral_ports: u32,
    /// The sum over its peers of the local ports that each of them is connected to.
    counterparts: u64,
}

impl Undecided {
    pub(crate) fn new(ephemeral: RangeInclusive<u16>) -> Self {
        Self {
            ephemeral,
            waiting: Vec::new(),
            client_ports: Box::new([0; 1024]),
        }
    }

    /// Returns the same for another thread.
    pub(crate) fn for_thread(&self) -> Self {
        Self::new(self.ephemeral.clone())
    }

    /// Adds what another thread has.
    pub(crate) fn add(&mut self, other: Self) {
        self.waiting.extend(other.waiting);
        for (own, other) in self.client_ports.iter_mut().zip(*other.client_ports) {
            *own |= other;
        }
    }

    /// Returns whether the direction of a connection without a listener has to wait. If not, this host opened it.
    #[inline]
    pub(crate) fn must_wait(&mut self, socket: &Socket, listeners: &Listeners) -> bool {
        let (Some(local), Some(peer)) = (socket.local.port(), socket.peer.port()) else {
            return false;
        };
        let is_ephemeral = self.ephemeral.contains(&local.0);
        if is_ephemeral && !self.may_be_client(peer) {
            self.client_ports[usize::from(local.0) / 64] |= 1 << (local.0 % 64);
            return false;
        }
        !listeners.match_peer(socket)
    }

    /// Returns whether a client may have this port. That of another host may have another range than this one.
    #[inline]
    fn may_be_client(&self, port: Port) -> bool {
        port.0 >= EPHEMERAL_MIN || self.ephemeral.contains(&port.0)
    }

    /// Keeps a connection until the end.
    pub(crate) fn wait(
        &mut self,
        entry: &Entry<'_>,
        workloads: Vec<WorkloadId>,
        change: Option<ConnectionDelta>,
        has_totals: bool,
    ) {
        let socket = entry.socket;
        let end = |end: Endpoint| Some((end.ip()?, end.port()?));
        let (Some(local), Some(peer)) = (end(socket.local), end(socket.peer)) else {
            return;
        };
        self.waiting.push(Waiting {
            netns: socket.netns,
            local,
            peer,
            state: socket.state,
            uid: socket.uid,
            tcp_info: socket.tcp_info.filter(|_| has_totals).map(Box::new),
            owners: entry.owners.map(Box::from),
            workloads: workloads.into(),
            change: change.map(Box::new),
        });
    }

    /// Returns the connections that waited, and the ports of servers among them.
    pub(crate) fn decide(self, known: KnownServers<'_>) -> (Vec<Waiting>, HashSet<LocalPort>) {
        let mut servers = HashSet::default();
        let mut locals_of_peer: HashMap<(Option<NetnsInode>, IpAddr, Port), u32> = HashMap::default();
        // Sorted, each pair of ends once: an address may have several sockets of them, as a v4-mapped one.
        let mut pairs: Vec<_> = self
            .waiting
            .iter()
            .map(|one| (one.netns, one.local.1, one.peer.0.to_canonical(), one.peer.1))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        for (netns, _, ip, port) in &pairs {
            *locals_of_peer.entry((*netns, *ip, *port)).or_default() += 1;
        }
        let mut seen = HashSet::default();
        for of_port in pairs.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (netns, local, ..) = of_port[0];
            let mut ends = Ends::default();
            seen.clear();
            let mut last = None;
            for (_, _, ip, port) in of_port {
                ends.peers += 1;
                ends.addresses += u32::from(last.replace(*ip) != Some(*ip));
                if self.may_be_client(*port) {
                    ends.ephemeral += 1;
                    ends.ephemeral_ports += u32::from(seen.insert(*port));
                }
                ends.counterparts += u64::from(locals_of_peer[&(netns, *ip, *port)]);
            }
            let is_server = known.ports.contains(&(netns, local)) || self.is_server(local, &ends);
            if is_server {
                servers.insert((netns, local));
            }
        }
        if let Some(before) = known.listeners {
            let mut socket = Socket::new(Protocol::Tcp, State::Established);
            for one in &self.waiting {
                one.read(&mut socket);
                if before.match_connection(&socket) {
                    servers.insert(one.local_port());
                }
            }
        }
        (self.waiting, servers)
    }

    /// Returns whether a local port is that of a server.
    fn is_server(&self, local: Port, ends: &Ends) -> bool {
        let Ends {
            peers,
            addresses,
            ephemeral,
            ephemeral_ports,
            counterparts,
        } = *ends;
        // Servers of the same kind have the same port on each host, clients hardly ever.
        let differ = ephemeral < 3 || ephemeral_ports > ephemeral / 2;
        // As a client returns, and a peer that is a server has one port.
        let return_often = peers >= MANY && peers >= 2 * addresses;
        let has_more_ends = counterparts <= u64::from(peers) * u64::from(peers.max(2));
        if self.ephemeral.contains(&local.0) {
            let is_client = self.client_ports[usize::from(local.0) / 64] & 1 << (local.0 % 64) != 0;
            return !is_client && ephemeral == peers && differ && return_often && has_more_ends;
        }
        // Programs with privileges bind clients there (bindresvport, the NFS client).
        let is_reserved = (RESERVED_MIN..1024).contains(&local.0) && peers < 2;
        // Behind NAT and load balancers, clients have any port from 1024: about half of them are ephemeral.
        let come_from_few = peers >= BALANCED && peers >= 16 * addresses;
        let are_clients = 4 * ephemeral >= 3 * peers || come_from_few && 5 * ephemeral >= 2 * peers;
        !is_reserved && are_clients && differ && has_more_ends
    }
}

impl Waiting {
    /// Writes what is known of the connection into a socket, over another.
    pub(crate) fn read(&self, socket: &mut Socket) {
        socket.netns = self.netns;
        socket.local = Endpoint::inet(self.local.0, self.local.1);
        socket.peer = Endpoint::inet(self.peer.0, self.peer.1);
        socket.state = self.state;
        socket.uid = self.uid;
        socket.tcp_info = self.tcp_info.as_deref().copied();
    }

    pub(crate) fn owners(&self) -> Option<&[Owner]> {
        self.owners.as_deref()
    }

    /// Returns the direction, given the ports of servers.
    pub(crate) fn direction(&self, servers: &HashSet<LocalPort>) -> Direction {
        if servers.contains(&self.local_port()) {
            Direction::Passive
        } else {
            Direction::Active
        }
    }

    fn local_port(&self) -> LocalPort {
        (self.netns, self.local.1)
    }
}

/// From here on are the ports of clients: those of Linux begin at 32768, those of Windows, macOS and BSD at 49152.
const EPHEMERAL_MIN: u16 = 32_768;

/// The lowest port that programs with privileges take for a client.
const RESERVED_MIN: u16 = 600;

/// So many connections show how their peers choose ports.
const MANY: u32 = 16;

/// The same of peers whose ports are not ephemeral: no host has as many services that a client calls from one port.
const BALANCED: u32 = 48;

#[cfg(test)]
mod tests {
    use crate::{Fold, Listeners};
    use sockeye_model::{Direction, Endpoint, Entry, Flow, GroupBy, Port, Protocol, Socket, State};
    use std::ops::RangeInclusive;

    const DEFAULT: RangeInclusive<u16> = 32_768..=60_999;

    fn socket(state: State, local: &str, peer: &str) -> Socket {
        let end = |text: &str| {
            let address: std::net::SocketAddr = text.parse().unwrap();
            Endpoint::inet(address.ip(), Port(address.port()))
        };
        let mut socket = Socket::new(Protocol::Tcp, state);
        (socket.local, socket.peer) = (end(local), end(peer));
        socket
    }

    fn fold(range: RangeInclusive<u16>, listeners: &[&str], ends: &[(String, String)]) -> Vec<Flow> {
        let mut known = Listeners::default();
        for listener in listeners {
            known.add(&socket(State::Listen, listener, "0.0.0.0:0"));
        }
        let mut fold = Fold::new(GroupBy::Host, &known).with_ended_servers(range);
        let mut other = fold.for_thread().unwrap();
        for (number, (local, peer)) in ends.iter().enumerate() {
            let socket = socket(State::TimeWait, local, peer);
            let fold = if number % 3 == 0 { &mut other } else { &mut fold };
            fold.add(&Entry::new(&socket));
        }
        fold.add_fold(other);
        let mut flows = fold.finish().flows;
        flows.sort(|_| None);
        flows.iter().collect()
    }

    /// Asserts that all are connections of one direction.
    fn check(expected: Direction, range: RangeInclusive<u16>, ends: &[(String, String)]) -> Vec<Flow> {
        let flows = fold(range, &[], ends);
        assert!(
            flows.iter().all(|flow| flow.key.direction == expected),
            "{:?}, not {expected:?}",
            flows.iter().map(|flow| flow.key).collect::<Vec<_>>()
        );
        let connections: u32 = flows.iter().map(|flow| flow.connections).sum();
        assert_eq!(connections as usize, ends.len());
        flows
    }

    fn pairs(count: usize, pair: impl Fn(usize) -> (String, String)) -> Vec<(String, String)> {
        (0..count).map(pair).collect()
    }

    #[test]
    fn server_that_has_ended_is_one_flow() {
        // The client takes some of its ports for both servers.
        let ends = pairs(2_000, |n| {
            let server = format!("127.0.0.1:{}", 7_100 + n % 2);
            (server, format!("127.0.0.1:{}", 33_000 + n * 7 % 1_700))
        });
        let flows = check(Direction::Passive, DEFAULT, &ends);
        assert_eq!(flows.len(), 2);
        // One connection is enough: a client has no port below those of clients.
        for port in [80, 443, 22, 7_100] {
            let one = pairs(1, |_| (format!("10.0.0.1:{port}"), "10.0.0.2:39334".to_owned()));
            check(Direction::Passive, DEFAULT, &one);
        }
    }

    #[test]
    fn server_with_an_ephemeral_port_is_known_by_many_clients() {
        let clients = |count, addresses| {
            pairs(count, move |n| {
                (
                    "10.0.0.1:50051".to_owned(),
                    format!("10.0.1.{}:{}", n % addresses, 33_000 + n),
                )
            })
        };
        check(Direction::Passive, DEFAULT, &clients(40, 4));
        check(Direction::Passive, 1_024..=65_535, &clients(40, 4));
        // As a program that connects to peers from one port.
        check(Direction::Active, DEFAULT, &clients(40, 40));
        check(Direction::Active, DEFAULT, &clients(4, 1));
    }

    #[test]
    fn clients_behind_nat_have_any_port() {
        let ends = pairs(64, |n| {
            (
                "10.0.0.1:443".to_owned(),
                format!("192.0.2.{}:{}", n % 3, 1_024 + n * 1_000),
            )
        });
        let flows = check(Direction::Passive, DEFAULT, &ends);
        assert_eq!(flows.len(), 3);
    }

    #[test]
    fn client_with_a_fixed_port_is_no_server() {
        let from = |local: &'static str, ports: fn(usize) -> u16| {
            pairs(40, move |n| {
                (local.to_owned(), format!("192.0.2.{n}:{}", ports(n)))
            })
        };
        // A scanner; peers of the same kind, with the same port or any; QUIC.
        check(
            Direction::Active,
            DEFAULT,
            &from("10.0.0.1:20", |n| [22, 80, 443, 50_000][n % 4]),
        );
        check(Direction::Active, DEFAULT, &from("10.0.0.1:6881", |_| 51_413));
        check(
            Direction::Active,
            DEFAULT,
            &from("10.0.0.1:6881", |n| 1_024 + n as u16 * 1_600),
        );
        check(
            Direction::Active,
            DEFAULT,
            &from("10.0.0.1:40000", |n| 33_000 + n as u16),
        );
        check(Direction::Active, DEFAULT, &from("10.0.0.1:40000", |_| 443));
        check(Direction::Active, DEFAULT, &from("10.0.0.1:5000", |_| 443));
        // The NFS client and its lock manager.
        let rpc = pairs(3, |n| {
            (
                format!("10.0.0.1:{}", 700 + n),
                format!("10.0.0.2:{}", [2_049, 111, 40_123][n]),
            )
        });
        check(Direction::Active, DEFAULT, &rpc);
    }

    #[test]
    fn many_clients_of_services_with_ephemeral_ports_stay_clients() {
        // More connections than ports: the kernel gives a port to several, to different services.
        let ends = pairs(20_000, |n| {
            (
                format!("10.0.0.1:{}", 33_000 + n % 1_000),
                format!("10.0.0.{}:{}", 2 + n / 1_000 % 2, 50_000 + n / 2_000),
            )
        });
        check(Direction::Active, DEFAULT, &ends);
        check(Direction::Active, 1_024..=65_535, &ends);
    }

    #[test]
    fn port_of_a_client_of_another_service_is_no_server() {
        let mut ends = pairs(40, |n| {
            ("10.0.0.1:40000".to_owned(), format!("10.0.0.2:{}", 33_000 + n))
        });
        check(Direction::Passive, DEFAULT, &ends);
        ends.push(("10.0.0.1:40000".to_owned(), "10.0.0.9:443".to_owned()));
        check(Direction::Active, DEFAULT, &ends);
    }

    #[test]
    fn listener_at_the_peer_decides() {
        for (listener, local, peer, expected) in [
            (
                "0.0.0.0:40000",
                "127.0.0.1:7000",
                "127.0.0.1:40000",
                Direction::Active,
            ),
            (
                "0.0.0.0:40000",
                "10.0.0.1:7000",
                "10.0.0.1:40000",
                Direction::Active,
            ),
            (
                "10.0.0.2:40000",
                "10.0.0.1:7000",
                "10.0.0.2:40000",
                Direction::Active,
            ),
            // Another host, which does not listen here.
            (
                "0.0.0.0:40000",
                "10.0.0.1:7000",
                "10.0.0.2:40000",
                Direction::Passive,
            ),
            ("0.0.0.0:7000", "10.0.0.1:7000", "10.0.0.2:22", Direction::Passive),
        ] {
            let ends = pairs(1, |_| (local.to_owned(), peer.to_owned()));
            let flows = fold(DEFAULT, &[listener], &ends);
            assert_eq!(flows[0].key.direction, expected, "{listener} {local} {peer}");
        }
    }

    #[test]
    fn servers_of_the_sample_before_stay_servers() {
        let mut known = Listeners::default();
        known.add(&socket(State::Listen, "0.0.0.0:50051", "0.0.0.0:0"));
        let connection = socket(State::Established, "10.0.0.1:50051", "10.0.0.2:40000");
        let mut before = None;
        // With its listener, without it, and once more.
        for listeners in [known, Listeners::default(), Listeners::default()] {
            let time = std::time::Duration::from_secs(1);
            let mut fold = Fold::new(GroupBy::Host, &listeners)
                .with_ended_servers(DEFAULT)
                .with_rates(before.as_ref().map(|sample| (sample, time)));
            fold.add(&Entry::new(&connection));
            let result = fold.finish();
            assert_eq!(result.flows.key(0).direction, Direction::Passive);
            before = Some(result.sample);
        }
        check(
            Direction::Active,
            DEFAULT,
            &pairs(1, |_| ("10.0.0.1:50051".to_owned(), "10.0.0.2:40000".to_owned())),
        );
    }
}
