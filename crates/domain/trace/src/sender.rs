//! One direction of a connection: what its sender did, and what it waited for.
//!
//! The sender acts on what it knows. Captured near the sender, an acknowledgement is known at once; captured
//! near the receiver, only after it has travelled to the sender and the answer has arrived. So
//! acknowledgements take effect later by the round trip between capture and sender, as measured by the
//! handshake (`shift_ns`).

mod acks;
mod pacing;
mod summary;
mod view;

use crate::bound::BoundTracker;
use crate::bursts::Bursts;
use crate::duplicates::{DuplicateFinder, takes_space};
use crate::event_log::EventLog;
use crate::histogram::Histogram;
use crate::ip_ids::IpIds;
use crate::linear::LinearSequence;
use crate::loss_tracker::{LossTracker, Retransmission};
use crate::queue::Queue;
use crate::rules::{self, end_of};
use crate::sequence::{after, before};
use crate::timestamp_echo::TimestampEcho;
use crate::unacked::Transmission;
use crate::variation::{FlightCorrelation, OneWayDelay};
use crate::wait_times::WaitTimes;
use crate::{Flag, Limit, PathMtuEvidence, SegmentNotes, SmallWrites};
pub(crate) use acks::AckInfo;
use pacing::Pacing;
use sockeye_wire::packet::{Segment, TcpFlags};
use std::collections::VecDeque;

/// The state of one direction.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    line: LinearSequence,
    /// The first captured segment is not its SYN: earlier ones are missing
    has_begun_unseen: bool,
    packets: u64,
    /// Of these, packets that take sequence space
    data_packets: u64,
    bytes_sent: u64,
    data_segs: u64,
    longest: u32,
    /// Boxed: most connections have few flags
    flags: Option<Box<[u32; Flag::ALL.len()]>>,
    in_flight_max: u32,
    first_data_ns: Option<u64>,
    last_data_ns: u64,
    last_sent_ns: u64,
    mss: Option<u32>,
    rtt: Histogram,
    smooth_ns: u64,
    handshake_ns: u64,
    is_set_up: bool,
    /// All of the current segment was a duplicate
    is_repeated: bool,
    duplicates: DuplicateFinder,
    ids: IpIds,
    /// Boxed: most connections have no losses
    losses: Option<Box<LossTracker>>,
    bursts: Bursts,
    /// Boxed: short connections say nothing about a queue
    queue: Option<Box<Queue>>,
    /// When a window of a segment or more followed a smaller one
    reopened_ns: Option<u64>,
    /// When all data was acknowledged
    all_acked_ns: Option<u64>,
    /// The last captured window
    advertised: Option<u32>,
    window_closed: Option<(u64, u64)>,
    /// Acknowledgements with a window of less than a full segment
    small_windows: u64,
    one_way: OneWayDelay,
    correlation: FlightCorrelation,
    /// The last packet of any kind
    last_packet_ns: u64,
    last_len: u32,
    small_writes: SmallWrites,
    /// Excess of the last round trip over the shortest
    ack_delay_ns: u64,
    repeated_acks: RepeatedAcks,
    path_mtu: PathMtuEvidence,
    /// The oldest segment while it is sent again: its start, and how often so far
    stuck: Option<(u64, u32)>,

    // The sender's view:
    shift_ns: u64,
    echo: TimestampEcho,
    delayed_acks: VecDeque<DelayedAck>,
    acked: u64,
    window: Option<u32>,
    last_ack_ns: u64,
    /// Time when the window last grew
    window_grew_ns: u64,
    ack_was_pure: bool,
    /// Two segments or more were in flight before the last acknowledgement
    had_several_in_flight: bool,
    /// Most in flight since a send buffer seemed to be refilled
    filled: u64,
    /// Flight before that, and when it began to be refilled
    to_fill: Option<(u64, u64)>,
    bound: BoundTracker,
    /// The last new data was pushed: stacks set PSH on the last segment of a buffer
    is_pushed: bool,
    /// And it was no full segment
    is_drained: bool,
    /// The last transmission reached the end of the window
    is_window_full: bool,
    /// Flight at that time
    sent_flight: u32,
    recovery: Option<Recovery>,
    pacing: Pacing,
    waits: WaitTimes,
    busy_ns: u64,
    timeouts: u64,
    flights: Histogram,
    window_us: u128,
    waited_us: u64,
    /// Windows, in segments, that were full when acknowledgements arrived
    blocking_windows: Histogram,
    /// At the end: the flight shows a send buffer
    has_full_buffer: bool,
}

