//! Aggregation of connections to flows, with sums, medians and rates, for `flows` and `lstf`.
//! It keeps no sockets, and the elapsed time is an argument: it reads no clock.

use crate::flow_owners::FlowOwners;
use crate::folded_flows::{CompactFlow, FoldedFlows, StateCounts};
use crate::index::Index;
use crate::key_table::KeyTable;
use crate::sample::{ConnectionDelta, ConnectionId, Counters, LocalPort, Servers};
use crate::undecided::{KnownServers, Undecided};
use crate::{Listeners, Sample};
use foldhash::{HashMap, HashSet};
use sockeye_model::{
    Direction, Entry, FlowKey, GroupBy, Protocol, Rates, Socket, State, TcpInfo, Totals, Workload, WorkloadId,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) mod ended;

/// A fold in progress: takes connections one by one, returns flows at the end.
///
/// Memory grows with the number of flows (about 50 bytes each), not of connections, except for medians (8 bytes per connection)
/// and rates (about 60 bytes per connection), if requested.
#[derive(Debug)]
pub struct Fold<'a> {
    group_by: GroupBy,
    listeners: &'a Listeners,
    /// Connections without a listener; `None` if this host opened all of these.
    undecided: Option<Undecided>,
    /// Ports of servers, as events since the last sample show them.
    servers: HashSet<LocalPort>,
    keys: KeyTable,
    index: Index,
    flows: Vec<CompactFlow>,
    mixed_states: Vec<StateCounts>,
    owners: FlowOwners,
    /// By flow; `None` if not requested.
    measures: Option<Vec<Measures>>,
    rates: Option<RateSampler<'a>>,
    /// Connections that the last sample does not have, in flows or not.
    opened: u64,
}

/// The result of a fold.
#[derive(Debug)]
pub struct FoldResult {
    /// The flows.
    pub flows: FoldedFlows,
    /// Connections that the last sample does not have, in flows or not; 0 without one.
    pub opened: u64,
    /// Input for the rates of the next fold; empty unless [`Fold::with_rates`].
    pub sample: Sample,
}

/// Values of tcp_info of the connections of a flow.
#[derive(Debug, Default)]
struct Measures {
    totals: Option<Totals>,
    rtt_us: Vec<u32>,
    delivery_rate: Vec<u64>,
}

/// Changes of the connections of a flow since the last sample.
#[derive(Debug, Default)]
struct Changes {
    counted: Counters,
    opened: u32,
    closed: u32,
    /// Whether any of its connections was seen in two samples.
    has_rates: bool,
}

#[derive(Debug)]
struct RateSampler<'a> {
    before: Option<(&'a Sample, Duration)>,
    now: Sample,
    /// By flow; shorter if the last flows have no connection with a cookie.
    changes: Vec<Changes>,
    /// What connections of the sample before counted after it, until they ended.
    ended: HashMap<ConnectionId, Counters>,
    /// Whether a connection has no cookie: then nothing says which connections the sample has.
    lacks_cookies: bool,
}

impl<'a> Fold<'a> {
    /// An empty fold. `listeners` decide the direction of each connection.
    #[must_use]
    pub fn new(group_by: GroupBy, listeners: &'a Listeners) -> Self {
        Self {
            group_by,
            listeners,
            undecided: None,
            servers: HashSet::default(),
            keys: KeyTable::new(group_by),
            index: Index::default(),
            flows: Vec::new(),
            mixed_states: Vec::new(),
            owners: FlowOwners::default(),
            measures: None,
            rates: None,
            opened: 0,
        }
    }

    /// Enables a decision by the ports where a connection has no listener: a server may have ended. `ephemeral` are the ports that the
    /// kernel gives to clients. Without it, this host opened all of these.
    #[must_use]
    pub fn with_ended_servers(mut self, ephemeral: RangeInclusive<u16>) -> Self {
        self.undecided = Some(Undecided::new(ephemeral));
        self
    }

    /// Enables the sums and medians of tcp_info.
    #[must_use]
    pub fn with_totals(mut self) -> Self {
        self.measures = Some(Vec::new());
        self
    }

