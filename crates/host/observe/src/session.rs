//! An observation: all observers of the same processes, from their start to the profile.

mod profile;

use crate::calls::{CallOptions, Calls};
use crate::frames::Frames;
use crate::functions::{self, FunctionFilter, Functions};
use crate::{
    FileNumber, Launch, LaunchError, Launched, Mapping, Processes, Sampler, Scope, Symbols, Unavailable,
    Unwind, executable,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_profile::{Missing, Profile};
use sockeye_source::BpfEngine;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to observe.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The processes to observe.
    pub target: Target,
    /// The target in words: [`Profile::target`].
    pub description: String,
    /// Whether to count and time system calls.
    pub syscalls: bool,
    /// Whether to measure time off the processors.
    pub waits: bool,
    /// Samples per second and processor; `None`: no sampling.
    pub samples_per_s: Option<u32>,
    /// How the stacks of samples are walked.
    pub unwind: Unwind,
    /// Functions of the processes to count and time.
    pub functions: Vec<FunctionFilter>,
    /// Patterns for functions of the kernel to count and time.
    pub kernel_functions: Vec<String>,
}

/// The processes to observe.
#[derive(Debug, Clone)]
pub enum Target {
    /// Existing processes.
    Scope(Scope),
    /// A command to start: program and arguments.
    Command(Vec<OsString>),
}

/// Why nothing can be observed.
#[derive(Debug)]
pub enum StartError {
    /// The command could not be started.
    Command(LaunchError),
    /// None of the requested parts works; the reasons.
    Nothing(Vec<Missing>),
}

/// Why [`Session::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    /// The deadline has passed.
    Deadline,
    /// The stop descriptor is readable.
    Stopped,
    /// The command, or all observed processes, have ended.
    Ended,
}

/// A running observation. Everything is detached when it is dropped.
#[derive(Debug)]
pub struct Session {
    description: String,
    /// When everything was attached.
    started: Instant,
    /// When it was finished; `None` while it runs.
    finished: Option<Instant>,
    symbols: Symbols,
    processes: Processes,
    frames: Frames,
    sampler: Option<Sampler>,
    /// Whether samples were requested, not only process events.
    has_samples: bool,
    calls: Option<Calls>,
    functions: Vec<Functions>,
    kernel_functions: Vec<Functions>,
    /// Files that were mapped since functions were last selected.
    new_files: Vec<FileNumber>,
    command: Option<Command>,
    /// The pid of the command.
    command_pid: Option<u32>,
    missing: Vec<Missing>,
}

/// The command that was started.
#[derive(Debug)]
struct Command {
    launched: Launched,
    /// Its pidfd: readable when it has ended.
    pidfd: Option<OwnedFd>,
}

impl Session {
    /// Attaches all requested observers; a command starts when that is done. `began`: when our program started to prepare.
    ///
    /// # Errors
    /// If the command cannot be started, or none of the requested parts works.
    pub fn start(plan: &Plan, engine: Arc<BpfEngine>, began: Instant) -> Result<Self, StartError> {
        // 1. The command gets its pid.
        let (scope, launch) = match &plan.target {
            Target::Scope(scope) => (scope.clone(), None),
            Target::Command(words) => {
                let launch = Launch::prepare(words, own_stderr()).map_err(StartError::Command)?;
                (Scope::Processes(vec![launch.pid()]), Some(launch))
            }
        };
        let mut session = Self {
            description: plan.description.clone(),
            started: began,
            finished: None,
            symbols: Symbols::new(),
            processes: Processes::new(&scope),
            frames: Frames::default(),
            sampler: None,
            has_samples: plan.samples_per_s.is_some(),
            calls: None,
            functions: Vec::new(),
            kernel_functions: Vec::new(),
            new_files: Vec::new(),
            command: None,
            command_pid: launch.as_ref().map(Launch::pid),
            missing: Vec::new(),
        };
        session.record_missing(crate::pid_namespace::missing_parts(&scope));
        // 2. Process events first, so that no new process is missed.
        match Sampler::start(&scope, plan.samples_per_s, plan.unwind, began) {
            Ok(sampler) => {
                session.record_missing(sampler.missing_parts().to_vec());
                session.sampler = Some(sampler);
            }
            Err(unavailable) => session.record_missing([unavailable]),
        }
        let mut on_mapping = file_opener(&mut session.symbols, &mut session.new_files, false);
        session.processes.scan_existing(&mut on_mapping);
        drop(on_mapping);
        // 3. BPF programs; functions first, because they can take seconds to attach.
        session.watch_functions(plan, &engine, &scope);
        session.process_events();
        if plan.syscalls || plan.waits {
            let options = CallOptions {
                syscalls: plan.syscalls,
                waits: plan.waits,
                from_exec: launch.is_some(),
            };
            match Calls::start(Arc::clone(&engine), &scope, options) {
                Ok(calls) => {
                    session.record_missing(calls.missing_parts().to_vec());
                    session.calls = Some(calls);
                }
                Err(unavailable) => session.record_missing([unavailable]),
            }
        }
        if session.has_nothing(plan) {
            return Err(StartError::Nothing(session.missing));
        }
        // 4. Everything is attached: reset the counters.
        let failed: Vec<Unavailable> = session
            .functions
            .iter_mut()
            .chain(&mut session.kernel_functions)
            .filter_map(|functions| functions.begin().err())
            .collect();
        session.record_missing(failed);
        session.started = Instant::now();
        // A command has done nothing yet.
        if let Some(calls) = session.calls.as_mut().filter(|_| launch.is_none()) {
            let begun = calls.begin();
            session.record_missing(begun.err());
        }
        if let Some(sampler) = &mut session.sampler {
            sampler.begin();
        }
        if let Some(launch) = launch {
            let launched = launch.resume().map_err(StartError::Command)?;
            let pidfd = launched.pidfd().ok();
            session.command = Some(Command { launched, pidfd });
        }
        Ok(session)
    }

