use crate::bpf::{BpfEngine, Unavailable};
use crate::owners::{Decimal, for_each, processes};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, open, readlinkat_raw};
use rustix::io::Errno;
use sockeye_model::{CgroupId, Comm, Losses, NetnsInode, Pid};
use sockeye_wire::proc_pid;
use std::collections::HashMap;
use std::mem::MaybeUninit;

/// The first process (that with the lowest pid) in each network namespace: whom a namespace without a name is
/// called after.
///
/// Filled by whoever passes by all processes anyway, one [`record`](Self::record) for each, in any order; or by
/// [`FirstProcesses::scan`].
///
/// ```
/// use sockeye_model::{NetnsInode, Pid};
/// use sockeye_source::names::{FirstProcesses, SeenProcess};
///
/// let here = NetnsInode(4_026_531_840);
/// let mut first = FirstProcesses::default();
/// for (pid, comm) in [(20, "worker"), (7, "init")] {
///     first.record(&SeenProcess { comm: Some(comm.as_bytes()), ..SeenProcess::of(here, Pid(pid)) });
/// }
/// assert_eq!(first.of(here), Some(Pid(7)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct FirstProcesses {
    by_netns: HashMap<NetnsInode, First>,
    losses: Losses,
}

/// One process, as somebody came upon it.
#[derive(Debug, Clone, Copy)]
pub struct SeenProcess<'a> {
    /// The network namespace it is in.
    pub netns: NetnsInode,
    /// Its number in our own pid namespace, or `/proc` has no folder of it.
    pub pid: Pid,
    /// Its name, if it came along; else `/proc/PID/comm` is read when it matters.
    pub comm: Option<&'a [u8]>,
    /// Its cgroup, likewise.
    pub cgroup: Option<SeenCgroup<'a>>,
}

/// How a process's cgroup was told.
#[derive(Debug, Clone, Copy)]
pub enum SeenCgroup<'a> {
    /// By its id; its path is looked up when it matters.
    Id(CgroupId),
    /// By its path below the cgroup mount.
    Path(&'a [u8]),
}

/// What is kept of the first.
#[derive(Debug, Clone)]
pub(super) struct First {
    pub(super) pid: Pid,
    pub(super) comm: Option<Comm>,
    pub(super) cgroup: Option<KnownCgroup>,
}

#[derive(Debug, Clone)]
pub(super) enum KnownCgroup {
    Id(CgroupId),
    Path(Box<[u8]>),
}

impl SeenProcess<'_> {
    /// Of a process nothing else is known about.
    #[must_use]
    pub const fn of(netns: NetnsInode, pid: Pid) -> Self {
        Self {
            netns,
            pid,
            comm: None,
            cgroup: None,
        }
    }
}

impl FirstProcesses {
    /// Asks every process in `/proc` where it is: one `readlink` each, which opens no namespace.
    ///
    /// # Errors
    /// When there is no `/proc` to read. A process that ended meanwhile is no error, one that does not tell
    /// ([`losses`](Self::losses)) neither.
    pub fn scan() -> std::io::Result<Self> {
        let proc = open_proc()?;
        let pids = processes(proc.as_fd())?;
        let mut parts = for_each(&pids, |&pid, first: &mut Self| {
            match netns_now(proc.as_fd(), pid) {
                Ok(netns) => first.record(&SeenProcess::of(netns, pid)),
                // It ended: what was in its namespace alone is gone too.
                Err(Errno::NOENT | Errno::SRCH) => {}
                Err(_) => first.losses.unreadable_processes += 1,
            }
        })
        .into_iter();
        let mut all = parts.next().unwrap_or_default();
        for part in parts {
            all.losses += part.losses;
            for (netns, first) in part.by_netns {
                all.record(&SeenProcess::of(netns, first.pid));
            }
        }
        Ok(all)
    }

    /// Asks our BPF programs, which know of every process without a look at `/proc`.
    ///
    /// # Errors
    /// When they do not run here.
    pub fn from_bpf(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let mut all = Self::default();
        for found in engine.processes()? {
            if let Some(netns) = found.netns {
                all.record(&SeenProcess {
                    netns,
                    pid: found.process.pid,
                    comm: Some(found.process.comm.as_bytes()),
                    cgroup: Some(SeenCgroup::Id(CgroupId(found.cgroup))),
                });
            }
        }
        Ok(all)
    }

