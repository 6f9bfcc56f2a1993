//! Who holds which socket: one pass over all processes, one table.
//!
//! The kernel knows a socket's owners only from the owners' side: each process has a table of
//! descriptors. So all these tables are read once, before or beside the dump, and the result is asked once
//! per socket. There are three [`OwnerSource`]s, each tried when the one before fails: a walk by BPF programs of our own,
//! the kernel's iterator `task_file` with one of ours, and `/proc/PID/fd/N`, which names the inode of the
//! socket behind descriptor N.
//!
//! What it deliberately does not do: read `/proc/PID/task/*` (so that of a thread that left its process's table
//! by `unshare(CLONE_FILES)`, and of a process whose first thread has ended, only BPF tells), enter other pid
//! namespaces (who has no number in ours is not there), or find owners of sockets that have none: TIME_WAIT,
//! SYN_RECV, orphans, those in flight between processes or registered with an io_uring only, the kernel's own.
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

mod descriptors;
mod error;
mod large_process;
mod procfs_scan;
mod stat;
mod table;

pub(crate) use descriptors::{Decimal, number};
pub use error::ScanError;
pub(crate) use procfs_scan::{for_each, processes};

use crate::bpf::{BpfEngine, Pass, Unavailable};
use crate::outcome::Reason;
use crate::query::Choice;
use sockeye_model::{Inode, Losses, Owner, Pid, Process};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
pub(crate) use table::SocketDescriptor;
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

/// A source to owners, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerSource {
    /// A walk over processes and their tables by BPF programs of our own: Linux 6.2.
    Walk,
    /// The kernel's iterator over descriptors, with a BPF program of ours: Linux 5.8.
    TaskFile,
    /// `/proc/PID/fd`.
    Procfs,
}

impl OwnerSource {
    /// Name, as `-v` shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Walk => "bpf",
            Self::TaskFile => "task-file",
            Self::Procfs => "procfs",
        }
    }
}

impl fmt::Display for OwnerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which source owners were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerLookup {
    /// The one that led there.
    pub source: OwnerSource,
    /// The better ones that did not, each with the reason.
    pub not_used: Vec<(OwnerSource, Reason)>,
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
        procfs_scan::run(options, None)
    }

    /// Reads the descriptors of every process of our pid namespace by a BPF program that goes along the kernel's own
    /// list.
    ///
    /// # Errors
    /// When our programs do not run here.
    pub fn from_bpf(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let pass = engine.pass()?;
        Ok(Self::from(&pass))
    }

    /// The same by the kernel's iterator `task_file`, which needs less of the kernel (Linux 5.8) and more time.
    ///
    /// # Errors
    /// When our program does not run here.
    pub fn from_task_file(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let pass = engine.pass_by_task_file()?;
        Ok(Self::from(&pass))
    }

    /// Looks for the owners of all sockets: by BPF where that runs and is worth its start, else in `/proc`. Beside them
    /// comes which source it was.
    ///
    /// # Errors
    /// When they cannot be had in any source.
    pub fn find(engine: &BpfEngine, choice: Choice) -> Result<(Self, OwnerLookup), ScanError> {
        let mut not_used = Vec::new();
        match choice {
            Choice::Auto if !engine.has_loaded_holders() && !is_worth_bpf() => {
                let owners = Self::scan(&ScanOptions::default());
                not_used.push((OwnerSource::Walk, Reason::FewProcesses));
                // What may not be read in `/proc` BPF may still see.
                match owners {
                    Ok(owners) if owners.losses.unreadable_processes == 0 => {
                        let source = OwnerSource::Procfs;
                        return Ok((owners, OwnerLookup { source, not_used }));
                    }
                    owners => match Self::from_bpf(engine) {
                        Ok(owners) => {
                            let (source, not_used) = (OwnerSource::Walk, Vec::new());
                            return Ok((owners, OwnerLookup { source, not_used }));
                        }
                        Err(unavailable) => {
                            not_used[0].1 = Reason::Bpf(Box::new(unavailable));
                            let source = OwnerSource::Procfs;
                            return Ok((owners?, OwnerLookup { source, not_used }));
                        }
                    },
                }
            }
            Choice::Auto | Choice::Bpf => {
                let sources: [(OwnerSource, Read); 2] = [
                    (OwnerSource::Walk, Self::from_bpf),
                    (OwnerSource::TaskFile, Self::from_task_file),
                ];
                for (source, read) in sources {
                    match read(engine) {
                        Ok(owners) => return Ok((owners, OwnerLookup { source, not_used })),
                        Err(unavailable) => not_used.push((source, Reason::Bpf(Box::new(unavailable)))),
                    }
                }
            }
            Choice::Diag | Choice::DiagV2 | Choice::Procfs => {
                not_used.push((OwnerSource::Walk, Reason::NotSelected))
            }
        }
        let owners = Self::scan(&ScanOptions::default())?;
        let source = OwnerSource::Procfs;
        Ok((owners, OwnerLookup { source, not_used }))
    }

    /// Reads the descriptors of these processes only.
    ///
    /// # Errors
    /// As [`Owners::scan`]; a process that does not exist is counted as vanished.
    pub fn scan_pids(pids: &[Pid], options: &ScanOptions) -> Result<Self, ScanError> {
        procfs_scan::run(options, Some(pids))
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

/// A source to owners that takes BPF.
type Read = fn(&BpfEngine) -> Result<Owners, Unavailable>;

impl From<&Pass> for Owners {
    fn from(pass: &Pass) -> Self {
        let processes: Vec<Process> = pass.processes.iter().map(|found| found.process).collect();
        Self {
            table: Table::new(&processes, &pass.held),
            losses: pass.losses,
            processes: processes.len(),
            descriptors: pass.held.len(),
            hidden: false,
        }
    }
}

/// Whether `/proc` would take longer than programs take to load (4 ms here): it costs about 15 us a process and 2.8 us
/// an open file, which are counted for all of the host.
fn is_worth_bpf() -> bool {
    let processes = fs::metadata("/proc").map_or(0, |proc| proc.nlink());
    let files = fs::read_to_string("/proc/sys/fs/file-nr")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    // What cannot be counted may be much.
    processes == 0 || processes * 15 + files * 3 > WORTH_BPF_US
}

const WORTH_BPF_US: u64 = 8_000;
