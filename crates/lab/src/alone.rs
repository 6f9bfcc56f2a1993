use crate::must::Must;
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
        .must(path.display());
    flock(&file, FlockOperation::LockExclusive).must(path.display());
    Alone { _lock: file }
}
