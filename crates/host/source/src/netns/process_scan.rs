//! A pass over all processes: their network namespaces, those of their threads, and the namespaces that they hold open.

use crate::proc_folder::{Decimal, number, open_proc, open_to_list, processes};
use crate::process_netns::{netns_now, netns_of};
use crate::threads::for_each;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, RawDir, StatxFlags, makedev, readlinkat_raw, statat, statx};
use rustix::io::Errno;
use sockeye_model::{Fd, NetnsInode, Pid, TruncatedList};
use sockeye_wire::proc_pid;
use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// The result of the pass.
#[derive(Debug, Default)]
pub(super) struct ProcessScan {
    /// Processes and threads by namespace.
    pub(super) tasks: HashMap<NetnsInode, NetnsTasks>,
    /// Descriptors by the namespace that they hold open.
    pub(super) held: HashMap<NetnsInode, TruncatedList<Descriptor>>,
    /// One process of each mount namespace, by inode of that.
    pub(super) mount_namespaces: HashMap<u64, Pid>,
    /// Processes that may not be read, sorted.
    pub(super) unreadable: Vec<Pid>,
    /// Number of unreadable processes whose namespace is unknown.
    pub(super) lost: usize,
    /// Whether `/proc` hides the processes of other users.
    pub(super) hidden: bool,
}

/// The processes and threads of a namespace.
#[derive(Debug, Default)]
pub(super) struct NetnsTasks {
    pub(super) processes: u32,
    pub(super) threads: u32,
    /// The lowest pids, sorted.
    pub(super) first: Vec<Pid>,
    /// Threads whose process is in another namespace.
    pub(super) foreign_threads: TruncatedList<ForeignThread>,
}

/// A thread whose process is in another namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ForeignThread {
    pub(super) pid: Pid,
    pub(super) tid: Pid,
}

/// A descriptor of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Descriptor {
    pub(super) pid: Pid,
    pub(super) fd: Fd,
}

impl ProcessScan {
    /// Reads every process, and its descriptors if `with_descriptors`. `nsfs` is the device of all namespaces.
    pub(super) fn scan(nsfs: Option<u64>, with_descriptors: bool) -> Result<Self, Errno> {
        let proc = open_proc()?;
        let proc = proc.as_fd();
        let pids = processes(proc)?;
        // We have `proc` open, so a kernel that counts descriptors cannot report 0.
        let own = statat(proc, c"self/fd", AtFlags::empty());
        let counts_descriptors = own.is_ok_and(|own| own.st_size > 0);
        let parts = for_each(&pids, |&pid, part: &mut Part| {
            part.counts_descriptors = counts_descriptors;
            part.with_descriptors = with_descriptors;
            match part.read(proc, pid, nsfs) {
                Ok(()) => {}
                // It ended: if it was the only process of its namespace, that is gone too.
                Err(Errno::NOENT | Errno::SRCH) => {}
                Err(_) => part.found.unreadable.push(pid),
            }
        });
        // Process 1 exists as long as its pid namespace. If it is not listed, `/proc` hides processes.
        let mut all = Self {
            hidden: !pids.contains(&Pid(1)),
            ..Self::default()
        };
        for part in parts {
            all.append(part.found);
        }
        all.unreadable.sort_unstable();
        all.lost = all.unreadable.len();
        all.settle();
        Ok(all)
    }

