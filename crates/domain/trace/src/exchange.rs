//! Whose turn it was: requests, answers, and the time between them.
//!
//! A turn is the data that one end sends until the other sends data. `Flow` reports each data segment; the time before it
//! belongs to one entry of [`Turn`], so that all times together are the duration of the connection. Losses count for the
//! sender's turn: the time until a retransmission is time of sending, not time of a program.

use crate::histogram::Histogram;
use crate::long_wait::is_long_wait;
use crate::named::named;
use crate::percentiles::Percentiles;

named! {
    /// What a connection's time was spent on, by whose turn it was.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Turn {
        /// The handshake
        Setup = "setup",
        /// No end had sent data yet
        BeforeFirst = "before_first",
        /// The client sent data, or waited for its acknowledgement
        ClientSends = "client_sends",
        /// The server had the request and did not answer yet
        ServerWorks = "server_works",
        /// The server sent data, or waited for its acknowledgement
        ServerSends = "server_sends",
        /// The client had the answer and did not send the next request yet
        ClientThinks = "client_thinks",
        /// The client paused between data of its own, with nothing in flight
        ClientPauses = "client_pauses",
        /// The server paused between data of its own, with nothing in flight
        ServerPauses = "server_pauses",
        /// Round trips between a request and its answer, and between an answer and the next request
        Path = "path",
        /// After the last data
        AfterLast = "after_last",
    }
}

/// Time of a connection by [`Turn`], in nanoseconds; the sum is its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnTimes(pub [u64; Turn::ALL.len()]);

impl TurnTimes {
    /// Time of this turn, in nanoseconds.
    #[must_use]
    pub const fn of(&self, turn: Turn) -> u64 {
        self.0[turn as usize]
    }

    /// Sum of all times.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    fn shift(&mut self, from: Turn, to: Turn, ns: u64) {
        let ns = ns.min(self.of(from));
        self.0[from as usize] -= ns;
        self.add(to, ns);
    }

    fn add(&mut self, turn: Turn, ns: u64) {
        let time = &mut self.0[turn as usize];
        *time = time.saturating_add(ns);
    }
}

/// Requests and answers of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exchanges {
    /// Time by turn
    pub times: TurnTimes,
    /// Times from the last byte of a request to the first byte of its answer, without the round trip between capture and
    /// server
    pub server: Percentiles,
    /// Times from the last byte of an answer to the first byte of the next request, without the round trip between
    /// capture and client
    pub client: Percentiles,
    /// Pauses of the client between data of its own
    pub client_pauses: Percentiles,
    /// Pauses of the server between data of its own
    pub server_pauses: Percentiles,
    /// Answers that took the server [`Exchanges::SLOW_NS`] or longer
    pub slow_answers: u64,
    /// Sum of their times, in nanoseconds
    pub slow_answers_ns: u64,
    /// Time of the first answer, in nanoseconds; `None` without an answer
    pub first_answer_ns: Option<u64>,
    /// Time that the last request waited without an answer, until the connection or the capture ended; `None` if it was
    /// answered
    pub unanswered_ns: Option<u64>,
    /// Pauses of the server that much data of the same answer followed, in nanoseconds, together
    pub interrupted_ns: u64,
    /// The longest of these, in nanoseconds
    pub interruption_max_ns: u64,
    /// Whether the server sent data first
    pub is_server_first: bool,
    /// Whether the first data of the client was a TLS handshake record
    pub is_tls: bool,
}

impl Exchanges {
    /// A person notices an answer that takes this long, in nanoseconds.
    pub const SLOW_NS: u64 = 500_000_000;
}

/// The exchanges of a connection so far.
#[derive(Debug, Default)]
pub(crate) struct ExchangeTracker {
    times: TurnTimes,
    /// Time up to which is accounted, and the end that sent data last
    last: Option<(u64, bool)>,
    /// Boxed: many connections carry no data
    waits: Option<Box<Waits>>,
    /// Time of the first FIN or RST, and whether the client sent it
    closing: Option<(u64, bool)>,
    is_server_first: bool,
    is_tls: bool,
    /// Pauses of the server since more than a message came, the longest of them, and data since then
    unproven: (u64, u64, u64),
}

