//! One pass over all processes: where each tasks, with all its threads, and which namespaces it holds open.

use crate::names::{netns_now, netns_of};
use crate::owners::{Decimal, for_each, number, processes};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, Mode, OFlags, RawDir, StatxFlags, makedev, open, openat, readlinkat_raw, statat, statx,
};
use rustix::io::Errno;
use sockeye_model::{Fd, Few, NetnsInode, Pid};
use sockeye_wire::proc_pid;
use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// What the pass found.
#[derive(Debug, Default)]
pub(super) struct ProcessScan {
    /// Who tasks where.
    pub(super) tasks: HashMap<NetnsInode, NetnsTasks>,
    /// Which namespaces are held open, and by whom.
    pub(super) held: HashMap<NetnsInode, Few<Descriptor>>,
    /// One process of each mount namespace, by its inode.
    pub(super) mount_namespaces: HashMap<u64, Pid>,
    /// Processes that may not be read.
    pub(super) unreadable: Vec<Pid>,
    /// How many of these nobody else told of: where they live is not known.
    pub(super) lost: usize,
    /// `/proc` keeps the processes of others out of sight.
    pub(super) hidden: bool,
}

/// Who tasks in a namespace.
#[derive(Debug, Default)]
pub(super) struct NetnsTasks {
    pub(super) processes: u32,
    pub(super) threads: u32,
    /// The processes with the lowest numbers, in their order.
    pub(super) first: Vec<Pid>,
    /// Threads whose process tasks elsewhere.
    pub(super) foreign_threads: Few<ForeignThread>,
}

/// A thread whose process tasks elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ForeignThread {
    pub(super) pid: Pid,
    pub(super) tid: Pid,
}

/// A descriptor that leads to a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Descriptor {
    pub(super) pid: Pid,
    pub(super) fd: Fd,
}

impl ProcessScan {
    /// Looks at every process, with what it holds open if nobody else tells. `nsfs` is the device of all namespaces.
    ///
    /// # Errors
    /// When there is no `/proc` to read.
    pub(super) fn scan(nsfs: Option<u64>, with_descriptors: bool) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = open("/proc", flags, Mode::empty())?;
        let proc = proc.as_fd();
        let pids = processes(proc)?;
        // We hold `proc` open, so a kernel that counts cannot say 0.
        let own = statat(proc, c"self/fd", AtFlags::empty());
        let counts_descriptors = own.is_ok_and(|own| own.st_size > 0);
        let parts = for_each(&pids, |&pid, part: &mut Part| {
            part.counts_descriptors = counts_descriptors;
            part.wants_descriptors = with_descriptors;
            match part.read(proc, pid, nsfs) {
                Ok(()) => {}
                // It ended: where it alone lived is gone too.
                Err(Errno::NOENT | Errno::SRCH) => {}
                Err(_) => part.found.unreadable.push(pid),
            }
        });
        // Each pid namespace has a process 1 for as long as it tasks; not to see it is to be kept from it.
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

    /// Puts those that may not be read where somebody else says that they live. What they hold open stays unknown.
    pub(super) fn place_unreadable(&mut self, told: impl Iterator<Item = (Pid, NetnsInode)>) {
        for (pid, netns) in told {
            if self.unreadable.binary_search(&pid).is_err() {
                continue;
            }
            // Whoever may not look at a process may still count its threads.
            let tasks = rustix::fs::stat(format!("/proc/{pid}/task"));
            let threads = tasks.map_or(1, |tasks| tasks.st_nlink.saturating_sub(2));
            let tasks = self.tasks.entry(netns).or_default();
            tasks.see(pid);
            tasks.threads += u32::try_from(threads).unwrap_or(u32::MAX);
            self.lost = self.lost.saturating_sub(1);
        }
        self.settle();
    }

