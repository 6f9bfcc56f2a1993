//! Counters that moved, and the drops that explain them.

use crate::event::Event;
use crate::explained::{BACKLOG, EXPLAINED, QDISC, RECEIVED_BY_DEVICE, SENT_BY_DEVICE};
use sockeye_model::{Counter, DeviceName, Inode, NetnsInode};
use std::collections::BTreeMap;

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterSubject {
    /// A counter of a protocol.
    Protocol(Counter),
    /// Drops of the input queues of all processors, which all namespaces share: `softnet_stat`, `dropped`.
    Backlog,
    /// Drops of the queueing disciplines of a device.
    Qdisc(DeviceName),
    /// `rx_dropped` of a device.
    Received(DeviceName),
    /// `tx_dropped` of a device.
    Sent(DeviceName),
    /// `sk_drops` of a UDP socket.
    Socket(Inode),
}

/// A counter that moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The counter.
    pub subject: CounterSubject,
    /// Its network namespace; `None` for what all share, and where only one namespace is looked at.
    pub netns: Option<NetnsInode>,
    /// By how much.
    pub delta: u64,
}

/// What the sockets of listeners counted (`sk_drops`), by which connections that a listener turned away are known: there is no packet
/// that is dropped with a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerDrops {
    /// Network namespace.
    pub netns: Option<NetnsInode>,
    /// Who owns the listener, in words; `None` if unknown.
    pub owner: Option<String>,
    /// Number of dropped connection attempts.
    pub count: u64,
}

/// A counter with what explains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterLine {
    /// The counter, and by how much it moved.
    pub moved: Moved,
    /// What explains it, the largest first.
    pub parts: Vec<Part>,
    /// What nothing explains. Negative: more drops were seen than the counter counted.
    pub remainder: i64,
}

/// Drops that explain a part of a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Number of packets.
    pub count: u64,
    /// Reason of the drops, or what else dropped: `accept queue`.
    pub cause: String,
    /// Who owns the socket, in words; `None` if unknown or without one.
    pub owner: Option<String>,
}

/// Returns a line for each counter that moved, and for each that did not although drops were seen that it counts. Counters that no drop
/// explains are there if `moved` has them.
#[must_use]
pub fn reconcile(moved: &[Moved], events: &[Event], listeners: &[ListenerDrops]) -> Vec<CounterLine> {
    let mut lines: Vec<CounterLine> = moved
        .iter()
        .map(|moved| {
            let mut parts: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
            for event in events.iter().filter(|event| covers(moved, event)) {
                let cause = event.reason.clone().unwrap_or_default();
                *parts.entry((cause, event.owner.clone())).or_default() += event.count;
            }
            for (listener, cause) in of_listeners(moved, listeners) {
                *parts.entry((cause, listener.owner.clone())).or_default() += listener.count;
            }
            line(*moved, parts)
        })
        .filter(|line| line.moved.delta > 0 || !line.parts.is_empty())
        .collect();
    lines.sort_by(|a, b| {
        b.moved
            .delta
            .cmp(&a.moved.delta)
            .then_with(|| order(a).cmp(&order(b)))
    });
    lines
}

fn line(moved: Moved, parts: BTreeMap<(String, Option<String>), u64>) -> CounterLine {
    let mut parts: Vec<Part> = parts
        .into_iter()
        .map(|((cause, owner), count)| Part { count, cause, owner })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.count));
    let explained = parts
        .iter()
        .fold(0_u64, |sum, part| sum.saturating_add(part.count));
    let difference = i128::from(moved.delta) - i128::from(explained);
    CounterLine {
        moved,
        parts,
        remainder: i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX }),
    }
}

fn order(line: &CounterLine) -> (Option<NetnsInode>, CounterSubject) {
    (line.moved.netns, line.moved.subject)
}

/// Whether a counter counts a drop.
fn covers(moved: &Moved, event: &Event) -> bool {
    let has = |reasons: &[&str]| {
        event
            .reason
            .as_deref()
            .is_some_and(|reason| reasons.contains(&reason))
    };
    let is_here = moved.netns.is_none() || moved.netns == event.netns;
    let is_at = |device: DeviceName| is_here && event.device == Some(device);
    match moved.subject {
        CounterSubject::Protocol(counter) => {
            let mut all = EXPLAINED.iter().filter(|explained| explained.counter == counter);
            is_here && all.any(|explained| explained.covers(event))
        }
        CounterSubject::Backlog => has(&[BACKLOG]),
        CounterSubject::Qdisc(device) => is_at(device) && has(&QDISC),
        CounterSubject::Received(device) => is_at(device) && has(&RECEIVED_BY_DEVICE),
        CounterSubject::Sent(device) => is_at(device) && has(&SENT_BY_DEVICE),
        CounterSubject::Socket(inode) => event.socket == Some(inode),
    }
}

