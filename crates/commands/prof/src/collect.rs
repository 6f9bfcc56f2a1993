//! Observes the target until the time is over, the processes have ended, or a signal arrives.

use crate::args::{PartArg, ProfArgs, Target, UnwindArg};
use crate::layout::layout;
use crate::top;
use anyhow::{Context, anyhow, bail};
use rustix::fs::fstat;
use rustix::process::{Pid, Signal, test_kill_process};
use sockeye_console::live::{self, EndKey};
use sockeye_console::notes;
use sockeye_console::progress::Progress;
use sockeye_observe::{Launched, Plan, Scope, Session, StartError, Unwind, WaitResult, functions};
use sockeye_output::Format;
use sockeye_profile::{Partial, Profile};
use sockeye_query::cgroup::Cgroup;
use sockeye_query::context;
use sockeye_sys::interrupts::Interrupts;
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The result of an observation.
pub(super) struct Collected {
    pub(super) profile: Profile,
    /// The command, if the target was one; it may still run.
    pub(super) command: Option<Launched>,
}

/// Why there is no profile.
pub(super) enum CollectError {
    /// The command could not be started. The reason was printed; the exit status is what a shell would return.
    CommandNotStarted(ExitCode),
    /// Any other error.
    Other(anyhow::Error),
}

/// Returns what to type for a process that runs: one word that is no program may be meant as one.
fn running_process_hint(target: &Target<'_>) -> String {
    let Target::Command([word]) = target else {
        return String::new();
    };
    let word = word.to_string_lossy();
    match word.parse::<u32>() {
        Ok(pid) => format!("; a process that runs: -p {pid}"),
        Err(_) => "; a process that runs: -p PID".to_owned(),
    }
}

/// Exit status of a shell if it finds no program.
const NO_SUCH_PROGRAM: u8 = 127;

/// Observes the target until the time is over, all its processes have ended, or SIGINT, SIGTERM or SIGHUP arrives. With `--watch` it
/// prints a report every interval.
pub(super) fn collect(args: &ProfArgs, target: &Target<'_>) -> Result<Collected, CollectError> {
    let began = Instant::now();
    // 1. Errors in the options are reported before anything is attached.
    let plan = plan(args, target)?;
    let bpf_engine = context::bpf_engine(&args.btf)?;
    let interrupts = Interrupts::catch().context("handle SIGINT, SIGTERM and SIGHUP")?;
    // 2. Attach.
    let session = match Session::start(&plan, Arc::new(bpf_engine), began) {
        Ok(session) => session,
        Err(StartError::Command(error)) => {
            let hint = if error.exit_code() == NO_SUCH_PROGRAM {
                running_process_hint(target)
            } else {
                String::new()
            };
            notes::say(&format!("sockeye: prof: {error}{hint}\n"));
            return Err(CollectError::CommandNotStarted(ExitCode::from(error.exit_code())));
        }
        Err(error @ StartError::Nothing(_)) => return Err(anyhow!("prof: {error}").into()),
    };
    // 3. Observe until -d seconds have passed, or until the command ends.
    let is_command = matches!(target, Target::Command(_));
    let limit = args
        .duration
        .or((!is_command && args.watch.is_none()).then_some(DURATION));
    let until = limit.map(|limit| Instant::now() + limit);
    let session = RefCell::new(session);
    let mut result = WaitResult::Deadline;
    let mut profile = if let Some(interval) = args.watch {
        let mut snapshot = || Ok(session.borrow_mut().snapshot());
        // A command reads the terminal itself.
        let is_live = !is_command && layout(args).format == Format::Table && live::has_screen();
        let end_key = is_live.then(|| EndKey::begin(&interrupts)).transpose();
        let mut end_key = end_key.context("wait for keys")?;
        let has_keys = end_key.as_ref().is_some_and(EndKey::has_keys);
        let mut pause = |interval: Duration| {
            let next = Instant::now() + interval;
            let deadline = Some(until.map_or(next, |until| until.min(next)));
            loop {
                let Some(key) = &mut end_key else {
                    result = session.borrow_mut().wait(deadline, &interrupts);
                    break;
                };
                result = session.borrow_mut().wait(deadline, key);
                if result != WaitResult::Stopped || interrupts.caught().is_some() {
                    break;
                }
                if key.is_pressed() {
                    // The user has seen enough: nothing was interrupted.
                    result = WaitResult::Deadline;
                    return false;
                }
            }
            result == WaitResult::Deadline && until.is_none_or(|until| Instant::now() < until)
        };
        top::run(args, interval, has_keys, &mut snapshot, &mut pause)?
    } else {
        result = wait_with_progress(&mut session.borrow_mut(), until, &interrupts, is_command);
        session.borrow_mut().finish()
    };
    if result == WaitResult::Stopped && args.duration.is_some() {
        profile.partial = Some(Partial {
            code: "interrupted".to_owned(),
            text: format!(
                "ended by a signal after {:.1} s",
                profile.duration_ns as f64 / 1e9
            ),
        });
    }
    let command = session.into_inner().into_command();
    // A terminal sends SIGINT to both; others reach only us and are passed on. A command under nohup ignores SIGHUP.
    let caught = interrupts.caught().and_then(Signal::from_named_raw);
    if let Some(signal @ (Signal::TERM | Signal::HUP)) = caught.filter(|_| result == WaitResult::Stopped) {
        command.iter().for_each(|command| command.send(signal));
    }
    Ok(Collected { profile, command })
}

