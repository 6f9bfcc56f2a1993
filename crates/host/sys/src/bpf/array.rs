//! An array map in shared memory: the kernel's writes are visible without a system call.
#![allow(unsafe_code)]

use super::call::{MAP_TYPE_ARRAY, MapAttributes, create_map};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// An array map of a few large values.
#[derive(Debug)]
pub struct Array {
    identity: Arc<Identity>,
    fd: OwnedFd,
    value_bytes: usize,
    entries: usize,
}

/// Identifies an array and the programs that write to it.
#[derive(Debug)]
pub(super) struct Identity;

/// One value of an array map, in shared memory.
///
/// At most one program run at a time writes to it: [`super::Program::run`] borrows it mutably and rejects slots of
/// other arrays, and the programs (bpf/*.c) write only to the slot that their first argument names.
#[derive(Debug)]
pub struct Slot {
    _mapping: Arc<Mapping>,
    identity: Arc<Identity>,
    number: u32,
    start: NonNull<u8>,
    bytes: usize,
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: only the slot gives access to its part of the mapping, and the mapping is not bound to a thread.
unsafe impl Send for Slot {}
// SAFETY: a shared slot can only be read.
unsafe impl Sync for Slot {}
// SAFETY: nothing reads or writes through the mapping itself; it only keeps the memory.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Array {
    /// Creates the map. `value_bytes` must be a multiple of the page size.
    pub(super) fn create(value_bytes: u32, entries: u32) -> Result<Self, Errno> {
        if !(value_bytes as usize).is_multiple_of(rustix::param::page_size()) {
            return Err(Errno::INVAL);
        }
        let fd = create_map(&mut MapAttributes {
            map_type: MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes,
            entries,
            flags: MMAPABLE,
            ..MapAttributes::default()
        })?;
        Ok(Self {
            identity: Arc::new(Identity),
            fd,
            value_bytes: value_bytes as usize,
            entries: entries as usize,
        })
    }

    pub(super) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity)
    }

    /// Maps the array and splits it into its values.
    ///
    /// # Errors
    /// The errno of `mmap(2)`.
    pub fn into_slots(self) -> Result<Vec<Slot>, Errno> {
        let bytes = self.value_bytes.checked_mul(self.entries).ok_or(Errno::TOOBIG)?;
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses; the whole map is that long.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, read_write, shared, &self.fd, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::FAULT)?;
        // The map lives as long as its mapping or a program that uses it: the descriptor is no longer needed.
        let mapping = Arc::new(Mapping { start, bytes });
        Ok((0..self.entries)
            .map(|number| Slot {
                _mapping: Arc::clone(&mapping),
                identity: Arc::clone(&self.identity),
                number: number as u32,
                // SAFETY: below `entries`, so within the mapping.
                start: unsafe { start.add(number * self.value_bytes) },
                bytes: self.value_bytes,
            })
            .collect())
    }
}

impl AsFd for Array {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Slot {
    /// Index in the array.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn is_of(&self, array: &Arc<Identity>) -> bool {
        Arc::ptr_eq(&self.identity, array)
    }

    /// The content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`. This slot's part of it is written only under a mutable borrow of
        // `self`: by `bytes_mut`, or by a program of its array, which writes only to slots[arguments[0]] (bpf/*.c).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The content, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and no other reference exists while `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what `mmap` returned, and no slot, which would keep the mapping alive, is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// `BPF_F_MMAPABLE` (Linux 5.5)
pub(super) const MMAPABLE: u32 = 1 << 10;
