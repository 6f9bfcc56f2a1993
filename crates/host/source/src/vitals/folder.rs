//! Opens `/proc/sys/net` for `reader.rs` and `host.rs`: on a private procfs where it can mount one, else on
//! the mounted procfs. It renews the private one regularly, because a look-up slows down with each visited
//! namespace.

use crate::proc_folder::open_folder;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::CWD;
use rustix::io::Errno;
use sockeye_sys::mounts::detached_procfs;

/// `/proc/sys/net` of the network namespace that the thread is in.
#[derive(Debug)]
pub(super) enum Folder {
    None,
    /// On the mounted procfs.
    Mounted(OwnedFd),
    /// On a private procfs, with the number of namespaces that it may still be used for.
    Own(OwnedFd, u32),
}

impl Folder {
    pub(super) fn open() -> Self {
        if let Ok(folder) = Self::own() {
            return folder;
        }
        open_folder(CWD, c"/proc/sys/net").map_or(Self::None, Self::Mounted)
    }

    fn own() -> Result<Self, Errno> {
        let root = detached_procfs()?;
        let net = open_folder(root.as_fd(), c"sys/net")?;
        // The private procfs lives as long as a descriptor below its root is open.
        Ok(Self::Own(net, VISITS_MAX))
    }

    /// Returns the folder for one more namespace.
    pub(super) fn visit(&mut self) -> Option<BorrowedFd<'_>> {
        if let Self::Own(_, left) = self {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => *self = Self::open(),
            }
        }
        match &*self {
            Self::None => None,
            Self::Mounted(net) | Self::Own(net, _) => Some(net.as_fd()),
        }
    }
}

/// Namespaces per private procfs. The kernel searches the folder of a namespace linearly among all that were visited; a new
/// procfs takes 0.1 ms.
const VISITS_MAX: u32 = 32;
