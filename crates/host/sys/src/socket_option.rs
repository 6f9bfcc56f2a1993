//! Socket options that rustix has no call for.
#![allow(unsafe_code)]

use crate::errno::checked;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option to a number or an array of numbers; the kernel uses their size as the option's length.
pub(crate) fn set<T: Number>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads `size_of_val(value)` bytes of plain numbers, which live until the call returns, and
    // keeps no reference to them; the descriptor is open as long as it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    checked(result)
}

/// Switches an option on.
pub(crate) fn enable(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> Result<(), Errno> {
    set(socket, level, name, &1)
}

/// Types without padding.
pub(crate) trait Number {}
impl Number for u64 {}
impl Number for libc::c_int {}
impl<const N: usize> Number for [u32; N] {}

/// Reads the value of an option into `buffer`, cut to its size. Returns the number of bytes written.
pub(crate) fn read(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    buffer: &mut [u8],
) -> Result<usize, Errno> {
    let mut len = libc::socklen_t::try_from(buffer.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: `buffer` has `len` writable bytes, and `len` itself may be written; the descriptor is open as long as it
    // is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            buffer.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    checked(result)?;
    Ok((len as usize).min(buffer.len()))
}
