//! Acting inside another network namespace.

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::os::fd::{AsFd, BorrowedFd};

/// A thread that goes from one network namespace to another, and never back to where it came from: nothing else
/// should ever run on it. Made by [`visiting`].
#[derive(Debug)]
pub struct Visitor(());

impl Visitor {
    /// Moves this thread into `netns`, for good or until the next.
    ///
    /// # Errors
    /// The errno of `setns(2)`: `EINVAL` if it is no network namespace, before `EPERM` without CAP_SYS_ADMIN.
    pub fn enter(&mut self, netns: BorrowedFd<'_>) -> Result<(), Errno> {
        move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))
    }
}

/// Runs `act` on a thread of its own, which may visit one network namespace after the other and ends afterwards.
///
/// # Errors
/// `EAGAIN` if no thread could be started.
pub fn visiting<T: Send>(act: impl FnOnce(&mut Visitor) -> T + Send) -> Result<T, Errno> {
    std::thread::scope(|scope| {
        let result = std::thread::Builder::new()
            .spawn_scoped(scope, || act(&mut Visitor(())))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?
            .join();
        Ok(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Runs `act` inside the network namespace `netns` and returns what it returned.
///
/// `setns(2)` moves a thread, and moving back may be forbidden; so it happens on a thread of its own,
/// which ends afterwards. Descriptors that `act` opens there keep working outside: a netlink socket and
/// an open file of `/proc/thread-self/net` stay with the namespace they were opened in.
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

/// Whether a file is a namespace, of whichever kind, and not what is left of one.
///
/// # Errors
/// The errno of `fstatfs(2)`.
pub fn is_namespace(file: impl AsFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(file)?.f_type == NSFS_MAGIC)
}

/// `NSFS_MAGIC` of `include/uapi/linux/magic.h`: the file system whose files are namespaces.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;

/// Moves the calling thread, and it alone, into a new network namespace, which nobody else is in. It ends with the
/// thread, unless something holds it.
///
/// To be called on a thread of its own, as [`within`] does: there may be no way back.
///
/// # Errors
/// The errno of `unshare(2)`: `EPERM` without CAP_SYS_ADMIN, `ENOSPC` where `user.max_net_namespaces` are there
/// already, `ENOMEM`.
#[allow(unsafe_code)]
pub fn unshare() -> Result<(), Errno> {
    // SAFETY: only UnshareFlags::FILES separates a thread from the descriptors of the others, and it is not asked for.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}
