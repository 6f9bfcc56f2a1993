//! The sender's view at each moment, and what it waits for.

use super::{DelayedAck, Recovery, RepeatedAcks, SOON_NS, Sender};
use crate::event_log::EventLog;
use crate::loss_tracker::Retransmission;
use crate::timestamp_echo::is_far;
use crate::wait_times::ApparentCause;
use crate::{Confidence, EventKind, Limit};
use sockeye_wire::packet::{Segment, TcpFlags};

impl Sender {
    pub(super) fn note_new_data(&mut self, now_ns: u64, segment: &Segment) {
        if !self.is_set_up {
            return;
        }
        let mss = self.mss();
        // A buffer with free space is refilled at once; data at other times comes from the application.
        let round_trip_ns = self.round_trip_ns();
        let soon_ns = (round_trip_ns / 8).clamp(SOON_NS.0, SOON_NS.1);
        let is_answer = now_ns.saturating_sub(self.last_ack_ns) <= soon_ns && self.ack_was_pure;
        let had_several_in_flight = self.had_several_in_flight;
        self.note_small_write(segment, is_answer, mss);
        // Programs may write again when a third of the buffer is free; windows release one segment per
        // acknowledged one.
        let flight = self.line.high.saturating_sub(self.acked);
        let has_room = self
            .window
            .is_some_and(|window| flight + u64::from(mss) <= u64::from(window));
        let is_by_itself = self.shift_ns == 0
            && now_ns.saturating_sub(self.last_ack_ns.max(self.window_grew_ns)) > PROMPT_NS
            && now_ns.saturating_sub(self.last_sent_ns) <= round_trip_ns / 2
            && has_room
            && flight > 0
            && segment.payload_len >= mss
            && !self.is_drained
            && self.recovery.is_none();
        self.pacing.send(
            now_ns.saturating_sub(self.last_sent_ns),
            segment.payload_len,
            is_by_itself,
        );
        let is_refill = is_answer
            && 4 * flight <= 3 * self.filled
            && self.bursts.is_full(self.filled / u64::from(mss))
            && self
                .window
                .is_none_or(|window| 4 * u64::from(window) >= 5 * self.filled)
            && !self.cannot_be_congestion_limited(self.filled);
        // A full segment right after an acknowledgement was ready before: the program did not delay it.
        let was_ready = is_answer && segment.payload_len >= mss;
        // Captured far from the sender, data sent at once may arrive a little late.
        let was_on_its_way = !self.is_drained && now_ns.saturating_sub(self.last_ack_ns) <= self.shift_ns;
        if flight == 0 && (was_ready || was_on_its_way) {
            self.busy_ns += self.waits.was_in_transit();
        }
        let is_level = is_answer && self.recovery.is_none() && self.is_level(now_ns, flight);
        if is_refill {
            self.note_refill(now_ns);
        }
        self.waits.refill(
            if is_answer && had_several_in_flight {
                Limit::SendBuffer
            } else if was_ready {
                Limit::CongestionWindow
            } else {
                Limit::Application
            },
            if is_level {
                Some(Limit::SendBuffer)
            } else if is_refill {
                None
            } else if !is_answer && self.cannot_be_congestion_limited(flight) {
                Some(Limit::Application)
            } else {
                Some(Limit::CongestionWindow)
            },
        );
        if is_refill {
            self.to_fill = Some((self.filled, now_ns));
            self.filled = 0;
        }
        if segment.payload_len > 0 {
            self.is_pushed = segment.flags.has(TcpFlags::PSH);
            let flight = flight + u64::from(segment.payload_len);
            let room = self.window.map(|window| u64::from(window).saturating_sub(flight));
            // A segment that ends at the window's end was cut there.
            self.is_drained = self.is_pushed && !segment.payload_len.is_multiple_of(mss) && room != Some(0);
            self.is_window_full = room.is_some_and(|room| room < u64::from(mss));
            self.sent_flight = u32::try_from(flight).unwrap_or(u32::MAX);
        }
        if segment.flags.has(TcpFlags::FIN) {
            (self.is_pushed, self.is_drained) = (true, true);
        }
    }