    /// Observes until `deadline`, until `stop` is readable, or until all processes have ended.
    pub fn wait(&mut self, deadline: Option<Instant>, stop: &impl AsFd) -> WaitResult {
        loop {
            self.process_events();
            if self.has_ended() {
                return WaitResult::Ended;
            }
            let now = Instant::now();
            let interval = if self.functions.iter().any(Functions::is_urgent) {
                INTERVAL_URGENT
            } else {
                INTERVAL
            };
            let left = deadline.map_or(interval, |deadline| deadline.saturating_duration_since(now));
            if left.is_zero() {
                return WaitResult::Deadline;
            }
            let pause = left.min(interval);
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(pause.subsec_nanos()),
            };
            let mut awaited = vec![PollFd::new(stop, PollFlags::IN)];
            if let Some(pidfd) = self.command.as_ref().and_then(|command| command.pidfd.as_ref()) {
                awaited.push(PollFd::new(pidfd, PollFlags::IN));
            }
            match poll(&mut awaited, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory: wait by time alone.
                Err(_) => std::thread::sleep(pause),
            }
            if awaited[0].revents().contains(PollFlags::IN) {
                self.process_events();
                return WaitResult::Stopped;
            }
        }
    }

    /// Returns the profile so far.
    pub fn snapshot(&mut self) -> Profile {
        self.process_events();
        self.profile()
    }

    /// Stops the observation and returns its profile.
    pub fn finish(&mut self) -> Profile {
        if let Some(calls) = &mut self.calls {
            calls.stop();
        }
        self.finished = Some(Instant::now());
        if let Some(sampler) = &mut self.sampler {
            let records_files = !self.functions.is_empty();
            let mut on_mapping = file_opener(&mut self.symbols, &mut self.new_files, records_files);
            sampler.finish(&mut self.processes, &mut on_mapping);
            drop(on_mapping);
            sampler.walk(&self.processes, &self.symbols);
        }
        // Too late to count their calls, but the report mentions them.
        self.watch_new_files();
        self.profile()
    }

    /// Returns the command, if there is one; the caller must wait for it.
    pub fn into_command(self) -> Option<Launched> {
        self.command.map(|command| command.launched)
    }

    fn has_ended(&mut self) -> bool {
        match &mut self.command {
            Some(command) => !matches!(command.launched.try_wait(), Ok(None)),
            None => self.sampler.is_some() && self.processes.all_ended(),
        }
    }

    /// Reads the rings and attaches to new processes and files; needed ten times a second.
    fn process_events(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            let records_files = !self.functions.is_empty();
            let mut on_mapping = file_opener(&mut self.symbols, &mut self.new_files, records_files);
            sampler.drain(&mut self.processes, &mut on_mapping);
            drop(on_mapping);
            sampler.walk(&self.processes, &self.symbols);
        }
        if !self.functions.is_empty() {
            let alive: Vec<u32> = self.processes.alive().collect();
            for functions in &mut self.functions {
                functions.set_processes(&alive);
            }
        }
        self.watch_new_files();
    }

    /// Watches functions in files that were mapped since: by an exec, or by `dlopen`.
    fn watch_new_files(&mut self) {
        for file in std::mem::take(&mut self.new_files) {
            for functions in &mut self.functions {
                functions.add_late_file(&mut self.symbols, file);
            }
        }
    }

    /// Watches functions in the files that are mapped, and in those that a command will map.
    fn watch_functions(&mut self, plan: &Plan, engine: &BpfEngine, scope: &Scope) {
        for filter in &plan.functions {
            match Functions::start(engine, scope, filter) {
                Ok(functions) if self.command_pid.is_some() => {
                    self.functions.push(functions.with_exact_children());
                }
                Ok(functions) => self.functions.push(functions),
                Err(unavailable) => self.record_missing([unavailable]),
            }
        }
        for pattern in &plan.kernel_functions {
            match Functions::start_kernel(engine, scope, pattern) {
                Ok(functions) => self.kernel_functions.push(functions),
                Err(unavailable) => self.record_missing([unavailable]),
            }
        }
        if !self.functions.is_empty() {
            let mut files: Vec<FileNumber> = Vec::new();
            let alive: Vec<u32> = self.processes.alive().collect();
            for functions in &mut self.functions {
                functions.set_processes(&alive);
            }
            if let Target::Command(words) = &plan.target {
                let name = words.first().map(OsString::as_os_str).unwrap_or_default();
                let startup_files = executable::find(name)
                    .map(|file| functions::startup_files(&file))
                    .unwrap_or_default();
                // A library that is given by its path is watched before it is mapped.
                let named = plan.functions.iter().filter_map(FunctionFilter::file);
                files.extend(
                    startup_files
                        .into_iter()
                        .chain(named)
                        .filter_map(|file| self.symbols.add_path(&file).ok()),
                );
            } else {
                for pid in alive {
                    let mut on_mapping = file_opener(&mut self.symbols, &mut self.new_files, false);
                    self.processes.add(pid, &mut on_mapping);
                    files.extend(self.processes.files(pid));
                }
            }
            files.sort_unstable();
            files.dedup();
            for functions in &mut self.functions {
                for file in &files {
                    functions.add_file(&mut self.symbols, *file);
                }
            }
        }
    }

    fn record_missing(&mut self, missing_parts: impl IntoIterator<Item = Unavailable>) {
        for unavailable in missing_parts {
            let missing = Missing::from(unavailable);
            if !self.missing.contains(&missing) {
                self.missing.push(missing);
            }
        }
    }

    /// Returns whether none of the requested parts works.
    fn has_nothing(&self, plan: &Plan) -> bool {
        let has_samples = plan.samples_per_s.is_some() && self.sampler.is_some();
        let has_functions = !self.functions.is_empty() || !self.kernel_functions.is_empty();
        !has_samples && !has_functions && self.calls.is_none()
    }
}

