//! Options of sockets that rustix has no call for.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// A number is set, or several; the kernel takes them by their size.
pub(crate) fn set<T: Number>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads as many bytes as `value` has, which is plain numbers and lives until the call returns, and
    // keeps none of them; the descriptor is open as long as it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// What has no padding.
pub(crate) trait Number {}
impl Number for u64 {}
impl Number for libc::c_int {}
impl<const N: usize> Number for [u32; N] {}

/// The value of an option, as much of it as there is room for: how many bytes were written.
pub(crate) fn read(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    room: &mut [u8],
) -> Result<usize, Errno> {
    let mut len = libc::socklen_t::try_from(room.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: there are `len` bytes to write to at `room`, and `len` itself is written to; the descriptor is open as long
    // as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            room.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(last_errno());
    }
    Ok((len as usize).min(room.len()))
}

fn last_errno() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}
