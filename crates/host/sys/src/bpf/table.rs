//! BPF maps of any type, as an object defines them, read and written by system calls.

use super::call::{self, MapAttributes};
use super::memory_lock;
use crate::processors::possible;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A BPF map: hash, array, stack traces, per CPU or not. Keys and values are bytes; their lengths are checked against
/// the map's before each system call.
#[derive(Debug)]
pub struct Table {
    fd: OwnedFd,
    kind: u32,
    key_bytes: usize,
    /// Length of one value in the program.
    value_bytes: usize,
    entries: u32,
    /// Number of values of each key: 1, or the number of possible processors.
    copies: usize,
}

/// The definition of a map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
}

impl Definition<'_> {
    /// Whether it is a hash map that allocates an entry when a program needs it.
    pub(super) const fn allocates_when_needed(&self) -> bool {
        matches!(self.kind, HASH | PERCPU_HASH) && self.flags & NO_PREALLOC != 0
    }

    /// Returns the definition of the same map with all entries allocated at once.
    pub(super) const fn preallocated(self) -> Self {
        Self {
            flags: self.flags & !NO_PREALLOC,
            ..self
        }
    }
}

impl Table {
    pub(super) fn create(definition: &Definition<'_>) -> Result<Self, Errno> {
        let by_processor = matches!(definition.kind, PERCPU_HASH | PERCPU_ARRAY | LRU_PERCPU_HASH);
        let copies = if by_processor {
            possible().ok_or(Errno::INVAL)?
        } else {
            1
        };
        let types = (definition.kind == SOCKET_STORAGE)
            .then(|| storage_types(definition.value_bytes))
            .map(|types| call::load_types(&types))
            .transpose()?;
        let mut attributes = MapAttributes {
            map_type: definition.kind,
            key_bytes: definition.key_bytes,
            value_bytes: definition.value_bytes,
            entries: definition.entries,
            flags: definition.flags,
            name: call::object_name(&sanitized(definition.name)),
            ..MapAttributes::default()
        };
        if let Some(types) = &types {
            attributes.types_fd = types.as_raw_fd() as u32;
            (attributes.key_type, attributes.value_type) = (STORAGE_KEY, STORAGE_VALUE);
        }
        let fd = memory_lock::with_raised_limit(|| call::create_map(&mut attributes))?;
        Ok(Self {
            fd,
            kind: definition.kind,
            key_bytes: definition.key_bytes as usize,
            value_bytes: definition.value_bytes as usize,
            entries: definition.entries,
            copies,
        })
    }

    /// Length in bytes of all values of one key: one value, or one for each possible processor, each padded to eight
    /// bytes.
    #[must_use]
    pub const fn values_bytes(&self) -> usize {
        self.copy_bytes() * self.copies
    }

    /// Length in bytes of one value of a key, including padding.
    #[must_use]
    pub const fn copy_bytes(&self) -> usize {
        if self.copies == 1 && !matches!(self.kind, PERCPU_HASH | PERCPU_ARRAY | LRU_PERCPU_HASH) {
            self.value_bytes
        } else {
            self.value_bytes.next_multiple_of(8)
        }
    }

    /// Returns the size of a ring buffer; `None` for a map of another type.
    pub(super) fn ring_bytes(&self) -> Option<usize> {
        (self.kind == RING_BUFFER).then_some(self.entries as usize)
    }

    /// Reads the values of a key into `values`. Returns whether the key exists.
    ///
    /// # Errors
    /// `EINVAL` if the key is not as long as the map's, or `values` not [`values_bytes`](Self::values_bytes) long; else the errno of `bpf(2)`.
    pub fn lookup(&self, key: &[u8], values: &mut [u8]) -> Result<bool, Errno> {
        if key.len() != self.key_bytes || values.len() != self.values_bytes() || self.kind == RING_BUFFER {
            return Err(Errno::INVAL);
        }
        found(call::lookup(self.fd.as_fd(), key, values))
    }

    /// Sets the values of a key, new or existing.
    ///
    /// # Errors
    /// As for [`lookup`](Self::lookup); `E2BIG` if the map is full.
    pub fn update(&self, key: &[u8], values: &[u8]) -> Result<(), Errno> {
        if key.len() != self.key_bytes || values.len() != self.values_bytes() || self.kind == RING_BUFFER {
            return Err(Errno::INVAL);
        }
        call::update(self.fd.as_fd(), key, values)
    }

    /// Deletes a key. Returns whether it existed.
    ///
    /// # Errors
    /// As for [`lookup`](Self::lookup).
    pub fn delete(&self, key: &[u8]) -> Result<bool, Errno> {
        if key.len() != self.key_bytes {
            return Err(Errno::INVAL);
        }
        found(call::delete(self.fd.as_fd(), key))
    }

