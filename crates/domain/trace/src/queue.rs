//! Waiting times on the path, and the length of the queue there.
//!
//! A queue that overflows is full whenever something is lost: segments sent just before have the longest
//! waits, and always about the same. On a path with random losses they have the usual waits. The distance
//! between acknowledgements shows how long each segment takes to leave the queue.

use crate::histogram::Histogram;

/// Round-trip times of one direction, in general and at losses.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Excess over the shortest round-trip time
    waited: Histogram,
    /// Excess of segments sent before a loss
    waited_at_loss: Histogram,
    /// The last two round-trip times
    recent_ns: [u64; 2],
    /// Time per segment where acknowledgements arrive back to back
    spacing: Histogram,
    spaced_ns: u64,
    spaced_bytes: u64,
}

impl Queue {
    /// Records a round-trip time, and the shortest one so far.
    pub(crate) fn add_round_trip(&mut self, round_trip_ns: u64, shortest_ns: u64) {
        self.waited.add(waiting(round_trip_ns, shortest_ns), 1);
        self.recent_ns = [self.recent_ns[1], round_trip_ns];
    }

    /// Records acknowledged bytes.
    pub(crate) fn advance(&mut self, now_ns: u64, bytes: u64, mss: u64, round_trip_ns: u64) {
        self.spaced_bytes = self.spaced_bytes.saturating_add(bytes);
        let since_ns = now_ns.saturating_sub(self.spaced_ns);
        if since_ns < (round_trip_ns / 8).max(AT_ONCE_NS) {
            return;
        }
        self.spaced_ns = now_ns;
        let bytes = std::mem::take(&mut self.spaced_bytes);
        let spacing_ns = u128::from(since_ns) * u128::from(mss) / u128::from(bytes.max(1));
        if since_ns < round_trip_ns && bytes >= mss {
            let segs = u32::try_from(bytes / mss).unwrap_or(u32::MAX);
            self.spacing.add(
                u64::try_from(spacing_ns).unwrap_or(u64::MAX).min(WAIT_NS_MAX),
                segs,
            );
        }
    }

    /// Records a loss behind the latest acknowledged segments.
    pub(crate) fn lose(&mut self, shortest_ns: u64) {
        // One acknowledgement may have been delayed, but rarely two.
        let recent_ns = self.recent_ns[0].min(self.recent_ns[1]);
        if recent_ns > 0 {
            self.waited_at_loss.add(waiting(recent_ns, shortest_ns), 1);
        }
    }

    /// Bounds of the queue's length in segments, if it overflows; `lost`: total of lost segments.
    pub(crate) fn length_segs(&self, lost: u64) -> Option<(u32, u32)> {
        let times = self.waited_at_loss.count();
        // A queue usually drops several segments at once.
        let is_one_short = times < TIMES_MIN;
        if is_one_short && (times < TIMES_MIN - 1 || lost < MANY_AT_ONCE * times) {
            return None;
        }
        let spacing_ns = self.spacing.percentile(50)?.max(1);
        let at_loss = |percent| self.waited_at_loss.percentile(percent);
        let (least_ns, low_ns, middle_ns) = (at_loss(10)?, at_loss(25)?, at_loss(50)?);
        let pace_ns = if is_one_short { 4 * PACE_NS } else { PACE_NS };
        let is_much = middle_ns >= spacing_ns.max(pace_ns);
        // Other work of the machines makes a wait longer, never shorter.
        let is_consistent = 2 * middle_ns <= 3 * (least_ns + spacing_ns);
        let is_all = middle_ns + middle_ns / 10 + spacing_ns * 3 / 4 >= self.waited.percentile(90)?;
        // Longer waits do not occur, except for delayed acknowledgements.
        let is_maximum = 4 * self.waited.percentile(98)? <= 7 * middle_ns + 4 * PACE_NS;
        // Most waits are shorter, unless the queue is always full.
        let is_above_usual = 20 * self.waited.percentile(50)? <= 19 * middle_ns;
        let is_tight = 5 * self.waited.percentile(99)? <= 8 * middle_ns;
        let high_ns = at_loss(75)?.min(middle_ns + middle_ns / 4);
        let segs = |ns: u64| {
            u32::try_from((ns + spacing_ns / 2) / spacing_ns)
                .unwrap_or(u32::MAX)
                .max(1)
        };
        (is_much && is_consistent && is_all && is_maximum && (is_above_usual || is_tight))
            .then(|| (segs(low_ns), segs(high_ns)))
    }

    /// Whether waits at losses were not longer than usual, often enough: no queue overflowed.
    pub(crate) fn is_absent(&self) -> bool {
        let waited = (self.waited_at_loss.percentile(50), self.waited.percentile(50));
        let (Some(at_loss_ns), Some(usually_ns)) = waited else {
            return false;
        };
        self.waited_at_loss.count() >= NO_QUEUE_TIMES_MIN
            && at_loss_ns <= usually_ns + usually_ns / 4 + PACE_NS / 4
    }

    /// Whether segments waited when others were lost: then the waits give the length.
    pub(crate) fn has_waits(&self) -> bool {
        self.waited_at_loss
            .percentile(50)
            .is_some_and(|waited_ns| waited_ns > 2 * PACE_NS)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.waited.heap_bytes()
            + self.waited_at_loss.heap_bytes()
            + self.spacing.heap_bytes()
    }
}

/// Excess of a round-trip time over the shortest.
fn waiting(round_trip_ns: u64, shortest_ns: u64) -> u64 {
    round_trip_ns.saturating_sub(shortest_ns).min(WAIT_NS_MAX)
}

/// A day. No queue is that long; wrong timestamps may say so.
const WAIT_NS_MAX: u64 = 86_400_000_000_000;

/// Acknowledgements closer than this are of segments that arrive at once.
const AT_ONCE_NS: u64 = 50_000;

/// Delays of this size occur without any queue.
const PACE_NS: u64 = 500_000;

/// Losses that an estimate requires; one less if more segments were lost each time.
const TIMES_MIN: u64 = 3;
const MANY_AT_ONCE: u64 = 4;

/// Losses required to say that there is no queue.
const NO_QUEUE_TIMES_MIN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of five that takes 4 ms for each; the path takes 30 ms without it. The flight grows until
    /// something is lost.
    fn queue_after(lost_at: impl Fn(u64) -> bool) -> Queue {
        let mut queue = Queue::default();
        let mut now_ns = 0;
        for turn in 0..40_u64 {
            for waiting in 0..=5 {
                now_ns += 4_000_000;
                let round_trip_ns = 30_000_000 + waiting * 4_000_000;
                queue.add_round_trip(round_trip_ns, 30_000_000);
                queue.advance(now_ns, 1_000, 1_000, round_trip_ns);
                if lost_at(turn * 6 + waiting) {
                    queue.lose(30_000_000);
                }
            }
        }
        queue
    }

    #[test]
    fn overflowing_queue_is_measured() {
        let queue = queue_after(|segment| segment % 6 == 5);
        let (least, most) = queue.length_segs(40).unwrap();
        assert!(
            (4..=5).contains(&least) && (4..=5).contains(&most),
            "{least} {most}"
        );
        assert!(!queue.is_absent());
    }

    #[test]
    fn random_loss_shows_no_queue() {
        let queue = queue_after(|segment| segment % 7 == 3);
        assert_eq!(queue.length_segs(40), None);
        assert!(queue.is_absent());
    }

    #[test]
    fn few_losses_give_no_estimate() {
        let queue = queue_after(|segment| segment == 5);
        assert_eq!((queue.length_segs(1), queue.is_absent()), (None, false));
    }
}
