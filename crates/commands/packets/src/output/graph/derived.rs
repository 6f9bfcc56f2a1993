//! Series of the other panels, derived from the points: rates, round trip, receive window.

use super::view::DirectionView;

/// Throughput over a sliding window, in bits per second.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Length of the window, in nanoseconds.
    pub(super) window_ns: u64,
    /// Rate of data sent, retransmissions included: time in nanoseconds, rate.
    pub(super) sent: Vec<(u64, f64)>,
    /// Rate of data acknowledged: time in nanoseconds, rate.
    pub(super) acknowledged: Vec<(u64, f64)>,
}

impl Rates {
    /// Computes the rates of a direction, at up to 600 points.
    pub(super) fn of(direction: &DirectionView<'_>, time: (u64, u64)) -> Self {
        let span = time.1.saturating_sub(time.0);
        if span == 0 {
            return Self::default();
        }
        let step = (span / STEPS).max(1);
        // Less than a round trip would show each burst as a spike.
        let window = (span / WINDOWS)
            .max(round_trip(direction).saturating_mul(2).min(span / 4))
            .max(step);
        let sent = direction
            .side
            .segments
            .iter()
            .map(|segment| (segment.time_ns, segment.end.saturating_sub(segment.start)));
        let mut highest = direction.side.acks.first().map_or(0, |ack| ack.sequence);
        let acknowledged = direction.side.acks.iter().map(|ack| {
            let more = ack.sequence.saturating_sub(highest);
            highest = highest.max(ack.sequence);
            (ack.time_ns, more)
        });
        Self {
            window_ns: window,
            sent: slide(sent, time, step, window),
            acknowledged: slide(acknowledged, time, step, window),
        }
    }
}

/// Returns the median round trip, in nanoseconds; 0 if none was measured.
pub(super) fn round_trip(direction: &DirectionView<'_>) -> u64 {
    let mut times: Vec<_> = direction.side.rtt.iter().map(|point| point.1).collect();
    let middle = times.len() / 2;
    if times.is_empty() {
        return 0;
    }
    *times.select_nth_unstable(middle).1
}

/// Returns the rate in each window, in bits per second.
fn slide(
    bytes: impl Iterator<Item = (u64, u64)>,
    time: (u64, u64),
    step: u64,
    window: u64,
) -> Vec<(u64, f64)> {
    let steps = (time.1 - time.0).div_ceil(step) as usize;
    let mut slots = vec![0.0_f64; steps + 1];
    let mut any = false;
    for (moment, len) in bytes {
        let slot = (moment.saturating_sub(time.0) / step) as usize;
        if let Some(slot) = slots.get_mut(slot) {
            *slot += len as f64;
            any |= len > 0;
        }
    }
    if !any {
        return Vec::new();
    }
    let wide = (window / step) as usize;
    let mut sum = 0.0;
    let mut ended = time.0;
    (0..slots.len())
        .map(|nth| {
            sum += slots[nth];
            if nth >= wide {
                sum -= slots[nth - wide];
            }
            let ends = time
                .0
                .saturating_add(step.saturating_mul(nth as u64 + 1))
                .min(time.1);
            // At both ends, only a part of the window is within the connection.
            let begins = time
                .0
                .saturating_add(step.saturating_mul((nth + 1).saturating_sub(wide) as u64));
            let lasts = ends.saturating_sub(begins).max(step).max(window / 2);
            ended = ended.max(ends);
            (ended, sum.max(0.0) * 8e9 / lasts as f64)
        })
        .collect()
}

/// Returns the receive window at each announcement: the end of the window less what was acknowledged, in bytes.
pub(super) fn windows(direction: &DirectionView<'_>) -> Vec<(u64, u64)> {
    let mut acks = direction.side.acks.iter().peekable();
    let mut acknowledged = 0;
    direction
        .side
        .windows
        .iter()
        .map(|point| {
            while let Some(ack) = acks.next_if(|ack| ack.time_ns <= point.time_ns) {
                acknowledged = acknowledged.max(ack.sequence);
            }
            (point.time_ns, point.sequence.saturating_sub(acknowledged))
        })
        .collect()
}

/// Points of a rate.
const STEPS: u64 = 600;
/// Windows that the whole time has, if they are not longer for another reason.
const WINDOWS: u64 = 60;
