//! Programs that are called when functions are.

use super::call;
use super::{Kind, Link, Program};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

/// When a program is called, of a function's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// When it begins.
    Entry,
    /// When it returns.
    Return,
    /// At both: only programs that were loaded as [`Kind::UserSession`] or [`Kind::KernelSession`].
    Both,
}

impl Program {
    /// Has it called at these places of a file, in whatever process runs there, or (`process`) in one alone, which then
    /// is the only one to be slowed; each place has a cookie, by which the program knows it.
    ///
    /// # Errors
    /// `EINVAL` if at one of the places there is no instruction that can be watched, or the kernel knows no such links;
    /// `ENOENT` without such a file, `EPERM` without CAP_PERFMON; `ESRCH` without such a process.
    #[doc(alias = "BPF_TRACE_UPROBE_MULTI")]
    pub fn attach_user_probes(
        &self,
        path: &CStr,
        offsets: &[u64],
        cookies: &[u64],
        moment: Moment,
        process: Option<u32>,
    ) -> Result<Link, Errno> {
        let (kind, flags) = moment.of_kinds(Kind::UserProbes, Kind::UserSession);
        let whose = process.unwrap_or(0);
        call::link_user_probes(self.fd.as_fd(), kind, path, offsets, cookies, flags, whose).map(Link::from)
    }

    /// Has it called when these functions of the kernel are; each has a cookie, by which the program knows it.
    ///
    /// # Errors
    /// `ESRCH` or `EINVAL` if one of them is not there or cannot be watched; `EPERM` where that is forbidden.
    #[doc(alias = "BPF_TRACE_KPROBE_MULTI")]
    pub fn attach_kernel_probes(
        &self,
        names: &[&CStr],
        cookies: &[u64],
        moment: Moment,
    ) -> Result<Link, Errno> {
        let (kind, flags) = moment.of_kinds(Kind::KernelProbes, Kind::KernelSession);
        call::link_kernel_probes(self.fd.as_fd(), kind, names, cookies, flags).map(Link::from)
    }

    /// Has it called at the entry or exit of the function of the kernel's that it was loaded for ([`Kind::Entry`],
    /// [`Kind::Exit`]), with a cookie (Linux 5.19).
    ///
    /// # Errors
    /// `EPERM` where that is forbidden; `EINVAL` or `EBUSY` if the function cannot be watched; `E2BIG` if 38 watch it.
    pub fn attach_traced(&self, kind: Kind<'_>, cookie: u64) -> Result<Link, Errno> {
        call::link_traced(self.fd.as_fd(), kind.types().1, cookie).map(Link::from)
    }

    /// Has it called by a perf event, with a cookie (Linux 5.15). The event must be kept as well.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn attach_perf_event(&self, event: BorrowedFd<'_>, cookie: u64) -> Result<Link, Errno> {
        call::link_perf_event(self.fd.as_fd(), event, cookie).map(Link::from)
    }
}

impl Moment {
    /// The attach type, and the flags of the link.
    const fn of_kinds(self, one: Kind<'_>, session: Kind<'_>) -> (u32, u32) {
        match self {
            Self::Entry => (one.types().1, 0),
            Self::Return => (one.types().1, RETURN),
            Self::Both => (session.types().1, 0),
        }
    }
}

/// `BPF_F_UPROBE_MULTI_RETURN`, `BPF_F_KPROBE_MULTI_RETURN`
const RETURN: u32 = 1;