    /// The result where `/proc` is not usable: nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            hidden: true,
            ..Self::default()
        }
    }

    /// Adds the unreadable processes whose namespace BPF reports. Their descriptors stay unknown.
    pub(super) fn place_unreadable(&mut self, known: impl Iterator<Item = (Pid, NetnsInode)>) {
        for (pid, netns) in known {
            if self.unreadable.binary_search(&pid).is_err() {
                continue;
            }
            // The threads of a process can be counted without the right to read it.
            let tasks = rustix::fs::stat(format!("/proc/{pid}/task"));
            let threads = tasks.map_or(1, |tasks| tasks.st_nlink.saturating_sub(2));
            let tasks = self.tasks.entry(netns).or_default();
            tasks.see(pid);
            tasks.threads += u32::try_from(threads).unwrap_or(u32::MAX);
            self.lost = self.lost.saturating_sub(1);
        }
        self.settle();
    }

    /// Whether some processes may be missing.
    pub(super) fn is_incomplete(&self) -> bool {
        self.hidden || self.lost > 0
    }

    fn settle(&mut self) {
        for tasks in self.tasks.values_mut() {
            tasks.first.sort_unstable();
            tasks.first.truncate(FIRST_MAX);
        }
    }

    fn append(&mut self, other: Self) {
        self.unreadable.extend(other.unreadable);
        for (inode, tasks) in other.tasks {
            self.tasks.entry(inode).or_default().append(tasks);
        }
        for (inode, few) in other.held {
            append(self.held.entry(inode).or_default(), few);
        }
        for (mounts, pid) in other.mount_namespaces {
            let known = self.mount_namespaces.entry(mounts).or_insert(pid);
            *known = pid.min(*known);
        }
    }
}

impl NetnsTasks {
    fn see(&mut self, pid: Pid) {
        self.processes += 1;
        self.first.push(pid);
        if self.first.len() >= 4 * FIRST_MAX {
            self.first.sort_unstable();
            self.first.truncate(FIRST_MAX);
        }
    }

    fn append(&mut self, other: Self) {
        self.processes += other.processes;
        self.threads += other.threads;
        self.first.extend(other.first);
        append(&mut self.foreign_threads, other.foreign_threads);
    }
}

/// Merges two lists; the lowest entries are kept.
pub(super) fn append<T: Ord>(few: &mut TruncatedList<T>, other: TruncatedList<T>) {
    few.total += other.total;
    few.first.extend(other.first);
    few.first.sort_unstable();
    few.first.truncate(sockeye_model::HOLDERS_MAX);
}

/// The findings and the buffer of one of our threads.
#[derive(Debug, Default)]
struct Part {
    found: ProcessScan,
    listing: Vec<u8>,
    counts_descriptors: bool,
    with_descriptors: bool,
}

impl Part {
    fn read(&mut self, proc: BorrowedFd<'_>, pid: Pid, nsfs: Option<u64>) -> Result<(), Errno> {
        let home = netns_now(proc, pid);
        let tasks = Decimal::with_suffix(pid.0, "/task");
        // A folder has two links, and one more per thread (`proc_task_getattr()`).
        let threads = statat(proc, tasks.as_c_str(), AtFlags::empty())?
            .st_nlink
            .saturating_sub(2);
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        match home {
            Ok(home) => {
                let tasks = self.found.tasks.entry(home).or_default();
                tasks.see(pid);
                if threads <= 1 {
                    tasks.threads += 1;
                } else {
                    self.read_threads(proc, pid, Some(home))?;
                }
            }
            // Its first thread has ended; others may still run.
            Err(Errno::NOENT) if threads > 1 => self.read_threads(proc, pid, None)?,
            Err(errno) => return Err(errno),
        }
        if let Ok(mounts) = namespace_link(proc, &Decimal::with_suffix(pid.0, "/ns/mnt")) {
            let known = self.found.mount_namespaces.entry(mounts).or_insert(pid);
            *known = pid.min(*known);
        }
        // Descriptors that we inherited end with us.
        if self.with_descriptors && pid.0 != std::process::id() {
            self.read_descriptors(proc, pid, nsfs)?;
        }
        Ok(())
    }

