//! Mounts that only the calling thread sees, or nobody.
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread, and whatever it starts from now on, a copy of the mounts, to be changed apart from
/// everybody else's.
///
/// What is mounted there is still propagated where the original mounts were shared: make them private or slave first.
/// The thread's working directory, root and umask are its own from now on as well (the kernel implies `CLONE_FS`).
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `ENOSPC` beyond `user.max_mnt_namespaces`; `ENOMEM`.
#[doc(alias = "CLONE_NEWNS")]
pub fn unshare() -> Result<(), Errno> {
    // SAFETY: the descriptor table stays shared (no `CLONE_FILES`), so that no descriptor changes its meaning.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
}

/// A procfs that is mounted nowhere, below whose root files may be opened. It is gone with the descriptor.
///
/// What has been looked up in it is remembered by it alone (since Linux 5.8), while the one at `/proc` never forgets:
/// there the settings of each network namespace are found the more slowly, the more namespaces were looked into, by
/// whomever.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN, or where parts of the `/proc` that is there are hidden; `ENOSYS` before Linux 5.2.
pub fn unmounted_procfs() -> Result<OwnedFd, Errno> {
    unmounted("proc", &[])
}

/// The cgroups of version 2, mounted nowhere; gone with the descriptor, and with all that were opened in it.
///
/// All mounts of it share their options (`nsdelegate`), which are those of the latest one: `options` have to be those of
/// the one that there is.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `ENODEV` without cgroups; `EINVAL` for an option that there is not; `ENOSYS` before
/// Linux 5.2.
pub fn unmounted_cgroups(options: &[&str]) -> Result<OwnedFd, Errno> {
    unmounted("cgroup2", options)
}

fn unmounted(kind: &str, options: &[&str]) -> Result<OwnedFd, Errno> {
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
