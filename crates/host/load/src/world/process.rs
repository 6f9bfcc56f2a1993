//! The process of a program: its start and its end.

use super::role::READY;
use super::{Role, WorldError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A running program, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct RoleProcess {
    role: Role,
    child: Child,
    /// `None` before Linux 5.3.
    end: Option<OwnedFd>,
}

impl RoleProcess {
    /// Starts a program, and waits until it has begun its work.
    pub(super) fn start(role: Role, mut command: Command, far: BorrowedFd<'_>) -> Result<Self, WorldError> {
        let failed = |reason: String| WorldError::Program { role, reason };
        let far = far
            .try_clone_to_owned()
            .map_err(|error| failed(error.to_string()))?;
        let child = command
            .stdin(Stdio::from(far))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .current_dir("/")
            // ^C is for the parent alone, which ends the world.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut process = Self {
            role,
            child,
            end: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
        };
        let said = match process.child.stdout.take() {
            Some(pipe) => said(pipe).map_err(|error| failed(error.to_string()))?,
            None => Vec::new(),
        };
        match said.as_slice() {
            READY => Ok(process),
            [] => Err(failed("it ended without a word".to_owned())),
            reason => Err(failed(String::from_utf8_lossy(reason).into_owned())),
        }
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// A descriptor that is readable when the process has ended.
    pub(super) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for RoleProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads what a program says until it is ready, or has ended.
fn said(mut pipe: ChildStdout) -> io::Result<Vec<u8>> {
    let until = Instant::now() + START_TIMEOUT;
    let mut said = Vec::new();
    while said != READY && said.len() < SAID_MAX {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut buffer = [0; SAID_MAX];
        match pipe.read(&mut buffer)? {
            0 => break,
            len => said.extend_from_slice(&buffer[..len]),
        }
    }
    Ok(said)
}

/// Many times what the slowest takes on a machine that does nothing else.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const SAID_MAX: usize = 1024;
