//! Simulated transfers, captured near the sender: a sender, a queue that overflows, a receiver that may stop reading.
#![allow(dead_code, reason = "not every test needs all of it")]

use sockeye_trace::{
    AckPoint, Completeness, Confidence, Connection, Endpoint, Event, EventKind, Exchanges, Flag, Flags, Mark,
    MarkKind, Negotiated, SegmentPoint, Series, Side, WindowPoint,
};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// A simulated transfer.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) segments: u64,
    pub(crate) delay_ns: u64,
    /// Nanoseconds per segment of the slowest link.
    pub(crate) gap_ns: u64,
    /// Length of its queue, in segments.
    pub(crate) queue: u64,
    /// The receiver's window, in segments.
    pub(crate) window: u64,
    /// Random losses per million segments.
    pub(crate) loss_ppm: u64,
    /// Segment before which the application pauses, and for how many nanoseconds.
    pub(crate) stall: Option<(u64, u64)>,
    /// Segment at which the receiver stops reading, and for how many nanoseconds.
    pub(crate) closed: Option<(u64, u64)>,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            segments: 2_000,
            delay_ns: 20_000_000,
            gap_ns: 1_000_000,
            queue: 30,
            window: 200,
            loss_ppm: 0,
            stall: None,
            closed: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrival(u64),
    Ack {
        up_to: u64,
        sack: Option<(u64, u64)>,
        window: u64,
    },
    Timer(u64),
    Resume,
    Open,
}

struct Simulation<'a> {
    plan: &'a Transfer,
    now: u64,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    number: u64,
    frame: u64,
    series: Series,
    // The sender
    next: u64,
    acked: u64,
    window_end: u64,
    cwnd: f64,
    threshold: f64,
    duplicates: u32,
    recovery: Option<u64>,
    timer: u64,
    sent_at: Vec<u64>,
    again: BTreeSet<u64>,
    stalled: bool,
    last_progress: u64,
    // The path
    free_at: u64,
    random: u64,
    // The receiver
    expected: u64,
    beyond: BTreeSet<u64>,
    closed: bool,
    closed_at: Option<u64>,
}

impl Transfer {
    /// Runs the simulation.
    pub(crate) fn run(&self) -> (Series, Connection) {
        let mut simulation = Simulation {
            plan: self,
            now: 0,
            steps: BinaryHeap::new(),
            number: 0,
            frame: 0,
            series: Series::default(),
            next: 0,
            acked: 0,
            window_end: self.window,
            cwnd: 10.0,
            threshold: f64::MAX,
            duplicates: 0,
            recovery: None,
            timer: 0,
            sent_at: Vec::new(),
            again: BTreeSet::new(),
            stalled: false,
            last_progress: 0,
            free_at: 0,
            random: 0x9e37_79b9,
            expected: 0,
            beyond: BTreeSet::new(),
            closed: false,
            closed_at: None,
        };
        simulation.run();
        simulation.series.events.sort_by_key(|event| event.time_ns);
        let series = simulation.series;
        let connection = connection(&series);
        (series, connection)
    }
}

