//! A BPF array map with one value: settings and counters of the keepalive program, which `source` loads and
//! `act` reads and changes. Maps of other kinds are in `table.rs`, maps in shared memory in `array.rs`.

use super::call::{self, MAP_TYPE_ARRAY, MapAttributes};
use super::memory_lock;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An array map with a single small value, read and written by system calls.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
}

impl Map {
    /// Creates the map; its value is all zeros.
    pub(super) fn create(name: &str, value_bytes: u32) -> Result<Self, Errno> {
        let mut attributes = MapAttributes {
            map_type: MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes,
            entries: 1,
            name: call::object_name(name.as_bytes()),
            ..MapAttributes::default()
        };
        let fd = memory_lock::with_raised_limit(|| call::create_map(&mut attributes))?;
        Ok(Self { fd })
    }

    pub(super) fn by_id(id: u32) -> Result<Self, Errno> {
        call::map_by_id(id).map(|fd| Self { fd })
    }

    pub(super) fn has_name(&self, name: &str) -> Result<bool, Errno> {
        Ok(call::map_info(self.fd.as_fd())?.name == call::object_name(name.as_bytes()))
    }

    /// Reads the value.
    ///
    /// # Errors
    /// `EINVAL` if the map has values of another length; else the errno of `bpf(2)`.
    pub fn read<const N: usize>(&self) -> Result<[u8; N], Errno> {
        let mut value = [0; N];
        call::read_first(self.fd.as_fd(), &mut value)?;
        Ok(value)
    }

    /// Writes the value.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&self, value: &[u8]) -> Result<(), Errno> {
        call::write_first(self.fd.as_fd(), value)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
