//! The program in many namespaces, several at the same time.

use super::job::Job;
use super::outcome::{Ending, Outcome};
use super::report::Report;
use crate::args::TextFormat;
use anyhow::{Context, bail};
use rustix::process::{Resource, getrlimit};
use sockeye_act::program::Program;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::NetnsName;
use sockeye_sys::interrupts::Interrupts;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread::Builder;

/// A program to run in many namespaces.
#[derive(Debug)]
pub(super) struct Many<'a> {
    pub(super) names: &'a [NetnsName],
    pub(super) program: &'a Program<'a>,
    /// Whether the user named one namespace: its program reads our stdin.
    pub(super) is_one: bool,
    /// Most programs at the same time; `None`: twice the number of processors.
    pub(super) jobs: Option<u64>,
    pub(super) format: TextFormat,
}

impl Many<'_> {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let interrupts = Interrupts::catch().context("catch signals")?;
        let jobs = self.jobs();
        let report = Report::begin(self.format).context(stdout::WRITING)?;
        let start = Mutex::new(());
        let (next, worst) = (AtomicUsize::new(0), AtomicU8::new(0));
        let work = || {
            while interrupts.caught().is_none() && !report.is_closed() {
                let Some(name) = self.names.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    break;
                };
                let job = Job {
                    name,
                    program: self.program,
                    has_stdin: self.is_one,
                    report: &report,
                    interrupts,
                    start: &start,
                };
                let outcome = on_own_thread(&job);
                worst.fetch_max(outcome.code(), Ordering::Relaxed);
                report.done(&outcome);
            }
        };
        std::thread::scope(|scope| {
            let started = (0..jobs)
                .map_while(|_| Builder::new().spawn_scoped(scope, work).ok())
                .count();
            if started == 0 && !self.names.is_empty() {
                bail!("cannot start a thread: too many processes, or too little memory");
            }
            Ok(())
        })?;
        report.end().context(stdout::WRITING)?;
        if let Some(signal) = interrupts.caught() {
            let all = self.names.len();
            let left = all.saturating_sub(next.into_inner());
            if left > 0 {
                notes::say(&format!(
                    "sockeye: interrupted: nothing was run in {left} of {all} namespaces\n"
                ));
            }
            return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
        }
        Ok(ExitCode::from(worst.into_inner()))
    }

    /// Returns how many programs to run at the same time: limited by the file descriptors.
    fn jobs(&self) -> usize {
        let default = || 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let requested = self
            .jobs
            .map_or_else(default, |jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
        let requested = requested.min(self.names.len());
        let possible = jobs_max();
        if self.jobs.is_some() && requested > possible {
            notes::say(&format!(
                "sockeye: -j {requested}: only {possible} at the same time, for lack of file descriptors; raise `ulimit -n`\n"
            ));
        }
        requested.min(possible)
    }
}

/// Runs a job on a thread of its own: a thread cannot leave the namespaces that it entered.
fn on_own_thread<'a>(job: &Job<'a>) -> Outcome<'a> {
    std::thread::scope(|scope| match Builder::new().spawn_scoped(scope, || job.run()) {
        Ok(thread) => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => {
            let reason =
                format!("cannot start a thread: {error}; too many processes, or too little memory: lower -j");
            Outcome::new(job.name, Ending::NotEntered(reason))
        }
    })
}

/// Returns how many jobs the limit of file descriptors allows, at least one.
fn jobs_max() -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return usize::MAX;
    };
    let in_use = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let left = usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .saturating_sub(in_use + RESERVE);
    (left / DESCRIPTORS_PER_JOB).max(1)
}

/// A job opens its namespace, then its folder in `/etc/netns`. To start the program it needs both ends of three pipes (the
/// third reports to the standard library whether that succeeded) and `/dev/null`.
const DESCRIPTORS_PER_JOB: usize = 8;

/// Descriptors for everything else.
const RESERVE: usize = 4;
