//! Child processes that the kernel kills when their parent ends.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the program when the thread that starts it ends, however that is: call it on the main thread. The signal is
/// lost if the program is set-user-ID or has file capabilities.
#[doc(alias = "PR_SET_PDEATHSIG")]
pub fn kill_with_parent(command: &mut Command) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It ended before, and no signal will come.
        if getppid() != Some(parent) {
            return Err(Errno::PIPE.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes two system calls, and neither locks nor allocates.
    unsafe { command.pre_exec(ask) };
}
