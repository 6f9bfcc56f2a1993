//! `ss -T`: the threads that have sockets open.

use crate::output::SsThread;
use sockeye_model::{Comm, Inode, Owner, Pid};
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// The threads that have each socket open.
///
/// Threads of a process mostly share its descriptors, but need not, and each may have its own name. So every thread of
/// every process that owns a socket is read.
#[derive(Debug, Default)]
pub(super) struct Threads {
    by_inode: HashMap<Inode, Vec<SsThread>>,
}

impl Threads {
    /// Reads `/proc/PID/task` of these processes. Threads that end meanwhile are left out.
    pub(super) fn find(owners: impl IntoIterator<Item = Owner>) -> Self {
        let mut pids: Vec<Pid> = owners.into_iter().map(|owner| owner.process.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let mut found = Self::default();
        for pid in pids {
            for tid in numbers(&format!("/proc/{pid}/task")) {
                found.add_thread(pid, Pid(tid));
            }
        }
        // ss shows in reverse what it reads: of each process the main thread, then the others by number.
        for threads in found.by_inode.values_mut() {
            threads.sort_by_key(|thread| {
                let is_main = thread.tid == thread.pid;
                std::cmp::Reverse((thread.pid, !is_main, thread.tid, thread.fd))
            });
        }
        found
    }

    pub(super) fn of(&self, inode: Option<Inode>) -> &[SsThread] {
        let threads = inode.and_then(|inode| self.by_inode.get(&inode));
        threads.map(Vec::as_slice).unwrap_or_default()
    }

    fn add_thread(&mut self, pid: Pid, tid: Pid) {
        let folder = format!("/proc/{pid}/task/{tid}");
        let comm = fs::read(format!("{folder}/comm")).unwrap_or_default();
        let comm = Comm::new(comm.strip_suffix(b"\n").unwrap_or(&comm));
        for fd in numbers(&format!("{folder}/fd")) {
            let Ok(link) = fs::read_link(format!("{folder}/fd/{fd}")) else {
                continue;
            };
            let inode = link
                .as_os_str()
                .as_bytes()
                .strip_prefix(b"socket:[")
                .and_then(|rest| std::str::from_utf8(rest.strip_suffix(b"]")?).ok()?.parse().ok());
            if let Some(inode) = inode {
                let thread = SsThread { comm, pid, tid, fd };
                self.by_inode.entry(Inode(inode)).or_default().push(thread);
            }
        }
    }
}

/// Returns the names in this folder that are numbers.
fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
