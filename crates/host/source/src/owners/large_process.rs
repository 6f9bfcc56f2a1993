//! Splits the descriptors of a very large process into ranges, which all threads of `procfs_scan.rs` read in
//! parallel. Otherwise one process with most of the sockets would keep one thread busy and the others idle.

use super::descriptors::Descriptors;
use crate::process_descriptors::SocketDescriptor;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process with at least this many descriptors is read by all threads together.
pub(super) const COUNT_MIN: u32 = 2048;

/// Maximum number of large processes per thread: each keeps a descriptor open, and with more of them there are enough
/// processes to keep every thread busy.
pub(super) const LARGE_MAX: usize = 64;

/// Number of descriptors that a thread takes at a time.
const RANGE: u32 = 1024;

/// A process with very many descriptors.
#[derive(Debug)]
pub(super) struct LargeProcess {
    pub(super) descriptors: Descriptors,
    pub(super) count: u32,
    found: AtomicU32,
    failure: OnceLock<Errno>,
}

/// Returns the ranges to read, each with the index of its process. They end at the counts.
pub(super) fn ranges(large: &[LargeProcess]) -> impl Iterator<Item = (u32, Range<u32>)> {
    (0..).zip(large).flat_map(|(index, big)| {
        let starts = (0..big.count).step_by(RANGE as usize);
        starts.map(move |start| (index, start..start.saturating_add(RANGE).min(big.count)))
    })
}

impl LargeProcess {
    pub(super) fn new(descriptors: Descriptors, count: u32) -> Self {
        Self {
            descriptors,
            count,
            found: AtomicU32::new(0),
            failure: OnceLock::new(),
        }
    }

    /// Reads one range; must be called once for each of [`ranges`].
    pub(super) fn read(
        &self,
        index: u32,
        range: Range<u32>,
        buffer: &mut Vec<u8>,
        held: &mut Vec<SocketDescriptor>,
    ) {
        if self.failure.get().is_some() {
            return;
        }
        let expected = u32::MAX; // unknown for a single range
        self.note(self.descriptors.probe(range, expected, buffer, &mut |fd, inode| {
            held.push(SocketDescriptor {
                inode,
                process: index,
                fd,
            });
        }));
    }

    /// Reads the numbers above the ranges, also if all were found: some may be new.
    pub(super) fn read_rest(&self, index: u32, buffer: &mut Vec<u8>, held: &mut Vec<SocketDescriptor>) {
        if self.failure.get().is_some() {
            return;
        }
        self.note(
            self.descriptors
                .list(self.count..u32::MAX, buffer, &mut |fd, inode| {
                    held.push(SocketDescriptor {
                        inode,
                        process: index,
                        fd,
                    });
                }),
        );
    }

    /// Returns how many descriptors were found, or why they could not be read.
    pub(super) fn outcome(&self) -> Result<u32, Errno> {
        match self.failure.get() {
            Some(&errno) => Err(errno),
            None => Ok(self.found.load(Ordering::Relaxed)),
        }
    }

    fn note(&self, outcome: Result<u32, Errno>) {
        match outcome {
            Ok(found) => {
                self.found.fetch_add(found, Ordering::Relaxed);
            }
            // The first error is reported.
            Err(errno) => drop(self.failure.set(errno)),
        }
    }
}
