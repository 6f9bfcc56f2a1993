//! The summary of one direction at its end.

use super::Sender;
use crate::event_log::EventLog;
use crate::long_wait::is_long_wait;
use crate::{DelayVariation, EventKind, Flag, Limit, Opinions, Side, Verdict};

impl Sender {
    /// Ends the analysis of the direction.
    pub(crate) fn finish(&mut self, end_ns: u64, history: &mut EventLog) {
        self.process_acks_until(end_ns);
        self.pass(end_ns);
        self.note_refill(end_ns);
        let has_full_buffer = self
            .bursts
            .has_plateau(self.losses.as_ref().map_or(0, |losses| losses.episodes.count()));
        // The last data left the sender's program, but waited on the path for long.
        let is_queued = self.all_acked_ns.is_some_and(|acked_ns| {
            is_long_wait(
                acked_ns.saturating_sub(self.last_data_ns),
                self.shortest_ns().unwrap_or(0),
            )
        });
        self.has_full_buffer = has_full_buffer;
        self.waits.finish(has_full_buffer, is_queued);
        if let Some((since_ns, frame)) = self.window_closed.take() {
            let kind = EventKind::WindowClosed {
                duration_ns: history.now().0.saturating_sub(since_ns),
            };
            history.push_at(
                (since_ns, frame),
                false,
                kind,
                "zero window, until the end of the capture",
            );
        }
        if let Some(losses) = &mut self.losses {
            losses.finish(self.packets, self.data_packets, history);
        }
    }

    /// The results.
    pub(crate) fn side(&self) -> Side {
        let opinions = self
            .losses
            .as_ref()
            .map_or_else(Opinions::default, |losses| losses.opinions());
        let carried_data = self.first_data_ns.is_some();
        let shares = if carried_data {
            self.waits.spent()
        } else {
            crate::Shares::default()
        };
        let bytes = self
            .line
            .data
            .saturating_sub(1)
            .min(self.bytes_sent.max(1) - u64::from(self.bytes_sent == 0));
        Side {
            packets: self.packets,
            bytes,
            bytes_sent: self.bytes_sent,
            data_segments: self.data_segs,
            bound: self.bound.times(self.has_full_buffer),
            longest_segment: self.longest,
            flags: (self.flags.as_deref()).map_or([0; Flag::ALL.len()], |flags| flags.map(u64::from)),
            rtt: self.rtt.percentiles(),
            throughput_bit_per_s: self.rate_bit_per_s(bytes),
            in_flight_max_bytes: self.in_flight_max,
            shares,
            variation: DelayVariation {
                one_way: self.one_way.percentiles(),
                one_way_step_ns: self.one_way.mean_step_ns(),
                one_way_correlation_percent: self.one_way.correlation_percent(),
                flight_correlation_percent: self.correlation.percent(),
            },
            small_writes: self.small_writes,
            small_windows: self.small_windows,
            path_mtu: self.path_mtu,
            busy_ns: if carried_data { self.busy_ns } else { 0 },
            knows_losses: self.shift_ns == 0 || self.ids.is_per_connection(),
            verdict: self.verdict(carried_data, &shares, &opinions),
            opinions: Opinions {
                timeouts: self.timeouts,
                ..opinions
            },
            ..Side::default()
        }
    }

    /// Data by the time from its first byte to its last one; `None` if that is too little to be a rate.
    fn rate_bit_per_s(&self, bytes: u64) -> Option<u64> {
        // What still waits in a queue has not passed the path yet.
        let round_trip_ns = self.shortest_ns().unwrap_or(0);
        let passed_ns = self
            .all_acked_ns
            .filter(|acked_ns| is_long_wait(acked_ns.saturating_sub(self.last_data_ns), round_trip_ns))
            .map_or(0, |acked_ns| acked_ns.saturating_sub(round_trip_ns));
        let lasted_ns = self
            .last_data_ns
            .max(passed_ns)
            .saturating_sub(self.first_data_ns?);
        let is_rate = bytes >= RATE_BYTES_MIN && lasted_ns >= RATE_NS_MIN.max(self.round_trip_ns());
        let rate = || u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(lasted_ns)).ok();
        is_rate.then(rate).flatten()
    }

    pub(super) fn verdict(&self, carried_data: bool, shares: &crate::Shares, opinions: &Opinions) -> Verdict {
        if !carried_data {
            return Verdict::default();
        }
        // With a wider window it would have paced faster.
        let held_ns = |limit: Limit| match limit {
            Limit::ReceiverWindow => shares.of(limit) + self.pacing.shut_ns,
            Limit::CongestionWindow => shares.of(limit).saturating_sub(self.pacing.shut_ns),
            _ => shares.of(limit),
        };
        let most = Limit::ALL
            .into_iter()
            .max_by_key(|limit| (held_ns(*limit), std::cmp::Reverse(*limit)));
        let mss = u128::from(self.mss());
        // Windows grow most of the time: this matters only with a queue that overflows at the same length.
        let queue_segs = (self.queue.as_ref())
            .and_then(|queue| queue.length_segs(opinions.lost))
            .or_else(|| {
                let waits = self.queue.as_ref().is_some_and(|queue| queue.has_waits());
                self.bursts.queue().filter(|_| !waits)
            });
        // Large captured pieces reach a queue as bursts, which can overflow it before any wait is seen.
        let is_cut_up = u128::from(self.longest) > 2 * mss;
        let has_no_queue = !is_cut_up && self.queue.as_ref().is_some_and(|queue| queue.is_absent());
        let losses = self.losses.as_ref().filter(|_| queue_segs.is_some());
        let after_growth = losses.map_or(0, |losses| losses.episodes.lost_after_growth());
        let window = self.window_us.checked_div(u128::from(self.waited_us) * mss);
        Verdict {
            limit: most.filter(|_| shares.total() > 0),
            in_flight_segs: self
                .flights
                .percentile(50)
                .and_then(|segs| u32::try_from(segs).ok()),
            window_segs: window.and_then(|segs| u32::try_from(segs).ok()),
            lost_segs: opinions.lost,
            lost_after_growth_segs: after_growth.min(opinions.lost),
            queue_segs,
            has_no_queue: has_no_queue && queue_segs.is_none() && self.bursts.has_losses_at_any_position(),
            timeouts: self.timeouts,
        }
    }
}

/// Less data, or data within less time than this and a round trip, has no rate.
const RATE_BYTES_MIN: u64 = 10_000;
const RATE_NS_MIN: u64 = 1_000_000;