/// Returns the listeners that explain a counter, each with what dropped.
///
/// A listener counts everything that it turned away: how many of its drops were for a full queue is unknown, unless all of them
/// were. So they explain `ListenOverflows` only where that is as large as `ListenDrops`, which counts all.
fn of_listeners<'a>(moved: &Moved, listeners: &'a [ListenerDrops]) -> Vec<(&'a ListenerDrops, String)> {
    let CounterSubject::Protocol(counter @ (Counter::ListenDrops | Counter::ListenOverflows)) = moved.subject
    else {
        return Vec::new();
    };
    let here = || {
        let is_here = |listener: &&ListenerDrops| moved.netns.is_none() || moved.netns == listener.netns;
        listeners
            .iter()
            .filter(is_here)
            .filter(|listener| listener.count > 0)
    };
    let sum: u64 = here().map(|listener| listener.count).sum();
    if counter == Counter::ListenOverflows && sum != moved.delta {
        return Vec::new();
    }
    let cause = match counter {
        Counter::ListenOverflows => "accept queue",
        _ => "listener",
    };
    here().map(|listener| (listener, cause.to_owned())).collect()
}

impl CounterSubject {
    /// Returns the counters of protocols that are compared with drops.
    #[must_use]
    pub fn protocol_counters() -> Vec<Counter> {
        let mut all: Vec<Counter> = EXPLAINED.iter().map(|explained| explained.counter).collect();
        all.extend([Counter::ListenDrops, Counter::ListenOverflows]);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Family;

    fn event(reason: &str, count: u64) -> Event {
        Event {
            reason: Some(reason.to_owned()),
            transport: Some(17),
            family: Some(Family::V4),
            count,
            ..Event::default()
        }
    }

    fn moved(counter: Counter, delta: u64) -> Moved {
        Moved {
            subject: CounterSubject::Protocol(counter),
            netns: None,
            delta,
        }
    }

    #[test]
    fn remainder_is_what_no_drop_explains() {
        let events = [event("SOCKET_RCVBUFF", 3), event("NO_SOCKET", 2)];
        let lines = reconcile(&[moved(Counter::UdpRcvbufErrors, 5)], &events, &[]);
        assert_eq!(lines[0].parts[0].count, 3);
        assert_eq!((lines.len(), lines[0].remainder), (1, 2));
        let lines = reconcile(&[moved(Counter::UdpNoPorts, 1)], &events, &[]);
        assert_eq!(lines[0].remainder, -1);
    }

    #[test]
    fn drops_of_another_protocol_namespace_or_device_explain_nothing() {
        let mut other = event("SOCKET_RCVBUFF", 3);
        other.family = Some(Family::V6);
        let mut elsewhere = event("SOCKET_RCVBUFF", 3);
        elsewhere.netns = Some(NetnsInode(2));
        let here = Moved {
            netns: Some(NetnsInode(1)),
            ..moved(Counter::UdpRcvbufErrors, 3)
        };
        let lines = reconcile(&[here], &[other, elsewhere], &[]);
        assert_eq!((lines[0].parts.len(), lines[0].remainder), (0, 3));
        let mut queued = event("QDISC_DROP", 3);
        queued.device = Some(DeviceName::new(b"eth0"));
        let of = |name: &[u8]| Moved {
            subject: CounterSubject::Qdisc(DeviceName::new(name)),
            netns: None,
            delta: 3,
        };
        let lines = reconcile(&[of(b"eth0"), of(b"eth1")], &[queued], &[]);
        assert_eq!((lines[0].remainder, lines[1].remainder), (0, 3));
    }

    #[test]
    fn listeners_explain_overflows_only_if_all_their_drops_are() {
        let listeners = [ListenerDrops {
            netns: None,
            owner: Some("gunicorn(4711)".to_owned()),
            count: 36,
        }];
        let both = [
            moved(Counter::ListenDrops, 36),
            moved(Counter::ListenOverflows, 36),
        ];
        let lines = reconcile(&both, &[], &listeners);
        assert!(lines.iter().all(|line| line.remainder == 0), "{lines:?}");
        let part = &lines.iter().flat_map(|line| &line.parts).collect::<Vec<_>>();
        assert!(part.iter().any(|part| part.cause == "accept queue"));
        let others = [
            moved(Counter::ListenDrops, 36),
            moved(Counter::ListenOverflows, 20),
        ];
        let lines = reconcile(&others, &[], &listeners);
        assert_eq!((lines[0].remainder, lines[1].remainder), (0, 20));
    }

    #[test]
    fn counter_without_move_or_drop_has_no_line() {
        assert_eq!(reconcile(&[moved(Counter::UdpNoPorts, 0)], &[], &[]), []);
    }
}
