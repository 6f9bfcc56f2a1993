//! Snapshot of the tcp_info counters of single sockets: the next one gives their rates, for `sockets --watch`.
//! A socket is identified by its cookie: one from `/proc` has none, so it has no rates and is not counted.

use crate::sample::{CompactCounters, ConnectionId, Counters};
use foldhash::HashMap;
use foldhash::fast::RandomState;
use sockeye_model::{Socket, SocketRates, State};
use std::time::Duration;

/// Counters of sockets at one moment.
#[derive(Debug, Clone, Default)]
pub struct SocketSample {
    /// Counters, and whether the socket was listed.
    sockets: HashMap<ConnectionId, (CompactCounters, bool)>,
    opened: u64,
}

impl SocketSample {
    /// Returns an empty sample with space for as many sockets as the one before has: what grows is in memory twice.
    #[must_use]
    pub fn with_space_of(before: Option<&Self>) -> Self {
        let sockets = before.map_or(0, |before| before.sockets.len());
        Self {
            sockets: HashMap::with_capacity_and_hasher(sockets, RandomState::default()),
            opened: 0,
        }
    }

    /// Records a socket, and returns its rates if the sample `before`, which was taken `elapsed` earlier, has it too. What
    /// was unknown then has no rate.
    pub fn record(
        &mut self,
        socket: &Socket,
        is_listed: bool,
        before: Option<(&Self, Duration)>,
    ) -> Option<SocketRates> {
        // A TIME_WAIT socket transfers no data. It keeps its cookie, and its connection counts as closed from now.
        let id = ConnectionId::of(socket).filter(|_| socket.state != State::TimeWait)?;
        let counters = Counters::of(socket.tcp_info.as_ref());
        self.sockets.insert(id, (counters.into(), is_listed));
        let (before, elapsed) = before?;
        let Some((then, _)) = before.sockets.get(&id) else {
            self.opened += u64::from(is_listed);
            return None;
        };
        let then = Counters::from(*then);
        let rate = |now: Option<u64>, then: Option<u64>| {
            let change = now?.saturating_sub(then?);
            Some(change as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE))
        };
        let rates = SocketRates {
            sent_bytes_per_s: rate(counters.bytes_acked, then.bytes_acked),
            received_bytes_per_s: rate(counters.bytes_received, then.bytes_received),
            retrans_segs_per_s: rate(counters.retrans_segs, then.retrans_segs),
        };
        (rates != SocketRates::default()).then_some(rates)
    }

    /// Returns the number of listed sockets that the sample before does not have.
    #[must_use]
    pub const fn opened(&self) -> u64 {
        self.opened
    }

    /// Returns the number of sockets that were listed in the sample `before` and that this one does not have.
    #[must_use]
    pub fn closed_since(&self, before: &Self) -> u64 {
        let listed = before.sockets.iter().filter(|(_, (_, is_listed))| *is_listed);
        listed.filter(|(id, _)| !self.sockets.contains_key(id)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Cookie, Protocol, TcpInfo};

    fn socket(cookie: u64, acked: Option<u64>, received: u64) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.cookie = Some(Cookie(cookie));
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: acked,
            bytes_received: Some(received),
            ..TcpInfo::default()
        });
        socket
    }

    #[test]
    fn rates_are_changes_per_second() {
        let mut before = SocketSample::default();
        assert_eq!(before.record(&socket(1, Some(100), 50), true, None), None);
        let mut now = SocketSample::default();
        let apart = Duration::from_millis(500);
        let rates = now.record(&socket(1, Some(600), 50), true, Some((&before, apart)));
        let expected = SocketRates {
            sent_bytes_per_s: Some(1000.0),
            received_bytes_per_s: Some(0.0),
            retrans_segs_per_s: None,
        };
        assert_eq!(rates, Some(expected));
    }

    #[test]
    fn unknown_counter_has_no_rate() {
        let mut before = SocketSample::default();
        before.record(&socket(1, None, 50), true, None);
        let mut now = SocketSample::default();
        let rates = now.record(
            &socket(1, Some(600), 60),
            true,
            Some((&before, Duration::from_secs(1))),
        );
        assert_eq!(rates.unwrap().sent_bytes_per_s, None);
        assert_eq!(rates.unwrap().received_bytes_per_s, Some(10.0));
    }

    #[test]
    fn opened_and_closed_sockets_are_counted_if_listed() {
        let mut before = SocketSample::default();
        for (cookie, is_listed) in [(1, true), (2, true), (3, false), (4, true)] {
            before.record(&socket(cookie, None, 0), is_listed, None);
        }
        let mut now = SocketSample::default();
        let since = Some((&before, Duration::from_secs(1)));
        // 1 stays, 3 is listed now, 5 is new, 6 is new and not listed, 2 is gone, 4 waits.
        for (cookie, is_listed) in [(1, true), (3, true), (5, true), (6, false)] {
            now.record(&socket(cookie, None, 0), is_listed, since);
        }
        let mut waits = socket(4, None, 0);
        waits.state = State::TimeWait;
        assert_eq!(now.record(&waits, true, since), None);
        assert_eq!((now.opened(), now.closed_since(&before)), (1, 2));
    }
}
