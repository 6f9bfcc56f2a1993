//! From flags to what is looked at, and until when.

use super::args::{PartArg, ProfArgs, Target};
use super::live;
use anyhow::{Context, anyhow, bail};
use rustix::fs::fstat;
use rustix::process::{Pid, Signal, test_kill_process};
use sockeye_console::notes;
use sockeye_console::progress::Progress;
use sockeye_observe::{Launched, NotStarted, Plan, Scope, Session, Woken, functions};
use sockeye_profile::{Partial, Profile};
use sockeye_query::cgroup::Cgroup;
use sockeye_query::context;
use sockeye_sys::interrupts::Interrupts;
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was seen.
pub(super) struct Gathered {
    pub(super) profile: Profile,
    /// The command, which may run on.
    pub(super) command: Option<Launched>,
}

/// Why there is nothing to be told.
pub(super) enum Ended {
    /// The command was not started; with this exit status, as a shell would.
    NotStarted(ExitCode),
    /// Something else.
    Error(anyhow::Error),
}

/// Looks, until the time is over, everybody has ended, or somebody interrupts it. With `--top` it shows meanwhile what
/// there is.
pub(super) fn gather(args: &ProfArgs, target: &Target<'_>) -> Result<Gathered, Ended> {
    let began = Instant::now();
    // 1. What can be wrong with what was typed.
    let plan = plan(args, target)?;
    let engine = context::bpf_engine(&args.btf)?;
    let interrupts = Interrupts::catch().context("take note of ^C")?;
    // 2. Everything is attached.
    let session = match Session::start(&plan, Arc::new(engine), began) {
        Ok(session) => session,
        Err(NotStarted::Command(error)) => {
            notes::say(&format!("sockeye: prof: {error}\n"));
            return Err(Ended::NotStarted(ExitCode::from(error.exit_code())));
        }
        Err(error @ NotStarted::Nothing(_)) => return Err(anyhow!("prof: {error}").into()),
    };
    // 3. It lasts as long as it was asked to, or the command does.
    let is_command = matches!(target, Target::Command(_));
    let limit = args
        .duration
        .or((!is_command && args.top.is_none()).then_some(DURATION));
    let until = limit.map(|limit| Instant::now() + limit);
    let session = RefCell::new(session);
    let mut woken = Woken::Deadline;
    let mut profile = if args.top.is_some() {
        let mut look = || Ok(session.borrow_mut().look());
        let mut pause = |interval: Duration| {
            let next = Instant::now() + interval;
            woken = session
                .borrow_mut()
                .wait(Some(until.map_or(next, |until| until.min(next))), &interrupts);
            woken == Woken::Deadline && until.is_none_or(|until| Instant::now() < until)
        };
        live::run(args, &mut look, &mut pause)?
    } else {
        woken = watched(&mut session.borrow_mut(), until, &interrupts, is_command);
        session.borrow_mut().finish()
    };
    if woken == Woken::Asked && args.duration.is_some() {
        profile.partial = Some(Partial {
            code: "interrupted".to_owned(),
            text: format!(
                "ended by a signal after {:.1} s",
                profile.duration_ns as f64 / 1e9
            ),
        });
    }
    let command = session.into_inner().into_command();
    // ^C of a terminal reaches both; who ends us alone means the command as well.
    if woken == Woken::Asked && interrupts.caught() == Some(Signal::TERM.as_raw()) {
        command.iter().for_each(Launched::terminate);
    }
    Ok(Gathered { profile, command })
}

/// Waits, and says on a terminal for how long it does; a command has the terminal for itself.
fn watched(session: &mut Session, until: Option<Instant>, asked: &impl AsFd, is_command: bool) -> Woken {
    if is_command {
        return session.wait(until, asked);
    }
    let began = Instant::now();
    let mut progress = Progress::without_total("s of looking; ^C ends it, and prints what there is");
    loop {
        let step = Instant::now() + STEP;
        let next = until.map_or(step, |until| until.min(step));
        let woken = session.wait(Some(next), asked);
        if woken != Woken::Deadline || until.is_some_and(|until| Instant::now() >= until) {
            return woken;
        }
        progress.reach(began.elapsed().as_secs() as usize);
    }
}

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
            let id = fstat(cgroup.as_fd()).with_context(|| format!("stat {}", cgroup.folder().display()))?;
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
        Target::Difference(..) => bail!("two files are not looked at"),
    };
    let wants = |part| args.only.is_empty() || args.only.contains(&part);
    Ok(Plan {
        target,
        words,
        syscalls: wants(PartArg::Syscalls),
        waits: wants(PartArg::Waits),
        samples_per_s: wants(PartArg::Cpu).then_some(args.hz),
        functions: args
            .functions
            .iter()
            .map(|pattern| functions::Wanted {
                pattern: pattern.clone(),
                library: args.lib.clone(),
            })
            .collect(),
        kernel_functions: args.kernel_functions.clone(),
    })
}

fn expect_process(pid: u32) -> anyhow::Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match number.map(test_kill_process) {
        Some(Err(rustix::io::Errno::SRCH)) | None => {
            bail!("prof: there is no process {pid}; `ps -e` shows which there are")
        }
        _ => Ok(()),
    }
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        Self::Error(error)
    }
}

/// Without -d.
const DURATION: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(500);
