//! Enters namespaces to read their counts.

use crate::dump::run_here;
use crate::proc_folder::{open_folder, open_proc, read};
use crate::process_netns::netns_of;
use crate::visits::spread;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use sockeye_model::{NetnsInode, Pid};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_sys::netns::{NetnsThread, on_netns_thread};
use sockeye_wire::netlink::Messages;
use sockeye_wire::nsid;
use sockeye_wire::proc_net::DeviceLine;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A namespace and the paths to open it.
#[derive(Debug)]
pub(super) struct NetnsEntry {
    pub(super) inode: NetnsInode,
    /// Best first.
    pub(super) paths: Vec<OpenVia>,
    /// A process in it, whose `/proc/PID/net` is read if entering is forbidden.
    pub(super) process: Option<Pid>,
}

/// A file to open a namespace by.
#[derive(Debug)]
pub(super) enum OpenVia {
    Path(PathBuf),
    Process(Pid),
    Thread(Pid, Pid),
    Descriptor(Pid, u32),
}

/// The result of a visit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NetnsStats {
    pub(super) sockets: Option<u64>,
    pub(super) interfaces: Option<u32>,
    pub(super) id: Option<i32>,
    pub(super) status: VisitStatus,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum VisitStatus {
    #[default]
    Read,
    /// It is no longer at its paths.
    Gone,
    /// The file is no network namespace.
    NotNetns,
    /// It may not be opened or entered.
    Denied,
    /// There was no free descriptor.
    NoDescriptors,
}

/// Reads the counts of our own namespace. Must be called before we open a socket, which would be counted.
pub(super) fn own() -> NetnsStats {
    let mut stats = NetnsStats::default();
    if let Ok(folder) = open_folder(CWD, c"/proc/thread-self") {
        stats.read(folder.as_fd(), &mut Vec::new());
    }
    stats
}

/// Enters each namespace and reads its counts, on one thread per core; each thread opens one namespace at a time. Calls
/// `done` after each.
pub(super) fn look(entries: &[NetnsEntry], ids: usize, done: &(dyn Fn() + Sync)) -> Vec<NetnsStats> {
    let ids_left = AtomicUsize::new(ids);
    let found = spread(entries.len(), |visitor, places, found| {
        let mut worker = Worker::new(&ids_left);
        for place in places {
            found.push((place, worker.visit(visitor, &entries[place])));
            done();
        }
    });
    let unseen = NetnsStats {
        status: VisitStatus::NoDescriptors,
        ..NetnsStats::default()
    };
    let mut results: Vec<_> = found.into_iter().map(|stats| stats.unwrap_or(unseen)).collect();
    // Descriptors are free again, now that no other thread has any open.
    let again = |visitor: &mut NetnsThread| {
        let mut worker = Worker::new(&ids_left);
        for (entry, result) in entries.iter().zip(&mut results) {
            if result.status == VisitStatus::NoDescriptors {
                *result = worker.visit(visitor, entry);
            }
        }
    };
    let _ = on_netns_thread(again);
    results
}

/// Returns how many other namespaces have an nsid in ours; 0 if unknown.
pub(super) fn count_ids() -> usize {
    let Ok(socket) = NetlinkSocket::open_route() else {
        return 0;
    };
    let mut count = 0;
    run_here(
        &socket,
        &nsid::dump(SEQUENCE),
        SEQUENCE,
        &mut Vec::new(),
        &mut |message| {
            count += usize::from(message.kind == nsid::RTM_NEWNSID);
        },
    );
    count
}

struct Worker<'a> {
    buffer: Vec<u8>,
    /// Of our own namespace, wherever this thread is.
    route: Option<NetlinkSocket>,
    ids_left: &'a AtomicUsize,
    task: Option<OwnedFd>,
}

impl<'a> Worker<'a> {
    /// Must be called in our own namespace.
    fn new(ids_left: &'a AtomicUsize) -> Self {
        let asks = ids_left.load(Ordering::Relaxed) > 0;
        Self {
            buffer: Vec::new(),
            route: asks.then(|| NetlinkSocket::open_route().ok()).flatten(),
            ids_left,
            task: open_folder(CWD, c"/proc/thread-self").ok(),
        }
    }

