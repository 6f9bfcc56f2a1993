//! Files mapped into memory, to be read.
#![allow(unsafe_code)]

use rustix::fs::{fstat, fstatfs, stat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// A file in memory, for files whose content never changes.
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is only ever read, and is not bound to a thread.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the kernel's own types, `/sys/kernel/btf/vmlinux`, which the kernel keeps unchanged as long as it
    /// runs. Reading it would be 1,347 calls of 4 KiB, and 3.5 ms.
    ///
    /// # Errors
    /// The errno of `mmap(2)`: `ENODEV` before Linux 6.16. `EINVAL` if it is any other file: that could change, or
    /// shrink, under our hands.
    pub fn kernel_types(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let (found, known) = (fstat(file)?, stat(KERNEL_TYPES)?);
        let is_it = (found.st_dev, found.st_ino) == (known.st_dev, known.st_ino)
            && fstatfs(file)?.f_type == SYSFS_MAGIC;
        if !is_it {
            return Err(Errno::INVAL);
        }
        let bytes = usize::try_from(found.st_size).map_err(|_| Errno::TOOBIG)?;
        // SAFETY: a new mapping at a place that the kernel chooses; it is private and read-only.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                file,
                0,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { start, bytes })
    }

    /// What is in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is that long and lives as long as `self`; the pages behind it are
        // those of the kernel's own types, which never change (`kernel_types` takes no other file).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is what `mmap` returned, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The one file that is mapped.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// `SYSFS_MAGIC` of `include/uapi/linux/magic.h`
const SYSFS_MAGIC: rustix::fs::FsWord = 0x6265_6572;
