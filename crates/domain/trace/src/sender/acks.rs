//! Acknowledgements of one direction's data, as they are captured.

use super::{DelayedAck, RepeatedAcks, Sender};
use crate::EventKind;
use crate::event_log::EventLog;
use sockeye_wire::packet::{Segment, TcpFlags};

/// What a segment of the other end says about this direction's data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckInfo<'a> {
    pub(crate) now_ns: u64,
    /// The same by the clock that the times of transmissions are of
    pub(crate) measured_ns: u64,
    pub(crate) segment: &'a Segment,
    /// Window in bytes, if the scale is known
    pub(crate) window: Option<u32>,
    /// Transmission time of the newest acknowledged segment, if it was sent once
    pub(crate) newest_ns: Option<u64>,
    /// Farthest position in a train of the acknowledged segments that were sent once
    pub(crate) farthest: u16,
    /// Length of the longest acknowledged segment
    pub(crate) longest: u32,
}

impl Sender {
    /// Processes an acknowledgement of the other end; returns the round trip that it ends, if it ends one.
    pub(crate) fn acknowledged(&mut self, answer: &AckInfo<'_>, history: &mut EventLog) -> Option<u64> {
        let now_ns = answer.now_ns;
        let segment = answer.segment;
        if let Some(stamps) = segment.options.timestamps {
            self.echo.expect(stamps.value, now_ns);
        }
        self.note_window(answer, history);
        let mss = self.mss();
        if answer.window.is_some_and(|window| window >= mss)
            && self.advertised.is_some_and(|before| before < mss)
        {
            self.reopened_ns = Some(now_ns);
        }
        self.advertised = answer.window.or(self.advertised);
        if !self.line.is_known {
            // The acknowledged data was not captured, or not yet.
            self.line
                .start(segment.acknowledgement.wrapping_sub(1), segment.acknowledgement);
            self.line.acked = self.line.high;
            self.acked = self.line.acked;
            self.window = answer.window;
            self.has_begun_unseen = true;
            return None;
        }
        let rtt_ns = answer
            .newest_ns
            .map(|newest_ns| answer.measured_ns.saturating_sub(newest_ns));
        if let Some(rtt_ns) = rtt_ns {
            self.rtt.add(rtt_ns, 1);
            // While the last data drains, the flight is smaller than it was when the segment was sent.
            if now_ns.saturating_sub(self.last_sent_ns) <= rtt_ns / 8 {
                let flight = self.line.high.saturating_sub(self.line.acked);
                self.correlation.add(rtt_ns, flight);
            }
            self.ack_delay_ns = rtt_ns.saturating_sub(self.rtt.min().unwrap_or(rtt_ns));
            if self.queue.is_none() && self.rtt.count() > FEW_ROUND_TRIPS {
                self.queue = Some(Box::default());
            }
            if let Some(queue) = &mut self.queue {
                queue.add_round_trip(rtt_ns, self.rtt.min().unwrap_or(rtt_ns));
            }
            self.smooth_ns = if self.smooth_ns == 0 {
                rtt_ns
            } else {
                self.smooth_ns - self.smooth_ns / 8 + rtt_ns / 8
            };
        }
        self.bursts.arrive(answer.farthest);
        self.path_mtu.delivered_bytes = self.path_mtu.delivered_bytes.max(answer.longest);
        let acked = self.line.at(segment.acknowledgement);
        if acked > self.line.high {
            // In a capture that begins in the middle, the data was sent before.
            if self.first_data_ns.is_some() || !self.has_begun_unseen {
                self.losses_mut().note_missing_in_capture(history);
            }
            self.line.advance(segment.acknowledgement, acked);
            self.line.data = self.line.data.max(acked);
        }
        let blocks = segment.options.sack.as_slice();
        if !blocks.is_empty() {
            let line = self.line;
            self.losses_mut().selectively(
                blocks.iter().map(|(start, end)| (line.at(*start), line.at(*end))),
                acked,
                history,
            );
        }
        if acked > self.line.acked {
            self.repeated_acks = RepeatedAcks::default();
            if self.stuck.take_if(|(start, _)| *start < acked).is_some() {
                self.path_mtu.is_delivered = true;
            }
        } else if segment.payload_len == 0 && self.in_flight() > 0 {
            self.repeated_acks.count = self.repeated_acks.count.saturating_add(1);
            self.repeated_acks.last_ns = now_ns;
            self.repeated_acks.has_sack |= !blocks.is_empty();
        }
        if acked > self.line.acked {
            let echo = segment.options.timestamps.map(|stamps| stamps.echo);
            let (before, round_trip_ns) = (self.line.acked, self.round_trip_ns());
            if let Some(losses) = &mut self.losses {
                losses.acknowledged(now_ns, before, acked, echo, round_trip_ns, history);
            }
            let mss = self.mss();
            if let Some(queue) = &mut self.queue {
                queue.advance(now_ns, acked - before, mss.into(), round_trip_ns);
            }
            self.line.acked = acked;
            if acked >= self.line.data && self.first_data_ns.is_some() {
                self.all_acked_ns.get_or_insert(now_ns);
            }
        }
        if let Some(window) = self.window.filter(|window| *window > 0) {
            let mss = u64::from(self.mss());
            if self.line.high.saturating_sub(self.acked) + mss > u64::from(window) {
                self.blocking_windows.add(u64::from(window).div_ceil(mss), 1);
            }
        }
        let is_pure = segment.payload_len == 0;
        let notice = DelayedAck {
            known_ns: now_ns.saturating_add(self.shift_ns),
            acked,
            window: answer.window,
            is_pure,
        };
        if self.shift_ns == 0 {
            self.pass(now_ns);
            self.process_ack(&notice);
        } else if self.delayed_acks.len() < DELAYED_ACKS_MAX {
            self.delayed_acks.push_back(notice);
        } else if let Some(last) = self.delayed_acks.back_mut() {
            *last = DelayedAck {
                known_ns: last.known_ns,
                acked: acked.max(last.acked),
                ..notice
            };
        }
        rtt_ns
    }

    fn note_window(&mut self, answer: &AckInfo<'_>, history: &mut EventLog) {
        let segment = answer.segment;
        let is_small = answer
            .window
            .is_some_and(|window| (1..self.mss()).contains(&window) && segment.window > 0);
        self.small_windows += u64::from(is_small && !segment.flags.has(TcpFlags::SYN.or(TcpFlags::RST)));
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

/// Beyond this number, round-trip times include queues.
const FEW_ROUND_TRIPS: u64 = 16;

/// Acknowledgements on their way to the sender that are kept; more are merged.
const DELAYED_ACKS_MAX: usize = 64;
