//! The processes in given network namespaces, from `/proc/PID/ns/net` of each process and of the threads of
//! multi-threaded ones. `ns pids` and `ns del` use it; `netns/mod.rs` takes process names from here.

use crate::proc_folder::{Decimal, open_proc, open_to_list, processes};
use crate::process_netns::netns_now;
use crate::threads::for_each;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use sockeye_model::{NetnsInode, Pid};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Range;

/// The processes of some network namespaces.
#[derive(Debug, Default)]
pub struct NetnsProcesses {
    by_netns: HashMap<NetnsInode, Vec<Pid>>,
    by_thread: HashMap<NetnsInode, Vec<Pid>>,
    unreadable: u64,
}

impl NetnsProcesses {
    /// Finds the processes of these namespaces: one `readlink` for each process of the host, and for each thread of
    /// multi-threaded ones; none if `namespaces` is empty.
    ///
    /// # Errors
    /// When `/proc` cannot be read, or belongs to another pid namespace (it lacks our own process).
    pub fn find(namespaces: &HashSet<NetnsInode>) -> std::io::Result<Self> {
        let mut all = Self::default();
        if namespaces.is_empty() {
            return Ok(all);
        }
        // Without our own process, `/proc` would show no process of ours anywhere.
        fs::metadata("/proc/self/ns/net")?;
        let proc = open_proc()?;
        let pids = processes(proc.as_fd())?;
        let look = |&pid: &Pid, part: &mut Self| {
            let home = netns_now(proc.as_fd(), pid);
            match home {
                Ok(netns) if namespaces.contains(&netns) => part.by_netns.entry(netns).or_default().push(pid),
                Ok(_) | Err(Errno::NOENT | Errno::SRCH) => {}
                Err(_) => part.unreadable += 1,
            }
            if let Ok(home) = home {
                part.see_threads(proc.as_fd(), pid, home, namespaces);
            }
        };
        let mut parts = for_each(&pids, look);
        // Processes that started meanwhile. In a chain of processes where each starts the next and exits, every pid in the list
        // would be gone when it is read.
        let mut latest = Self::default();
        let known: HashSet<Pid> = pids.into_iter().collect();
        for pid in newest()
            .map(Pid)
            .filter(|pid| !known.contains(pid) && !is_thread(*pid))
        {
            look(&pid, &mut latest);
        }
        parts.push(latest);
        for part in parts {
            all.unreadable += part.unreadable;
            merge(&mut all.by_netns, part.by_netns);
            merge(&mut all.by_thread, part.by_thread);
        }
        Ok(all)
    }

    /// Returns the processes in this namespace, sorted by pid. The first thread of a process decides.
    #[must_use]
    pub fn of(&self, netns: NetnsInode) -> &[Pid] {
        self.by_netns.get(&netns).map_or(&[], Vec::as_slice)
    }

    /// Returns the processes in other namespaces that have a thread in this one, sorted by pid.
    #[must_use]
    pub fn by_thread(&self, netns: NetnsInode) -> &[Pid] {
        self.by_thread.get(&netns).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of processes whose namespace could not be read.
    #[must_use]
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    fn see_threads(
        &mut self,
        proc: BorrowedFd<'_>,
        pid: Pid,
        home: NetnsInode,
        namespaces: &HashSet<NetnsInode>,
    ) {
        let path = Decimal::with_suffix(pid.0, "/task");
        // A folder has two links, and one more per thread (`proc_task_getattr()`).
        let threads = statat(proc, path.as_c_str(), AtFlags::empty()).map_or(0, |folder| folder.st_nlink);
        if threads <= 3 {
            return;
        }
        let Ok(folder) = open_to_list(proc, path.as_c_str()) else {
            return;
        };
        for tid in processes(folder.as_fd()).unwrap_or_default() {
            if let Ok(netns) = netns_now(folder.as_fd(), tid)
                && netns != home
                && namespaces.contains(&netns)
            {
                self.by_thread.entry(netns).or_default().push(pid);
            }
        }
    }
}

/// Returns the pids that were assigned last (loadavg(5)).
fn newest() -> Range<u32> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let last = text.split_ascii_whitespace().last();
    let last: u32 = last.and_then(|last| last.parse().ok()).unwrap_or(0);
    last.saturating_sub(NEWEST)..last.saturating_add(2)
}

/// Whether this is the id of a thread that is not the first of its process. `/proc` has a folder for it but does not list
/// it; its process was read by its own pid.
fn is_thread(pid: Pid) -> bool {
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.split(|&byte| byte == b'\n');
    let group = lines.find_map(|line| line.strip_prefix(b"Tgid:"));
    let group = group.and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok());
    group.is_some_and(|group: u32| group != pid.0)
}

fn merge(all: &mut HashMap<NetnsInode, Vec<Pid>>, part: HashMap<NetnsInode, Vec<Pid>>) {
    for (netns, more) in part {
        let pids = all.entry(netns).or_default();
        pids.extend(more);
        pids.sort_unstable();
        pids.dedup();
    }
}

/// Whether a process is in this namespace.
#[must_use]
pub fn is_in_netns(pid: Pid, netns: NetnsInode) -> bool {
    open_proc().is_ok_and(|proc| netns_now(proc.as_fd(), pid) == Ok(netns))
}

/// Returns the name of a process (comm); `None` if it has ended.
#[must_use]
pub fn process_name(pid: Pid) -> Option<Vec<u8>> {
    let mut comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Some(comm)
}

/// Number of processes that may start while one ends.
const NEWEST: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_netns::own_namespace;

    #[test]
    fn thread_id_is_no_process() {
        let tid = std::thread::spawn(|| {
            let tid = Pid(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
            (tid, is_thread(tid))
        });
        let (tid, is_thread_of_ours) = tid.join().unwrap();
        assert!(is_thread_of_ours && tid.0 != std::process::id());
        assert!(!is_thread(Pid(std::process::id())) && !is_thread(Pid(u32::MAX)));
    }

    #[test]
    fn our_process_is_in_our_namespace() {
        let own = own_namespace().unwrap();
        let pid = Pid(std::process::id());
        let found = NetnsProcesses::find(&[own].into()).unwrap();
        assert!(found.of(own).contains(&pid) && found.of(NetnsInode(1)).is_empty());
        assert!(
            is_in_netns(pid, own) && !is_in_netns(pid, NetnsInode(1)) && !is_in_netns(Pid(u32::MAX), own)
        );
        assert!(process_name(pid).is_some_and(|name| !name.is_empty()));
        assert_eq!(process_name(Pid(u32::MAX)), None);
        assert!(NetnsProcesses::find(&HashSet::new()).unwrap().of(own).is_empty());
    }
}
