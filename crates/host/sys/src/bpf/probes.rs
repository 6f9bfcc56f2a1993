//! Attaching programs to function entries and returns.

use super::attach_call;
use super::{Kind, Link, Program};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

/// The points of a function call at which a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePoint {
    /// At the function's entry.
    Entry,
    /// At the function's return.
    Return,
    /// At both; only for programs loaded as [`Kind::UserSession`] or [`Kind::KernelSession`].
    Both,
}

impl Program {
    /// Attaches the program to these offsets in a file, in all processes or in `process` alone, which is then the only
    /// one to be slowed. The program gets the cookie of the offset.
    ///
    /// # Errors
    /// `EINVAL` if an offset has no instruction that can be probed, or the kernel has no such links;
    /// `ENOENT` without such a file, `EPERM` without CAP_PERFMON; `ESRCH` without such a process.
    #[doc(alias = "BPF_TRACE_UPROBE_MULTI")]
    pub fn attach_user_probes(
        &self,
        path: &CStr,
        offsets: &[u64],
        cookies: &[u64],
        point: ProbePoint,
        process: Option<u32>,
    ) -> Result<Link, Errno> {
        let (kind, flags) = point.attach_type(Kind::UserProbes, Kind::UserSession);
        let pid = process.unwrap_or(0);
        attach_call::link_user_probes(self.fd.as_fd(), kind, path, offsets, cookies, flags, pid)
            .map(Link::from)
    }

    /// Attaches the program to these kernel functions. The program gets the cookie of the function.
    ///
    /// # Errors
    /// `ESRCH` or `EINVAL` if one of them does not exist or cannot be probed; `EPERM` where that is forbidden.
    #[doc(alias = "BPF_TRACE_KPROBE_MULTI")]
    pub fn attach_kernel_probes(
        &self,
        names: &[&CStr],
        cookies: &[u64],
        point: ProbePoint,
    ) -> Result<Link, Errno> {
        let (kind, flags) = point.attach_type(Kind::KernelProbes, Kind::KernelSession);
        attach_call::link_kernel_probes(self.fd.as_fd(), kind, names, cookies, flags).map(Link::from)
    }

    /// Attaches the program to the entry or exit of the kernel function that it was loaded for ([`Kind::Entry`],
    /// [`Kind::Exit`]), with a cookie (Linux 5.19).
    ///
    /// # Errors
    /// `EPERM` where that is forbidden; `EINVAL` or `EBUSY` if the function cannot be traced; `E2BIG` beyond 38
    /// programs.
    pub fn attach_traced(&self, kind: Kind<'_>, cookie: u64) -> Result<Link, Errno> {
        attach_call::link_traced(self.fd.as_fd(), kind.types().1, cookie).map(Link::from)
    }

    /// Attaches the program to a perf event, with a cookie (Linux 5.15). The event must stay open as well.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn attach_perf_event(&self, event: BorrowedFd<'_>, cookie: u64) -> Result<Link, Errno> {
        attach_call::link_perf_event(self.fd.as_fd(), event, cookie).map(Link::from)
    }
}

impl ProbePoint {
    /// Returns the attach type and the flags of the link.
    const fn attach_type(self, one: Kind<'_>, session: Kind<'_>) -> (u32, u32) {
        match self {
            Self::Entry => (one.types().1, 0),
            Self::Return => (one.types().1, RETURN),
            Self::Both => (session.types().1, 0),
        }
    }
}

/// `BPF_F_UPROBE_MULTI_RETURN`, `BPF_F_KPROBE_MULTI_RETURN`
const RETURN: u32 = 1;
