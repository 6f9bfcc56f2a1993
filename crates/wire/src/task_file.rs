//! Output of the BPF program that finds socket owners with the kernel's `task_file` iterator: mirrors
//! `bpf/task_file.bpf.c`.
//!
//! Records are contiguous, in native byte order.
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

record! {
    /// A descriptor of a socket, with its owner: `struct record`.
    pub struct Record {
        /// Id of the task's cgroup v2.
        cgroup: u64 = ne_u64 @ 0;
        /// Process id in our pid namespace; 0 if the process is not visible there.
        pid: u32 = ne_u32 @ 8;
        /// Process group id, likewise.
        pgid: u32 = ne_u32 @ 12;
        /// Process id in the initial pid namespace.
        tgid: u32 = ne_u32 @ 16;
        /// The descriptor.
        descriptor: u32 = ne_u32 @ 20;
        /// The inode of the socket.
        inode: u32 = ne_u32 @ 24;
        /// User id.
        uid: u32 = ne_u32 @ 28;
        /// The inode of its network namespace; 0 if the task is exiting.
        netns: u32 = ne_u32 @ 32;
        /// The process's name, padded with NULs.
        comm: [u8; 16] = array @ 40;
    }
}

/// Iterates over the records in `bytes`; an incomplete last record is ignored.
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
    fn incomplete_last_record_is_ignored() {
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
