//! A flow over an interval, as one of its two ends saw it.

use sockeye_history::{ConnectionKey, Identity, Limits, Sums};
use sockeye_model::{NO_WORKLOAD, NetnsInode, WorkloadKind};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

/// Which end of its connections a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// It connected.
    Client,
    /// It listens.
    Server,
}

impl Side {
    /// The name, as in the tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The number that the tables have for it.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Client => 1,
            Self::Server => 2,
        }
    }
}

/// What connections are folded by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Network namespace; `None` if only one is recorded.
    pub netns: Option<NetnsInode>,
    /// Which end this host is.
    pub side: Side,
    /// Address of the end that connected; v4-mapped ones as IPv4. Unspecified in a row of several flows.
    pub client: IpAddr,
    /// Its port, of a connection that NAT may translate: what the other end has is found by it. 0: connections from any port.
    pub client_port: u16,
    /// Address of the end that listens.
    pub server: IpAddr,
    /// Port that it listens on.
    pub port: u16,
    /// Name of the first owner; `None` if there is none or it is unknown.
    pub owner: Option<String>,
    /// Name of the systemd unit.
    pub unit: Option<String>,
    /// Name of the container.
    pub container: Option<String>,
}

impl FlowKey {
    /// Whether its addresses mean the same ends on every host. Loopback and link-local ones do not.
    #[must_use]
    pub fn is_global(&self) -> bool {
        let is_local = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
        };
        !is_local(self.client) && !is_local(self.server)
    }

    /// Returns the key of the row that this flow is folded into with others.
    pub(crate) fn folded(&self) -> Self {
        Self {
            netns: None,
            client: Ipv6Addr::UNSPECIFIED.into(),
            client_port: 0,
            server: Ipv6Addr::UNSPECIFIED.into(),
            ..self.clone()
        }
    }

    /// Returns the key of the row that folded rows which do not fit are in.
    pub(crate) const fn of_side(side: Side) -> Self {
        Self {
            netns: None,
            side,
            client: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            client_port: 0,
            server: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            port: 0,
            owner: None,
            unit: None,
            container: None,
        }
    }
}

impl ConnectionKey for FlowKey {
    type Context = TranslatedFlows;

    fn of(translated: &TranslatedFlows, identity: &Identity, is_passive: bool) -> Option<Self> {
        let ((local, local_port), (peer, peer_port)) = identity.local.zip(identity.peer)?;
        let (local, peer) = (local.to_canonical(), peer.to_canonical());
        let (side, client, client_port, server, port) = if is_passive {
            (Side::Server, peer, peer_port.0, local, local_port.0)
        } else {
            (Side::Client, local, local_port.0, peer, peer_port.0)
        };
        let is_translated = translated.0.contains(&(client, server, port));
        Some(Self {
            netns: identity.netns,
            side,
            client,
            client_port: if is_translated { client_port } else { 0 },
            server,
            port,
            owner: identity.first_owner(),
            unit: workload(identity, WorkloadKind::Unit),
            container: workload(identity, WorkloadKind::Container),
        })
    }
}

/// Returns the name of a socket's workload; `None` if it has none or it is unknown. What a recorder knows to be none has a name, which must
/// not be that of a service.
pub(crate) fn workload(identity: &Identity, kind: WorkloadKind) -> Option<String> {
    let name = identity.workload(kind)?;
    (name != NO_WORKLOAD).then(|| name.to_owned())
}

/// The flows that NAT translates somewhere, as one of their ends has them: client, server and port. Their connections are rows of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TranslatedFlows(HashSet<(IpAddr, IpAddr, u16)>);

impl FromIterator<(IpAddr, IpAddr, u16)> for TranslatedFlows {
    fn from_iter<I: IntoIterator<Item = (IpAddr, IpAddr, u16)>>(flows: I) -> Self {
        Self(flows.into_iter().collect())
    }
}

/// Round trip times of the connections of a flow, at the last sample that has some; median and percentile to 0.8%.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTrips {
    /// Connections that have one.
    pub count: u32,
    /// Their median; 0: unknown.
    pub median_us: u32,
    /// 95 of 100 are not above it.
    pub p95_us: u32,
    /// The smallest that the kernel has seen.
    pub min_us: u32,
}

impl RoundTrips {
    /// Returns the summary of round trip times, which are sorted.
    pub(crate) fn of(rtts_us: &mut [u32], min_us: Option<u32>) -> Self {
        rtts_us.sort_unstable();
        let at = |percent: usize| {
            let place = (rtts_us.len() * percent).div_ceil(100).max(1) - 1;
            rounded(rtts_us.get(place).copied().unwrap_or(0))
        };
        Self {
            count: rtts_us.len() as u32,
            median_us: at(50),
            p95_us: at(95),
            min_us: min_us.unwrap_or(0),
        }
    }

    /// Adds those of another flow. The median becomes that of the larger one.
    fn add(&mut self, other: &Self) {
        if other.count > self.count {
            self.median_us = other.median_us;
        }
        self.count += other.count;
        self.p95_us = self.p95_us.max(other.p95_us);
        let both = [self.min_us, other.min_us];
        self.min_us = both.into_iter().filter(|us| *us > 0).min().unwrap_or(0);
    }
}