    fn visit(&mut self, visitor: &mut NetnsThread, entry: &NetnsEntry) -> NetnsStats {
        let mut stats = NetnsStats::default();
        if self.task.is_none() {
            self.task = match open_folder(CWD, c"/proc/thread-self") {
                Ok(task) => Some(task),
                Err(Errno::MFILE | Errno::NFILE) => {
                    stats.status = VisitStatus::NoDescriptors;
                    return stats;
                }
                // Without /proc the namespace exists nevertheless.
                Err(_) => None,
            };
        }
        let namespace = match open_one(entry) {
            Ok(namespace) => namespace,
            Err(status) => {
                stats.status = status;
                if status == VisitStatus::Denied {
                    read_from_outside(entry, &mut stats, &mut self.buffer);
                }
                return stats;
            }
        };
        stats.id = self.id(namespace.as_fd());
        match visitor.enter(namespace.as_fd()) {
            Ok(()) => {
                if let Some(task) = &self.task {
                    stats.read(task.as_fd(), &mut self.buffer);
                }
            }
            Err(Errno::INVAL) => stats.status = VisitStatus::NotNetns,
            Err(_) => {
                stats.status = VisitStatus::Denied;
                read_from_outside(entry, &mut stats, &mut self.buffer);
            }
        }
        stats
    }

    /// Returns the nsid of an open namespace; `None` if it has none. Not queried after all known nsids were found.
    fn id(&self, namespace: BorrowedFd<'_>) -> Option<i32> {
        let route = self
            .route
            .as_ref()
            .filter(|_| self.ids_left.load(Ordering::Relaxed) > 0)?;
        let fd = u32::try_from(namespace.as_raw_fd()).ok()?;
        route.send(&nsid::of_descriptor(fd, SEQUENCE)).ok()?;
        let mut buffer = [0; 512];
        let received = route.receive(&mut buffer).ok()?;
        let messages = Messages::new(buffer.get(..received.len)?);
        let answer = messages
            .flatten()
            .find(|message| message.kind == nsid::RTM_NEWNSID)?;
        let id = nsid::parse(answer.payload).ok()??;
        self.ids_left.fetch_sub(1, Ordering::Relaxed);
        Some(id)
    }
}

impl NetnsStats {
    /// Reads the files of `net` below the folder of a task.
    fn read(&mut self, task: BorrowedFd<'_>, buffer: &mut Vec<u8>) {
        let lacks = |error| matches!(error, Errno::MFILE | Errno::NFILE);
        match read(task, c"net/sockstat", buffer) {
            Ok(file) => self.sockets = sockets_used(file),
            Err(errno) if lacks(errno) => self.status = VisitStatus::NoDescriptors,
            Err(_) => {}
        }
        match read(task, c"net/dev", buffer) {
            Ok(file) => self.interfaces = Some(devices(file)),
            Err(errno) if lacks(errno) => self.status = VisitStatus::NoDescriptors,
            Err(_) => {}
        }
    }
}

/// Reads the counts from `/proc/PID/net`, which shows the namespace of that process without the right to enter it.
fn read_from_outside(entry: &NetnsEntry, stats: &mut NetnsStats, buffer: &mut Vec<u8>) {
    let Some(pid) = entry.process else { return };
    let Ok(folder) = open_folder(CWD, format!("/proc/{pid}")) else {
        return;
    };
    let before = *stats;
    stats.read(folder.as_fd(), buffer);
    // Last: this shows that the process was in the namespace all the time.
    if !open_proc().is_ok_and(|proc| netns_of(proc.as_fd(), pid) == Ok(entry.inode)) {
        *stats = before;
    }
}

/// Opens the first path that leads to this namespace.
fn open_one(entry: &NetnsEntry) -> Result<OwnedFd, VisitStatus> {
    let mut status = VisitStatus::Gone;
    for path in &entry.paths {
        // The path may have become a FIFO: opening it must not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match open(path.path(), flags, Mode::empty()) {
            Ok(file) => {
                let inode = rustix::fs::fstat(&file).map(|stat| stat.st_ino);
                if inode == Ok(u64::from(entry.inode.0)) {
                    return Ok(file);
                }
            }
            Err(Errno::NOENT | Errno::SRCH) => {}
            Err(Errno::MFILE | Errno::NFILE) => return Err(VisitStatus::NoDescriptors),
            Err(_) => status = VisitStatus::Denied,
        }
    }
    Err(status)
}

impl OpenVia {
    fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Process(pid) => format!("/proc/{pid}/ns/net").into(),
            Self::Thread(pid, tid) => format!("/proc/{pid}/task/{tid}/ns/net").into(),
            Self::Descriptor(pid, fd) => format!("/proc/{pid}/fd/{fd}").into(),
        }
    }
}

/// Parses `sockets: used N`, the first line of `sockstat`.
fn sockets_used(file: &[u8]) -> Option<u64> {
    let line = file.split(|&byte| byte == b'\n').next()?;
    let number = line.strip_prefix(b"sockets: used ")?;
    std::str::from_utf8(number).ok()?.trim().parse().ok()
}

fn devices(file: &[u8]) -> u32 {
    let lines = file.split(|&byte| byte == b'\n');
    lines.filter_map(DeviceLine::parse).map(|_| 1).sum()
}

const SEQUENCE: u32 = 1;
