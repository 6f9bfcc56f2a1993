//! Events that are not shown yet.
//!
//! When a process aborts a connection, the kernel closes it first and sends the RST afterwards, within microseconds. Which of the
//! two a close was is known only then: so events wait until the ring was read once more.

use super::counted::SeenByNetns;
use foldhash::HashMap;
use sockeye_model::{ConnectionEvent, ConnectionEventKind, Protocol};
use std::hash::Hash;

/// Two batches of events: those that were read last, and those before them.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    before: Vec<ConnectionEvent>,
    last: Vec<ConnectionEvent>,
    /// Memory for the next batch.
    unused: Vec<ConnectionEvent>,
    /// Closes in both, by the identity of the socket: batch and index.
    closes: HashMap<u64, (bool, usize)>,
    /// First errors of UDP sockets that have no open yet.
    errors: HashMap<u64, (bool, usize)>,
    /// Those of MPTCP by their token: their subflows send the RST.
    connections: HashMap<u32, (bool, usize)>,
    /// What was pushed, in each namespace.
    pub(crate) seen: SeenByNetns,
}

impl Batches {
    /// Adds an event that was read now.
    #[inline]
    pub(crate) fn push(&mut self, mut event: ConnectionEvent) {
        self.seen.add(&event);
        match event.kind {
            ConnectionEventKind::Close => {
                let place = (true, self.last.len());
                self.closes.insert(event.identity, place);
                if let (Protocol::Mptcp, Some(token)) = (event.socket.protocol, event.details.mptcp_token) {
                    self.connections.insert(token, place);
                }
            }
            ConnectionEventKind::ResetSent => {
                let connection = event
                    .details
                    .mptcp_token
                    .and_then(|token| self.connections.get(&token));
                let places = [self.closes.get(&event.identity), connection].map(Option::<&_>::copied);
                for (is_last, index) in places.into_iter().flatten() {
                    let batch = if is_last { &mut self.last } else { &mut self.before };
                    if let Some(closed) = batch.get_mut(index) {
                        closed.add_reset(event.reset_reason);
                        // The programs have forgotten the connection when the RST is sent.
                        event.direction = event.direction.or(closed.direction);
                        event.owner = event.owner.or(closed.owner);
                        event.closer = event.closer.or(closed.closer);
                    }
                }
            }
            ConnectionEventKind::Error if event.socket.protocol == Protocol::Udp => {
                self.errors
                    .entry(event.identity)
                    .or_insert((true, self.last.len()));
            }
            // An answer can come back before the first send ends: its open, which has the time when that began, precedes the error.
            ConnectionEventKind::Open if event.socket.protocol == Protocol::Udp => {
                if let Some((is_last, index)) = self.errors.remove(&event.identity) {
                    let batch = if is_last { &mut self.last } else { &mut self.before };
                    if let Some(error) = batch
                        .get_mut(index)
                        .filter(|error| error.time_ns >= event.time_ns)
                    {
                        std::mem::swap(error, &mut event);
                    }
                }
            }
            // The address is now that of another socket.
            ConnectionEventKind::Open | ConnectionEventKind::Listen => {
                self.closes.remove(&event.identity);
            }
            _ => {}
        }
        self.last.push(event);
    }

    /// Returns the events that have waited long enough; those that were pushed since the last call wait until the next.
    pub(crate) fn take(&mut self) -> Vec<ConnectionEvent> {
        age(&mut self.closes);
        age(&mut self.errors);
        age(&mut self.connections);
        let last = std::mem::replace(&mut self.last, std::mem::take(&mut self.unused));
        std::mem::replace(&mut self.before, last)
    }

    /// Gives the memory of events back that were taken.
    pub(crate) fn give_back(&mut self, mut events: Vec<ConnectionEvent>) {
        events.clear();
        self.unused = events;
    }

    /// Whether an event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.last.is_empty()
    }
}

