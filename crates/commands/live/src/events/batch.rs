//! Events that are not shown yet.
//!
//! When a process aborts a connection, the kernel closes it first and sends the RST afterwards, within microseconds. Which of the
//! two a close was is known only then: so events wait until the ring was read once more.

use sockeye_model::{ConnectionEvent, ConnectionEventKind};
use std::collections::HashMap;

/// Two batches of events: those that were read last, and those before them.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    before: Vec<ConnectionEvent>,
    last: Vec<ConnectionEvent>,
    /// Closes in both, by the identity of the socket: batch and index.
    closes: HashMap<u64, (bool, usize)>,
}

impl Batches {
    /// Adds an event that was read now.
    pub(crate) fn push(&mut self, event: ConnectionEvent) {
        match event.kind {
            ConnectionEventKind::Close => {
                self.closes.insert(event.identity, (true, self.last.len()));
            }
            ConnectionEventKind::ResetSent => {
                let place = self.closes.get(&event.identity).copied();
                let closed = place.and_then(|(is_last, index)| {
                    let batch = if is_last { &mut self.last } else { &mut self.before };
                    batch.get_mut(index)
                });
                if let Some(closed) = closed {
                    closed.add_reset(event.reset_reason);
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

    /// Adds an event that was read now, if it could be read.
    pub(crate) fn extend(&mut self, event: Option<ConnectionEvent>) {
        if let Some(event) = event {
            self.push(event);
        }
    }

    /// Returns the events that have waited long enough; those that were pushed since the last call wait until the next.
    pub(crate) fn take(&mut self) -> Vec<ConnectionEvent> {
        self.closes.retain(|_, (is_last, _)| *is_last);
        for (is_last, _) in self.closes.values_mut() {
            *is_last = false;
        }
        let last = std::mem::take(&mut self.last);
        std::mem::replace(&mut self.before, last)
    }

    /// Whether an event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.last.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{ConnectionEnd, Protocol, Side, Socket, State};

    fn event(kind: ConnectionEventKind, identity: u64) -> ConnectionEvent {
        ConnectionEvent {
            kind,
            time_ns: 0,
            identity,
            socket: Socket::new(Protocol::Tcp, State::Close),
            old_state: State::Established,
            direction: None,
            owner: None,
            closer: None,
            setup_us: None,
            duration_us: None,
            end: None,
            ended_by: None,
            errno: None,
            reset_reason: None,
            retransmission: None,
            sent_bytes: None,
            received_bytes: None,
        }
    }

    #[test]
    fn reset_after_close_is_its_end() {
        for reads_between in [0, 1] {
            let mut batches = Batches::default();
            batches.push(event(ConnectionEventKind::Close, 7));
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
            assert!(batches.is_empty());
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
