//! Output of the BPF program that finds open references to network namespaces: mirrors `bpf/netns_file.bpf.c`.
//!
//! Records are contiguous, in native byte order.

use crate::bytes::{array, ne_u32};

/// A descriptor that keeps a namespace alive: `struct record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Process id in our pid namespace.
    pub pid: u32,
    /// The descriptor.
    pub descriptor: u32,
    /// The inode of the namespace; of a [`Kind::Namespace`] it may be of another type than network.
    pub netns: u32,
    /// What the descriptor refers to.
    pub kind: Kind,
    /// The process's name, padded with NULs.
    pub comm: [u8; 16],
}

/// What a descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A namespace.
    Namespace,
    /// A socket in the namespace, with its inode, of a process in another namespace.
    Socket(u32),
}

impl Record {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            pid: ne_u32(bytes, 0)?,
            descriptor: ne_u32(bytes, 4)?,
            netns: ne_u32(bytes, 8)?,
            kind: match ne_u32(bytes, 12)? {
                1 => Kind::Namespace,
                2 => Kind::Socket(ne_u32(bytes, 16)?),
                _ => return None,
            },
            comm: array(bytes, 24)?,
        })
    }
}

/// Iterates over the records in `bytes`; an incomplete last record is ignored.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    bytes.chunks_exact(RECORD_BYTES).filter_map(Record::read)
}

/// `sizeof(struct record)`
pub const RECORD_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn record_of_unknown_kind_is_skipped() {
        let mut bytes = Vec::new();
        for kind in [1_u32, 2, 3] {
            for number in [7, 8, 9, kind, 5, 0] {
                bytes.extend(number.to_ne_bytes());
            }
            bytes.extend(b"a)\x1b\n\0\0\0\0\0\0\0\0\0\0\0\0");
        }
        bytes.extend([0xff; RECORD_BYTES - 1]);
        let kinds: Vec<_> = records(&bytes).map(|record| record.kind).collect();
        assert_eq!(kinds, [Kind::Namespace, Kind::Socket(5)]);
        let first = records(&bytes).next().unwrap();
        assert_eq!((first.pid, first.descriptor, first.netns), (7, 8, 9));
        assert_eq!(first.comm[..4], *b"a)\x1b\n");
    }
}