    /// Whether the congestion window did not cause this pause: nothing was sent for long although little was
    /// acknowledged, and the flight has not grown for some round trips, although congestion windows grow
    /// without losses.
    fn is_level(&mut self, now_ns: u64, flight: u64) -> bool {
        let (full, mss) = (u64::from(self.sent_flight), u64::from(self.mss()));
        let (paused_ns, round_trip_ns) = (now_ns.saturating_sub(self.last_sent_ns), self.round_trip_ns());
        let sunk = u128::from(full.saturating_sub(flight));
        let is_still = paused_ns >= round_trip_ns / 4
            && u128::from(paused_ns) * u128::from(full) >= 2 * sunk * u128::from(round_trip_ns);
        let has_room = self.window.is_none_or(|window| 4 * u64::from(window) >= 5 * full);
        let is_level = is_still
            && has_room
            && full >= FIRST_WINDOW * mss
            && self
                .bursts
                .is_level(now_ns, full / mss, LEVEL_ROUNDS * round_trip_ns)
            && !self.cannot_be_congestion_limited(full);
        if is_level {
            self.bursts.note_long_pause();
        }
        is_level
    }

    /// Whether the flight is again as large as before programs could write again.
    pub(super) fn note_refill(&mut self, now_ns: u64) {
        let Some((full, since_ns)) = self.to_fill.take() else {
            return;
        };
        if 3 * self.filled >= 2 * full {
            self.bursts.refill(self.filled / u64::from(self.mss()));
            self.waits.refilled(Limit::SendBuffer);
            self.bound.cycle_buffer(now_ns.saturating_sub(since_ns));
        } else {
            self.waits.refilled(Limit::CongestionWindow);
        }
    }

    /// Whether the congestion window cannot have limited the sender: every stack may send this much (RFC
    /// 6928), nothing was lost, and nothing waits on the path.
    pub(super) fn cannot_be_congestion_limited(&self, flight: u64) -> bool {
        let is_below_initial_window = self
            .rtt
            .min()
            .is_some_and(|min_ns| self.smooth_ns < min_ns + min_ns / 4);
        flight < FIRST_WINDOW * u64::from(self.mss()) && self.losses.is_none() && is_below_initial_window
    }

    /// Whether such a silence is long enough for a timeout.
    pub(super) fn is_long(&self, quiet_ns: u64) -> bool {
        let round_trip_ns = self.round_trip_ns();
        quiet_ns >= TIMEOUT_NS_MIN.max(round_trip_ns + round_trip_ns / 2)
    }

    /// New data after a long silence, while earlier data did not reach the capture.
    pub(super) fn note_silence(
        &mut self,
        now_ns: u64,
        skipped: u16,
        continues: bool,
        history: &mut EventLog,
    ) {
        let quiet_ns = now_ns.saturating_sub(self.last_sent_ns.max(self.last_ack_ns));
        // A program that pauses rarely ends its write with a full segment, and then its connection's packets only would be
        // counted without a gap.
        let is_torn = continues
            && self.last_len > 0
            && self.last_len.is_multiple_of(self.mss())
            && self.ids.is_in_turn()
            && skipped <= TORN_MAX;
        if self.is_long(quiet_ns)
            && self.shift_ns > 0
            && (self.ids.is_per_connection() || is_torn)
            && skipped <= SKIPPED_MAX
        {
            self.losses_mut().lost_before(now_ns, skipped.into(), history);
            self.times_out(
                now_ns,
                self.line.high,
                "silence, and IP identifications missing",
                history,
            );
        }
    }

    pub(super) fn note_loss(
        &mut self,
        again: &Retransmission<'_>,
        quiet_ns: u64,
        is_oldest: bool,
        history: &mut EventLog,
    ) {
        let round_trip_ns = again.round_trip_ns;
        let is_probe = again.end == self.line.high && again.start > self.acked;
        if self.is_long(quiet_ns) && is_oldest && !is_probe && !self.answers_repeated_acks(again.now_ns) {
            self.times_out(
                again.now_ns,
                again.end,
                "the oldest segment was sent again after a long silence",
                history,
            );
        } else if self.recovery.is_none() {
            self.recovery = Some(Recovery {
                until: self.line.high,
                limit: Limit::FastRecovery,
                is_probe,
            });
        } else if let Some(recovery) = &mut self.recovery {
            recovery.is_probe &= is_probe;
        }
        let is_one_of_many = self
            .losses
            .as_ref()
            .is_some_and(|losses| losses.episodes.is_running());
        let original = again.original.as_ref();
        if let Some(queue) = self
            .queue
            .as_mut()
            .filter(|_| !is_one_of_many && original.is_some())
        {
            queue.lose(self.rtt.min().unwrap_or(round_trip_ns));
        }
        let has_grown =
            original.is_some_and(|original| self.bursts.lose(original, round_trip_ns, is_one_of_many));
        let until = self.line.high;
        let episodes = &mut self.losses_mut().episodes;
        episodes.lose(again.now_ns, again.segs, has_grown, until, history.now());
    }

