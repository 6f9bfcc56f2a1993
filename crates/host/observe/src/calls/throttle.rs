//! How much is timed: a tracepoint at the beginning of each call, and two clocks, cost a program that does nothing but
//! calls more than its calls do. So where a processor makes too many, they are only counted most of the time, and timed
//! for a moment twice a second.

use super::load::{ENTERED, attach};
use sockeye_sys::bpf::{Link, Program, Table};
use sockeye_wire::calls::Running;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that attaches and detaches what times calls, until this is dropped.
#[derive(Debug)]
pub(super) struct Pace {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pace {
    /// Begins with calls timed.
    ///
    /// # Errors
    /// When that cannot be attached: why.
    pub(super) fn start(entered: Program, running: Arc<Table>) -> Result<Self, String> {
        let link = attach(&entered, ENTERED.1)?;
        let (stop, stopped) = channel();
        let mut timing = Timing {
            entered,
            link: Some(link),
            running,
            untimed: 0,
        };
        let turn = move || {
            let (mut calls, mut at) = (timing.calls(), Instant::now());
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TURN) {
                let (now, calls_now) = (Instant::now(), timing.calls());
                timing.turn(busiest(&calls, &calls_now, now - at));
                (calls, at) = (calls_now, now);
            }
        };
        let thread = std::thread::Builder::new()
            .name("sockeye-pace".to_owned())
            .spawn(turn)
            .map_err(|error| format!("start a thread: {error}"))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct Timing {
    entered: Program,
    /// While calls are timed.
    link: Option<Link>,
    running: Arc<Table>,
    /// For how many turns they were not.
    untimed: u32,
}

impl Timing {
    fn turn(&mut self, calls_per_s: f64) {
        if self.link.is_some() {
            if calls_per_s > CALLS_PER_S_MAX {
                self.link = None;
                self.untimed = 0;
            }
            return;
        }
        self.untimed += 1;
        if calls_per_s < CALLS_PER_S_MAX / 2.0 || self.untimed >= TURNS_UNTIMED {
            self.link = attach(&self.entered, ENTERED.1).ok();
        }
    }

    /// How many calls have returned on each processor.
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

/// How many calls a second returned on the processor with the most.
fn busiest(before: &[u64], after: &[u64], time: Duration) -> f64 {
    let most = before
        .iter()
        .zip(after)
        .map(|(before, after)| after.saturating_sub(*before))
        .max();
    most.unwrap_or(0) as f64 / time.as_secs_f64().max(1e-6)
}

const TURN: Duration = Duration::from_millis(10);

/// So many are timed: a twentieth of a processor goes into that.
const CALLS_PER_S_MAX: f64 = 200_000.0;

/// One turn of so many is timed, if there are more.
const TURNS_UNTIMED: u32 = 49;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_processor_counts() {
        assert_eq!(busiest(&[1, 10], &[11, 12], Duration::from_secs(2)), 5.0);
        assert_eq!(busiest(&[], &[1], Duration::from_secs(1)), 0.0);
        assert_eq!(busiest(&[5], &[1], Duration::ZERO), 0.0);
    }
}