/// What is known about a segment from those before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentAs {
    /// Its sender sent the last data, too
    pub(crate) continues: bool,
    /// Its timestamp is earlier than that of the packet before: the capture has them in the wrong order
    pub(crate) is_misplaced: bool,
}

/// An acknowledgement on its way to the sender.
#[derive(Debug, Clone, Copy)]
struct DelayedAck {
    known_ns: u64,
    acked: u64,
    window: Option<u32>,
    is_pure: bool,
}

/// A recovery: lasts until `until` is acknowledged.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    until: u64,
    limit: Limit,
    /// Only the last segment was retransmitted so far (tail loss probe)
    is_probe: bool,
}

/// Acknowledgements that the receiver repeated since the last one that acknowledged more.
#[derive(Debug, Default, Clone, Copy)]
struct RepeatedAcks {
    count: u32,
    last_ns: u64,
    /// One of them reported later data (SACK)
    has_sack: bool,
}

impl Sender {
    pub(crate) fn new(begin_ns: u64) -> Self {
        Self {
            last_data_ns: begin_ns,
            last_sent_ns: begin_ns,
            last_ack_ns: begin_ns,
            last_packet_ns: begin_ns,
            window_grew_ns: begin_ns,
            is_drained: true,
            waits: WaitTimes::new(begin_ns),
            ..Self::default()
        }
    }

    /// The handshake is over, or was not captured.
    pub(crate) fn start_transfer(
        &mut self,
        now_ns: u64,
        mss: Option<u32>,
        round_trip_ns: Option<u64>,
        shift_ns: u64,
    ) {
        if !self.is_set_up {
            self.process_acks_until(now_ns);
            self.pass(now_ns);
            self.waits.progress();
            self.is_set_up = true;
        }
        self.mss = mss.or(self.mss);
        self.handshake_ns = round_trip_ns.unwrap_or(self.handshake_ns);
        self.shift_ns = shift_ns;
        if round_trip_ns.is_some() {
            self.echo.present_ns = Some(shift_ns);
        }
    }

    pub(crate) fn is_set_up(&self) -> bool {
        self.is_set_up
    }

