//! What is kept of the past: samples of flows, findings, and the times between them of which nothing is known.
//!
//! Here it is memory of 15 minutes; `recorded` has what is older.

mod findings;
mod gap;
mod moment;
mod thinning;

pub(crate) use findings::{CheckMark, Checked};
pub(crate) use gap::Gap;
pub(crate) use moment::Moment;

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use thinning::{AGE_MAX, Kept};
use tokio::sync::watch;

/// The kept past. Readers copy references: none can hold up a sample.
#[derive(Debug)]
pub(crate) struct Moments {
    interval: Duration,
    begin: Instant,
    bytes_max: usize,
    past: RwLock<Past>,
    /// The number of samples so far, for those that wait for the next one.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Past {
    /// By time, the oldest first.
    moments: VecDeque<Arc<Moment>>,
    checks: VecDeque<Arc<Checked>>,
    gaps: VecDeque<Gap>,
    /// Since when no sample could be taken, in microseconds since 1970, and why.
    failing: Option<(u64, String)>,
}

impl Moments {
    /// Creates an empty past of samples that are taken so often, of so many bytes at most.
    pub(crate) fn new(interval: Duration, bytes_max: usize) -> Self {
        Self {
            interval,
            begin: Instant::now(),
            bytes_max,
            past: RwLock::default(),
            newest: watch::Sender::new(0),
        }
    }

    /// Adds a sample, and drops what is too old or too much.
    pub(crate) fn add(&self, moment: Moment) {
        let (sample, now) = (moment.sample.unwrap_or(0), moment.taken);
        self.change(|past| {
            past.add_gap_before(&moment, self.interval);
            past.moments.push_back(Arc::new(moment));
            let kept = past.moments.iter().map(|moment| Kept {
                age: now.duration_since(moment.taken),
                since_start: moment.taken.duration_since(self.begin),
                bytes: moment.bytes(),
            });
            let mut stays = thinning::choose(&kept.collect::<Vec<_>>(), self.bytes_max).into_iter();
            past.moments.retain(|_| stays.next().unwrap_or(false));
            past.forget_old();
        });
        self.newest.send_replace(sample);
    }

    /// Records that a sample could not be taken.
    pub(crate) fn fail(&self, time_us: u64, reason: &str) {
        self.change(|past| {
            let since = past.failing.take().map_or(time_us, |(since, _)| since);
            past.failing = Some((since, reason.to_owned()));
        });
    }

    /// Adds what a check found.
    pub(crate) fn add_checked(&self, checked: Checked) {
        self.change(|past| {
            past.checks.push_back(Arc::new(checked));
            if past.checks.len() > CHECKS_MAX {
                past.checks.pop_front();
            }
        });
    }

    /// Returns the last sample that is not after `time_us`, or the first of all; without a time the last of all.
    pub(crate) fn at(&self, time_us: Option<u64>) -> Option<Arc<Moment>> {
        let past = self.read();
        let until = match time_us {
            None => past.moments.len(),
            Some(time_us) => past.moments.partition_point(|moment| moment.time_us() <= time_us),
        };
        past.moments.get(until.saturating_sub(1)).cloned()
    }

    /// Returns the time of the oldest sample, in microseconds since 1970; `None`: there is none yet.
    pub(crate) fn first_us(&self) -> Option<u64> {
        self.read().moments.front().map(|moment| moment.time_us())
    }

    /// Returns the times of all samples, the oldest first.
    pub(crate) fn times_us(&self) -> Vec<u64> {
        self.read()
            .moments
            .iter()
            .map(|moment| moment.time_us())
            .collect()
    }

    /// Returns all samples, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Moment>> {
        self.read().moments.iter().cloned().collect()
    }

    /// Returns the last check that is not after `time_us`; without a time the last of all.
    pub(crate) fn checked_at(&self, time_us: Option<u64>) -> Option<Arc<Checked>> {
        let past = self.read();
        let mut checks = past.checks.iter().rev();
        checks
            .find(|checked| time_us.is_none_or(|time_us| checked.time_us <= time_us))
            .cloned()
    }

    /// Returns when all checks were made, the oldest first.
    pub(crate) fn check_marks(&self) -> Vec<CheckMark> {
        let past = self.read();
        past.checks
            .iter()
            .map(|checked| CheckMark::from(&**checked))
            .collect()
    }

    /// Returns the times without samples, the oldest first. One that has not ended reaches to `now_us`.
    pub(crate) fn gaps(&self, now_us: u64) -> Vec<Gap> {
        let past = self.read();
        let failing = past.failing.as_ref().map(|(since, reason)| Gap {
            from_us: *since,
            to_us: now_us.max(*since),
            reason: reason.clone(),
        });
        past.gaps.iter().cloned().chain(failing).collect()
    }

    /// Returns the time between samples.
    pub(crate) const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns what changes with each sample.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut Past)) {
        change(&mut self.past.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn read(&self) -> RwLockReadGuard<'_, Past> {
        self.past.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Past {
    /// Records why there is nothing between the last sample and this one. Times only grow: after the clock was set back, what is
    /// later than this sample is forgotten.
    fn add_gap_before(&mut self, moment: &Moment, interval: Duration) {
        let failing = self.failing.take();
        let Some(last) = self.moments.back().cloned() else {
            return;
        };
        let now_us = moment.time_us();
        let by_clock_us = now_us.cast_signed().wrapping_sub(last.time_us().cast_signed());
        let elapsed = moment.taken.duration_since(last.taken);
        let reason = failing
            .map(|(_, reason)| reason)
            .or_else(|| gap::reason(by_clock_us, elapsed, interval));
        self.moments.retain(|kept| kept.time_us() < now_us);
        self.checks.retain(|checked| checked.time_us <= now_us);
        self.gaps.retain(|gap| gap.to_us <= now_us);
        if let Some(reason) = reason {
            self.gaps.push_back(Gap {
                from_us: self.moments.back().map_or(now_us, |kept| kept.time_us()),
                to_us: now_us,
                reason,
            });
            if self.gaps.len() > GAPS_MAX {
                self.gaps.pop_front();
            }
        }
    }

    /// Forgets checks and gaps that are older than all samples may be.
    fn forget_old(&mut self) {
        let age_us = u64::try_from(AGE_MAX.as_micros()).unwrap_or(u64::MAX);
        let last_us = self.moments.back().map_or(0, |last| last.time_us());
        let oldest_us = last_us.saturating_sub(age_us);
        self.gaps.retain(|gap| gap.to_us >= oldest_us);
        self.checks.retain(|checked| checked.time_us >= oldest_us);
    }
}

/// Gaps that are kept.
const GAPS_MAX: usize = 100;
/// Checks that are kept: one every ten seconds.
const CHECKS_MAX: usize = 90;