/// Forgets the places of the batch that is shown now, and moves the others to the batch before the last.
fn age<K: Eq + Hash>(places: &mut HashMap<K, (bool, usize)>) {
    places.retain(|_, (is_last, _)| std::mem::replace(is_last, false));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{
        Comm, ConnectionEnd, Direction, EventOwner, OwnerKnownBy, Pid, Process, Side, Socket, State,
    };

    fn event(kind: ConnectionEventKind, identity: u64) -> ConnectionEvent {
        ConnectionEvent {
            identity,
            old_state: State::Established,
            ..ConnectionEvent::new(kind, 0, Socket::new(Protocol::Tcp, State::Close))
        }
    }

    #[test]
    fn reset_after_close_is_its_end() {
        for reads_between in [0, 1] {
            let mut batches = Batches::default();
            let mut close = event(ConnectionEventKind::Close, 7);
            close.direction = Some(Direction::Passive);
            close.owner = Some(EventOwner {
                process: Process {
                    pid: Pid(1),
                    pgid: None,
                    comm: Comm::new(b"nginx"),
                },
                known_by: OwnerKnownBy::Accept,
            });
            batches.push(close);
            let mut shown = Vec::new();
            for _ in 0..reads_between {
                shown.extend(batches.take());
            }
            batches.push(event(ConnectionEventKind::ResetSent, 7));
            assert!(shown.is_empty());
            shown.extend(batches.take());
            shown.extend(batches.take());
            assert_eq!(shown[0].end, Some(ConnectionEnd::ResetSent), "{reads_between}");
            assert_eq!(shown[0].ended_by, Some(Side::Local));
            assert_eq!(shown[1].owner, shown[0].owner, "{reads_between}");
            assert!(shown[1].owner.is_some() && shown[1].direction.is_some());
            assert!(batches.is_empty());
        }
    }

    #[test]
    fn reset_of_a_subflow_is_the_end_of_its_connection() {
        let mut batches = Batches::default();
        let mut close = event(ConnectionEventKind::Close, 7);
        (close.socket.protocol, close.details.mptcp_token) = (Protocol::Mptcp, Some(5));
        batches.push(close);
        let mut reset = event(ConnectionEventKind::ResetSent, 8);
        reset.details.mptcp_token = Some(5);
        batches.push(reset);
        batches.take();
        assert_eq!(batches.take()[0].end, Some(ConnectionEnd::ResetSent));
    }

    #[test]
    fn open_of_a_udp_socket_precedes_an_error_that_came_before_its_first_send_ended() {
        for reads_between in [0, 1] {
            let mut batches = Batches::default();
            let udp = |kind, identity, time_ns| {
                let mut event = event(kind, identity);
                (event.socket.protocol, event.time_ns) = (Protocol::Udp, time_ns);
                event
            };
            batches.push(udp(ConnectionEventKind::Error, 7, 12));
            let mut shown = Vec::new();
            for _ in 0..reads_between {
                shown.extend(batches.take());
            }
            batches.push(udp(ConnectionEventKind::Open, 8, 13));
            batches.push(udp(ConnectionEventKind::Open, 7, 11));
            shown.extend(batches.take());
            shown.extend(batches.take());
            let order: Vec<_> = shown.iter().map(|event| (event.kind, event.identity)).collect();
            assert_eq!(
                order,
                [
                    (ConnectionEventKind::Open, 7),
                    (ConnectionEventKind::Open, 8),
                    (ConnectionEventKind::Error, 7)
                ],
                "{reads_between}"
            );
        }
    }

    #[test]
    fn reset_of_another_socket_changes_nothing() {
        let mut batches = Batches::default();
        batches.push(event(ConnectionEventKind::Close, 7));
        batches.push(event(ConnectionEventKind::ResetSent, 8));
        // The address is used again.
        batches.push(event(ConnectionEventKind::Open, 7));
        batches.push(event(ConnectionEventKind::ResetSent, 7));
        batches.take();
        assert_eq!(batches.take()[0].end, None);
        let mut received = event(ConnectionEventKind::Close, 9);
        received.end = Some(ConnectionEnd::ResetReceived);
        received.add_reset(None);
        assert_eq!(received.end, Some(ConnectionEnd::ResetReceived));
    }
}