/// Returns the callback that opens mapped files; with `records_files` it also records them in `new_files`.
fn file_opener<'a>(
    symbols: &'a mut Symbols,
    new_files: &'a mut Vec<FileNumber>,
    records_files: bool,
) -> impl FnMut(u32, &Mapping) -> FileNumber + 'a {
    move |pid, mapping| {
        let number = symbols.add_mapping(pid, mapping);
        if records_files && !new_files.contains(&number) {
            new_files.push(number);
        }
        number
    }
}

/// Returns the standard output for a command: our standard error, because our standard output has only the profile.
fn own_stderr() -> Option<OwnedFd> {
    io::stderr().as_fd().try_clone_to_owned().ok()
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(error) => error.fmt(f),
            Self::Nothing(missing) => {
                f.write_str("nothing can be looked at")?;
                for missing in missing {
                    write!(f, "\n  {}: {}", missing.part, missing.text)?;
                    if let Some(remedy) = &missing.remedy {
                        write!(f, "; {remedy}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Command(error) => Some(error),
            Self::Nothing(_) => None,
        }
    }
}

/// The longest time between two readings of the rings.
const INTERVAL: Duration = Duration::from_millis(100);

/// The same where new processes must be attached to explicitly.
const INTERVAL_URGENT: Duration = Duration::from_millis(10);
