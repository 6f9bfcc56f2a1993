//! What waits for the collector: the last metrics, and log records within a bound.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Metrics,
    Logs,
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) signal: Signal,
    pub(super) body: Vec<u8>,
    /// Log records in it.
    pub(super) records: u64,
}

/// Requests between the thread that makes them and the one that sends them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    added: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    metrics: Option<Request>,
    logs: VecDeque<Request>,
    log_bytes: usize,
    /// Log records that found no place, or were refused.
    lost_records: u64,
    metrics_pause: Pause,
    logs_pause: Pause,
}

/// A time in which a signal is not sent, after a failure.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    /// Failures in a row.
    failed: u32,
}

impl Queue {
    /// Adds a request. Metrics replace those that wait: all of them count since the begin. Of log records those that find no place are
    /// lost, and counted.
    pub(super) fn add(&self, request: Request) {
        let mut waiting = self.lock();
        match request.signal {
            Signal::Metrics => waiting.metrics = Some(request),
            Signal::Logs if waiting.log_bytes + request.body.len() > LOG_BYTES_MAX => {
                waiting.lost_records += request.records;
            }
            Signal::Logs => {
                waiting.log_bytes += request.body.len();
                waiting.logs.push_back(request);
            }
        }
        drop(waiting);
        self.added.notify_one();
    }

    /// Waits for a request whose signal has no pause.
    pub(super) fn next(&self) -> Request {
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            if let Some(request) = waiting.take(now) {
                return request;
            }
            waiting = match waiting.due() {
                None => self.added.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let left = due.saturating_duration_since(now);
                    let waited = self.added.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Notes that a request was taken, all but so many of its log records.
    pub(super) fn taken(&self, request: &Request, rejected: u64) {
        let mut waiting = self.lock();
        waiting.lost_records += rejected.min(request.records);
        *waiting.pause(request.signal) = Pause::default();
    }

    /// Notes that a request will never be taken.
    pub(super) fn refused(&self, request: &Request) {
        let mut waiting = self.lock();
        waiting.lost_records += request.records;
        *waiting.pause(request.signal) = Pause::default();
    }

    /// Puts a request back, which is sent again when the collector has asked for, or after a while that grows with each failure.
    /// `random`: any number.
    pub(super) fn put_back(&self, request: Request, retry_after: Option<Duration>, random: u64) {
        let mut waiting = self.lock();
        let pause = waiting.pause(request.signal);
        let wait = match retry_after {
            Some(asked) => asked.min(RETRY_AFTER_MAX),
            None => backoff(pause.failed, random),
        };
        pause.until = Some(Instant::now() + wait);
        pause.failed = pause.failed.saturating_add(1);
        match request.signal {
            Signal::Metrics => {
                waiting.metrics.get_or_insert(request);
            }
            Signal::Logs => {
                waiting.log_bytes += request.body.len();
                waiting.logs.push_front(request);
            }
        }
    }

    /// Returns how many log records were lost.
    pub(super) fn lost_records(&self) -> u64 {
        self.lock().lost_records
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn pause(&mut self, signal: Signal) -> &mut Pause {
        match signal {
            Signal::Metrics => &mut self.metrics_pause,
            Signal::Logs => &mut self.logs_pause,
        }
    }

    fn take(&mut self, now: Instant) -> Option<Request> {
        let is_over = |pause: &Pause| pause.until.is_none_or(|until| until <= now);
        if is_over(&self.metrics_pause)
            && let Some(request) = self.metrics.take()
        {
            return Some(request);
        }
        if !is_over(&self.logs_pause) {
            return None;
        }
        let request = self.logs.pop_front()?;
        self.log_bytes -= request.body.len();
        Some(request)
    }

    /// Returns when the first pause ends of a signal that has a request.
    fn due(&self) -> Option<Instant> {
        let of_metrics = self.metrics_pause.until.filter(|_| self.metrics.is_some());
        let of_logs = self.logs_pause.until.filter(|_| !self.logs.is_empty());
        of_metrics.into_iter().chain(of_logs).min()
    }
}

/// Returns how long to wait after this many failures in a row: a second, doubled each time, at most a minute, and up to a quarter less, so
/// that hosts do not return at the same time.
fn backoff(failed: u32, random: u64) -> Duration {
    let whole_ms = (1_000 << failed.min(6)).min(60_000_u64);
    Duration::from_millis(whole_ms - random % (whole_ms / 4))
}

/// Bytes of log records that wait: some 20,000.
const LOG_BYTES_MAX: usize = 8 << 20;
/// The longest time that a collector can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(bytes: usize, records: u64) -> Request {
        Request {
            signal: Signal::Logs,
            body: vec![0; bytes],
            records,
        }
    }

    fn metrics(text: &str) -> Request {
        Request {
            signal: Signal::Metrics,
            body: text.as_bytes().to_vec(),
            records: 0,
        }
    }

    #[test]
    fn newer_metrics_replace_those_that_wait_and_log_records_do_not() {
        let queue = Queue::default();
        queue.add(logs(1, 1));
        queue.add(metrics("old"));
        queue.add(metrics("new"));
        queue.add(logs(2, 1));
        assert_eq!(queue.next(), metrics("new"));
        assert_eq!((queue.next(), queue.next()), (logs(1, 1), logs(2, 1)));
    }

    #[test]
    fn log_records_have_a_bound_and_losses_are_counted() {
        let queue = Queue::default();
        queue.add(logs(LOG_BYTES_MAX, 3));
        queue.add(logs(1, 2));
        assert_eq!(queue.lost_records(), 2);
        let first = queue.next();
        queue.taken(&first, 1);
        assert_eq!(queue.lost_records(), 3);
        queue.add(logs(1, 2));
        let second = queue.next();
        queue.refused(&second);
        assert_eq!(queue.lost_records(), 5);
    }

    #[test]
    fn failure_pauses_its_signal_alone() {
        let queue = Queue::default();
        queue.put_back(metrics("a"), Some(Duration::from_millis(200)), 0);
        queue.add(logs(1, 1));
        let begun = Instant::now();
        assert_eq!(queue.next(), logs(1, 1));
        // Newer ones do not end the pause.
        queue.add(metrics("b"));
        assert_eq!(queue.next(), metrics("b"));
        assert!(begun.elapsed() >= Duration::from_millis(150));
    }

    #[test]
    fn request_that_is_put_back_does_not_replace_a_newer_one() {
        let queue = Queue::default();
        queue.add(metrics("new"));
        queue.put_back(metrics("old"), Some(Duration::ZERO), 0);
        assert_eq!(queue.next(), metrics("new"));
    }

    #[test]
    fn waits_grow_to_a_minute() {
        let waits = [0, 1, 5, 6, 99].map(|failed| backoff(failed, 0).as_secs());
        assert_eq!(waits, [1, 2, 32, 60, 60]);
        assert_eq!(backoff(0, 249), Duration::from_millis(751));
    }
}
