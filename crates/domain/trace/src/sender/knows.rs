//! What a sender knows at each moment, and what it waits for then.

use super::{Notice, Recovery, Sender};
use crate::echo::is_far;
use crate::history::History;
use crate::repeats::Repeat;
use crate::waits::Looks;
use crate::{Confidence, EventKind, Limit};
use sockeye_wire::packet::{Segment, TcpFlags};

impl Sender {
    pub(super) fn note_new_data(&mut self, now_ns: u64, segment: &Segment) {
        if !self.is_set_up {
            return;
        }
        let mss = self.mss();
        // A buffer that has room again is filled at once; data that comes at other times comes from the application.
        let round_trip_ns = self.round_trip_ns();
        let soon_ns = (round_trip_ns / 8).clamp(SOON_NS.0, SOON_NS.1);
        let is_answer = now_ns.saturating_sub(self.last_ack_ns) <= soon_ns && self.ack_was_pure;
        let had_much = self.had_much;
        // Programs may write again when a third of the buffer is free; windows let a segment out for each that arrived.
        let flight = self.line.high.saturating_sub(self.acked);
        let has_room = self
            .window
            .is_some_and(|window| flight + u64::from(mss) <= u64::from(window));
        let is_by_itself = self.shift_ns == 0
            && now_ns.saturating_sub(self.last_ack_ns.max(self.opened_ns)) > PROMPT_NS
            && now_ns.saturating_sub(self.last_sent_ns) <= round_trip_ns / 2
            && has_room
            && flight > 0
            && segment.payload_len >= mss
            && !self.is_drained
            && self.recovery.is_none();
        self.paces.send(
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
            && !self.was_never_held(self.filled);
        // Whoever answers an acknowledgement at once with a whole segment had it ready: no program was waited for.
        let was_ready = is_answer && segment.payload_len >= mss;
        // From afar, what was sent at once may come a little later than the soonest.
        let was_on_its_way = !self.is_drained && now_ns.saturating_sub(self.last_ack_ns) <= self.shift_ns;
        if flight == 0 && (was_ready || was_on_its_way) {
            self.busy_ns += self.waits.was_on_its_way();
        }
        let is_level = is_answer && self.recovery.is_none() && self.is_level(now_ns, flight);
        if is_refill {
            self.note_refill();
        }
        self.waits.refill(
            if is_answer && had_much {
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
            } else if !is_answer && self.was_never_held(flight) {
                Some(Limit::Application)
            } else {
                Some(Limit::CongestionWindow)
            },
        );
        if is_refill {
            self.to_fill = Some(self.filled);
            self.filled = 0;
        }
        if segment.payload_len > 0 {
            self.is_pushed = segment.flags.has(TcpFlags::PSH);
            let flight = flight + u64::from(segment.payload_len);
            let room = self.window.map(|window| u64::from(window).saturating_sub(flight));
            // What ends at the window's end was cut there.
            self.is_drained = self.is_pushed && !segment.payload_len.is_multiple_of(mss) && room != Some(0);
            self.is_window_full = room.is_some_and(|room| room < u64::from(mss));
            self.sent_flight = u32::try_from(flight).unwrap_or(u32::MAX);
        }
        if segment.flags.has(TcpFlags::FIN) {
            (self.is_pushed, self.is_drained) = (true, true);
        }
    }

    /// Whether no congestion window made this pause: nothing was sent for long while less was acknowledged than a path does
    /// that is full; and what is in flight has not grown for some round trips, though congestion windows grow as long as
    /// nothing is lost.
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
            && !self.was_never_held(full);
        if is_level {
            self.bursts.stay();
        }
        is_level
    }

    /// Whether as much has come to be in flight again as before programs could write again, if that was so.
    pub(super) fn note_refill(&mut self) {
        let Some(full) = self.to_fill.take() else {
            return;
        };
        if 3 * self.filled >= 2 * full {
            self.bursts.refill(self.filled / u64::from(self.mss()));
            self.waits.refilled(Limit::SendBuffer);
        } else {
            self.waits.refilled(Limit::CongestionWindow);
        }
    }

    /// Whether no congestion window can have held this back: every stack may send so much (RFC 6928), nothing was lost,
    /// and nothing waits on the path.
    pub(super) fn was_never_held(&self, flight: u64) -> bool {
        let is_unhindered = self
            .rtt
            .min()
            .is_some_and(|min_ns| self.smooth_ns < min_ns + min_ns / 4);
        flight < FIRST_WINDOW * u64::from(self.mss()) && self.repeats.is_none() && is_unhindered
    }

    /// Whether a timer ran out after such a silence.
    pub(super) fn is_long(&self, quiet_ns: u64) -> bool {
        let round_trip_ns = self.round_trip_ns();
        quiet_ns >= PATIENCE_NS.max(round_trip_ns + round_trip_ns / 2)
    }

