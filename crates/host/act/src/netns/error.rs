//! Error type of the files in this folder that change namespaces: the step, the path, the kernel's error and
//! a remedy. The commands `ns add`, `del`, `attach` and `set` print it.

use crate::route::RouteError;
use rustix::io::Errno;
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{CheckedIn, in_user_namespace, remedy};
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// A failed step on a network namespace, with the kernel's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetnsError {
    /// The step that failed.
    pub step: NetnsStep,
    /// Path of the name.
    pub path: PathBuf,
    /// The kernel's error.
    pub error: RouteError,
}

/// A step of creating, naming or removing a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the texts describe them
pub enum NetnsStep {
    MakeFolder,
    OpenFolder,
    ShareFolder,
    CheckPath,
    Unshare,
    OpenNamespace,
    OpenProcess,
    BringLoopbackUp,
    MakePair,
    AddAddress,
    CreateName,
    Bind,
    Unlink,
    Number,
}

impl NetnsStep {
    pub(crate) fn on(self, path: impl Into<PathBuf>, error: impl Into<RouteError>) -> NetnsError {
        NetnsError {
            step: self,
            path: path.into(),
            error: error.into(),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::MakeFolder => "make the folder",
            Self::OpenFolder => "open the folder",
            Self::ShareFolder => "share the mounts below",
            Self::CheckPath => "look what is at",
            Self::Unshare => "make a network namespace for",
            Self::OpenProcess => "open the network namespace of a process,",
            Self::OpenNamespace => "open the network namespace",
            Self::BringLoopbackUp => "bring lo up for",
            Self::MakePair => "make a veth pair for",
            Self::AddAddress => "add an address for",
            Self::CreateName => "create the file",
            Self::Bind => "bind the network namespace to",
            Self::Unlink => "remove",
            Self::Number => "give a number to",
        }
    }
}

impl NetnsError {
    /// Returns a hint at what may help; `None` if there is none.
    #[must_use]
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match (self.error.errno, self.step) {
            (Errno::EXIST, NetnsStep::CreateName) => "that name is in use; `sockeye ns list` shows it",
            (Errno::EXIST, NetnsStep::MakePair) => {
                "an interface of that name is there already: `ip link` shows it"
            }
            (Errno::EXIST, NetnsStep::Number) => {
                "it has a number already, or another namespace has this one: `ip netns list-id` shows them"
            }
            (
                Errno::PERM | Errno::ACCESS,
                NetnsStep::MakePair | NetnsStep::AddAddress | NetnsStep::BringLoopbackUp,
            ) => {
                let remedy = remedy("CAP_NET_ADMIN", CheckedIn::OwnerOfNetns);
                return Some(format!("needs CAP_NET_ADMIN: {remedy}").into());
            }
            (Errno::PERM, NetnsStep::ShareFolder) if in_user_namespace() => {
                "needs CAP_SYS_ADMIN in the user namespace that owns the mount namespace: `unshare -m` makes one for this user \
                 namespace (as `unshare -Urnm` does), or be root in the initial user namespace"
            }
            (Errno::PERM | Errno::ACCESS, _) => {
                let remedy = remedy("it", CheckedIn::Initial);
                return Some(format!("needs CAP_SYS_ADMIN, and to write to /run: {remedy}").into());
            }
            // `/proc/thread-self` or `/proc/PID` leads to the namespace.
            (Errno::NOENT, step)
                if (step == NetnsStep::Bind || self.path.starts_with("/proc"))
                    && proc_mount::problem().is_some() =>
            {
                return proc_mount::problem().map(|problem| problem.to_string().into());
            }
            (Errno::NOSPC, NetnsStep::Unshare) => {
                "there are as many as user.max_net_namespaces allows: `sysctl -w user.max_net_namespaces=N` raises it"
            }
            (Errno::NOSPC, NetnsStep::Bind) => {
                "there are as many mounts as fs.mount-max allows: `sysctl -w fs.mount-max=N` raises it"
            }
            (Errno::NOSPC | Errno::DQUOT, _) => "the file system of /run is full: `df /run`, `df -i /run`",
            (Errno::ROFS, _) => "/run is mounted read-only: `mount -o remount,rw /run`",
            (Errno::MFILE, _) => "too many open files: `ulimit -n N` raises the limit",
            (Errno::NFILE, _) => {
                "the host has too many open files: `sysctl -w fs.file-max=N` raises the limit"
            }
            (Errno::NOMEM, _) => "the kernel is out of memory, or of its cgroup's share",
            (Errno::NOENT, NetnsStep::Unlink | NetnsStep::OpenNamespace) => {
                "there is none of that name: `sockeye ns list -1` shows them"
            }
            (Errno::NOTEMPTY, NetnsStep::Unlink) => {
                "that is no name of a namespace, nor what is left of one; remove it yourself"
            }
            (Errno::NOENT | Errno::SRCH, NetnsStep::OpenProcess) => {
                "there is no such process, or it has ended"
            }
            (Errno::INVAL, NetnsStep::OpenNamespace) => "that file is no network namespace",
            (Errno::BUSY, NetnsStep::Unlink) => "something is still mounted there",
            _ => return None,
        };
        Some(text.into())
    }
}

impl fmt::Display for NetnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}", self.step.text(), self.path, self.error)
    }
}

impl std::error::Error for NetnsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
