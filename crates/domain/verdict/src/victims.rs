//! Whom drops hit: the sockets whose packets the kernel dropped between two samples, as its drop events show them. The findings that
//! counters gave have them as well.

use crate::finding::{ListenerQueue, Subject, Victim};
use crate::{Finding, Rule};
use foldhash::fast::FixedState;
use sockeye_dictionary::DropClass;
use sockeye_drops::{CounterSubject, classes};
use sockeye_model::{Counter, Endpoint, Entry, Inode, NetnsInode, Protocol};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;

/// All that was dropped between two samples. Sockets are added one after the other, and give the owners.
#[derive(Debug, Default)]
pub(crate) struct Victims {
    all: Vec<Victim>,
    by_inode: HashMap<Inode, Vec<usize>, FixedState>,
    by_ends: HashMap<Ends, Vec<usize>, FixedState>,
}

/// Namespace, number of the protocol, local end, and peer if the socket is connected.
type Ends = (Option<NetnsInode>, u8, SocketAddr, Option<SocketAddr>);

impl Victims {
    pub(crate) fn new(all: Vec<Victim>) -> Self {
        let mut victims = Self {
            all,
            ..Self::default()
        };
        for (place, victim) in victims.all.iter().enumerate() {
            if let Some(inode) = victim.event.socket {
                victims.by_inode.entry(inode).or_default().push(place);
                continue;
            }
            // For a refused packet there is no socket: one with its addresses is not the one that it was for.
            let is_refused = class_of(victim) == Some(DropClass::Refusal);
            let ends = [(victim.local, victim.peer), (victim.peer, victim.local)];
            for (local, peer) in ends {
                let (Some(local), Some(transport), false) = (local, victim.event.transport, is_refused)
                else {
                    continue;
                };
                for peer in [peer, None] {
                    let key = (victim.event.netns, transport, local, peer);
                    victims.by_ends.entry(key).or_default().push(place);
                }
            }
        }
        victims
    }

    /// Returns all of them.
    pub(crate) fn into_all(self) -> Vec<Victim> {
        self.all
    }

    /// Adds the owner of a socket to what was dropped for it.
    pub(crate) fn socket(&mut self, entry: &Entry<'_>) {
        if self.all.is_empty() {
            return;
        }
        let socket = entry.socket;
        let Some(owner) = entry.owners.and_then(|owners| owners.first()) else {
            return;
        };
        let mut places = Vec::new();
        if let Some(of_inode) = socket.inode.and_then(|inode| self.by_inode.get(&inode)) {
            places.extend_from_slice(of_inode);
        }
        let address = |end: &Endpoint| {
            let port = end.port()?.0;
            Some(SocketAddr::new(end.ip()?.to_canonical(), port)).filter(|_| port != 0)
        };
        if let (Some(local), Some(transport), false) = (
            address(&socket.local),
            number_of(socket.protocol),
            self.by_ends.is_empty(),
        ) {
            // Of one namespace alone the drops do not name it.
            for netns in [socket.netns, None] {
                let key = (netns, transport, local, address(&socket.peer));
                places.extend(self.by_ends.get(&key).into_iter().flatten());
            }
        }
        for place in places {
            if let Some(victim) = self.all.get_mut(place) {
                victim.owner = Some(owner.process);
            }
        }
    }

    /// Forgets the clients that were turned away in namespaces where none was. No socket is added any more.
    pub(crate) fn forget_refused(&mut self, is_none: impl Fn(Option<NetnsInode>) -> bool) {
        self.all
            .retain(|victim| victim.refused.is_none() || !is_none(victim.event.netns));
    }

