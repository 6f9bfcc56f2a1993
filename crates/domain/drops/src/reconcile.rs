//! Counters that moved, and the drops that explain them.

use crate::event::Event;
use crate::explained::{BACKLOG, EXPLAINED, FORWARDS, QDISC, RECEIVED_BY_DEVICE, SENT_BY_DEVICE, UNHANDLED};
use sockeye_model::{Counter, DeviceName, FirewallRuleName, Inode, NetnsInode};
use std::collections::{BTreeMap, BTreeSet};

/// What a counter counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// A rule of the packet filter that drops what it counts.
    FirewallRule(Box<FirewallRuleName>),
}

/// A counter that moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The counter.
    pub subject: CounterSubject,
    /// Its network namespace; `None` for what all share, and where only one namespace is looked at.
    pub netns: Option<NetnsInode>,
    /// By how much; `None` if it was not there all the time.
    pub delta: Option<u64>,
}

/// What the sockets of listeners counted (`sk_drops`), by which connections that a listener turned away are known: there is no packet
/// that is dropped with a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerDrops {
    /// Network namespace.
    pub netns: Option<NetnsInode>,
    /// Who owns the listener, in words; `None` if unknown.
    pub owner: Option<String>,
    /// Its socket; `None` if unknown.
    pub socket: Option<Inode>,
    /// By how much `sk_drops` moved.
    pub count: u64,
}

