use crate::route::Refusal;
use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;

/// What could not be done for a network namespace, and what the kernel said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What.
    pub act: Act,
    /// For which name.
    pub path: PathBuf,
    /// Why not.
    pub refusal: Refusal,
}

/// The steps in which namespaces are made, named, and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is told by its text
pub enum Act {
    MakeFolder,
    OpenFolder,
    ShareFolder,
    FindRoom,
    Unshare,
    OpenNamespace,
    OpenProcess,
    RaiseLoopback,
    MakePair,
    AddAddress,
    CreateName,
    Bind,
    Unlink,
    Number,
}

impl Act {
    pub(crate) fn on(self, path: impl Into<PathBuf>, refusal: impl Into<Refusal>) -> Failure {
        Failure {
            act: self,
            path: path.into(),
            refusal: refusal.into(),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::MakeFolder => "make the folder",
            Self::OpenFolder => "open the folder",
            Self::ShareFolder => "share the mounts below",
            Self::FindRoom => "look what is at",
            Self::Unshare => "make a network namespace for",
            Self::OpenProcess => "open the network namespace of a process,",
            Self::OpenNamespace => "open the network namespace",
            Self::RaiseLoopback => "bring lo up for",
            Self::MakePair => "make a veth pair for",
            Self::AddAddress => "add an address for",
            Self::CreateName => "create the file",
            Self::Bind => "bind the network namespace to",
            Self::Unlink => "remove",
            Self::Number => "give a number to",
        }
    }
}

impl Failure {
    /// What may help.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match (self.refusal.errno, self.act) {
            (Errno::EXIST, Act::CreateName) => "that name is in use; `sockeye ns list` shows it",
            (Errno::EXIST, Act::MakePair) => "an interface of that name is there already: `ip link` shows it",
            (Errno::EXIST, Act::Number) => {
                "it has a number already, or another namespace has this one: `ip netns list-id` shows them"
            }
            (Errno::PERM | Errno::ACCESS, Act::MakePair | Act::AddAddress | Act::RaiseLoopback) => {
                "needs CAP_NET_ADMIN: run as root"
            }
            (Errno::PERM | Errno::ACCESS, _) => {
                "needs CAP_SYS_ADMIN, and to write to /run: run as root of the host"
            }
            (Errno::NOSPC, Act::Unshare) => {
                "there are as many as user.max_net_namespaces allows: `sysctl -w user.max_net_namespaces=N` raises it"
            }
            (Errno::NOSPC, Act::Bind) => {
                "there are as many mounts as fs.mount-max allows: `sysctl -w fs.mount-max=N` raises it"
            }
            (Errno::NOSPC | Errno::DQUOT, _) => "the file system of /run is full: `df /run`, `df -i /run`",
            (Errno::ROFS, _) => "/run is mounted read-only: `mount -o remount,rw /run`",
            (Errno::MFILE, _) => "too many open files: `ulimit -n N` raises the limit",
            (Errno::NFILE, _) => {
                "the host has too many open files: `sysctl -w fs.file-max=N` raises the limit"
            }
            (Errno::NOMEM, _) => "the kernel is out of memory, or of its cgroup's share",
            (Errno::NOENT, Act::Unlink | Act::OpenNamespace) => {
                "there is none of that name: `sockeye ns list -1` shows them"
            }
            (Errno::NOTEMPTY, Act::Unlink) => {
                "that is no name of a namespace, nor what is left of one; remove it yourself"
            }
            (Errno::NOENT | Errno::SRCH, Act::OpenProcess) => "there is no such process, or it has ended",
            (Errno::NOENT, Act::Bind) => "is /proc mounted?",
            (Errno::INVAL, Act::OpenNamespace) => "that file is no network namespace",
            (Errno::BUSY, Act::Unlink) => "something is still mounted there",
            _ => return None,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}", self.act.text(), self.path, self.refusal)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.refusal)
    }
}
