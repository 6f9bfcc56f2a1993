//! What the program that looks for owners by the kernel's iterator over descriptors writes: `bpf/task_file.bpf.c`,
//! from this side.
//!
//! Records follow each other without anything between them, in native byte order.
//!
//! ```
//! use sockeye_wire::task_file;
//!
//! let mut bytes = [0; task_file::RECORD_BYTES];
//! bytes[8..12].copy_from_slice(&1234_u32.to_ne_bytes());
//! let records: Vec<_> = task_file::records(&bytes).collect();
//! assert_eq!(records[0].pid, 1234);
//! ```

use crate::bytes::{array, ne_u32, ne_u64};

/// A descriptor of a socket, and whose it is: `struct record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The cgroup v2 of the task.
    pub cgroup: u64,
    /// The process's number in our pid namespace; 0: it is not to be seen from there.
    pub pid: u32,
    /// Its group's number, likewise.
    pub pgid: u32,
    /// Its number in the first pid namespace.
    pub tgid: u32,
    /// The descriptor.
    pub descriptor: u32,
    /// The inode of the socket.
    pub inode: u32,
    /// Its user.
    pub uid: u32,
    /// The inode of its network namespace; 0: it is ending.
    pub netns: u32,
    /// The process's name, padded with NULs.
    pub comm: [u8; 16],
}

impl Record {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            cgroup: ne_u64(bytes, 0)?,
            pid: ne_u32(bytes, 8)?,
            pgid: ne_u32(bytes, 12)?,
            tgid: ne_u32(bytes, 16)?,
            descriptor: ne_u32(bytes, 20)?,
            inode: ne_u32(bytes, 24)?,
            uid: ne_u32(bytes, 28)?,
            netns: ne_u32(bytes, 32)?,
            comm: array(bytes, 40)?,
        })
    }
}

/// The records that `bytes` begins with; what is left over is the beginning of one.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    bytes.chunks_exact(RECORD_BYTES).filter_map(Record::read)
}

/// `sizeof(struct record)`
pub const RECORD_BYTES: usize = 56;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_record_and_the_beginning_of_another() {
        let mut bytes = Vec::new();
        bytes.extend(0x1122_3344_5566_7788_u64.to_ne_bytes());
        for number in [1_u32, 2, 3, 4, 5, 6, 7, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(b"a)\x1b\n\0\0\0\0\0\0\0\0\0\0\0\0");
        let record = Record {
            cgroup: 0x1122_3344_5566_7788,
            pid: 1,
            pgid: 2,
            tgid: 3,
            descriptor: 4,
            inode: 5,
            uid: 6,
            netns: 7,
            comm: *b"a)\x1b\n\0\0\0\0\0\0\0\0\0\0\0\0",
        };
        assert_eq!(records(&bytes).collect::<Vec<_>>(), [record]);
        bytes.extend([0xff; RECORD_BYTES - 1]);
        assert_eq!(records(&bytes).collect::<Vec<_>>(), [record]);
        assert_eq!(records(&[]).count(), 0);
    }
}