    /// Enables samples of counters for the next fold and, given the last sample and the time since then,
    /// rates.
    #[must_use]
    pub fn with_rates(mut self, before: Option<(&'a Sample, Duration)>) -> Self {
        self.rates = Some(RateSampler {
            before,
            now: Sample::with_space_of(before.map(|(sample, _)| sample)),
            changes: Vec::new(),
            ended: HashMap::default(),
            lacks_cookies: false,
        });
        self
    }

    /// Adds a connection. The caller omits sockets that belong to no flow (listeners, half-open ones).
    #[inline]
    pub fn add(&mut self, entry: &Entry<'_>) {
        let change = self.record_counters(entry.socket);
        if self.listeners.match_connection(entry.socket) {
            return self.add_directed(entry, Direction::Passive, change, None);
        }
        if let Some(undecided) = &mut self.undecided
            && undecided.must_wait(entry.socket, self.listeners)
        {
            let mut workloads = Vec::new();
            if let GroupBy::Workload(kind) = self.group_by {
                entry.visit_workloads(kind, &mut |id| workloads.push(id));
            }
            undecided.wait(entry, workloads, change, self.measures.is_some());
            return;
        }
        self.add_directed(entry, Direction::Active, change, None);
    }

    /// Adds a connection to its flows. `workloads` are those that were found before.
    #[inline]
    fn add_directed(
        &mut self,
        entry: &Entry<'_>,
        direction: Direction,
        mut change: Option<ConnectionDelta>,
        workloads: Option<&[WorkloadId]>,
    ) {
        let key = self.key_of(entry.socket, direction);
        // The kernel counts the SYN that opened it as a byte that the peer acknowledged.
        if let Some(change) = change.as_mut().filter(|change| change.opened)
            && key.direction == Direction::Active
        {
            let acked = &mut change.counted.bytes_acked;
            *acked = acked.map(|bytes| bytes.saturating_sub(1));
        }
        if let GroupBy::Workload(kind) = self.group_by {
            let mut is_known = false;
            let mut add = |id| {
                is_known = true;
                let workload = Some(Workload { kind, id });
                self.add_connection(&FlowKey { workload, ..key }, entry, change);
            };
            match workloads {
                Some(found) => found.iter().copied().for_each(add),
                None => {
                    entry.visit_workloads(kind, &mut add);
                }
            }
            if !is_known {
                self.add_connection(&key, entry, change);
            }
            return;
        }
        let owners = entry.owners.unwrap_or_default();
        if self.group_by != GroupBy::Process || owners.is_empty() {
            self.add_connection(&key, entry, change);
            return;
        }
        // A process may own the same socket by several descriptors, which are adjacent.
        for of_one in owners.chunk_by(|a, b| a.process == b.process) {
            let process = Some(of_one[0].process);
            self.add_connection(&FlowKey { process, ..key }, entry, change);
        }
    }

    /// Adds the connections whose direction was not decided yet, and returns the ports of servers among them.
    fn add_undecided(&mut self) -> HashSet<LocalPort> {
        let Some(undecided) = self.undecided.take() else {
            return HashSet::default();
        };
        let mut known = std::mem::take(&mut self.servers);
        let before = self.servers_before();
        known.extend(before.into_iter().flat_map(|before| &before.ended));
        let (waiting, servers) = undecided.decide(KnownServers {
            ports: &known,
            listeners: before.map(|before| &before.listeners),
        });
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        for one in waiting {
            one.read(&mut socket);
            let entry = Entry::with_owners(&socket, one.owners());
            let change = one.change.as_deref().copied();
            self.add_directed(&entry, one.direction(&servers), change, Some(&one.workloads));
        }
        servers
    }

    fn servers_before(&self) -> Option<&'a Servers> {
        self.rates.as_ref()?.before?.0.servers.as_deref()
    }

    /// Records a connection that belongs to no flow. With rates, its counters so far do not count as new when
    /// it joins a flow later.
    pub fn skip(&mut self, socket: &Socket) {
        self.record_counters(socket);
    }

    /// Returns an empty fold for other connections of the same sample, which another thread adds; `None` with rates, which need all
    /// connections in one.
    #[must_use]
    pub fn for_thread(&self) -> Option<Self> {
        self.rates.is_none().then(|| Self {
            measures: self.measures.is_some().then(Vec::new),
            undecided: self.undecided.as_ref().map(Undecided::for_thread),
            ..Self::new(self.group_by, self.listeners)
        })
    }