    /// What a [`scan`](Self::scan) could not see.
    #[must_use]
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// Takes note of a process, if it is the first of its namespace so far.
    pub fn record(&mut self, seen: &SeenProcess<'_>) {
        let known = self.by_netns.get(&seen.netns);
        if known.is_none_or(|known| seen.pid < known.pid) {
            let first = First {
                pid: seen.pid,
                comm: seen.comm.map(Comm::new),
                cgroup: seen.cgroup.map(|cgroup| match cgroup {
                    SeenCgroup::Id(id) => KnownCgroup::Id(id),
                    SeenCgroup::Path(path) => KnownCgroup::Path(path.into()),
                }),
            };
            self.by_netns.insert(seen.netns, first);
        }
    }

    /// The first process in this namespace.
    #[must_use]
    pub fn of(&self, netns: NetnsInode) -> Option<Pid> {
        self.get(netns).map(|first| first.pid)
    }

    pub(super) fn get(&self, netns: NetnsInode) -> Option<&First> {
        self.by_netns.get(&netns)
    }

    /// Every namespace that has a process, with the first one, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (NetnsInode, Pid)> {
        self.by_netns.iter().map(|(netns, first)| (*netns, first.pid))
    }
}

/// `/proc`, to be asked about one process after the other.
pub(crate) fn open_proc() -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open("/proc", flags, Mode::empty())
}

/// The network namespace this process is in; `NOENT` or `SRCH` if it ended.
pub(crate) fn netns_now(proc: BorrowedFd<'_>, pid: Pid) -> Result<NetnsInode, Errno> {
    match netns_of(proc, pid) {
        // The kernel also says so of a process that ends this very moment (`proc_ns_readlink()`), and something
        // else the next time.
        Err(Errno::ACCESS) => netns_of(proc, pid),
        found => found,
    }
}

/// The network namespace this process is in. As `stat` would tell too, but without making an inode for each
/// namespace.
pub(crate) fn netns_of(proc: BorrowedFd<'_>, pid: Pid) -> Result<NetnsInode, Errno> {
    let mut target = [MaybeUninit::uninit(); 32];
    let path = Decimal::with_suffix(pid.0, "/ns/net");
    let (target, _) = readlinkat_raw(proc, path.as_c_str(), &mut target)?;
    let inode = proc_pid::netns_inode(target).and_then(|inode| u32::try_from(inode).ok());
    // A kernel without network namespaces has no such link; with them it is of this form.
    inode.map(NetnsInode).ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_pid_wins_in_any_order() {
        let (here, there) = (NetnsInode(1), NetnsInode(2));
        let mut first = FirstProcesses::default();
        for (netns, pid, comm) in [
            (here, 9, "nine"),
            (there, 4, "four"),
            (here, 3, "three"),
            (here, 5, "five"),
        ] {
            first.record(&SeenProcess {
                comm: Some(comm.as_bytes()),
                cgroup: Some(SeenCgroup::Path(comm.as_bytes())),
                ..SeenProcess::of(netns, Pid(pid))
            });
        }
        let mut all: Vec<_> = first.iter().collect();
        all.sort_unstable();
        assert_eq!(all, [(here, Pid(3)), (there, Pid(4))]);
        let known = first.get(here).unwrap();
        assert_eq!(known.comm, Some(Comm::new(b"three")));
        assert!(matches!(&known.cgroup, Some(KnownCgroup::Path(path)) if **path == *b"three"));
        assert_eq!(first.of(NetnsInode(3)), None);
    }

    #[test]
    fn finds_ourselves() {
        let own = super::super::namespaces::own().expect("proc is mounted");
        let first = FirstProcesses::scan().unwrap();
        let pid = first.of(own).expect("we are in it");
        assert!(pid.0 <= std::process::id());
        let proc = open_proc().unwrap();
        assert_eq!(netns_of(proc.as_fd(), Pid(std::process::id())), Ok(own));
        assert_eq!(netns_of(proc.as_fd(), Pid(u32::MAX)), Err(Errno::NOENT));
    }
}
