//! `NETLINK_EXT_ACK` (Linux 4.12): the kernel adds a message in words to each error.

use crate::socket_option;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Asks for the kernel's message with each error.
///
/// # Errors
/// The errno of `setsockopt(2)`: `ENOPROTOOPT` on older kernels.
pub(crate) fn request(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    socket_option::enable(socket, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK)
}