#[derive(Debug, Default)]
struct Waits {
    server: TurnLengths,
    client: TurnLengths,
    client_pauses: Histogram,
    server_pauses: Histogram,
    client_turn_bytes: u64,
    client_turns: u64,
    interrupted_ns: u64,
    interruption_max_ns: u64,
}

/// Times of one end's turns.
#[derive(Debug, Default)]
struct TurnLengths {
    /// Without the shortest round trip
    plain: Lengths,
    /// Also without what the path delayed by the sender's timestamps; boxed, because most paths delay nothing
    undelayed: Option<Box<Lengths>>,
    /// What the path delayed, in nanoseconds
    delayed_ns: u64,
}

#[derive(Debug, Default, Clone)]
struct Lengths {
    times: Histogram,
    slow: u64,
    slow_ns: u64,
    first_ns: Option<u64>,
}

/// A data segment, by what was known when it was captured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataSegment {
    pub(crate) now_ns: u64,
    pub(crate) from_client: bool,
    pub(crate) bytes: u32,
    pub(crate) is_tls: bool,
    /// It repeats data, or follows a loss
    pub(crate) is_recovery: bool,
    /// Its sender waited for nothing: no data in flight, an open window, no acknowledgement just before
    pub(crate) is_free: bool,
    /// It acknowledges all data of the other end
    pub(crate) is_answer: bool,
    /// Round trip between capture and its sender, 0 if unknown
    pub(crate) sender_round_trip_ns: u64,
    /// How much longer than the shortest delay it took from its sender to the capture, by its timestamp
    pub(crate) delayed_ns: u64,
    /// Round trip of the whole path, 0 if unknown
    pub(crate) round_trip_ns: u64,
}

/// What the rest of the analysis knows at the end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExchangeFacts {
    /// Round trip between capture and server, 0 if unknown
    pub(crate) server_round_trip_ns: u64,
    /// Round trip of the whole path, 0 if unknown
    pub(crate) round_trip_ns: u64,
    /// All data of the client was acknowledged
    pub(crate) is_request_acked: bool,
    /// When all data of the client was acknowledged, and all of the server
    pub(crate) acked_ns: (Option<u64>, Option<u64>),
    /// Whether the timestamps of the client, and of the server, measure delays
    pub(crate) have_clocks: (bool, bool),
}

impl ExchangeTracker {
    /// Records a segment with data. The transfer could begin at `ready_ns`, the connection began at `begin_ns`.
    pub(crate) fn data(&mut self, data: &DataSegment, begin_ns: u64, ready_ns: Option<u64>) {
        let now_ns = data.now_ns;
        let waits = self.waits.get_or_insert_default();
        let Some((since_ns, last_from_client)) = self.last.replace((now_ns, data.from_client)) else {
            let has_handshake = ready_ns.is_some();
            let ready_ns = ready_ns.unwrap_or(begin_ns).clamp(begin_ns, now_ns);
            self.times.add(Turn::Setup, ready_ns.saturating_sub(begin_ns));
            self.times.add(Turn::BeforeFirst, now_ns - ready_ns);
            // Without the handshake, the client is only known as the end that sent first.
            self.is_server_first = !data.from_client && has_handshake;
            self.is_tls = data.from_client && data.is_tls;
            waits.note_client_turn(data, true);
            return;
        };
        let gap_ns = now_ns.saturating_sub(since_ns);
        waits.note_client_turn(data, last_from_client != data.from_client);
        let sends = if data.from_client {
            Turn::ClientSends
        } else {
            Turn::ServerSends
        };
        if data.is_recovery {
            self.times.add(sends, gap_ns);
            return;
        }
        if last_from_client == data.from_client {
            let is_pause = data.is_free && gap_ns > PAUSE_NS_MIN.max(2 * data.round_trip_ns);
            let (pauses, turn) = if data.from_client {
                (&mut waits.client_pauses, Turn::ClientPauses)
            } else {
                (&mut waits.server_pauses, Turn::ServerPauses)
            };
            if is_pause {
                pauses.add(gap_ns, 1);
                if !data.from_client {
                    let (sum_ns, max_ns, _) = self.unproven;
                    self.unproven = (sum_ns.saturating_add(gap_ns), max_ns.max(gap_ns), 0);
                }
            }
            if !data.from_client && self.unproven.0 > 0 {
                self.unproven.2 = self.unproven.2.saturating_add(data.bytes.into());
                // A keepalive or a farewell of a protocol is short: an answer goes on.
                if self.unproven.2 >= MESSAGE_BYTES_MAX {
                    let (sum_ns, max_ns, _) = std::mem::take(&mut self.unproven);
                    waits.interrupted_ns = waits.interrupted_ns.saturating_add(sum_ns);
                    waits.interruption_max_ns = waits.interruption_max_ns.max(max_ns);
                }
            }
            self.times.add(if is_pause { turn } else { sends }, gap_ns);
            return;
        }
        self.unproven = (0, 0, 0);
        if !data.is_answer {
            // Both send at the same time: neither waits for the other.
            self.times.add(sends, gap_ns);
            return;
        }
        let path_ns = gap_ns.min(data.sender_round_trip_ns);
        let net_ns = gap_ns - path_ns;
        self.times.add(Turn::Path, path_ns);
        if data.from_client {
            waits.client.add(net_ns, data.delayed_ns);
            self.times.add(Turn::ClientThinks, net_ns);
        } else {
            waits.server.add(net_ns, data.delayed_ns);
            self.times.add(Turn::ServerWorks, net_ns);
        }
    }

