use crate::names::{netns_now, open_proc};
use crate::owners::{Decimal, for_each, processes};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use sockeye_model::{NetnsInode, Pid};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Range;

/// Who lives in network namespaces.
#[derive(Debug, Default)]
pub struct NetnsProcesses {
    by_netns: HashMap<NetnsInode, Vec<Pid>>,
    by_thread: HashMap<NetnsInode, Vec<Pid>>,
    unreadable: u64,
}

impl NetnsProcesses {
    /// Of these namespaces: one `readlink` for each process of the host, and for each thread of those that have several;
    /// none if there are no namespaces.
    ///
    /// # Errors
    /// When there is no `/proc` to read, or it is not ours: it has no folder of us.
    pub fn find(namespaces: &HashSet<NetnsInode>) -> std::io::Result<Self> {
        let mut all = Self::default();
        if namespaces.is_empty() {
            return Ok(all);
        }
        // Without it, nobody would seem to live anywhere.
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
        // Those that began meanwhile: of a chain of processes each of which starts the next and ends, a look at what was
        // there at the beginning comes too late for every one.
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

    /// The processes in this one, in the order of their numbers. A process counts as where its first thread is.
    #[must_use]
    pub fn of(&self, netns: NetnsInode) -> &[Pid] {
        self.by_netns.get(&netns).map_or(&[], Vec::as_slice)
    }

    /// The processes that live elsewhere, but have a thread in this one.
    #[must_use]
    pub fn by_thread(&self, netns: NetnsInode) -> &[Pid] {
        self.by_thread.get(&netns).map_or(&[], Vec::as_slice)
    }

    /// How many processes do not tell where they are.
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
        // Two links of every folder, and one more of each thread (`proc_task_getattr()`).
        let threads = statat(proc, path.as_c_str(), AtFlags::empty()).map_or(0, |folder| folder.st_nlink);
        if threads <= 3 {
            return;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = openat(proc, path.as_c_str(), flags, Mode::empty()) else {
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

/// The numbers that were given to processes last (loadavg(5)).
fn newest() -> Range<u32> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let last = text.split_ascii_whitespace().last();
    let last: u32 = last.and_then(|last| last.parse().ok()).unwrap_or(0);
    last.saturating_sub(NEWEST)..last.saturating_add(2)
}

/// Whether this is the number of a thread that is not its process's first: `/proc` has a folder for it, but does not list
/// it, and its process was looked at by its own number.
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

/// Whether a process is in this namespace still.
#[must_use]
pub fn is_in_netns(pid: Pid, netns: NetnsInode) -> bool {
    open_proc().is_ok_and(|proc| netns_now(proc.as_fd(), pid) == Ok(netns))
}

/// What a process is called; `None`: it has ended.
#[must_use]
pub fn process_name(pid: Pid) -> Option<Vec<u8>> {
    let mut comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Some(comm)
}

/// So many processes may begin while one ends.
const NEWEST: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::own_namespace;

    #[test]
    fn a_thread_is_no_process() {
        let tid = std::thread::spawn(|| {
            let tid = Pid(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
            (tid, is_thread(tid))
        });
        let (tid, is_thread_of_ours) = tid.join().unwrap();
        assert!(is_thread_of_ours && tid.0 != std::process::id());
        assert!(!is_thread(Pid(std::process::id())) && !is_thread(Pid(u32::MAX)));
    }

    #[test]
    fn we_live_where_we_are() {
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