/// Waits like [`Session::wait`] and shows progress on a terminal, except for a command, which uses the terminal itself.
fn wait_with_progress(
    session: &mut Session,
    until: Option<Instant>,
    stop: &impl AsFd,
    is_command: bool,
) -> WaitResult {
    if is_command {
        return session.wait(until, stop);
    }
    let began = Instant::now();
    let mut progress = Progress::without_total("s observed; ^C ends it and prints the results so far");
    loop {
        let step = Instant::now() + STEP;
        let next = until.map_or(step, |until| until.min(step));
        let result = session.wait(Some(next), stop);
        if result != WaitResult::Deadline || until.is_some_and(|until| Instant::now() >= until) {
            return result;
        }
        progress.reach(began.elapsed().as_secs() as usize);
    }
}

/// Translates the options into what [`Session::start`] takes.
fn plan(args: &ProfArgs, target: &Target<'_>) -> anyhow::Result<Plan> {
    let (target, words) = match *target {
        Target::Processes(pids) => {
            let mut each: Vec<u32> = Vec::new();
            for pid in pids {
                expect_process(*pid)?;
                if !each.contains(pid) {
                    each.push(*pid);
                }
            }
            let words: Vec<String> = each.iter().map(u32::to_string).collect();
            let scope = Scope::Processes(each);
            (
                sockeye_observe::Target::Scope(scope),
                format!("pid {}", words.join(", ")),
            )
        }
        Target::Cgroup(typed) => {
            let cgroup = Cgroup::from_text(typed.as_os_str())?;
            let id = fstat(cgroup.as_fd()).with_context(|| format!("stat the cgroup {}", cgroup.path()))?;
            let scope = Scope::Cgroup {
                folder: cgroup.folder().to_owned(),
                id: id.st_ino,
            };
            (
                sockeye_observe::Target::Scope(scope),
                format!("cgroup {}", cgroup.path()),
            )
        }
        Target::System => (sockeye_observe::Target::Scope(Scope::System), "system".to_owned()),
        Target::Command(words) => {
            let words: Vec<_> = words.iter().skip_while(|word| *word == "--").cloned().collect();
            let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            let text = text.join(" ");
            (sockeye_observe::Target::Command(words), text)
        }
        Target::Difference(..) => bail!("two files are compared, not observed"),
    };
    let includes = |part| args.only.is_empty() || args.only.contains(&part);
    Ok(Plan {
        target,
        description: words,
        syscalls: includes(PartArg::Syscalls),
        waits: includes(PartArg::Waits),
        samples_per_s: includes(PartArg::Cpu).then_some(args.hz),
        unwind: match args.unwind {
            UnwindArg::Fp => Unwind::FramePointers,
            UnwindArg::Dwarf => Unwind::Tables,
            UnwindArg::Auto => Unwind::Longer,
        },
        functions: args
            .functions
            .iter()
            .map(|pattern| functions::FunctionFilter {
                pattern: pattern.clone(),
                library: args.lib.clone(),
            })
            .collect(),
        kernel_functions: args.kernel_functions.clone(),
    })
}

/// Fails if there is no such process.
fn expect_process(pid: u32) -> anyhow::Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match number.map(test_kill_process) {
        Some(Err(rustix::io::Errno::SRCH)) | None => {
            bail!("prof: there is no process {pid}; `ps -e` shows which there are")
        }
        _ => Ok(()),
    }
}

impl From<anyhow::Error> for CollectError {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// The observation time without `-d`.
const DURATION: Duration = Duration::from_secs(10);
/// Time between two updates of the progress line.
const STEP: Duration = Duration::from_millis(500);