    /// Records the first FIN or RST.
    pub(crate) fn close(&mut self, now_ns: u64, by_client: bool) {
        self.closing.get_or_insert((now_ns, by_client));
    }

    /// Ends the analysis.
    pub(crate) fn finish(
        &self,
        (begin_ns, ready_ns, end_ns): (u64, Option<u64>, u64),
        found_out: &ExchangeFacts,
    ) -> Exchanges {
        let server_round_trip_ns = found_out.server_round_trip_ns;
        let mut found = Exchanges {
            times: self.times,
            is_server_first: self.is_server_first,
            is_tls: self.is_tls,
            ..Exchanges::default()
        };
        let Some((last_ns, from_client)) = self.last else {
            let ready_ns = ready_ns.unwrap_or(end_ns).clamp(begin_ns, end_ns.max(begin_ns));
            found.times.add(Turn::Setup, ready_ns.saturating_sub(begin_ns));
            found
                .times
                .add(Turn::BeforeFirst, end_ns.saturating_sub(ready_ns));
            return found;
        };
        if let Some(waits) = &self.waits {
            let (client_has_clock, server_has_clock) = found_out.have_clocks;
            let (server, delayed_ns) = waits.server.lengths(server_has_clock);
            found.times.shift(Turn::ServerWorks, Turn::Path, delayed_ns);
            let (client, delayed_ns) = waits.client.lengths(client_has_clock);
            found.times.shift(Turn::ClientThinks, Turn::Path, delayed_ns);
            found.server = server.times.percentiles();
            found.client = client.times.percentiles();
            found.client_pauses = waits.client_pauses.percentiles();
            found.server_pauses = waits.server_pauses.percentiles();
            (found.slow_answers, found.slow_answers_ns) = (server.slow, server.slow_ns);
            found.first_answer_ns = server.first_ns;
            (found.interrupted_ns, found.interruption_max_ns) =
                (waits.interrupted_ns, waits.interruption_max_ns);
            let waited_ns = self
                .closing
                .map_or(end_ns, |(closing_ns, _)| closing_ns)
                .saturating_sub(last_ns)
                .saturating_sub(server_round_trip_ns);
            // The server of a client that only reports something may never answer. Who gives up has waited.
            let has_given_up = self.closing.is_some_and(|(_, by_client)| by_client);
            let is_request = waits.client_turn_bytes <= REQUEST_BYTES_MAX
                && (found.server.count > 0 || has_given_up && waits.client_pauses.count() == 0);
            if from_client && is_request && found_out.is_request_acked && waited_ns >= Exchanges::SLOW_NS {
                found.unanswered_ns = Some(waited_ns);
                found.times.add(Turn::ServerWorks, waited_ns);
                found
                    .times
                    .add(Turn::AfterLast, end_ns.saturating_sub(last_ns + waited_ns));
                return found;
            }
        }
        // Data that waits on the path for long is still being sent.
        let acked_ns = if from_client {
            found_out.acked_ns.0
        } else {
            found_out.acked_ns.1
        };
        let sent_ns = acked_ns
            .filter(|acked_ns| is_long_wait(acked_ns.saturating_sub(last_ns), found_out.round_trip_ns));
        let sent_ns = sent_ns.map_or(last_ns, |acked_ns| acked_ns.min(end_ns));
        let sends = if from_client {
            Turn::ClientSends
        } else {
            Turn::ServerSends
        };
        found.times.add(sends, sent_ns.saturating_sub(last_ns));
        found.times.add(Turn::AfterLast, end_ns.saturating_sub(sent_ns));
        found
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.waits.as_ref().map_or(0, |waits| {
            size_of::<Waits>()
                + waits.server.heap_bytes()
                + waits.client.heap_bytes()
                + waits.client_pauses.heap_bytes()
                + waits.server_pauses.heap_bytes()
        })
    }
}

