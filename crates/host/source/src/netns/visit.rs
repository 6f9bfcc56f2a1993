//! Enters namespaces to read their counts.

use crate::visits::spread;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use sockeye_model::{NetnsInode, Pid};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_sys::netns::{NetnsThread, on_netns_thread};
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};
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
    let mut buffer = Vec::with_capacity(FILE_LEN);
    let folder = open_folder("/proc/thread-self");
    let mut stats = NetnsStats::default();
    if let Ok(folder) = folder {
        stats.read(folder.as_fd(), &mut buffer);
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
    // Descriptors are free again, now that nobody else holds any.
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
    if socket.send(&nsid::dump(SEQUENCE)).is_err() {
        return 0;
    }
    let mut buffer = vec![0; 32 * 1024];
    let mut count = 0;
    while let Ok(received) = socket.receive(&mut buffer) {
        for message in Messages::new(buffer.get(..received.len).unwrap_or_default()) {
            match message {
                Ok(message) if message.kind == nsid::RTM_NEWNSID => count += 1,
                Ok(message) if message.kind == NLMSG_DONE || message.kind == NLMSG_ERROR => return count,
                Ok(_) => {}
                Err(_) => return count,
            }
        }
    }
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
            buffer: Vec::with_capacity(FILE_LEN),
            route: asks.then(|| NetlinkSocket::open_route().ok()).flatten(),
            ids_left,
            task: open_folder("/proc/thread-self").ok(),
        }
    }

    fn visit(&mut self, visitor: &mut NetnsThread, entry: &NetnsEntry) -> NetnsStats {
        let mut stats = NetnsStats::default();
        if self.task.is_none() {
            self.task = open_folder("/proc/thread-self").ok();
        }
        let Some(task) = &self.task else {
            stats.status = VisitStatus::NoDescriptors;
            return stats;
        };
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
            Ok(()) => stats.read(task.as_fd(), &mut self.buffer),
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
        match read_file(task, c"net/sockstat", buffer) {
            Ok(()) => self.sockets = sockets_used(buffer),
            Err(errno) if lacks(errno) => self.status = VisitStatus::NoDescriptors,
            Err(_) => {}
        }
        match read_file(task, c"net/dev", buffer) {
            Ok(()) => self.interfaces = Some(devices(buffer)),
            Err(errno) if lacks(errno) => self.status = VisitStatus::NoDescriptors,
            Err(_) => {}
        }
    }
}

/// Reads the counts from `/proc/PID/net`, which shows the namespace of that process without the right to enter it.
fn read_from_outside(entry: &NetnsEntry, stats: &mut NetnsStats, buffer: &mut Vec<u8>) {
    let Some(pid) = entry.process else { return };
    let Ok(folder) = open_folder(&format!("/proc/{pid}")) else {
        return;
    };
    let before = *stats;
    stats.read(folder.as_fd(), buffer);
    // Last: this shows that the process was in the namespace all the time.
    let proc = open_folder("/proc");
    if !proc.is_ok_and(|proc| crate::names::netns_of(proc.as_fd(), pid) == Ok(entry.inode)) {
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

fn open_folder(path: &str) -> Result<OwnedFd, Errno> {
    open(
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Reads a small file.
fn read_file(folder: BorrowedFd<'_>, path: &std::ffi::CStr, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    let file = openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    buffer.clear();
    loop {
        buffer.reserve(FILE_LEN);
        let room = buffer.capacity() - buffer.len();
        let read = rustix::io::read(&file, rustix::buffer::spare_capacity(buffer))?;
        // The kernel fills the buffer up to a whole line; a short read is the last one.
        if read == 0 || (read < FILE_LEN / 4 && room >= FILE_LEN) {
            return Ok(());
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
const FILE_LEN: usize = 16 * 1024;
