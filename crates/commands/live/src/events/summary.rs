//! Counts of events, for the end.

use foldhash::HashMap;
use sockeye_model::{
    Comm, ConnectionEnd, ConnectionEvent, ConnectionEventKind, Direction, Retransmission, State,
};
use std::net::IpAddr;

/// Counts of the events that matched.
#[derive(Debug, Default)]
pub(crate) struct EventSummary {
    /// Events of each kind, in the order of [`ConnectionEventKind::ALL`].
    pub(crate) kinds: [u64; ConnectionEventKind::ALL.len()],
    /// By the name of the owner; `None` if it is unknown.
    pub(crate) by_owner: Groups<Option<Comm>>,
    pub(crate) by_peer: Groups<IpAddr>,
    /// By the port of the service: the peer's, if we connected, else ours.
    pub(crate) by_port: Groups<u16>,
    /// How connections ended, and how opens failed: kind, end, errno.
    pub(crate) ends: HashMap<(ConnectionEventKind, Option<ConnectionEnd>, Option<i32>), u64>,
    /// Segments that were sent again, and those of them of which it is known why.
    pub(crate) retransmitted: u64,
    pub(crate) retransmissions: HashMap<Retransmission, u64>,
    /// How long connections lived, by [`LIVES_US`]; the last is longer.
    pub(crate) lives: [u64; LIVES_US.len() + 1],
    /// Closed connections that are older than the watch.
    pub(crate) unknown_lives: u64,
    /// Of what was present when the watch began, the sockets that listened.
    pub(crate) listening: u64,
}

/// Upper bounds of the classes of lives, in microseconds.
pub(crate) const LIVES_US: [u64; 8] = [
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
];

/// Counts by something, of which there may be more than are kept.
#[derive(Debug)]
pub(crate) struct Groups<K> {
    pub(crate) groups: HashMap<K, Group>,
    /// Of those that were not kept.
    pub(crate) others: Group,
}

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Self {
            groups: HashMap::default(),
            others: Group::default(),
        }
    }
}

/// Counts of one owner, peer or port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Group {
    pub(crate) opened: u64,
    pub(crate) failed: u64,
    pub(crate) closed: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    /// Segments that were sent again.
    pub(crate) retransmitted: u64,
    /// Connections that were open when the watch began.
    pub(crate) present: u64,
}

impl Group {
    fn add(&mut self, event: &ConnectionEvent) {
        match event.kind {
            // Its bytes are among those of its close.
            ConnectionEventKind::Present => {
                self.present += 1;
                return;
            }
            ConnectionEventKind::Open => self.opened += 1,
            ConnectionEventKind::Fail => self.failed += 1,
            ConnectionEventKind::Close => self.closed += 1,
            ConnectionEventKind::Retransmit => self.retransmitted += segments(event),
            _ => {}
        }
        self.sent_bytes += event.sent_bytes.unwrap_or(0);
        self.received_bytes += event.received_bytes.unwrap_or(0);
    }

    /// Returns the number of events and of segments sent again, by which groups are sorted.
    pub(crate) const fn events(&self) -> u64 {
        self.opened + self.failed + self.closed + self.retransmitted + self.present
    }
}

impl<K: std::hash::Hash + Eq> Groups<K> {
    fn add(&mut self, key: K, event: &ConnectionEvent) {
        let is_full = self.groups.len() >= GROUPS_MAX;
        match self.groups.get_mut(&key) {
            Some(group) => group.add(event),
            None if is_full => self.others.add(event),
            None => self.groups.entry(key).or_default().add(event),
        }
    }
}

impl<K: Ord> Groups<K> {
    /// Returns the groups with the most events first, at most so many, and what the others have together.
    pub(crate) fn top(&self, most: usize) -> (Vec<(&K, Group)>, Group) {
        let mut all: Vec<_> = self.groups.iter().map(|(key, group)| (key, *group)).collect();
        all.sort_unstable_by(|(a, first), (b, second)| {
            second.events().cmp(&first.events()).then_with(|| a.cmp(b))
        });
        let rest = all.split_off(most.min(all.len()));
        let others = rest.iter().fold(self.others, |sum, (_, group)| Group {
            opened: sum.opened + group.opened,
            failed: sum.failed + group.failed,
            closed: sum.closed + group.closed,
            sent_bytes: sum.sent_bytes + group.sent_bytes,
            received_bytes: sum.received_bytes + group.received_bytes,
            retransmitted: sum.retransmitted + group.retransmitted,
            present: sum.present + group.present,
        });
        (all, others)
    }
}