impl TurnLengths {
    /// Records a turn, of which the path took `delayed_ns`.
    fn add(&mut self, ns: u64, delayed_ns: u64) {
        let delayed_ns = delayed_ns.min(ns);
        if self.undelayed.is_none() && delayed_ns >= DELAYED_NS_MIN {
            self.undelayed = Some(Box::new(self.plain.clone()));
        }
        self.plain.add(ns);
        if let Some(undelayed) = &mut self.undelayed {
            undelayed.add(ns - delayed_ns);
            self.delayed_ns = self.delayed_ns.saturating_add(delayed_ns);
        }
    }

    /// The lengths, and what the path took of them; `has_clock`: the sender's timestamps measure that.
    fn lengths(&self, has_clock: bool) -> (&Lengths, u64) {
        match &self.undelayed {
            Some(undelayed) if has_clock => (undelayed, self.delayed_ns),
            _ => (&self.plain, 0),
        }
    }

    fn heap_bytes(&self) -> usize {
        let undelayed = self.undelayed.as_ref();
        let undelayed = undelayed.map_or(0, |lengths| size_of::<Lengths>() + lengths.times.heap_bytes());
        self.plain.times.heap_bytes() + undelayed
    }
}

impl Lengths {
    fn add(&mut self, ns: u64) {
        self.times.add(ns, 1);
        self.first_ns.get_or_insert(ns);
        if ns >= Exchanges::SLOW_NS {
            self.slow += 1;
            self.slow_ns = self.slow_ns.saturating_add(ns);
        }
    }
}

impl Waits {
    fn note_client_turn(&mut self, data: &DataSegment, begins: bool) {
        if data.from_client {
            if begins {
                (self.client_turn_bytes, self.client_turns) = (0, self.client_turns + 1);
            }
            self.client_turn_bytes = self.client_turn_bytes.saturating_add(data.bytes.into());
        }
    }
}

/// Timestamps count milliseconds: less is no delay of the path.
const DELAYED_NS_MIN: u64 = 3_000_000;

/// Shortest pause; programs and schedulers need less than this between two writes.
const PAUSE_NS_MIN: u64 = 5_000_000;

/// More data than this is no keepalive and no farewell of a protocol.
const MESSAGE_BYTES_MAX: u64 = 2_000;

