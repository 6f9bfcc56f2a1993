//! Network namespaces: running code inside one, and creating one.

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::os::fd::{AsFd, BorrowedFd};

/// Permission to move the current thread between network namespaces. The thread does not return to its first namespace,
/// so nothing else may run on it. Created by [`on_netns_thread`].
#[derive(Debug)]
pub struct NetnsThread(());

impl NetnsThread {
    /// Moves this thread into `netns`, until the next call.
    ///
    /// # Errors
    /// The errno of `setns(2)`: `EINVAL` if it is not a network namespace, otherwise `EPERM` without CAP_SYS_ADMIN.
    pub fn enter(&mut self, netns: BorrowedFd<'_>) -> Result<(), Errno> {
        move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))
    }
}

/// Runs `act` on a dedicated thread, which may enter one network namespace after the other and ends afterwards.
///
/// # Errors
/// `EAGAIN` if no thread could be started.
pub fn on_netns_thread<T: Send>(act: impl FnOnce(&mut NetnsThread) -> T + Send) -> Result<T, Errno> {
    std::thread::scope(|scope| {
        let result = std::thread::Builder::new()
            .spawn_scoped(scope, || act(&mut NetnsThread(())))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?
            .join();
        Ok(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Runs `act` inside the network namespace `netns` and returns what it returned.
///
/// `setns(2)` moves a thread, and moving back may be forbidden: it happens on a dedicated thread, which ends
/// afterwards.
/// Descriptors that `act` opens there keep working outside: a netlink socket and an open file of
/// `/proc/thread-self/net` stay with the namespace they were opened in.
///
/// # Errors
/// The errno of `setns(2)`: `EPERM` without CAP_SYS_ADMIN, `EINVAL` if it is no network namespace; `EAGAIN`
/// if no thread could be started.
pub fn within<T: Send>(netns: BorrowedFd<'_>, act: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    std::thread::scope(|scope| {
        let inside = || {
            move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))?;
            Ok(act())
        };
        std::thread::Builder::new()
            .spawn_scoped(scope, inside)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether a file refers to a namespace of any kind, and not to an ordinary file left where one was mounted.
///
/// # Errors
/// The errno of `fstatfs(2)`.
pub fn is_namespace(file: impl AsFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(file)?.f_type == NSFS_MAGIC)
}

/// `NSFS_MAGIC` of `include/uapi/linux/magic.h`: the file system of namespace files.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;

/// Moves the calling thread alone into a new network namespace. The namespace ends with the thread, unless a descriptor
/// or a mount refers to it.
///
/// Call it on a dedicated thread, as [`within`] does: moving back may be forbidden.
///
/// # Errors
/// The errno of `unshare(2)`: `EPERM` without CAP_SYS_ADMIN, `ENOSPC` if `user.max_net_namespaces` is reached,
/// `ENOMEM`.
#[allow(unsafe_code)]
pub fn unshare() -> Result<(), Errno> {
    // SAFETY: only UnshareFlags::FILES separates a thread from the descriptors of the others, and it is not set.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}
