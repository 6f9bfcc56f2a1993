//! The same act for many names, on several threads.

use sockeye_act::netns::NetnsError;
use sockeye_console::notes;
use sockeye_console::progress::Progress;
use sockeye_sys::interrupts::Interrupts;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How it went.
#[derive(Debug)]
pub(super) struct Outcome {
    states: Vec<State>,
    failures: Vec<(usize, NetnsError)>,
    /// How many were done.
    pub(super) done: usize,
    /// What the acts counted.
    pub(super) noted: u64,
    /// The signal by which somebody ended it.
    interrupted: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NotTried,
    Done,
    Failed,
}

/// Acts on the places 0 to `count`, each by one of `threads` threads. `begin` is called on each thread first, and gives
/// what acts there; an act that went well may count something. After a failure nothing more is begun, unless
/// `keep_going`; after ^C or `SIGTERM` neither.
pub(super) fn run<A>(
    count: usize,
    threads: usize,
    keep_going: bool,
    what: &'static str,
    begin: impl Fn(usize) -> Result<A, NetnsError> + Sync,
) -> Outcome
where
    A: FnMut(usize) -> Result<u64, NetnsError>,
{
    let mut outcome = Outcome {
        states: vec![State::NotTried; count],
        failures: Vec::new(),
        done: 0,
        noted: 0,
        interrupted: None,
    };
    // Without it they end us at once; what is half done then, somebody puts right.
    let interrupts = Interrupts::catch().ok();
    let caught = || interrupts.and_then(|interrupts| interrupts.caught());
    let (next, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let work = |thread: usize| {
        let mut results = Vec::new();
        let mut act = begin(thread);
        while !stop.load(Ordering::Relaxed) && caught().is_none() {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                break;
            }
            let done = match &mut act {
                Ok(act) => act(place),
                Err(failure) => Err(failure.clone()),
            };
            if done.is_err() && !keep_going {
                stop.store(true, Ordering::Relaxed);
            }
            results.push((place, done));
            tried.fetch_add(1, Ordering::Relaxed);
        }
        results
    };
    let work = &work;
    std::thread::scope(|scope| {
        // Nothing is ever sent: it ends with the last thread. To be woken for each name would take a processor away
        // from those who work, twice a name.
        let (at_work, all_ended) = mpsc::channel::<Infallible>();
        let mut workers = Vec::new();
        for thread in 0..threads {
            let at_work = at_work.clone();
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
                let results = work(thread);
                drop(at_work);
                results
            });
            workers.extend(spawned);
        }
        drop(at_work);
        if workers.is_empty() {
            // Not even one thread is to be had: then here, where nothing else is to be done.
            outcome.note_all(work(0));
        }
        let mut progress = Progress::new(what, count);
        while let Err(RecvTimeoutError::Timeout) = all_ended.recv_timeout(LOOK_INTERVAL) {
            progress.reach(tried.load(Ordering::Relaxed));
        }
        for worker in workers {
            match worker.join() {
                Ok(results) => outcome.note_all(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    outcome.interrupted = caught();
    outcome.failures.sort_by_key(|(place, _)| *place);
    outcome
}

impl Outcome {
    fn note_all(&mut self, results: Vec<(usize, Result<u64, NetnsError>)>) {
        for (place, done) in results {
            self.note(place, done);
        }
    }

    fn note(&mut self, place: usize, done: Result<u64, NetnsError>) {
        let state = match done {
            Ok(noted) => {
                self.done += 1;
                self.noted += noted;
                State::Done
            }
            Err(failure) => {
                self.failures.push((place, failure));
                State::Failed
            }
        };
        self.states[place] = state;
    }

    /// Whether all was done.
    pub(super) fn is_whole(&self) -> bool {
        self.done == self.states.len()
    }

    /// What was done.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let all = self.states.iter().enumerate();
        all.filter(|(_, state)| **state == State::Done)
            .map(|(place, _)| place)
    }

    /// How many nobody tried, after a failure.
    pub(super) fn not_tried(&self) -> usize {
        self.states.len() - self.done - self.failures.len()
    }

    /// Says on stderr what failed, with the remedies.
    pub(super) fn tell_failures(&self, command: &str) {
        for (_, failure) in self.failures.iter().take(TOLD_MAX) {
            notes::say(&format!("sockeye: {command}: {:#}\n", explained(failure)));
        }
        let more = self.failures.len().saturating_sub(TOLD_MAX);
        if more > 0 {
            notes::say(&format!("sockeye: {command}: {more} more failed\n"));
        }
    }

    /// 0 if all was done; 128 and the number of the signal that ended it.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self.interrupted.and_then(|signal| u8::try_from(signal).ok()) {
            _ if self.is_whole() => ExitCode::SUCCESS,
            Some(signal) => ExitCode::from(signal.saturating_add(128)),
            None => ExitCode::FAILURE,
        }
    }
}

/// A failure with what may help.
pub(super) fn explained(failure: &NetnsError) -> anyhow::Error {
    match failure.remedy() {
        Some(remedy) => anyhow::anyhow!("cannot {failure}; {remedy}"),
        None => anyhow::anyhow!("cannot {failure}"),
    }
}

/// How many threads: as many as were asked for, else as there are processors; never more than there is work for.
pub(super) fn count(asked: Option<usize>, work: usize) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    asked.unwrap_or_else(processors).min(work).max(1)
}

/// The value of `-j`.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    let good = text
        .parse()
        .ok()
        .filter(|threads| (1..=THREADS_MAX).contains(threads));
    good.ok_or_else(|| format!("expected a whole number of 1 to {THREADS_MAX}"))
}

/// Of a thousand failures these are shown whole.
const TOLD_MAX: usize = 10;
const THREADS_MAX: usize = 1024;
/// How often somebody looks how far it has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