/// A longer message is no request that surely wants an answer.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn data(now_ms: u64, from_client: bool) -> DataSegment {
        DataSegment {
            now_ns: now_ms * MS,
            from_client,
            bytes: 100,
            is_tls: false,
            is_recovery: false,
            is_free: true,
            is_answer: true,
            sender_round_trip_ns: if from_client { 0 } else { 10 * MS },
            delayed_ns: 0,
            round_trip_ns: 10 * MS,
        }
    }

    fn facts() -> ExchangeFacts {
        ExchangeFacts {
            server_round_trip_ns: 10 * MS,
            round_trip_ns: 10 * MS,
            is_request_acked: true,
            acked_ns: (None, None),
            have_clocks: (true, true),
        }
    }

    fn exchanges(segments: &[DataSegment], end_ms: u64) -> Exchanges {
        let mut tracker = ExchangeTracker::default();
        for segment in segments {
            tracker.data(segment, 0, Some(10 * MS));
        }
        tracker.close(end_ms * MS, true);
        tracker.finish((0, Some(10 * MS), end_ms * MS), &facts())
    }

    #[test]
    fn times_belong_to_the_end_whose_turn_it_is() {
        let found = exchanges(
            &[
                data(110, true),
                data(1_120, false),
                data(1_520, true),
                data(1_560, false),
            ],
            2_000,
        );
        let ms = |turn| found.times.of(turn) / MS;
        assert_eq!((ms(Turn::Setup), ms(Turn::BeforeFirst)), (10, 100));
        assert_eq!((ms(Turn::ServerWorks), ms(Turn::ClientThinks)), (1_030, 400));
        assert_eq!((ms(Turn::Path), ms(Turn::AfterLast)), (20, 440));
        assert_eq!(found.times.total(), 2_000 * MS);
        assert_eq!((found.server.count, found.client.count), (2, 1));
        assert_eq!((found.slow_answers, found.first_answer_ns), (1, Some(1_000 * MS)));
        assert_eq!(found.unanswered_ns, None);
    }

    #[test]
    fn pause_needs_a_free_sender() {
        let waiting = DataSegment {
            is_free: false,
            ..data(500, false)
        };
        let found = exchanges(&[data(10, true), data(30, false), waiting, data(900, false)], 900);
        assert_eq!(found.times.of(Turn::ServerPauses), 400 * MS);
        assert_eq!(found.server_pauses.count, 1);
        assert_eq!(found.times.of(Turn::ServerSends), 470 * MS);
    }

    #[test]
    fn retransmission_is_no_answer_time() {
        let again = DataSegment {
            is_recovery: true,
            ..data(400, true)
        };
        let found = exchanges(&[data(10, true), again, data(430, false)], 430);
        assert_eq!(found.times.of(Turn::ClientSends), 390 * MS);
        assert_eq!(found.times.of(Turn::ServerWorks), 20 * MS);
    }

    #[test]
    fn request_without_an_answer_is_the_servers_turn() {
        let found = exchanges(&[data(10, true)], 30_000);
        assert_eq!(found.unanswered_ns, Some(29_980 * MS));
        assert_eq!(found.times.total(), 30_000 * MS);
        assert_eq!(exchanges(&[data(10, true)], 300).unanswered_ns, None);
    }

    #[test]
    fn delay_of_the_path_is_not_the_servers() {
        let late = DataSegment {
            delayed_ns: 900 * MS,
            ..data(1_020, false)
        };
        let mut tracker = ExchangeTracker::default();
        for segment in [data(10, true), late] {
            tracker.data(&segment, 0, Some(10 * MS));
        }
        let found = tracker.finish((0, Some(10 * MS), 1_020 * MS), &facts());
        assert_eq!((found.server.max_ns / MS, found.slow_answers), (100, 0));
        assert_eq!(found.times.of(Turn::Path), 910 * MS);
        // A clock of another unit measures nothing.
        let facts = ExchangeFacts {
            have_clocks: (true, false),
            ..facts()
        };
        let found = tracker.finish((0, Some(10 * MS), 1_020 * MS), &facts);
        assert_eq!((found.server.max_ns / MS, found.slow_answers), (1_000, 1));
    }

    #[test]
    fn data_that_waits_in_a_queue_is_being_sent() {
        let mut tracker = ExchangeTracker::default();
        tracker.data(&data(10, true), 0, Some(10 * MS));
        let facts = ExchangeFacts {
            acked_ns: (Some(1_510 * MS), None),
            is_request_acked: false,
            ..facts()
        };
        let found = tracker.finish((0, Some(10 * MS), 1_600 * MS), &facts);
        assert_eq!(found.times.of(Turn::ClientSends), 1_500 * MS);
        assert_eq!(found.times.of(Turn::AfterLast), 90 * MS);
    }

    #[test]
    fn connection_without_data_waits_for_its_first() {
        let found = exchanges(&[], 5_000);
        assert_eq!(found.times.of(Turn::BeforeFirst), 4_990 * MS);
    }
}
