//! All of it together: whom to look at, what was seen of them so far, until when.

mod told;

use crate::calls::{Calls, Wanted};
use crate::frames::Frames;
use crate::functions::{self, Functions};
use crate::{
    FileNumber, Launch, Launched, Mapping, NotLaunched, Obstacle, Processes, Sampler, Scope, Symbols,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_profile::{Missing, Profile};
use sockeye_source::BpfEngine;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to look at.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Whom.
    pub target: Target,
    /// The same in words: [`Profile::target`].
    pub words: String,
    /// System calls.
    pub syscalls: bool,
    /// Time off the processors.
    pub waits: bool,
    /// What runs on them, so many times a second.
    pub samples_per_s: Option<u32>,
    /// Functions of the processes.
    pub functions: Vec<functions::Wanted>,
    /// Functions of the kernel: a pattern each.
    pub kernel_functions: Vec<String>,
}

/// Whom to look at.
#[derive(Debug, Clone)]
pub enum Target {
    /// Those who are there.
    Scope(Scope),
    /// A command that is started for it: program and arguments.
    Command(Vec<OsString>),
}

/// Why nothing could be looked at.
#[derive(Debug)]
pub enum NotStarted {
    /// The command could not be started.
    Command(NotLaunched),
    /// None of the parts can be had: why not.
    Nothing(Vec<Missing>),
}

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The time was over.
    Deadline,
    /// The descriptor that asks us to end is readable.
    Asked,
    /// The command, or everybody who was looked at, has ended.
    Ended,
}

/// Looking, until this is dropped.
#[derive(Debug)]
pub struct Session {
    words: String,
    /// From here on everything was attached.
    looking_since: Instant,
    /// Until then, if it is over.
    looked_until: Option<Instant>,
    symbols: Symbols,
    processes: Processes,
    frames: Frames,
    sampler: Option<Sampler>,
    /// Samples are wanted, not only the events of processes.
    samples_wanted: bool,
    calls: Option<Calls>,
    functions: Vec<Functions>,
    kernel_functions: Vec<Functions>,
    /// Files that were mapped since functions were looked for.
    new_files: Vec<FileNumber>,
    command: Option<Command>,
    /// The process that the command is.
    began: Option<u32>,
    missing: Vec<Missing>,
}

/// The command that was started.
#[derive(Debug)]
struct Command {
    launched: Launched,
    /// Readable when it has ended.
    end: Option<OwnedFd>,
}

impl Session {
    /// Attaches what is wanted; a command begins when that is done. `began`: when our program began to work on it.
    ///
    /// # Errors
    /// When the command cannot be started, or nothing of what is wanted can be had.
    pub fn start(plan: &Plan, engine: Arc<BpfEngine>, began: Instant) -> Result<Self, NotStarted> {
        // 1. Whoever is to be looked at has a number.
        let (scope, launch) = match &plan.target {
            Target::Scope(scope) => (scope.clone(), None),
            Target::Command(words) => {
                let launch = Launch::prepare(words, own_stderr()).map_err(NotStarted::Command)?;
                (Scope::Processes(vec![launch.pid()]), Some(launch))
            }
        };
        let mut session = Self {
            words: plan.words.clone(),
            looking_since: began,
            looked_until: None,
            symbols: Symbols::new(),
            processes: Processes::of(&scope),
            frames: Frames::default(),
            sampler: None,
            samples_wanted: plan.samples_per_s.is_some(),
            calls: None,
            functions: Vec::new(),
            kernel_functions: Vec::new(),
            new_files: Vec::new(),
            command: None,
            began: launch.as_ref().map(Launch::pid),
            missing: Vec::new(),
        };
        session.miss(crate::pid_namespace::obstacles(&scope));
        // 2. Events of processes first: who begins from now on is not missed.
        match Sampler::start(&scope, plan.samples_per_s, began) {
            Ok(sampler) => {
                session.miss(sampler.obstacles().to_vec());
                session.sampler = Some(sampler);
            }
            Err(obstacle) => session.miss([obstacle]),
        }
        let mut keep = keeper(&mut session.symbols, &mut session.new_files, false);
        session.processes.read_those_there(&mut keep);
        drop(keep);
        // 3. What BPF does; functions first, which may take seconds to attach.
        session.watch_functions(plan, &engine, &scope);
        session.turn();
        if plan.syscalls || plan.waits {
            let wanted = Wanted {
                syscalls: plan.syscalls,
                waits: plan.waits,
                from_exec: launch.is_some(),
            };
            match Calls::start(Arc::clone(&engine), &scope, wanted) {
                Ok(calls) => {
                    session.miss(calls.obstacles().to_vec());
                    session.calls = Some(calls);
                }
                Err(obstacle) => session.miss([obstacle]),
            }
        }
        if session.is_blind(plan) {
            return Err(NotStarted::Nothing(session.missing));
        }
        // 4. Everything is attached, and counts from now on.
        let begun: Vec<Obstacle> = session
            .functions
            .iter_mut()
            .chain(&mut session.kernel_functions)
            .filter_map(|functions| functions.begin().err())
            .collect();
        session.miss(begun);
        session.looking_since = Instant::now();
        // What is to be executed has done nothing yet.
        if let Some(calls) = session.calls.as_mut().filter(|_| launch.is_none()) {
            let begun = calls.begin();
            session.miss(begun.err());
        }
        if let Some(sampler) = &mut session.sampler {
            sampler.begin();
        }
        if let Some(launch) = launch {
            let launched = launch.resume().map_err(NotStarted::Command)?;
            let end = launched.end().ok();
            session.command = Some(Command { launched, end });
        }
        Ok(session)
    }

