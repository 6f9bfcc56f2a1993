//! Connections that have ended a short time ago, of which the kernel keeps the ends only (`TIME_WAIT`).
//!
//! Data that comes then is answered with a RST, long after the close was shown.

use super::place::{Place, place};
use foldhash::HashMap;
use sockeye_model::{
    ConnectionEnd, ConnectionEvent, ConnectionEventKind, Direction, EventOwner, Process, Side, State,
};
use std::collections::VecDeque;

/// Closes whose peer can still send data.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    closes: HashMap<Place, Close>,
    /// When each was noted: the oldest first. A place can be there again.
    order: VecDeque<(u64, Place)>,
}

#[derive(Debug)]
struct Close {
    time_ns: u64,
    direction: Option<Direction>,
    owner: Option<EventOwner>,
    closer: Option<Process>,
    end: Option<ConnectionEnd>,
    ended_by: Option<Side>,
}

impl Ended {
    /// Notes a close, and gives a RST that follows it what is known of its connection.
    pub(crate) fn complete(&mut self, event: &mut ConnectionEvent) {
        match event.kind {
            // The peer has not closed its side.
            ConnectionEventKind::Close if event.old_state == State::FinWait2 => self.note(event),
            ConnectionEventKind::ResetSent if event.socket.state == State::TimeWait => {
                if let Some(close) = self.closes.get(&place(&event.socket)) {
                    event.direction = close.direction;
                    event.owner = close.owner;
                    event.closer = close.closer;
                    event.end = close.end;
                    event.ended_by = close.ended_by;
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, event: &ConnectionEvent) {
        let place = place(&event.socket);
        let close = Close {
            time_ns: event.time_ns,
            direction: event.direction,
            owner: event.owner,
            closer: event.closer,
            end: event.end,
            ended_by: event.ended_by,
        };
        while let Some((time_ns, _)) = self.order.front() {
            if time_ns + TIME_WAIT_NS > event.time_ns && self.order.len() < CLOSES_MAX {
                break;
            }
            if let Some((time_ns, oldest)) = self.order.pop_front()
                && self
                    .closes
                    .get(&oldest)
                    .is_some_and(|close| close.time_ns == time_ns)
            {
                self.closes.remove(&oldest);
            }
        }
        self.order.push_back((event.time_ns, place));
        self.closes.insert(place, close);
    }
}

/// `TCP_TIMEWAIT_LEN` of the kernel, and a second.
const TIME_WAIT_NS: u64 = 61_000_000_000;
/// Some 10 MiB.
const CLOSES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Port, Protocol, Socket};

    fn event(kind: ConnectionEventKind, second: u64, port: u16) -> ConnectionEvent {
        let is_close = kind == ConnectionEventKind::Close;
        let state = if is_close { State::Close } else { State::TimeWait };
        let mut socket = Socket::new(Protocol::Tcp, state);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(port));
        let mut event = ConnectionEvent::new(kind, second * 1_000_000_000, socket);
        if is_close {
            event.old_state = State::FinWait2;
            event.direction = Some(Direction::Active);
            event.end = Some(ConnectionEnd::Fin);
            event.ended_by = Some(Side::Local);
        }
        event
    }

    #[test]
    fn reset_in_time_wait_has_what_its_close_had() {
        let mut ended = Ended::default();
        ended.complete(&mut event(ConnectionEventKind::Close, 1, 7));
        for (second, port, expected) in [(2, 7, Some(ConnectionEnd::Fin)), (2, 8, None)] {
            let mut reset = event(ConnectionEventKind::ResetSent, second, port);
            ended.complete(&mut reset);
            assert_eq!(reset.end, expected, "{port}");
            assert_eq!(reset.direction.is_some(), expected.is_some());
        }
    }

    #[test]
    fn closes_are_forgotten_after_a_minute_and_beyond_the_bound() {
        let mut ended = Ended::default();
        ended.complete(&mut event(ConnectionEventKind::Close, 1, 7));
        ended.complete(&mut event(ConnectionEventKind::Close, 50, 7));
        ended.complete(&mut event(ConnectionEventKind::Close, 90, 8));
        assert_eq!((ended.closes.len(), ended.order.len()), (2, 2));
        ended.complete(&mut event(ConnectionEventKind::Close, 200, 9));
        assert_eq!((ended.closes.len(), ended.order.len()), (1, 1));
        for nth in 0..CLOSES_MAX + 10 {
            let port = u16::try_from(nth % 60_000).unwrap();
            ended.complete(&mut event(ConnectionEventKind::Close, 200, port));
        }
        assert!(ended.order.len() <= CLOSES_MAX && ended.closes.len() <= CLOSES_MAX);
    }
}