    /// Processes a segment of this sender; returns its position in its train and whether it is a
    /// retransmission, for [`Transmission::train`].
    pub(crate) fn sends(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        rules: &mut rules::Side,
        sent_as: SentAs,
        history: &mut EventLog,
    ) -> u16 {
        self.packets += 1;
        self.data_packets += u64::from(takes_space(segment));
        self.process_acks_until(now_ns);
        self.pass(now_ns);
        let len = segment.payload_len;
        if let Some(stamps) = segment.options.timestamps {
            let flight = self.line.high.saturating_sub(self.acked);
            self.one_way.add(now_ns, stamps.value, flight);
            if len > 0 && self.echo.comes(stamps.echo, now_ns) {
                self.limit_distance();
            }
        }
        let silent_ns = now_ns.saturating_sub(std::mem::replace(&mut self.last_packet_ns, now_ns));
        let duplicate = self.duplicates.find(now_ns, segment);
        self.is_repeated = duplicate.is_some();
        if let Some(duplicate) = duplicate {
            let end = if takes_space(segment) {
                end_of(segment)
            } else {
                segment.sequence
            };
            let range = (self.line.at(segment.sequence), self.line.at(end));
            self.losses_mut()
                .note_duplicate(now_ns, duplicate, range, history);
            return Transmission::AGAIN;
        }
        let skipped = self.skipped_ids(segment, silent_ns);
        let (seq, end) = (segment.sequence, end_of(segment));
        let is_first = !self.line.is_known;
        let high_raw = self.line.high_raw;
        let (start, end) = self.line.place(segment, end);
        self.has_begun_unseen |= is_first && !segment.flags.has(TcpFlags::SYN);
        if seq == end_of(segment) || segment.flags.has(TcpFlags::RST) && len == 0 {
            return 0;
        }
        let is_keep_alive = len <= 1
            && seq == rules.next.wrapping_sub(1)
            && !segment.flags.has(TcpFlags::FIN.or(TcpFlags::SYN));
        let is_probe = len == 1 && self.window == Some(0);
        if is_keep_alive || is_probe {
            return Transmission::AGAIN;
        }
        let is_again = !is_first && before(seq, high_raw);
        if is_again && len <= 1 && segment.flags.has(TcpFlags::SYN) {
            self.times_out(now_ns, start, "SYN was sent again", history);
            return Transmission::AGAIN;
        }
        let mss = self.mss();
        let round_trip_ns = self.round_trip_ns();
        if is_again {
            self.note_stuck(start, len);
            let original = rules.unacked.covering(seq, end_of(segment)).copied();
            if sent_as.is_misplaced {
                self.losses_mut().misplaced(start, end, history);
                return Transmission::AGAIN;
            }
            rules.unacked.sent_again(seq, end_of(segment));
            let again = Retransmission {
                now_ns,
                start,
                end: end.min(self.line.high),
                segs: len.div_ceil(mss).max(1),
                segment,
                acked: self.line.acked,
                original,
                round_trip_ns,
                is_old: self.duplicates.is_old(segment),
            };
            let quiet_ns = now_ns.saturating_sub(self.last_sent_ns.max(self.last_ack_ns));
            let is_oldest = start <= self.acked;
            let was_lost = self.losses_mut().sent_again(&again, history);
            if was_lost {
                self.note_loss(&again, quiet_ns, is_oldest, history);
            } else if again.end <= again.acked && len > 0 && self.is_long(quiet_ns) && self.shift_ns > 0 {
                // Its acknowledgement was captured, but did not reach the sender.
                self.times_out(now_ns, self.line.high, "sent again after a long silence", history);
            }
        } else if !is_first && after(seq, high_raw) && self.has_begun_unseen && self.first_data_ns.is_none() {
            // The data in between was sent before the capture began.
            self.line.advance(seq, start);
        } else if !is_first && after(seq, high_raw) {
            let gap = (self.line.high, start);
            self.losses_mut().skips(now_ns, gap, segment, history.now());
        } else if skipped > 0 && len > 0 && !is_first {
            self.note_silence(now_ns, skipped, sent_as.continues, history);
        }
        if len > 0 {
            self.first_data_ns.get_or_insert(now_ns);
            self.last_data_ns = now_ns;
        }
        let mut train = u16::from(is_again) * Transmission::AGAIN;
        if end > self.line.high || is_first {
            let flight = self.line.high.saturating_sub(self.acked);
            self.note_new_data(now_ns, segment);
            let window = self.window.map(|window| u64::from(window / mss));
            if self
                .bursts
                .has_grown(flight / u64::from(mss) + u64::from(len.div_ceil(mss)))
            {
                self.waits.grow();
                self.to_fill = None;
            }
            train |= self.bursts.send(
                now_ns,
                len.div_ceil(mss),
                flight / u64::from(mss),
                window,
                round_trip_ns,
            );
            self.line.advance(end_of(segment), end);
            self.filled = self.filled.max(self.line.high.saturating_sub(self.acked));
            self.bound.send(now_ns, self.line.high, self.is_window_full);
            if len > 0 {
                self.all_acked_ns = None;
            }
            if len > 0 {
                let end = end - u64::from(segment.flags.has(TcpFlags::FIN));
                self.line.data = self.line.data.max(end);
            }
        }
        (self.last_sent_ns, self.last_len) = (now_ns, len);
        self.in_flight_max = self.in_flight_max.max(self.in_flight_bytes());
        train
    }

