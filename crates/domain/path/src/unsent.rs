//! Why data waits in send buffers of TCP: what was sent before stands in a queue of this host, or is elsewhere.

use crate::hop::{Direction, HopKey, HopKind};
use sockeye_wire::path::{Journey, Point, SendLimit};
use std::collections::HashMap;
use std::net::SocketAddr;

/// What most of the data in the send buffers of a direction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsent {
    /// The direction.
    pub direction: Direction,
    /// What TCP waits for.
    pub limit: SendLimit,
    /// The hop in which most of that stands which was sent and is not acknowledged; `None` if it is elsewhere: in the network or at the
    /// peer. Only with [`SendLimit::CongestionWindow`] and [`SendLimit::Pacing`].
    pub hop: Option<HopKey>,
    /// Bytes that were sent and not acknowledged: of each connection in the mean, of all together.
    pub unacked_bytes: u64,
    /// How many of them are in the hop.
    pub bytes_in_hop: u64,
    /// The round trip that TCP has measured: the mean.
    pub round_trip_ns: u64,
    /// The part of it that packets spend in the hop; without one, in all hops of this host.
    pub here_ns: u64,
    /// The hop in which they spend the longest time, also if that is no large part of the round trip; `None` without hops.
    pub longest: Option<HopKey>,
    /// Whether programs of this host read them: no network is between.
    pub is_peer_here: bool,
    /// Packets that were dropped on this host.
    pub dropped: u64,
}

/// Connections whose data waits in the send buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Senders {
    connections: HashMap<Connection, Sender>,
    /// Time of all data in send buffers, going out and coming in: nanoseconds times bytes.
    byte_ns: [u128; 2],
}

/// From where to where, and whether that is out or in.
type Connection = (SocketAddr, SocketAddr, Direction);

#[derive(Debug, Clone, Default)]
struct Sender {
    /// Time of its data in the send buffer, by what it waited for: nanoseconds times bytes.
    waits: Vec<(SendLimit, u128)>,
    /// Packets that had waited, and the sums of their round trips and of what was not acknowledged when they were sent.
    packets: u64,
    round_trips_us: u64,
    unacked_bytes: u64,
    /// Hops between the send buffer and the receive queue.
    hops: Vec<(HopKey, Passage)>,
    /// Packets that were dropped on this host, and that a program of this host has read.
    dropped: u64,
    read: u64,
}

/// What has passed a hop.
#[derive(Debug, Clone, Copy)]
struct Passage {
    bytes: u64,
    /// Sum of nanoseconds times bytes.
    byte_ns: u128,
    /// When the first one came, and the latest one left.
    first_ns: u64,
    latest_ns: u64,
}

impl Passage {
    /// Returns how long it stays there: the mean over bytes.
    fn mean_ns(&self) -> u64 {
        let mean = self.byte_ns.checked_div(u128::from(self.bytes)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Returns how much is there in the mean over time.
    fn mean_bytes(&self) -> u64 {
        let span_ns = self.latest_ns.saturating_sub(self.first_ns);
        let mean = self.byte_ns.checked_div(u128::from(span_ns)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }
}

impl Senders {
    /// Adds the wait of a packet in the send buffer.
    pub(crate) fn wait(&mut self, journey: &Journey, direction: Direction, wait_ns: u64) {
        let byte_ns = u128::from(wait_ns) * u128::from(journey.bytes);
        self.byte_ns[index(direction)] += byte_ns;
        let Some(limit) = journey.limit.filter(|_| wait_ns > 0) else {
            return;
        };
        let connection = (journey.source, journey.destination, direction);
        if self.connections.len() >= CONNECTIONS_MAX && !self.connections.contains_key(&connection) {
            return;
        }
        let sender = self.connections.entry(connection).or_default();
        match sender.waits.iter_mut().find(|(one, _)| *one == limit) {
            Some((_, sum)) => *sum += byte_ns,
            None => sender.waits.push((limit, byte_ns)),
        }
        if let (Some(us), Some(buffer)) = (journey.round_trip_us, journey.send_buffer) {
            sender.packets += 1;
            sender.round_trips_us += u64::from(us);
            // TCP counts a packet when it has given it to the network layer.
            let own = journey.payload.map_or(0, |payload| payload.bytes);
            sender.unacked_bytes += u64::from(buffer.unacked) + u64::from(own);
        }
    }

    /// Returns the sender of a packet, if data waits in its send buffer.
    pub(crate) fn sender_of(&mut self, journey: &Journey, direction: Direction) -> Option<SenderHops<'_>> {
        journey.payload?;
        let connection = (journey.source, journey.destination, direction);
        self.connections.get_mut(&connection).map(SenderHops)
    }

    /// Returns what most of the data waits for, of each direction in which that is known.
    pub(crate) fn finish(self, sample_every: u32) -> Vec<Unsent> {
        let mut causes: Vec<(Unsent, u128)> = Vec::new();
        for ((_, _, direction), sender) in &self.connections {
            let Some((unsent, byte_ns)) = sender.unsent(*direction, sample_every) else {
                continue;
            };
            let is_same = |(one, _): &(Unsent, u128)| {
                (one.direction, one.limit, one.hop) == (unsent.direction, unsent.limit, unsent.hop)
            };
            match causes.iter_mut().find(|cause| is_same(cause)) {
                Some((one, sum)) => {
                    one.unacked_bytes += unsent.unacked_bytes;
                    one.bytes_in_hop += unsent.bytes_in_hop;
                    one.is_peer_here &= unsent.is_peer_here;
                    one.dropped += unsent.dropped;
                    if byte_ns > *sum {
                        (one.round_trip_ns, one.here_ns) = (unsent.round_trip_ns, unsent.here_ns);
                    }
                    *sum += byte_ns;
                }
                None => causes.push((unsent, byte_ns)),
            }
        }
        let is_most =
            |(unsent, byte_ns): &(Unsent, u128)| *byte_ns * 2 > self.byte_ns[index(unsent.direction)];
        let found = causes.into_iter().filter(is_most);
        found.map(|(unsent, _)| unsent).collect()
    }
}

/// The hops of a sender whose data waits.
pub(crate) struct SenderHops<'a>(&'a mut Sender);

impl SenderHops<'_> {
    /// Counts a packet that was dropped.
    pub(crate) const fn drop_one(&mut self) {
        self.0.dropped += 1;
    }

