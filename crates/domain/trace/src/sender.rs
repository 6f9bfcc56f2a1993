//! One direction of a connection: what its sender did, and what kept it from doing more.
//!
//! The sender acts upon what it knows. Captured near it, an acknowledgement is known at once; captured near the
//! receiver, only when it has got back to the sender and the answer to it has come. So acknowledgements take effect later
//! by the round trip between the capture and the sender, as the handshake measured it (`shift_ns`).

mod knows;
mod paces;
mod told;

use crate::bursts::Bursts;
use crate::echo::Echo;
use crate::history::History;
use crate::ids::Ids;
use crate::line::Line;
use crate::queue::Queue;
use crate::repeats::{Repeat, Repeats};
use crate::rules::{self, end_of};
use crate::sequence::{after, before};
use crate::spread::Spread;
use crate::twins::{Twins, takes_space};
use crate::unacked::Transmission;
use crate::waits::Waits;
use crate::{EventKind, Flag, Limit, SegmentNotes};
use paces::Paces;
use sockeye_wire::packet::{Segment, TcpFlags};
use std::collections::VecDeque;

/// What is known of one direction so far.
#[derive(Debug)]
pub(crate) struct Sender {
    line: Line,
    /// The first that was captured of it is not its SYN: there was more before
    has_begun_unseen: bool,
    packets: u64,
    bytes_sent: u64,
    longest: u32,
    /// Most connections have few
    flags: Option<Box<[u32; Flag::ALL.len()]>>,
    in_flight_max: u32,
    first_data_ns: Option<u64>,
    last_data_ns: u64,
    last_sent_ns: u64,
    mss: Option<u32>,
    rtt: Spread,
    smooth_ns: u64,
    handshake_ns: u64,
    is_set_up: bool,
    /// All of the current segment was a duplicate
    is_repeated: bool,
    twins: Twins,
    ids: Ids,
    /// Most connections have none
    repeats: Option<Box<Repeats>>,
    bursts: Bursts,
    /// Connections that are over soon have none: they tell nothing of it
    queue: Option<Box<Queue>>,
    /// The last window captured
    advertised: Option<u32>,
    window_closed: Option<(u64, u64)>,

    // What the sender knows:
    shift_ns: u64,
    echo: Echo,
    on_their_way: VecDeque<Notice>,
    acked: u64,
    window: Option<u32>,
    last_ack_ns: u64,
    /// When the window last became wider
    opened_ns: u64,
    ack_was_pure: bool,
    /// Two segments or more were in flight before the last acknowledgement
    had_much: bool,
    /// The most in flight since a buffer seemed to be filled up again
    filled: u64,
    /// How much had been in flight before that
    to_fill: Option<u64>,
    /// The last new data ends a buffer: it was pushed. Stacks push the last of what they have
    is_pushed: bool,
    /// And it was no full segment
    is_drained: bool,
    /// What was sent last came up to the window's end
    is_window_full: bool,
    /// In flight when it was sent
    sent_flight: u32,
    recovery: Option<Recovery>,
    paces: Paces,
    waits: Waits,
    busy_ns: u64,
    timeouts: u64,
    flights: Spread,
    window_us: u128,
    waited_us: u64,
    /// Windows, in segments, that were full when acknowledgements came
    shut_windows: Spread,
}

/// An acknowledgement on its way to the sender.
#[derive(Debug, Clone, Copy)]
struct Notice {
    known_ns: u64,
    acked: u64,
    window: Option<u32>,
    is_pure: bool,
}

/// It sends again what was lost, until `until` is acknowledged.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    until: u64,
    limit: Limit,
    /// Only the last segment was sent again so far, which probes for losses
    is_probe: bool,
}

/// A segment of the other end, as this one's data is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) now_ns: u64,
    pub(crate) segment: &'a Segment,
    /// In bytes, if the scale is known
    pub(crate) window: Option<u32>,
    /// When the newest segment that it acknowledges was sent, if it was sent once
    pub(crate) newest_ns: Option<u64>,
    /// How far into a train any segment that it acknowledges was, if that was sent once
    pub(crate) farthest: u16,
}