impl Simulation<'_> {
    fn run(&mut self) {
        let mark = |time_ns, sequence, kind| Mark {
            time_ns,
            sequence,
            end: sequence,
            kind,
        };
        self.series.forward.marks.push(mark(0, 0, MarkKind::Syn));
        self.frame = 3;
        self.now = 2 * self.plan.delay_ns;
        self.series.forward.acks.push(AckPoint {
            time_ns: self.now,
            sequence: 1,
            is_duplicate: false,
        });
        self.window_point();
        self.send();
        let mut steps = 0_u64;
        while let Some(Reverse((time, _, step))) = self.steps.pop() {
            self.now = time;
            self.step(step);
            steps += 1;
            if self.acked >= self.plan.segments || steps > 40 * self.plan.segments + 10_000 {
                break;
            }
        }
        self.series
            .forward
            .marks
            .push(mark(self.now, byte(self.acked), MarkKind::Fin));
    }

    fn later(&mut self, time: u64, step: Step) {
        self.number += 1;
        self.steps.push(Reverse((time, self.number, step)));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrival(segment) => self.receive(segment),
            Step::Ack { up_to, sack, window } => self.acknowledged(up_to, sack, window),
            Step::Timer(number) if number == self.timer && self.acked < self.next => {
                self.event(EventKind::Timeout);
                self.threshold = (self.cwnd / 2.0).max(2.0);
                (self.cwnd, self.recovery, self.duplicates) = (1.0, Some(self.next), 0);
                self.again.clear();
                self.transmit(self.acked, Flags::NONE.with(Flag::Retransmission));
            }
            Step::Timer(_) => {}
            Step::Resume => {
                self.stalled = false;
                let (_, duration_ns) = self.plan.stall.unwrap();
                self.event(EventKind::Stall { duration_ns });
                self.send();
            }
            Step::Open => {
                self.closed = false;
                self.answer(None);
            }
        }
    }

    fn event(&mut self, kind: EventKind) {
        let lasted = match kind {
            EventKind::Stall { duration_ns } | EventKind::WindowClosed { duration_ns } => duration_ns,
            _ => 0,
        };
        self.series.events.push(Event {
            time_ns: self.now - lasted,
            frame: self.frame,
            from_client: true,
            kind,
            segments: 1,
            confidence: Confidence::Likely,
            evidence: "never SACKed, sent again",
        });
    }

    fn send(&mut self) {
        while !self.stalled
            && self.next < self.plan.segments
            && self.next < self.window_end
            && ((self.next - self.acked) as f64) < self.cwnd
        {
            if self.plan.stall.is_some_and(|(at, _)| at == self.next)
                && self.sent_at.len() as u64 == self.next
            {
                // Once only: its time of sending is recorded.
                if !self.stalled {
                    self.stalled = true;
                    let (_, duration) = self.plan.stall.unwrap();
                    self.later(self.now + duration, Step::Resume);
                    self.sent_at.push(0);
                    return;
                }
            }
            self.transmit(self.next, Flags::NONE);
            self.next += 1;
        }
    }

    fn transmit(&mut self, segment: u64, flags: Flags) {
        self.frame += 1;
        let first = self.sent_at.len() as u64 <= segment;
        if first {
            self.sent_at.push(self.now);
        } else if flags.is_empty() {
            self.sent_at[segment as usize] = self.now;
        } else {
            self.sent_at[segment as usize] = 0;
        }
        self.series.forward.segments.push(SegmentPoint {
            time_ns: self.now,
            start: byte(segment),
            end: byte(segment + 1),
            flags,
            frame: self.frame,
            is_pushed: segment % 64 == 63,
        });
        self.timer += 1;
        self.later(
            self.now + RTO_NS + 2 * self.plan.delay_ns,
            Step::Timer(self.timer),
        );
        self.flight();
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let lost = (self.random >> 33) % 1_000_000 < self.plan.loss_ppm;
        let waiting = self.free_at.saturating_sub(self.now) / self.plan.gap_ns.max(1);
        if lost || waiting > self.plan.queue {
            self.event(EventKind::Lost);
            return;
        }
        let jitter = (self.random >> 40) % (self.plan.gap_ns / 4).max(1);
        self.free_at = self.free_at.max(self.now) + self.plan.gap_ns - self.plan.gap_ns / 8 + jitter;
        self.later(self.free_at + self.plan.delay_ns, Step::Arrival(segment));
    }

    fn flight(&mut self) {
        let bytes = (self.next.max(self.acked) - self.acked) * MSS;
        self.series.forward.in_flight.push((self.now, bytes as u32));
    }

    fn receive(&mut self, segment: u64) {
        if self.plan.closed.is_some_and(|(at, _)| at == segment) && self.expected <= segment {
            self.closed = true;
            let (_, duration) = self.plan.closed.unwrap();
            self.later(self.now + duration, Step::Open);
        }
        if segment == self.expected {
            self.expected += 1;
            while self.beyond.remove(&self.expected) {
                self.expected += 1;
            }
            let is_last = segment + 1 == self.plan.segments;
            let fills = self.expected != segment + 1 || !self.beyond.is_empty();
            if segment % 2 == 1 || is_last || fills || self.closed {
                self.answer(None);
            } else {
                self.later(
                    self.now + 2 * self.plan.gap_ns,
                    Step::Ack {
                        up_to: self.expected,
                        sack: None,
                        window: self.plan.window,
                    },
                );
            }
        } else {
            if segment > self.expected {
                self.beyond.insert(segment);
            }
            self.answer(Some(segment));
        }
    }

    fn answer(&mut self, because: Option<u64>) {
        let sack = because.filter(|_| !self.beyond.is_empty()).map(|segment| {
            let mut range = (segment, segment + 1);
            while self.beyond.contains(&(range.0.wrapping_sub(1))) {
                range.0 -= 1;
            }
            while self.beyond.contains(&range.1) {
                range.1 += 1;
            }
            range
        });
        let window = if self.closed { 0 } else { self.plan.window };
        self.later(
            self.now + self.plan.delay_ns,
            Step::Ack {
                up_to: self.expected,
                sack,
                window,
            },
        );
    }

    fn window_point(&mut self) {
        let point = WindowPoint {
            time_ns: self.now,
            sequence: byte(self.window_end),
        };
        self.series.forward.windows.push(point);
    }

    fn acknowledged(&mut self, up_to: u64, sack: Option<(u64, u64)>, window: u64) {
        if up_to < self.acked {
            return;
        }
        self.frame += 1;
        let is_new = up_to > self.acked;
        let is_duplicate = !is_new && sack.is_some();
        self.series.forward.acks.push(AckPoint {
            time_ns: self.now,
            sequence: byte(up_to),
            is_duplicate,
        });
        if let Some((from, to)) = sack {
            let mark = Mark {
                time_ns: self.now,
                sequence: byte(from),
                end: byte(to),
                kind: MarkKind::Sack,
            };
            self.series.forward.marks.push(mark);
        }
        if window == 0 {
            let mark = Mark {
                time_ns: self.now,
                sequence: byte(up_to),
                end: byte(up_to),
                kind: MarkKind::ZeroWindow,
            };
            self.series.forward.marks.push(mark);
            self.closed_at.get_or_insert(self.now);
        } else if let Some(since) = self.closed_at.take() {
            self.event(EventKind::WindowClosed {
                duration_ns: self.now - since,
            });
        }
        self.window_end = self.window_end.max(up_to + window);
        if window == 0 {
            self.window_end = up_to;
        }
        self.window_point();
        if is_new {
            let sent = self.sent_at[up_to as usize - 1];
            if sent > 0 {
                self.series.forward.rtt.push((self.now, self.now - sent));
            }
            let new = (up_to - self.acked) as f64;
            self.acked = up_to;
            self.next = self.next.max(up_to);
            self.duplicates = 0;
            self.last_progress = self.now;
            self.timer += 1;
            self.later(self.now + RTO_NS, Step::Timer(self.timer));
            if self.recovery.is_some_and(|end| up_to < end) {
                self.cwnd = self.cwnd.max(self.threshold.min(self.cwnd + new));
                if self.again.insert(self.acked) {
                    self.transmit(self.acked, Flags::NONE.with(Flag::Retransmission));
                }
            } else {
                if self.recovery.take().is_some() {
                    self.cwnd = self.threshold;
                    self.again.clear();
                }
                self.cwnd += if self.cwnd < self.threshold {
                    new
                } else {
                    new / self.cwnd
                };
            }
        } else if sack.is_some() {
            self.duplicates += 1;
            if self.duplicates == 3 && self.recovery.is_none() {
                self.threshold = (self.cwnd / 2.0).max(2.0);
                self.cwnd = self.threshold;
                self.recovery = Some(self.next);
                self.again.insert(self.acked);
                self.transmit(self.acked, Flags::NONE.with(Flag::FastRetransmission));
            }
        }
        self.flight();
        self.send();
    }
}