    /// Whether the receiver has just reported that something is missing: by later data (SACK), or by three duplicate
    /// acknowledgements (RFC 5681).
    fn answers_repeated_acks(&self, now_ns: u64) -> bool {
        let RepeatedAcks {
            count,
            last_ns,
            has_sack,
        } = self.repeated_acks;
        let soon_ns = self
            .shift_ns
            .saturating_add((self.round_trip_ns() / 4).max(ANSWER_NS_MIN));
        (count >= DUPLICATE_ACKS || has_sack && count > 0) && now_ns.saturating_sub(last_ns) <= soon_ns
    }

    /// Counts a small segment that was kept until the one before it was acknowledged, which took long.
    fn note_small_write(&mut self, segment: &Segment, is_answer: bool, mss: u32) {
        let is_small = |len: u32| len > 0 && len < mss;
        if is_answer
            && is_small(segment.payload_len)
            && is_small(self.last_len)
            && self.line.high == self.acked
            && (DELAYED_ACK_NS.0..=DELAYED_ACK_NS.1).contains(&self.ack_delay_ns)
        {
            self.small_writes.count += 1;
            self.small_writes.waited_ns += self.ack_delay_ns;
        }
    }

    pub(super) fn times_out(
        &mut self,
        now_ns: u64,
        until: u64,
        evidence: &'static str,
        history: &mut EventLog,
    ) {
        self.timeouts += 1;
        history.push(EventKind::Timeout, Confidence::Likely, evidence);
        if self.is_set_up {
            // It was waiting for data lost before the capture point.
            self.busy_ns += self.waits.timeout();
            self.bursts.recovered(1);
            self.recovery = Some(Recovery {
                until,
                limit: Limit::Timeout,
                is_probe: false,
            });
        }
        self.last_sent_ns = now_ns;
    }

    /// Processes all acknowledgements that have reached the sender by now.
    pub(super) fn process_acks_until(&mut self, now_ns: u64) {
        while let Some(notice) = self.delayed_acks.front().copied() {
            if notice.known_ns > now_ns {
                return;
            }
            self.delayed_acks.pop_front();
            self.pass(notice.known_ns);
            self.process_ack(&notice);
        }
    }

    pub(super) fn process_ack(&mut self, notice: &DelayedAck) {
        if notice.window > self.window {
            self.window_grew_ns = notice.known_ns;
        }
        self.window = notice.window.or(self.window);
        if notice.acked <= self.acked {
            return;
        }
        self.bound
            .acknowledge(notice.known_ns, notice.acked, self.line.high, notice.window);
        self.had_several_in_flight = self.line.high.saturating_sub(self.acked) >= 2 * u64::from(self.mss());
        self.acked = notice.acked;
        self.last_ack_ns = notice.known_ns;
        self.ack_was_pure = notice.is_pure;
        self.waits.progress();
        if let Some(recovery) = self.recovery
            && self.acked >= recovery.until
        {
            self.recovery = None;
            self.bursts
                .recovered(self.line.high.saturating_sub(self.acked) / u64::from(self.mss()));
        }
    }

    /// Accounts for the time until now.
    pub(super) fn pass(&mut self, now_ns: u64) {
        if now_ns <= self.waits.at_ns() {
            return;
        }
        let looks = self.apparent_cause();
        if looks == ApparentCause::Like(Limit::ReceiverWindow) {
            let until_ns = now_ns.min(self.last_sent_ns.saturating_add(self.pacing.pace_ns()));
            let paced_ns = self
                .waits
                .pass(until_ns, ApparentCause::Like(Limit::CongestionWindow));
            self.pacing.shut_ns += paced_ns;
            self.busy_ns += paced_ns;
        }
        let passed_ns = self.waits.pass(now_ns, looks);
        if looks == ApparentCause::Like(Limit::ReceiverWindow) {
            self.bound.wait_for_window(passed_ns);
        }
        let passed_us = passed_ns / 1_000;
        let is_kept = matches!(looks, ApparentCause::Like(limit) if !matches!(limit, Limit::Application | Limit::Setup));
        if self.is_set_up && self.line.data > self.acked || is_kept {
            self.busy_ns += passed_ns;
        }
        if matches!(
            looks,
            ApparentCause::Like(Limit::CongestionWindow) | ApparentCause::Pushed
        ) && passed_us > 0
        {
            let mss = u64::from(self.mss());
            let flight = self.line.high.saturating_sub(self.acked);
            self.flights
                .add(flight.div_ceil(mss), u32::try_from(passed_us).unwrap_or(u32::MAX));
            if let Some(window) = self.window {
                self.window_us += u128::from(window) * u128::from(passed_us);
                self.waited_us += passed_us;
            }
        }
    }