    /// Nothing came for long, then new data, and what was sent before it did not get here.
    pub(super) fn note_silence(&mut self, now_ns: u64, skipped: u16, history: &mut History) {
        let quiet_ns = now_ns.saturating_sub(self.last_sent_ns.max(self.last_ack_ns));
        if self.is_long(quiet_ns) && self.shift_ns > 0 && self.ids.is_own() && skipped <= SKIPPED_MAX {
            self.repeats_mut().lost_before(now_ns, skipped.into(), history);
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
        again: &Repeat<'_>,
        quiet_ns: u64,
        is_oldest: bool,
        history: &mut History,
    ) {
        let round_trip_ns = again.round_trip_ns;
        let is_probe = again.end == self.line.high && again.start > self.acked;
        if self.is_long(quiet_ns) && is_oldest && !is_probe {
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
            .repeats
            .as_ref()
            .is_some_and(|repeats| repeats.is_in_episode());
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
        self.repeats_mut()
            .lose(again.now_ns, again.segs, has_grown, until, history.now());
    }

    pub(super) fn times_out(
        &mut self,
        now_ns: u64,
        until: u64,
        evidence: &'static str,
        history: &mut History,
    ) {
        self.timeouts += 1;
        history.push(EventKind::Timeout, Confidence::Likely, evidence);
        if self.is_set_up {
            // It was waiting for what was lost before the capture.
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

    /// Takes in what has reached the sender by now.
    pub(super) fn learn_until(&mut self, now_ns: u64) {
        while let Some(notice) = self.on_their_way.front().copied() {
            if notice.known_ns > now_ns {
                return;
            }
            self.on_their_way.pop_front();
            self.pass(notice.known_ns);
            self.learn(&notice);
        }
    }

    pub(super) fn learn(&mut self, notice: &Notice) {
        if notice.window > self.window {
            self.opened_ns = notice.known_ns;
        }
        self.window = notice.window.or(self.window);
        if notice.acked <= self.acked {
            return;
        }
        self.had_much = self.line.high.saturating_sub(self.acked) >= 2 * u64::from(self.mss());
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

    /// Until now it waited for what it waited for.
    pub(super) fn pass(&mut self, now_ns: u64) {
        if now_ns <= self.waits.at_ns() {
            return;
        }
        let looks = self.looks();
        if looks == Looks::Like(Limit::ReceiverWindow) {
            let until_ns = now_ns.min(self.last_sent_ns.saturating_add(self.paces.pace_ns()));
            let paced_ns = self.waits.pass(until_ns, Looks::Like(Limit::CongestionWindow));
            self.paces.shut_ns += paced_ns;
            self.busy_ns += paced_ns;
        }
        let passed_ns = self.waits.pass(now_ns, looks);
        let passed_us = passed_ns / 1_000;
        let is_kept =
            matches!(looks, Looks::Like(limit) if !matches!(limit, Limit::Application | Limit::Setup));
        if self.is_set_up && self.line.data > self.acked || is_kept {
            self.busy_ns += passed_ns;
        }
        if matches!(looks, Looks::Like(Limit::CongestionWindow) | Looks::Pushed) && passed_us > 0 {
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

    pub(super) fn looks(&self) -> Looks {
        if !self.is_set_up {
            return Looks::Like(Limit::Setup);
        }
        let flight = self.line.high.saturating_sub(self.acked);
        let mss = u64::from(self.mss());
        // One that was sent up to its end waits until as much fits as is sent at once, or a third of it.
        let is_out_of_window = self.window.is_some_and(|window| {
            let at_once = if self.is_window_full {
                self.paces.train_bytes().min(u64::from(window / 3))
            } else {
                0
            };
            flight + at_once.max(mss) > u64::from(window)
        });
        if let Some(recovery) = self.recovery.filter(|recovery| !recovery.is_probe) {
            let is_shut = is_out_of_window && recovery.limit == Limit::FastRecovery && !self.is_drained;
            return Looks::Like(if is_shut {
                Limit::ReceiverWindow
            } else {
                recovery.limit
            });
        }
        match flight {
            0 if self.window == Some(0) => Looks::Like(Limit::ReceiverWindow),
            // Nobody sends less than a segment into a small window, while there is more to send.
            0 if is_out_of_window && !self.is_drained => Looks::Like(Limit::ReceiverWindow),
            // Stacks push the last of what they have: more is on its way here.
            0 if !self.is_pushed && self.line.data > 1 => Looks::Like(Limit::CongestionWindow),
            0 => Looks::Like(Limit::Application),
            // All that a connection may begin with is out: a wider window would not help.
            _ if self.acked <= 1 && flight >= FIRST_WINDOW * mss => Looks::Like(Limit::CongestionWindow),
            _ if is_out_of_window && self.is_drained => Looks::DrainedAndShut,
            _ if is_out_of_window => Looks::Like(Limit::ReceiverWindow),
            _ if self.is_drained => Looks::Drained,
            _ if self.is_pushed => Looks::Pushed,
            _ => Looks::Like(Limit::CongestionWindow),
        }
    }

    /// The capture is no farther from the sender than that.
    pub(super) fn look_from_afar(&mut self) {
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

/// Shortest silence that counts as waiting for a timer: Linux waits for 200 ms at least.
const PATIENCE_NS: u64 = 150_000_000;

/// Data so soon after an acknowledgement is sent because of it: at least, and at most.
const SOON_NS: (u64, u64) = (200_000, 3_000_000);

/// What an acknowledgement lets out goes out as soon as that.
const PROMPT_NS: u64 = 150_000;

/// So many round trips a congestion window does not stay the same.
const LEVEL_ROUNDS: u64 = 4;

/// Segments that a connection may begin with.
const FIRST_WINDOW: u64 = 10;

/// More skipped IP identifications are no losses.
const SKIPPED_MAX: u16 = 512;
