//! The state of one connection during the analysis.

mod handshake;

use crate::budget::Budget;
use crate::capture_clock::CaptureClock;
use crate::counters::Counters;
use crate::ending::EndingEvidence;
use crate::event_log::EventLog;
use crate::exchange::{DataSegment, ExchangeFacts, ExchangeTracker};
use crate::finished::Finished;
use crate::icmp_reports;
use crate::roles::server_by_ports;
use crate::rules::{Captured, Rules, Scale, end_of, is_syn};
use crate::sender::{AckInfo, Sender, SentAs};
use crate::series_recorder::SeriesRecorder;
use crate::timestamp_echo::is_far;
use crate::tuple::Tuple;
use crate::{
    Completeness, Confidence, Connection, Direction, Endpoint, EventKind, Flag, IcmpReport, Limit,
    NameLookup, SegmentNotes, Side, Vantage,
};
use handshake::Handshake;
use sockeye_wire::packet::{IcmpError, Segment, TcpFlags};

/// The state of one connection. Arrays are indexed by end, in the order of [`Tuple`].
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) tuple: Tuple,
    pub(crate) number: u32,
    pub(crate) last_ns: u64,
    pub(crate) rules: Rules,
    first_frame: u64,
    begin_ns: u64,
    /// Time of the capture's first packet
    origin_ns: u64,
    client: usize,
    completeness: Completeness,
    handshake: Handshake,
    senders: [Sender; 2],
    fins: [Option<u32>; 2],
    is_closed: bool,
    ending: EndingEvidence,
    /// End that sent data last, and number of changes
    last_sender: Option<u8>,
    turns: u32,
    exchanges: ExchangeTracker,
    /// TTL of the client's first SYN, as captured
    syn_ttl: Option<u8>,
    lookup: Option<Box<NameLookup>>,
    icmp: Vec<IcmpReport>,
    /// Time and length of the last long silence
    silence: Option<(u64, u64)>,
    idle_before_reset_ns: Option<u64>,
    times_backwards: u64,
    clock: CaptureClock,
    history: EventLog,
    recorder: Option<Box<SeriesRecorder>>,
}

impl Flow {
    pub(crate) fn new(
        tuple: Tuple,
        number: u32,
        from: usize,
        captured: &Captured<'_>,
        origin_ns: u64,
        events_max: usize,
        keeps_series: bool,
    ) -> Self {
        let has = |flag| captured.segment.flags.has(flag);
        let client = match (has(TcpFlags::SYN), has(TcpFlags::ACK)) {
            (true, false) => from,
            (true, true) => 1 - from,
            // The first packet is whichever came first after the capture began.
            _ => server_by_ports(tuple.ports).map_or(from, |server| 1 - server),
        };
        Self {
            tuple,
            number,
            last_ns: captured.time_ns,
            rules: Rules::default(),
            first_frame: captured.frame,
            begin_ns: captured.time_ns,
            origin_ns,
            client,
            completeness: Completeness::default(),
            handshake: Handshake::default(),
            senders: [Sender::new(captured.time_ns), Sender::new(captured.time_ns)],
            fins: [None; 2],
            is_closed: false,
            ending: EndingEvidence::default(),
            last_sender: None,
            turns: 0,
            exchanges: ExchangeTracker::default(),
            syn_ttl: (has(TcpFlags::SYN) && !has(TcpFlags::ACK)).then_some(captured.segment.ttl),
            lookup: None,
            icmp: Vec::new(),
            silence: None,
            idle_before_reset_ns: None,
            times_backwards: 0,
            clock: CaptureClock::default(),
            history: EventLog::new(events_max),
            recorder: keeps_series.then(Box::default),
        }
    }

    /// Whether RST or both FINs and their acknowledgements were seen.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Points of its graph, and events that count as points.
    pub(crate) fn points(&self) -> Option<usize> {
        let recorder = self.recorder.as_ref()?;
        Some(recorder.points() + self.history.len())
    }

    /// Drops the points of its graph.
    pub(crate) fn drop_points(&mut self) {
        self.recorder = None;
    }

    /// Transmissions that it keeps.
    pub(crate) fn unacked(&self) -> usize {
        self.rules.sides.iter().map(|side| side.unacked.len()).sum()
    }

