//! Mapped parts of files that only the kernel reads, to send them.
#![allow(unsafe_code)]

use crate::errno::last_errno;
use crate::mapping::Mapping;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mapped part of a file. This process cannot read it: if the file shrinks, an access to a missing page would raise
/// SIGBUS. The kernel, asked to send it, returns `EFAULT` instead.
#[derive(Debug)]
pub struct Window(Mapping);

impl Window {
    /// Maps `bytes` bytes of the file from `offset`, which must be a multiple of the page size.
    ///
    /// # Errors
    /// The errno of `mmap(2)`: `ENODEV` for files that cannot be mapped, `EINVAL` for 0 bytes.
    pub fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<Self, Errno> {
        Mapping::of_file(file, offset, bytes, ProtFlags::READ, MapFlags::SHARED).map(Self)
    }

    /// Sends up to `bytes_max` bytes from `from`, in one call. With `zero_copy` the pages are lent to the kernel, which
    /// reports on the socket's error queue when it has released them ([`crate::zero_copy`]); they stay valid after the
    /// window is dropped.
    ///
    /// # Errors
    /// The errno of `send(2)`; `EFAULT` if the file has become shorter; `EINVAL` if `from` is not before the end.
    pub fn send(
        &self,
        socket: BorrowedFd<'_>,
        from: usize,
        bytes_max: usize,
        zero_copy: bool,
    ) -> Result<usize, Errno> {
        let (start, bytes) = self.from(from)?;
        let bytes = bytes.min(bytes_max);
        let flags = libc::MSG_NOSIGNAL | if zero_copy { libc::MSG_ZEROCOPY } else { 0 };
        // SAFETY: `start` and `bytes` are within the mapping, which lives as long as `self`; the kernel only reads
        // there.
        let sent = unsafe { libc::send(socket.as_raw_fd(), start, bytes, flags) };
        usize::try_from(sent).map_err(|_| last_errno())
    }

    /// Returns the address at the offset `from`, and the number of bytes from there to the end.
    pub(crate) fn from(&self, from: usize) -> Result<(*const c_void, usize), Errno> {
        let left = self.0.bytes().checked_sub(from).filter(|&left| left > 0);
        let start = self.0.start().wrapping_add(from);
        Ok((start.cast_const().cast(), left.ok_or(Errno::INVAL)?))
    }
}
