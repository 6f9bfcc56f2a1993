//! The network namespaces of processes, from `/proc/PID/ns/net`.

use crate::proc_folder::Decimal;
use rustix::fd::BorrowedFd;
use rustix::fs::readlinkat_raw;
use rustix::io::Errno;
use sockeye_model::{NetnsInode, Pid};
use sockeye_wire::proc_pid;
use std::mem::MaybeUninit;

/// Returns the namespace of the calling thread; `None` if it cannot be opened, in `/proc` or by other ways.
#[must_use]
pub fn own_namespace() -> Option<NetnsInode> {
    // A listing of thousands of namespaces asks this for each: one system call where /proc is usable.
    let stat = rustix::fs::stat("/proc/thread-self/ns/net")
        .or_else(|_| sockeye_sys::netns::open_own().and_then(rustix::fs::fstat))
        .ok()?;
    u32::try_from(stat.st_ino).ok().map(NetnsInode)
}

/// Returns the network namespace of this process; `NOENT` or `SRCH` if it ended.
pub(crate) fn netns_now(proc: BorrowedFd<'_>, pid: Pid) -> Result<NetnsInode, Errno> {
    match netns_of(proc, pid) {
        // The kernel also returns EACCES for a process that is just exiting (`proc_ns_readlink()`), and another error the
        // next time.
        Err(Errno::ACCESS) => netns_of(proc, pid),
        found => found,
    }
}

/// Returns the network namespace of this process. `stat` would return it too, but creates an inode for each
/// namespace.
pub(crate) fn netns_of(proc: BorrowedFd<'_>, pid: Pid) -> Result<NetnsInode, Errno> {
    let mut target = [MaybeUninit::uninit(); 32];
    let path = Decimal::with_suffix(pid.0, "/ns/net");
    let (target, _) = readlinkat_raw(proc, path.as_c_str(), &mut target)?;
    let inode = proc_pid::netns_inode(target).and_then(|inode| u32::try_from(inode).ok());
    // A kernel without network namespaces has no such link; otherwise the target has this form.
    inode.map(NetnsInode).ok_or(Errno::NOENT)
}