    /// Counts a packet that a program has read from a socket.
    pub(crate) const fn read_one(&mut self) {
        self.0.read += 1;
    }

    /// Adds that a packet was in a hop from one time to another.
    pub(crate) fn pass(&mut self, key: HopKey, bytes: u32, from_ns: u64, to_ns: u64) {
        if !is_in_round_trip(key.kind) {
            return;
        }
        let packet = Passage {
            bytes: bytes.into(),
            byte_ns: u128::from(to_ns.saturating_sub(from_ns)) * u128::from(bytes),
            first_ns: from_ns,
            latest_ns: to_ns,
        };
        let hops = &mut self.0.hops;
        if let Some((_, all)) = hops.iter_mut().find(|(one, _)| *one == key) {
            all.bytes += packet.bytes;
            all.byte_ns += packet.byte_ns;
            all.first_ns = all.first_ns.min(from_ns);
            all.latest_ns = all.latest_ns.max(to_ns);
        } else if hops.len() < HOPS_MAX {
            hops.push((key, packet));
        }
    }
}

impl Sender {
    /// Returns what its data waits for, and for how long it does: nanoseconds times bytes. `sample_every`: one of so many packets was
    /// followed.
    fn unsent(&self, direction: Direction, sample_every: u32) -> Option<(Unsent, u128)> {
        let byte_ns = self.waits.iter().map(|(_, sum)| sum).sum();
        let (limit, _) = self.waits.iter().max_by_key(|(limit, sum)| (*sum, *limit))?;
        let mut unsent = Unsent {
            direction,
            limit: *limit,
            hop: None,
            unacked_bytes: self.unacked_bytes.checked_div(self.packets).unwrap_or(0),
            bytes_in_hop: 0,
            round_trip_ns: (self.round_trips_us * 1_000)
                .checked_div(self.packets)
                .unwrap_or(0),
            here_ns: self.hops.iter().map(|(_, passage)| passage.mean_ns()).sum(),
            longest: None,
            is_peer_here: self.read > 0,
            dropped: self.dropped,
        };
        if !matches!(limit, SendLimit::CongestionWindow | SendLimit::Pacing) {
            return Some((unsent, byte_ns));
        }
        if unsent.round_trip_ns == 0 {
            return None;
        }
        // What the round trip and the time there are means of are other packets: that can be more.
        let longest = self.hops.iter().max_by_key(|(_, passage)| passage.mean_ns());
        unsent.longest = longest.map(|(key, _)| *key);
        let longest =
            longest.map(|(key, passage)| (*key, passage, passage.mean_ns().min(unsent.round_trip_ns)));
        if let Some((key, passage, ns)) = longest.filter(|(.., ns)| *ns * 2 > unsent.round_trip_ns) {
            let part = u128::from(unsent.unacked_bytes) * u128::from(ns) / u128::from(unsent.round_trip_ns);
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            unsent.hop = Some(key);
            unsent.here_ns = ns;
            let most = if self.dropped > 0 {
                // What was dropped, and TCP has not missed yet, is in flight to TCP, and not there.
                passage.mean_bytes().saturating_mul(sample_every.into())
            } else {
                u64::MAX
            };
            unsent.bytes_in_hop = part.min(most);
        }
        Some((unsent, byte_ns))
    }
}

/// Whether the time in a hop is a part of the round trip that TCP measures: it acknowledges what is in the receive queue.
const fn is_in_round_trip(kind: HopKind) -> bool {
    !matches!(
        kind,
        HopKind::Program
            | HopKind::Send
            | HopKind::Order
            | HopKind::Socket
            | HopKind::Class
            | HopKind::Accept
    )
}

/// Returns how long a packet was in the send buffer, if that is known.
pub(crate) fn wait_of(journey: &Journey) -> Option<u64> {
    let mut pairs = journey.stamps.windows(2);
    let [from, to] = pairs.find(|pair| pair[0].point == Point::Written)? else {
        return None;
    };
    Some(to.ns.saturating_sub(from.ns))
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::Out => 0,
        Direction::In => 1,
    }
}

/// Connections that are kept, and hops of each.
const CONNECTIONS_MAX: usize = 4096;
const HOPS_MAX: usize = 32;
