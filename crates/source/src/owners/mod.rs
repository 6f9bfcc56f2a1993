//! Who holds which socket: one pass over `/proc`, one table.
//!
//! The kernel knows a socket's owners only from the owners' side: each process has a table of
//! descriptors, and `/proc/PID/fd/N` names the inode of the socket behind descriptor N. So the whole
//! table is read once, before or beside the dump, and asked once per socket.
//!
//! What it deliberately does not do: read `/proc/PID/task/*` (threads share one table of descriptors;
//! those of a thread that left it by `unshare(CLONE_FILES)` are not seen), enter other pid namespaces
//! (what `/proc` does not show is not there), or find owners of sockets that have none: TIME_WAIT,
//! SYN_RECV, orphans, the kernel's own.
//!
//! ```
//! use sockeye_model::Inode;
//! use sockeye_source::owners::{Owners, ScanOptions};
//! use std::{fs::File, net::TcpListener, os::fd::OwnedFd, os::unix::fs::MetadataExt};
//!
//! let listener = OwnedFd::from(TcpListener::bind("127.0.0.1:0")?);
//! let inode = Inode(File::from(listener.try_clone()?).metadata()?.ino() as u32);
//! let owners = Owners::scan(&ScanOptions::default())?;
//! assert_eq!(owners.of(inode)[0].process.pid.0, std::process::id());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod big;
mod descriptors;
mod error;
mod pass;
mod stat;
mod table;

pub use error::ScanError;

use sockeye_model::{Inode, Losses, Owner, Pid};
use std::path::PathBuf;
use table::Table;

/// How to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanOptions {
    /// Where a proc file system is mounted.
    pub proc: PathBuf,
    /// How many threads may read at once; 0: as many as there are cores, at most 8.
    pub threads: usize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            threads: 0,
        }
    }
}

/// Which process holds which socket through which descriptor, as of one pass.
///
/// Memory: 36 bytes a socket descriptor, and 8 bytes a slot of a hash table that is between two and four
/// fifths full: about 50 bytes a descriptor, in three allocations. Up to half as much again while it is
/// built.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    table: Table,
    losses: Losses,
    processes: usize,
    descriptors: usize,
    hidden: bool,
}

impl Owners {
    /// Reads the descriptors of every process that we may read.
    ///
    /// # Errors
    /// When there is no proc file system at [`ScanOptions::proc`]. A process that ends or may not be read
    /// is no error, but counted.
    pub fn scan(options: &ScanOptions) -> Result<Self, ScanError> {
        pass::run(options, None)
    }

    /// Reads the descriptors of these processes only.
    ///
    /// # Errors
    /// As [`Owners::scan`]; a process that does not exist is counted as vanished.
    pub fn scan_pids(pids: &[Pid], options: &ScanOptions) -> Result<Self, ScanError> {
        pass::run(options, Some(pids))
    }

    /// All who hold this socket, by pid and descriptor. Empty: nobody that we may see.
    #[must_use]
    pub fn of(&self, inode: Inode) -> &[Owner] {
        self.table.of(inode)
    }

    /// Every socket that somebody holds, in no order, with all who do.
    pub fn iter(&self) -> impl Iterator<Item = (Inode, &[Owner])> {
        self.table.iter()
    }

    /// Processes we could not read (`unreadable_processes`) and processes that ended under our hands
    /// (`vanished_processes`).
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Processes whose descriptors were read.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// Descriptors that were read, of sockets and of everything else.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Descriptors of sockets among them.
    #[must_use]
    pub fn socket_descriptors(&self) -> usize {
        self.table.len()
    }

    /// Whether `/proc` keeps other users' processes out of sight (mounted with `hidepid=2` or `4`): then
    /// there are unreadable processes that nobody can count.
    #[must_use]
    pub fn hides_processes(&self) -> bool {
        self.hidden
    }
}
