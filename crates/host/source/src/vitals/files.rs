//! Open descriptors of processes and their limit (`RLIMIT_NOFILE`), from `/proc/PID/fd` and
//! `/proc/PID/limits`. `check` judges with it how close a process is to its limit.

use crate::proc_folder::{open_folder, open_to_list, read};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{CWD, Dir};
use sockeye_model::{Fill, OpenFiles, Process};
use sockeye_wire::proc_pid::open_files_max;

/// Returns the number of open descriptors of each process, and its limits. Processes that have ended, that we may not
/// read, or that have no limit are left out.
#[must_use]
pub fn open_files(processes: &[Process]) -> Vec<OpenFiles> {
    let mut buffer = Vec::new();
    let files = |&process: &Process| {
        let folder = open_folder(CWD, format!("/proc/{}", process.pid.0)).ok()?;
        let used = used(folder.as_fd())?;
        let (max, hard_max) = max(folder.as_fd(), &mut buffer)?;
        Some(OpenFiles {
            process,
            fill: Fill { used, max },
            hard_max,
        })
    };
    processes.iter().filter_map(files).collect()
}

/// Counts the descriptors of a process. Since Linux 6.2 the size of the folder is their number (`fs/proc/fd.c`,
/// `proc_fd_getattr()`); before, it was 0, as it is with no descriptor.
fn used(process: BorrowedFd<'_>) -> Option<u64> {
    let folder = open_to_list(process, c"fd").ok()?;
    let size = rustix::fs::fstat(&folder).ok()?.st_size;
    match u64::try_from(size) {
        Ok(count) if count > 0 => Some(count),
        _ => {
            let all = Dir::new(folder).ok()?.flatten();
            let is_descriptor = |name: &[u8]| name.first().is_some_and(u8::is_ascii_digit);
            let count = all
                .filter(|file| is_descriptor(file.file_name().to_bytes()))
                .count();
            u64::try_from(count).ok()
        }
    }
}

/// Reads the soft and the hard limit. Everyone may read the file; `prlimit(2)` needs rights on the process.
fn max(process: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Option<(u64, Option<u64>)> {
    open_files_max(read(process, c"limits", buffer).ok()?)
}