    /// Adds the connections of another fold, which was made by [`Self::for_thread`].
    pub fn add_fold(&mut self, other: Self) {
        if let (Some(own), Some(others)) = (&mut self.undecided, other.undecided) {
            own.add(others);
        }
        let mut numbers = vec![0; other.flows.len()];
        for flow in &other.flows {
            let number = self.flow_number(&other.keys.key(flow.key()));
            numbers[flow.number() as usize] = number;
            let own = &mut self.flows[number as usize];
            own.add(flow, &other.mixed_states, &mut self.mixed_states);
            if let Some(owner) = flow.first_owner {
                let owner = other.owners.process(owner);
                self.owners.add(number, &mut own.first_owner, owner);
            }
        }
        for (flow, owner) in other.owners.further() {
            let number = numbers[flow as usize];
            let first = &mut self.flows[number as usize].first_owner;
            self.owners.add(number, first, owner);
        }
        if let (Some(own), Some(others)) = (&mut self.measures, other.measures) {
            for (measures, number) in others.into_iter().zip(numbers) {
                of_flow(own, number).add_measures(measures);
            }
        }
    }

    /// Returns the flows, and the sample for the next fold.
    #[must_use]
    pub fn finish(mut self) -> FoldResult {
        let has_undecided = self.undecided.is_some();
        let servers = self.add_undecided();
        self.note_closed();
        let (sample, rates) = match self.rates {
            Some(sampler) => {
                let rates = sampler.before.map(|(_, elapsed)| {
                    let changes = sampler.changes.iter();
                    changes.map(|changes| changes.rates(elapsed)).collect()
                });
                let keys = self.flows.iter().map(|flow| self.keys.key(flow.key())).collect();
                let sample = Sample {
                    keys,
                    servers: has_undecided.then(|| {
                        let listeners = self.listeners.clone();
                        Box::new(Servers {
                            listeners,
                            ended: servers,
                        })
                    }),
                    ..sampler.now
                };
                (sample, rates.unwrap_or_default())
            }
            None => (Sample::default(), Vec::new()),
        };
        let measures = self.measures.unwrap_or_default().into_iter();
        FoldResult {
            flows: FoldedFlows {
                keys: self.keys,
                flows: self.flows,
                mixed_states: self.mixed_states,
                owners: self.owners.finish(),
                totals: measures.map(Measures::totals).collect(),
                rates,
            },
            opened: self.opened,
            sample,
        }
    }

    /// Returns the direction of a connection, by the listeners, and the servers that the sample before had.
    #[inline]
    #[must_use]
    pub fn direction(&self, socket: &Socket) -> Direction {
        let was_server = || {
            let port = (socket.netns, socket.local.port()?);
            let is_known = self.servers_before()?.ended.contains(&port);
            Some(is_known && !self.listeners.match_peer(socket))
        };
        if self.listeners.match_connection(socket) || was_server() == Some(true) {
            Direction::Passive
        } else {
            Direction::Active
        }
    }

    #[inline]
    fn key_of(&self, socket: &Socket, direction: Direction) -> FlowKey {
        let nothing = FlowKey {
            netns: socket.netns,
            direction,
            local: None,
            peer: None,
            peer_prefix: None,
            port: None,
            process: None,
            uid: None,
            workload: None,
        };
        let port = match direction {
            Direction::Passive => socket.local.port(),
            Direction::Active => socket.peer.port(),
        };
        let local = socket.local.ip().map(|ip| ip.to_canonical());
        let peer = socket.peer.ip().map(|ip| ip.to_canonical());
        match self.group_by {
            GroupBy::Host => FlowKey {
                local,
                peer,
                port,
                ..nothing
            },
            GroupBy::Port => FlowKey { port, ..nothing },
            GroupBy::Uid => FlowKey {
                uid: socket.uid,
                ..nothing
            },
            GroupBy::Process | GroupBy::Netns | GroupBy::Workload(_) => nothing,
            GroupBy::Prefix { v4, v6 } => {
                let bits = if peer.is_some_and(|ip| ip.is_ipv6()) {
                    v6
                } else {
                    v4
                };
                let peer = peer.map(|ip| first_of_prefix(ip, bits));
                FlowKey {
                    local,
                    peer,
                    peer_prefix: Some(bits),
                    port,
                    ..nothing
                }
            }
        }
    }

