use rustix::io::Errno;
use rustix::process::{Pid as KernelPid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sockeye_model::Pid;

/// How a process is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// `SIGTERM`, which it may heed, or not.
    Polite,
    /// `SIGKILL`, which leaves it no choice.
    Force,
}

/// Tells a process to end. `is_meant` is asked once its number can go to no other process any more. Whether it was there,
/// and was told.
///
/// # Errors
/// The errno of `pidfd_open(2)` and `pidfd_send_signal(2)`: `EPERM`.
pub fn end(pid: Pid, manner: Manner, is_meant: impl FnOnce() -> bool) -> Result<bool, Errno> {
    let number = i32::try_from(pid.0).ok().and_then(KernelPid::from_raw);
    let signal = match manner {
        Manner::Polite => Signal::TERM,
        Manner::Force => Signal::KILL,
    };
    let tell = || {
        let fd = pidfd_open(number.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        if !is_meant() {
            return Ok(false);
        }
        pidfd_send_signal(&fd, signal).map(|()| true)
    };
    match tell() {
        Err(Errno::SRCH) => Ok(false),
        done => done,
    }
}