    /// Adds to each finding about drops whom they hit.
    pub(crate) fn add_to(&self, findings: &mut [Finding]) {
        for finding in findings.iter_mut().filter(|_| !self.all.is_empty()) {
            let is_there = |netns: Option<NetnsInode>| {
                finding.netns.is_none()
                    || netns.is_none()
                    || finding.netns == netns
                    || netns.is_some_and(|netns| finding.more_netns.contains(&netns))
            };
            let mut hit: Vec<&Victim> = self
                .all
                .iter()
                .filter(|victim| is_there(victim.event.netns) && is_hit(victim, finding))
                .collect();
            hit.sort_by_key(|victim| Reverse(victim.event.count));
            // Some of what listeners turn away is a drop as well: of all clients together, and before Linux 6.15 without a reason.
            if hit.iter().any(|victim| victim.refused.is_some()) {
                hit.retain(|victim| victim.refused.is_some());
            }
            finding.victims_left_out = hit.len().saturating_sub(VICTIMS_MAX) as u64;
            finding.victims = hit.into_iter().take(VICTIMS_MAX).cloned().collect();
        }
    }
}

/// Whether a finding is about these drops.
fn is_hit(victim: &Victim, finding: &Finding) -> bool {
    let event = &victim.event;
    if let Some(refused) = victim.refused {
        return is_refusal(victim, refused.queue, finding);
    }
    match (finding.rule, &finding.subject) {
        (Rule::Counters, Subject::Counter(counter)) => CounterSubject::Protocol(*counter).counts(event),
        (Rule::Softnet, _) => CounterSubject::Backlog.counts(event),
        (Rule::QdiscDrops, Subject::Qdisc { device, .. } | Subject::Device(device)) => {
            CounterSubject::Qdisc(*device).counts(event)
        }
        (Rule::DeviceDrops, Subject::Device(device)) => {
            CounterSubject::Received(*device).counts(event) || CounterSubject::Sent(*device).counts(event)
        }
        (Rule::SocketDrops | Rule::UdpUnread, _) => {
            let is_example = || {
                let mut examples = finding.examples.iter();
                event.socket.is_some() && examples.any(|example| example.inode == event.socket)
            };
            let is_owner = finding.owner.is_some() && finding.owner == victim.owner;
            class_of(victim) == Some(DropClass::Loss) && event.socket.is_some() && (is_owner || is_example())
        }
        (
            Rule::AcceptQueue | Rule::ListenerDrops | Rule::BacklogCapped | Rule::SynQueue,
            Subject::Listener(listener),
        ) => {
            let is_port = is_to(victim, listener);
            let is_listener = || {
                let mut examples = finding.examples.iter();
                examples.any(|example| example.inode == event.socket)
            };
            let is_its = if event.socket.is_some() {
                is_listener()
            } else {
                is_port
            };
            let is_of_queue = event
                .reason
                .as_deref()
                .is_some_and(|reason| QUEUE.contains(&reason));
            // A SYN that comes again for a queued request has its answer.
            let is_normal = class_of(victim) == Some(DropClass::Normal);
            event.transport == Some(TCP) && is_its && is_of_queue && !is_normal
        }
        _ => false,
    }
}

/// Whether a finding is about clients that a full queue turned away.
fn is_refusal(victim: &Victim, queue: ListenerQueue, finding: &Finding) -> bool {
    match (finding.rule, &finding.subject) {
        (Rule::Counters, Subject::Counter(counter)) => match counter {
            Counter::ListenDrops => true,
            Counter::ListenOverflows => queue == ListenerQueue::Accept,
            Counter::TcpReqQFullDrop => queue == ListenerQueue::Syn,
            _ => false,
        },
        (Rule::AcceptQueue, Subject::Listener(listener)) => {
            queue == ListenerQueue::Accept && is_to(victim, listener)
        }
        (Rule::SynQueue, Subject::Listener(listener)) => {
            queue == ListenerQueue::Syn && is_to(victim, listener)
        }
        (Rule::ListenerDrops | Rule::BacklogCapped, Subject::Listener(listener)) => is_to(victim, listener),
        _ => false,
    }
}

