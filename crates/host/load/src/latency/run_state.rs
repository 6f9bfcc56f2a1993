//! State that all connections of a run share, and the counts of each.

use super::exact_io::Failure;
use crate::transport::Transport;
use sockeye_measure::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of an answer.
    pub response: u32,
}

impl Transport {
    /// Returns the smallest size of a request or answer, in bytes.
    #[must_use]
    pub const fn size_min(self) -> u32 {
        match self {
            Self::Tcp => 1,
            Self::Udp => 8,
        }
    }

    /// Returns the largest size, in bytes.
    #[must_use]
    pub const fn size_max(self) -> u32 {
        match self {
            Self::Tcp => 1 << 30,
            // Largest payload of UDP over IPv4.
            Self::Udp => 65_507,
        }
    }
}

/// Start, end and progress of a run.
#[derive(Debug)]
pub(super) struct RunState {
    begun: Instant,
    /// `None`: until the count is reached, or it is stopped.
    length: Option<Duration>,
    /// Requests of each connection; `None` if they are not limited.
    shares: Option<Vec<u64>>,
    /// Time between two requests over all connections; `None`: closed loop.
    interval_ns: Option<f64>,
    /// Whether to poll for answers without sleeping.
    pub(super) busy_poll: bool,
    stopped: AtomicBool,
    /// Answers of each connection so far.
    answered: Vec<AtomicU64>,
}

impl RunState {
    /// Creates a run that begins at `begun`. `count` and `rate` (per second) are sums over all connections.
    pub(super) fn new(
        begun: Instant,
        connections: usize,
        length: Option<Duration>,
        count: Option<u64>,
        rate: Option<f64>,
        busy_poll: bool,
    ) -> Self {
        let each = connections.max(1) as u64;
        let share = |count: u64, index: u64| count / each + u64::from(index < count % each);
        Self {
            begun,
            length,
            shares: count.map(|count| (0..each).map(|index| share(count, index)).collect()),
            interval_ns: rate.map(|rate| 1e9 / rate),
            busy_poll,
            stopped: AtomicBool::new(false),
            answered: (0..each).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Ends the run early.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether the run was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns nanoseconds since the start; 0 before it.
    pub(super) fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Returns the answers over all connections so far.
    pub(super) fn answered(&self) -> u64 {
        let counts = self.answered.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn set_answered(&self, index: usize, answered: u64) {
        self.answered[index].store(answered, Ordering::Relaxed);
    }

    pub(super) fn length_ns(&self) -> u64 {
        self.length.map_or(u64::MAX, |length| length.as_nanos() as u64)
    }

    pub(super) fn share(&self, index: usize) -> u64 {
        self.shares.as_ref().map_or(u64::MAX, |shares| shares[index])
    }

    /// Returns when this connection shall send request `nth`; the connections take turns. `None` without a rate.
    pub(super) fn due_ns(&self, index: usize, nth: u64) -> Option<u64> {
        let turn = nth as f64 * self.answered.len() as f64 + index as f64;
        self.interval_ns.map(|interval| (turn * interval) as u64)
    }

    /// Returns the number of requests that this connection sends until the end.
    pub(super) fn due_total(&self, index: usize) -> u64 {
        self.due_until(index, self.length_ns()).min(self.share(index))
    }

    /// Returns the number of requests due before `until_ns`; unlimited without a rate or a time.
    pub(super) fn due_until(&self, index: usize, until_ns: u64) -> u64 {
        match self.interval_ns {
            Some(interval) if until_ns < u64::MAX => {
                let turns = until_ns as f64 / interval;
                ((turns - index as f64) / self.answered.len() as f64)
                    .ceil()
                    .max(0.0) as u64
            }
            _ => u64::MAX,
        }
    }

    /// Returns whether there are enough processors for threads to spin until their next request.
    pub(super) fn can_spin(&self) -> bool {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.answered.len() * 2 <= processors
    }
}

/// Counts of one connection; `Tally::merge` adds up several.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Time from when a request was sent, or was due, until its answer arrived.
    pub delays: Histogram,
    /// Times to connect; `None` with persistent connections.
    pub connects: Option<Histogram>,
    /// How late requests were sent although the socket was writable: the tester's own part in [`delays`](Self::delays).
    pub lateness: Option<Histogram>,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were due but not sent.
    pub unsent: u64,
    /// Requests without an answer.
    pub lost: u64,
    /// Unexpected answers: late or duplicate.
    pub strays: u64,
    /// Failed connections; 0 with persistent connections.
    pub failed: u64,
    /// Processor time of the thread.
    pub cpu: Duration,
    /// Time from the start to the last answer.
    pub(crate) elapsed: Duration,
    /// Why it ended early.
    pub(crate) failure: Option<Failure>,
}

impl Tally {
    /// Adds the counts of another connection. Keeps the first failure.
    pub(crate) fn merge(&mut self, other: Self) {
        self.delays.merge(&other.delays);
        for (mine, theirs) in [
            (&mut self.connects, other.connects),
            (&mut self.lateness, other.lateness),
        ] {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(&theirs);
            }
        }
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.lost += other.lost;
        self.strays += other.strays;
        self.failed += other.failed;
        self.cpu += other.cpu;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.failure = self.failure.or(other.failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_turns() {
        let begun = Instant::now();
        let run = RunState::new(begun, 3, Some(Duration::from_secs(1)), None, Some(10.0), false);
        let due: Vec<u64> = (0..3).filter_map(|index| run.due_ns(index, 1)).collect();
        assert_eq!(due, [300_000_000, 400_000_000, 500_000_000]);
        let all: Vec<u64> = (0..3).map(|index| run.due_total(index)).collect();
        assert_eq!(all, [4, 3, 3]);
        assert_eq!(run.share(0), u64::MAX);
    }

    #[test]
    fn count_is_divided_among_connections() {
        let run = RunState::new(Instant::now(), 3, None, Some(7), None, false);
        let shares: Vec<u64> = (0..3).map(|index| run.due_total(index)).collect();
        assert_eq!(shares, [3, 2, 2]);
        assert_eq!(run.due_ns(0, 1), None);
    }
}