    /// Whether there may be processes that were not seen.
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

/// Both, of which the lowest are kept.
pub(super) fn append<T: Ord>(few: &mut Few<T>, other: Few<T>) {
    few.total += other.total;
    few.first.extend(other.first);
    few.first.sort_unstable();
    few.first.truncate(sockeye_model::KEEPERS_MAX);
}

/// What one thread of ours finds, and what it works with.
#[derive(Debug, Default)]
struct Part {
    found: ProcessScan,
    listing: Vec<u8>,
    counts_descriptors: bool,
    wants_descriptors: bool,
}

impl Part {
    fn read(&mut self, proc: BorrowedFd<'_>, pid: Pid, nsfs: Option<u64>) -> Result<(), Errno> {
        let home = netns_now(proc, pid);
        let tasks = Decimal::with_suffix(pid.0, "/task");
        // Two links of every folder, and one more of each thread (`proc_task_getattr()`).
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
            // Its first thread has ended; others may live on.
            Err(Errno::NOENT) if threads > 1 => self.read_threads(proc, pid, None)?,
            Err(errno) => return Err(errno),
        }
        if let Ok(mounts) = namespace_link(proc, &Decimal::with_suffix(pid.0, "/ns/mnt")) {
            let known = self.found.mount_namespaces.entry(mounts).or_insert(pid);
            *known = pid.min(*known);
        }
        // What we inherited ourselves goes with us.
        if self.wants_descriptors && pid.0 != std::process::id() {
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
        let folder = open_folder(proc, &Decimal::with_suffix(pid.0, "/task"))?;
        self.listing.clear();
        self.listing.reserve(LIST_BUFFER_BYTES);
        let mut names = RawDir::new(&folder, self.listing.spare_capacity_mut());
        while let Some(name) = names.next() {
            let Some(tid) = number(name?.file_name()).map(Pid) else {
                continue;
            };
            // One that has ended by now, or does not tell.
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

    /// Looks at where each descriptor leads: to `net:[N]`, where it was opened by way of `/proc`; to the path of a mount,
    /// where it was opened by that; and to `/`, once that mount is gone (`d_path()`).
    fn read_descriptors(&mut self, proc: BorrowedFd<'_>, pid: Pid, nsfs: Option<u64>) -> Result<(), Errno> {
        let path = Decimal::with_suffix(pid.0, "/fd");
        // The number of descriptors since Linux 6.2, 0 before; none are a kernel thread's, or of one that has ended.
        let count = statat(proc, path.as_c_str(), AtFlags::empty())?.st_size;
        if count == 0 && self.counts_descriptors {
            return Ok(());
        }
        let folder = open_folder(proc, &path)?;
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

/// The namespace that a descriptor leads to, if it does.
fn held(folder: BorrowedFd<'_>, name: &CStr, nsfs: Option<u64>) -> Option<NetnsInode> {
    let mut target = [MaybeUninit::uninit(); TARGET_LEN_MAX];
    let (target, _) = readlinkat_raw(folder, name, &mut target[..]).ok()?;
    let inode = match proc_pid::netns_inode(target) {
        Some(inode) => inode,
        None if may_be_mount(target) => {
            // By way of the link, so that no file system is asked, which might never answer.
            let stat = statx(folder, name, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
            let device = makedev(stat.stx_dev_major, stat.stx_dev_minor);
            (Some(device) == nsfs).then_some(stat.stx_ino)?
        }
        None => return None,
    };
    u32::try_from(inode).ok().map(NetnsInode)
}

/// Whether a descriptor that leads to this path may be one of a namespace that was opened by way of a mount.
fn may_be_mount(target: &[u8]) -> bool {
    target == b"/" || target.starts_with(b"/run/") || target.starts_with(b"/var/run/")
}

/// The inode of `net:[N]`, `mnt:[N]` and their like.
fn namespace_link(proc: BorrowedFd<'_>, path: &Decimal) -> Result<u64, Errno> {
    let mut target = [MaybeUninit::uninit(); 32];
    let (target, _) = readlinkat_raw(proc, path.as_c_str(), &mut target)?;
    proc_pid::namespace_inode(target).ok_or(Errno::NOENT)
}

fn open_folder(proc: BorrowedFd<'_>, path: &Decimal) -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(proc, path.as_c_str(), flags, Mode::empty())
}

/// The oldest process is sought among so many with low numbers: these begin again some time.
const FIRST_MAX: usize = 8;

/// The kernel fills at most what is free in the buffer; more than this gains nothing.
const LIST_BUFFER_BYTES: usize = 64 * 1024;

/// Longer paths come truncated, and are still known by how they begin.
const TARGET_LEN_MAX: usize = 64;