impl Sender {
    pub(crate) fn new(begin_ns: u64) -> Self {
        Self {
            line: Line::default(),
            has_begun_unseen: false,
            packets: 0,
            bytes_sent: 0,
            longest: 0,
            flags: None,
            in_flight_max: 0,
            first_data_ns: None,
            last_data_ns: begin_ns,
            last_sent_ns: begin_ns,
            mss: None,
            rtt: Spread::default(),
            smooth_ns: 0,
            handshake_ns: 0,
            is_set_up: false,
            is_repeated: false,
            twins: Twins::default(),
            ids: Ids::default(),
            repeats: None,
            bursts: Bursts::default(),
            queue: None,
            advertised: None,
            window_closed: None,
            shift_ns: 0,
            echo: Echo::default(),
            on_their_way: VecDeque::new(),
            acked: 0,
            window: None,
            last_ack_ns: begin_ns,
            opened_ns: begin_ns,
            ack_was_pure: false,
            had_much: false,
            filled: 0,
            to_fill: None,
            is_pushed: false,
            is_drained: true,
            is_window_full: false,
            sent_flight: 0,
            recovery: None,
            paces: Paces::default(),
            waits: Waits::new(begin_ns),
            busy_ns: 0,
            timeouts: 0,
            flights: Spread::default(),
            window_us: 0,
            waited_us: 0,
            shut_windows: Spread::default(),
        }
    }