    /// Looks on until `deadline`, or until `asked` is readable, or everybody has ended, whichever comes first.
    pub fn wait(&mut self, deadline: Option<Instant>, asked: &impl AsFd) -> Woken {
        loop {
            self.turn();
            if self.has_ended() {
                return Woken::Ended;
            }
            let now = Instant::now();
            let turn = if self.functions.iter().any(Functions::is_urgent) {
                TURN_URGENT
            } else {
                TURN
            };
            let left = deadline.map_or(turn, |deadline| deadline.saturating_duration_since(now));
            if left.is_zero() {
                return Woken::Deadline;
            }
            let pause = left.min(turn);
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(pause.subsec_nanos()),
            };
            let mut awaited = vec![PollFd::new(asked, PollFlags::IN)];
            if let Some(end) = self.command.as_ref().and_then(|command| command.end.as_ref()) {
                awaited.push(PollFd::new(end, PollFlags::IN));
            }
            match poll(&mut awaited, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory: then by time alone.
                Err(_) => std::thread::sleep(pause),
            }
            if awaited[0].revents().contains(PollFlags::IN) {
                self.turn();
                return Woken::Asked;
            }
        }
    }

    /// What was seen so far.
    pub fn look(&mut self) -> Profile {
        self.turn();
        self.told()
    }

    /// Stops looking, and says what was seen.
    pub fn finish(&mut self) -> Profile {
        if let Some(calls) = &mut self.calls {
            calls.stop();
        }
        self.looked_until = Some(Instant::now());
        if let Some(sampler) = &mut self.sampler {
            let is_heard = !self.functions.is_empty();
            let mut keep = keeper(&mut self.symbols, &mut self.new_files, is_heard);
            sampler.finish(&mut self.processes, &mut keep);
        }
        // Too late for their calls, but it is told.
        self.watch_new_files();
        self.told()
    }

    /// The command's end, if it was one and has ended.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.command {
            Some(command) => command.launched.ended(),
            None => Ok(None),
        }
    }

    /// The command, if it is one: whoever takes it waits for it himself.
    pub fn into_command(self) -> Option<Launched> {
        self.command.map(|command| command.launched)
    }

    fn has_ended(&mut self) -> bool {
        match &mut self.command {
            Some(command) => !matches!(command.launched.ended(), Ok(None)),
            None => self.sampler.is_some() && self.processes.all_ended(),
        }
    }

    /// What has to be done ten times a second.
    fn turn(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            let is_heard = !self.functions.is_empty();
            let mut keep = keeper(&mut self.symbols, &mut self.new_files, is_heard);
            sampler.drain(&mut self.processes, &mut keep);
        }
        if !self.functions.is_empty() {
            let alive: Vec<u32> = self.processes.alive().collect();
            for functions in &mut self.functions {
                functions.alive(&alive);
            }
        }
        self.watch_new_files();
    }

    /// Watches functions in what was mapped since: by an exec, or as a library that is loaded late.
    fn watch_new_files(&mut self) {
        for file in std::mem::take(&mut self.new_files) {
            for functions in &mut self.functions {
                functions.mapped_meanwhile(&mut self.symbols, file);
            }
        }
    }

    /// Watches functions in the files that are mapped, and in those that a command will map.
    fn watch_functions(&mut self, plan: &Plan, engine: &BpfEngine, scope: &Scope) {
        for wanted in &plan.functions {
            match Functions::start(engine, scope, wanted) {
                Ok(functions) if self.began.is_some() => self.functions.push(functions.exactly()),
                Ok(functions) => self.functions.push(functions),
                Err(obstacle) => self.miss([obstacle]),
            }
        }
        for pattern in &plan.kernel_functions {
            match Functions::start_kernel(engine, scope, pattern) {
                Ok(functions) => self.kernel_functions.push(functions),
                Err(obstacle) => self.miss([obstacle]),
            }
        }
        if !self.functions.is_empty() {
            let mut files: Vec<FileNumber> = Vec::new();
            let alive: Vec<u32> = self.processes.alive().collect();
            for functions in &mut self.functions {
                functions.alive(&alive);
            }
            if let Target::Command(words) = &plan.target {
                let name = words.first().map(OsString::as_os_str).unwrap_or_default();
                let path = std::env::var_os("PATH");
                let will_map = functions::executable(name, path.as_deref());
                let will_map = will_map
                    .map(|file| functions::files_of(&file))
                    .unwrap_or_default();
                // What is named by a path is watched before anybody maps it.
                let named = plan
                    .functions
                    .iter()
                    .filter_map(|wanted| wanted.file(path.as_deref()));
                files.extend(
                    will_map
                        .into_iter()
                        .chain(named)
                        .filter_map(|file| self.symbols.keep_path(&file).ok()),
                );
            } else {
                for pid in alive {
                    let mut keep = keeper(&mut self.symbols, &mut self.new_files, false);
                    self.processes.visit(pid, &mut keep);
                    files.extend(self.processes.files(pid));
                }
            }
            files.sort_unstable();
            files.dedup();
            for functions in &mut self.functions {
                for file in &files {
                    functions.mapped(&mut self.symbols, *file);
                }
            }
        }
    }

    fn miss(&mut self, obstacles: impl IntoIterator<Item = Obstacle>) {
        for obstacle in obstacles {
            let missing = Missing::from(obstacle);
            if !self.missing.contains(&missing) {
                self.missing.push(missing);
            }
        }
    }

    /// Whether nothing of what is wanted can be had.
    fn is_blind(&self, plan: &Plan) -> bool {
        let has_samples = plan.samples_per_s.is_some() && self.sampler.is_some();
        let has_functions = !self.functions.is_empty() || !self.kernel_functions.is_empty();
        !has_samples && !has_functions && self.calls.is_none()
    }
}

/// Opens files as they are come across; with `is_heard` remembers which.
fn keeper<'a>(
    symbols: &'a mut Symbols,
    new_files: &'a mut Vec<FileNumber>,
    is_heard: bool,
) -> impl FnMut(u32, &Mapping) -> FileNumber + 'a {
    move |pid, mapping| {
        let number = symbols.keep(pid, mapping);
        if is_heard && !new_files.contains(&number) {
            new_files.push(number);
        }
        number
    }
}

/// Where a command writes: our standard output is the profile's alone.
fn own_stderr() -> Option<OwnedFd> {
    io::stderr().as_fd().try_clone_to_owned().ok()
}

impl fmt::Display for NotStarted {
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

impl std::error::Error for NotStarted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Command(error) => Some(error),
            Self::Nothing(_) => None,
        }
    }
}

/// Rings are emptied, and files that were mapped are looked at, at least so often.
const TURN: Duration = Duration::from_millis(100);

/// Likewise where functions of new processes are watched only once we know of them.
const TURN_URGENT: Duration = Duration::from_millis(10);