    /// Approximate memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let unacked: usize = self
            .rules
            .sides
            .iter()
            .map(|side| side.unacked.heap_bytes())
            .sum();
        let senders: usize = self.senders.iter().map(Sender::heap_bytes).sum();
        let recorder = self.recorder.as_ref().map_or(0, |recorder| recorder.heap_bytes());
        let reports = self.icmp.capacity() * size_of::<IcmpReport>();
        let others = self.exchanges.heap_bytes() + reports;
        size_of::<Self>() + unacked + senders + self.history.heap_bytes() + others + recorder
    }

    /// Records the name lookup that the client waited for.
    pub(crate) fn set_lookup(&mut self, lookup: Box<NameLookup>) {
        self.lookup = Some(lookup);
    }

    /// Records an ICMP error about a segment of end `from`.
    pub(crate) fn icmp(&mut self, from: usize, time_ns: u64, error: &IcmpError) {
        let direction = if from == self.client {
            Direction::Forward
        } else {
            Direction::Backward
        };
        let time_ns = time_ns.saturating_sub(self.origin_ns);
        icmp_reports::add(&mut self.icmp, direction, time_ns, error);
    }

    /// Updates tshark's completeness: of the first segment, only a SYN counts.
    pub(crate) fn count_completeness(&mut self, segment: &Segment, is_first: bool, is_reused: bool) {
        let seen = &mut self.completeness.0;
        let has = |flag| segment.flags.has(flag);
        let has_data = segment.payload_len > 0;
        if is_first {
            if is_syn(segment) {
                *seen |= Completeness::SYN | if has_data { Completeness::DATA } else { 0 };
            }
            return;
        }
        if is_reused {
            *seen = Completeness::SYN;
        }
        match (has(TcpFlags::SYN), has(TcpFlags::ACK)) {
            (true, true) => *seen |= Completeness::SYN_ACK,
            (false, true) => {
                *seen |= if has_data {
                    Completeness::DATA
                } else {
                    Completeness::ACK
                }
            }
            _ => {}
        }
        if has(TcpFlags::FIN) && has(TcpFlags::ACK) {
            *seen |= Completeness::FIN;
        }
        if has(TcpFlags::RST) {
            *seen |= Completeness::RST;
        }
    }

    /// Processes the next segment, sent by end `from`.
    pub(crate) fn segment(
        &mut self,
        from: usize,
        mut captured: Captured<'_>,
        notes: &mut SegmentNotes,
        budget: &mut Budget,
        counters: &mut Counters,
    ) {
        let segment = captured.segment;
        let events_before = self.history.len();
        let now_ns = self.clock.time(captured.time_ns, self.last_ns);
        if self.clock.runs_backwards {
            counters.times_backwards += 1;
            self.times_backwards += 1;
        }
        let has_ack = segment.flags.has(TcpFlags::ACK);
        self.history.at(
            captured.time_ns.saturating_sub(self.origin_ns),
            captured.frame,
            from == self.client,
        );
        self.note_handshake(from, segment, captured.time_ns);
        self.note_stall(from, now_ns, segment);
        self.note_silence(from, now_ns, segment);
        // Needed only where the turn changes.
        let sender_round_trip_ns = if segment.payload_len > 0 && self.last_sender != Some(from as u8) {
            self.end_round_trip_ns(from)
        } else {
            0
        };

        let [lower, higher] = &mut self.senders;
        let (sender, peer) = if from == 0 {
            (lower, higher)
        } else {
            (higher, lower)
        };
        let is_quiet = sender.in_flight() == 0;
        let is_free = is_quiet && sender.is_free(now_ns);
        let (high, timeouts) = (sender.high(), sender.timeouts());
        let continues = self.last_sender == Some(from as u8);
        captured.train = sender.sends(
            now_ns,
            segment,
            &mut self.rules.sides[from],
            SentAs {
                continues,
                is_misplaced: self.clock.runs_backwards,
            },
            &mut self.history,
        );
        let acknowledged = self.rules.segment(from, &captured, notes, budget);
        let mut rtt_ns = None;
        if has_ack && !sender.is_repeated() {
            let scale = self.rules.sides[from].scale;
            let window = match scale {
                // tshark would use it as the window of all following segments, which have an unknown scale.
                _ if segment.flags.has(TcpFlags::SYN) && self.handshake.is_scale_cut => None,
                _ if segment.flags.has(TcpFlags::SYN) => Some(u32::from(segment.window)),
                Scale::By(shift) => Some(u32::from(segment.window) << shift),
                Scale::Unused => Some(u32::from(segment.window)),
                Scale::Unknown => (segment.window == 0).then_some(0),
            };
            let answer = AckInfo {
                now_ns,
                measured_ns: self.clock.comparable(captured.time_ns, now_ns),
                segment,
                window,
                newest_ns: acknowledged.newest_ns,
                farthest: acknowledged.farthest,
                longest: acknowledged.longest,
            };
            rtt_ns = peer.acknowledged(&answer, &mut self.history);
        }
        sender.count(segment, notes);
        if segment.payload_len > 0 && !sender.is_repeated() {
            let last = self.last_sender.replace(from as u8);
            let is_other = last.is_some_and(|last| usize::from(last) != from);
            // A request must be acknowledged before the answer; simultaneous senders take no turns.
            let is_answer = is_other && is_quiet && peer.in_flight() == 0;
            self.turns = self.turns.saturating_add(is_answer.into());
            let is_probe = notes.flags.has(Flag::KeepAlive) || notes.flags.has(Flag::ZeroWindowProbe);
            if !is_probe {
                let data = DataSegment {
                    now_ns,
                    from_client: from == self.client,
                    bytes: segment.payload_len,
                    is_tls: segment.is_tls_handshake,
                    is_recovery: sender.high() == high || sender.timeouts() != timeouts,
                    is_free,
                    is_answer: peer.in_flight() == 0,
                    sender_round_trip_ns,
                    delayed_ns: if is_other {
                        sender.delayed_ns(now_ns, segment)
                    } else {
                        0
                    },
                    round_trip_ns: sender.round_trip_ns(),
                };
                let ready_ns = self.handshake.ready_ns();
                self.exchanges.data(&data, self.begin_ns, ready_ns);
            }
        }
        if segment.flags.has(TcpFlags::FIN.or(TcpFlags::RST)) {
            self.exchanges.close(now_ns, from == self.client);
        }
        if let Some(recorder) = &mut self.recorder {
            let relative_ns = captured.time_ns.saturating_sub(self.begin_ns);
            recorder.segment(
                from == self.client,
                relative_ns,
                &captured,
                (notes, rtt_ns),
                (sender, peer),
                budget,
            );
        }
        self.note_end(from, segment, notes);
        if self.recorder.is_some() {
            let more = self.history.len() - events_before;
            budget.points_left = budget.points_left.saturating_sub(more);
        }
        self.last_ns = now_ns;
    }

    /// Ends the analysis and returns the result.
    pub(crate) fn finish(&mut self) -> Finished {
        let (client, server) = (self.client, 1 - self.client);
        let end_ns = self.last_ns.max(self.begin_ns);
        for (end, sender) in self.senders.iter_mut().enumerate() {
            self.history
                .at(end_ns.saturating_sub(self.origin_ns), 0, end == client);
            sender.finish(end_ns, &mut self.history);
        }
        let (events, events_left_out) = self.history.events();
        let (of_client, of_server) = (&self.senders[client], &self.senders[server]);
        let server_round_trip_ns = self.end_round_trip_ns(server);
        let facts = ExchangeFacts {
            server_round_trip_ns,
            round_trip_ns: server_round_trip_ns.saturating_add(self.end_round_trip_ns(client)),
            is_request_acked: of_client.in_flight() == 0,
            acked_ns: (of_client.all_acked_ns(), of_server.all_acked_ns()),
            have_clocks: (of_client.has_clock(), of_server.has_clock()),
        };
        let ready_ns = self.handshake.ready_or(self.begin_ns);
        let exchanges = self.exchanges.finish((self.begin_ns, ready_ns, end_ns), &facts);
        let is_syn_needless = self.handshake.is_needless(
            if of_server.has_clock() {
                of_server.first_delayed_ns()
            } else {
                0
            },
            of_client.shortest_ns().unwrap_or(0),
        );
        let (lookup, icmp) = (self.lookup.take(), std::mem::take(&mut self.icmp));
        let endpoint = |end: usize| Endpoint {
            ip: self.tuple.ips[end],
            port: self.tuple.ports[end],
        };
        let side = |end: usize| {
            let offer = self.handshake.offers[end];
            let mut side = Side {
                mss: offer.and_then(|offer| offer.mss),
                window_scale: offer.and_then(|offer| offer.window_scale),
                vantage: self.vantage(end),
                unanswered_keepalives: self.ending.unanswered_keepalives(end),
                ..self.senders[end].side()
            };
            if side.verdict.limit == Some(Limit::ReceiverWindow) {
                side.verdict.window_segs = self.senders[end].blocking_window_segs();
            }
            side
        };
        // With times that go backwards it may begin before the capture.
        let begin_ns = self.begin_ns.saturating_sub(self.origin_ns);
        let connection = Connection {
            number: self.number,
            client: endpoint(client),
            server: endpoint(server),
            begin_ns,
            end_ns: begin_ns + (end_ns - self.begin_ns),
            first_frame: self.first_frame,
            ending: self.ending.ending(client, self.is_closed),
            completeness: self.completeness,
            negotiated: self.handshake.negotiated(),
            handshake_ns: self.handshake.round_trip_ns().map(|ns| {
                if is_syn_needless {
                    ns.saturating_add(self.handshake.repeated_ns())
                } else {
                    ns
                }
            }),
            syns: self.handshake.syns,
            syn_acks: self.handshake.syn_acks,
            is_syn_needless,
            syn_ttl: self.syn_ttl,
            has_server_answered: false,
            turns: self.turns,
            exchanges,
            lookup,
            icmp,
            idle_before_reset_ns: self.idle_before_reset_ns,
            times_backwards: self.times_backwards,
            forward: side(client),
            backward: side(server),
            events,
            events_left_out,
        };
        let series = self
            .recorder
            .take()
            .map(|recorder| Box::new(recorder.series(connection.events.clone())));
        Finished { connection, series }
    }

    fn note_handshake(&mut self, from: usize, segment: &Segment, time_ns: u64) {
        let has = |flag| segment.flags.has(flag);
        if has(TcpFlags::SYN) {
            self.handshake.syn(from, segment, time_ns);
        } else if has(TcpFlags::ACK) && self.handshake.ack_ns.is_none() {
            let is_third = from == self.client && self.handshake.syn_ack_ns.is_some();
            if is_third {
                self.handshake.ack_ns = Some(time_ns);
                self.handshake.ack_echo = segment.options.timestamps.map(|stamps| stamps.echo);
            }
            if is_third || !self.senders[0].is_set_up() {
                self.start_transfer(time_ns);
            }
        }
    }

    /// From here on data may flow: gives both senders the known facts about the path.
    fn start_transfer(&mut self, now_ns: u64) {
        let negotiated = self.handshake.negotiated();
        let mss = self
            .handshake
            .offers
            .iter()
            .flatten()
            .filter_map(|offer| offer.mss)
            .min();
        let clock_len = if negotiated.timestamps == Some(true) {
            CLOCK_LEN
        } else {
            0
        };
        let mss = mss.map(|mss| u32::from(mss).saturating_sub(clock_len).max(1));
        for end in 0..2 {
            let shift_ns = match self.distances(end) {
                Some((sender_ns, receiver_ns)) if is_far(sender_ns, receiver_ns) => sender_ns,
                _ => 0,
            };
            let round_trip_ns = self.handshake.round_trip_ns();
            self.senders[end].start_transfer(now_ns, mss, round_trip_ns, shift_ns);
        }
    }

    /// Round-trip times from the capture point to the sender of this end's data, and to the receiver.
    fn distances(&self, sender: usize) -> Option<(u64, u64)> {
        let Handshake {
            syn_ns,
            syn_ack_ns,
            ack_ns,
            ..
        } = self.handshake;
        let to_server_ns = syn_ack_ns?.saturating_sub(syn_ns?);
        let to_client_ns = ack_ns?.saturating_sub(syn_ack_ns?);
        Some(if sender == self.client {
            (to_client_ns, to_server_ns)
        } else {
            (to_server_ns, to_client_ns)
        })
    }

    fn vantage(&self, end: usize) -> Vantage {
        let sender = &self.senders[end];
        let by_clocks = || sender.distance_ns().zip(sender.shortest_ns());
        match self.distances(end).or_else(by_clocks) {
            None => Vantage::Unknown,
            Some((sender_ns, receiver_ns)) if sender_ns <= receiver_ns / 4 => Vantage::Sender,
            Some((sender_ns, receiver_ns)) if receiver_ns <= sender_ns / 4 => Vantage::Receiver,
            Some(_) => Vantage::Between,
        }
    }

    /// Shortest round trip between the capture and this end, in nanoseconds; 0 if unknown.
    fn end_round_trip_ns(&self, end: usize) -> u64 {
        let by_handshake = self.distances(1 - end).map(|(_, receiver_ns)| receiver_ns);
        let by_acks = self.senders[1 - end].shortest_ns();
        by_handshake.into_iter().chain(by_acks).min().unwrap_or(0)
    }

    /// Remembers a long silence before data, which a RST may follow.
    fn note_silence(&mut self, from: usize, now_ns: u64, segment: &Segment) {
        let quiet_ns = now_ns - self.last_ns;
        if quiet_ns >= IDLE_NS {
            self.silence = Some((now_ns, quiet_ns));
        }
        if segment.flags.has(TcpFlags::RST)
            && let Some((since_ns, silence_ns)) = self.silence
            && self.last_sender == Some(1 - from as u8)
            && self.fins[1 - from].is_none()
            && now_ns - since_ns <= SOON_NS.max(3 * self.senders[1 - from].round_trip_ns())
        {
            self.idle_before_reset_ns.get_or_insert(silence_ns);
        }
    }

    /// Records a stall: a pause much longer than a round trip of this connection.
    fn note_stall(&mut self, from: usize, now_ns: u64, segment: &Segment) {
        let quiet_ns = now_ns - self.last_ns;
        if quiet_ns < STALL_NS_MIN {
            return;
        }
        let since_ns = self.last_ns.saturating_sub(self.origin_ns);
        for end in 0..2 {
            let sender = &self.senders[end];
            let long_ns = sender.round_trip_ns().saturating_mul(STALL_ROUND_TRIPS);
            let evidence = if sender.is_window_closed() {
                if quiet_ns < long_ns.max(STALL_NS) {
                    continue;
                }
                "the receiver's window was closed"
            } else if sender.in_flight() > 0 {
                // An acknowledgement of little data may be delayed on purpose.
                let least_ns = if sender.has_much_in_flight() {
                    STALL_NS_MIN
                } else {
                    STALL_NS
                };
                if quiet_ns < long_ns.max(least_ns) {
                    continue;
                }
                "data was in flight, and nothing came"
            } else if end == from
                && segment.payload_len > 0
                && sender.has_sent()
                && quiet_ns >= long_ns.max(PAUSE_NS)
            {
                "nothing was in flight, as captured, and it sent nothing"
            } else {
                continue;
            };
            let kind = EventKind::Stall {
                duration_ns: quiet_ns,
            };
            self.history
                .push_since(since_ns, end == self.client, kind, Confidence::Likely, evidence);
        }
    }

    fn note_end(&mut self, from: usize, segment: &Segment, notes: &SegmentNotes) {
        let is_again = [
            Flag::Retransmission,
            Flag::FastRetransmission,
            Flag::SpuriousRetransmission,
            Flag::OutOfOrder,
            Flag::KeepAlive,
        ]
        .into_iter()
        .any(|flag| notes.flags.has(flag));
        self.ending
            .segment(from, is_syn(segment), segment.flags.has(TcpFlags::RST), is_again);
        if notes.flags.has(Flag::KeepAlive) {
            self.ending.keepalive(from);
        }
        if segment.flags.has(TcpFlags::RST) {
            self.is_closed = true;
        }
        if segment.flags.has(TcpFlags::FIN) {
            self.fins[from] = Some(end_of(segment));
        }
        let is_acked = |end: usize| {
            let fin = self.fins[end]?;
            Some(crate::sequence::not_after(
                fin,
                self.rules.sides[1 - end].last_ack,
            ))
        };
        self.is_closed |= is_acked(0) == Some(true) && is_acked(1) == Some(true);
    }
}

/// Padded length of the timestamp option in each segment.
const CLOCK_LEN: u32 = 12;

/// A pause this long with data in flight is a stall, if it is long for this connection: delayed acknowledgements are
/// shorter, and so are most pauses of schedulers and network cards.
const STALL_NS: u64 = 250_000_000;
const STALL_NS_MIN: u64 = 50_000_000;

/// A pause of so many round trips is long.
const STALL_ROUND_TRIPS: u64 = 3;

/// A RST to the first data after a shorter silence has other causes: what would forget a connection so soon?
const IDLE_NS: u64 = 4_000_000_000;

/// A RST within this time answers the data before it.
const SOON_NS: u64 = 1_000_000_000;

/// A silence this long in the middle of a transfer is a pause.
const PAUSE_NS: u64 = 1_000_000_000;
