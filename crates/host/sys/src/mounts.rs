//! Private and detached mounts.
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread, and the threads and processes that it starts later, their own copy of the mount table.
///
/// Mounts made there still propagate where the original mounts were shared: make them private or slave first.
/// The thread also gets its own working directory, root and umask (the kernel implies `CLONE_FS`).
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `ENOSPC` beyond `user.max_mnt_namespaces`; `ENOMEM`.
#[doc(alias = "CLONE_NEWNS")]
pub fn unshare() -> Result<(), Errno> {
    // SAFETY: the descriptor table stays shared (no `CLONE_FILES`), so every descriptor keeps its meaning.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
}

/// Creates a procfs that is mounted nowhere and returns its root directory. It is released with the last descriptor in
/// it.
///
/// It has a dentry cache of its own (since Linux 5.8). The one at `/proc` keeps its entries: the more network
/// namespaces any process has looked into, the slower lookups of each one's settings become.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN, or where parts of the existing `/proc` are hidden; `ENOSYS` before Linux 5.2.
pub fn detached_procfs() -> Result<OwnedFd, Errno> {
    detached("proc", &[])
}

/// Creates a mount of cgroup v2 at no place and returns its root directory. It is released with the last descriptor in
/// it.
///
/// All cgroup v2 mounts share their options (`nsdelegate`), and the latest mount decides them: `options` must be those
/// of the existing mount.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `ENODEV` without cgroup v2; `EINVAL` for an unknown option; `ENOSYS` before Linux
/// 5.2.
pub fn detached_cgroups(options: &[&str]) -> Result<OwnedFd, Errno> {
    detached("cgroup2", options)
}

fn detached(kind: &str, options: &[&str]) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for option in options {
        fsconfig_set_flag(&context, *option)?;
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
