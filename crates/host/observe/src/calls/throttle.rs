//! Limits how many calls are timed. The tracepoint at the entry of each call and two clock readings cost more than a short
//! call itself. So where a processor makes too many calls, they are only counted most of the time, and timed for a moment
//! twice a second.

use super::tracepoints::{ENTERED, attach};
use sockeye_sys::bpf::{Link, Program, Table};
use sockeye_wire::calls::Running;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that attaches and detaches the program that times calls. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct TimingThrottle {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TimingThrottle {
    /// Attaches the program and starts the thread.
    pub(super) fn start(entered: Program, running: Arc<Table>) -> Result<Self, String> {
        let link = attach(&entered, ENTERED.1)?;
        let (stop, stopped) = channel();
        let mut timer = Timer {
            entered,
            link: Some(link),
            running,
            untimed: 0,
        };
        let run = move || {
            let (mut calls, mut at) = (timer.calls(), Instant::now());
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(INTERVAL) {
                let (now, calls_now) = (Instant::now(), timer.calls());
                timer.update(busiest(&calls, &calls_now, now - at));
                (calls, at) = (calls_now, now);
            }
        };
        let thread = std::thread::Builder::new()
            .name("sockeye-timing".to_owned())
            .spawn(run)
            .map_err(|error| format!("start a thread: {error}"))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for TimingThrottle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
#[derive(Debug)]
struct Timer {
    entered: Program,
    /// `Some` while calls are timed.
    link: Option<Link>,
    running: Arc<Table>,
    /// Number of intervals since calls were last timed.
    untimed: u32,
}

impl Timer {
    /// Attaches or detaches the program by the rate of calls.
    fn update(&mut self, calls_per_s: f64) {
        if self.link.is_some() {
            if calls_per_s > CALLS_PER_S_MAX {
                self.link = None;
                self.untimed = 0;
            }
            return;
        }
        self.untimed += 1;
        if calls_per_s < CALLS_PER_S_MAX / 2.0 || self.untimed >= INTERVALS_UNTIMED {
            self.link = attach(&self.entered, ENTERED.1).ok();
        }
    }

    /// Returns how many calls have returned on each processor.
    fn calls(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.running.values_bytes()];
        if self.running.lookup(&[0; 4], &mut bytes).is_err() {
            return Vec::new();
        }
        bytes
            .chunks_exact(self.running.copy_bytes())
            .filter_map(Running::read)
            .map(|running| running.calls)
            .collect()
    }
}

/// Returns the calls per second on the processor with the most.
fn busiest(before: &[u64], after: &[u64], time: Duration) -> f64 {
    let most = before
        .iter()
        .zip(after)
        .map(|(before, after)| after.saturating_sub(*before))
        .max();
    most.unwrap_or(0) as f64 / time.as_secs_f64().max(1e-6)
}

/// Time between two decisions.
const INTERVAL: Duration = Duration::from_millis(10);

/// The rate per processor up to which all calls are timed: that takes about 5 % of a processor.
const CALLS_PER_S_MAX: f64 = 200_000.0;

/// Above that rate, this many intervals without timing follow one with it.
const INTERVALS_UNTIMED: u32 = 49;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_returns_highest_rate() {
        assert_eq!(busiest(&[1, 10], &[11, 12], Duration::from_secs(2)), 5.0);
        assert_eq!(busiest(&[], &[1], Duration::from_secs(1)), 0.0);
        assert_eq!(busiest(&[5], &[1], Duration::ZERO), 0.0);
    }
}
