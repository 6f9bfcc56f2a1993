//! Connections that have ended a short time ago, of which the kernel keeps the ends only (`TIME_WAIT`).
//!
//! Data that comes then is answered with a RST, long after the close was shown.

use super::place::{Place, place};
use foldhash::HashMap;
use sockeye_model::{
    ConnectionEnd, ConnectionEvent, ConnectionEventKind, Direction, EventOwner, Process, Side, State,
};
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// Closes whose peer can still send data.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The oldest first.
    closes: VecDeque<Close>,
    /// How many were forgotten: the number of the first of `closes`.
    forgotten: u64,
    /// The number of the last close of a place, by the hash of that. It is small, so that noting a close does not wait for memory.
    numbers: HashMap<u64, u64>,
}

#[derive(Debug)]
struct Close {
    place: Place,
    hash: u64,
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
                if let Some(close) = self.close_at(&place(&event.socket)) {
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

    fn close_at(&self, place: &Place) -> Option<&Close> {
        let number = self.numbers.get(&self.numbers.hasher().hash_one(place))?;
        let index = usize::try_from(number.checked_sub(self.forgotten)?).ok()?;
        self.closes.get(index).filter(|close| close.place == *place)
    }

    fn note(&mut self, event: &ConnectionEvent) {
        let is_old = |close: &Close| close.time_ns + TIME_WAIT_NS <= event.time_ns;
        while self.closes.len() >= CLOSES_MAX || self.closes.front().is_some_and(is_old) {
            let Some(oldest) = self.closes.pop_front() else {
                break;
            };
            if self.numbers.get(&oldest.hash) == Some(&self.forgotten) {
                self.numbers.remove(&oldest.hash);
            }
            self.forgotten += 1;
        }
        let place = place(&event.socket);
        let hash = self.numbers.hasher().hash_one(place);
        self.numbers
            .insert(hash, self.forgotten + self.closes.len() as u64);
        self.closes.push_back(Close {
            place,
            hash,
            time_ns: event.time_ns,
            direction: event.direction,
            owner: event.owner,
            closer: event.closer,
            end: event.end,
            ended_by: event.ended_by,
        });
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
        assert_eq!((ended.numbers.len(), ended.closes.len()), (2, 2));
        // That the first close at its place was forgotten does not matter to the second.
        let mut reset = event(ConnectionEventKind::ResetSent, 91, 7);
        ended.complete(&mut reset);
        assert_eq!(reset.end, Some(ConnectionEnd::Fin));
        ended.complete(&mut event(ConnectionEventKind::Close, 200, 9));
        assert_eq!((ended.numbers.len(), ended.closes.len()), (1, 1));
        for nth in 0..CLOSES_MAX + 10 {
            let port = u16::try_from(nth % 60_000).unwrap();
            ended.complete(&mut event(ConnectionEventKind::Close, 200, port));
        }
        assert!(ended.closes.len() <= CLOSES_MAX && ended.numbers.len() <= CLOSES_MAX);
    }
}
