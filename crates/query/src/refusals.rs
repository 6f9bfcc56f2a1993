//! Clients that listeners turn away between two samples, because a queue is full.

use crate::drops::DropSelection;
use rustix::io::Errno;
use sockeye_drops::{Event, Family};
use sockeye_model::{ConnectionEvent, ConnectionEventKind, Endpoint, Inode, NetnsInode, Refusal};
use sockeye_source::{BpfEngine, Ends, Families, Unavailable};
use sockeye_tracepoints::{ConnectionCollector, ConnectionOptions, Protocols};
use sockeye_verdict::{ListenerQueue, Refused, Victim};
use sockeye_wire::connections::kind;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Sees which clients the listeners of a host turn away. Its program is detached when this value is dropped, and when the process ends.
#[derive(Debug)]
pub struct RefusalObserver {
    collector: ConnectionCollector,
}

/// Segments of one client, for one address of a listener, with the same end.
type Key = (
    Option<NetnsInode>,
    SocketAddr,
    IpAddr,
    ListenerQueue,
    Refusal,
    Option<Inode>,
);

impl RefusalObserver {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the program does not run here.
    pub fn begin(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let options = ConnectionOptions {
            kinds: vec![kind::ACCEPT_OVERFLOWS, kind::SYN_OVERFLOWS],
            ends: Ends::ANYWHERE,
            families: Families::BOTH,
            netns: None,
            ring_bytes: RING_BYTES,
            pid_namespace: 0,
            readers: false,
            protocols: Protocols {
                tcp: false,
                udp: false,
                mptcp: false,
            },
            cpu_ppm_max: None,
        };
        let collector = ConnectionCollector::begin(engine, &options)?;
        Ok(Self { collector })
    }

    /// Returns who was turned away since the last call in the selected namespaces.
    ///
    /// # Errors
    /// The errno of `bpf(2)` with which counts are read.
    pub fn since_last(&mut self, selection: &DropSelection) -> Result<Vec<Victim>, Errno> {
        let collected = self.collector.take()?;
        let events = collected.records().filter_map(ConnectionEvent::from_wire);
        Ok(sum(events, selection, collected.lost > 0))
    }
}

/// Sums events up by client. `is_at_least`: whether some were lost.
fn sum(
    events: impl Iterator<Item = ConnectionEvent>,
    selection: &DropSelection,
    is_at_least: bool,
) -> Vec<Victim> {
    let mut victims: BTreeMap<Key, Victim> = BTreeMap::new();
    for event in events {
        let socket = &event.socket;
        let (Some(queue), Some(how)) = (queue_of(event.kind), event.details.refusal) else {
            continue;
        };
        let (Some(local), Some(peer)) = (address_of(&socket.local), address_of(&socket.peer)) else {
            continue;
        };
        // With a cookie the connection can still be made.
        if how == Refusal::Cookie || !selection.selects(socket.netns) {
            continue;
        }
        let netns = socket.netns.filter(|_| selection.are_many);
        let victim = victims
            .entry((netns, local, peer.ip(), queue, how, socket.inode))
            .or_insert_with(|| Victim {
                event: Event {
                    netns,
                    socket: socket.inode,
                    transport: Some(TCP),
                    family: Some(if peer.is_ipv4() { Family::V4 } else { Family::V6 }),
                    ..Event::default()
                },
                local: Some(local),
                peer: Some(peer),
                owner: None,
                refused: Some(Refused {
                    queue,
                    how,
                    has_more_ports: false,
                    is_at_least,
                }),
            });
        victim.event.count += 1;
        if let Some(refused) = &mut victim.refused {
            refused.has_more_ports |= victim.peer != Some(peer);
        }
        victim.peer = Some(peer);
    }
    victims.into_values().collect()
}

const fn queue_of(kind: ConnectionEventKind) -> Option<ListenerQueue> {
    match kind {
        ConnectionEventKind::AcceptOverflow => Some(ListenerQueue::Accept),
        ConnectionEventKind::SynOverflow => Some(ListenerQueue::Syn),
        _ => None,
    }
}

fn address_of(end: &Endpoint) -> Option<SocketAddr> {
    Some(SocketAddr::new(end.ip()?.to_canonical(), end.port()?.0))
}

const TCP: u8 = 6;
/// It is read every 50 ms.
const RING_BYTES: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Port, Protocol, Socket, State};

    fn refusal(kind: ConnectionEventKind, how: Refusal, netns: u32, port: u16) -> ConnectionEvent {
        let mut socket = Socket::new(Protocol::Tcp, State::Listen);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(80));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(port));
        socket.netns = Some(NetnsInode(netns));
        socket.inode = Some(Inode(7));
        let mut event = ConnectionEvent::new(kind, 0, socket);
        event.details.refusal = Some(how);
        event
    }

    #[test]
    fn clients_are_summed_up_by_address_queue_and_end() {
        let (accept, syn) = (
            ConnectionEventKind::AcceptOverflow,
            ConnectionEventKind::SynOverflow,
        );
        let events = [
            refusal(accept, Refusal::SynDropped, 5, 1000),
            refusal(accept, Refusal::SynDropped, 5, 1000),
            refusal(accept, Refusal::AckDropped, 5, 1000),
            refusal(accept, Refusal::AckDropped, 5, 1001),
            refusal(syn, Refusal::SynDropped, 5, 1002),
            refusal(syn, Refusal::Cookie, 5, 1003),
            refusal(accept, Refusal::SynDropped, 6, 1004),
        ];
        let selection = DropSelection {
            namespaces: vec![NetnsInode(5)],
            are_many: false,
        };
        let victims = sum(events.into_iter(), &selection, true);
        let found: Vec<_> = victims
            .iter()
            .map(|victim| {
                let refused = victim.refused.expect("it was turned away");
                assert!(refused.is_at_least && victim.event.netns.is_none());
                let port = victim.peer.map(|peer| peer.port());
                (
                    victim.event.count,
                    refused.queue,
                    refused.how,
                    port,
                    refused.has_more_ports,
                )
            })
            .collect();
        let (accept, syn) = (ListenerQueue::Accept, ListenerQueue::Syn);
        assert_eq!(
            found,
            [
                (2, accept, Refusal::SynDropped, Some(1000), false),
                (2, accept, Refusal::AckDropped, Some(1001), true),
                (1, syn, Refusal::SynDropped, Some(1002), false),
            ]
        );
    }
}
