//! Network namespaces: running code inside one, and creating one.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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

/// Opens the network namespace of the calling thread, also where `/proc` is not mounted, or is that of another pid namespace.
///
/// # Errors
/// `ENOENT` if there is no `/proc`, the kernel is older than 6.11 and we lack CAP_NET_ADMIN; otherwise what the kernel returns
/// for `/proc/thread-self/ns/net`.
pub fn open_own() -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty()).or_else(|errno| {
        own_by_pidfd(PIDFD_GET_NET_NAMESPACE)
            .or_else(|_| own_by_socket())
            .map_err(|_| errno)
    })
}

/// Whether the capabilities of this process count in the network namespace of the calling thread: those of a user namespace do if
/// it, or one below it, owns the network namespace. `true` if the owner is unknown.
#[must_use]
#[allow(unsafe_code)]
pub fn capabilities_count() -> bool {
    let Ok(own) = open_own() else { return true };
    // SAFETY: this request takes no argument, and returns a new descriptor or -1.
    let owner = owned(unsafe { libc::ioctl(own.as_raw_fd(), NS_GET_USERNS) });
    // The kernel shows no user namespace above ours.
    !matches!(owner, Err(Errno::PERM))
}

/// Opens a namespace of the calling thread by its pidfd (Linux 6.11).
#[allow(unsafe_code)]
pub(crate) fn own_by_pidfd(kind: libc::Ioctl) -> Result<OwnedFd, Errno> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    // SAFETY: pidfd_open(2) takes two numbers, and returns a new descriptor or -1.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, thread, PIDFD_THREAD) };
    let pidfd = owned(libc::c_int::try_from(pidfd).unwrap_or(-1))?;
    // SAFETY: these requests take no pointer, and return a new descriptor or -1. The kernel refuses an argument other than 0.
    owned(unsafe { libc::ioctl(pidfd.as_raw_fd(), kind, 0) })
}

/// Opens the network namespace of a new socket, which is that of the calling thread. Needs CAP_NET_ADMIN there.
#[allow(unsafe_code)]
fn own_by_socket() -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: this request takes no argument, and returns a new descriptor or -1.
    owned(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS) })
}

/// Takes the new descriptor that a system call returned; the errno if it returned -1.
#[allow(unsafe_code)]
fn owned(returned: libc::c_int) -> Result<OwnedFd, Errno> {
    if returned < 0 {
        return Err(crate::errno::last_errno());
    }
    // SAFETY: the kernel has just returned it, so that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}

/// `PIDFD_THREAD` of `include/uapi/linux/pidfd.h` (Linux 6.9): the thread itself and not its process.
const PIDFD_THREAD: libc::c_int = libc::O_EXCL;

/// `PIDFD_GET_NET_NAMESPACE` of `include/uapi/linux/pidfd.h` (Linux 6.11).
const PIDFD_GET_NET_NAMESPACE: libc::Ioctl = 0xff04;

/// `PIDFD_GET_USER_NAMESPACE` of `include/uapi/linux/pidfd.h` (Linux 6.11).
pub(crate) const PIDFD_GET_USER_NAMESPACE: libc::Ioctl = 0xff09;

/// `NS_GET_USERNS` of `include/uapi/linux/nsfs.h` (Linux 4.9).
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// `SIOCGSKNS` of `include/uapi/linux/sockios.h` (Linux 4.10).
const SIOCGSKNS: libc::Ioctl = 0x894c;

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

/// Moves this process into a new user namespace, and into a new network namespace that belongs to it. There it has all
/// capabilities, but no user ids until they are mapped.
///
/// Only for a process with one thread: the others could not follow.
///
/// # Errors
/// The errno of `unshare(2)`: `EINVAL` if there are other threads, `EPERM` or `EACCES` where unprivileged users may not, `ENOSPC`
/// if `user.max_user_namespaces` or `user.max_net_namespaces` is reached.
#[allow(unsafe_code)]
pub fn unshare_with_user() -> Result<(), Errno> {
    // SAFETY: only UnshareFlags::FILES separates a thread from the descriptors of the others, and it is not set.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_namespace_is_the_same_by_proc_by_pidfd_and_by_socket() {
        let inode = |file: OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
        let expected = inode(open_own().unwrap());
        match own_by_pidfd(PIDFD_GET_NET_NAMESPACE) {
            Ok(file) => assert_eq!(inode(file), expected),
            Err(_) => assert!(!crate::kernel_release::is_since(6, 11)),
        }
        match own_by_socket() {
            Ok(file) => assert_eq!(inode(file), expected),
            Err(errno) => assert_eq!(errno, Errno::PERM),
        }
    }
}