    /// Returns the number of the flow with a key, which is created if there is none.
    #[inline]
    fn flow_number(&mut self, key: &FlowKey) -> u32 {
        let key = self.keys.compact(key);
        // At most as many flows as connections, which the kernel counts in 32 bits.
        let next = u32::try_from(self.flows.len()).unwrap_or(u32::MAX);
        let number = self
            .index
            .find_or_insert(&key, next, |number| self.flows[number as usize].key());
        if number == next {
            CompactFlow::push_new(&mut self.flows, key, number);
        }
        number
    }

    #[inline]
    fn add_connection(&mut self, key: &FlowKey, entry: &Entry<'_>, change: Option<ConnectionDelta>) {
        let socket = entry.socket;
        let number = self.flow_number(key);
        let flow = &mut self.flows[number as usize];
        flow.count(socket.state.number(), &mut self.mixed_states);
        for owner in entry.owners.unwrap_or_default() {
            self.owners.add(number, &mut flow.first_owner, owner.process);
        }
        if let Some(measures) = &mut self.measures
            && let Some(info) = &socket.tcp_info
        {
            of_flow(measures, number).add(info);
        }
        if let (Some(change), Some(sampler)) = (change, &mut self.rates) {
            sampler.now.members.push((change.id, number));
            let changes = of_flow(&mut sampler.changes, number);
            changes.has_rates = true;
            changes.counted += change.counted;
            changes.opened += u32::from(change.opened);
        }
    }

    /// Records the counters of a connection and returns their change. `None` without rates, or if the
    /// connection has no cookie.
    #[inline]
    fn record_counters(&mut self, socket: &Socket) -> Option<ConnectionDelta> {
        let sampler = self.rates.as_mut()?;
        // A TIME_WAIT socket transfers no data. It keeps its cookie and counts as closed from now. A socket in FIN_WAIT2 that no
        // process has is such a socket as well: without tcp_info, and with a cookie of its own.
        let is_orphan = socket.state == State::FinWait2 && socket.tcp_info.is_none();
        if socket.state == State::TimeWait || is_orphan {
            return None;
        }
        let Some(id) = ConnectionId::of(socket) else {
            sampler.lacks_cookies = true;
            return None;
        };
        let counters = Counters::of(socket.tcp_info.as_ref());
        sampler.now.connections.insert(id, counters.into());
        let (sample, _) = sampler.before.unzip();
        let before = sample.and_then(|sample| sample.connections.get(&id));
        let opened = sample.is_some() && before.is_none();
        self.opened += u64::from(opened);
        Some(ConnectionDelta {
            id,
            counted: counters.since(before.map_or_else(Counters::default, |then| (*then).into())),
            opened,
        })
    }

    /// Counts connections of the last sample that are gone, in their flows, even if the flow has no other
    /// connection.
    fn note_closed(&mut self) {
        let Some(mut sampler) = self.rates.take() else {
            return;
        };
        if let Some((sample, _)) = sampler.before {
            for (id, key) in &sample.members {
                if !sampler.now.connections.contains_key(id) {
                    let number = self.flow_number(&sample.keys[*key as usize]);
                    let changes = of_flow(&mut sampler.changes, number);
                    (changes.closed, changes.has_rates) = (changes.closed + 1, true);
                    if let Some(counted) = sampler.ended.get(id) {
                        changes.counted += *counted;
                    }
                }
            }
        }
        self.rates = Some(sampler);
    }
}

/// Returns the element of a flow; those of flows before it are added if they are missing.
fn of_flow<T: Default>(elements: &mut Vec<T>, number: u32) -> &mut T {
    let number = number as usize;
    if elements.len() <= number {
        elements.resize_with(number + 1, T::default);
    }
    &mut elements[number]
}

impl Changes {
    /// Returns the changes per second; `None` if no connection was seen in two samples.
    fn rates(&self, elapsed: Duration) -> Option<Rates> {
        let per_second = |count: f64| count / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        // Without tcp_info, or with closed connections only, the amount is unknown.
        let amount = |count: Option<u64>| count.map(|count| per_second(count as f64));
        self.has_rates.then(|| Rates {
            sent_bytes_per_s: amount(self.counted.bytes_acked),
            received_bytes_per_s: amount(self.counted.bytes_received),
            retrans_segs_per_s: amount(self.counted.retrans_segs),
            opened_per_s: Some(per_second(f64::from(self.opened))),
            closed_per_s: Some(per_second(f64::from(self.closed))),
        })
    }
}

