//! `NETLINK_EXT_ACK` (Linux 4.12): with an error the kernel also sends its reason in words.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Asks for the kernel's own words with each error.
///
/// # Errors
/// The errno of `setsockopt(2)`: `ENOPROTOOPT` on older kernels.
pub(crate) fn request(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    // SAFETY: `value` points to `on`, which lives until the call returns, and the length is its size; the
    // descriptor is open as long as it is borrowed. The kernel reads these bytes and keeps none of them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_EXT_ACK,
            std::ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        let error = std::io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    }
}