    pub(super) fn apparent_cause(&self) -> ApparentCause {
        if !self.is_set_up {
            return ApparentCause::Like(Limit::Setup);
        }
        let flight = self.line.high.saturating_sub(self.acked);
        let mss = u64::from(self.mss());
        // After a transmission up to the window's end, the sender waits until the size of its last burst
        // fits, or a third of the window.
        let is_out_of_window = self.window.is_some_and(|window| {
            let at_once = if self.is_window_full {
                self.pacing.train_bytes().min(u64::from(window / 3))
            } else {
                0
            };
            flight + at_once.max(mss) > u64::from(window)
        });
        if let Some(recovery) = self.recovery.filter(|recovery| !recovery.is_probe) {
            let is_shut = is_out_of_window && recovery.limit == Limit::FastRecovery && !self.is_drained;
            return ApparentCause::Like(if is_shut {
                Limit::ReceiverWindow
            } else {
                recovery.limit
            });
        }
        match flight {
            0 if self.window == Some(0) => ApparentCause::Like(Limit::ReceiverWindow),
            // Senders do not send less than a segment into a small window while they have more data.
            0 if is_out_of_window && !self.is_drained => ApparentCause::Like(Limit::ReceiverWindow),
            // Stacks push the last segment of a buffer: more data is on its way to the capture.
            0 if !self.is_pushed && self.line.data > 1 => ApparentCause::Like(Limit::CongestionWindow),
            0 => ApparentCause::Like(Limit::Application),
            // The initial window is used up: a wider receive window would not help.
            _ if self.acked <= 1 && flight >= FIRST_WINDOW * mss => {
                ApparentCause::Like(Limit::CongestionWindow)
            }
            _ if is_out_of_window && self.is_drained => ApparentCause::DrainedAndShut,
            _ if is_out_of_window => ApparentCause::Like(Limit::ReceiverWindow),
            _ if self.is_drained => ApparentCause::Drained,
            _ if self.is_pushed => ApparentCause::Pushed,
            _ => ApparentCause::Like(Limit::CongestionWindow),
        }
    }

    /// Sets an upper bound of the distance between capture and sender.
    pub(super) fn limit_distance(&mut self) {
        let (Some(present_ns), Some(receiver_ns)) = (self.echo.present_ns, self.rtt.min()) else {
            return;
        };
        self.shift_ns = if is_far(present_ns, receiver_ns) {
            present_ns
        } else {
            0
        };
    }
}

/// Duplicate acknowledgements after which a segment is sent again (RFC 5681).
const DUPLICATE_ACKS: u32 = 3;

/// Time for answers to duplicate acknowledgements: timers of reordering (RFC 8985) and of interrupts.
const ANSWER_NS_MIN: u64 = 10_000_000;

/// Delays of acknowledgements on purpose: 40 ms in Linux, 200 ms in others, and at most 500 ms (RFC 1122).
const DELAYED_ACK_NS: (u64, u64) = (30_000_000, 520_000_000);

/// Shortest silence that counts as waiting for a timer: Linux waits for at least 200 ms.
const TIMEOUT_NS_MIN: u64 = 150_000_000;

/// Data released by an acknowledgement is sent within this time.
const PROMPT_NS: u64 = 150_000;

/// Round trips after which a congestion window should have changed.
const LEVEL_ROUNDS: u64 = 4;

/// Segments that a connection may begin with.
const FIRST_WINDOW: u64 = 10;

/// The end of a burst that is lost rarely has more segments.
const TORN_MAX: u16 = 32;

/// A larger gap of IP identifications is no loss.
const SKIPPED_MAX: u16 = 512;
