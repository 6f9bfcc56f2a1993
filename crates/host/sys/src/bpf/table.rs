//! Maps of keys and values, as an object defines them, read and written by system calls.

use super::call::{self, MapAttributes};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A map in the kernel: hash, array, stacks, by processor or not. Its keys and values are bytes, of lengths that
/// are the map's own: every length is checked before the kernel sees it.
#[derive(Debug)]
pub struct Table {
    fd: OwnedFd,
    kind: u32,
    key_bytes: usize,
    /// Of one value, as the program sees it.
    value_bytes: usize,
    entries: u32,
    /// How many values there are for each key.
    copies: usize,
}

/// How a map is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
}

impl Table {
    pub(super) fn create(definition: &Definition<'_>) -> Result<Self, Errno> {
        let by_processor = matches!(definition.kind, PERCPU_HASH | PERCPU_ARRAY | LRU_PERCPU_HASH);
        let copies = if by_processor { possible_processors()? } else { 1 };
        let fd = call::create_map(&mut MapAttributes {
            map_type: definition.kind,
            key_bytes: definition.key_bytes,
            value_bytes: definition.value_bytes,
            entries: definition.entries,
            flags: definition.flags,
            name: call::object_name(&harmless(definition.name)),
            ..MapAttributes::default()
        })?;
        Ok(Self {
            fd,
            kind: definition.kind,
            key_bytes: definition.key_bytes as usize,
            value_bytes: definition.value_bytes as usize,
            entries: definition.entries,
            copies,
        })
    }

    /// How long a key is.
    #[must_use]
    pub const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// How long all the values of one key are: one, or one for each possible processor, each on whole eight bytes.
    #[must_use]
    pub const fn values_bytes(&self) -> usize {
        self.copy_bytes() * self.copies
    }

    /// How long each of the values of one key is, with what is between them.
    #[must_use]
    pub const fn copy_bytes(&self) -> usize {
        if self.copies == 1 && !matches!(self.kind, PERCPU_HASH | PERCPU_ARRAY | LRU_PERCPU_HASH) {
            self.value_bytes
        } else {
            self.value_bytes.next_multiple_of(8)
        }
    }

