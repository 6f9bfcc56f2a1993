//! Duplicates of sockets of other processes (`pidfd_getfd`), on which the `keepalive` command reads and sets
//! options. It checks the inode of each duplicate, because the process can reuse the descriptor number.

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::{Pid as KernelPid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use sockeye_model::{Fd, Inode, Pid};
use std::os::fd::OwnedFd;

/// A process that owns sockets to borrow.
///
/// It uses `pidfd_getfd(2)` (Linux 5.6), which needs the right to trace the process: the same user, unless the process
/// gained privileges by `execve(2)`, or CAP_SYS_PTRACE.
#[derive(Debug)]
pub struct SocketOwner(Option<OwnedFd>);

/// A duplicate descriptor of another process's socket.
///
/// Where net_cls and net_prio of cgroup v1 are in use, the kernel marks a borrowed socket with our class and priority
/// (`__receive_sock()`); there is no way to avoid that.
#[derive(Debug)]
pub struct BorrowedSocket {
    pub(crate) fd: OwnedFd,
}

impl SocketOwner {
    /// Opens the process that has this pid now. A process that has ended has no sockets to borrow.
    ///
    /// # Errors
    /// The errno of `pidfd_open(2)`: `ENOSYS` before Linux 5.3, `EMFILE`.
    pub fn open(pid: Pid) -> Result<Self, Errno> {
        let Some(number) = i32::try_from(pid.0).ok().and_then(KernelPid::from_raw) else {
            return Ok(Self(None));
        };
        match pidfd_open(number, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(Some(fd))),
            Err(Errno::SRCH) => Ok(Self(None)),
            Err(errno) => Err(errno),
        }
    }

    /// Borrows the socket with this inode from this descriptor. `None` if the descriptor is closed or refers to another
    /// file.
    ///
    /// # Errors
    /// The errno of `pidfd_getfd(2)`: `EPERM`, `ENOSYS` before Linux 5.6, `EMFILE`.
    pub fn borrow(&self, fd: Fd, inode: Inode) -> Result<Option<BorrowedSocket>, Errno> {
        let (Some(process), Ok(fd)) = (&self.0, i32::try_from(fd.0)) else {
            return Ok(None);
        };
        let fd = match pidfd_getfd(process, fd, PidfdGetfdFlags::empty()) {
            Ok(fd) => fd,
            Err(Errno::BADF | Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let stat = fstat(&fd)?;
        let is_same =
            FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_ino == u64::from(inode.0);
        Ok(is_same.then_some(BorrowedSocket { fd }))
    }
}
