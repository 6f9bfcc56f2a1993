//! The BPF link: a program attached to a raw tracepoint, function, perf event or cgroup. The profilers in `observe`
//! attach with it. The attachment ends when the value is dropped.

use super::attach_call;
use super::call;
use super::{CgroupHook, Program};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An attached program; dropping the link detaches it.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Program {
    /// Attaches the program to a raw tracepoint, by the name of the event alone (`sched_switch`) (Linux 4.17).
    ///
    /// # Errors
    /// `ENOENT` if there is no such tracepoint, `EPERM` without CAP_PERFMON.
    pub fn attach_raw_tracepoint(&self, event: &str) -> Result<Link, Errno> {
        let event = CString::new(event).map_err(|_| Errno::INVAL)?;
        call::open_raw_tracepoint(self.fd.as_fd(), Some(&event)).map(Link::from)
    }

    /// Attaches a program of [`super::Kind::TypedTracepoint`] to its tracepoint (Linux 5.5).
    ///
    /// # Errors
    /// The errno of `bpf(2)`: `EINVAL` if it is of another kind.
    pub fn attach_typed_tracepoint(&self) -> Result<Link, Errno> {
        call::open_raw_tracepoint(self.fd.as_fd(), None).map(Link::from)
    }

    /// Attaches a program of [`super::Kind::Cgroup`] to a cgroup, for all below it as well (Linux 5.7).
    ///
    /// # Errors
    /// The errno of `bpf(2)`: `EPERM` without CAP_NET_ADMIN, or if a program there allows no other.
    pub fn attach_to_cgroup(&self, cgroup: BorrowedFd<'_>, hook: CgroupHook) -> Result<Link, Errno> {
        let (_, attach_type) = hook.types();
        attach_call::link_cgroup(self.fd.as_fd(), cgroup, attach_type).map(Link::from)
    }
}

impl From<OwnedFd> for Link {
    /// Takes a link descriptor; closing it detaches the program.
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
