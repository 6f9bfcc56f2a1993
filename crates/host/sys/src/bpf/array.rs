//! An array map in shared memory: the kernel's writes are visible without a system call.
#![allow(unsafe_code)]

use super::call::{MAP_TYPE_ARRAY, MapAttributes, create_map};
use super::memory_lock;
use crate::mapping::Mapping;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    mapping: Arc<Mapping>,
    identity: Arc<Identity>,
    number: usize,
    bytes: usize,
}

impl Array {
    /// Creates the map. `value_bytes` must be a multiple of 8, the alignment of values in the map: they follow each other then.
    pub(super) fn create(value_bytes: u32, entries: u32) -> Result<Self, Errno> {
        if !value_bytes.is_multiple_of(8) {
            return Err(Errno::INVAL);
        }
        let mut attributes = MapAttributes {
            map_type: MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes,
            entries,
            flags: MMAPABLE,
            ..MapAttributes::default()
        };
        let fd = memory_lock::with_raised_limit(|| create_map(&mut attributes))?;
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
        // The map lives as long as its mapping or a program that uses it: the descriptor is no longer needed.
        let mapping = Arc::new(Mapping::shared(&self.fd, bytes)?);
        Ok((0..self.entries)
            .map(|number| Slot {
                mapping: Arc::clone(&mapping),
                identity: Arc::clone(&self.identity),
                number,
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
    pub fn number(&self) -> usize {
        self.number
    }

    fn start(&self) -> *mut u8 {
        self.mapping.start().wrapping_add(self.number * self.bytes)
    }

    pub(super) fn is_of(&self, array: &Arc<Identity>) -> bool {
        Arc::ptr_eq(&self.identity, array)
    }

    /// The content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`, and `number` is below the array's entries. This slot's part of it is written only under a mutable borrow of
        // `self`: by `bytes_mut`, or by a program of its array, which writes only to slots[arguments[0]] (bpf/*.c).
        unsafe { std::slice::from_raw_parts(self.start(), self.bytes) }
    }

    /// The content, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and no other reference exists while `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.bytes) }
    }
}

/// `BPF_F_MMAPABLE` (Linux 5.5)
pub(super) const MMAPABLE: u32 = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// As where pages have 16 or 64 KiB, on arm64.
    #[test]
    fn values_need_not_fill_pages() {
        let array = match Array::create(u32::try_from(crate::page_bytes()).unwrap() + 8, 3) {
            Err(Errno::PERM) => return println!("SKIP: needs CAP_BPF"),
            array => array.unwrap(),
        };
        let mut slots = array.into_slots().unwrap();
        for (slot, byte) in slots.iter_mut().zip(1..) {
            slot.bytes_mut().fill(byte);
        }
        for (slot, byte) in slots.iter().zip(1..) {
            assert!(slot.bytes().iter().all(|&found| found == byte), "{byte}");
        }
        assert_eq!(Array::create(12, 1).err(), Some(Errno::INVAL));
    }
}