    /// Number of IP identifications that are missing before this segment. Only far from the sender they show more than the
    /// sequence numbers.
    fn skipped_ids(&mut self, segment: &Segment, silent_ns: u64) -> u16 {
        if self.shift_ns == 0 {
            self.ids.restart();
            return 0;
        }
        let mss = self.mss();
        let segs = |bytes: u32| if bytes <= mss { 1 } else { bytes.div_ceil(mss) };
        let is_ahead = self.line.is_known && after(segment.sequence, self.line.high_raw);
        let missing_segs = if is_ahead {
            segs(segment.sequence.wrapping_sub(self.line.high_raw))
        } else {
            0
        };
        let is_after_silence = self.is_long(silent_ns);
        let skipped = self.ids.next(
            segment.ip_id,
            segs(segment.payload_len),
            missing_segs,
            is_after_silence,
        );
        skipped.unwrap_or(0)
    }

    /// Records that this segment is sent again, which may be too large for the path.
    fn note_stuck(&mut self, start: u64, len: u32) {
        if start > self.line.acked || len == 0 {
            return;
        }
        let times = match self.stuck {
            Some((stuck, times)) if stuck == start => times + 1,
            _ => 1,
        };
        self.stuck = Some((start, times));
        let is_smaller = len < self.path_mtu.stuck_bytes && times > 1;
        if times > self.path_mtu.stuck_times && !is_smaller {
            (self.path_mtu.stuck_bytes, self.path_mtu.stuck_times) = (len, times);
            self.path_mtu.is_delivered = false;
        }
    }

    /// Round-trip time between the capture and the sender, by timestamps.
    pub(crate) fn distance_ns(&self) -> Option<u64> {
        self.echo.shortest_ns
    }

    /// Shortest time from a segment to its acknowledgement.
    pub(crate) fn shortest_ns(&self) -> Option<u64> {
        self.rtt.min()
    }

    /// Counts the flags of a segment.
    pub(crate) fn count(&mut self, segment: &Segment, notes: &SegmentNotes) {
        self.bytes_sent += u64::from(segment.payload_len);
        self.longest = self.longest.max(segment.payload_len);
        if segment.payload_len > 0 {
            let mss = self.mss();
            self.data_segs += if segment.payload_len <= mss {
                1
            } else {
                u64::from(segment.payload_len.div_ceil(mss))
            };
        }
        if !notes.flags.is_empty() {
            let flags = self.flags.get_or_insert_default();
            for flag in notes.flags.iter() {
                flags[flag as usize] += 1;
            }
        }
    }

    /// Whether the current segment was captured or delivered before, so that it carries nothing new.
    pub(crate) fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Whether the receiver's window is closed.
    pub(crate) fn is_window_closed(&self) -> bool {
        self.window_closed.is_some()
    }

    /// Median of the windows, in segments, that blocked the sender.
    pub(crate) fn blocking_window_segs(&self) -> Option<u32> {
        u32::try_from(self.blocking_windows.percentile(50)?).ok()
    }

    /// When all data was acknowledged, if it is.
    pub(crate) fn all_acked_ns(&self) -> Option<u64> {
        self.all_acked_ns
    }

    /// How much longer than the shortest delay this segment took from the sender to the capture, by its timestamp.
    pub(crate) fn delayed_ns(&self, now_ns: u64, segment: &Segment) -> u64 {
        let stamps = segment.options.timestamps;
        stamps.map_or(0, |stamps| self.one_way.above_ns(now_ns, stamps.value))
    }

    /// Whether its timestamps measure delays: they count milliseconds.
    pub(crate) fn has_clock(&self) -> bool {
        self.one_way.is_in_ms()
    }

    /// How much longer than the shortest delay its first segment took.
    pub(crate) fn first_delayed_ns(&self) -> u64 {
        self.one_way.first_above_ns()
    }

    /// Unacknowledged bytes, as captured.
    pub(crate) fn in_flight(&self) -> u64 {
        self.line.high.saturating_sub(self.line.acked)
    }