/// Returns a time to 8 bits, which is 0.8%: the kernel's is an estimate, and each is another, so that it takes most of the bytes of a row.
const fn rounded(us: u32) -> u32 {
    let shift = (u32::BITS - us.leading_zeros()).saturating_sub(8);
    us >> shift << shift
}

/// A flow over an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRow {
    /// What its connections have in common.
    pub key: FlowKey,
    /// Flows that were folded into this row; 0: it is one flow.
    pub folded: u32,
    /// Sums over the interval; `connections` is the largest number in a sample.
    pub sums: Sums,
    /// Connects that failed.
    pub failed: u64,
    /// Of these, those that the server refused.
    pub refused: u64,
    /// What held connections back.
    pub limits: Limits,
    /// Round trip times.
    pub rtt: RoundTrips,
    /// Bytes that were received and not read, in the sample in which they were most.
    pub receive_queue_bytes: u64,
    /// Bytes that were written and not acknowledged, in the sample in which they were most.
    pub send_queue_bytes: u64,
}

impl FlowRow {
    /// Whether nothing happened in the interval.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        // Data that waits is not idle.
        if self.failed > 0 || self.limits.busy_ms > 0 {
            return false;
        }
        let Sums {
            sent_bytes,
            received_bytes,
            retrans_segs,
            opened,
            closed,
            connections: _,
        } = self.sums;
        sent_bytes == 0 && received_bytes == 0 && retrans_segs == 0 && opened == 0 && closed == 0
    }

    fn add(&mut self, other: &Self) {
        self.folded += other.folded.max(1);
        self.sums += other.sums;
        self.failed += other.failed;
        self.refused += other.refused;
        self.limits += other.limits;
        self.rtt.add(&other.rtt);
        self.receive_queue_bytes += other.receive_queue_bytes;
        self.send_queue_bytes += other.send_queue_bytes;
    }
}

/// Keeps at most `flows_max` rows: those with most bytes, most connections, or most trouble (failed connects, retransmissions, bytes that wait). The
/// others become one row for each side, port and service, which has their sums.
#[must_use]
pub fn fold_rest(mut rows: Vec<FlowRow>, flows_max: usize) -> Vec<FlowRow> {
    rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    if rows.len() <= flows_max {
        return rows;
    }
    let measures: [fn(&FlowRow) -> u64; 3] = [
        |row| row.sums.sent_bytes + row.sums.received_bytes,
        |row| row.sums.connections + row.sums.opened,
        |row| (row.sums.retrans_segs + row.failed) * 1_448 + row.receive_queue_bytes + row.send_queue_bytes,
    ];
    let mut ranks = vec![usize::MAX; rows.len()];
    for measure in measures {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        // Stable: the same rows in each run.
        order.sort_by_key(|place| std::cmp::Reverse(measure(&rows[*place])));
        for (rank, place) in order.into_iter().enumerate() {
            // What a flow does not have is no reason to keep it.
            if measure(&rows[place]) > 0 {
                ranks[place] = ranks[place].min(rank);
            }
        }
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|place| ranks[*place]);
    let mut is_kept = vec![false; rows.len()];
    order[..flows_max].iter().for_each(|place| is_kept[*place] = true);
    let mut kept = Vec::with_capacity(flows_max);
    let mut others: Vec<FlowRow> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (row, is_kept) in rows.into_iter().zip(is_kept) {
        if is_kept {
            kept.push(row);
            continue;
        }
        let mut key = row.key.folded();
        if places.len() >= OTHERS_MAX && !places.contains_key(&key) {
            key = FlowKey::of_side(key.side);
        }
        let place = *places.entry(key.clone()).or_insert(others.len());
        match others.get_mut(place) {
            Some(other) => other.add(&row),
            None => others.push(FlowRow {
                key,
                folded: row.folded.max(1),
                ..row
            }),
        }
    }
    kept.extend(others);
    kept
}

