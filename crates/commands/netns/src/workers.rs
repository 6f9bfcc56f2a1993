//! One action for many names, on several threads.

use sockeye_act::netns::NetnsError;
use sockeye_console::notes;
use sockeye_console::progress::Progress;
use sockeye_sys::interrupts::Interrupts;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The outcome of the action, for each name by its index.
#[derive(Debug)]
pub(crate) struct Outcome {
    states: Vec<State>,
    failures: Vec<(usize, NetnsError)>,
    /// Number of names for which the action succeeded.
    pub(crate) done: usize,
    /// Number of names for which the action replaced a leftover file.
    pub(crate) replaced_leftovers: usize,
    /// The signal that interrupted it; `None`: it was not interrupted.
    interrupted: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NotTried,
    Done,
    Failed,
}

/// Runs an action for each index below `count`, on `threads` threads. `begin` is called on each thread and returns its
/// action, which returns whether it replaced a leftover file. After SIGINT, SIGTERM or SIGHUP no further action is started, nor
/// after a failure unless `keep_going`.
pub(crate) fn run<A>(
    count: usize,
    threads: usize,
    keep_going: bool,
    what: &'static str,
    begin: impl Fn(usize) -> Result<A, NetnsError> + Sync,
) -> Outcome
where
    A: FnMut(usize) -> Result<bool, NetnsError>,
{
    let mut outcome = Outcome {
        states: vec![State::NotTried; count],
        failures: Vec::new(),
        done: 0,
        replaced_leftovers: 0,
        interrupted: None,
    };
    // Without it signals end the process at once, and the guard repairs what is unfinished.
    let interrupts = Interrupts::catch().ok();
    let caught = || interrupts.and_then(|interrupts| interrupts.caught());
    let (next, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let work = |thread: usize| {
        let mut results = Vec::new();
        let mut action = begin(thread);
        while !stop.load(Ordering::Relaxed) && caught().is_none() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let result = match &mut action {
                Ok(action) => action(index),
                Err(error) => Err(error.clone()),
            };
            if result.is_err() && !keep_going {
                stop.store(true, Ordering::Relaxed);
            }
            results.push((index, result));
            tried.fetch_add(1, Ordering::Relaxed);
        }
        results
    };
    let work = &work;
    std::thread::scope(|scope| {
        // Nothing is sent: the channel closes when the last thread ends. A message for each name would wake this thread
        // twice a name, and take a processor from the workers.
        let (running, all_ended) = mpsc::channel::<Infallible>();
        let mut workers = Vec::new();
        for thread in 0..threads {
            let running = running.clone();
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
                let results = work(thread);
                drop(running);
                results
            });
            workers.extend(spawned);
        }
        drop(running);
        if workers.is_empty() {
            // No thread can be started: this one has nothing else to do.
            outcome.record(work(0));
        }
        let mut progress = Progress::new(what, count);
        while let Err(RecvTimeoutError::Timeout) = all_ended.recv_timeout(PROGRESS_INTERVAL) {
            progress.reach(tried.load(Ordering::Relaxed));
        }
        for worker in workers {
            match worker.join() {
                Ok(results) => outcome.record(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    outcome.interrupted = caught();
    outcome.failures.sort_by_key(|(index, _)| *index);
    outcome
}

impl Outcome {
    fn record(&mut self, results: Vec<(usize, Result<bool, NetnsError>)>) {
        for (index, result) in results {
            self.states[index] = match result {
                Ok(replaced_leftover) => {
                    self.done += 1;
                    self.replaced_leftovers += usize::from(replaced_leftover);
                    State::Done
                }
                Err(error) => {
                    self.failures.push((index, error));
                    State::Failed
                }
            };
        }
    }

    /// Returns whether the action succeeded for all names.
    pub(crate) fn is_complete(&self) -> bool {
        self.done == self.states.len()
    }

    /// Returns the indices for which the action succeeded.
    pub(crate) fn done_indices(&self) -> impl Iterator<Item = usize> {
        let states = self.states.iter().enumerate();
        states
            .filter(|(_, state)| **state == State::Done)
            .map(|(index, _)| index)
    }

    /// Returns the number of names that were not tried, because of a failure or a signal.
    pub(crate) fn not_tried(&self) -> usize {
        self.states.len() - self.done - self.failures.len()
    }

    /// Prints the failures on stderr, with their remedies.
    pub(crate) fn print_failures(&self, command: &str) {
        for (_, error) in self.failures.iter().take(FAILURES_SHOWN_MAX) {
            notes::say(&format!("sockeye: {command}: {:#}\n", explained(error)));
        }
        let more = self.failures.len().saturating_sub(FAILURES_SHOWN_MAX);
        if more > 0 {
            notes::say(&format!("sockeye: {command}: {more} more failed\n"));
        }
    }

    /// Returns the exit status: 0 if complete, 128 + N after signal N, else 1.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.interrupted.and_then(|signal| u8::try_from(signal).ok()) {
            _ if self.is_complete() => ExitCode::SUCCESS,
            Some(signal) => ExitCode::from(signal.saturating_add(128)),
            None => ExitCode::FAILURE,
        }
    }
}

/// Converts an error, with its remedy.
pub(crate) fn explained(error: &NetnsError) -> anyhow::Error {
    match error.remedy() {
        Some(remedy) => anyhow::anyhow!("cannot {error}; {remedy}"),
        None => anyhow::anyhow!("cannot {error}"),
    }
}

/// Returns the number of threads: as requested, else the number of processors; at most one for each name.
pub(crate) fn thread_count(requested: Option<usize>, names: usize) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    requested.unwrap_or_else(processors).min(names).max(1)
}

const FAILURES_SHOWN_MAX: usize = 10;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
