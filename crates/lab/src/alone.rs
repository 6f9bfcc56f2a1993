//! A lock between processes (`flock` on a file in the temporary folder) for tests that must not run at the
//! same time. The tests of `bench tun` use it.

use crate::or_panic::OrPanic;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;

/// A turn of a test among those that must not overlap; ends when dropped. See [`alone`].
#[derive(Debug)]
pub struct Alone {
    _lock: File,
}

/// Waits until no other test of this group runs, in whatever process: for tests that each need all processors.
#[track_caller]
pub fn alone(group: &str) -> Alone {
    let path = std::env::temp_dir().join(format!("sockeye-alone-{group}"));
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .or_panic(path.display());
    flock(&file, FlockOperation::LockExclusive).or_panic(path.display());
    Alone { _lock: file }
}
