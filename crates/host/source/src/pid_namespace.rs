//! Our pid namespace: the process ids that we see belong to it.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns the inode of our pid namespace; 0 for the initial one.
#[must_use]
pub fn own_pid_namespace() -> u32 {
    let inode = fs::metadata("/proc/self/ns/pid").map_or(INITIAL, |data| data.ino());
    match inode {
        INITIAL => 0,
        other => u32::try_from(other).unwrap_or(0),
    }
}

/// `PROC_PID_INIT_INO` of include/linux/proc_ns.h
const INITIAL: u64 = 0xefff_fffc;
