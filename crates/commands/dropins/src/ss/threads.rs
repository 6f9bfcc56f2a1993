//! `ss -T`: the threads that hold sockets.

use crate::output::SsThread;
use sockeye_model::{Comm, Inode, Owner, Pid};
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Which threads hold which socket.
///
/// Threads of a process mostly share its descriptors, but need not, and each may have a name of its own. So every thread
/// of every process that holds a socket is looked at.
#[derive(Debug, Default)]
pub(super) struct Threads {
    of: HashMap<Inode, Vec<SsThread>>,
}

impl Threads {
    /// Reads `/proc/PID/task` of these processes. Threads that end meanwhile hold nothing.
    pub(super) fn find(holders: impl IntoIterator<Item = Owner>) -> Self {
        let mut pids: Vec<Pid> = holders.into_iter().map(|owner| owner.process.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let mut found = Self::default();
        for pid in pids {
            for tid in numbers(&format!("/proc/{pid}/task")) {
                found.look_at(pid, Pid(tid));
            }
        }
        // ss shows last what it saw first: each process's first thread, then the others, by number.
        for threads in found.of.values_mut() {
            threads.sort_by_key(|thread| {
                let is_first = thread.tid == thread.pid;
                std::cmp::Reverse((thread.pid, !is_first, thread.tid, thread.fd))
            });
        }
        found
    }

    pub(super) fn of(&self, inode: Option<Inode>) -> &[SsThread] {
        let threads = inode.and_then(|inode| self.of.get(&inode));
        threads.map(Vec::as_slice).unwrap_or_default()
    }

    fn look_at(&mut self, pid: Pid, tid: Pid) {
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
                self.of.entry(Inode(inode)).or_default().push(thread);
            }
        }
    }
}

/// The numbers that are names in this folder.
fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
