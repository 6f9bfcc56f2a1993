//! One process per network namespace, from a scan of `/proc` or from our BPF programs. `netns_name` takes the
//! label of a namespace without a name from it; `query` uses it to find and enter namespaces.

use crate::bpf::BpfEngine;
use crate::proc_folder::{open_proc, processes};
use crate::process_netns::netns_now;
use crate::threads::for_each;
use crate::unavailable::Unavailable;
use rustix::fd::AsFd;
use rustix::io::Errno;
use sockeye_model::{CgroupId, Comm, Losses, NetnsInode, Pid};
use std::collections::HashMap;

/// The first process (with the lowest pid) of each network namespace. A namespace without a name is labelled with it.
///
/// Filled by one call of [`record`](Self::record) per process, in any order, or by [`FirstProcesses::scan`].
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

/// A process and its network namespace.
#[derive(Debug, Clone, Copy)]
pub struct SeenProcess<'a> {
    /// Its network namespace.
    pub netns: NetnsInode,
    /// Its pid in our pid namespace.
    pub pid: Pid,
    /// Its name; if `None`, `/proc/PID/comm` is read when needed.
    pub comm: Option<&'a [u8]>,
    /// Its cgroup; if `None`, `/proc/PID/cgroup` is read when needed.
    pub cgroup: Option<SeenCgroup<'a>>,
}

/// The cgroup of a process.
#[derive(Debug, Clone, Copy)]
pub enum SeenCgroup<'a> {
    /// Its id; the path is looked up when needed.
    Id(CgroupId),
    /// Its path below the cgroup mount.
    Path(&'a [u8]),
}

/// What is stored of a first process.
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
    /// A process of which nothing else is known.
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
    /// Reads the namespace of every process in `/proc`: one `readlink` each, which opens no namespace.
    ///
    /// # Errors
    /// When `/proc` cannot be read. A process that ended meanwhile is skipped; one that may not be read is counted
    /// ([`losses`](Self::losses)).
    pub fn scan() -> std::io::Result<Self> {
        let proc = open_proc()?;
        let pids = processes(proc.as_fd())?;
        let mut parts = for_each(&pids, |&pid, first: &mut Self| {
            match netns_now(proc.as_fd(), pid) {
                Ok(netns) => first.record(&SeenProcess::of(netns, pid)),
                // It ended: if it was the only process of its namespace, that is gone too.
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

    /// Reads all processes by our BPF programs, without `/proc`.
    ///
    /// # Errors
    /// When the programs do not run here.
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

    /// Returns what a [`scan`](Self::scan) could not read.
    #[must_use]
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// Records a process, if it is the first of its namespace so far.
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

    /// Returns the first process of this namespace; `None` if unknown.
    #[must_use]
    pub fn of(&self, netns: NetnsInode) -> Option<Pid> {
        self.get(netns).map(|first| first.pid)
    }

    pub(super) fn get(&self, netns: NetnsInode) -> Option<&First> {
        self.by_netns.get(&netns)
    }

    /// Returns every namespace with a process, and its first process, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (NetnsInode, Pid)> {
        self.by_netns.iter().map(|(netns, first)| (*netns, first.pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_netns::{netns_of, own_namespace};

    #[test]
    fn lowest_pid_is_first_in_any_order() {
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
    fn scan_finds_our_own_namespace() {
        let own = own_namespace().expect("proc is mounted");
        let first = FirstProcesses::scan().unwrap();
        let pid = first.of(own).expect("we are in it");
        assert!(pid.0 <= std::process::id());
        let proc = open_proc().unwrap();
        assert_eq!(netns_of(proc.as_fd(), Pid(std::process::id())), Ok(own));
        assert_eq!(netns_of(proc.as_fd(), Pid(u32::MAX)), Err(Errno::NOENT));
    }
}
