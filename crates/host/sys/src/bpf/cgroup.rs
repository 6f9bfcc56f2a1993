//! Programs attached to cgroups, which run at events of their TCP connections (`sock_ops`).
//!
//! An attached program stays when the process that attached it ends; it is removed with the cgroup.

use super::Program;
use super::attach_call::{self, CGROUP_SOCK_OPS};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// The programs attached directly to a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Ids of the programs.
    pub ids: Vec<u32>,
    /// Whether more programs may be attached.
    pub allows_more: bool,
}

/// Attaches a program in addition to others, or replaces `replaced` (Linux 5.6).
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN, or if this cgroup or one above has a program that allows no other;
/// `E2BIG` beyond 64 programs.
pub fn attach(cgroup: BorrowedFd<'_>, program: &Program, replaced: Option<&Program>) -> Result<(), Errno> {
    let replaced = replaced.map(|replaced| replaced.fd.as_fd());
    attach_call::attach(cgroup, program.fd.as_fd(), replaced, CGROUP_SOCK_OPS)
}

/// Detaches a program.
///
/// # Errors
/// `ENOENT` if it is not attached there, `EPERM` without CAP_NET_ADMIN.
pub fn detach(cgroup: BorrowedFd<'_>, program: &Program) -> Result<(), Errno> {
    attach_call::detach(cgroup, program.fd.as_fd(), CGROUP_SOCK_OPS)
}

/// Returns the programs attached to the cgroup itself, not to those above it.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN, `EBADF` if it is not a cgroup.
pub fn attached(cgroup: BorrowedFd<'_>) -> Result<Attached, Errno> {
    let mut ids = vec![0; ATTACHED_MAX];
    let (count, flags) = attach_call::query(cgroup, CGROUP_SOCK_OPS, &mut ids)?;
    ids.truncate(count);
    Ok(Attached {
        allows_more: ids.is_empty() || flags & attach_call::ALLOW_MULTI != 0,
        ids,
    })
}

/// `BPF_CGROUP_MAX_PROGS` of `include/linux/bpf-cgroup.h`
const ATTACHED_MAX: usize = 64;
