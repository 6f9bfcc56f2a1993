//! `SIGTERM` and `SIGKILL` by pidfd, for `ns del`, which ends the processes in a namespace. The caller checks
//! the process after the pidfd is open, so that a reused pid gets no signal.

use rustix::io::Errno;
use rustix::process::{Pid as KernelPid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sockeye_model::Pid;

/// The signal that ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// `SIGTERM`, which the process may ignore.
    Request,
    /// `SIGKILL`, which the process cannot ignore.
    Kill,
}

/// Sends a process the signal to end. `is_meant` is called when its pid can no longer be reused. Returns whether the
/// process existed and the signal was sent.
///
/// # Errors
/// The errno of `pidfd_open(2)` and `pidfd_send_signal(2)`: `EPERM`.
pub fn end(pid: Pid, termination: Termination, is_meant: impl FnOnce() -> bool) -> Result<bool, Errno> {
    let number = i32::try_from(pid.0).ok().and_then(KernelPid::from_raw);
    let signal = match termination {
        Termination::Request => Signal::TERM,
        Termination::Kill => Signal::KILL,
    };
    let send = || {
        let fd = pidfd_open(number.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        if !is_meant() {
            return Ok(false);
        }
        pidfd_send_signal(&fd, signal).map(|()| true)
    };
    match send() {
        Err(Errno::SRCH) => Ok(false),
        done => done,
    }
}
