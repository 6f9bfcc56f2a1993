//! Process groups of processes that something else has named.

use sockeye_model::{Comm, Pgid, Process};
use sockeye_wire::proc_pid::Stat;
use std::fs::File;
use std::io::Read as _;

/// Returns the process group of a process; `None` if the process has ended, has another name by now, or cannot be read.
#[must_use]
pub fn process_group(process: &Process) -> Option<Pgid> {
    let file = File::open(format!("/proc/{}/stat", process.pid)).ok()?;
    let mut line = Vec::new();
    file.take(LINE_LEN_MAX).read_to_end(&mut line).ok()?;
    let stat = Stat::parse(&line).ok()?;
    let is_same = Comm::new(stat.comm) == process.comm;
    (is_same && stat.group != 0).then_some(Pgid(stat.group))
}

const LINE_LEN_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Pid;

    #[test]
    fn group_is_that_of_the_process_with_this_name() {
        let pid = std::process::id();
        let comm = std::fs::read("/proc/self/comm").expect("/proc is mounted");
        let mut own = Process {
            pid: Pid(pid),
            pgid: None,
            comm: Comm::new(comm.trim_ascii_end()),
        };
        let group = rustix::process::getpgid(None).expect("of ourselves");
        let group = u32::try_from(group.as_raw_nonzero().get()).expect("is positive");
        assert_eq!(process_group(&own), Some(Pgid(group)));
        own.comm = Comm::new(b"another");
        assert_eq!(process_group(&own), None);
        own.pid = Pid(u32::MAX);
        assert_eq!(process_group(&own), None);
    }
}
