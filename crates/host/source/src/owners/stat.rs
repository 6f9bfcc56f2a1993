//! Process name, process group and state from `/proc/PID/stat`, for `procfs_scan.rs`. It opens the file
//! relative to the descriptor folder, so that a reused pid cannot give a wrong name.

use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use sockeye_model::{Comm, Pgid, Pid, Process};
use sockeye_wire::proc_pid;

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) process: Process,
    /// Whether it is a zombie or dead.
    pub(super) is_dead: bool,
}

impl Stat {
    /// Reads the file next to the folder `/proc/PID/fd`. A path relative to the open folder leads to the same process even if
    /// its pid has been reused.
    pub(super) fn of_process(descriptors: BorrowedFd<'_>) -> Result<Self, Errno> {
        let file = openat(
            descriptors,
            c"../stat",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut line = [0; 512];
        let len = rustix::io::read(&file, &mut line)?;
        Self::parse(&line[..len])
    }

    fn parse(line: &[u8]) -> Result<Self, Errno> {
        // Only a task that is being released has no process group: the kernel writes -1
        // (fs/proc/array.c, do_task_stat).
        let stat = proc_pid::Stat::parse(line).map_err(|_| Errno::SRCH)?;
        Ok(Self {
            process: Process {
                pid: Pid(stat.pid),
                pgid: (stat.group != 0).then_some(Pgid(stat.group)),
                comm: Comm::new(stat.comm),
            },
            is_dead: matches!(stat.state, b'Z' | b'X' | b'x'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pid, name, process group, whether dead
    type Fields<'a> = (u32, &'a [u8], Option<u32>, bool);

    fn check(line: &[u8], expected: Result<Fields<'_>, Errno>) {
        let found = Stat::parse(line);
        let found = found.as_ref().map(|stat| {
            let process = &stat.process;
            let pgid = process.pgid.map(|pgid| pgid.0);
            (process.pid.0, process.comm.as_bytes(), pgid, stat.is_dead)
        });
        assert_eq!(found.map_err(|errno| *errno), expected, "{}", line.escape_ascii());
    }

    #[test]
    fn zombie_is_dead_and_odd_names_parse() {
        check(
            b"17 (a) b) (c) R 1 16 16 0",
            Ok((17, b"a) b) (c", Some(16), false)),
        );
        check(
            b"17 (a\n\x1b[31m) Z 1 16 16",
            Ok((17, b"a\n\x1b[31m", Some(16), true)),
        );
        check(b"17 (elsewhere) S 1 0 0 0", Ok((17, b"elsewhere", None, false)));
        check(b"17 (released) X 0 -1 -1 0", Err(Errno::SRCH));
        check(b"", Err(Errno::SRCH));
    }
}
