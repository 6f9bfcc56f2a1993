//! The state of a process and the function of the kernel that it waits in, from `/proc/PID/stat` and `wchan`.
//! `check` shows them with what the process does not do.

use crate::proc_folder::{open_folder, read};
use rustix::fd::AsFd;
use rustix::fs::CWD;
use sockeye_model::{Pid, ProcessState, ShortText};
use sockeye_wire::proc_pid::Stat;

/// Reads the state of a process; `None` if it has ended.
#[must_use]
pub fn process_state(pid: Pid) -> Option<ProcessState> {
    let folder = open_folder(CWD, format!("/proc/{}", pid.0)).ok()?;
    let mut buffer = Vec::new();
    let letter = Stat::parse(read(folder.as_fd(), c"stat", &mut buffer).ok()?)
        .ok()?
        .state;
    // "0": it waits in none, or we may not know.
    let waits_in = match read(folder.as_fd(), c"wchan", &mut buffer) {
        Ok(b"0") | Err(_) => ShortText::new(b""),
        Ok(name) => ShortText::new(name),
    };
    Some(ProcessState { letter, waits_in })
}
