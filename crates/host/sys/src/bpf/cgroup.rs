//! Programs that are attached to cgroups, to be called at moments of their TCP connections (`sock_ops`).
//!
//! An attached program stays when whoever attached it has ended, and goes with the cgroup.

use super::Program;
use super::call::{self, CGROUP_SOCK_OPS};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// What is attached to a cgroup itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The numbers of the programs.
    pub ids: Vec<u32>,
    /// Whether others may be attached beside them.
    pub allows_more: bool,
}

/// Attaches a program beside those of others, or in the place of `replaced` (Linux 5.6).
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN, or if there, or to a cgroup above, a program is attached that allows no other;
/// `E2BIG` if there are 64 already.
pub fn attach(cgroup: BorrowedFd<'_>, program: &Program, replaced: Option<&Program>) -> Result<(), Errno> {
    let replaced = replaced.map(|replaced| replaced.fd.as_fd());
    call::attach(cgroup, program.fd.as_fd(), replaced, CGROUP_SOCK_OPS)
}

/// Takes a program away again.
///
/// # Errors
/// `ENOENT` if it is not attached there, `EPERM` without CAP_NET_ADMIN.
pub fn detach(cgroup: BorrowedFd<'_>, program: &Program) -> Result<(), Errno> {
    call::detach(cgroup, program.fd.as_fd(), CGROUP_SOCK_OPS)
}

/// What is attached to the cgroup itself, not to those above it.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN, `EBADF` if it is no cgroup.
pub fn attached(cgroup: BorrowedFd<'_>) -> Result<Attached, Errno> {
    let mut ids = vec![0; ATTACHED_MAX];
    let (count, flags) = call::query(cgroup, CGROUP_SOCK_OPS, &mut ids)?;
    ids.truncate(count);
    Ok(Attached {
        allows_more: ids.is_empty() || flags & call::ALLOW_MULTI != 0,
        ids,
    })
}

/// `BPF_CGROUP_MAX_PROGS` of `include/linux/bpf-cgroup.h`
const ATTACHED_MAX: usize = 64;