    /// For how many keys there is room.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.entries
    }

    /// Reads what a key has into `values`; whether it has anything.
    ///
    /// # Errors
    /// `EINVAL` if the key is not [`key_bytes`](Self::key_bytes) or `values` not [`values_bytes`](Self::values_bytes)
    /// long; else the errno of `bpf(2)`.
    pub fn lookup(&self, key: &[u8], values: &mut [u8]) -> Result<bool, Errno> {
        if key.len() != self.key_bytes || values.len() != self.values_bytes() || self.kind == RING_BUFFER {
            return Err(Errno::INVAL);
        }
        found(call::lookup(self.fd.as_fd(), key, values))
    }

    /// Gives a key its values, whether it had others or none.
    ///
    /// # Errors
    /// As of [`lookup`](Self::lookup); `E2BIG` if there is no room.
    pub fn update(&self, key: &[u8], values: &[u8]) -> Result<(), Errno> {
        if key.len() != self.key_bytes || values.len() != self.values_bytes() || self.kind == RING_BUFFER {
            return Err(Errno::INVAL);
        }
        call::update(self.fd.as_fd(), key, values)
    }

    /// Takes a key out; whether it was there.
    ///
    /// # Errors
    /// As of [`lookup`](Self::lookup).
    pub fn delete(&self, key: &[u8]) -> Result<bool, Errno> {
        if key.len() != self.key_bytes {
            return Err(Errno::INVAL);
        }
        found(call::delete(self.fd.as_fd(), key))
    }

    /// Calls `take` with each key and its values; those that come or go meanwhile may be among them or not, and after a
    /// key has gone under our hands others may come again.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn each(&self, mut take: impl FnMut(&[u8], &[u8])) -> Result<(), Errno> {
        if self.key_bytes == 0 {
            return Err(Errno::INVAL);
        }
        match self.each_in_batches(&mut take) {
            // Not for maps of this kind, or not in this kernel (before Linux 5.6; EINVAL: it does not know the command).
            Err(Batch::NotHere) => self.each_by_key(&mut take),
            Err(Batch::Failed(errno)) => Err(errno),
            Ok(()) => Ok(()),
        }
    }

    fn each_in_batches(&self, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Batch> {
        let values_bytes = self.values_bytes().max(1);
        let mut room = (BATCH_BYTES / (self.key_bytes + values_bytes)).clamp(1, self.entries.max(1) as usize);
        let mut keys = vec![0; room * self.key_bytes];
        let mut values = vec![0; room * values_bytes];
        let mut place: Option<Vec<u8>> = None;
        let mut next = vec![0; self.key_bytes.max(4)];
        loop {
            let batch = call::Batch {
                from: place.as_deref(),
                next: &mut next,
                keys: &mut keys,
                values: &mut values,
                room: u32::try_from(room).unwrap_or(u32::MAX),
            };
            let (count, ended) = match call::lookup_batch(self.fd.as_fd(), batch) {
                Ok((count, ended)) => (count as usize, ended),
                // The next bucket alone has more.
                Err(Errno::NOSPC) if room < self.entries as usize => {
                    room = (room * 2).min(self.entries as usize);
                    keys.resize(room * self.key_bytes, 0);
                    values.resize(room * values_bytes, 0);
                    continue;
                }
                Err(_) if place.is_none() => return Err(Batch::NotHere),
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
            place = Some(next.clone());
        }
    }

    fn each_by_key(&self, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Errno> {
        let mut values = vec![0; self.values_bytes()];
        let mut last: Option<Vec<u8>> = None;
        let mut key = vec![0; self.key_bytes];
        // A key that goes under our hands sends us to the beginning: not for ever.
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

    /// Nothing can be written any more by system calls: the verifier takes what is there for constants.
    pub(super) fn freeze(&self) -> Result<(), Errno> {
        call::freeze(self.fd.as_fd())
    }
}

impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Why no batches.
enum Batch {
    NotHere,
    Failed(Errno),
}

fn found(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The kernel takes letters, digits, dots and underscores.
fn harmless(name: &str) -> Vec<u8> {
    let harmless = |byte: u8| {
        if byte.is_ascii_alphanumeric() || byte == b'.' {
            byte
        } else {
            b'_'
        }
    };
    name.bytes().map(harmless).collect()
}

/// How many processors this host could ever have: of so many the kernel keeps values.
///
/// # Errors
/// When `/sys` does not tell.
pub fn possible_processors() -> Result<usize, Errno> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    highest(text.trim()).map(|last| last + 1).ok_or(Errno::INVAL)
}

/// The highest number of a list like `0-3,7`.
fn highest(list: &str) -> Option<usize> {
    list.split([',', '-'])
        .map(|number| number.parse().ok())
        .collect::<Option<Vec<usize>>>()?
        .into_iter()
        .max()
        .filter(|last| *last < PROCESSORS_MAX)
}

/// More than any kernel can be built for (`NR_CPUS`).
const PROCESSORS_MAX: usize = 1 << 16;

/// How much is asked for at once.
const BATCH_BYTES: usize = 256 * 1024;

/// How often as many keys as there is room for are gone through.
const ROUNDS: u64 = 4;

// `enum bpf_map_type`
const PERCPU_HASH: u32 = 5;
const PERCPU_ARRAY: u32 = 6;
const LRU_PERCPU_HASH: u32 = 10;
const RING_BUFFER: u32 = 27;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(highest("0"), Some(0));
        assert_eq!(highest("0-127"), Some(127));
        assert_eq!(highest("0-3,8-11"), Some(11));
        assert_eq!(highest(""), None);
        assert_eq!(highest("0-99999999"), None);
    }

    #[test]
    fn names_that_the_kernel_takes() {
        assert_eq!(harmless("b/r o.data"), b"b_r_o.data");
    }
}