/// A counter with what explains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterLine {
    /// The counter, and by how much it moved.
    pub moved: Moved,
    /// What explains it, the largest first.
    pub parts: Vec<Part>,
    /// What nothing explains. Negative: more drops were seen than the counter counted. `None` if it is unknown what it counted.
    pub remainder: Option<i64>,
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
/// explains are there if `all` has them.
#[must_use]
pub fn reconcile(all: &[Moved], events: &[Event], listeners: &[ListenerDrops]) -> Vec<CounterLine> {
    let mut lines: Vec<CounterLine> = all
        .iter()
        .map(|moved| {
            let mut parts: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
            let of = |certainty| {
                events
                    .iter()
                    .filter(move |event| covers(moved, event) == Some(certainty))
            };
            let mut add = |event: &Event, count| {
                let cause = event.reason.clone().unwrap_or_default();
                *parts.entry((cause, event.owner.clone())).or_default() += count;
            };
            let certain = of(Counted::All).fold(0_u64, |sum, event| {
                add(event, event.count);
                sum.saturating_add(event.count)
            });
            let mut left = moved.delta.unwrap_or(0).saturating_sub(certain);
            for event in of(Counted::Some).filter(|event| event.count > 0) {
                let count = event.count.min(left);
                left -= count;
                if count > 0 {
                    add(event, count);
                }
            }
            for (count, cause, owner) in of_listeners(moved, all, events, listeners) {
                *parts.entry((cause, owner)).or_default() += count;
            }
            for (count, cause) in of_closes(moved, all, left) {
                *parts.entry((cause.to_owned(), None)).or_default() += count;
            }
            line(moved.clone(), parts)
        })
        .collect();
    move_to_devices(&mut lines);
    share_between_rules(&mut lines, events);
    lines.retain(|line| {
        let is_cause = CLOSES
            .iter()
            .any(|(counter, _)| line.moved.subject == CounterSubject::Protocol(*counter));
        !is_cause && (line.moved.delta.is_some_and(|delta| delta > 0) || !line.parts.is_empty())
    });
    lines.sort_by(|a, b| {
        b.moved
            .delta
            .cmp(&a.moved.delta)
            .then_with(|| a.moved.netns.cmp(&b.moved.netns))
            .then_with(|| a.moved.subject.cmp(&b.moved.subject))
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
    let remainder = moved.delta.map(|delta| {
        let difference = i128::from(delta) - i128::from(explained);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    });
    CounterLine {
        moved,
        parts,
        remainder,
    }
}

/// Whether a counter counts drops.
fn covers(moved: &Moved, event: &Event) -> Option<Counted> {
    let is_here = moved.netns.is_none() || moved.netns == event.netns;
    moved
        .subject
        .counted(event)
        .filter(|_| is_here || moved.subject.is_shared())
}

/// How many of some drops a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    All,
    /// It is unknown how many: they explain at most what nothing else does.
    Some,
}

/// Returns what listeners explain of a counter: how many, what dropped, and who owns the listener. It is never more than the counter counted.
///
/// A SYN that finds a queue full is dropped without a reason, and only counted: tcp_listendrop() adds one to `ListenDrops` and to the listener's `sk_drops`.
/// But `sk_drops` counts as well each segment that ends in tcp_v4_rcv() (`discard_and_relse`), such as a SYN that the client has repeated and that was
/// answered. Those are events there, and are subtracted. The last ACK of a handshake that finds the accept queue full has the reason
/// `TCP_LISTEN_OVERFLOW`, and is counted by both: net/ipv4/tcp_ipv4.c, tcp_v4_syn_recv_sock() and tcp_v4_rcv().
///
/// How many of a listener's drops were for a full accept queue is unknown, unless all of its namespace were, or it is the only listener there that dropped
/// any.
fn of_listeners(
    moved: &Moved,
    all: &[Moved],
    events: &[Event],
    listeners: &[ListenerDrops],
) -> Vec<(u64, String, Option<String>)> {
    let CounterSubject::Protocol(counter @ (Counter::ListenDrops | Counter::ListenOverflows)) = moved.subject
    else {
        return Vec::new();
    };
    let delta_of = |counter| {
        let is_it =
            |other: &&Moved| other.netns == moved.netns && other.subject == CounterSubject::Protocol(counter);
        all.iter().find(is_it)?.delta
    };
    let is_here = |listener: &&ListenerDrops| moved.netns.is_none() || moved.netns == listener.netns;
    let mut dropped: Vec<Turned> = listeners
        .iter()
        .filter(is_here)
        .map(|listener| Turned::of(listener, events))
        .collect();
    let (drops, overflows) = (delta_of(Counter::ListenDrops), delta_of(Counter::ListenOverflows));
    if let Some(drops) = drops {
        fit_to(&mut dropped, drops);
    }
    dropped.retain(|turned| turned.acks + turned.others > 0);
    let sum: u64 = dropped.iter().map(|turned| turned.acks + turned.others).sum();
    let are_overflows = drops == overflows;
    let is_only_one = dropped.len() == 1 && drops == Some(sum);
    let mut parts = Vec::new();
    for Turned { acks, others, owner } in dropped {
        // Of how many others it is known that they found the accept queue full.
        let full = match overflows {
            _ if are_overflows => others,
            Some(overflows) if is_only_one => others.min(overflows.saturating_sub(acks)),
            _ => 0,
        };
        parts.push((acks, OVERFLOW.to_owned(), owner.clone()));
        parts.push((full, "accept queue".to_owned(), owner.clone()));
        if counter == Counter::ListenDrops {
            parts.push((others - full, "listener".to_owned(), owner));
        }
    }
    parts.retain(|(count, ..)| *count > 0);
    parts
}

/// Returns the RSTs that closes have sent, by the counters of these, if they are no more than what no drop explains.
fn of_closes(moved: &Moved, all: &[Moved], mut left: u64) -> Vec<(u64, &'static str)> {
    if moved.subject != CounterSubject::Protocol(Counter::TcpOutRsts) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    for (counter, cause) in CLOSES {
        let is_it =
            |other: &&Moved| other.netns == moved.netns && other.subject == CounterSubject::Protocol(counter);
        let count = all.iter().find(is_it).and_then(|other| other.delta).unwrap_or(0);
        if (1..=left).contains(&count) {
            left -= count;
            parts.push((count, cause));
        }
    }
    parts
}

/// Counters of closes that send a RST: net/ipv4/tcp.c, __tcp_close().
const CLOSES: [(Counter, &str); 3] = [
    (Counter::TcpAbortOnClose, "close with unread data"),
    (Counter::TcpAbortOnLinger, "close with TCP_LINGER2"),
    // Also a close with SO_LINGER, which sends none before the connection is established.
    (
        Counter::TcpAbortOnData,
        "close with SO_LINGER, or data after a close",
    ),
];

/// What a listener turned away.
struct Turned {
    /// Last ACKs of handshakes that found the accept queue full.
    acks: u64,
    /// SYNs, and last ACKs of which no reason is known.
    others: u64,
    owner: Option<String>,
}

impl Turned {
    fn of(listener: &ListenerDrops, events: &[Event]) -> Self {
        let is_its = |event: &&Event| {
            event.socket.is_some()
                && event.socket == listener.socket
                && event
                    .place
                    .as_deref()
                    .is_some_and(|place| ARRIVALS.contains(&place))
        };
        let of_it = || events.iter().filter(is_its);
        let discarded: u64 = of_it().map(|event| event.count).sum();
        let is_ack = |event: &&Event| event.reason.as_deref() == Some(OVERFLOW);
        let acks: u64 = of_it().filter(is_ack).map(|event| event.count).sum();
        let turned = listener.count.saturating_sub(discarded);
        Self {
            acks: acks.min(turned),
            others: turned.saturating_sub(acks),
            owner: listener.owner.clone(),
        }
    }
}

/// Makes the sum of what listeners turned away at most what the kernel counted. Sockets and counters are read one after the other, which makes a small
/// difference; with a larger one, it is known of a single listener only what it was.
fn fit_to(dropped: &mut [Turned], counted: u64) {
    let sum: u64 = dropped.iter().map(|turned| turned.acks + turned.others).sum();
    let mut excess = sum.saturating_sub(counted);
    let number = dropped.iter().filter(|turned| turned.others > 0).count();
    let is_known = number <= 1 || excess <= counted / READINGS_DIFFER;
    dropped.sort_by_key(|turned| std::cmp::Reverse(turned.others));
    for turned in &mut *dropped {
        let less = if is_known {
            turned.others.min(excess)
        } else {
            turned.others
        };
        turned.others -= less;
        excess = excess.saturating_sub(less);
    }
    for turned in dropped {
        let less = turned.acks.min(excess);
        turned.acks -= less;
        excess -= less;
    }
}

/// Moves drops of a queueing discipline that it does not count to `tx_dropped` of its device, where that counts what no drop explains: a
/// device that is down or has no carrier has a discipline that drops everything and counts there (net/sched/sch_generic.c, noop_enqueue()).
fn move_to_devices(lines: &mut [CounterLine]) {
    for place in 0..lines.len() {
        let CounterSubject::Qdisc(device) = lines[place].moved.subject else {
            continue;
        };
        let netns = lines[place].moved.netns;
        let sent = lines
            .iter()
            .position(|line| line.moved.netns == netns && line.moved.subject == CounterSubject::Sent(device));
        let Some(sent) = sent else { continue };
        let uncounted = match lines[place].remainder {
            Some(remainder) => u64::try_from(remainder.saturating_neg()).unwrap_or(0),
            None => lines[place].parts.iter().map(|part| part.count).sum(),
        };
        let unexplained = lines[sent].remainder.and_then(|left| u64::try_from(left).ok());
        let mut left = uncounted.min(unexplained.unwrap_or(0));
        let amount = i64::try_from(left).unwrap_or(i64::MAX);
        for (line, amount) in [(place, amount), (sent, -amount)] {
            lines[line].remainder = lines[line].remainder.map(|remainder| remainder + amount);
        }
        while left > 0 {
            let Some(part) = lines[place].parts.last_mut() else {
                break;
            };
            let count = part.count.min(left);
            let moved = Part {
                count,
                ..part.clone()
            };
            part.count -= count;
            left -= count;
            if part.count == 0 {
                lines[place].parts.pop();
            }
            lines[sent].parts.push(moved);
        }
    }
}

/// Gives drops of a packet filter of which no single rule is known to the rules that can have dropped them, if these have counted exactly as many
/// more than what is known to be theirs: first where these rules are known, then those of a namespace.
fn share_between_rules(lines: &mut [CounterLine], events: &[Event]) {
    let mut known: BTreeMap<(Option<NetnsInode>, &[FirewallRuleName]), u64> = BTreeMap::new();
    let of_rules = |event: &&Event| event.reason.as_deref() == Some(NETFILTER) && event.rule.is_none();
    for event in events.iter().filter(of_rules) {
        *known.entry((event.netns, &event.rules[..])).or_default() += event.count;
    }
    let mut unknown: BTreeMap<Option<NetnsInode>, u64> = BTreeMap::new();
    for ((netns, rules), count) in known {
        if rules.is_empty() || !share(lines, netns, count, |name| rules.contains(name)) {
            *unknown.entry(netns).or_default() += count;
        }
    }
    for (netns, count) in unknown {
        share(lines, netns, count, |_| true);
    }
}

/// Returns whether these rules have counted exactly as many more.
fn share(
    lines: &mut [CounterLine],
    netns: Option<NetnsInode>,
    count: u64,
    is_one: impl Fn(&FirewallRuleName) -> bool,
) -> bool {
    let left = |line: &CounterLine| {
        let is_its = line.moved.netns.is_none_or(|own| Some(own) == netns)
            && matches!(&line.moved.subject, CounterSubject::FirewallRule(name) if is_one(name));
        let remainder = line.remainder.filter(|_| is_its)?;
        u64::try_from(remainder).ok().filter(|remainder| *remainder > 0)
    };
    if lines.iter().filter_map(left).sum::<u64>() != count {
        return false;
    }
    for line in lines.iter_mut() {
        if let Some(count) = left(line) {
            line.parts.push(Part {
                count,
                cause: NETFILTER.to_owned(),
                owner: None,
            });
            line.remainder = Some(0);
        }
    }
    true
}

/// The reason of packets that netfilter drops: net/netfilter/core.c, nf_hook_slow().
pub const NETFILTER: &str = "NETFILTER_DROP";
/// net/ipv4/tcp_minisocks.c: tcp_check_req() (Linux 6.15)
const OVERFLOW: &str = "TCP_LISTEN_OVERFLOW";
/// Where `sk_drops` counts each segment that is dropped: `discard_and_relse`.
const ARRIVALS: [&str; 2] = ["tcp_v4_rcv", "tcp_v6_rcv"];
/// Which part of the drops may be between two readings: a twentieth.
const READINGS_DIFFER: u64 = 20;

impl CounterSubject {
    /// Whether it counts a drop of its network namespace, or may count it.
    #[must_use]
    pub fn counts(&self, event: &Event) -> bool {
        self.counted(event).is_some()
    }

    fn counted(&self, event: &Event) -> Option<Counted> {
        let reason = event.reason.as_deref();
        let has = |reasons: &[&str]| reason.is_some_and(|reason| reasons.contains(&reason));
        let is_at = |device: DeviceName| event.device == Some(device);
        let is_counted = match self {
            Self::Protocol(counter) => {
                let all = EXPLAINED.iter().filter(|explained| explained.counter == *counter);
                let covering: Vec<_> = all.filter(|explained| explained.covers(event)).collect();
                let are_all = covering.iter().any(|explained| explained.counts_all(event));
                let counted = if are_all { Counted::All } else { Counted::Some };
                return (!covering.is_empty()).then_some(counted);
            }
            Self::Received(device) if has(&[UNHANDLED]) => {
                return is_at(*device).then_some(Counted::Some);
            }
            Self::Sent(device)
                if event
                    .place
                    .as_deref()
                    .is_some_and(|place| FORWARDS.contains(&place)) =>
            {
                return is_at(*device).then_some(Counted::Some);
            }
            Self::Backlog => has(&[BACKLOG]),
            Self::Qdisc(device) => is_at(*device) && has(&QDISC),
            Self::Received(device) => is_at(*device) && has(&RECEIVED_BY_DEVICE),
            Self::Sent(device) => is_at(*device) && has(&SENT_BY_DEVICE),
            Self::Socket(inode) => event.socket == Some(*inode),
            Self::FirewallRule(name) => event.rule.as_ref() == Some(name),
        };
        is_counted.then_some(Counted::All)
    }

    /// Whether it counts the drops of sockets in all network namespaces: an inode is of one socket only.
    const fn is_shared(&self) -> bool {
        matches!(self, Self::Backlog | Self::Socket(_))
    }

    /// Returns the counters of protocols that are compared with drops.
    #[must_use]
    pub fn protocol_counters() -> Vec<Counter> {
        let mut all: Vec<Counter> = EXPLAINED.iter().map(|explained| explained.counter).collect();
        all.extend([Counter::ListenDrops, Counter::ListenOverflows]);
        all.extend(CLOSES.map(|(counter, _)| counter));
        // A counter can count one reason everywhere and another one in some places.
        let mut seen = BTreeSet::new();
        all.retain(|counter| seen.insert(*counter));
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
            delta: Some(delta),
        }
    }

    #[test]
    fn remainder_is_what_no_drop_explains() {
        let events = [event("SOCKET_RCVBUFF", 3), event("NO_SOCKET", 2)];
        let lines = reconcile(&[moved(Counter::UdpRcvbufErrors, 5)], &events, &[]);
        assert_eq!(lines[0].parts[0].count, 3);
        assert_eq!((lines.len(), lines[0].remainder), (1, Some(2)));
        let lines = reconcile(&[moved(Counter::UdpNoPorts, 1)], &events, &[]);
        assert_eq!(lines[0].remainder, Some(-1));
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
        assert_eq!((lines[0].parts.len(), lines[0].remainder), (0, Some(3)));
        let mut queued = event("QDISC_DROP", 3);
        queued.device = Some(DeviceName::new(b"eth0"));
        let of = |name: &[u8]| Moved {
            subject: CounterSubject::Qdisc(DeviceName::new(name)),
            netns: None,
            delta: Some(3),
        };
        let lines = reconcile(&[of(b"eth0"), of(b"eth1")], &[queued], &[]);
        assert_eq!((lines[0].remainder, lines[1].remainder), (Some(0), Some(3)));
    }

    /// A listener, by its inode, and what its socket counted.
    fn listener(socket: u32, count: u64) -> ListenerDrops {
        ListenerDrops {
            netns: None,
            owner: Some(format!("server({socket})")),
            socket: Some(Inode(socket)),
            count,
        }
    }

    fn discarded(reason: &str, socket: u32, count: u64) -> Event {
        Event {
            place: Some("tcp_v4_rcv".to_owned()),
            socket: Some(Inode(socket)),
            transport: Some(6),
            ..event(reason, count)
        }
    }

    /// What explains `ListenDrops` and `ListenOverflows` that moved so far, each in words, and its remainder.
    #[track_caller]
    fn check_listeners(
        [drops, overflows]: [u64; 2],
        events: &[Event],
        listeners: &[ListenerDrops],
        expected: [(&str, i64); 2],
    ) {
        let both = [
            moved(Counter::ListenDrops, drops),
            moved(Counter::ListenOverflows, overflows),
        ];
        let lines = reconcile(&both, events, listeners);
        let of = |counter| {
            let is_it = |line: &&CounterLine| line.moved.subject == CounterSubject::Protocol(counter);
            let Some(line) = lines.iter().find(is_it) else {
                return (String::new(), 0);
            };
            let part = |part: &Part| {
                let owner = part.owner.clone().unwrap_or_default();
                format!("{} {} {owner}", part.count, part.cause)
            };
            let parts: Vec<_> = line.parts.iter().map(part).collect();
            (parts.join(", "), line.remainder.unwrap())
        };
        let found = [of(Counter::ListenDrops), of(Counter::ListenOverflows)];
        assert_eq!(
            found.each_ref().map(|(text, left)| (text.as_str(), *left)),
            expected
        );
    }

    #[test]
    fn only_listener_that_dropped_any_had_the_overflows() {
        let queue = "36 accept queue server(7)";
        check_listeners([36, 36], &[], &[listener(7, 36)], [(queue, 0), (queue, 0)]);
        check_listeners(
            [36, 20],
            &[],
            &[listener(7, 36)],
            [
                ("20 accept queue server(7), 16 listener server(7)", 0),
                ("20 accept queue server(7)", 0),
            ],
        );
        check_listeners(
            [36, 20],
            &[],
            &[listener(7, 30), listener(8, 6)],
            [("30 listener server(7), 6 listener server(8)", 0), ("", 20)],
        );
        // Another one, which is gone, may have had them.
        check_listeners(
            [36, 20],
            &[],
            &[listener(7, 30)],
            [("30 listener server(7)", 6), ("", 20)],
        );
    }

    #[test]
    fn syn_that_is_repeated_and_answered_is_none_that_a_queue_dropped() {
        let repeated = [discarded("NOT_SPECIFIED", 7, 3)];
        check_listeners([0, 0], &repeated, &[listener(7, 3)], [("", 0), ("", 0)]);
        // Also where the drops were not watched.
        check_listeners([0, 0], &[], &[listener(7, 3)], [("", 0), ("", 0)]);
        let queue = "3 accept queue server(7)";
        check_listeners(
            [3, 3],
            &[discarded("NOT_SPECIFIED", 7, 2)],
            &[listener(7, 5)],
            [(queue, 0), (queue, 0)],
        );
        check_listeners([3, 3], &[], &[listener(7, 5)], [(queue, 0), (queue, 0)]);
        check_listeners(
            [3, 1],
            &[discarded("NOT_SPECIFIED", 7, 4)],
            &[listener(7, 7)],
            [
                ("2 listener server(7), 1 accept queue server(7)", 0),
                ("1 accept queue server(7)", 0),
            ],
        );
        // It is unknown which of both dropped those that the kernel counted.
        check_listeners([3, 3], &[], &[listener(7, 5), listener(8, 2)], [("", 3), ("", 3)]);
    }

    #[test]
    fn last_ack_that_finds_the_queue_full_is_counted_twice_by_its_listener() {
        let parts = "4 accept queue server(7), 3 TCP_LISTEN_OVERFLOW server(7)";
        check_listeners(
            [7, 7],
            &[discarded(OVERFLOW, 7, 3)],
            &[listener(7, 10)],
            [(parts, 0), (parts, 0)],
        );
    }

    #[test]
    fn drops_at_a_device_that_is_down_are_those_of_the_device() {
        let device = DeviceName::new(b"eth0");
        let mut queued = event("QDISC_DROP", 5);
        queued.device = Some(device);
        let of = |subject, delta| Moved {
            subject,
            netns: None,
            delta: Some(delta),
        };
        let moved = [
            of(CounterSubject::Qdisc(device), 2),
            of(CounterSubject::Sent(device), 3),
        ];
        let lines = reconcile(&moved, &[queued], &[]);
        let shown: Vec<_> = lines
            .iter()
            .map(|line| (line.moved.delta, line.parts[0].count, line.remainder))
            .collect();
        assert_eq!(shown, [(Some(3), 3, Some(0)), (Some(2), 2, Some(0))]);
    }

    #[test]
    fn counter_that_was_replaced_has_no_remainder() {
        let device = DeviceName::new(b"eth0");
        let mut queued = event("QDISC_DROP", 5);
        queued.device = Some(device);
        let of = |subject, delta| Moved {
            subject,
            netns: None,
            delta,
        };
        let qdisc = of(CounterSubject::Qdisc(device), None);
        let lines = reconcile(std::slice::from_ref(&qdisc), &[queued.clone()], &[]);
        assert_eq!((lines[0].parts[0].count, lines[0].remainder), (5, None));
        // What the device counts is its own all the same.
        let lines = reconcile(
            &[qdisc, of(CounterSubject::Sent(device), Some(5))],
            &[queued],
            &[],
        );
        assert_eq!((lines[0].parts[0].count, lines[0].remainder), (5, Some(0)));
        assert!(lines[1..].iter().all(|line| line.parts.is_empty()));
    }

    #[test]
    fn packets_of_one_of_some_rules_are_shared_between_these() {
        let name = |handle| FirewallRuleName {
            family: sockeye_model::FirewallFamily::INET,
            table: "t".into(),
            chain: "in".into(),
            handle: Some(handle),
        };
        let moved = |handle, delta| Moved {
            subject: CounterSubject::FirewallRule(Box::new(name(handle))),
            netns: None,
            delta: Some(delta),
        };
        let mut known = event("NETFILTER_DROP", 4);
        known.rule = Some(name(2));
        let mut one_of = event("NETFILTER_DROP", 9);
        one_of.rules = vec![name(2), name(3)];
        // A third rule has a remainder of its own.
        let all = [moved(2, 10), moved(3, 3), moved(4, 5)];
        let lines = reconcile(&all, &[known, one_of], &[]);
        let left: Vec<_> = lines
            .iter()
            .map(|line| (line.moved.delta, line.remainder))
            .collect();
        assert_eq!(
            left,
            [(Some(10), Some(0)), (Some(5), Some(5)), (Some(3), Some(0))]
        );
    }

    #[test]
    fn rules_that_share_a_row_explain_it_together() {
        let rule = |handle, delta| Moved {
            subject: CounterSubject::FirewallRule(Box::new(FirewallRuleName {
                family: sockeye_model::FirewallFamily::INET,
                table: "t".to_owned(),
                chain: "in".to_owned(),
                handle: Some(handle),
            })),
            netns: None,
            delta: Some(delta),
        };
        let remainders = |drops| {
            let lines = reconcile(&[rule(2, 10), rule(3, 3)], &[event("NETFILTER_DROP", drops)], &[]);
            lines.iter().map(|line| line.remainder).collect::<Vec<_>>()
        };
        assert_eq!(remainders(13), [Some(0), Some(0)]);
        // Something else dropped one of them, or one was not seen.
        assert_eq!(remainders(14), [Some(10), Some(3)]);
        assert_eq!(remainders(12), [Some(10), Some(3)]);
    }

    #[test]
    fn short_packet_of_ip_is_none_of_udp() {
        let at = |place: &str| Event {
            place: Some(place.to_owned()),
            ..event("PKT_TOO_SMALL", 3)
        };
        let events = [at("ip_rcv_core"), at("__udp4_lib_rcv")];
        let counters = [
            moved(Counter::UdpInErrors, 3),
            moved(Counter::IpInTruncatedPkts, 3),
        ];
        let lines = reconcile(&counters, &events, &[]);
        assert_eq!(
            lines.iter().map(|line| line.remainder).collect::<Vec<_>>(),
            [Some(0); 2]
        );
    }

    #[test]
    fn what_a_router_does_not_pass_on_is_counted_by_its_family() {
        let of = |reason: &str, place: &str, family| Event {
            place: Some(place.to_owned()),
            family: Some(family),
            ..event(reason, 3)
        };
        let events = [
            of("PKT_TOO_BIG", "ip_forward", Family::V4),
            of("PKT_TOO_BIG", "ip6_forward", Family::V6),
            of("IP_INHDR", "ip6_forward", Family::V6),
            of("FRAG_REASM_TIMEOUT", "ip_expire", Family::V4),
            // Its other fragments are of the same datagram.
            of("FRAG_REASM_TIMEOUT", "inet_frag_rbtree_purge", Family::V4),
        ];
        let counters = [
            Counter::IpFragFails,
            Counter::IpReasmFails,
            Counter::Ip6InHdrErrors,
            Counter::Ip6InTooBigErrors,
            Counter::Ip6FragFails,
        ];
        let lines = reconcile(&counters.map(|counter| moved(counter, 3)), &events, &[]);
        let remainders: Vec<_> = lines.iter().map(|line| line.remainder).collect();
        assert_eq!(remainders, [Some(0); 5]);
    }

    #[test]
    fn drops_of_which_some_are_counted_explain_no_more_than_that() {
        let device = DeviceName::new(b"eth0");
        let mut unhandled = event("UNHANDLED_PROTO", 10);
        unhandled.device = Some(device);
        let mut syn = event("TCP_INVALID_SYN", 5);
        syn.transport = Some(6);
        let events = [unhandled, syn];
        let check = |received, errors, expected: &[(u64, i64)]| {
            let received = Moved {
                subject: CounterSubject::Received(device),
                netns: None,
                delta: Some(received),
            };
            let lines = reconcile(&[received, moved(Counter::TcpInErrs, errors)], &events, &[]);
            let of = |line: &CounterLine| {
                let parts = line.parts.iter().map(|part| part.count);
                (parts.sum(), line.remainder.unwrap())
            };
            assert_eq!(lines.iter().map(of).collect::<Vec<_>>(), expected);
        };
        check(10, 5, &[(10, 0), (5, 0)]);
        check(12, 3, &[(10, 2), (3, 0)]);
        check(0, 0, &[]);
    }

    #[test]
    fn last_ack_with_a_cookie_that_finds_the_queue_full_gets_no_reset() {
        let at = |place: &str| Event {
            place: Some(place.to_owned()),
            transport: Some(6),
            ..event("NO_SOCKET", 6)
        };
        let counter = [moved(Counter::TcpOutRsts, 6)];
        let remainder = |place| reconcile(&counter, &[at(place)], &[])[0].remainder;
        assert_eq!(remainder("tcp_v4_rcv"), Some(0));
        assert_eq!(remainder("cookie_v4_check"), Some(6));
    }

    #[test]
    fn reset_that_meets_no_socket_is_not_answered() {
        let of = |are_resets, count| Event {
            transport: Some(6),
            are_resets,
            ..event("NO_SOCKET", count)
        };
        let check = |sent, events: &[Event], expected: &[(u64, i64)]| {
            let lines = reconcile(&[moved(Counter::TcpOutRsts, sent)], events, &[]);
            let of = |line: &CounterLine| {
                let parts = line.parts.iter().map(|part| part.count);
                (parts.sum(), line.remainder.unwrap())
            };
            assert_eq!(lines.iter().map(of).collect::<Vec<_>>(), expected);
        };
        check(0, &[of(Some(true), 7)], &[]);
        check(3, &[of(Some(true), 7), of(Some(false), 3)], &[(3, 0)]);
        check(0, &[of(Some(false), 3)], &[(3, -3)]);
        // Some of them are: as many as were counted were answered.
        check(3, &[of(None, 7)], &[(3, 0)]);
    }

    #[test]
    fn resets_of_closes_are_no_remainder() {
        let counters = |sent, unread, lingers| {
            [
                moved(Counter::TcpOutRsts, sent),
                moved(Counter::TcpAbortOnClose, unread),
                moved(Counter::TcpAbortOnData, lingers),
            ]
        };
        let refused = Event {
            transport: Some(6),
            are_resets: Some(false),
            ..event("NO_SOCKET", 2)
        };
        let lines = reconcile(&counters(7, 3, 1), std::slice::from_ref(&refused), &[]);
        let parts: Vec<_> = lines[0]
            .parts
            .iter()
            .map(|part| (part.count, &*part.cause))
            .collect();
        assert_eq!(
            parts,
            [
                (3, "close with unread data"),
                (2, "NO_SOCKET"),
                (1, "close with SO_LINGER, or data after a close")
            ]
        );
        assert_eq!((lines.len(), lines[0].remainder), (1, Some(1)));
        // More closes than RSTs: it is unknown which sent one.
        let lines = reconcile(&counters(4, 0, 3), &[refused], &[]);
        assert_eq!(
            (lines[0].parts.len(), lines[0].remainder),
            (1, Some(2)),
            "{lines:?}"
        );
    }

    #[test]
    fn sender_gets_an_error_for_what_its_queue_drops() {
        let queued = |is_sent, count| Event {
            is_sent,
            ..event("QDISC_DROP", count)
        };
        let counters = [
            moved(Counter::IpOutDiscards, 5),
            moved(Counter::UdpSndbufErrors, 5),
        ];
        let remainders = |events: &[Event]| {
            let lines = reconcile(&counters, events, &[]);
            lines.iter().map(|line| line.remainder).collect::<Vec<_>>()
        };
        assert_eq!(remainders(&[queued(true, 5), queued(false, 9)]), [Some(0); 2]);
        // What is passed on has no sender here.
        assert_eq!(remainders(&[queued(false, 9)]), [Some(5); 2]);
    }

    #[test]
    fn counter_without_move_or_drop_has_no_line() {
        assert_eq!(reconcile(&[moved(Counter::UdpNoPorts, 0)], &[], &[]), []);
    }
}
