//! What waits on the path, and how much of it a queue there holds.
//!
//! A queue that overflows is full whenever something is lost: what was sent just before that waited as long as anything
//! ever does, and always about as long. Where a path loses packets by chance, what was sent before them waited as long as
//! usual. How long each segment takes to leave the queue is seen in how far apart acknowledgements arrive.

use crate::spread::Spread;

/// Round trips of one direction, and what they were when something was lost.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// How much longer than the shortest round trips were
    waited: Spread,
    /// The same of what was sent before something lost
    waited_at_loss: Spread,
    /// The last two round trips
    recent_ns: [u64; 2],
    /// Time for each segment where they arrive one behind the other
    spacing: Spread,
    spaced_ns: u64,
    spaced_bytes: u64,
}

impl Queue {
    /// A segment took so long to be acknowledged, and the shortest ever that long.
    pub(crate) fn took(&mut self, round_trip_ns: u64, shortest_ns: u64) {
        self.waited.add(waiting(round_trip_ns, shortest_ns), 1);
        self.recent_ns = [self.recent_ns[1], round_trip_ns];
    }

    /// So many bytes arrived.
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

    /// What was sent behind that was lost.
    pub(crate) fn lose(&mut self, shortest_ns: u64) {
        // An acknowledgement may have been delayed, but rarely two of them.
        let recent_ns = self.recent_ns[0].min(self.recent_ns[1]);
        if recent_ns > 0 {
            self.waited_at_loss.add(waiting(recent_ns, shortest_ns), 1);
        }
    }

    /// How many segments it holds, at least and at most, if it overflows; `lost` segments were lost in all.
    pub(crate) fn segs(&self, lost: u64) -> Option<(u32, u32)> {
        let times = self.waited_at_loss.count();
        // Queues lose several at once, mostly.
        let are_few = times < TIMES_MIN;
        if are_few && (times < TIMES_MIN - 1 || lost < MANY_AT_ONCE * times) {
            return None;
        }
        let spacing_ns = self.spacing.percentile(50)?.max(1);
        let at_loss = |percent| self.waited_at_loss.percentile(percent);
        let (least_ns, low_ns, middle_ns) = (at_loss(10)?, at_loss(25)?, at_loss(50)?);
        let pace_ns = if are_few { 4 * PACE_NS } else { PACE_NS };
        let is_much = middle_ns >= spacing_ns.max(pace_ns);
        // What else the machines do makes it more, but never less.
        let is_same = 2 * middle_ns <= 3 * (least_ns + spacing_ns);
        let is_all = middle_ns + middle_ns / 10 + spacing_ns * 3 / 4 >= self.waited.percentile(90)?;
        // More never waited, but for acknowledgements that were delayed.
        let is_end = 4 * self.waited.percentile(98)? <= 7 * middle_ns + 4 * PACE_NS;
        // And mostly less did, unless the queue is always full.
        let is_more = 20 * self.waited.percentile(50)? <= 19 * middle_ns;
        let is_tight = 5 * self.waited.percentile(99)? <= 8 * middle_ns;
        let high_ns = at_loss(75)?.min(middle_ns + middle_ns / 4);
        let segs = |ns: u64| {
            u32::try_from((ns + spacing_ns / 2) / spacing_ns)
                .unwrap_or(u32::MAX)
                .max(1)
        };
        (is_much && is_same && is_all && is_end && (is_more || is_tight))
            .then(|| (segs(low_ns), segs(high_ns)))
    }

    /// Whether no more than usual waited when things were lost, often enough: no queue overflowed.
    pub(crate) fn is_none(&self) -> bool {
        let waited = (self.waited_at_loss.percentile(50), self.waited.percentile(50));
        let (Some(at_loss_ns), Some(usually_ns)) = waited else {
            return false;
        };
        self.waited_at_loss.count() >= TIMES_TELLING
            && at_loss_ns <= usually_ns + usually_ns / 4 + PACE_NS / 4
    }

    /// Whether something waited when things were lost: then only that tells how much.
    pub(crate) fn waits(&self) -> bool {
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

/// What of a round trip was waiting.
fn waiting(round_trip_ns: u64, shortest_ns: u64) -> u64 {
    round_trip_ns.saturating_sub(shortest_ns).min(WAIT_NS_MAX)
}

/// A day: no queue holds anything that long; captures may say so.
const WAIT_NS_MAX: u64 = 86_400_000_000_000;

/// Acknowledgements of segments that arrive at once come no farther apart.
const AT_ONCE_NS: u64 = 50_000;

/// Machines take so much longer at times, without any queue.
const PACE_NS: u64 = 500_000;

/// Times of losses that are needed for an opinion; one less will do if more were lost each time.
const TIMES_MIN: u64 = 3;
const MANY_AT_ONCE: u64 = 4;

/// To say that there is no queue takes more of them.
const TIMES_TELLING: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of five that takes 4 ms for each; the path takes 30 ms without it. In flight is more and more, until
    /// something is lost.
    fn told(lost_at: impl Fn(u64) -> bool) -> Queue {
        let mut queue = Queue::default();
        let mut now_ns = 0;
        for turn in 0..40_u64 {
            for waiting in 0..=5 {
                now_ns += 4_000_000;
                let round_trip_ns = 30_000_000 + waiting * 4_000_000;
                queue.took(round_trip_ns, 30_000_000);
                queue.advance(now_ns, 1_000, 1_000, round_trip_ns);
                if lost_at(turn * 6 + waiting) {
                    queue.lose(30_000_000);
                }
            }
        }
        queue
    }

    #[test]
    fn full_whenever_something_is_lost() {
        let queue = told(|segment| segment % 6 == 5);
        let (least, most) = queue.segs(40).unwrap();
        assert!(
            (4..=5).contains(&least) && (4..=5).contains(&most),
            "{least} {most}"
        );
        assert!(!queue.is_none());
    }

    #[test]
    fn lost_by_chance() {
        let queue = told(|segment| segment % 7 == 3);
        assert_eq!(queue.segs(40), None);
        assert!(queue.is_none());
    }

    #[test]
    fn too_few_to_tell() {
        let queue = told(|segment| segment == 5);
        assert_eq!((queue.segs(1), queue.is_none()), (None, false));
    }
}
