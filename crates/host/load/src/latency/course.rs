//! What all connections of a run have in common, and what each of them counts.

use super::whole::Failure;
use sockeye_measure::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many bytes there and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Of a request.
    pub request: u32,
    /// Of an answer.
    pub response: u32,
}

/// What carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Bytes in order: the first answer belongs to the first request.
    Tcp,
    /// Datagrams, whose first eight bytes are their number.
    Udp,
}

impl Transport {
    /// Its name in the protocol and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// The smallest request and answer.
    #[must_use]
    pub const fn size_min(self) -> u32 {
        match self {
            Self::Tcp => 1,
            Self::Udp => 8,
        }
    }

    /// The largest.
    #[must_use]
    pub const fn size_max(self) -> u32 {
        match self {
            Self::Tcp => 1 << 30,
            // What fits into a datagram of IPv4.
            Self::Udp => 65_507,
        }
    }
}

/// When a run began, when it is over, and who is how far.
#[derive(Debug)]
pub(super) struct Course {
    begun: Instant,
    /// None: by count, or until it is stopped.
    length: Option<Duration>,
    /// Each connection's share of the requests, if they are counted.
    shares: Option<Vec<u64>>,
    /// From one request to the next over all connections.
    interval_ns: Option<f64>,
    /// Whether an answer is looked for again and again, instead of asleep.
    pub(super) spins: bool,
    stopped: AtomicBool,
    /// Of each connection, for whoever watches.
    answered: Vec<AtomicU64>,
}

impl Course {
    /// One that begins at `begun`, over so many connections. `count` are requests in all, `rate` in all a second.
    #[must_use]
    pub(super) fn new(
        begun: Instant,
        connections: usize,
        length: Option<Duration>,
        count: Option<u64>,
        rate: Option<f64>,
        spins: bool,
    ) -> Self {
        let each = connections.max(1) as u64;
        let share = |count: u64, lane: u64| count / each + u64::from(lane < count % each);
        Self {
            begun,
            length,
            shares: count.map(|count| (0..each).map(|lane| share(count, lane)).collect()),
            interval_ns: rate.map(|rate| 1e9 / rate),
            spins,
            stopped: AtomicBool::new(false),
            answered: (0..each).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Ends it early.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was.
    #[must_use]
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Nanoseconds since it began.
    #[must_use]
    pub(super) fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Answers that have come over all connections so far.
    #[must_use]
    pub(super) fn answered(&self) -> u64 {
        let counts = self.answered.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn tell(&self, lane: usize, answered: u64) {
        self.answered[lane].store(answered, Ordering::Relaxed);
    }

    pub(super) fn length_ns(&self) -> u64 {
        self.length.map_or(u64::MAX, |length| length.as_nanos() as u64)
    }

    pub(super) fn share(&self, lane: usize) -> u64 {
        self.shares.as_ref().map_or(u64::MAX, |shares| shares[lane])
    }

    /// When this connection should send its `index`th; the connections take turns. None without a rate.
    pub(super) fn due_ns(&self, lane: usize, index: u64) -> Option<u64> {
        let turn = index as f64 * self.answered.len() as f64 + lane as f64;
        self.interval_ns.map(|interval| (turn * interval) as u64)
    }

    /// How many are due over this connection until the end.
    pub(super) fn due_in_all(&self, lane: usize) -> u64 {
        self.due_until(lane, self.length_ns()).min(self.share(lane))
    }

    /// How many are due before then; no end of them without a rate or a time.
    pub(super) fn due_until(&self, lane: usize, until_ns: u64) -> u64 {
        match self.interval_ns {
            Some(interval) if until_ns < u64::MAX => {
                let turns = until_ns as f64 / interval;
                ((turns - lane as f64) / self.answered.len() as f64)
                    .ceil()
                    .max(0.0) as u64
            }
            _ => u64::MAX,
        }
    }

    /// Whether there are so many processors that a thread may wait awake for its next turn.
    pub(super) fn has_room_to_spin(&self) -> bool {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.answered.len() * 2 <= processors
    }
}

/// What one connection counted; [`Tally::merge`] makes one of several.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// From when a request went out, or should have, until its answer was there.
    pub delays: Histogram,
    /// Until the connection stood, where there is one for each request.
    pub connects: Option<Histogram>,
    /// How late requests went out though nothing was in their way: the tester's own part in [`delays`](Self::delays).
    pub lateness: Option<Histogram>,
    /// Requests that went out.
    pub sent: u64,
    /// Requests that were due but never went out.
    pub unsent: u64,
    /// Requests that nobody answered.
    pub lost: u64,
    /// Answers to nothing that was waited for: late or twice.
    pub strays: u64,
    /// Connections that failed, where there is one for each request.
    pub failed: u64,
    /// Processor time that it took.
    pub cpu: Duration,
    /// Until its last answer.
    pub elapsed: Duration,
    /// What ended it before its time.
    pub failure: Option<Failure>,
}

impl Tally {
    /// Adds what another connection counted. The first failure stays.
    pub fn merge(&mut self, other: Self) {
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
        let course = Course::new(begun, 3, Some(Duration::from_secs(1)), None, Some(10.0), false);
        let due: Vec<u64> = (0..3).filter_map(|lane| course.due_ns(lane, 1)).collect();
        assert_eq!(due, [300_000_000, 400_000_000, 500_000_000]);
        let all: Vec<u64> = (0..3).map(|lane| course.due_in_all(lane)).collect();
        assert_eq!(all, [4, 3, 3]);
        assert_eq!(course.share(0), u64::MAX);
    }

    #[test]
    fn what_is_counted_is_shared_out() {
        let course = Course::new(Instant::now(), 3, None, Some(7), None, false);
        let shares: Vec<u64> = (0..3).map(|lane| course.due_in_all(lane)).collect();
        assert_eq!(shares, [3, 2, 2]);
        assert_eq!(course.due_ns(0, 1), None);
    }
}