impl Measures {
    fn add(&mut self, info: &TcpInfo) {
        let totals = self.totals.get_or_insert_with(Totals::default);
        totals.measured += 1;
        add(&mut totals.bytes_acked, info.bytes_acked);
        add(&mut totals.bytes_received, info.bytes_received);
        add(
            &mut totals.total_retrans_segs,
            info.total_retrans_segs.map(u64::from),
        );
        // 0 means that there is no sample yet.
        self.rtt_us.extend(info.rtt_us.filter(|&us| us != 0));
        let rate = info.delivery_rate_bytes_per_s.filter(|&rate| rate != 0);
        add(&mut totals.delivery_rate_bytes_per_s_sum, rate);
        self.delivery_rate.extend(rate);
    }

    fn add_measures(&mut self, other: Self) {
        if let Some(more) = other.totals {
            let totals = self.totals.get_or_insert_with(Totals::default);
            totals.measured += more.measured;
            add(&mut totals.bytes_acked, more.bytes_acked);
            add(&mut totals.bytes_received, more.bytes_received);
            add(&mut totals.total_retrans_segs, more.total_retrans_segs);
            let rate = more.delivery_rate_bytes_per_s_sum;
            add(&mut totals.delivery_rate_bytes_per_s_sum, rate);
        }
        self.rtt_us.extend(other.rtt_us);
        self.delivery_rate.extend(other.delivery_rate);
    }

    fn totals(mut self) -> Option<Totals> {
        Some(Totals {
            rtt_us_median: median(&mut self.rtt_us),
            delivery_rate_bytes_per_s_median: median(&mut self.delivery_rate),
            ..self.totals?
        })
    }
}

/// Adds a value if it is known.
fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

