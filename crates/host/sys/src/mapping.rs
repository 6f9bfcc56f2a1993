//! Memory mapped by `mmap(2)`.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// A mapping at an address that the kernel chose; it is unmapped when this is dropped. It only keeps the memory: who reads
/// and writes there is its owner's concern.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nothing reads or writes through the mapping itself, and it is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes from the beginning of a file that the kernel writes to as well.
    ///
    /// # Errors
    /// The errno of `mmap(2)`.
    pub(crate) fn shared(file: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Self::of_file(
            file,
            0,
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )
    }

    /// Maps a part of a file.
    ///
    /// # Errors
    /// The errno of `mmap(2)`.
    pub(crate) fn of_file(
        file: impl AsFd,
        offset: u64,
        bytes: usize,
        access: ProtFlags,
        flags: MapFlags,
    ) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, file, offset) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { start, bytes })
    }

    /// Maps private memory, all zeros.
    ///
    /// # Errors
    /// `ENOMEM` if there is not enough memory.
    pub(crate) fn anonymous(bytes: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { start, bytes })
    }

    /// Returns the address of the first byte.
    pub(crate) const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the length in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what `mmap` returned, and no borrow of its owner is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
