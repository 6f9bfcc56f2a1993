//! What a pass over all processes found: the processes, and their socket descriptors.

use sockeye_model::{Comm, Losses, NetnsInode, Pgid, Pid, Process};
use sockeye_wire::holders::Task;
use sockeye_wire::task_file::Record;

/// One pass over all processes.
#[derive(Debug, Default)]
pub(crate) struct ProcessDescriptors {
    /// Every process of our pid namespace.
    pub(crate) processes: Vec<FoundProcess>,
    pub(crate) descriptors: Vec<SocketDescriptor>,
    pub(crate) losses: Losses,
}

/// A process of the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundProcess {
    pub(crate) process: Process,
    pub(crate) netns: Option<NetnsInode>,
    /// Id of its cgroup (v2); 0 if it has none.
    pub(crate) cgroup: u64,
}

/// A socket descriptor of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketDescriptor {
    pub(crate) inode: u32,
    /// Index in the list of processes.
    pub(crate) process: u32,
    pub(crate) fd: u32,
}

impl From<&Task> for FoundProcess {
    fn from(task: &Task) -> Self {
        Self::new(task.pid, task.pgid, &task.comm, task.netns, task.cgroup)
    }
}

impl From<&Record> for FoundProcess {
    fn from(record: &Record) -> Self {
        Self::new(record.pid, record.pgid, &record.comm, record.netns, record.cgroup)
    }
}

impl FoundProcess {
    /// A process of the kernel's numbers; the group and the namespace are 0 if it has none.
    fn new(pid: u32, pgid: u32, name: &[u8; 16], netns: u32, cgroup: u64) -> Self {
        Self {
            process: Process {
                pid: Pid(pid),
                pgid: (pgid != 0).then_some(Pgid(pgid)),
                comm: comm(name),
            },
            netns: (netns != 0).then_some(NetnsInode(netns)),
            cgroup,
        }
    }
}

/// Reads `task_struct.comm`: the name ends at the first NUL.
pub(crate) fn comm(name: &[u8; 16]) -> Comm {
    let end = name.iter().position(|byte| *byte == 0);
    Comm::new(&name[..end.unwrap_or(name.len())])
}
