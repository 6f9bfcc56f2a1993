//! Stretches of files that the kernel sends out of memory, and that we never look at.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A stretch of a file in memory. There is no way to read it: the file may shrink under our hands, and whoever touches what
/// is gone is killed by SIGBUS. The kernel, asked to send it, says `EFAULT`.
#[derive(Debug)]
pub struct Window {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: it is an address that only the kernel goes to; it is not bound to a thread.
unsafe impl Send for Window {}

impl Window {
    /// Maps `bytes` of the file from `offset` on, which is a multiple of the page size.
    ///
    /// # Errors
    /// The errno of `mmap(2)`: `ENODEV` for files that cannot be mapped, `EINVAL` for no bytes.
    pub fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: a new mapping at a place that the kernel chooses.
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

    /// How long it is.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sends up to `bytes_max` of what is in it from `from` on, once. With `zero_copy` the pages are lent to the kernel, which says on the
    /// socket's error queue when it is done with them ([`crate::zero_copy`]); it keeps them when the window is gone.
    ///
    /// # Errors
    /// The errno of `send(2)`; `EFAULT` if the file has become shorter; `EINVAL` from beyond the end.
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
        // SAFETY: `start` and `bytes` lie within the mapping, which lives as long as `self`; the kernel only reads there.
        let sent = unsafe { libc::send(socket.as_raw_fd(), start, bytes, flags) };
        usize::try_from(sent).map_err(|_| last_errno())
    }

    /// Where it goes on, and how much there is from there.
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
        // SAFETY: this is what `mmap` returned; nobody in this program refers to it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