    fn read_threads(
        &mut self,
        proc: BorrowedFd<'_>,
        pid: Pid,
        home: Option<NetnsInode>,
    ) -> Result<(), Errno> {
        let folder = open_to_list(proc, Decimal::with_suffix(pid.0, "/task").as_c_str())?;
        self.listing.clear();
        self.listing.reserve(LIST_BUFFER_BYTES);
        let mut names = RawDir::new(&folder, self.listing.spare_capacity_mut());
        while let Some(name) = names.next() {
            let Some(tid) = number(name?.file_name()).map(Pid) else {
                continue;
            };
            // It has ended, or may not be read.
            let Ok(netns) = netns_of(folder.as_fd(), tid) else {
                continue;
            };
            let tasks = self.found.tasks.entry(netns).or_default();
            tasks.threads += 1;
            if home != Some(netns) {
                tasks.foreign_threads.push(ForeignThread { pid, tid });
            }
        }
        Ok(())
    }

    /// Reads the target of each descriptor. It is `net:[N]` if the namespace was opened in `/proc`, the path of a mount
    /// if it was opened there, and `/` after that mount is gone (`d_path()`).
    fn read_descriptors(&mut self, proc: BorrowedFd<'_>, pid: Pid, nsfs: Option<u64>) -> Result<(), Errno> {
        let path = Decimal::with_suffix(pid.0, "/fd");
        // The number of descriptors since Linux 6.2, 0 before. Kernel threads and ended processes have none.
        let count = statat(proc, path.as_c_str(), AtFlags::empty())?.st_size;
        if count == 0 && self.counts_descriptors {
            return Ok(());
        }
        let folder = open_to_list(proc, path.as_c_str())?;
        self.listing.clear();
        self.listing.reserve(LIST_BUFFER_BYTES);
        let mut names = RawDir::new(&folder, self.listing.spare_capacity_mut());
        while let Some(name) = names.next() {
            let name = name?;
            let Some(fd) = number(name.file_name()).map(Fd) else {
                continue;
            };
            if let Some(netns) = held(folder.as_fd(), name.file_name(), nsfs) {
                self.found
                    .held
                    .entry(netns)
                    .or_default()
                    .push(Descriptor { pid, fd });
            }
        }
        Ok(())
    }
}

/// Returns the namespace of a descriptor; `None` if it is not one of a namespace.
fn held(folder: BorrowedFd<'_>, name: &CStr, nsfs: Option<u64>) -> Option<NetnsInode> {
    let mut target = [MaybeUninit::uninit(); TARGET_LEN_MAX];
    let (target, _) = readlinkat_raw(folder, name, &mut target[..]).ok()?;
    let inode = match proc_pid::netns_inode(target) {
        Some(inode) => inode,
        None if may_be_mount(target) => {
            // On the link itself, so that no file system is asked, which might hang.
            let stat = statx(folder, name, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
            let device = makedev(stat.stx_dev_major, stat.stx_dev_minor);
            (Some(device) == nsfs).then_some(stat.stx_ino)?
        }
        None => return None,
    };
    u32::try_from(inode).ok().map(NetnsInode)
}

/// Whether a descriptor with this target may be a namespace that was opened at a mount.
fn may_be_mount(target: &[u8]) -> bool {
    target == b"/" || target.starts_with(b"/run/") || target.starts_with(b"/var/run/")
}

/// Reads the inode of `net:[N]`, `mnt:[N]` and the like.
fn namespace_link(proc: BorrowedFd<'_>, path: &Decimal) -> Result<u64, Errno> {
    let mut target = [MaybeUninit::uninit(); 32];
    let (target, _) = readlinkat_raw(proc, path.as_c_str(), &mut target)?;
    proc_pid::namespace_inode(target).ok_or(Errno::NOENT)
}

/// Number of lowest pids among which the oldest process is searched: pids wrap around.
const FIRST_MAX: usize = 8;

/// The kernel fills at most the free part of the buffer; a larger buffer gains nothing.
const LIST_BUFFER_BYTES: usize = 64 * 1024;

/// Longer targets are truncated; their beginning is enough.
const TARGET_LEN_MAX: usize = 64;