    /// Calls `take` with each key and its values. Keys that are added or deleted meanwhile may be included or not, and
    /// after a deletion some keys may be repeated.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn each(&self, mut take: impl FnMut(&[u8], &[u8])) -> Result<(), Errno> {
        if self.key_bytes == 0 {
            return Err(Errno::INVAL);
        }
        match self.each_in_batches(&mut take) {
            // This map type or this kernel has no batches (before Linux 5.6; EINVAL: unknown command).
            Err(Batch::Unsupported) => self.each_by_key(&mut take),
            Err(Batch::Failed(errno)) => Err(errno),
            Ok(()) => Ok(()),
        }
    }

    fn each_in_batches(&self, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Batch> {
        let values_bytes = self.values_bytes().max(1);
        let mut capacity =
            (BATCH_BYTES / (self.key_bytes + values_bytes)).clamp(1, self.entries.max(1) as usize);
        let mut keys = vec![0; capacity * self.key_bytes];
        let mut values = vec![0; capacity * values_bytes];
        let mut position: Option<Vec<u8>> = None;
        let mut next = vec![0; self.key_bytes.max(4)];
        loop {
            let batch = call::Batch {
                from: position.as_deref(),
                next: &mut next,
                keys: &mut keys,
                values: &mut values,
                capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            };
            let (count, ended) = match call::lookup_batch(self.fd.as_fd(), batch) {
                Ok((count, ended)) => (count as usize, ended),
                // The next bucket alone has more elements.
                Err(Errno::NOSPC) if capacity < self.entries as usize => {
                    capacity = (capacity * 2).min(self.entries as usize);
                    keys.resize(capacity * self.key_bytes, 0);
                    values.resize(capacity * values_bytes, 0);
                    continue;
                }
                Err(_) if position.is_none() => return Err(Batch::Unsupported),
                Err(errno) => return Err(Batch::Failed(errno)),
            };
            for (key, value) in keys
                .chunks_exact(self.key_bytes)
                .zip(values.chunks_exact(values_bytes))
                .take(count)
            {
                take(key, value);
            }
            if ended {
                return Ok(());
            }
            position = Some(next.clone());
        }
    }

    fn each_by_key(&self, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Errno> {
        let mut values = vec![0; self.values_bytes()];
        let mut last: Option<Vec<u8>> = None;
        let mut key = vec![0; self.key_bytes];
        // If the last key is deleted meanwhile, the kernel starts over: the number of rounds is bounded.
        for _ in 0..u64::from(self.entries) * ROUNDS {
            if !found(call::next_key(self.fd.as_fd(), last.as_deref(), &mut key))? {
                return Ok(());
            }
            if self.lookup(&key, &mut values)? {
                take(&key, &values);
            }
            last = Some(key.clone());
        }
        Ok(())
    }

    /// Makes the map read-only for system calls: the verifier then treats its content as constants.
    pub(super) fn freeze(&self) -> Result<(), Errno> {
        call::freeze(self.fd.as_fd())
    }
}

impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the BTF of a map that is stored with sockets, for which the kernel requires it: a 32-bit number as key, an array of bytes as
/// value (`bpf_local_storage_map_check_btf` in kernel/bpf/bpf_local_storage.c).
fn storage_types(value_bytes: u32) -> Vec<u8> {
    // struct btf_type: name, kind, size; then what the kind has.
    let number = |name, bytes: u32| [name, 1 << 24, bytes, bytes * 8];
    let array = [0, 3 << 24, 0, 2, 1, value_bytes];
    let types = [&number(1, 4)[..], &number(5, 1), &array].concat();
    let names = b"\0key\0byte\0\0";
    let (types_bytes, names_bytes) = (types.len() as u32 * 4, names.len() as u32);
    // struct btf_header
    let mut all = 0xeb9f_u16.to_ne_bytes().to_vec();
    all.extend([1, 0]);
    for word in [24, 0, types_bytes, types_bytes, names_bytes]
        .iter()
        .chain(&types)
    {
        all.extend(word.to_ne_bytes());
    }
    all.extend(names);
    all
}

/// Why reading in batches failed.
enum Batch {
    Unsupported,
    Failed(Errno),
}

fn found(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Replaces characters that the kernel does not accept in names: all but letters, digits, dots and underscores.
fn sanitized(name: &str) -> Vec<u8> {
    let sanitized = |byte: u8| {
        if byte.is_ascii_alphanumeric() || byte == b'.' {
            byte
        } else {
            b'_'
        }
    };
    name.bytes().map(sanitized).collect()
}

/// Size of a batch.
const BATCH_BYTES: usize = 256 * 1024;

/// Most passes over a map that changes while it is read.
const ROUNDS: u64 = 4;

// `enum bpf_map_type`
const HASH: u32 = 1;
const PERCPU_HASH: u32 = 5;
const PERCPU_ARRAY: u32 = 6;
const LRU_PERCPU_HASH: u32 = 10;
const SOCKET_STORAGE: u32 = 24;
const RING_BUFFER: u32 = 27;
/// `BPF_F_NO_PREALLOC`
const NO_PREALLOC: u32 = 1;

// Types of `storage_types`, in their order.
const STORAGE_KEY: u32 = 1;
const STORAGE_VALUE: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_sanitized_for_the_kernel() {
        assert_eq!(sanitized("b/r o.data"), b"b_r_o.data");
    }
}
