use super::Program;
use super::call;
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A program that is called by the kernel, for as long as this is kept.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Program {
    /// Has it called at a tracepoint, by the name of the event alone (`sched_switch`), with the tracepoint's own
    /// arguments (Linux 4.17).
    ///
    /// # Errors
    /// `ENOENT` if there is no such tracepoint, `EPERM` without CAP_PERFMON.
    pub fn attach_raw_tracepoint(&self, event: &str) -> Result<Link, Errno> {
        let event = CString::new(event).map_err(|_| Errno::INVAL)?;
        call::open_raw_tracepoint(self.fd.as_fd(), &event).map(Link::from)
    }
}

impl From<OwnedFd> for Link {
    /// What stands for the attachment: closing it ends that.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