/// Returns the first sequence number of a segment; SYN has one.
const fn byte(segment: u64) -> u64 {
    segment * MSS + 1
}

/// Returns the connection of a series.
pub(crate) fn connection(series: &Series) -> Connection {
    let last = |side: &sockeye_trace::SideSeries| {
        let segment = side.segments.iter().map(|point| point.time_ns).max().unwrap_or(0);
        segment.max(side.acks.iter().map(|point| point.time_ns).max().unwrap_or(0))
    };
    Connection {
        ending: sockeye_trace::Ending::Closed,
        number: 3,
        client: Endpoint {
            ip: [192, 0, 2, 17].into(),
            port: 40_312,
        },
        server: Endpoint {
            ip: [198, 51, 100, 2].into(),
            port: 443,
        },
        begin_ns: 0,
        end_ns: last(&series.forward).max(last(&series.backward)),
        first_frame: 1,
        completeness: Completeness(31),
        negotiated: Negotiated::default(),
        handshake_ns: None,
        syns: 1,
        syn_acks: 1,
        is_syn_needless: false,
        syn_ttl: None,
        has_server_answered: false,
        turns: 1,
        exchanges: Exchanges::default(),
        lookup: None,
        icmp: Vec::new(),
        idle_before_reset_ns: None,
        times_backwards: 0,
        forward: side(&series.forward),
        backward: side(&series.backward),
        events: Vec::new(),
        events_left_out: 0,
    }
}

/// Returns the figures of a direction that graphs show.
fn side(series: &sockeye_trace::SideSeries) -> Side {
    let sent = series.segments.iter().map(|segment| segment.end - segment.start);
    let is_sign = |mark: &&Mark| matches!(mark.kind, MarkKind::Syn | MarkKind::Fin);
    let signs = series.marks.iter().filter(is_sign).count() as u64;
    Side {
        packets: series.segments.len() as u64,
        bytes: sent.sum::<u64>().saturating_sub(signs),
        ..Side::default()
    }
}

/// Returns the series with both directions exchanged.
pub(crate) fn turned(mut series: Series) -> Series {
    std::mem::swap(&mut series.forward, &mut series.backward);
    for event in &mut series.events {
        event.from_client = !event.from_client;
    }
    series
}

const MSS: u64 = 1448;
const RTO_NS: u64 = 300_000_000;
