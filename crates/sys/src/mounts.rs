//! Mounts that only the calling thread sees.
#![allow(unsafe_code)]

use rustix::io::Errno;
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
