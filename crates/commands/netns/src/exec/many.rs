use super::ExecFormat;
use super::job::Job;
use super::outcome::{Ending, Kept, Outcome};
use super::report::Report;
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
use std::time::Duration;

/// A program to be run in many namespaces, so many at once.
#[derive(Debug)]
pub(super) struct Many<'a> {
    pub(super) names: &'a [NetnsName],
    pub(super) program: &'a Program<'a>,
    /// Whether it is no more than one that was named.
    pub(super) is_one: bool,
    pub(super) jobs: Option<u64>,
    pub(super) format: ExecFormat,
}

impl Many<'_> {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let interrupts = Interrupts::catch().context("catch signals")?;
        let jobs = self.jobs();
        let report = Report::begin(self.format).context(stdout::WRITING)?;
        let start = Mutex::new(());
        let (next, worst) = (AtomicUsize::new(0), AtomicU8::new(0));
        let work = || {
            while interrupts.caught().is_none() && !report.is_over() {
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
            let left = self.names.len().saturating_sub(next.into_inner());
            if left > 0 {
                let all = self.names.len();
                notes::say(&format!(
                    "sockeye: interrupted: nothing was run in {left} of {all} namespaces\n"
                ));
            }
            return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
        }
        Ok(ExitCode::from(worst.into_inner()))
    }

    /// How many at once: no more than there are descriptors for.
    fn jobs(&self) -> usize {
        let default = || 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = self
            .jobs
            .map_or_else(default, |jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
        let wanted = wanted.min(self.names.len());
        let affordable = affordable();
        if self.jobs.is_some() && wanted > affordable {
            notes::say(&format!(
                "sockeye: -j {wanted}: only {affordable} at once, for want of descriptors; raise `ulimit -n`\n"
            ));
        }
        wanted.min(affordable)
    }
}

/// A thread that entered a namespace does not come back.
fn on_own_thread<'a>(job: &Job<'a>) -> Outcome<'a> {
    let failed = |reason: String| Outcome {
        name: job.name,
        ending: Ending::NotEntered(reason),
        warnings: Vec::new(),
        duration: Duration::ZERO,
        stdout: Kept::default(),
        stderr: Kept::default(),
    };
    std::thread::scope(|scope| match Builder::new().spawn_scoped(scope, || job.run()) {
        Ok(thread) => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => failed(format!(
            "cannot start a thread: {error}; too many processes, or too little memory: lower -j"
        )),
    })
}

/// How many jobs the limit of descriptors allows, one at least.
fn affordable() -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return usize::MAX;
    };
    let in_use = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let left = usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .saturating_sub(in_use + RESERVE);
    (left / DESCRIPTORS_PER_JOB).max(1)
}

/// A job opens its namespace and folder of `/etc/netns` one after the other; then, while it starts the program, both ends
/// of three pipes (the third tells the standard library whether that went well) and `/dev/null`.
const DESCRIPTORS_PER_JOB: usize = 8;

/// For whatever else is opened.
const RESERVE: usize = 4;