fn first_of_prefix(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX
                .checked_shl(32_u32.saturating_sub(u32::from(bits)))
                .unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX
                .checked_shl(128_u32.saturating_sub(u32::from(bits)))
                .unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

/// The median; of two middle values the lower.
fn median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{
        Comm, Cookie, Endpoint, Fd, Flow, Inode, Owner, Pid, Port, Process, Protocol, Uid, WorkloadId,
        WorkloadKind, WorkloadSource,
    };

    fn connection(cookie: u64, local: &str, peer: &str) -> Socket {
        let end = |text: &str| {
            let address: std::net::SocketAddr = text.parse().unwrap();
            Endpoint::inet(address.ip(), Port(address.port()))
        };
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        (socket.local, socket.peer, socket.cookie) = (end(local), end(peer), Some(Cookie(cookie)));
        socket
    }

    fn listeners() -> Listeners {
        let mut listener = connection(0, "0.0.0.0:80", "0.0.0.0:0");
        listener.state = State::Listen;
        let mut listeners = Listeners::default();
        listeners.add(&listener);
        listeners
    }

    fn first_of(result: &FoldResult) -> Flow {
        result.flows.reader().read(0).clone()
    }

    fn fold(group_by: GroupBy, sockets: &[Socket]) -> Vec<Flow> {
        let listeners = listeners();
        let mut fold = Fold::new(group_by, &listeners).with_totals();
        for socket in sockets {
            fold.add(&Entry::new(socket));
        }
        let mut flows = fold.finish().flows;
        flows.sort(|_| None);
        flows.iter().collect()
    }

    #[test]
    fn folds_of_several_threads_equal_one() {
        let listeners = listeners();
        let process = |pid| Process {
            pid: Pid(pid),
            pgid: None,
            comm: Comm::new(b"x"),
        };
        let sockets: Vec<_> = (0..3_000_u32)
            .map(|n| {
                let (host, peer) = (n % 7, n % 11);
                let mut socket = match n % 3 {
                    0 => connection(
                        u64::from(n),
                        &format!("10.0.0.{host}:80"),
                        &format!("10.1.0.{peer}:{}", 40_000 + n),
                    ),
                    1 => connection(
                        u64::from(n),
                        &format!("10.0.0.{host}:{}", 40_000 + n),
                        &format!("10.1.0.{peer}:443"),
                    ),
                    _ => connection(
                        u64::from(n),
                        "[2001:db8::1]:50000",
                        &format!("[2001:db8::{peer:x}]:443"),
                    ),
                };
                socket.state = if n % 5 == 0 {
                    State::CloseWait
                } else {
                    State::Established
                };
                socket.tcp_info = (n % 2 == 0).then(|| TcpInfo {
                    bytes_acked: Some(u64::from(n)),
                    rtt_us: Some(n),
                    ..TcpInfo::default()
                });
                let owners: Vec<_> = (0..n % 4)
                    .map(|nth| Owner {
                        process: process(nth + n % 2),
                        fd: Fd(n),
                    })
                    .collect();
                (socket, owners)
            })
            .collect();
        for group_by in [
            GroupBy::Host,
            GroupBy::Port,
            GroupBy::Process,
            GroupBy::Prefix { v4: 24, v6: 64 },
        ] {
            let fold = |parts: usize| {
                let mut fold = Fold::new(group_by, &listeners).with_totals();
                let others: Vec<_> = (0..parts)
                    .map(|part| {
                        let mut other = fold.for_thread().unwrap();
                        for (socket, owners) in sockets.iter().skip(part).step_by(parts + 1) {
                            other.add(&Entry::with_owners(socket, Some(owners)));
                        }
                        other
                    })
                    .collect();
                for (socket, owners) in sockets.iter().skip(parts).step_by(parts + 1) {
                    fold.add(&Entry::with_owners(socket, Some(owners)));
                }
                others.into_iter().for_each(|other| fold.add_fold(other));
                let mut flows = fold.finish().flows;
                flows.sort(|_| None);
                flows.iter().collect::<Vec<_>>()
            };
            let one = fold(0);
            assert!(one.len() > 1);
            assert_eq!(fold(1), one, "{group_by:?}");
            assert_eq!(fold(3), one, "{group_by:?}");
        }
        let listeners = Listeners::default();
        let with_rates = Fold::new(GroupBy::Host, &listeners).with_rates(None);
        assert!(with_rates.for_thread().is_none());
    }

    #[test]
    fn connections_between_two_hosts_are_one_flow() {
        let mut gone = connection(5, "10.0.0.1:80", "10.0.0.3:50002");
        gone.state = State::TimeWait;
        let flows = fold(
            GroupBy::Host,
            &[
                connection(1, "10.0.0.1:40001", "10.0.0.2:3306"),
                connection(2, "10.0.0.1:40002", "10.0.0.2:3306"),
                connection(3, "10.0.0.1:80", "10.0.0.3:50001"),
                connection(4, "[::ffff:10.0.0.1]:80", "[::ffff:10.0.0.3]:50003"),
                gone,
            ],
        );
        assert_eq!(flows.len(), 2);
        assert_eq!(
            (flows[0].key.direction, flows[0].key.port, flows[0].connections),
            (Direction::Active, Some(Port(3306)), 2)
        );
        assert_eq!(
            (flows[1].key.direction, flows[1].key.port, flows[1].connections),
            (Direction::Passive, Some(Port(80)), 3)
        );
        assert_eq!(
            (
                flows[1].in_state(State::Established),
                flows[1].in_state(State::TimeWait)
            ),
            (2, 1)
        );
    }

    #[test]
    fn grouping_by_prefix_port_and_uid() {
        let mut sockets = [
            connection(1, "10.0.0.1:80", "192.0.2.1:1"),
            connection(2, "10.0.0.1:80", "192.0.2.200:2"),
            connection(3, "[2001:db8::1]:80", "[2001:db8:0:1::7]:3"),
        ];
        sockets[0].uid = Some(Uid(33));
        let flows = fold(GroupBy::Prefix { v4: 24, v6: 64 }, &sockets);
        // The listener on 0.0.0.0 does not cover IPv6, so that connection is active and sorts first.
        let prefix = |flow: &Flow| (flow.key.peer.unwrap().to_string(), flow.key.peer_prefix.unwrap());
        assert_eq!(prefix(&flows[0]), ("2001:db8:0:1::".to_owned(), 64));
        assert_eq!(prefix(&flows[1]), ("192.0.2.0".to_owned(), 24));
        assert_eq!((flows[1].connections, flows.len()), (2, 2));
        assert_eq!(fold(GroupBy::Port, &sockets[..2]).len(), 1);
        assert_eq!(fold(GroupBy::Uid, &sockets).len(), 3); // active and passive without a uid, passive of uid 33
        assert_eq!(fold(GroupBy::Netns, &sockets).len(), 2);
        for (ip, bits, first) in [
            ("1.2.3.4", 0, "0.0.0.0"),
            ("1.2.3.4", 32, "1.2.3.4"),
            ("::7", 0, "::"),
            ("::7", 128, "::7"),
        ] {
            assert_eq!(
                first_of_prefix(ip.parse().unwrap(), bits),
                first.parse::<IpAddr>().unwrap()
            );
        }
    }

    #[test]
    fn owners_are_listed_once() {
        let owner = |pid, fd| Owner {
            process: Process {
                pid: Pid(pid),
                pgid: None,
                comm: Comm::new(b"httpd"),
            },
            fd: Fd(fd),
        };
        let socket = connection(1, "10.0.0.1:80", "10.0.0.3:1");
        let owners = [owner(9, 3), owner(7, 3), owner(7, 4)];
        let entry = Entry::with_owners(&socket, Some(&owners));
        let listeners = listeners();
        let mut by_host = Fold::new(GroupBy::Host, &listeners);
        by_host.add(&entry);
        by_host.add(&entry);
        let pids: Vec<_> = first_of(&by_host.finish())
            .owners
            .iter()
            .map(|process| process.pid.0)
            .collect();
        assert_eq!(pids, [7, 9]);
        let mut by_process = Fold::new(GroupBy::Process, &listeners);
        by_process.add(&entry);
        by_process.add(&Entry {
            owners: Some(&[]),
            ..entry
        });
        let mut counts: Vec<_> = by_process
            .finish()
            .flows
            .iter()
            .map(|f| (f.key.process.map(|p| p.pid.0), f.connections))
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [(None, 1), (Some(7), 1), (Some(9), 1)]);
    }

    #[test]
    fn totals_are_sums_and_medians() {
        let sockets: Vec<_> = [(10, 100), (30, 0), (20, 50)]
            .into_iter()
            .map(|(rtt, rate)| {
                let mut socket = connection(rtt.into(), "10.0.0.1:80", "10.0.0.3:1");
                socket.tcp_info = Some(TcpInfo {
                    rtt_us: Some(rtt),
                    bytes_acked: Some(5),
                    delivery_rate_bytes_per_s: Some(rate),
                    ..TcpInfo::default()
                });
                socket
            })
            .collect();
        let totals = fold(GroupBy::Host, &sockets)[0].totals.unwrap();
        assert_eq!(
            (totals.measured, totals.bytes_acked, totals.rtt_us_median),
            (3, Some(15), Some(20))
        );
        assert_eq!(totals.delivery_rate_bytes_per_s_sum, Some(150));
        assert_eq!(totals.bytes_received, None, "not known for any connection");
        assert_eq!(totals.delivery_rate_bytes_per_s_median, Some(50));
        assert_eq!(median::<u32>(&mut []), None);
    }

    #[test]
    fn two_samples_give_rates() {
        let listeners = listeners();
        let with_bytes = |cookie, peer: &str, acked| {
            let mut socket = connection(cookie, "10.0.0.1:80", peer);
            socket.tcp_info = Some(TcpInfo {
                bytes_acked: Some(acked),
                ..TcpInfo::default()
            });
            socket
        };
        let run = |sockets: &[Socket], before: Option<(&Sample, Duration)>| {
            let mut fold = Fold::new(GroupBy::Host, &listeners).with_rates(before);
            for socket in sockets {
                fold.add(&Entry::new(socket));
            }
            fold.finish()
        };
        let first = run(
            &[with_bytes(1, "10.0.0.3:1", 100), with_bytes(2, "10.0.0.9:1", 7)],
            None,
        );
        assert_eq!(first_of(&first).rates, None);
        let second = run(
            &[with_bytes(1, "10.0.0.3:1", 300), with_bytes(3, "10.0.0.3:2", 40)],
            Some((&first.sample, Duration::from_secs(2))),
        );
        let rates_of = |peer: &str| {
            let peer: IpAddr = peer.parse().unwrap();
            second
                .flows
                .iter()
                .find(|flow| flow.key.peer == Some(peer))
                .unwrap()
                .rates
                .unwrap()
        };
        assert_eq!(rates_of("10.0.0.3").sent_bytes_per_s, Some(120.0));
        assert_eq!(rates_of("10.0.0.3").received_bytes_per_s, None);
        assert_eq!(second.opened, 1);
        assert_eq!(
            (
                rates_of("10.0.0.3").opened_per_s,
                rates_of("10.0.0.3").closed_per_s
            ),
            (Some(0.5), Some(0.0))
        );
        assert_eq!(rates_of("10.0.0.9").closed_per_s, Some(0.5));
        assert_eq!(
            rates_of("10.0.0.9").sent_bytes_per_s,
            None,
            "its last bytes are unknown"
        );
    }

    #[test]
    fn earlier_counters_of_a_new_connection_are_ignored() {
        let listeners = listeners();
        let mut socket = connection(1, "10.0.0.1:80", "10.0.0.3:1");
        let mut count = |bytes| {
            socket.tcp_info = Some(TcpInfo {
                bytes_received: Some(bytes),
                ..TcpInfo::default()
            });
            socket.clone()
        };
        let mut first = Fold::new(GroupBy::Host, &listeners).with_rates(None);
        first.skip(&count(1_000_000));
        let first = first.finish();
        assert!(first.flows.is_empty());
        let second_ago = Some((&first.sample, Duration::from_secs(1)));
        let mut second = Fold::new(GroupBy::Host, &listeners).with_rates(second_ago);
        second.add(&Entry::new(&count(1_000_300)));
        let rates = first_of(&second.finish()).rates.unwrap();
        assert_eq!(
            (rates.received_bytes_per_s, rates.opened_per_s),
            (Some(300.0), Some(0.0))
        );
    }

    #[test]
    fn shared_connection_is_closed_in_both_groups() {
        let listeners = listeners();
        let owners = [7, 9].map(|pid| Owner {
            process: Process {
                pid: Pid(pid),
                pgid: None,
                comm: Comm::new(b"httpd"),
            },
            fd: Fd(3),
        });
        let socket = connection(1, "10.0.0.1:80", "10.0.0.3:1");
        let mut first = Fold::new(GroupBy::Process, &listeners).with_rates(None);
        first.add(&Entry::with_owners(&socket, Some(&owners)));
        let first = first.finish();
        let second_ago = Some((&first.sample, Duration::from_secs(1)));
        let second = Fold::new(GroupBy::Process, &listeners)
            .with_rates(second_ago)
            .finish();
        assert_eq!(second.flows.len(), 2);
        assert!(
            second
                .flows
                .iter()
                .all(|flow| flow.rates.unwrap().closed_per_s == Some(1.0))
        );
    }

    #[test]
    fn no_cookie_gives_no_rates() {
        let listeners = listeners();
        let mut socket = connection(1, "10.0.0.1:80", "10.0.0.3:1");
        socket.cookie = None;
        let sample = Sample::default();
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&sample, Duration::from_secs(1))));
        fold.add(&Entry::new(&socket));
        assert_eq!(first_of(&fold.finish()).rates, None);
    }

    /// Two workloads of every socket with an inode, none of others.
    #[derive(Debug)]
    struct TwoContainers;

    impl sockeye_model::Workloads for TwoContainers {
        fn visit(
            &self,
            _kind: WorkloadKind,
            socket: &Socket,
            _owners: Option<&[Owner]>,
            visit: &mut dyn FnMut(WorkloadId),
        ) -> Option<WorkloadSource> {
            socket.inode?;
            visit(WorkloadId(7));
            visit(WorkloadId(9));
            Some(WorkloadSource::Owner)
        }

        fn names(&self, _id: WorkloadId, _visit: &mut dyn FnMut(&str)) {}
    }

    #[test]
    fn connection_of_two_containers_counts_for_both() {
        let listeners = listeners();
        let mut fold = Fold::new(GroupBy::Workload(WorkloadKind::Container), &listeners);
        let mut socket = connection(1, "10.0.0.1:80", "10.0.0.3:1");
        fn with(socket: &Socket) -> Entry<'_> {
            Entry {
                workloads: Some(&TwoContainers),
                ..Entry::new(socket)
            }
        }
        fold.add(&with(&socket));
        socket.inode = Some(Inode(1));
        fold.add(&with(&socket));
        fold.add(&with(&socket));
        let flows = fold.finish().flows;
        let mut counts: Vec<_> = flows
            .iter()
            .map(|flow| (flow.key.workload.map(|workload| workload.id.0), flow.connections))
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [(None, 1), (Some(7), 2), (Some(9), 2)]);
    }
}