    /// The handshake is over, or was not captured.
    pub(crate) fn set_up(
        &mut self,
        now_ns: u64,
        mss: Option<u32>,
        round_trip_ns: Option<u64>,
        shift_ns: u64,
    ) {
        if !self.is_set_up {
            self.learn_until(now_ns);
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

    /// It sends this; gives its place in its train, and whether it is sent again, for [`Transmission::train`].
    pub(crate) fn sends(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        rules: &mut rules::Side,
        history: &mut History,
    ) -> u16 {
        self.packets += 1;
        self.learn_until(now_ns);
        self.pass(now_ns);
        let len = segment.payload_len;
        if len > 0
            && let Some(stamps) = segment.options.timestamps
            && self.echo.comes(stamps.echo, now_ns)
        {
            self.look_from_afar();
        }
        let twin = self.twins.find(now_ns, segment);
        self.is_repeated = twin.is_some();
        if let Some(twin) = twin {
            let end = if takes_space(segment) {
                end_of(segment)
            } else {
                segment.sequence
            };
            let range = (self.line.at(segment.sequence), self.line.at(end));
            self.repeats_mut().came_twice(now_ns, twin, range, history);
            return Transmission::AGAIN;
        }
        let skipped = self.ids.next(segment.ip_id).unwrap_or(0);
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
            let original = rules.unacked.covering(seq, end_of(segment)).copied();
            rules.unacked.sent_again(seq, end_of(segment));
            let again = Repeat {
                now_ns,
                start,
                end: end.min(self.line.high),
                segs: len.div_ceil(mss).max(1),
                segment,
                acked: self.line.acked,
                original,
                round_trip_ns,
                is_old: self.twins.is_old(segment),
            };
            let quiet_ns = now_ns.saturating_sub(self.last_sent_ns.max(self.last_ack_ns));
            let is_oldest = start <= self.acked;
            let was_lost = self.repeats_mut().sent_again(&again, history);
            if was_lost {
                self.note_loss(&again, quiet_ns, is_oldest, history);
            } else if again.end <= again.acked && len > 0 && self.is_long(quiet_ns) && self.shift_ns > 0 {
                // Its acknowledgement was captured, but did not get to the sender.
                self.times_out(now_ns, self.line.high, "sent again after a long silence", history);
            }
        } else if !is_first && after(seq, high_raw) && self.has_begun_unseen && self.first_data_ns.is_none() {
            // What is in between was sent before the capture began.
            self.line.advance(seq, start);
        } else if !is_first && after(seq, high_raw) {
            let gap = (self.line.high, start);
            self.repeats_mut().skips(now_ns, gap, segment, history.now());
        } else if skipped > 0 && len > 0 && !is_first {
            self.note_silence(now_ns, skipped, history);
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
            if len > 0 {
                let end = end - u64::from(segment.flags.has(TcpFlags::FIN));
                self.line.data = self.line.data.max(end);
            }
        }
        self.last_sent_ns = now_ns;
        train
    }

    /// Round trip from the capture to the sender and back, as timestamps tell it.
    pub(crate) fn distance_ns(&self) -> Option<u64> {
        self.echo.shortest_ns
    }

    /// Shortest time from a segment to its acknowledgement.
    pub(crate) fn shortest_ns(&self) -> Option<u64> {
        self.rtt.min()
    }

    /// The other end says what it got.
    pub(crate) fn acknowledged(&mut self, answer: &Answer<'_>, history: &mut History) {
        let now_ns = answer.now_ns;
        let segment = answer.segment;
        if let Some(stamps) = segment.options.timestamps {
            self.echo.expect(stamps.value, now_ns);
        }
        self.note_window(answer, history);
        self.advertised = answer.window.or(self.advertised);
        if !self.line.is_known {
            // What it sent was not captured, or not yet.
            self.line
                .start(segment.acknowledgement.wrapping_sub(1), segment.acknowledgement);
            self.line.acked = self.line.high;
            self.acked = self.line.acked;
            self.window = answer.window;
            self.has_begun_unseen = true;
            return;
        }
        if let Some(newest_ns) = answer.newest_ns {
            let rtt_ns = now_ns.saturating_sub(newest_ns);
            self.rtt.add(rtt_ns, 1);
            if self.queue.is_none() && self.rtt.count() > FEW_ROUND_TRIPS {
                self.queue = Some(Box::default());
            }
            if let Some(queue) = &mut self.queue {
                queue.took(rtt_ns, self.rtt.min().unwrap_or(rtt_ns));
            }
            self.smooth_ns = if self.smooth_ns == 0 {
                rtt_ns
            } else {
                self.smooth_ns - self.smooth_ns / 8 + rtt_ns / 8
            };
        }
        self.bursts.arrive(answer.farthest);
        let acked = self.line.at(segment.acknowledgement);
        if acked > self.line.high {
            // Of a capture that begins in the middle, it was sent before that.
            if self.first_data_ns.is_some() || !self.has_begun_unseen {
                self.repeats_mut().never_captured(history);
            }
            self.line.advance(segment.acknowledgement, acked);
            self.line.data = self.line.data.max(acked);
        }
        let blocks = segment.options.sack.as_slice();
        if !blocks.is_empty() {
            let line = self.line;
            self.repeats_mut().selectively(
                blocks.iter().map(|(start, end)| (line.at(*start), line.at(*end))),
                acked,
                history,
            );
        }
        if acked > self.line.acked {
            let echo = segment.options.timestamps.map(|stamps| stamps.echo);
            let (before, round_trip_ns) = (self.line.acked, self.round_trip_ns());
            if let Some(repeats) = &mut self.repeats {
                repeats.acknowledged(now_ns, before, acked, echo, round_trip_ns, history);
            }
            let mss = self.mss();
            if let Some(queue) = &mut self.queue {
                queue.advance(now_ns, acked - before, mss.into(), round_trip_ns);
            }
            self.line.acked = acked;
        }
        if let Some(window) = self.window.filter(|window| *window > 0) {
            let mss = u64::from(self.mss());
            if self.line.high.saturating_sub(self.acked) + mss > u64::from(window) {
                self.shut_windows.add(u64::from(window).div_ceil(mss), 1);
            }
        }
        let is_pure = segment.payload_len == 0;
        let notice = Notice {
            known_ns: now_ns.saturating_add(self.shift_ns),
            acked,
            window: answer.window,
            is_pure,
        };
        if self.shift_ns == 0 {
            self.pass(now_ns);
            self.learn(&notice);
        } else if self.on_their_way.len() < NOTICES_MAX {
            self.on_their_way.push_back(notice);
        } else if let Some(last) = self.on_their_way.back_mut() {
            *last = Notice {
                known_ns: last.known_ns,
                acked: acked.max(last.acked),
                ..notice
            };
        }
    }

    /// Counts what the rules said of its segment.
    pub(crate) fn count(&mut self, segment: &Segment, notes: &SegmentNotes) {
        self.bytes_sent += u64::from(segment.payload_len);
        self.longest = self.longest.max(segment.payload_len);
        if !notes.flags.is_empty() {
            let flags = self.flags.get_or_insert_default();
            for flag in notes.flags.iter() {
                flags[flag as usize] += 1;
            }
        }
        if let Some(bytes) = notes.bytes_in_flight {
            self.in_flight_max = self.in_flight_max.max(bytes);
        }
    }

    /// The current segment was captured or delivered before; it says nothing new.
    pub(crate) fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// The receiver's window is closed.
    pub(crate) fn is_closed_out(&self) -> bool {
        self.window_closed.is_some()
    }

    /// How many segments the windows held that kept it from sending, mostly.
    pub(crate) fn shut_window_segs(&self) -> Option<u32> {
        u32::try_from(self.shut_windows.percentile(50)?).ok()
    }

    /// Bytes sent and not acknowledged, as captured.
    pub(crate) fn in_flight(&self) -> u64 {
        self.line.high.saturating_sub(self.line.acked)
    }

    pub(crate) fn has_sent(&self) -> bool {
        self.first_data_ns.is_some()
    }

    /// Of the whole path.
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

    /// Where a sequence number of it lies.
    pub(crate) fn place(&self, sequence: u32) -> u64 {
        self.line.at(sequence)
    }

    /// Where the window ends that goes with this acknowledgement, if that is known.
    pub(crate) fn window_edge(&self, acked: u64) -> Option<u64> {
        self.advertised.map(|window| acked + u64::from(window))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.rtt.heap_bytes()
            + self.flags.as_deref().map_or(0, size_of_val)
            + self.flights.heap_bytes()
            + self.shut_windows.heap_bytes()
            + self.repeats.as_ref().map_or(0, |repeats| repeats.heap_bytes())
            + self.twins.heap_bytes()
            + self.bursts.heap_bytes()
            + self.queue.as_ref().map_or(0, |queue| queue.heap_bytes())
            + self.on_their_way.capacity() * size_of::<Notice>()
    }

    fn repeats_mut(&mut self) -> &mut Repeats {
        self.repeats.get_or_insert_default()
    }

    /// How much data a full segment carries, as far as that is known.
    fn mss(&self) -> u32 {
        let longest = self.longest;
        match self.mss {
            // A path that carries less shows in the longest of many.
            Some(mss) if longest < mss && longest >= mss / 2 && self.packets > FEW_PACKETS => longest,
            Some(mss) => mss.max(1),
            None if (COMMON_MSS_MIN..=COMMON_MSS).contains(&longest) => longest,
            None => COMMON_MSS,
        }
    }

    fn note_window(&mut self, answer: &Answer<'_>, history: &mut History) {
        let segment = answer.segment;
        let is_closed = segment.window == 0
            && !segment
                .flags
                .has(TcpFlags::RST.or(TcpFlags::SYN).or(TcpFlags::FIN));
        if is_closed {
            self.window_closed.get_or_insert(history.now());
        } else if let Some((since_ns, frame)) = self.window_closed.take() {
            let kind = EventKind::WindowClosed {
                duration_ns: history.now().0.saturating_sub(since_ns),
            };
            history.push_at((since_ns, frame), true, kind, "zero window, then another");
        }
    }
}

/// No path takes longer; a capture with wrong times does.
const ROUND_TRIP_MAX_NS: u64 = 3_600_000_000_000;

/// Data in a full segment, if nothing tells: Ethernet's, without options.
const COMMON_MSS: u32 = 1_460;

/// Full segments are no shorter than this, mostly.
const COMMON_MSS_MIN: u32 = 500;

/// More round trips than that tell of queues.
const FEW_ROUND_TRIPS: u64 = 16;

/// A few packets do not tell how long full segments are.
const FEW_PACKETS: u64 = 50;

/// Acknowledgements on their way to the sender; more are put together.
const NOTICES_MAX: usize = 64;