impl EventSummary {
    /// Counts an event.
    pub(crate) fn add(&mut self, event: &ConnectionEvent) {
        let place = ConnectionEventKind::ALL
            .iter()
            .position(|kind| *kind == event.kind);
        if let Some(count) = place.and_then(|place| self.kinds.get_mut(place)) {
            *count += 1;
        }
        match event.kind {
            ConnectionEventKind::Present if event.socket.state == State::Listen => {
                self.listening += 1;
                return;
            }
            ConnectionEventKind::Open | ConnectionEventKind::Present => {}
            ConnectionEventKind::Fail | ConnectionEventKind::Close => {
                let errno = event.errno.filter(|_| {
                    event.kind == ConnectionEventKind::Fail || event.end == Some(ConnectionEnd::Error)
                });
                *self.ends.entry((event.kind, event.end, errno)).or_default() += 1;
            }
            ConnectionEventKind::Retransmit => {
                self.retransmitted += segments(event);
                if let Some(why) = event.retransmission {
                    *self.retransmissions.entry(why).or_default() += segments(event);
                }
            }
            _ => return,
        }
        if event.kind == ConnectionEventKind::Close {
            match event.duration_us {
                Some(us) => self.lives[LIVES_US.partition_point(|bound| *bound <= us)] += 1,
                None => self.unknown_lives += 1,
            }
        }
        self.by_owner
            .add(event.owner.map(|owner| owner.process.comm), event);
        if let Some(peer) = event.socket.peer.ip() {
            self.by_peer.add(peer.to_canonical(), event);
        }
        let port = match event.direction {
            Some(Direction::Active) => event.socket.peer.port(),
            Some(Direction::Passive) => event.socket.local.port(),
            None => None,
        };
        if let Some(port) = port {
            self.by_port.add(port.0, event);
        }
    }

    /// Returns the number of events of a kind.
    pub(crate) fn count(&self, kind: ConnectionEventKind) -> u64 {
        let place = ConnectionEventKind::ALL.iter().position(|one| *one == kind);
        place.map_or(0, |place| self.kinds[place])
    }
}

/// Returns how many segments an event sent again.
fn segments(event: &ConnectionEvent) -> u64 {
    event.details.retransmitted_segs.unwrap_or(0).into()
}

/// The most owners, peers or ports that are kept.
const GROUPS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Protocol, Socket};

    #[test]
    fn lives_are_in_the_class_below_their_bound() {
        let class = |us: u64| LIVES_US.partition_point(|bound| *bound <= us);
        assert_eq!([class(0), class(999), class(1000), class(9_999)], [0, 0, 1, 1]);
        assert_eq!(class(u64::MAX), LIVES_US.len());
    }

    #[test]
    fn retransmissions_are_counted_by_their_segments() {
        let mut summary = EventSummary::default();
        let socket = Socket::new(Protocol::Tcp, State::Established);
        let mut event = ConnectionEvent::new(ConnectionEventKind::Retransmit, 0, socket);
        event.retransmission = Some(Retransmission::Fast);
        for segs in [1, 14] {
            event.details.retransmitted_segs = Some(segs);
            summary.add(&event);
        }
        assert_eq!(
            (
                summary.retransmitted,
                summary.retransmissions[&Retransmission::Fast]
            ),
            (15, 15)
        );
        assert_eq!(summary.by_owner.groups[&None].retransmitted, 15);
        assert_eq!(summary.count(ConnectionEventKind::Retransmit), 2);
    }

    #[test]
    fn what_is_present_has_no_bytes_and_a_listener_no_peer() {
        let mut summary = EventSummary::default();
        for state in [State::Established, State::Established, State::Listen] {
            let socket = Socket::new(Protocol::Tcp, state);
            let mut event = ConnectionEvent::new(ConnectionEventKind::Present, 0, socket);
            event.sent_bytes = Some(100);
            summary.add(&event);
        }
        let group = summary.by_owner.groups[&None];
        assert_eq!((group.present, group.sent_bytes, group.events()), (2, 0, 2));
        assert_eq!(
            (summary.listening, summary.count(ConnectionEventKind::Present)),
            (1, 3)
        );
    }

    #[test]
    fn what_is_beyond_the_top_is_summed_up() {
        let mut groups = Groups::<u16>::default();
        for (port, opened) in [(1, 5), (2, 9), (3, 1), (4, 1)] {
            groups.groups.insert(
                port,
                Group {
                    opened,
                    ..Group::default()
                },
            );
        }
        let (top, others) = groups.top(2);
        assert_eq!(top.iter().map(|(port, _)| **port).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(others.opened, 2);
    }
}
