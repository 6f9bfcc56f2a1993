//! The owners of sockets: one pass over the descriptors of all processes, one table.
//!
//! The kernel has no link from a socket to its owners; only each process has a table of descriptors. So all these tables
//! are read once, before or during the dump, and the result is looked up once per socket. There are three
//! [`OwnerSource`]s, each tried if the one before fails: a walk by our BPF programs, the kernel's iterator `task_file`
//! with a BPF program of ours, and `/proc/PID/fd/N`, which names the inode of the socket behind descriptor N.
//!
//! What it deliberately does not do: read `/proc/PID/task/*` (only BPF sees the descriptors of a thread that left the
//! table of its process by `unshare(CLONE_FILES)`, and of a process whose first thread has ended), enter other pid
//! namespaces (a process without a pid in ours is not listed), or find owners of sockets that have none: TIME_WAIT,
//! SYN_RECV, orphans, those in flight between processes or registered with an io_uring only, those of the kernel.
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

pub use error::ScanError;

use crate::bpf::BpfEngine;
use crate::outcome::Reason;
use crate::process_descriptors::ProcessDescriptors;
use crate::query::{Announce, Choice};
use crate::unavailable::Unavailable;
use procfs_scan::Unreadable;
use sockeye_model::{Inode, Losses, Owner, Pid, Process};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use table::Table;

/// Options of a scan of `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanOptions {
    /// Mount point of a proc file system.
    pub proc: PathBuf,
    /// Maximum number of threads; 0: one per core, at most 8.
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

/// A source of owners; the order is best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerSource {
    /// A walk over processes and their tables by our BPF programs (Linux 5.10).
    Walk,
    /// The kernel's iterator over descriptors, with a BPF program of ours (Linux 5.8).
    TaskFile,
    /// `/proc/PID/fd`.
    Procfs,
}

impl OwnerSource {
    /// The name, as `-v` shows it.
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

/// The source that found the owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerLookup {
    /// The source that was used.
    pub source: OwnerSource,
    /// The better sources that were not used, each with the reason.
    pub not_used: Vec<(OwnerSource, Reason)>,
}

/// The owners of all sockets at the time of one pass.
///
/// Memory: 36 bytes per socket descriptor, and 8 bytes per slot of a hash table that is between two and four
/// fifths full: about 50 bytes per descriptor, in three allocations; up to half as much again during
/// construction.
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
    /// is counted as a loss.
    pub fn scan(options: &ScanOptions) -> Result<Self, ScanError> {
        procfs_scan::run(options, None, Unreadable::Count)
    }

    /// Reads the descriptors of every process of our pid namespace by BPF programs that walk the kernel's task list.
    ///
    /// # Errors
    /// When our programs do not run here.
    pub fn from_bpf(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let pass = engine.pass()?;
        Ok(Self::from(&pass))
    }

    /// Reads the descriptors by the kernel's iterator `task_file`, which works on older kernels (Linux 5.8) but is slower.
    ///
    /// # Errors
    /// When our program does not run here.
    pub fn from_task_file(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let pass = engine.pass_by_task_file()?;
        Ok(Self::from(&pass))
    }

    /// Finds the owners of all sockets: by BPF if that runs and pays off, else in `/proc`. Returns them with the source that
    /// was used.
    ///
    /// # Errors
    /// When no source works.
    pub fn find(engine: &BpfEngine, choice: Choice) -> Result<(Self, OwnerLookup), ScanError> {
        let mut not_used = Vec::new();
        match choice {
            Choice::Auto if !engine.has_loaded_descriptor_walk() && !is_worth_bpf(engine) => {
                // BPF may see processes that may not be read in `/proc`: after the first of them the rest of `/proc` is
                // only read if BPF does not run.
                let owners = procfs_scan::run(&ScanOptions::default(), None, Unreadable::End);
                not_used.push((OwnerSource::Walk, Reason::FewProcesses));
                match owners {
                    Ok(owners) if owners.losses.unreadable_processes == 0 => {
                        let source = OwnerSource::Procfs;
                        return Ok((owners, OwnerLookup { source, not_used }));
                    }
                    _ => match Self::from_bpf(engine) {
                        Ok(owners) => {
                            let (source, not_used) = (OwnerSource::Walk, Vec::new());
                            return Ok((owners, OwnerLookup { source, not_used }));
                        }
                        Err(unavailable) => {
                            not_used[0].1 = Reason::Bpf(Box::new(unavailable));
                            let owners = Self::scan(&ScanOptions::default())?;
                            let source = OwnerSource::Procfs;
                            return Ok((owners, OwnerLookup { source, not_used }));
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
                not_used.push((OwnerSource::Walk, Reason::NotSelected));
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
        procfs_scan::run(options, Some(pids), Unreadable::Count)
    }

    /// Returns the owners of a socket, sorted by pid and descriptor; empty if there is none that we may see.
    #[must_use]
    pub fn of(&self, inode: Inode) -> &[Owner] {
        self.table.of(inode)
    }

    /// Returns every socket with an owner, in no order, with all its owners.
    pub fn iter(&self) -> impl Iterator<Item = (Inode, &[Owner])> {
        self.table.iter()
    }

    /// Returns the losses: processes that we could not read (`unreadable_processes`) and processes that ended during the pass
    /// (`vanished_processes`).
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Returns the number of processes whose descriptors were read.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// Returns the number of descriptors that were read, of sockets and of other files.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Returns the number of socket descriptors.
    #[must_use]
    pub fn socket_descriptors(&self) -> usize {
        self.table.len()
    }

    /// Whether `/proc` hides the processes of other users (mounted with `hidepid=2` or `4`). The number of
    /// unreadable processes is unknown then.
    #[must_use]
    pub fn hides_processes(&self) -> bool {
        self.hidden
    }
}

impl Announce for Owners {
    /// Looks sockets up whose owners will be asked for soon. Each look-up waits for memory several times; several at once wait together.
    fn announce(&self, inodes: &[u32]) {
        let mut sum = 0;
        for inode in inodes {
            let first = self.table.of(Inode(*inode)).first();
            sum ^= first.map_or(0, |owner| owner.fd.0);
        }
        std::hint::black_box(sum);
    }
}

/// A function that reads the owners by BPF.
type Read = fn(&BpfEngine) -> Result<Owners, Unavailable>;

impl From<&ProcessDescriptors> for Owners {
    fn from(pass: &ProcessDescriptors) -> Self {
        let processes: Vec<Process> = pass.processes.iter().map(|found| found.process).collect();
        Self {
            table: Table::new(&processes, &pass.descriptors),
            losses: pass.losses,
            processes: processes.len(),
            descriptors: pass.descriptors.len(),
            hidden: false,
        }
    }
}

/// Whether `/proc` probably takes longer than loading our programs (4 ms here). It costs about 15 us per process and 2.8 us
/// per open file; only the number of files of the whole host is known.
fn is_worth_bpf(engine: &BpfEngine) -> bool {
    let processes = fs::metadata("/proc").map_or(0, |proc| proc.nlink());
    let files = fs::read_to_string("/proc/sys/fs/file-nr")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    let proc_us = match processes {
        // An unknown number may be large.
        0 => u64::MAX,
        _ => processes * 15 + files * 3,
    };
    proc_us > WORTH_SLOW_BPF_US || (proc_us > WORTH_BPF_US && !engine.starts_owners_slowly())
}

const WORTH_BPF_US: u64 = 8_000;
/// The same before Linux 6.2, where loading takes 100 ms.
const WORTH_SLOW_BPF_US: u64 = 110_000;
