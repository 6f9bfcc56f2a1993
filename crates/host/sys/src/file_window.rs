//! Mapped parts of files that only the kernel reads, to send them.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A mapped part of a file. This process cannot read it: if the file shrinks, an access to a missing page would raise
/// SIGBUS. The kernel, asked to send it, returns `EFAULT` instead.
#[derive(Debug)]
pub struct Window {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: only the kernel uses the address; it is not bound to a thread.
unsafe impl Send for Window {}

impl Window {
    /// Maps `bytes` bytes of the file from `offset`, which must be a multiple of the page size.
    ///
    /// # Errors
    /// The errno of `mmap(2)`: `ENODEV` for files that cannot be mapped, `EINVAL` for 0 bytes.
    pub fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        Ok(Self {
            start: NonNull::new(start).ok_or(Errno::FAULT)?,
            bytes,
        })
    }

    /// Length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
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
        let left = self.bytes.checked_sub(from).filter(|&left| left > 0);
        let left = left.ok_or(Errno::INVAL)?;
        Ok((
            self.start
                .as_ptr()
                .cast::<u8>()
                .wrapping_add(from)
                .cast_const()
                .cast(),
            left,
        ))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: this is what `mmap` returned; nothing in this process refers to it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