/// Whether packets were for a listener, by their destination.
fn is_to(victim: &Victim, listener: &Endpoint) -> bool {
    victim.local.is_some_and(|local| {
        let ip = listener.ip().map(|ip| ip.to_canonical());
        let is_address = ip.is_none_or(|ip| ip.is_unspecified() || ip == local.ip());
        is_address && listener.port().is_some_and(|port| port.0 == local.port())
    })
}

fn class_of(victim: &Victim) -> Option<DropClass> {
    classes::class(victim.event.reason.as_deref(), victim.event.place.as_deref())
}

const fn number_of(protocol: Protocol) -> Option<u8> {
    match protocol {
        Protocol::Tcp => Some(TCP),
        Protocol::Udp => Some(17),
        Protocol::UdpLite => Some(136),
        _ => None,
    }
}

const TCP: u8 = 6;
/// Reasons of packets for a listener that it does not take.
const QUEUE: [&str; 3] = ["TCP_LISTEN_OVERFLOW", "NOT_SPECIFIED", "SOCKET_BACKLOG"];
/// Most victims of a finding.
const VICTIMS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Refused;
    use sockeye_drops::{Event, Family};
    use sockeye_model::{Fd, Owner, Pid, Port, Process, Refusal, Socket, State};

    fn process(pid: u32) -> Process {
        Process {
            pid: Pid(pid),
            pgid: None,
            comm: sockeye_model::Comm::new(b"server"),
        }
    }

    fn udp_drop(inode: u32, count: u64) -> Victim {
        Victim {
            event: Event {
                reason: Some("SOCKET_RCVBUFF".to_owned()),
                socket: Some(Inode(inode)),
                transport: Some(17),
                family: Some(Family::V4),
                count,
                ..Event::default()
            },
            ..Victim::default()
        }
    }

    fn socket(inode: u32) -> Socket {
        let mut socket = Socket::new(Protocol::Udp, State::Close);
        socket.inode = Some(Inode(inode));
        socket
    }

    fn about(rule: Rule, subject: Subject, owner: Option<Process>) -> Finding {
        Finding {
            owner,
            ..Finding::about(rule, None, subject)
        }
    }

    #[test]
    fn drops_are_those_of_the_owner_and_of_the_counter() {
        let mut victims = Victims::new(vec![udp_drop(7, 3), udp_drop(8, 5)]);
        for (inode, pid) in [(7, 1), (8, 2), (9, 3)] {
            let owners = [Owner {
                process: process(pid),
                fd: Fd(3),
            }];
            victims.socket(&Entry::with_owners(&socket(inode), Some(&owners)));
        }
        let counter = Subject::Counter(Counter::UdpRcvbufErrors);
        let mut findings = [
            about(Rule::SocketDrops, Subject::Sockets, Some(process(1))),
            about(Rule::SocketDrops, Subject::Sockets, Some(process(3))),
            about(Rule::Counters, counter, None),
            about(Rule::CloseWait, Subject::Sockets, Some(process(1))),
        ];
        victims.add_to(&mut findings);
        let counts = findings.map(|finding| {
            let victims = finding.victims.iter();
            victims
                .map(|victim| (victim.event.count, victim.owner.map(|owner| owner.pid.0)))
                .collect::<Vec<_>>()
        });
        assert_eq!(
            counts,
            [
                vec![(3, Some(1))],
                vec![],
                vec![(5, Some(2)), (3, Some(1))],
                vec![]
            ]
        );
    }

    #[test]
    fn owner_of_a_packet_without_a_socket_has_its_addresses() {
        let end = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let mut victim = udp_drop(0, 1);
        victim.event.socket = None;
        victim.event.reason = Some("CPU_BACKLOG".to_owned());
        (victim.local, victim.peer) = (Some(end(53)), Some(end(4000)));
        let mut victims = Victims::new(vec![victim]);
        let mut bound = socket(7);
        bound.local = Endpoint::inet([10, 0, 0, 1].into(), Port(53));
        let owners = [Owner {
            process: process(1),
            fd: Fd(3),
        }];
        victims.socket(&Entry::with_owners(&bound, Some(&owners)));
        let mut findings = [about(Rule::Softnet, Subject::Processor(0), None)];
        victims.add_to(&mut findings);
        assert_eq!(findings[0].victims[0].owner, Some(process(1)));
    }

    #[test]
    fn clients_that_were_turned_away_are_those_of_the_listener_and_of_its_queue() {
        let end = |last, port| SocketAddr::from(([10, 0, 0, last], port));
        let refused = |queue, port, client| Victim {
            event: Event {
                transport: Some(TCP),
                socket: Some(Inode(7)),
                count: client,
                ..Event::default()
            },
            local: Some(end(1, port)),
            peer: Some(end(u8::try_from(client).unwrap(), 40_000)),
            refused: Some(Refused {
                queue,
                how: Refusal::SynDropped,
                has_more_ports: false,
                is_at_least: false,
            }),
            ..Victim::default()
        };
        let mut of_listener = udp_drop(7, 9);
        of_listener.event.transport = Some(TCP);
        of_listener.event.reason = Some("TCP_LISTEN_OVERFLOW".to_owned());
        of_listener.local = Some(end(1, 80));
        let victims = Victims::new(vec![
            refused(ListenerQueue::Accept, 80, 2),
            refused(ListenerQueue::Accept, 81, 3),
            refused(ListenerQueue::Syn, 80, 4),
            of_listener,
        ]);
        let listener = Subject::Listener(Endpoint::inet([0, 0, 0, 0].into(), Port(80)));
        let mut findings = [
            about(Rule::AcceptQueue, listener.clone(), None),
            about(Rule::SynQueue, listener.clone(), None),
            about(Rule::ListenerDrops, listener.clone(), None),
            about(Rule::CloseWait, listener, None),
            about(Rule::Counters, Subject::Counter(Counter::ListenOverflows), None),
            about(Rule::Counters, Subject::Counter(Counter::TcpReqQFullDrop), None),
        ];
        victims.add_to(&mut findings);
        let counts = findings.map(|finding| {
            let victims = finding.victims.iter();
            victims.map(|victim| victim.event.count).collect::<Vec<_>>()
        });
        let expected: [&[u64]; 6] = [&[2], &[4], &[4, 2], &[], &[3, 2], &[4]];
        assert_eq!(counts, expected.map(<[u64]>::to_vec));
    }

    #[test]
    fn request_that_comes_again_and_was_answered_is_no_victim() {
        let victim = |place: &str| Victim {
            event: Event {
                reason: Some("NOT_SPECIFIED".to_owned()),
                place: Some(place.to_owned()),
                transport: Some(TCP),
                count: 4,
                ..Event::default()
            },
            local: Some(SocketAddr::from(([10, 0, 0, 1], 80))),
            ..Victim::default()
        };
        let listener = Subject::Listener(Endpoint::inet([0, 0, 0, 0].into(), Port(80)));
        for (place, expected) in [("tcp_v4_rcv", 0), ("tcp_v4_do_rcv", 1)] {
            let mut findings = [about(Rule::AcceptQueue, listener.clone(), None)];
            Victims::new(vec![victim(place)]).add_to(&mut findings);
            assert_eq!(findings[0].victims.len(), expected, "{place}");
        }
    }

    #[test]
    fn victims_that_do_not_fit_are_counted() {
        let victims = Victims::new((1..=9).map(|inode| udp_drop(inode, inode.into())).collect());
        let mut findings = [about(
            Rule::Counters,
            Subject::Counter(Counter::UdpRcvbufErrors),
            None,
        )];
        victims.add_to(&mut findings);
        let shown: Vec<_> = findings[0]
            .victims
            .iter()
            .map(|victim| victim.event.count)
            .collect();
        assert_eq!(shown, [9, 8, 7, 6, 5]);
        assert_eq!(findings[0].victims_left_out, 4);
    }
}
