//! Acting inside another network namespace.

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::BorrowedFd;

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
