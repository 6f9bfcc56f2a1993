//! A command in the world.

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sockeye_act::program::Program;
use sockeye_sys::interrupts::Interrupts;
use sockeye_sys::parent_death;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Runs a command to its end, and returns its exit status as shells do.
///
/// A terminal sends SIGINT to the command as well, which decides what it means. SIGTERM and SIGHUP are passed on, and a command
/// that does not end then is killed.
pub(crate) fn run(program: &Program<'_>, interrupts: &Interrupts) -> anyhow::Result<u8> {
    let mut child = program.start(parent_death::kill_with_parent)?;
    let status = wait(&mut child, interrupts);
    if status.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = status.context("wait for the command")?;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn wait(child: &mut Child, interrupts: &Interrupts) -> std::io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    // Without it (before Linux 5.3) the end is noticed later.
    let end = pidfd_open(pid, PidfdFlags::empty()).ok();
    let mut kill_at = None;
    let mut is_passed_on = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(signal) = interrupts.caught().filter(|_| !is_passed_on) {
            is_passed_on = true;
            if let Some(signal @ (Signal::TERM | Signal::HUP)) = Signal::from_named_raw(signal) {
                let _ = kill_process(pid, signal);
                kill_at = Some(Instant::now() + GRACE);
            }
        }
        if kill_at.is_some_and(|at| at <= Instant::now()) {
            child.kill()?;
            kill_at = None;
        }
        let mut polled = Vec::new();
        polled.extend(end.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
        if !is_passed_on {
            polled.push(PollFd::new(interrupts, PollFlags::IN));
        }
        let timeout = match (kill_at, &end) {
            (Some(at), _) => Some(at.saturating_duration_since(Instant::now())),
            (None, Some(_)) => None,
            (None, None) => Some(INTERVAL),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(50);