/// Rows of folded flows, without those of the rest of a side.
const OTHERS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_history::NamedWorkloads;
    use sockeye_model::{Endpoint, Entry, Port, Protocol, Socket, State};

    #[test]
    fn workload_that_is_known_to_be_none_has_no_name() {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(40_000));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(80));
        let mut identity = Identity::of(&Entry::new(&socket), &mut |_| None);
        let mut check = |unit: Option<&str>, container: Option<&str>, expected: [Option<&str>; 2]| {
            let [container, unit] = [container, unit].map(|name| name.map(Into::into));
            identity.workloads = NamedWorkloads {
                names: [container, None, unit, None],
                known_by: None,
            };
            let key = FlowKey::of(&TranslatedFlows::default(), &identity, false).unwrap();
            assert_eq!([key.unit.as_deref(), key.container.as_deref()], expected);
        };
        check(Some(NO_WORKLOAD), Some(NO_WORKLOAD), [None, None]);
        check(
            Some("nginx.service"),
            Some(NO_WORKLOAD),
            [Some("nginx.service"), None],
        );
        check(Some(NO_WORKLOAD), Some("web"), [None, Some("web")]);
        check(None, None, [None, None]);
    }

    fn row(client: u8, port: u16, sent_bytes: u64, connections: u64, retrans_segs: u64) -> FlowRow {
        FlowRow {
            key: FlowKey {
                netns: Some(NetnsInode(1)),
                side: Side::Server,
                client: [10, 0, 0, client].into(),
                client_port: 0,
                server: [10, 0, 1, 1].into(),
                port,
                owner: Some("nginx".to_owned()),
                unit: None,
                container: None,
            },
            folded: 0,
            sums: Sums {
                sent_bytes,
                connections,
                retrans_segs,
                ..Sums::default()
            },
            failed: 0,
            refused: 0,
            limits: Limits::default(),
            rtt: RoundTrips::of(&mut [sent_bytes as u32 + 1], None),
            receive_queue_bytes: 0,
            send_queue_bytes: 0,
        }
    }

    #[test]
    fn largest_busiest_and_troubled_flows_are_kept_and_sums_stay() {
        let rows = vec![
            row(1, 80, 1_000, 1, 0),
            row(2, 80, 5, 90, 0),
            row(3, 80, 7, 1, 50),
            row(4, 80, 20, 2, 0),
            row(5, 80, 30, 3, 0),
            row(6, 443, 1, 1, 0),
        ];
        let all: u64 = rows.iter().map(|row| row.sums.sent_bytes).sum();
        let folded = fold_rest(rows, 3);
        let shown: Vec<_> = folded
            .iter()
            .map(|row| (row.key.port, row.folded, row.sums.sent_bytes, row.rtt.count))
            .collect();
        assert_eq!(
            shown,
            [
                (80, 0, 1_000, 1),
                (80, 0, 5, 1),
                (80, 0, 7, 1),
                (80, 2, 50, 2),
                (443, 1, 1, 1)
            ]
        );
        assert!(folded[3].key.client.is_unspecified());
        assert_eq!(folded.iter().map(|row| row.sums.sent_bytes).sum::<u64>(), all);
    }

    #[test]
    fn no_sum_changes_when_rows_are_folded() {
        let mut random = 27_u64;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let rows: Vec<FlowRow> = (0..3_000)
            .map(|number| {
                let mut row = row(
                    (number % 200) as u8,
                    next(40) as u16,
                    next(1_000_000),
                    next(9),
                    next(3),
                );
                row.key.server = [10, 2, (number / 200) as u8, 1].into();
                row.sums.received_bytes = next(1_000);
                row.sums.opened = next(5);
                row.sums.closed = next(5);
                (row.failed, row.refused) = (next(7), next(3));
                row.limits = Limits {
                    busy_ms: next(100),
                    rwnd_limited_ms: next(50),
                    sndbuf_limited_ms: next(50),
                };
                row
            })
            .collect();
        let sums = |rows: &[FlowRow]| {
            let mut all = rows[0].clone();
            rows[1..].iter().for_each(|row| all.add(row));
            (all.sums, all.failed, all.refused, all.limits, all.rtt.count)
        };
        let expected = sums(&rows);
        for flows_max in [0, 1, 100, 2_999, 3_000] {
            let folded = fold_rest(rows.clone(), flows_max);
            assert_eq!(sums(&folded), expected, "{flows_max}");
            let flows: u32 = folded.iter().map(|row| row.folded.max(1)).sum();
            assert_eq!(flows, 3_000);
            assert!(folded.len() <= flows_max + 40, "{flows_max}: {}", folded.len());
        }
    }

    #[test]
    fn many_services_are_bounded() {
        let rows = (0..5_000).map(|port| row(1, port, 1, 1, 0)).collect();
        let folded = fold_rest(rows, 10);
        assert_eq!(folded.len(), 10 + OTHERS_MAX + 1);
        let rest = folded.last().unwrap();
        assert_eq!((rest.key.port, rest.folded), (0, 5_000 - 1_010));
    }

    #[test]
    fn times_are_rounded_to_a_percent() {
        for (us, expected) in [
            (0, 0),
            (255, 255),
            (901, 900),
            (1_003, 1_000),
            (u32::MAX, 0xff00_0000),
        ] {
            assert_eq!(rounded(us), expected);
            assert!(u64::from(us - expected) * 125 <= u64::from(us));
        }
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let rtt = RoundTrips::of(&mut [30, 10, 20, 40], Some(9));
        let expected = RoundTrips {
            count: 4,
            median_us: 20,
            p95_us: 40,
            min_us: 9,
        };
        assert_eq!(rtt, expected);
        assert_eq!(RoundTrips::of(&mut [], None), RoundTrips::default());
    }

    #[test]
    fn addresses_of_the_host_itself_are_not_global() {
        let mut key = row(1, 80, 0, 0, 0).key;
        assert!(key.is_global());
        key.server = [127, 0, 0, 1].into();
        assert!(!key.is_global());
    }
}
