//! Many UDP datagrams by one system call: cut by the kernel on the way out, put together on the way in.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// What is sent at once is cut into datagrams of this many bytes; 0: no longer.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 4.18.
#[doc(alias = "UDP_SEGMENT")]
pub fn cut_into(socket: impl AsFd, bytes: u16) -> Result<(), Errno> {
    set(socket.as_fd(), libc::UDP_SEGMENT, bytes.into())
}

/// Datagrams of the same size that came one behind the other are received at once. Where one ends and the next begins
/// is not told here.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 5.0.
#[doc(alias = "UDP_GRO")]
pub fn put_together(socket: impl AsFd) -> Result<(), Errno> {
    set(socket.as_fd(), libc::UDP_GRO, 1)
}

fn set(socket: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the option reads an `int`, to which the pointer leads, and whose length is told.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}