    /// Unacknowledged data, as captured: what both the analysis and the graph show.
    pub(crate) fn in_flight_bytes(&self) -> u32 {
        let bytes = self.line.data.saturating_sub(self.line.acked.max(1));
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Whether so much is in flight that receivers acknowledge it at once.
    pub(crate) fn has_much_in_flight(&self) -> bool {
        self.in_flight() > 2 * u64::from(self.mss())
    }

    /// Whether the sender waits for nothing: its data is acknowledged since a while, and the window is open.
    pub(crate) fn is_free(&self, now_ns: u64) -> bool {
        let soon_ns = (self.round_trip_ns() / 8).clamp(SOON_NS.0, SOON_NS.1);
        let is_open = self.advertised.is_none_or(|window| window >= self.mss());
        // What follows a window that opens again had waited for it.
        let was_open = self.reopened_ns.is_none_or(|reopened_ns| {
            now_ns.saturating_sub(reopened_ns) > self.shift_ns.saturating_add(soon_ns)
        });
        is_open && was_open && now_ns.saturating_sub(self.last_ack_ns) > soon_ns
    }

    /// Highest sequence number sent.
    pub(crate) fn high(&self) -> u64 {
        self.line.high
    }

    /// Retransmission timeouts so far.
    pub(crate) fn timeouts(&self) -> u64 {
        self.timeouts
    }

    pub(crate) fn has_sent(&self) -> bool {
        self.first_data_ns.is_some()
    }

    /// Round-trip time of the whole path.
    pub(crate) fn round_trip_ns(&self) -> u64 {
        let measured_ns = if self.shift_ns > 0 {
            self.shift_ns.saturating_add(self.smooth_ns)
        } else if self.smooth_ns > 0 {
            self.smooth_ns
        } else {
            self.handshake_ns
        };
        measured_ns.min(ROUND_TRIP_MAX_NS)
    }

    /// The 64-bit position of one of its sequence numbers.
    pub(crate) fn place(&self, sequence: u32) -> u64 {
        self.line.at(sequence)
    }

    /// The end of the window that belongs to this acknowledgement, if known.
    pub(crate) fn window_edge(&self, acked: u64) -> Option<u64> {
        self.advertised.map(|window| acked + u64::from(window))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.rtt.heap_bytes()
            + self.flags.as_deref().map_or(0, size_of_val)
            + self.flights.heap_bytes()
            + self.blocking_windows.heap_bytes()
            + self.losses.as_ref().map_or(0, |losses| losses.heap_bytes())
            + self.duplicates.heap_bytes()
            + self.bursts.heap_bytes()
            + self.queue.as_ref().map_or(0, |queue| queue.heap_bytes())
            + self.delayed_acks.capacity() * size_of::<DelayedAck>()
            + self.one_way.heap_bytes()
    }

    fn losses_mut(&mut self) -> &mut LossTracker {
        self.losses.get_or_insert_default()
    }

    /// Data bytes of a full segment, as far as known.
    fn mss(&self) -> u32 {
        let longest = self.longest;
        match self.mss {
            // A path with a smaller MTU shows in the longest of many segments.
            Some(mss) if longest < mss && longest >= mss / 2 && self.packets > FEW_PACKETS => longest,
            Some(mss) => mss.max(1),
            None if (COMMON_MSS_MIN..=COMMON_MSS).contains(&longest) => longest,
            None => COMMON_MSS,
        }
    }
}

/// No path takes longer; captures with wrong times do.
const ROUND_TRIP_MAX_NS: u64 = 3_600_000_000_000;

/// Data within this time after an acknowledgement was triggered by it: least, most.
const SOON_NS: (u64, u64) = (200_000, 3_000_000);

/// Default data bytes of a full segment: Ethernet's, without options.
const COMMON_MSS: u32 = 1_460;

/// Full segments usually have at least this size.
const COMMON_MSS_MIN: u32 = 500;

/// Fewer packets do not show the size of full segments.
const FEW_PACKETS: u64 = 50;
